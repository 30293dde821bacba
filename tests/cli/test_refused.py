"""Errors: one message with a hint, the right exit status, and no files."""

import functools
import os

import numpy as np
import pytest
import sklearn
import skops.io
from sklearn.model_selection import GridSearchCV

from pigmil import SIL, Bags, BagScaler, save_model, write_bags
from pigmil.datasets import make_ring

COLUMNS = ("--bag", "molecule", "--label", "active", "--info", "note")
LABELLED = (*COLUMNS, "--positive", "yes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("detect", "nowhere.csv"), "There is no file 'nowhere.csv'"),
        (("detect", "musk_1"), "Did you mean musk1"),
        (("detect", "molecules.csv", *COLUMNS), "text: 'no' (12 bags), 'yes' (12 bags)."),
        (("detect", "molecules.csv", *COLUMNS, "--positive", "y"), "no bag has this label"),
        (("detect", "molecules.csv", *LABELLED, "-m", "MILESS"), "Did you mean MILES"),
        (("detect", "molecules.csv"), "with --bag and --label"),
        (("detect", "molecules.csv", "--bag", "molecule", "--label", "active"), "with --info"),
        (("detect", "molecules.csv", "--bag", "molecule", "--info", "active", "--info", "note"),
         "name their column with --label"),
        (("detect", "molecules.csv", *LABELLED, "-o", "molecules.csv"), "overwrite the data"),
        (("fit", "molecules.csv", *LABELLED, "-o", os.devnull), "is not a regular file"),
        (("convert", "molecules.csv", os.devnull, *COLUMNS), "is not a regular file"),
        (("detect", "molecules.csv", *LABELLED, "-o", "x.xlsx"), "the suffix must be .csv"),
        (("detect", "molecules.csv", *LABELLED, "--report", "no/r.html"), "no folder 'no'"),
        (("detect", "molecules.csv", *LABELLED, "--report", "r.pdf"), "must be .html, .htm, .md"),
        (("detect", "molecules.csv", *LABELLED, "-m", "miGraph"), "does not score instances"),
        (("detect", "molecules.csv", *LABELLED, "-m", "Foo"), "Unknown method 'Foo'"),
        (("detect", "molecules.csv", *LABELLED, "--set", "foo=1"), "expected name=value"),
        (("detect", "molecules.csv", *LABELLED, "-m", "PIGMIL", "--set", "reading__damping=7"),
         "in the range [0.0, 1.0]"),
        (("detect", "molecules.csv", *LABELLED, "--group", "site"), "no column for --group site"),
        (("detect", "molecules.csv", *LABELLED, "--marks", "no.csv"), "value for '--marks'"),
        (("convert", "molecules.csv", "molecules.csv"), "overwrite the data"),
        (("convert", "molecules.csv", "out.xyz", *COLUMNS), "--to-format: out.xyz"),
        (("detect", "molecules.csv", "--read", "bags=x"), "expected name=value"),
        (("compare", "molecules.csv", *LABELLED, "--set", "foo=1"), "time_limit, memory_limit"),
        (("compare", "molecules.csv", *LABELLED, "--set", "rivals=no"), "expected true or false"),
        (("compare", "molecules.csv", *LABELLED, "--export", "molecules.csv"), "the data"),
        (("compare", "x.csv", "molecules.csv", *LABELLED, "--store", "molecules.csv"), "the data"),
        (("compare", "molecules.csv", "molecules.csv", *LABELLED), "Two data sets are called"),
        (("compare", "molecules.csv", *LABELLED, "-m", "PIGMIL,Bar"), "Unknown method 'Bar'"),
        (("compare", "molecules.csv", *LABELLED, "--metric", "luck"), "choose one of accuracy"),
        (("datasets", "info", "nope"), "No data set is named 'nope'"),
        (("methods", "nope"), "Unknown method 'nope'"),
        (("predict", "no.skops", "molecules.csv"), "There is no model file"),
        (("predict", "molecules.csv", "molecules.csv"), "not a model file of pigmil"),
    ],
)  # fmt: skip
def test_message_status_and_no_files(pigmil, table, folder, arguments, message):
    found = pigmil(*arguments)
    assert found.status == 2
    assert message in found.err
    assert "Traceback" not in found.err
    assert found.out == ""
    assert [path.name for path in folder.iterdir()] == ["molecules.csv"]


def test_usage_errors_have_status_two(pigmil):
    assert pigmil("detect").status == 2
    assert pigmil("frobnicate").status == 2
    assert pigmil("detect", "x.csv", "--top", "-1").status == 2


def test_errors_for_machines_and_for_developers(pigmil, folder):
    found = pigmil("detect", "nowhere.csv", "--json")
    assert found.status == found.json["status"] == 2
    assert "nowhere.csv" in found.json["error"]
    found = pigmil("detect", "nowhere.csv", "--debug")
    assert found.status == 2
    assert "Traceback" in found.err


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ZeroDivisionError("oh"), 1, "ZeroDivisionError: oh (--debug shows where)"),
        (KeyboardInterrupt(), 130, "stopped; finished work is kept"),
    ],
)
def test_a_fault_of_ours_and_a_stop_have_a_status(pigmil, monkeypatch, error, status, message):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr("pigmil.estimators.all_estimators", broken)
    found = pigmil("methods", "--json")
    assert found.status == found.json["status"] == status
    assert message in found.err


def test_damaged_and_untrusted_models_are_refused_with_the_reason(pigmil, table, folder):
    assert pigmil("fit", table, *LABELLED, "-o", "m.skops", "-m", "MISVM").status == 0
    whole = (folder / "m.skops").read_bytes()
    (folder / "m.skops").write_bytes(whole[: len(whole) // 2])
    found = pigmil("predict", "m.skops", table, *COLUMNS)
    assert found.status == 2
    assert "damaged" in found.err
    evil = functools.partial(os.mkdir, str(folder / "built"))
    content = {"format": 1, "pigmil": "0", "sklearn": sklearn.__version__, "model": evil}
    skops.io.dump(content, folder / "evil.skops")
    found = pigmil("predict", "evil.skops", table, *COLUMNS)
    assert found.status == 2
    assert "functools.partial" in found.err
    assert not (folder / "built").exists()


def test_other_features_are_refused_and_other_labels_not_compared(pigmil, table, folder):
    assert pigmil("fit", table, *LABELLED, "-o", "m.skops", "-m", "MISVM").status == 0
    (folder / "other.csv").write_text("bag,mass,size\na,1,2\n")
    found = pigmil("predict", "m.skops", "other.csv")
    assert found.status == 2
    assert "fitted on: 'charge'" in found.err
    write_bags(Bags.from_list([np.zeros((1, 3))]), folder / "wide.npz")  # no names
    found = pigmil("predict", "m.skops", "wide.npz")
    assert found.status == 2
    assert "fitted on 2 features, and these bags have 3" in found.err
    (folder / "unknown.csv").write_text("bag,label,mass,charge\na,7,1,2\nb,8,5,5\n")
    found = pigmil("predict", "m.skops", "unknown.csv", "--json")
    assert found.status == 0
    assert "accuracy" not in found.json
    assert "7, 8" in found.err


def test_all_cells_failed_has_status_one(pigmil, table):
    found = pigmil("compare", table, *LABELLED, "-m", "MISVM", "--repeats", "1", "--folds", "2",
                   "--no-tune", "--set", "time_limit=0.001")  # fmt: skip
    assert found.status == 1
    assert "All cells failed" in found.err


@pytest.fixture
def saved(folder, table):
    """Save a model as an attacker, or a user of Python, would."""
    bags = make_ring(random_state=0, n_positive_bags=6, n_negative_bags=6)
    write_bags(bags, folder / "ring.csv")

    def saved(change):
        return save_model(change(bags), folder / "m.skops")

    return saved


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda bags: SIL(), "The SIL in 'm.skops' was not fitted."),
        (lambda bags: BagScaler().fit(bags), "holds a BagScaler, not a method of pigmil"),
        (lambda bags: GridSearchCV(SIL(), {"probability": [False]}, cv=2).fit(bags, bags.y),
         "of a search save best_estimator_"),
        (lambda bags: SIL().fit(bags, np.arange(12) % 3), "distinguishes 3 classes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["predict", "heatmap"])
def test_a_model_without_what_a_command_needs(command, make, message, saved, pigmil, folder):
    saved(make)
    options = ("--instances", "i.csv") if command == "predict" else ()
    found = pigmil(command, "m.skops", "ring.csv", *options)
    assert found.status == 2
    assert message in found.err.replace("\n", " ")
    assert {path.name for path in folder.iterdir()} == {"molecules.csv", "ring.csv", "m.skops"}


def test_predictions_of_three_classes_have_a_column_per_class(saved, pigmil, rows_of):
    path = saved(lambda bags: SIL(probability=True).fit(bags, np.arange(12) % 3))
    assert pigmil("predict", path, "ring.csv", "-o", "p.csv").status == 0
    rows = rows_of("p.csv")
    assert len(rows) == 12
    for row in rows:
        for name in ("decision", "probability"):
            values = [float(row[f"{name} {label}"]) for label in range(3)]
            assert int(row["predicted"]) == np.argmax(values)
        assert sum(values) == pytest.approx(1.0)
