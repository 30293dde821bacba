"""Results as files: tables for papers and web pages, rows for programs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pigmil._core.files import atomic_write
from pigmil._core.tables import Cell, Table, escape_latex
from pigmil._core.text import escape_formula, escape_markdown, to_json_safe

if TYPE_CHECKING:
    from pigmil.evaluation._results import Results


SIGNIFICANCE = (
    "Bold: the best mean; †: within error of it (corrected resampled t-test, Holm, level 0.05)"
)


def write_results(results: "Results", path: str | os.PathLike[str], metric: str) -> Path:
    """Write results in the format of the suffix; see :meth:`Results.export`."""
    path = Path(path)
    writers: dict[str, Callable[[Path], Any]] = {
        ".md": lambda to: _write(to, markdown_page(results, metric)),
        ".tex": lambda to: _write(to, latex_table(results, metric)),
        ".csv": lambda to: results.frame.map(escape_formula).to_csv(to, index=False),
        ".parquet": lambda to: results.frame.to_parquet(to, index=False),
        ".json": lambda to: _write(to, json_text(results)),
    }
    if path.suffix not in writers:
        raise ValueError(f"Cannot export to '{path.name}'; suffixes are {', '.join(writers)}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as name:
        writers[path.suffix](name)
    return path


def results_table(results: "Results", metric: str) -> Table:
    """Return "mean ± std" by data set; the best mean is bold, and those within error are marked."""
    text, within = results.table(metric, statistic="text"), results.within_error(metric)
    best = results.best(metric)
    rows = []
    for data, row in text.iterrows():
        cells = [
            Cell(
                cell,
                best.get(data) == method,
                best.get(data) != method and within.loc[data, method],
            )
            for method, cell in row.items()
        ]
        rows.append([data, *cells])
    return Table(["data set", *text.columns], rows)


def markdown_page(results: "Results", metric: str) -> str:
    """Return Markdown: the table "mean ± std", and the notes below it."""
    return "\n\n".join([results_table(results, metric).markdown(), *notes(results, metric)]) + "\n"


def notes(results: "Results", metric: str) -> list[str]:
    """Return paragraphs of Markdown: the best, intervals, failures and findings."""
    parts = []
    best = results.best_methods(metric)
    if best:
        parts.append(
            f"{SIGNIFICANCE}:\n\n" + "\n".join(f"- {escape_markdown(line)}." for line in best)
        )
    if metric in ("accuracy", "auc") and len(results.intervals(metric)):
        text = results.table(metric, statistic="interval")
        parts.append(
            "Mean with 95 % interval (bootstrap over groups of bags):\n\n"
            + Table(["data set", *text.columns], text.reset_index().to_numpy()).markdown()
        )
    if results.failures:
        failed = [
            f"- {escape_markdown(item['method'])} on {escape_markdown(item['data'])}, "
            f"repeat {item['repeat']}, fold {item['fold']}: {escape_markdown(item['error'])}"
            for item in results.failures
        ]
        parts.append(f"{len(failed)} cells failed:\n\n" + "\n".join(failed))
    findings = [
        f"- {escape_markdown(name)}: {escape_markdown(item['message'])}"
        for name, found in results.findings.items()
        for item in found
    ]
    if findings:
        parts.append("The audit of the data found:\n\n" + "\n".join(findings))
    return parts


def latex_table(results: "Results", metric: str) -> str:
    """Return the table "mean ± std" in LaTeX with booktabs.

    Below the table follow the sentences that Markdown has.
    """
    text = results_table(results, metric).latex() + "\n"
    best = results.best_methods(metric)
    if best:
        sentences = " ".join(f"{escape_latex(line)}." for line in best)
        text += f"\n\\par\\footnotesize {escape_latex(SIGNIFICANCE)}. {sentences}\n"
    return text


def json_text(results: "Results") -> str:
    """Return all cells, failures and findings as JSON, with null for NaN and infinities."""
    content = {"rows": results.rows, "failures": results.failures, "findings": results.findings}
    return json.dumps(to_json_safe(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
