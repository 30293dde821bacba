"""Two groups of instances that both explain the bag labels: find them, and leave out a trap."""

from typing import Any

import numpy as np

from pigmil._core.segments import segment_argmax, segment_argmin, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.estimators._selection import instance_keys
from pigmil.estimators._soft_committee import ModelSettings, fit_model
from pigmil.estimators._soft_views import (
    fit_scale,
    landmark_positions,
    square_unit,
    squared_distances,
    whitening,
)
from pigmil.estimators._soft_weights import bag_auc, fit_sigmoid

_SATURATED = 0.99  # held-out AUC from which bag labels are as good as explained
_NEARLY_SATURATED = 0.9  # of the single walk that finds the first group
_FAR_TIGHTER = 4.0  # ratio of squared spreads
_FAR_APART = 4.0  # gap between two groups, in standard deviations of the negatives


def without_trap(
    rows: Any,
    offsets: IntArray,
    positive: BoolArray,
    folds: list[BoolArray],
    settings: ModelSettings,
    *,
    n_landmarks: int,
) -> tuple[IntArray, float]:
    """Leave out the tighter of two groups of instances that both explain the bag labels.

    One walk, on the standard scale with a kernel of width 1, finds a group; a second walk or a
    noisy-or without the instances it calls positive may find a rival. If both rank nearly all
    bags held out, bag labels cannot decide between them, and a group that is far tighter than
    the other is taken for something that merely comes with positive bags. Where bags have many
    positive instances, the best of them may form one group and the rest another. Groups that are
    not far apart (:func:`gap`) are one kind, and there is no rival.

    Parameters
    ----------
    rows : array of shape (n_instances, n_features)
        The instances.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    folds : list of arrays of bool of shape (n_bags,)
        Bags to hold out together; at least one fold.
    settings : ModelSettings
    n_landmarks : int
        Most landmarks from each class.

    Returns
    -------
    kept : array of int
        Positions of the instances that stay.
    rival_auc : float
        Held-out AUC of the second group; NaN if the first one does not reach 0.9, or if both are
        of one kind.
    """
    everyone = np.arange(offsets[-1], dtype=np.int64)
    inside = np.repeat(positive, np.diff(offsets))
    scaled = fit_scale("standard", rows).apply(rows)
    marks = landmark_positions(rows, inside, n_landmarks)
    features = np.exp(-squared_distances(scaled, scaled[marks]) / (2.0 * square_unit(scaled)))
    projection, shift = whitening(features, features[marks], 0.5)
    psi = (features @ projection - shift).astype(np.float32)
    groups: list[IntArray] = []
    picks: list[FloatArray] = []
    left, rival_auc = everyone, np.nan
    for _ in range(2):
        starts = np.searchsorted(left, offsets).astype(np.int64)
        kinds = ("walk", "noisy_or") if groups else ("walk",)
        fits = [fit_model(kind, psi[left], starts, positive, folds, settings) for kind in kinds]
        maxima = [segment_reduce(np.maximum, fit.held_out, starts) for fit in fits]
        aucs = [bag_auc(best, positive) for best in maxima]
        fit, best, auc = fits[np.argmax(aucs)], maxima[np.argmax(aucs)], max(aucs)
        picked = scaled[left[segment_argmax(fit.scores, starts)[positive]]]
        picks.append(picked[np.argsort(instance_keys(picked), kind="stable")])
        if groups:
            if gap(picks[0], picks[1], scaled[~inside]) < _FAR_APART:
                return everyone, np.nan
            rival_auc = auc
        if auc < (_SATURATED if groups else _NEARLY_SATURATED):
            return everyone, rival_auc
        slope, intercept = fit_sigmoid(best, positive)
        called = (slope * fit.scores + intercept > 0) & inside[left]
        called[segment_argmin(fit.scores, starts)] = False  # every bag keeps one
        groups.append(left[called])
        left = left[~called]
    spreads = [robust_spread(group) for group in picks]
    tighter = int(np.argmin(spreads))
    if spreads[1 - tighter] < _FAR_TIGHTER * spreads[tighter]:
        return everyone, rival_auc
    return np.delete(everyone, groups[tighter]), rival_auc


def robust_spread(rows: FloatArray) -> float:
    """Return the sum over features of the squared median absolute deviation from the median.

    Examples
    --------
    >>> import numpy as np
    >>> robust_spread(np.array([[0.0], [1.0], [2.0], [3.0], [100.0]]))
    1.0
    """
    deviations = np.abs(rows - np.median(rows, axis=0))
    return float((np.median(deviations, axis=0) ** 2).sum())


def gap(first: FloatArray, second: FloatArray, negatives: FloatArray) -> float:
    """Return how far two groups are apart, in standard deviations of the negatives.

    With the differences of means ``a`` and ``b`` of the even and of the odd rows of the groups:
    ``a.b / |a|`` over the standard deviation of the negatives along ``a``. Noise in the means
    cancels in the product.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.array([[0.0], [1.0]]), np.array([[6.0], [9.0]])
    >>> gap(first, second, np.array([[-2.0], [2.0]]))
    4.0
    """
    axis, other = (second[start::2].mean(axis=0) - first[start::2].mean(axis=0) for start in (0, 1))
    spread = float(np.std(negatives @ axis))
    return float(axis @ other) / max(spread, 1e-12)
