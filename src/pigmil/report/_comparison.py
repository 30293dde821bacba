"""The summary of a comparison: tables, ranks and the critical-difference diagram."""

import base64
import io
import json
import math
from dataclasses import asdict, replace
from typing import Any

from pigmil._core.errors import import_optional
from pigmil._core.text import DAGGER, Table, count, number, sanitize, to_json_safe
from pigmil.evaluation._statistics import MIN_DATASETS, MIN_FOLDS
from pigmil.report._summary import provenance

# Title and short title of each metric.
METRICS = {
    "accuracy": ("Accuracy, %", "accuracy, %"),
    "balanced_accuracy": ("Balanced accuracy, %", "balanced accuracy, %"),
    "auc": ("Area under the ROC curve, %", "AUC, %"),
    "f1": ("F1 score, %", "F1, %"),
    "detection_accuracy": ("Detected instances that are positive, %", "detected correctly, %"),
    "detection_ap": (
        "Average precision over instances of positive training bags, %", "training AP, %"
    ),
    "instance_auc": ("Area under the ROC curve over instances, %", "instance AUC, %"),
    "instance_ap": ("Average precision over instances, %", "instance AP, %"),
    "top1": ("Positive bags whose best instance is positive, %", "best instance positive, %"),
    "top1_chance": ("The same for a random ranking, %", "same by chance, %"),
    "hit3": (
        "Positive bags with a positive among their three best instances, %", "hit in best 3, %"
    ),
    "hit3_chance": ("The same for a random ranking, %", "same by chance, %"),
    "per_bag_auc": ("Area under the ROC curve within positive bags, %", "AUC in bags, %"),
    "per_bag_ap": ("Average precision within positive bags, %", "AP in bags, %"),
    "froc": ("FROC: mean sensitivity at 1/4 to 8 false positives per bag, %", "FROC, %"),
    "recall_1": ("Positive instances among the best 1 % of all, %", "recall in 1 %, %"),
    "recall_5": ("Positive instances among the best 5 % of all, %", "recall in 5 %, %"),
    "recall_10": ("Positive instances among the best 10 % of all, %", "recall in 10 %, %"),
    "fit_seconds": ("Seconds to fit", "fit, s"),
    "predict_seconds": ("Seconds to predict", "predict, s"),
    "peak_mb": ("Peak memory, MiB", "memory, MiB"),
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
    done = len(results.rows) > len(results.failures)
    available = [name for name in METRICS if done and name in results.frame.columns]
    protocols = [json.loads(row["protocol"]) for row in results.rows]
    seeds = sorted({part.get("seed") for part in protocols if part.get("seed") is not None})
    folds = sorted({part.get("folds") for part in protocols if part.get("folds")})
    data, methods, repeats = (
        list(dict.fromkeys(row[name] for row in results.rows))
        for name in ("data", "method", "repeat")
    )
    facts = {
        "Data sets": ", ".join(map(sanitize, data)),
        "Methods": ", ".join(map(sanitize, methods)),
        "Protocol": f"{count(len(repeats), 'repeat')} of {' or '.join(map(str, folds))}-fold "
        "stratified cross-validation over bags; scaling and tuning use the training bags only",
        "Cells": results.summary().splitlines()[0],
    }
    return {
        "kind": "comparison",
        "title": f"{count(len(methods), 'method')} on "
        + (sanitize(data[0]) if len(data) == 1 else count(len(data), "data set")),
        "headline": _headline(results, data) if available else "All cells failed.",
        "facts": [{"name": name, "value": value, "note": ""} for name, value in facts.items()],
        "single": single_set(results) if len(data) == 1 and available else None,
        "tables": [_section(results, metric) for metric in available if len(data) > 1],
        "failures": [to_json_safe(row, text=sanitize) for row in results.failures[:MAX_FAILURES]],
        "n_failures": len(results.failures),
        "findings": [
            {"data": sanitize(name), "message": sanitize(item["message"], limit=1000)}
            for name, found in results.findings.items()
            for item in found
        ],
        "provenance": provenance(
            command,
            ", ".join(map(str, seeds)) or None,
            {sanitize(row["data"]): row["checksum"] for row in results.rows},
        ),
    }


def printed_table(results: Any, metric: str) -> Table:
    """Return the table of a metric: data sets as rows, or the methods on a single data set.

    Parameters
    ----------
    results : pigmil.evaluation.Results
        The results.
    metric : str
        One of `METRICS`.
    """
    if results.table(metric).shape[0] == 1:
        single = single_set(results, metric)
        rows = [[row["method"], row["main"], row["interval"]] for row in single["rows"]]
        title = f"{single['data']}: {METRICS[metric][0]}"
        return Table(["method", single["short"], "interval"], rows, title=title)
    interval = metric in INTERVALS and len(results.intervals(metric))
    table = results.best_table(metric, statistic="interval" if interval else "text")
    return replace(table, title=METRICS[metric][0])


def legend(results: Any, metric: str) -> str:
    """Return what intervals and marks of :func:`results_table` mean."""
    has_interval = metric in INTERVALS and len(results.intervals(metric))
    text = f"interval: {_BOOTSTRAP if has_interval else _DEVIATION}; bold: best mean"
    if any(results.decides(data, metric) for data in results.table(metric).index):
        text += f"; {DAGGER}: {_NOT_WORSE}"
    return text


_BOOTSTRAP = "95 % confidence interval by a bootstrap over bags or their groups"
_DEVIATION = "mean and one standard deviation over the folds"
_NOT_WORSE = "not significantly worse (corrected resampled t-test, Holm, level 0.05)"


def outcome_over_sets(significance: Any) -> str:
    """Return the outcome of the tests over data sets, or that these are too few."""
    if not significance.decides:
        return (
            f"{count(significance.n_datasets, 'data set')} cannot decide whether methods differ: "
            f"the tests need {MIN_DATASETS}"
        )
    if math.isnan(significance.friedman_p):
        return f"Wilcoxon p = {significance.wilcoxon.to_numpy().min():.3g}"
    return f"Friedman p = {significance.friedman_p:.3g}"


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
        ``table`` of all metrics, ``rows`` of the plot (one per method, the best first), ``axis``
        (the ends of that of the plot) and ``differences`` beyond chance.
    """
    available = [name for name in METRICS if name in results.frame.columns]
    main = metric or next((name for name in MAIN_METRICS if name in available), available[0])
    data = results.rows[0]["data"]
    means = {name: results.table(name).iloc[0] for name in available}
    marked = {
        name: dict(zip(means[name].index, results.best_table(name).rows[0][1:], strict=True))
        for name in available
    }
    deviation = results.table(main, statistic="std").iloc[0]
    low, high = means[main] - deviation, means[main] + deviation
    intervals: Any = results.intervals(main) if main in INTERVALS else ()
    if len(intervals):
        by_method = intervals.set_index("method")
        low.update(by_method["low"])
        high.update(by_method["high"])
    lesser = main in results.lesser_is_better
    order = means[main].sort_values(ascending=lesser, na_position="last", kind="stable").index
    rows: list[dict[str, Any]] = []
    lines: list[list[Any]] = []
    for method in order:
        cells = [
            replace(marked[name][method], text=_cell(means[name][method], name))
            for name in available
        ]
        lines.append([sanitize(method), *cells])
        mean, *ends = to_json_safe([float(x[method]) for x in (means[main], low, high)])
        row = {"method": sanitize(method), "mean": mean, "low": ends[0], "high": ends[1]}
        row["interval"] = "–" if mean is None else f"{ends[0]:.1f} to {ends[1]:.1f}"
        rows.append({**row, "main": asdict(cells[available.index(main)])})
    known = [row for row in rows if row["mean"] is not None]
    left = min((row["low"] for row in known), default=0.0)
    right = max((row["high"] for row in known), default=1.0)
    ticker = import_optional("matplotlib.ticker", extra="report", purpose="The axis of a report")
    ticks = ticker.MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(left, right)
    title, short = METRICS[main]
    table = Table(["method", *(METRICS[name][1] for name in available)], lines)
    return {
        "data": sanitize(data),
        "main_title": title,
        "short": short,
        "how": _BOOTSTRAP if len(intervals) else _DEVIATION,
        "table": to_json_safe(asdict(table)),
        "rows": rows,
        "axis": [float(ticks[0]), float(ticks[-1] if lesser else min(ticks[-1], 100))],
        "differences": significant_differences(results, main),
    }


def _headline(results: Any, data: Any) -> str:
    """Return which method is best, and which are not significantly worse."""
    main = next((name for name in MAIN_METRICS if name in results.frame.columns), "accuracy")
    name = METRICS[main][1].removesuffix(", %")
    if len(data) > 1:
        ranks = results.significance(main).ranks.sort_values()
        best = sanitize(ranks.index[0])
        return f"{best} has the best average rank by {name}: {ranks.iloc[0]:.2f} of {len(ranks)}."
    best, *others = single_set(results, main)["rows"]
    if best["mean"] is None:
        return f"No method has a value for {name}."
    level = [row["method"] for row in others if row["main"]["marked"]]
    return f"{best['method']} has the highest {name}: {best['mean']:.1f} % ({best['interval']})" + (
        f"; not significantly worse: {', '.join(level)}." if level else "."
    )


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
        A single sentence if no pair differs, or if there are too few folds to say so; none for a
        single method.
    """
    tests = results.paired_tests(metric)
    if not len(tests):
        return []
    if not any(results.decides(data, metric) for data in tests["data"].unique()):
        folds = max((results.n_folds(data, metric) for data in tests["data"].unique()), default=0)
        return [
            f"{count(folds, 'fold')} cannot decide which differences are beyond chance: the test "
            f"needs {MIN_FOLDS}"
        ]
    lesser = metric in results.lesser_is_better
    share = 1.0 if lesser else 100.0
    several = tests["data"].nunique() > 1
    sentences = []
    for test in tests.sort_values("p_holm", kind="stable").itertuples():
        if not test.p_holm < LEVEL or not results.decides(test.data, metric):
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
    return [f"Corrected for all {pairs}, no difference is beyond chance (p < {LEVEL:g})"]


def _section(results: Any, metric: str) -> dict[str, Any]:
    """Return what a report has on a metric over several data sets."""
    outcome = results.significance(metric)
    decides = outcome.decides and not outcome.nemenyi.isna().all(axis=None)
    drawn = decides and metric in ("accuracy", "auc", "detection_accuracy")
    bound = outcome.critical_difference if outcome.decides else math.nan
    return {
        "metric": metric,
        "title": METRICS[metric][0],
        "short": METRICS[metric][1],
        "lesser": metric in results.lesser_is_better,
        "table": to_json_safe(asdict(results.best_table(metric)), text=sanitize),
        "ranks": [
            {"method": sanitize(name), "rank": number(rank)}
            for name, rank in outcome.ranks.sort_values().items()
        ],
        "n_datasets": outcome.n_datasets,
        "test": outcome_over_sets(outcome),
        "critical_difference": to_json_safe(float(bound)),
        "diagram": _diagram(results, metric) if drawn else None,
    }


def _diagram(results: Any, metric: str) -> str:
    """Return the critical-difference diagram as the address of a picture in SVG."""
    figures = import_optional("matplotlib.figure", extra="report", purpose="The diagram")
    rows = len(results.significance(metric).ranks)
    figure = figures.Figure(figsize=(8, 0.45 * rows + 1.2), layout="constrained")
    ax = figure.subplots()
    results.critical_difference(metric, ax=ax)
    for text in ax.texts:  # names of methods come from the user: do not parse them as mathematics
        text.set_parse_math(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
