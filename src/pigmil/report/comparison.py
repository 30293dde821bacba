"""The summary of a comparison: tables, ranks and the critical-difference diagram."""

import io
import json
import re
from typing import Any

from pigmil._core.json import to_json_safe
from pigmil._core.optional import import_optional
from pigmil._core.text import count, sanitize
from pigmil.report.summary import provenance
from pigmil.report.text import number

METRICS = {
    "accuracy": "Accuracy, %",
    "balanced_accuracy": "Balanced accuracy, %",
    "auc": "Area under the ROC curve, %",
    "f1": "F1 score, %",
    "detection_accuracy": "Detected instances that are positive, %",
    "instance_auc": "Area under the ROC curve over instances, %",
    "instance_ap": "Average precision over instances, %",
    "top1": "Positive bags whose best instance is positive, %",
    "top1_chance": "The same for a random ranking, %",
    "hit3": "Positive bags with a positive among their three best instances, %",
    "hit3_chance": "The same for a random ranking, %",
    "per_bag_auc": "Area under the ROC curve within positive bags, %",
    "per_bag_ap": "Average precision within positive bags, %",
    "froc": "FROC: mean sensitivity at 1/4 to 8 false positives per bag, %",
    "recall_1": "Positive instances among the best 1 % of all, %",
    "recall_5": "Positive instances among the best 5 % of all, %",
    "recall_10": "Positive instances among the best 10 % of all, %",
    "fit_seconds": "Seconds to fit",
    "predict_seconds": "Seconds to predict",
    "peak_mb": "Peak memory, MiB",
}
MAX_FAILURES = 50


def comparison_summary(results: Any, *, command: str | None = None) -> dict[str, Any]:
    """Summarise a comparison of methods.

    Parameters
    ----------
    results : pigmil.evaluation.Results
        Results of a run or of a store.
    command : str, optional
        The command that the user ran.

    Returns
    -------
    dict
        Of plain values, as from :func:`pigmil.report.detection_summary`.
    """
    available = set(results.frame.columns) if len(results.rows) > len(results.failures) else set()
    protocols = [json.loads(row["protocol"]) for row in results.rows]
    seeds = sorted({part.get("seed") for part in protocols if part.get("seed") is not None})
    data = list(dict.fromkeys(row["data"] for row in results.rows))
    methods = list(dict.fromkeys(row["method"] for row in results.rows))
    checksums = {sanitize(row["data"]): row["checksum"] for row in results.rows}
    return {
        "kind": "comparison",
        "title": f"{count(len(methods), 'method')} on {count(len(data), 'data set')}",
        "facts": [{**fact, "note": ""} for fact in _facts(results, data, methods, protocols)],
        "tables": [
            _table(results, metric, title)
            for metric, title in METRICS.items()
            if metric in available
        ],
        "failures": [to_json_safe(row, text=sanitize) for row in results.failures[:MAX_FAILURES]],
        "n_failures": len(results.failures),
        "findings": [
            {"data": sanitize(name), "message": sanitize(item["message"], limit=1000)}
            for name, found in results.findings.items()
            for item in found
        ],
        "provenance": provenance(
            command, seed=", ".join(map(str, seeds)) or None, checksums=checksums
        ),
    }


def _facts(results: Any, data: Any, methods: Any, protocols: Any) -> list[dict[str, str]]:
    repeats = {row["repeat"] for row in results.rows}
    folds = sorted({part.get("folds") for part in protocols if part.get("folds")})
    facts = {
        "Data sets": ", ".join(map(sanitize, data)),
        "Methods": ", ".join(map(sanitize, methods)),
        "Protocol": f"{count(len(repeats), 'repeat')} of {' or '.join(map(str, folds))}-fold "
        "stratified cross-validation over bags; scaling and tuning use the training bags only",
        "Cells": results.summary().splitlines()[0],
    }
    return [{"name": name, "value": value} for name, value in facts.items()]


def _table(results: Any, metric: str, title: str) -> dict[str, Any]:
    text = results.table(metric, statistic="text")
    lesser = metric in results.lesser_is_better
    bold = results.within_error(metric)
    outcome = results.significance(metric)
    diagram, why_not = None, None
    if metric in ("accuracy", "auc", "detection_accuracy"):
        try:
            diagram = _diagram(results, metric)
        except ValueError as error:
            why_not = sanitize(error, limit=300)
    return {
        "metric": metric,
        "title": title,
        "lesser": lesser,
        "methods": [sanitize(name) for name in text.columns],
        "rows": [
            {
                "data": sanitize(name),
                "cells": [
                    {"text": sanitize(text.loc[name, method]),
                     "best": bool(bold.loc[name, method])}
                    for method in text.columns
                ],
            }
            for name in text.index
        ],
        "ranks": [
            {"method": sanitize(name), "rank": number(rank)}
            for name, rank in outcome.ranks.sort_values().items()
        ],
        "n_datasets": outcome.n_datasets,
        "friedman_p": to_json_safe(float(outcome.friedman_p)),
        "critical_difference": to_json_safe(float(outcome.critical_difference)),
        "diagram": diagram,
        "why_no_diagram": why_not,
    }  # fmt: skip


def _diagram(results: Any, metric: str) -> str:
    """Return the diagram as SVG that takes the colour of the surrounding text."""
    matplotlib = import_optional("matplotlib", extra="report", purpose="The diagram")
    figures = import_optional("matplotlib.figure", extra="report", purpose="The diagram")
    # Method names come from the user: do not parse them as mathematics.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "pigmil", "text.parse_math": False}
    with matplotlib.rc_context(settings):
        rows = len(results.significance(metric).ranks)
        figure = figures.Figure(figsize=(8, 0.45 * rows + 1.2), layout="constrained")
        results.critical_difference(metric, ax=figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    svg = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r"#000000|#000\b|\bblack\b", "currentColor", svg)
    svg = re.sub(r"(<text[^>]*?)fill: #[0-9a-f]{6}", r"\1fill: currentColor", svg)
    return svg.replace("<text ", '<text fill="currentColor" ')
