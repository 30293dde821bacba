"""The summary of a comparison: tables, ranks and the critical-difference diagram."""

import io
import json
import math
import re
from typing import Any

from pigmil._core.optional import import_optional
from pigmil._core.text import count, number, sanitize, to_json_safe
from pigmil.report._summary import provenance

METRICS = {
    "accuracy": "Accuracy, %",
    "balanced_accuracy": "Balanced accuracy, %",
    "auc": "Area under the ROC curve, %",
    "f1": "F1 score, %",
    "detection_accuracy": "Detected instances that are positive, %",
    "detection_ap": "Average precision over instances of positive training bags, %",
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
SHORT = {
    "accuracy": "accuracy, %", "balanced_accuracy": "balanced accuracy, %", "auc": "AUC, %",
    "f1": "F1, %", "detection_accuracy": "detected correctly, %", "detection_ap": "training AP, %",
    "instance_auc": "instance AUC, %", "instance_ap": "instance AP, %",
    "top1": "best instance positive, %",
    "top1_chance": "same by chance, %", "hit3": "hit in best 3, %",
    "hit3_chance": "same by chance, %", "per_bag_auc": "AUC in bags, %",
    "per_bag_ap": "AP in bags, %", "froc": "FROC, %", "recall_1": "recall in 1 %, %",
    "recall_5": "recall in 5 %, %", "recall_10": "recall in 10 %, %", "fit_seconds": "fit, s",
    "predict_seconds": "predict, s", "peak_mb": "memory, MiB",
}  # fmt: skip
INTERVALS = ("auc", "accuracy")
MAIN_METRICS = ("auc", "accuracy", "instance_ap", "detection_accuracy")
MAX_FAILURES, LEVEL = 50, 0.05


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
        "title": f"{count(len(methods), 'method')} on "
        + (sanitize(data[0]) if len(data) == 1 else count(len(data), "data set")),
        "headline": _headline(results, data) if available else "All cells failed.",
        "facts": [{**fact, "note": ""} for fact in _facts(results, data, methods, protocols)],
        "single": single_set(results) if len(data) == 1 and available else None,
        "tables": [
            _table(results, metric, title)
            for metric, title in METRICS.items()
            if metric in available and len(data) > 1
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


def single_set(results: Any, metric: str | None = None) -> dict[str, Any]:
    """Return one table for a comparison on one data set: methods as rows, metrics as columns.

    Parameters
    ----------
    results : pigmil.evaluation.Results
        Results on one data set.
    metric : str, optional
        The metric of the plot and the order; by default the area under the ROC curve of bags.

    Returns
    -------
    dict
        ``metrics`` (with ``short`` and ``title``), ``rows`` (one per method, the best first),
        ``main`` (the metric of the plot), ``ticks`` of its axis, and ``differences`` beyond chance.
    """
    available = [name for name in METRICS if name in results.frame.columns]
    main = metric or next((name for name in MAIN_METRICS if name in available), available[0])
    means = {name: results.table(name).iloc[0] for name in available}
    deviations = {name: results.table(name, statistic="std").iloc[0] for name in available}
    bold = {name: results.within_error(name).iloc[0] for name in available}
    low, high = _limits(results, main, means[main], deviations[main])
    lesser = main in results.lesser_is_better
    order = means[main].sort_values(ascending=lesser, na_position="last", kind="stable").index
    rows = []
    for method in order:
        mean = to_json_safe(float(means[main][method]))
        rows.append(
            {
                "method": sanitize(method),
                "mean": mean,
                "low": to_json_safe(float(low[method])),
                "high": to_json_safe(float(high[method])),
                "interval": "–" if mean is None else f"{low[method]:.1f} to {high[method]:.1f}",
                "cells": [
                    {
                        "text": _cell(float(means[name][method]), name),
                        "best": bool(bold[name][method]),
                    }
                    for name in available
                ],
            }
        )
    known = [row for row in rows if row["mean"] is not None]
    left = min((row["low"] for row in known), default=0.0)
    right = max((row["high"] for row in known), default=1.0)
    return {
        "data": sanitize(results.rows[0]["data"]),
        "main": main,
        "main_title": METRICS[main],
        "short": SHORT[main],
        "how": "95 % confidence interval by a bootstrap over bags or their groups"
        if main in INTERVALS and len(results.intervals(main))
        else "mean and one standard deviation over the folds",
        "metrics": [{"metric": name, "short": SHORT[name], "title": METRICS[name]}
                    for name in available],
        "rows": rows,
        "axis": _axis(left, right),
        "differences": significant_differences(results, main),
    }  # fmt: skip


def _axis(left: float, right: float) -> list[float]:
    """Return round ends of an axis, a multiple of 1, 2 or 5 apart.

    Examples
    --------
    >>> _axis(44.3, 99.2), _axis(0.0, 0.0)
    ([40.0, 100.0], [0.0, 1.0])
    """
    span = right - left if right > left else 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(size * power for size in (1, 2, 5, 10) if size * power >= span / 8)
    low, high = math.floor(left / step) * step, math.ceil(right / step) * step
    return [low, high if high > low else low + 1.0]


def _headline(results: Any, data: Any) -> str:
    """Return which method is best, and which are not significantly worse."""
    main = next((name for name in MAIN_METRICS if name in results.frame.columns), "accuracy")
    name = SHORT[main].removesuffix(", %")
    if len(data) > 1:
        ranks = results.significance(main).ranks.sort_values()
        best = sanitize(ranks.index[0])
        return f"{best} has the best average rank by {name}: {ranks.iloc[0]:.2f} of {len(ranks)}."
    single = single_set(results, main)
    best, *others = single["rows"]
    if best["mean"] is None:
        return f"No method has a value for {name}."
    column = [item["metric"] for item in single["metrics"]].index(main)
    level = [row["method"] for row in others if row["cells"][column]["best"]]
    return f"{best['method']} has the highest {name}: {best['mean']:.1f} % ({best['interval']})" + (
        f"; not significantly worse: {', '.join(level)}." if level else "."
    )


def _limits(results: Any, metric: str, mean: Any, deviation: Any) -> tuple[Any, Any]:
    """Return the ends of the interval of each method: bootstrap, or one standard deviation."""
    low, high = (mean - deviation).copy(), (mean + deviation).copy()
    if metric in INTERVALS:
        for row in results.intervals(metric).itertuples():
            if row.low == row.low:
                low[row.method], high[row.method] = row.low, row.high
    return low, high


def _cell(value: float, metric: str) -> str:
    if value != value:
        return "–"
    if metric in ("fit_seconds", "predict_seconds", "peak_mb"):
        return "<0.01" if value < 0.01 else number(float(f"{value:.2g}"))
    return f"{value:.1f}"


def significant_differences(results: Any, metric: str) -> list[str]:
    """Return one sentence per pair of methods that differ beyond chance on a data set.

    Parameters
    ----------
    results : pigmil.evaluation.Results
        The results.
    metric : str
        The metric to test, by the corrected resampled t-test with Holm's correction.

    Returns
    -------
    list of str
        A single sentence if no pair differs.
    """
    tests = results.paired_tests(metric)
    lesser = metric in results.lesser_is_better
    share = 100.0 if metric in results.table_in_per_cent else 1.0
    several = tests["data"].nunique() > 1
    sentences = []
    for test in tests.sort_values("p_holm", kind="stable").itertuples():
        if not test.p_holm < LEVEL:
            continue
        first = (test.difference > 0) != lesser
        better, worse = (test.method, test.rival) if first else (test.rival, test.method)
        gap = abs(share * test.difference)
        chance = f"p = {test.p_holm:.3f}" if test.p_holm >= 0.001 else "p < 0.001"
        sentences.append(
            (f"{sanitize(test.data)}: " if several else "")
            + f"{sanitize(better)} is better than {sanitize(worse)} by {gap:.1f} ({chance})"
        )
    if sentences:
        return sentences
    pairs = count(len(tests), "pair")
    return [f"No difference is beyond chance: none of {pairs} has p < {LEVEL:g} after correction"]


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
