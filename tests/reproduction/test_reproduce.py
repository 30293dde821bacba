"""The reproduction as a whole, small: files, pages, and going on where it was."""

import json
import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from pigmil._core.errors import DataSetError
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.metrics import detection_accuracy
from pigmil.reproduction import pages, tables
from pigmil.reproduction.detection import Detection, detect, fitted
from pigmil.reproduction.run import FULL, QUICK, FigureSize, Size, reproduce
from pigmil.reproduction.tables import table1, table2, table2_methods

TINY = Size(
    seeds=1,
    figures=FigureSize(seeds=1, ratios=(0.5, 2.0), levels=(0, 3), fractions=(40, 100)),
    left_out={"table1": "Most of Table I.", "figures": "Most of the figures."},
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Table I and the figures, and what the second call of each reported."""
    folder = tmp_path_factory.mktemp("reproduction")
    steps = []
    mpl.use("agg")
    for part in ("table1", "figures"):
        place = folder / part
        written = reproduce(part, place, size=TINY, callback=lambda *step: steps.append(step))
        (place / "written.json").write_text(json.dumps([str(path) for path in written]))
    assert steps
    return folder


def test_every_file_is_named_and_there(folder):
    for part in ("table1", "figures"):
        written = [Path(path) for path in json.loads((folder / part / "written.json").read_text())]
        assert written[0].name == "README.md"
        assert len(set(written)) == len(written)
        there = {path.name for path in (folder / part).iterdir()} - {"written.json"}
        assert {path.name for path in written} == there


def test_the_page_links_only_to_files_that_are_there(folder):
    for part in ("table1", "figures"):
        text = (folder / part / "README.md").read_text("utf-8")
        links = re.findall(r"\]\(([^)]+)\)", text)
        assert links
        assert all((folder / part / link).is_file() for link in links)


def test_the_page_says_what_it_left_out_and_how_many_claims_hold(folder):
    text = (folder / "table1" / "README.md").read_text("utf-8")
    assert "- Most of Table I." in text
    assert "Most of the figures." not in text
    found = json.loads((folder / "table1" / "claims.json").read_text("utf-8"))
    assert f"**{sum(c['holds'] for c in found)} of {len(found)} checks" in text
    assert text.count("Does not hold") == sum(not c["holds"] for c in found)


def test_table_1_has_the_papers_column_beside_ours(folder):
    table = pd.read_csv(folder / "table1" / "table1.csv").set_index(["data", "method"])
    assert len(table) == 24
    assert table.loc[("BASIC", "mi-Sim"), "paper"] == 60.0
    assert table.loc[("RHOMBUS", "PIGMIL|paper"), "paper"] == 95.0
    bags, method = fitted(Detection("RHOMBUS", "KDE"), 0)
    truth = 100 * detection_accuracy(method.detected_instances_, bags.instance_labels)
    assert table.loc[("RHOMBUS", "KDE"), "ours"] == pytest.approx(truth)
    assert (table["failed"] == 0).all()
    assert (table.loc[[("BASIC", "DD"), ("RING", "MILD")], "covered"] == 100).all()


def test_pictures_are_drawn_in_both_formats(folder):
    names = ("data_sets", "detection", "influence", "csdg", "ratio", "noise", "working_set")
    for name in names:
        assert (folder / "figures" / f"figure_{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / "figures" / f"figure_{name}.svg").read_text("utf-8")
        assert len(pd.read_csv(folder / "figures" / f"figure_{name}.csv")) > 5


def test_the_environment_names_no_place_on_the_machine(folder):
    facts = json.loads((folder / "table1" / "environment.json").read_text("utf-8"))
    assert facts["command"] == "pigmil reproduce table1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])
    assert facts["packages"]["numpy"] == np.__version__
    for path in (folder / "figures").glob("*.*"):
        if path.suffix in (".md", ".json", ".csv", ".svg"):
            assert str(folder) not in path.read_text("utf-8") or path.name == "written.json"


def test_called_again_it_computes_nothing_and_draws_the_same(folder):
    def refuse(*step):
        raise AssertionError(step)

    place = folder / "figures"
    before = {path.name: path.read_bytes() for path in place.glob("figure_*")}
    reproduce("figures", place, size=TINY, callback=refuse)
    assert {path.name: path.read_bytes() for path in place.glob("figure_*")} == before


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(ValueError, match="which must be one of table1, table2, figures, all"):
        reproduce("table3", tmp_path)


def test_the_quick_size_says_of_every_part_what_it_leaves_out():
    assert set(QUICK.left_out) == {"table1", "table2", "figures"}
    assert FULL.left_out == {}
    assert (FULL.repeats, FULL.folds, len(FULL.sets)) == (5, 10, 11)


def test_table_2_beside_the_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(
        tables,
        "table2_methods",
        lambda: {"MILES": {}, "mi-Sim": {}, "Citation-kNN": {"rank": 1}},
    )
    small = {"n_positive_bags": 6, "n_negative_bags": 6}
    sets = {
        "musk1": make_ring(random_state=0, **small),
        "mutagenesis_bonds": make_rhombus(random_state=0, **small),
        "fox": make_basic(random_state=0, **small),
    }
    table, results = table2(sets=sets, repeats=1, folds=2, store=tmp_path / "r.sqlite")
    table = table.set_index(["data", "method"])
    row = table.loc[("musk1", "MILES")]
    assert (row["paper"], row["paper_std"]) == (72.0, 13.7)
    assert row["difference"] == pytest.approx(row["ours"] - 72.0)
    assert row["ours"] == pytest.approx(results.table().loc["musk1", "MILES"])
    assert table.loc[("mutagenesis_bonds", "mi-Sim"), "mark"] == "new"
    assert (table["cells"] == 2).all()

    written = reproduce("table2", tmp_path / "out", size=Size(sets=sets, repeats=1, folds=2),
                        store=tmp_path / "r.sqlite")  # fmt: skip
    text = written[0].read_text("utf-8")
    assert "| Musk-1 |" in text
    assert "(blank) new" in text
    assert "![Average ranks and critical difference](table2_ranks.png)" in text
    assert (tmp_path / "out" / "table2_ranks.svg").is_file()


def test_cells_below_the_paper_are_listed():
    rows = [
        ("musk1", "MILD", -3.04, "="),
        ("fox", "MILES", -9.0, "-"),
        ("fox", "MILD", -2.0, "="),
        ("fox", "PIGMIL|paper", -20.0, "-"),
        ("fox", "mi-Sim", float("nan"), "new"),
    ]
    table = pd.DataFrame(rows, columns=["data", "method", "difference", "mark"])
    (sentence,) = pages._lower(table)
    assert sentence.startswith(
        "More than two points below the paper's mean, 2 of 4: MILES on Fox -9.0; "
        "MILD on Musk-1 -3.0 (≈). "
    )
    (sentence,) = pages._lower(table[2:])
    assert sentence.startswith("No default configuration")


def test_the_ten_columns_of_table_2_and_the_literal_method():
    methods = table2_methods()
    assert len(methods) == 11
    assert methods["PIGMIL|paper"]["length_unit"] == 1.0
    assert methods["PIGMIL"] == {}
    assert methods["MInD"] == {"dissimilarity": "hausdorff"}


def test_a_ratio_reaches_the_graph():
    # Without D an edge weighs S + alpha C; with D at many times that, nothing is left of most.
    light, heavy = (
        fitted(Detection("BASIC", "PIGMIL|paper", weighing=(("discrimination_relative", k),)), 0)[1]
        for k in (0.0, 50.0)
    )
    assert (heavy.csdg_.weights > 0).sum() < (light.csdg_.weights > 0).sum()


def test_a_detection_is_the_same_every_time():
    what = Detection("RHOMBUS", "PIGMIL|paper", noise=2, noise_kind="labels")
    assert detect(what, 3) == detect(what, 3)
    assert 0 < detect(what, 3)["covered"] <= 1


def test_table_1_goes_on_with_more_seeds(tmp_path):
    steps = []
    store = tmp_path / "r.sqlite"
    table1(seeds=1, store=store)
    table1(seeds=2, store=store, callback=steps.append)
    assert len(steps) == 24


def test_a_set_that_cannot_be_had_is_left_out_and_reported(tmp_path, monkeypatch, caplog):
    def refuse(name):
        raise DataSetError(f"'{name}' is nowhere\nand its keepers are gone")

    monkeypatch.setattr("pigmil.reproduction.run.load_dataset", refuse)
    [page, *_] = reproduce("table2", tmp_path, size=Size(sets=("fox",)))
    assert "- Table II: Fox, which cannot be had: 'fox' is nowhere\n" in page.read_text("utf-8")
    assert "fox is left out of Table II" in caplog.text
