"""The opening of a detection report: the answer, how sure it is, and what sets it apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pigmil._core.text import count, sanitize
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.report._ranking import column_title, info_columns, info_texts, ranked_rows
from pigmil.report._text import probability, rounded
from pigmil.report._thumbnails import Thumbnails

TOP_ROWS, TOP_FEATURES, UNNAMED_FEATURES = 10, 15, 20


def detection_answer(
    model: Any,
    bags: Bags,
    predictions: dict[str, Any],
    *,
    selection: Any = None,
    diagnosis: Any = None,
    thumbnails: Thumbnails | None = None,
) -> dict[str, Any]:
    """Return which instances make bags positive, and how sure that is.

    Parameters
    ----------
    model : fitted detecting method
        Fitted on these bags.
    bags : Bags
        The bags as the user provided them.
    predictions : dict
        From :func:`pigmil.report._predictions.bag_predictions`.
    selection : InstanceSelection, optional
        Instances called positive at a false-discovery level (``fdr``, ``instances``,
        ``adjusted``, ``called``, ``notes``).
    diagnosis : Diagnosis, optional
        From :func:`pigmil.diagnose`; its verdict and reasons are shown.
    thumbnails : Thumbnails, optional
        Pictures of the instances.

    Returns
    -------
    dict
        ``headline``, ``verdict``, ``sure`` (sentences), ``rows`` (the best instances),
        ``columns``, ``level`` and ``more``, the number of instances that are not listed.
    """
    positive = np.asarray(bags.y == model.positive_label_)
    if selection is None:
        called = np.unique(np.asarray(model.detected_instances_, dtype=np.int64))
        verb, level = "are detected", None
    else:
        called = np.asarray(selection.called, dtype=np.int64)
        verb, level = "are called positive", float(selection.fdr)
    n_bags = len(np.unique(bags.bag_index[called]))
    verb = verb if len(called) != 1 else verb.replace("are", "is")
    headline = (
        f"{count(len(called), 'instance')} in {n_bags} of "
        f"{count(int(positive.sum()), 'positive bag')} {verb}"
    )
    if level is not None:
        headline += f", at a false-discovery rate of {100 * level:g} %"
    sure = _calls(level, len(called), int(positive.sum()) - n_bags)
    if selection is not None:
        sure += [sanitize(note, limit=600) for note in selection.notes]
    figures = predictions.get("figures")
    if figures:
        sure.append(
            f"Bags that were held out are classified with an area under the ROC curve of "
            f"{probability(figures['area under the ROC curve'])} (0.5 is chance)."
        )
    else:
        sure.append(predictions["why_not"])
    sure += _unused(model, bags)
    names, same = info_columns(bags)
    rows, more = _best_rows(model, bags, selection, [*names, *same], thumbnails)
    return {
        "headline": headline + ".",
        "verdict": None if diagnosis is None else verdict(diagnosis),
        "sure": [*([] if diagnosis is None else reasons(diagnosis)), *sure],
        "level": level,
        "columns": [
            {**column_title(bags, name), "of_bag": name in same} for name in [*names, *same]
        ],
        "rows": rows,
        "more": more,
    }


def _calls(level: float | None, n_called: int, n_without: int) -> list[str]:
    """Return what the level means for this number of calls."""
    if level is None:
        return [
            "No false-discovery level was computed: read the scores as a ranking, and the first "
            "instances of each bag as the best candidates."
        ]
    missed = (
        "Every positive bag has a call."
        if not n_without
        else f"{count(n_without, 'positive bag')} {'has' if n_without == 1 else 'have'} no call."
    )
    if not n_called:
        return [f"No instance stands out enough for a level of {100 * level:g} %."]
    return [
        f"On average at most {100 * level:g} % of the called instances are false: about "
        f"{level * n_called:,.0f} of {n_called:,}. {missed}"
    ]


def verdict(diagnosis: Any) -> str:
    """Return how far to trust the detection, in a few words."""
    return f"{diagnosis.verdict}, confidence {diagnosis.confidence:.2f} of 1"


def reasons(diagnosis: Any) -> list[str]:
    """Return what the verdict of a diagnosis rests on, one sentence each."""
    low, high = diagnosis.auc_interval
    lines = [
        *(f"Alarm: {alarm}" for alarm in diagnosis.alarms),
        *diagnosis.reasons,
        f"Held-out bags ranked by their best instance: area under the ROC curve "
        f"{probability(diagnosis.auc)} (95 % interval {probability(low)} to {probability(high)}; "
        "0.5 is chance).",
    ]
    if diagnosis.stability == diagnosis.stability:
        lines.append(
            f"Fitted on half of the bags each, two models pick the same instance in "
            f"{100 * diagnosis.same_pick:.0f} % of the positive bags "
            f"({100 * diagnosis.same_pick_by_chance:.0f} % by chance)."
        )
    return [sanitize(line, limit=600) for line in lines]


def _unused(model: Any, bags: Bags) -> list[str]:
    """Return sentences on instances without a score and bags that the method set aside."""
    sentences = []
    scored = int(np.isfinite(model.instance_scores_).sum())
    if scored < bags.n_instances:
        sentences.append(f"{scored:,} of {count(bags.n_instances, 'instance')} have a score.")
    working = getattr(model, "working_bags_", None)
    if working is not None and not working.kept.all():
        aside = bags.ids[working.bags[~working.kept]]
        names = ", ".join(sanitize(name) for name in aside[:5]) + (", …" if len(aside) > 5 else "")
        sentences.append(
            f"{len(aside)} of {len(working.kept)} positive bags took no part in the graph, after a "
            f"test of their best instances against those of the others; they have scores: {names}."
        )
    return sentences


def _best_rows(
    model: Any,
    bags: Bags,
    selection: Any,
    names: Sequence[str],
    thumbnails: Thumbnails | None,
) -> tuple[list[dict[str, Any]], int]:
    """Return the surest instances: the called ones, or the best of each positive bag."""
    order = ranked_rows(model, bags)
    levels = None
    if selection is None:
        _, first = np.unique(bags.bag_index[order], return_index=True)
        order = order[np.sort(first)]
    else:
        levels = np.full(bags.n_instances, np.nan)
        levels[selection.instances] = selection.adjusted
        order = order[np.isin(order, selection.called)]
        order = order[np.argsort(levels[order], kind="stable")]
    rows = [
        {
            "bag": sanitize(bags.ids[bags.bag_index[row]]),
            "bag_number": int(bags.bag_index[row]),
            "instance": int(row - bags.offsets[bags.bag_index[row]]),
            "score": rounded(model.instance_scores_[row])[0],
            "level": None if levels is None else probability(levels[row]),
            "info": info_texts(bags, int(row), names),
            "image": None if thumbnails is None else thumbnails.of(int(row)),
        }
        for row in order[:TOP_ROWS].tolist()
    ]
    return rows, len(order) - len(rows)


def feature_differences(bags: Bags, detected: IntArray, positive: Any) -> dict[str, Any] | None:
    """Return the features in which detected instances differ most from the negatives.

    The standardised difference of a feature is the mean of the detected instances minus the mean
    of the instances of negative bags, in standard deviations of the latter.

    Parameters
    ----------
    bags : Bags
        The bags in the units of the user.
    detected : array of int
        Flat indices of the detected instances.
    positive : array of bool of shape (n_bags,)
        The positive bags.

    Returns
    -------
    dict or None
        ``rows`` with ``name``, ``difference``, ``detected`` and ``negative``, the largest
        difference first; ``largest`` and ``note``. None if the features have no names and are
        many, or if nothing is detected.
    """
    negative = np.flatnonzero(np.repeat(~np.asarray(positive), bags.sizes))
    named = bags.feature_names is not None
    if not len(detected) or not len(negative) or (not named and bags.n_features > UNNAMED_FEATURES):
        return None
    mean, _ = _moments(bags.instances[detected])
    reference, deviation = _moments(bags.instances[negative])
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = (mean - reference) / deviation
    usable = np.flatnonzero(np.isfinite(difference))
    if not len(usable):
        return None
    order = usable[np.argsort(-np.abs(difference[usable]), kind="stable")][:TOP_FEATURES]
    names = bags.get_feature_names()
    return {
        "rows": [
            {
                "name": sanitize(names[column]),
                "difference": rounded(difference[column])[0],
                "detected": rounded(mean[column])[0],
                "negative": rounded(reference[column])[0],
            }
            for column in order.tolist()
        ],
        "largest": rounded(np.abs(difference[order]).max())[0],
        "note": f"The {len(order)} largest of {count(len(usable), 'feature')}."
        if len(order) < len(usable)
        else None,
    }


def _moments(values: Any) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column; missing values are left out."""
    if hasattr(values, "multiply"):
        mean = np.asarray(values.mean(axis=0)).ravel()
        square = np.asarray(values.multiply(values).mean(axis=0)).ravel()
        return mean, np.sqrt(np.maximum(square - mean**2, 0.0))
    array = np.asarray(values, dtype=np.float64)
    seen = np.isfinite(array)
    n_seen = np.maximum(seen.sum(axis=0), 1)
    mean = np.where(seen, array, 0.0).sum(axis=0) / n_seen
    square = (np.where(seen, array - mean, 0.0) ** 2).sum(axis=0) / n_seen
    empty = ~seen.any(axis=0)
    return np.where(empty, np.nan, mean), np.where(empty, np.nan, np.sqrt(square))
