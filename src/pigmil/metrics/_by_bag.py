"""Measures within each positive bag, averaged over the bags."""

from typing import Any, NamedTuple

import numpy as np

from pigmil._core.segments import segment_ids
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.metrics._instances import (
    check_bags,
    check_scores,
    instance_auc,
    instance_average_precision,
)


class ScoredBags(NamedTuple):
    """Scores and truth of the instances, with the bags that a per-bag measure averages over."""

    scores: FloatArray
    known: BoolArray
    positive: BoolArray
    offsets: IntArray
    counted: IntArray


def _check_arguments(
    scores: Any, bags: Any, y: Any, instance_labels: Any, pos_label: Any = None,
    bag_pos_label: Any = None,
) -> ScoredBags:  # fmt: skip
    """Validate the arguments that all per-bag measures share."""
    y = getattr(bags, "y", None) if y is None else y
    if y is None:
        raise ValueError("y is neither given nor part of the bags.")
    y = np.asarray(y)
    offsets, known, positive = check_bags(bags, instance_labels, pos_label)
    scores = check_scores(scores, len(positive))
    if len(offsets) != len(y) + 1 or offsets[-1] != len(positive):
        raise ValueError(
            f"{len(y)} bag labels and {len(positive)} instance labels do not fit offsets of "
            f"{len(offsets) - 1} bags and {offsets[-1]} instances."
        )
    positive_bag = y == (np.unique(y)[-1] if bag_pos_label is None else bag_pos_label)
    n_positive = np.add.reduceat(positive.astype(np.int64), offsets[:-1])
    counted = np.flatnonzero(positive_bag & (n_positive > 0))
    return ScoredBags(scores, known, positive, offsets, counted)


def hit_at_k(
    scores: Any,
    bags: Any,
    y: Any = None,
    instance_labels: Any = None,
    *,
    k: int = 1,
    pos_label: Any = None,
    bag_pos_label: Any = None,
) -> float:
    """Return the share of positive bags with a positive among their k best-scored instances.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive. An instance without a score (NaN) is never among the best; a bag
        without any score counts as missed.
    bags : Bags, or array of shape (n_bags + 1,)
        The bags, or their offsets.
    y : array of shape (n_bags,), optional
        Labels of the bags; those of ``bags`` by default.
    instance_labels : array of shape (n_instances,), optional
        The truth; that of ``bags`` by default. An unknown label (NaN) does not count as positive.
    k : int, default=1
        How many instances of each bag are inspected; all of a smaller bag.
    pos_label, bag_pos_label : label, optional
        The positive label of instances and of bags; the greatest ones by default.

    Returns
    -------
    float
        NaN if no positive bag counts. Ties for the last place count with the probability of a hit
        if they are broken at random, so the order of instances does not matter. Positive bags
        without an instance known to be positive are left out: no ranking could succeed there.

    See Also
    --------
    hit_at_k_chance : The value that a random ranking reaches.

    Examples
    --------
    >>> from pigmil.metrics import hit_at_k
    >>> hit_at_k([0.9, 0.1, 0.2, 0.7, 0.5], [0, 2, 4, 5], [1, 1, -1], [1, -1, 1, -1, -1])
    0.5
    """
    data = _check_arguments(scores, bags, y, instance_labels, pos_label, bag_pos_label)
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be a positive integer; got {k!r}.")
    if not len(data.counted):
        return float("nan")
    n_bags = len(data.offsets) - 1
    bag = segment_ids(data.offsets)
    scored = ~np.isnan(data.scores)
    bag, values, positive = bag[scored], data.scores[scored], data.positive[scored]
    n_scored = np.bincount(bag, minlength=n_bags)
    n_inspected = np.minimum(k, n_scored)
    # The last inspected score of each bag: instances sorted by bag, then by falling score.
    order = np.lexsort((-values, bag))
    ends = np.cumsum(n_scored) - n_scored + np.maximum(n_inspected, 1) - 1
    last = values[order[np.minimum(ends, len(order) - 1)]] if len(order) else np.zeros(n_bags)
    above, tied = values > last[bag], values == last[bag]
    missed = (np.bincount(bag[above & positive], minlength=n_bags) == 0) & (n_scored > 0)
    n_open = n_inspected - np.bincount(bag[above], minlength=n_bags)
    n_tied = np.bincount(bag[tied], minlength=n_bags)
    n_tied_positive = np.bincount(bag[tied & positive], minlength=n_bags)
    hits = 1.0 - _miss_probability(n_tied, n_tied_positive, n_open)
    hits = np.where(missed, hits, (n_scored > 0).astype(np.float64))
    return float(hits[data.counted].mean())


def hit_at_k_chance(
    bags: Any, y: Any = None, instance_labels: Any = None, *, k: int = 1, **labels: Any
) -> float:
    """Return the hit@k that a random ranking of the instances reaches on average.

    Parameters
    ----------
    bags, y, instance_labels, k, pos_label, bag_pos_label
        As in :func:`hit_at_k`.

    Returns
    -------
    float
        Mean over the positive bags of ``1 - C(n - p, k) / C(n, k)`` for bags of ``n`` instances,
        ``p`` of them positive; NaN if no positive bag counts.

    Examples
    --------
    >>> from pigmil.metrics import hit_at_k_chance
    >>> hit_at_k_chance([0, 4], [1], [1, 0, 0, 0], k=2)
    0.5
    """
    offsets = np.asarray(getattr(bags, "offsets", bags), dtype=np.int64)
    return hit_at_k(np.zeros(offsets[-1]), bags, y, instance_labels, k=k, **labels)


def per_bag_auc(
    scores: Any, bags: Any, y: Any = None, instance_labels: Any = None, **labels: Any
) -> float:
    """Return the area under the ROC curve within each positive bag, averaged over the bags.

    Unlike :func:`instance_auc` it does not reward scores that only separate bags.

    Parameters
    ----------
    scores, bags, y, instance_labels, pos_label, bag_pos_label
        As in :func:`hit_at_k`; instances without a score or of unknown truth are left out.

    Returns
    -------
    float
        NaN if no positive bag holds both positive and negative instances.

    Examples
    --------
    >>> from pigmil.metrics import per_bag_auc
    >>> per_bag_auc([3, 2, 1, 0], [0, 2, 4], [1, 1], [1, 0, 0, 1])
    0.5
    """
    return _mean_over_bags(instance_auc, scores, bags, y, instance_labels, **labels)


def per_bag_average_precision(
    scores: Any, bags: Any, y: Any = None, instance_labels: Any = None, **labels: Any
) -> float:
    """Return the average precision within each positive bag, averaged over the bags.

    Parameters
    ----------
    scores, bags, y, instance_labels, pos_label, bag_pos_label
        As in :func:`per_bag_auc`.

    Returns
    -------
    float
        NaN if no positive bag holds both positive and negative instances.

    Examples
    --------
    >>> from pigmil.metrics import per_bag_average_precision
    >>> per_bag_average_precision([3, 2, 1, 0], [0, 2, 4], [1, 1], [1, 0, 0, 1])
    0.75
    """
    return _mean_over_bags(instance_average_precision, scores, bags, y, instance_labels, **labels)


def _mean_over_bags(measure: Any, *arguments: Any, **labels: Any) -> float:
    data = _check_arguments(*arguments, **labels)
    usable = data.known & ~np.isnan(data.scores)
    values = []
    for bag in data.counted:
        rows = slice(data.offsets[bag], data.offsets[bag + 1])
        truth, scores = data.positive[rows][usable[rows]], data.scores[rows][usable[rows]]
        if truth.any() and not truth.all():
            values.append(measure(scores, truth))
    return float(np.mean(values)) if values else float("nan")


def _miss_probability(n: Any, n_positive: Any, n_drawn: Any) -> FloatArray:
    """Return the probability that none of the positives is among those drawn, C(n-p,k)/C(n,k)."""
    miss: FloatArray = np.ones(len(n))
    for number in range(int(n_drawn.max(initial=0))):
        left = np.maximum(n - n_positive - number, 0) / np.maximum(n - number, 1)
        miss = np.where(number < n_drawn, miss * left, miss)
    return miss
