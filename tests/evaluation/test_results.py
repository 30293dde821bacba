"""Tables, tests and files of results."""

import html
import itertools
import json
import os
import re
import stat

import numpy as np
import pandas as pd
import pytest

from pigmil.evaluation import Results
from pigmil.evaluation._statistics import bootstrap_interval, corrected_t_test, holm
from pigmil.evaluation._store import Cell, Store

NAMES = ("a_b|50%", "c & d", "plain")
SETS = ("set #1", "über^2", "third")


def row(data, method, repeat, fold, accuracy, **changes):
    names = {"data": data, "method": method, "estimator": method, "repeat": repeat, "fold": fold}
    metrics = {"accuracy": accuracy, "auc": np.nan, "fit_seconds": 1 - accuracy, "warnings": ["w"]}
    return {"key": f"{data}{method}{repeat}{fold}", **names, "parameters": "{}",
            "protocol": '{"folds":2}', "checksum": "x", "version": "0", "status": "done",
            "error": None, "finished": 1.0, "metrics": metrics, **changes}  # fmt: skip


@pytest.fixture
def results():
    rng = np.random.RandomState(3)
    rows = [
        row(data, method, repeat, fold, round(0.5 + 0.15 * place + 0.1 * rng.rand(), 3))
        for data in SETS
        for place, method in enumerate(NAMES)
        for repeat in range(2)
        for fold in range(2)
    ]
    failed = row("third", "plain", 2, 0, 0.0, status="failed", error="E: no | luck", metrics={})
    found = {"third": [{"kind": "x", "severe": True, "message": "a | b"}]}
    return Results([*rows, failed], findings=found)


def cells(results, data, method):
    rows = [row for row in results.rows if row["status"] == "done"]
    names = (data, method)
    return np.array(
        [row["metrics"]["accuracy"] for row in rows if (row["data"], row["method"]) == names]
    )


def test_tables_by_hand(results):
    values = cells(results, "set #1", "plain")
    assert results.table().loc["set #1", "plain"] == pytest.approx(100 * values.mean())
    std = results.table(statistic="std").loc["set #1", "plain"]
    assert std == pytest.approx(100 * np.sqrt(((values - values.mean()) ** 2).mean()))
    assert results.table(statistic="count").loc["third", "plain"] == 4
    text = results.table(statistic="text")
    assert text.loc["set #1", "plain"] == f"{100 * values.mean():.1f} ± {std:.1f}"
    assert text.loc["third", "plain"].endswith(" (4/5)")
    assert results.table("fit_seconds").loc["set #1", "plain"] == pytest.approx(1 - values.mean())


def test_unknown_metrics_and_statistics_raise(results):
    with pytest.raises(ValueError, match="no results for 'magic'; there are accuracy, auc, fit"):
        results.table("magic")
    with pytest.raises(ValueError, match="statistic must be one of"):
        results.table(statistic="median")
    with pytest.raises(ValueError, match=r"there are none\. 0 cells done, 1 failed"):
        Results([results.rows[-1]]).table()


def test_ranks_and_significance(results):
    assert results.ranks().to_dict() == {NAMES[0]: 3.0, NAMES[1]: 2.0, NAMES[2]: 1.0}
    assert results.ranks("fit_seconds").to_dict() == results.ranks().to_dict()
    assert results.significance().friedman_statistic == pytest.approx(6.0)  # 3 sets, one order


def test_paired_tests_use_the_cells_of_the_same_folds(results):
    found = results.paired_tests().set_index(["data", "method", "rival"])
    test = found.loc[("set #1", NAMES[0], "plain")]
    pair = cells(results, "set #1", NAMES[0]), cells(results, "set #1", "plain")
    expected = corrected_t_test(*pair, test_share=1.0)
    assert (test["t"], test["p"]) == pytest.approx(expected)
    assert test["difference"] == pytest.approx((pair[0] - pair[1]).mean())


def test_every_pair_is_tested_with_holm(results):
    tests = results.paired_tests()
    assert len(tests) == 9
    part = tests[tests["data"] == "set #1"]
    pairs = [list(pair) for pair in itertools.combinations(NAMES, 2)]
    assert part[["method", "rival"]].values.tolist() == pairs
    assert part["p_holm"].tolist() == holm(part["p"]).tolist()


def rows_of(values, data="data", folds=10):
    """Rows of methods with given accuracies in the same folds."""
    return [
        row(data, method, 0, fold, value, protocol=json.dumps({"folds": folds}))
        for method, accuracies in values.items()
        for fold, value in enumerate(accuracies)
    ]


def test_methods_within_error_of_the_best():
    wave = np.tile([0.02, -0.02], 5)
    results = Results(
        rows_of({"best": 0.9 + wave, "close": 0.89 - wave, "worse": 0.5 + wave + 0.01 * wave**2})
    )
    marked = results.within_error().loc["data"]
    assert marked.to_dict() == {"best": True, "close": True, "worse": False}
    assert results.best_methods() == [
        "data: best has the best mean; not significantly worse: close"
    ]
    cells = results.best_table().rows[0][1:]
    assert [cell.bold for cell in cells] == [True, False, False]
    assert [cell.marked for cell in cells] == [False, True, False]
    alone = Results([row for row in results.rows if row["method"] != "close"])
    assert alone.best_methods() == [
        "data: best has the best mean; all others are significantly worse"
    ]
    # Time is better when it is less.
    assert results.within_error("fit_seconds").loc["data", "best"]
    # One fold allows no test: nothing is significantly worse.
    single = Results(rows_of({"a": [0.9], "b": [0.1]}))
    assert single.within_error().loc["data"].tolist() == [True, True]


def test_intervals_come_from_the_single_bags():
    rows = rows_of({"a": [0.75]})
    truth, called = [1, 1, 0, 0], [1, 1, 0, 1]
    tested = {"positive": truth, "called": called, "score": None, "group": [1, 2, 3, 4]}
    rows[0]["metrics"]["bags"] = tested
    results = Results(rows)
    low, high = (100 * end for end in bootstrap_interval([tested], "accuracy"))
    assert results.intervals("accuracy").values.tolist() == [["data", "a", 75.0, low, high]]
    text = results.table("accuracy", statistic="interval").loc["data", "a"]
    assert text == f"75.0 [{low:.1f}, {high:.1f}]"
    assert results.table("auc", statistic="interval").loc["data", "a"] == "-"
    with pytest.raises(ValueError, match="Intervals exist for 'auc' and 'accuracy'"):
        results.intervals("f1")
    assert "bags" not in results.frame


def test_markdown_parses_back(results, tmp_path):
    text = results.export(tmp_path / "r.md").read_text("utf-8")
    lines = text.splitlines()
    table = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[: len(SETS) + 2]]
    assert {len(line) for line in table} == {4}
    unescape = [
        [html.unescape(re.sub(r"\\(\W)", r"\1", part.strip())) for part in line] for line in table
    ]
    assert unescape[0] == ["data set", *NAMES]
    assert [line[0] for line in unescape[2:]] == list(SETS)
    marks = [re.sub(r"[\d.± ]+", "", cell).strip() for cell in unescape[2][1:]]
    assert marks == ["", "", "****"]  # only the best mean is bold; few folds cannot decide more
    bare = [cell.strip("*†").strip() for cell in unescape[2][1:]]
    assert bare == results.table(statistic="text").iloc[0].tolist()
    assert "1 cells failed:\n\n- plain on third, repeat 2, fold 0: E: no \\| luck" in text
    assert "The audit of the data found:\n\n- third: a \\| b" in text


def test_latex_is_booktabs_with_special_characters_escaped(results, tmp_path):
    lines = results.export(tmp_path / "r.tex").read_text("utf-8").splitlines()
    head = [r"\begin{tabular}{lrrr}", r"\toprule", r"data set & a\_b|50\% & c \& d & plain \\"]
    assert lines[:4] == [*head, r"\midrule"]
    assert lines[7:10] == [r"\bottomrule", r"\end{tabular}", ""]
    best = results.best_methods()
    assert lines[10].startswith(r"\par\footnotesize Bold: the best mean; $\dagger$: within error")
    assert lines[10].count("has the best mean") == len(best) > 0
    assert lines[4].startswith(r"set \#1 & ")
    assert lines[5].startswith(r"über\textasciicircum{}2 & ")
    mean = results.table()
    for line, (_, values) in zip(lines[4:7], mean.iterrows(), strict=True):
        parts = re.split(r"(?<!\\)&", line.removesuffix(r" \\"))[1:]
        numbers = [float(re.search(r"[\d.]+", part).group()) for part in parts]
        assert numbers == [round(value, 1) for value in values]
        assert not any("dagger" in part for part in parts)  # few folds cannot decide
        assert [r"\textbf" in part for part in parts] == [False, False, True]


def test_rows_parse_back(results, tmp_path):
    again = pd.read_csv(results.export(tmp_path / "r.csv"))
    pd.testing.assert_frame_equal(again, results.frame, check_dtype=False)
    assert len(again) == 36
    assert "warnings" not in again


def test_json_parses_back_strictly(results, tmp_path):
    def refuse(constant):
        raise AssertionError(constant)

    text = results.export(tmp_path / "r.json").read_text("utf-8")
    content = json.loads(text, parse_constant=refuse)
    assert content["rows"][0]["metrics"]["auc"] is None
    assert content["rows"][0]["metrics"]["accuracy"] == results.rows[0]["metrics"]["accuracy"]
    assert content["failures"] == results.failures
    assert content["findings"] == results.findings


def test_an_export_appears_whole_or_not_at_all(results, tmp_path):
    with pytest.raises(ValueError, match=r"Cannot export to 'r\.doc'; suffixes are \.md, \.tex"):
        results.export(tmp_path / "r.doc")
    path = results.export(tmp_path / "deep" / "r.md")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="no results for 'magic'"):
        results.export(path, metric="magic")
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["r.md"]
    assert stat.S_IMODE(path.stat().st_mode) & 0o044  # readable for others, as files are


def test_a_store_with_several_runs_gives_the_last_one(tmp_path, caplog):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        for folds, accuracy in ((5, 0.25), (10, 0.75)):
            for fold in range(2):
                protocol = f'{{"folds":{folds}}}'
                cell = Cell("data", "x", "KDE", "pigmil.KDE", "{}", protocol, 0, fold, "0")
                store.add(cell, {"accuracy": accuracy})
        later = "UPDATE cells SET finished = finished + 1000 * (protocol LIKE '%5%')"
        store._connection.execute(later)
    results = Results.from_store(path)
    assert results.table().loc["data", "KDE"] == 25.0
    assert "2 cells of earlier runs" in caplog.text


def test_the_diagram_of_critical_differences(results):
    import matplotlib as mpl

    mpl.use("agg")
    axes = results.critical_difference()
    texts = [part.get_text() for part in axes.get_children() if hasattr(part, "get_text")]
    assert any("plain" in text for text in texts)
    mpl.pyplot.close(axes.figure)
    with pytest.raises(ValueError, match="at least three methods and two data sets"):
        Results([r for r in results.rows if r["data"] == SETS[0]]).critical_difference()
