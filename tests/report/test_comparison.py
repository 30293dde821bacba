"""Reports of comparisons, from results with a hostile method name and a failure."""

import json
from pathlib import Path

import pytest

from pigmil.evaluation._results import Results
from pigmil.report import comparison_summary, render_html, render_markdown, write_report
from pigmil.report._comparison import significant_differences


def _row(data, method, fold, accuracy):
    return {
        "data": data, "method": method, "repeat": 0, "fold": fold, "checksum": "c" * 64,
        "parameters": "{}", "protocol": json.dumps({"folds": 2, "seed": 3}), "version": "1",
        "status": "failed" if accuracy is None else "done", "finished": 0.0,
        "error": "ValueError: <b>no</b>" if accuracy is None else None,
        "metrics": {} if accuracy is None else {"accuracy": accuracy, "fit_seconds": 1 - accuracy},
    }  # fmt: skip


@pytest.fixture(scope="module")
def results():
    table = {"one": (0.9, 0.8, 0.7), "two": (0.8, 0.7, 0.6), "<i>x": (0.9, 0.6, 0.5)}
    table |= {name: (0.9, 0.7, 0.5 + 0.01 * len(name)) for name in ("four", "eleven", "seventh")}
    rows = [
        _row(data, method, fold, value)
        for data, values in table.items()
        for method, value in zip(("PIGMIL", "A|<b>$x", "B"), values, strict=True)
        for fold in range(2)
    ]
    failed = next(
        at for at, row in enumerate(rows) if (row["data"], row["method"]) == ("<i>x", "B")
    )
    rows[failed] = _row("<i>x", "B", 1, None)
    return Results(rows, findings={"one": [{"message": "<u>twins", "severe": False}]})


def test_exports_escape_html_and_formulas(results, tmp_path):
    text = results.export(tmp_path / "r.md").read_text("utf-8")
    assert "<" not in text
    assert r"A\|&lt;b&gt;$x" in text
    assert "&lt;u&gt;twins" in text
    rows = [{**row, "method": "=cmd()" if row["method"] == "B" else "-3"} for row in results.rows]
    table = Results(rows).export(tmp_path / "r.csv").read_text("utf-8")
    assert "'=cmd()" in table
    assert "'-3" not in table  # a number is no formula


def test_summary_has_tables_ranks_and_failures(results):
    summary = comparison_summary(results, command="pigmil compare")
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    accuracy = summary["tables"][0]
    best = {"text": "90.0 ± 0.0", "bold": True, "marked": False}
    assert accuracy["table"]["rows"][0][:2] == ["one", best]
    assert accuracy["test"].startswith("Friedman p = 0.00")
    few = Results([row for row in results.rows if row["data"] in ("one", "two")])
    section = comparison_summary(few)["tables"][0]
    assert section["test"] == "2 data sets cannot decide whether methods differ: the tests need 6"
    assert section["diagram"] is None
    assert [item["method"] for item in accuracy["ranks"]] == ["PIGMIL", "A|<b>$x", "B"]
    assert [item["rank"] for item in accuracy["ranks"]] == ["1", "2", "3"]
    assert summary["n_failures"] == 1
    seconds = next(table for table in summary["tables"] if table["metric"] == "fit_seconds")
    cells = seconds["table"]["rows"][0][1:]
    assert [cell["bold"] for cell in cells] == [True, False, False]
    assert not any(cell["marked"] for cell in cells)  # two folds cannot decide


def test_page_shows_the_diagram_and_hostile_names_as_text(results):
    text = render_html(comparison_summary(results))
    assert text.count('src="data:image/svg+xml;base64,') == 1
    assert "<script" not in text
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in text
    assert "&lt;b&gt;$x" in text


def test_report_of_results(results, tmp_path):
    written = write_report(results, tmp_path / "comparison.md")
    assert isinstance(written, Path)
    assert "| one | **90.0 ± 0.0** |" in written.read_text("utf-8")
    assert render_markdown(comparison_summary(results)).splitlines()[0] == (
        "# 3 methods on 6 data sets"
    )


def test_all_failed_is_still_a_report(results):
    failed = Results([row for row in results.rows if row["status"] == "failed"])
    assert "1 cell failed" in render_markdown(comparison_summary(failed))


def _fold(method, fold, accuracy, seconds):
    row = _row("one", method, fold, accuracy)
    row["metrics"]["fit_seconds"] = seconds
    row["protocol"] = json.dumps({"folds": 5, "seed": 3})
    return row


@pytest.fixture(scope="module")
def on_one_set():
    """Good beats Bad in every fold by nearly the same; Other is like Good."""
    good = (0.90, 0.92, 0.88, 0.91, 0.89)
    table = {
        "Bad <i>": [value - 0.3 + 0.01 * (n % 2) for n, value in enumerate(good)],
        "Good": good,
        "Other": [value + 0.02 * (-1) ** n for n, value in enumerate(good)],
    }
    return Results(
        [_fold(name, n, value, 2.0) for name, values in table.items()
         for n, value in enumerate(values)]
    )  # fmt: skip


def test_one_data_set_is_one_table(on_one_set):
    summary = comparison_summary(on_one_set)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["tables"] == []
    single = summary["single"]
    assert single["table"]["columns"] == ["method", "accuracy, %", "fit, s"]
    assert [row["method"] for row in single["rows"]] == ["Other", "Good", "Bad <i>"]
    rows = single["table"]["rows"]
    assert [cell["text"] for cell in rows[1][1:]] == ["90.0", "2"]
    assert [row[1]["bold"] for row in rows] == [True, False, False]
    assert [row[1]["marked"] for row in rows] == [False, True, False]
    # No predictions of single bags, so one standard deviation: sqrt(2) per cent around 90.
    assert single["rows"][1]["interval"] == "88.6 to 91.4"
    assert "standard deviation" in single["how"]


def test_differences_beyond_chance_are_sentences(on_one_set):
    found = significant_differences(on_one_set, "accuracy")
    assert len(found) == 2
    assert {text.split(" by ")[0] for text in found} == {
        "Good is better than Bad <i>", "Other is better than Bad <i>",
    }  # fmt: skip
    assert any("by 29.6 (p " in text for text in found)
    same = significant_differences(on_one_set, "fit_seconds")
    few = Results([row for row in on_one_set.rows if row["fold"] < 4])
    (sentence,) = significant_differences(few, "accuracy")
    assert sentence.startswith("4 folds cannot decide")
    assert same == ["Corrected for all 3 pairs, no difference is beyond chance (p < 0.05)"]


def test_page_of_one_data_set_draws_dots_and_hides_nothing(on_one_set):
    text = render_html(comparison_summary(on_one_set))
    assert text.count('class="dot"') == 3
    assert "<i>" not in text
    assert "Good is better than Bad &lt;i&gt;" in text
    markdown = render_markdown(comparison_summary(on_one_set))
    assert "| Good | 90.0 | 88.6 to 91.4 |" in markdown
