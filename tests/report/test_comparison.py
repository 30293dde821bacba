"""Reports of comparisons, from results with a hostile method name and a failure."""

import json
from pathlib import Path

import pytest

from pigmil.evaluation.results import Results
from pigmil.report import comparison_summary, render_html, render_markdown, write_report


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
    rows = [
        _row(data, method, fold, value)
        for data, values in table.items()
        for method, value in zip(("PIGMIL", "A|<b>$x", "B"), values, strict=True)
        for fold in range(2)
    ]
    rows[-1] = _row("<i>x", "B", 1, None)
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
    assert accuracy["rows"][0]["cells"][0] == {"text": "90.0 ± 0.0", "best": True}
    assert [item["method"] for item in accuracy["ranks"]] == ["PIGMIL", "A|<b>$x", "B"]
    assert [item["rank"] for item in accuracy["ranks"]] == ["1", "2", "3"]
    assert summary["n_failures"] == 1
    seconds = next(table for table in summary["tables"] if table["metric"] == "fit_seconds")
    assert [cell["best"] for cell in seconds["rows"][0]["cells"]] == [True, False, False]


def test_page_shows_the_diagram_and_hostile_names_as_text(results):
    text = render_html(comparison_summary(results))
    assert text.count("<svg") == 1
    assert "script-src &#39;none&#39;;" in text
    assert "<script" not in text
    for tag in ("<b>", "<i>", "<u>"):
        assert tag not in text
    assert "&lt;b&gt;$x" in text


def test_report_of_results(results, tmp_path):
    written = write_report(results, tmp_path / "comparison.md")
    assert isinstance(written, Path)
    assert "| one | **90.0 ± 0.0** |" in written.read_text("utf-8")
    assert render_markdown(comparison_summary(results)).splitlines()[0] == (
        "# 3 methods on 3 data sets"
    )


def test_too_few_methods_for_a_diagram_is_reported(results, tmp_path):
    few = Results([row for row in results.rows if row["method"] != "B"])
    summary = comparison_summary(few)
    assert summary["tables"][0]["diagram"] is None
    assert "at least three methods" in summary["tables"][0]["why_no_diagram"]
    write_report(few, tmp_path / "few.html")


def test_all_failed_is_still_a_report(results):
    failed = Results([row for row in results.rows if row["status"] == "failed"])
    assert "1 cell failed" in render_markdown(comparison_summary(failed))
