"""Measures over all instances together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from pigmil._core.typing import BoolArray, FloatArray, IntArray


def detection_accuracy(detected: Any, instance_labels: Any, *, pos_label: Any = None) -> float:
    """Return the share of the detected instances that are positive.

    Implements the detection accuracy of the paper's Table I.

    Parameters
    ----------
    detected : array of int, or bool array of shape (n_instances,)
        Flat positions of the detected instances, as in ``detected_instances_``, or a mask.
    instance_labels : array of shape (n_instances,)
        The truth. Detected instances whose truth is unknown (NaN) are left out.
    pos_label : label, optional
        The positive label; the greatest one by default.

    Returns
    -------
    float
        NaN if no instance of known truth was detected.

    Examples
    --------
    >>> from pigmil.metrics import detection_accuracy
    >>> detection_accuracy([0, 2], [1, -1, -1, 1])
    0.5
    """
    known, positive = check_truth(instance_labels, pos_label)
    detected = np.asarray(detected)
    if detected.dtype == bool:
        if detected.shape != positive.shape:
            raise ValueError(
                f"detected is a mask of shape {detected.shape}; expected {positive.shape}."
            )
        detected = np.flatnonzero(detected)
    detected = detected.astype(np.int64) if detected.size == 0 else detected
    if detected.dtype.kind not in "iu" or detected.ndim != 1:
        raise ValueError(
            "detected must be a 1-D array of positions or a mask; got shape "
            f"{detected.shape}, type {detected.dtype}."
        )
    if detected.size and not 0 <= detected.min() <= detected.max() < len(positive):
        raise ValueError(
            f"detected holds positions from {detected.min()} to {detected.max()}; there are "
            f"instances 0 to {len(positive) - 1}."
        )
    detected = detected[known[detected]]
    return float(positive[detected].mean()) if len(detected) else float("nan")


def instance_auc(
    scores: Any, instance_labels: Any, *, pos_label: Any = None, missing: str = "omit"
) -> float:
    """Return the area under the ROC curve over instances.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive, as in ``instance_scores_``.
    instance_labels : array of shape (n_instances,)
        The truth. Instances whose truth is unknown (NaN) are left out.
    pos_label : label, optional
        The positive label; the greatest one by default.
    missing : {"omit", "lowest"}, default="omit"
        Leave out instances without a score (NaN), or rank them below all others.

    Returns
    -------
    float
        NaN if only positives or only negatives are left.

    Examples
    --------
    >>> from pigmil.metrics import instance_auc
    >>> instance_auc([0.9, 0.1, 0.2, 0.15], [1, -1, -1, 1])
    0.75
    """
    positive, scores = _scored(scores, instance_labels, pos_label, missing)
    if positive.all() or not positive.any():
        return float("nan")
    return float(roc_auc_score(positive, scores))


def instance_average_precision(
    scores: Any, instance_labels: Any, *, pos_label: Any = None, missing: str = "omit"
) -> float:
    """Return the average precision over instances.

    Parameters
    ----------
    scores, instance_labels, pos_label, missing
        As in :func:`instance_auc`.

    Returns
    -------
    float
        NaN if no positive is left.

    Examples
    --------
    >>> from pigmil.metrics import instance_average_precision
    >>> instance_average_precision([0.9, 0.1, 0.2], [1, 1, -1])
    0.833...
    """
    positive, scores = _scored(scores, instance_labels, pos_label, missing)
    if not positive.any():
        return float("nan")
    return float(average_precision_score(positive, scores))


def recall_at_fraction(
    scores: Any, instance_labels: Any, *, fraction: float = 0.05, pos_label: Any = None
) -> float:
    """Return the share of positive instances among the best-scored fraction of all instances.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive. Instances without a score (NaN) rank last.
    instance_labels : array of shape (n_instances,)
        The truth. Instances whose truth is unknown (NaN) are left out.
    fraction : float, default=0.05
        Share of the instances that is inspected, rounded up to a whole number of instances.
    pos_label : label, optional
        The positive label; the greatest one by default.

    Returns
    -------
    float
        Ties at the end of the inspected part count with their expected share.

    Examples
    --------
    >>> from pigmil.metrics import recall_at_fraction
    >>> recall_at_fraction([0.9, 0.8, 0.2, 0.1], [1, 0, 1, 0], fraction=0.5)
    0.5
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be above 0 and at most 1; got {fraction!r}.")
    positive, ranks = _scored(scores, instance_labels, pos_label, "lowest")
    n_inspected = int(np.ceil(fraction * len(ranks) - 1e-9))
    last = np.sort(ranks)[-n_inspected]
    above, tied = ranks > last, ranks == last
    share = (n_inspected - above.sum()) / tied.sum()
    return float((positive[above].sum() + share * positive[tied].sum()) / positive.sum())


def froc_curve(
    scores: Any, bags: Any, instance_labels: Any = None, *, pos_label: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return false positives per bag and sensitivity at every threshold of the score.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive. Instances without a score (NaN) are never called positive.
    bags : Bags, or array of shape (n_bags + 1,)
        The bags, or their offsets.
    instance_labels : array of shape (n_instances,), optional
        The truth; that of ``bags`` by default. Instances of unknown truth (NaN) are left out.
    pos_label : label, optional
        The positive label; the greatest one by default.

    Returns
    -------
    false_positives, sensitivity : array of shape (n_thresholds + 1,)
        Negative instances at or above the threshold, per bag, and the share of the positive
        instances there. The first point is (0, 0); thresholds fall from point to point.

    Examples
    --------
    >>> from pigmil.metrics import froc_curve
    >>> false_positives, sensitivity = froc_curve([3, 2, 1, 0], [0, 2, 4], [1, 0, 1, 0])
    >>> false_positives.tolist(), sensitivity.tolist()
    ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    offsets, known, positive = check_bags(bags, instance_labels, pos_label)
    values = check_scores(scores, len(positive))
    called = known & ~np.isnan(values)
    _, level = np.unique(-values[called], return_inverse=True)
    n_levels = int(level.max()) + 1 if len(level) else 0
    hits = np.bincount(level[positive[called]], minlength=n_levels)
    alarms = np.bincount(level[~positive[called]], minlength=n_levels)
    sensitivity = np.concatenate([[0.0], np.cumsum(hits)]) / positive.sum()
    return np.concatenate([[0.0], np.cumsum(alarms)]) / (len(offsets) - 1), sensitivity


def froc_score(
    scores: Any,
    bags: Any,
    instance_labels: Any = None,
    *,
    pos_label: Any = None,
    rates: Sequence[float] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
) -> float:
    """Return the mean sensitivity at given numbers of false positives per bag.

    Parameters
    ----------
    scores, bags, instance_labels, pos_label
        As in :func:`froc_curve`.
    rates : sequence of float, default=(1/4, 1/2, 1, 2, 4, 8)
        False positives per bag.

    Returns
    -------
    float
        Between the points of the curve the sensitivity is interpolated linearly; beyond the last
        point it stays as it is.

    References
    ----------
    Ehteshami Bejnordi et al.: Diagnostic Assessment of Deep Learning Algorithms for Detection of
    Lymph Node Metastases in Women With Breast Cancer. JAMA 318, 2017 (CAMELYON16).

    Examples
    --------
    >>> from pigmil.metrics import froc_score
    >>> froc_score([3, 2, 1, 0], [0, 2, 4], [1, 0, 1, 0], rates=(0.25, 0.5))
    0.75
    """
    x, y = froc_curve(scores, bags, instance_labels, pos_label=pos_label)
    at = np.asarray(rates, dtype=np.float64)
    # Where the curve is vertical the upper end counts, which np.interp does not guarantee.
    left = np.searchsorted(x, at, side="right") - 1
    right = np.minimum(left + 1, len(x) - 1)
    width = np.where(x[right] > x[left], x[right] - x[left], 1.0)
    return float(np.mean(y[left] + (at - x[left]) / width * (y[right] - y[left])))


def _scored(
    scores: Any, instance_labels: Any, pos_label: Any, missing: str
) -> tuple[BoolArray, FloatArray]:
    """Return truth and ranks of the instances that count, higher ranks for higher scores."""
    if missing not in ("omit", "lowest"):
        raise ValueError(f"missing must be 'omit' or 'lowest'; got {missing!r}.")
    known, positive = check_truth(instance_labels, pos_label)
    scores = check_scores(scores, len(positive))
    counted = known if missing == "lowest" else known & ~np.isnan(scores)
    scores, positive = scores[counted], positive[counted]
    # Ranks, because scikit-learn rejects infinite scores and NaN would sort last, not first.
    unscored = np.isnan(scores)
    _, ranks = np.unique(np.where(unscored, -np.inf, scores), return_inverse=True)
    return positive, np.where(unscored, -1.0, ranks.astype(np.float64))


def check_truth(instance_labels: Any, pos_label: Any) -> tuple[BoolArray, BoolArray]:
    """Return which instances have a known label, and which are positive."""
    labels = np.asarray(instance_labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"instance_labels must be a 1-D array with one entry per instance; got {labels.shape}."
        )
    known = np.asarray(labels == labels, dtype=bool)
    if pos_label is None:
        if not known.any():
            raise ValueError("instance_labels are all NaN; nothing can be measured.")
        pos_label = np.unique(labels[known])[-1]
    elif not (labels[known] == pos_label).any():
        values = np.unique(labels[known])[:10].tolist()
        raise ValueError(f"pos_label={pos_label!r} does not occur in instance_labels {values}.")
    return known, known & np.asarray(labels == pos_label, dtype=bool)


def check_bags(
    bags: Any, instance_labels: Any, pos_label: Any
) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return the offsets of bags, and of their instances which are known and which positive."""
    if instance_labels is None:
        instance_labels = getattr(bags, "instance_labels", None)
    if instance_labels is None:
        raise ValueError("instance_labels is neither given nor part of the bags.")
    offsets = np.asarray(getattr(bags, "offsets", bags), dtype=np.int64)
    return offsets, *check_truth(instance_labels, pos_label)


def check_scores(scores: Any, n_instances: int) -> FloatArray:
    """Return the scores as floats; raise unless there is one per instance."""
    values: FloatArray = np.asarray(scores, dtype=np.float64)
    if values.shape != (n_instances,):
        raise ValueError(
            f"scores have shape {values.shape}; expected ({n_instances},), one per instance."
        )
    return values
