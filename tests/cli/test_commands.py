"""Every command as a user runs it."""

import csv
import logging
import re
import time

import numpy as np
import pandas as pd
import pytest
import typer

from pigmil import Bags, __version__, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.cli import _console
from pigmil.cli._app import app
from pigmil.cli._compare import RIVALS
from pigmil.cli._inputs import reading_parameters
from pigmil.estimators import all_estimators

COLUMNS = ("--bag", "molecule", "--label", "active", "--info", "note")
LABELLED = (*COLUMNS, "--positive", "yes")
COMMANDS = (
    ("demo",), ("detect",), ("fit",), ("predict",), ("heatmap",), ("compare",),
    ("convert",), ("methods",), ("datasets", "list"), ("datasets", "info"), ("datasets", "fetch"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_describes_every_command(pigmil, command):
    found = pigmil(*command, "--help")
    assert found.status == 0
    assert "--json" in found.out
    assert "Example" in found.out or command == ("datasets", "list")


def test_version(pigmil):
    assert pigmil("--version").out == f"pigmil {__version__}\n"


def test_detect_ranks_the_planted_instances_first(pigmil, table, folder, rows_of):
    # The 60 instances of negative bags are too few for calls at the default level of 10 %.
    found = pigmil("detect", table, *LABELLED, "--top", "3", "-m", "SIL", "--fdr", "0.3")
    assert found.status == 0
    assert "SIL detected 1" in found.out
    assert "at a false discovery rate of 30 %" in found.out
    assert "Held-out bags ranked by their best instance: AUC" in found.out
    assert re.search(r"How sure is this\? (good|weak), confidence (0\.\d\d|1\.00) of 1", found.out)
    assert "row 2" in found.out  # the note of the best instances is printed
    rows = rows_of("molecules-instances.csv")
    assert len(rows) == 60
    assert {row["note"] for row in rows[:12]} == {"row 2"}
    detected = [row for row in rows if row["detected"] == "true"]
    assert sum(row["instance"] == "2" for row in detected) >= 10
    assert sum(row["instance"] != "2" for row in detected) <= 0.3 * len(detected)
    assert detected == [row for row in rows if float(row["adjusted_p_value"]) <= 0.3]
    assert sum(row["best_of_bag"] == "true" for row in rows) == 12
    assert "wrote molecules-instances.csv" in found.out
    assert "wrote molecules-report.html" in found.out
    page = (folder / "molecules-report.html").read_text("utf-8")
    assert "pigmil report" in page


def test_detect_learns_from_marks(pigmil, table, folder, rows_of):
    marks = "bag,instance,positive\nm1,2,yes\nm1,0,no\nm3,1,no\n"
    (folder / "marks.csv").write_text(marks)
    call = ("detect", table, *LABELLED, "-m", "SIL", "--marks", "marks.csv")
    found = pigmil(*call, "--fdr", "0.3")
    assert found.status == 0
    assert "Marks used: 1 positive, 2 negative." in found.out
    rows = {(row["bag"], row["instance"]): row for row in rows_of("molecules-instances.csv")}
    assert len(rows) == 60
    assert [rows["m1", "2"][name] for name in ("mark", "detected")] == ["positive", "true"]
    assert [rows["m1", "0"][name] for name in ("mark", "detected")] == ["negative", "false"]
    assert rows["m3", "0"]["mark"] == ""
    page = (folder / "molecules-report.html").read_text("utf-8")
    assert "1 positive, 2 negative; the method learned from them" in page
    (folder / "marks.csv").write_text(marks + "m0,1,yes\n")
    found = pigmil(*call)
    assert found.status != 0
    assert "Bag 'm0' is negative, but its instance 1 is marked positive" in found.err


def test_too_few_bags_are_an_error_only_if_a_level_is_asked_for(pigmil, table, folder):
    lines = table.read_text().splitlines()
    small = folder / "small.csv"
    small.write_text("\n".join(lines[:16]) + "\n")  # m0 and m2 are negative, m1 is positive
    call = ("detect", small, *LABELLED, "-m", "KDE", "--no-report")
    found = pigmil(*call, "--json")
    assert found.status == 0
    assert found.json["fdr"] is None
    assert "The share of false detections cannot be estimated" in found.err
    found = pigmil(*call, "-q")
    assert (found.status, found.out, found.err) == (0, "", "")
    assert not (folder / "small-report.html").exists()
    assert pigmil(*call, "--fdr", "0.1").status != 0


def test_detect_for_machines(pigmil, table, folder):
    # MILES scores what its chosen instances touch, and nothing else: other scores are no numbers.
    found = pigmil("detect", table, *LABELLED, "--method", "MILES", "--json",
                   "-o", "ranked.parquet", "--report", "report.md")  # fmt: skip
    assert found.status == 0
    assert found.json["method"] == "MILES"
    assert found.json["positive_bags"] == len(found.json["best_of_each_bag"]) == 12
    assert found.json["fdr"] == 0.1
    assert found.json["diagnosis"]["verdict"] in ("good", "weak")
    assert found.json["files"] == ["ranked.parquet", "report.md"]
    assert len(pd.read_parquet(folder / "ranked.parquet")) == 60
    assert "# MILES on molecules.csv" in (folder / "report.md").read_text("utf-8")


def test_fit_then_predict(pigmil, table, rows_of):
    assert pigmil("fit", table, *LABELLED, "-o", "m.skops").status == 0
    found = pigmil("predict", "m.skops", table, *COLUMNS, "--instances", "scores.csv", "--json")
    assert found.status == 0
    assert found.json["accuracy"] == 1.0
    rows = rows_of("molecules-predictions.csv")
    assert [row["bag"] for row in rows] == [f"m{number}" for number in range(24)]
    assert all((float(row["decision"]) > 0) == (row["predicted"] == "yes") for row in rows)
    ranked = rows_of("scores.csv")
    assert len(ranked) == 120
    scores = [float(row["score"]) for row in ranked]
    assert scores == sorted(scores, reverse=True)
    assert {(row["note"], row["rank"]) for row in ranked[:12]} == {("row 2", "1")}


def test_predict_picks_features_by_name(pigmil, table, folder, rows_of):
    assert pigmil("fit", table, *LABELLED, "-o", "m.skops", "-m", "MISVM").status == 0
    with (folder / "turned.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["charge", "molecule", "extra", "mass"])
        writer.writerows([r["charge"], r["molecule"], 7, r["mass"]] for r in rows_of(table))
    plain = pigmil("predict", "m.skops", table, *COLUMNS, "-o", "plain.csv")
    other = pigmil("predict", "m.skops", "turned.csv", "--bag", "molecule", "-o", "other.csv")
    assert (plain.status, other.status) == (0, 0)
    assert "'extra'" in other.err
    first, second = ([r["decision"] for r in rows_of(name)] for name in ("plain.csv", "other.csv"))
    assert first == second


def test_convert_there_and_back(pigmil, table, folder):
    bags = read_bags(table, bag="molecule", label="active", info=["note"])
    found = pigmil("convert", table, "out.parquet", *COLUMNS)
    assert found.status == 0, found.err
    assert pigmil("convert", "out.parquet", "again.npz", "--json").json["bags"] == 24
    back = read_bags(folder / "again.npz")
    assert back.offsets.tolist() == bags.offsets.tolist()
    assert back.ids.tolist() == bags.ids.tolist()
    assert (back.instances == bags.instances).all()


def test_methods_lists_every_card(pigmil):
    cards = pigmil("methods", "--json").json["methods"]
    assert [card["name"] for card in cards] == [card.name for card in all_estimators()]
    assert "PIGMIL" in pigmil("methods").out
    assert pigmil("methods", "KDE_min", "--json").json["detects"] is True
    assert "grid" not in pigmil("methods", "KDE_min").out  # nothing to say
    assert "{'gamma'" in pigmil("methods", "miGraph").out


def test_data_sets_are_listed_and_described(pigmil):
    names = [entry["name"] for entry in pigmil("datasets", "list", "--json").json["datasets"]]
    assert "musk1" in names
    assert pigmil("datasets", "info", "musk1", "--json").json["features"] == 166
    text = pigmil("datasets", "info", "musk1").out
    assert re.search(r"positive +47\n", text)
    assert "defects" not in text  # empty fields are left out
    assert "{" not in text


def test_formulas_are_escaped_in_csv(pigmil, folder):
    bags = Bags.from_list(
        [np.array([[0.0], [float(i)]]) for i in range(4)],
        ids=["=1+1", "-5", "@x", "ok"],
        y=[0, 1, 0, 1],
        instance_info={"+note": ["=A1"] * 8},
    )
    write_bags(bags, "bags.npz")
    call = ("detect", "bags.npz", "-m", "KDE", "--no-report")
    assert pigmil(*call).status == 0
    escaped = (folder / "bags-instances.csv").read_text()
    assert "'=A1" in escaped
    assert "'+note" in escaped
    assert '"-5"' in escaped  # a number is no formula
    assert pigmil(*call, "-o", "out.parquet").status == 0
    assert pd.read_parquet(folder / "out.parquet")["+note"][0] == "=A1"


def test_fetch_loads_from_the_data_folder(pigmil, data_dir):
    assert (
        "20 bags" in pigmil("datasets", "fetch", "eastwest", "--json").json["fetched"]["eastwest"]
    )


def test_compare_resumes_and_reports(pigmil, table, folder):
    call = ("compare", table, *LABELLED, "-m", "MI-Kernel,MISVM", "--repeats", "1", "--folds", "2",
            "--no-tune", "--json")  # fmt: skip
    first = pigmil(*call)
    assert first.status == 0
    assert set(first.json["table"]["molecules"]) == {"MI-Kernel", "MI-SVM", *RIVALS}
    names = ["c.md", "c.tex", "c.csv", "c.json"]
    exports = [part for name in names for part in ("--export", name)]
    again = pigmil(*call, "--report", "c.html", *exports)
    assert again.json["table"] == first.json["table"]
    assert again.json["files"] == [*names, "c.html", "pigmil-results.sqlite"]
    assert "accuracy, %" in (folder / "c.html").read_text("utf-8")
    # Results are replaced, other files are not.
    assert pigmil(*call, *exports).status == 0
    (folder / "mine.csv").write_text("slide,stage\n")
    refused = pigmil(*call, "--export", "mine.csv")
    assert refused.status == 2
    assert "'mine.csv' exists and holds no results" in refused.json["error"]
    assert (folder / "mine.csv").read_text() == "slide,stage\n"


def test_commands_offer_few_options_in_groups(pigmil):
    for name in ("detect", "compare"):
        command = typer.main.get_command(app).commands[name]
        options = [one for one in command.params if one.param_type_name == "option"]
        assert len(options) <= 25
        assert all(one.help for one in command.params)
        assert {"Data", "Method", "Results"} <= {one.rich_help_panel for one in options}


@pytest.mark.parametrize(
    ("parameter", "prefix"), [("bag", "--bag: "), ("decimal", "--read decimal: "), ("other", "")]
)
def test_errors_name_the_option_of_their_parameter(pigmil, table, monkeypatch, parameter, prefix):
    def fail(*_, **__):
        raise BagFormatError("There is no column 'x'.", parameter=parameter)

    reading_parameters()  # are those of the function that is replaced here
    monkeypatch.setattr("pigmil.io.scan_bags", fail)
    found = pigmil("detect", table)
    assert found.status == 2
    assert found.err == f"error: {prefix}There is no column 'x'.\n"


def test_a_command_leaves_the_log_of_the_library_as_it_was(pigmil):
    logger = logging.getLogger("pigmil")
    before = list(logger.handlers), logger.propagate, logger.level
    assert pigmil("methods", "--debug").status == 0
    assert (logger.handlers, logger.propagate, logger.level) == before


def test_compare_distinguishes_more_than_two_classes(pigmil, folder):
    """Three text labels need no positive one; two do."""
    rows = ["bag,label,patient,x"]
    for number in range(18):
        kind = number % 3
        rows += [f"b{number},{'abc'[kind]},p{number // 6},{10 * kind + at}" for at in range(2)]
    (folder / "three.csv").write_text("\n".join(rows) + "\n")
    columns = ("--id", "bag", "--label", "label")
    call = ("compare", "three.csv", *columns, "-m", "MI-Kernel", "--repeats", "1", "--folds", "3",
            "--set", "rivals=false")  # fmt: skip
    found = pigmil(*call, "--group", "patient", "--no-tune", "--json")
    assert found.status == 0, found.err
    assert found.json["table"] == {"three": {"MI-Kernel": 100.0}}
    two = [row for row in rows if ",c," not in row]
    (folder / "two.csv").write_text("\n".join(two) + "\n")
    columns += ("--group", "patient")
    refused = pigmil("compare", "two.csv", *columns, "-m", "MI-Kernel", "--folds", "3")
    assert refused.status != 0
    assert "--positive a or --positive b" in refused.err.replace("\n", " ")


def test_demo_detects_what_is_positive(pigmil, folder):
    found = pigmil("demo", "-o", "out", "--json")
    assert found.status == 0
    rows = found.json["rows"]
    assert [row["data set"] for row in rows] == ["BASIC", "RHOMBUS", "RING"]
    assert (
        sum(row["truly positive"] for row in rows) >= 0.9 * sum(row["called"] for row in rows) > 0
    )
    assert {path.name for path in (folder / "out").iterdir()} == {"report.html"}


def test_a_log_file_shows_that_a_long_task_goes_on(monkeypatch, capsys):
    monkeypatch.setattr(_console, "_BEAT", 0.01)
    output = _console.Output(_console.OutputOptions(), None)
    with output.progress("fitting X") as report:
        report(3, 7, "fold")
        time.sleep(0.2)
        report(7, 7, "fold")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "fitting X: 0 s, 3 of 7 (fold)"
    assert len(lines) > 2
    assert lines[-1] == "fitting X, 7 of 7 (fold)"


def test_short_tasks_one_after_the_other_are_not_silent(monkeypatch, capsys):
    monkeypatch.setattr(_console, "_BEAT", 0.2)
    output = _console.Output(_console.OutputOptions(), None)
    for task in range(8):
        with output.progress(f"task {task}"):
            time.sleep(0.06)
    assert capsys.readouterr().err.startswith("task ")
