"""How well instances were found: measures on the instances, not on the bags.

Bag-level measures are scikit-learn's own, applied to what ``predict`` and
``decision_function`` return.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from pigmil._core.segments import segment_ids, segment_reduce
from pigmil._core.typing import IntArray
from pigmil.bags import Bags

__all__ = ["detection_accuracy", "instance_auc", "instance_average_precision", "top1_hit_rate"]


def detection_accuracy(detected: Any, instance_labels: Any, *, pos_label: Any = None) -> float:
    """Share of the detected instances that are truly positive.

    Implements the detection accuracy of the paper's Table I.

    Parameters
    ----------
    detected : array of int, or bool array of shape (n_instances,)
        Flat positions of the detected instances, as in ``detected_instances_``, or a mask.
    instance_labels : array of shape (n_instances,)
        The truth. Detected instances whose truth is unknown (NaN) are left out.
    pos_label : label, optional
        The positive one; the greatest label if not given.

    Returns
    -------
    float
        NaN if nothing, or nothing of known truth, was detected.

    Examples
    --------
    >>> from pigmil.metrics import detection_accuracy
    >>> detection_accuracy([0, 2], [1, -1, -1, 1])
    0.5
    """
    known, positive = _truth(instance_labels, pos_label)
    detected = np.asarray(detected)
    if detected.dtype == bool:
        if detected.shape != positive.shape:
            raise ValueError(
                f"detected is a mask of shape {detected.shape}; expected {positive.shape}."
            )
        detected = np.flatnonzero(detected)
    elif detected.size == 0:
        detected = np.zeros(0, dtype=np.int64)
    elif detected.dtype.kind not in "iu" or detected.ndim != 1:
        raise ValueError(
            "detected must be a 1-D array of positions or a mask; got shape "
            f"{detected.shape}, type {detected.dtype}."
        )
    elif detected.min() < 0 or detected.max() >= len(positive):
        raise ValueError(
            f"detected holds positions from {detected.min()} to {detected.max()}; there are "
            f"instances 0 to {len(positive) - 1}."
        )
    detected = detected[known[detected]]
    return float(positive[detected].mean()) if len(detected) else float("nan")


def instance_auc(
    scores: Any, instance_labels: Any, *, pos_label: Any = None, missing: str = "omit"
) -> float:
    """Area under the ROC curve over instances.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive, as in ``instance_scores_``.
    instance_labels : array of shape (n_instances,)
        The truth. Instances whose truth is unknown (NaN) are left out.
    pos_label : label, optional
        The positive one; the greatest label if not given.
    missing : {"omit", "lowest"}, default="omit"
        What becomes of instances without a score (NaN): left out, or ranked below all others.

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
    """Average precision over instances.

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


def top1_hit_rate(
    scores: Any,
    bags: Any,
    y: Any = None,
    instance_labels: Any = None,
    *,
    pos_label: Any = None,
    bag_pos_label: Any = None,
) -> float:
    """Share of positive bags whose best-scored instance is truly positive.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive. An instance without a score (NaN) is never the best; a bag
        without any score counts as missed.
    bags : Bags, or array of shape (n_bags + 1,)
        The bags, or their offsets.
    y : array of shape (n_bags,), optional
        Labels of the bags; those of ``bags`` if not given.
    instance_labels : array of shape (n_instances,), optional
        The truth; that of ``bags`` if not given.
    pos_label, bag_pos_label : label, optional
        The positive label of instances and of bags; the greatest if not given.

    Returns
    -------
    float
        NaN if no positive bag counts. A tie for the best counts with the share of the tied
        that are positive, so that the order of instances does not matter. Positive bags without
        an instance known to be positive are left out: no choice could be right there.

    Examples
    --------
    >>> from pigmil.metrics import top1_hit_rate
    >>> top1_hit_rate([0.9, 0.1, 0.2, 0.7, 0.5], [0, 2, 4, 5], [1, 1, -1], [1, -1, 1, -1, -1])
    0.5
    """
    if isinstance(bags, Bags):
        offsets = bags.offsets
        y = bags.y if y is None else y
        instance_labels = bags.instance_labels if instance_labels is None else instance_labels
    else:
        offsets = np.asarray(bags, dtype=np.int64)
    for name, value in (("y", y), ("instance_labels", instance_labels)):
        if value is None:
            raise ValueError(f"{name} is neither given nor held by the bags.")
    _, positive = _truth(instance_labels, pos_label)
    scores = _floats(scores, len(positive))
    y = np.asarray(y)
    if len(offsets) != len(y) + 1 or offsets[-1] != len(positive):
        raise ValueError(
            f"{len(y)} bag labels and {len(positive)} instance labels do not fit offsets of "
            f"{len(offsets) - 1} bags and {offsets[-1]} instances."
        )
    counts = segment_reduce(np.add, positive.astype(np.int64), offsets)
    counted = (y == (np.unique(y)[-1] if bag_pos_label is None else bag_pos_label)) & (counts > 0)
    if not counted.any():
        return float("nan")
    return float(_hits(scores, positive, offsets)[counted].mean())


def _hits(scores: NDArray[Any], positive: NDArray[Any], offsets: IntArray) -> NDArray[Any]:
    """Share of positives among the best-scored instances of each bag."""
    usable = np.where(np.isnan(scores), -np.inf, scores)
    best = segment_reduce(np.maximum, usable, offsets)[segment_ids(offsets)]
    is_best = (usable == best) & ~np.isnan(scores)
    n_best = segment_reduce(np.add, is_best.astype(np.int64), offsets)
    n_right = segment_reduce(np.add, (is_best & positive).astype(np.int64), offsets)
    share: NDArray[Any] = n_right / np.maximum(n_best, 1)
    return share


def _truth(instance_labels: Any, pos_label: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which instances have a known label, and which are positive."""
    labels = np.asarray(instance_labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"instance_labels must be a 1-D array with one entry an instance; got {labels.shape}."
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


def _floats(scores: Any, n: int) -> NDArray[Any]:
    values: NDArray[Any] = np.asarray(scores, dtype=np.float64)
    if values.shape != (n,):
        raise ValueError(f"scores have shape {values.shape}; expected ({n},), one an instance.")
    return values


def _scored(
    scores: Any, instance_labels: Any, pos_label: Any, missing: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Truth and ranks of the instances that count."""
    if missing not in ("omit", "lowest"):
        raise ValueError(f"missing must be 'omit' or 'lowest'; got {missing!r}.")
    known, positive = _truth(instance_labels, pos_label)
    scores = _floats(scores, len(positive))
    kept = known if missing == "lowest" else known & ~np.isnan(scores)
    scores, positive = scores[kept], positive[kept]
    if len(scores) == 0:
        return positive, scores
    # Ranks, because infinite scores are refused by scikit-learn and NaN sorts last, not first.
    lowest = np.isnan(scores)
    _, ranks = np.unique(np.where(lowest, -np.inf, scores), return_inverse=True)
    return positive, np.where(lowest, -1.0, ranks.astype(np.float64))
