"""Results as files: tables for papers and web pages, rows for programs."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pigmil._core.files import atomic_write
from pigmil._core.text import escape_formula, escape_markdown, to_json_safe

if TYPE_CHECKING:
    from pigmil.evaluation._results import Results


SIGNIFICANCE = "Best means, and methods within error (corrected resampled t-test, Holm, level 0.05)"


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


def markdown_page(results: "Results", metric: str) -> str:
    """Return Markdown: the table "mean ± std", the best, intervals, failures and findings."""
    parts = [markdown_table(results.table(metric, statistic="text"))]
    best = results.best_methods(metric)
    if best:
        parts.append(
            f"{SIGNIFICANCE}:\n\n" + "\n".join(f"- {escape_markdown(line)}." for line in best)
        )
    if metric in ("accuracy", "auc") and len(results.intervals(metric)):
        parts.append(
            "Mean with 95 % interval (bootstrap over groups of bags):\n\n"
            + markdown_table(results.table(metric, statistic="interval"))
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
    return "\n\n".join(parts) + "\n"


def markdown_table(text: Any, corner: str = "data set") -> str:
    """Return a data frame of texts as a Markdown table, its index as the first column."""
    head = f"| {corner} | " + " | ".join(map(escape_markdown, text.columns)) + " |"
    rule = "|---" * (len(text.columns) + 1) + "|"
    body = [
        f"| {escape_markdown(name)} | " + " | ".join(map(escape_markdown, row)) + " |"
        for name, row in text.iterrows()
    ]
    return "\n".join([head, rule, *body])


def latex_table(results: "Results", metric: str) -> str:
    """Return the table "mean ± std" in LaTeX with booktabs.

    In each row the best method and those within error of it are bold; below the table follow the
    sentences that Markdown has.
    """
    mean, std = results.table(metric), results.table(metric, statistic="std")
    bold = results.within_error(metric)
    lines = [
        rf"\begin{{tabular}}{{l{'r' * len(mean.columns)}}}",
        r"\toprule",
        " & ".join(["data set", *map(latex_text, mean.columns)]) + r" \\",
        r"\midrule",
    ]
    for name, row in mean.iterrows():
        cells = []
        for method, value in row.items():
            if math.isnan(value):
                cells.append("--")
                continue
            cell = rf"{value:.1f} $\pm$ {std.loc[name, method]:.1f}"
            cells.append(rf"\textbf{{{cell}}}" if bold.loc[name, method] else cell)
        lines.append(" & ".join([latex_text(name), *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    best = results.best_methods(metric)
    if best:
        sentences = " ".join(f"{latex_text(line)}." for line in best)
        lines += ["", rf"\par\footnotesize Bold: {latex_text(SIGNIFICANCE)}. {sentences}"]
    return "\n".join(lines) + "\n"


def json_text(results: "Results") -> str:
    """Return all cells, failures and findings as JSON, with null for NaN and infinities."""
    content = {"rows": results.rows, "failures": results.failures, "findings": results.findings}
    return json.dumps(to_json_safe(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def latex_text(text: Any) -> str:
    r"""Return text with the special characters of LaTeX escaped.

    Examples
    --------
    >>> print(latex_text("50% of a_b"))
    50\% of a\_b
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    return "".join(special.get(sign, sign) for sign in str(text))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
