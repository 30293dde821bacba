"""How SoftPIGMIL judges and combines models: folds, held-out AUC, weights, calibration, copies."""

import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import rankdata

from pigmil._core.segments import segment_ids, segment_mean, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._selection import FOLD_GROUP, grouped_folds, stratified_folds
from pigmil.estimators._soft_steps import soft_pool
from pigmil.scale import LazyBags, map_instances
from pigmil.scale import column_moments as moments_of_bags

_N_FOLDS = 4
_SMALLEST_DIFFERENCE = 0.005  # of held-out AUC that means anything
_STABILITY_POWER = 2
_LEAST_STABILITY = 0.1


def ordered_folds(bags: Bags | LazyBags, positive: BoolArray) -> list[BoolArray]:
    """Return folds of bags that do not depend on their order: bags are dealt by their means.

    Groups of bags are kept together as by :func:`pigmil.estimators._selection.inner_folds`.
    The key of a bag is the mean over its instances of the sum of their standardized features.
    """
    _, mean, variance = moments_of_bags(bags)
    factor = np.where(variance > 1e-20 * (1.0 + mean**2), 1.0, 0.0)
    factor /= np.sqrt(np.where(factor > 0, variance, 1.0))

    def bag_keys(block: Bags) -> FloatArray:
        sums = np.asarray(block.instances @ factor).ravel() - mean @ factor
        return segment_mean(sums, block.offsets)

    order = np.argsort(map_instances(bag_keys, bags), kind="stable")
    groups = bags.bag_info.get(FOLD_GROUP)
    if groups is not None:
        return grouped_folds(positive, groups, _N_FOLDS, order=order)
    return stratified_folds(positive, _N_FOLDS, order=order)


def bag_auc(values: FloatArray, positive: BoolArray) -> float:
    """Return the share of pairs of a positive and a negative bag in the right order.

    Ties count one half.

    Examples
    --------
    >>> import numpy as np
    >>> bag_auc(np.array([3.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False]))
    0.875
    """
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    rank_sum = float(rankdata(values)[positive].sum())
    return (rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def auc_standard_error(auc: float, n_positive: int, n_negative: int) -> float:
    """Return the standard error of an area under the ROC curve after Hanley and McNeil (1982).

    The area is first drawn towards one half, as by one more bag of the smaller class that says
    nothing: otherwise a perfect one would have none. With ``q1 = a / (2 - a)`` and
    ``q2 = 2 a^2 / (1 + a)`` the square is
    ``(a (1 - a) + (n_positive - 1) (q1 - a^2) + (n_negative - 1) (q2 - a^2)) / (n_positive
    n_negative)``.

    Examples
    --------
    >>> round(auc_standard_error(1.0, 1, 1), 4)
    0.433
    """
    n_bags = min(n_positive, n_negative)
    area = max((auc * n_bags + 0.5) / (n_bags + 1), 0.5)
    both_positive, both_negative = area / (2 - area), 2 * area**2 / (1 + area)
    square = area * (1 - area) + (n_positive - 1) * (both_positive - area**2)
    square += (n_negative - 1) * (both_negative - area**2)
    return float(np.sqrt(square / (n_positive * n_negative)))


def pool_overlap(
    scores: FloatArray,
    held_out: FloatArray,
    offsets: IntArray,
    positive: BoolArray,
    sharpness: float,
) -> float:
    """Return how much of the places of positive bags stays where it is if the bag is held out.

    With the softmax q of the scores of a bag and q' of those by models without it: the mean over
    positive bags of ``sum_i min(q_i, q'_i)``, from 0 to 1. A model that ranks bags well but picks
    other instances as soon as some bags are missing is not to be trusted.

    Parameters
    ----------
    scores, held_out : array of shape (n_instances,)
        Scores of a model, and of the models without the fold of each bag.
    offsets, positive
        As in :class:`~pigmil.estimators._soft_steps.WalkProblem`.
    sharpness : float
        Factor of the scores in the softmax.

    Examples
    --------
    >>> import numpy as np
    >>> scores, held_out = np.array([0.0, 0.0, 5.0]), np.array([0.0, np.log(3.0), 5.0])
    >>> pool_overlap(scores, held_out, np.array([0, 2, 3]), np.array([True, False]), 1.0)
    0.75
    """
    kept = np.minimum(
        soft_pool(scores, offsets, sharpness), soft_pool(held_out, offsets, sharpness)
    )
    return float(segment_reduce(np.add, kept, offsets)[positive].mean())


def model_weights(
    aucs: FloatArray,
    stabilities: FloatArray,
    positive: BoolArray,
    temperature: float,
    smallest: float = 0.01,
) -> FloatArray:
    """Return the weights of the models, which sum to 1.

    ``w_m ~ stability_m^2 exp((auc_m - max auc) / t)``; those below ``smallest`` of the largest
    become 0. Differences that could be chance should not decide: ``t^2 = (temperature e)^2 +
    0.005^2`` with the standard error e of the largest area (:func:`auc_standard_error`). The
    second term stands for areas that differ for other reasons than how well instances are ranked.

    Parameters
    ----------
    aucs : array of shape (n_models,)
        Held-out areas.
    stabilities : array of shape (n_models,)
        See :func:`pool_overlap`; those below 0.1 count as 0.1.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    temperature : float
        In standard errors.
    smallest : float, default=0.01
        Beside the largest weight.

    Examples
    --------
    >>> import numpy as np
    >>> stabilities = np.array([1.0, 0.5, 1.0])
    >>> weights = model_weights(np.array([0.9, 0.9, 0.3]), stabilities, np.arange(40) < 20, 0.5)
    >>> weights * 5
    array([4., 1., 0.])
    """
    n_positive = int(positive.sum())
    error = auc_standard_error(float(aucs.max()), n_positive, len(positive) - n_positive)
    weights = np.exp((aucs - aucs.max()) / np.hypot(temperature * error, _SMALLEST_DIFFERENCE))
    weights *= np.maximum(stabilities, _LEAST_STABILITY) ** _STABILITY_POWER
    weights[weights < smallest * weights.max()] = 0.0
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def fit_sigmoid(
    values: FloatArray, positive: BoolArray, *, max_iter: int = 100
) -> tuple[float, float]:
    """Return slope and intercept of ``P(positive) = 1 / (1 + exp(-(slope v + intercept)))``.

    Platt's targets ``(n_positive + 1) / (n_positive + 2)`` and ``1 / (n_negative + 2)``, Newton's
    method on standardized values; the slope is at least 0.05 per standard deviation, so that a
    higher value never means a lower probability.

    Examples
    --------
    >>> import numpy as np
    >>> slope, intercept = fit_sigmoid(np.array([-1.0, 1.0]), np.array([False, True]))
    >>> round(slope, 4), round(abs(intercept), 4)
    (0.6931, 0.0)
    """
    n_positive, n_negative = positive.sum(), (~positive).sum()
    targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    center, spread = float(values.mean()), float(values.std())
    spread = spread if spread > 1e-12 else 1.0
    design = np.column_stack([(values - center) / spread, np.ones(len(values))])
    prior = np.log(targets.mean() / (1.0 - targets.mean()))
    parameters = np.array([0.0, prior])
    for _ in range(max_iter):
        chance = 1.0 / (1.0 + np.exp(-np.clip(design @ parameters, -500.0, 500.0)))
        curvature = (design * (chance * (1.0 - chance))[:, None]).T @ design
        step = np.linalg.solve(curvature + 1e-9 * np.eye(2), design.T @ (targets - chance))
        parameters += step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        if np.abs(step).max() < 1e-10:
            break
    slope, intercept = (float(value) for value in parameters)
    if slope < 0.05:
        slope, intercept = 0.05, float(prior)
    return slope / spread, intercept - slope * center / spread


def copy_penalty(rows: Any, offsets: IntArray, positive: BoolArray) -> FloatArray:
    """Return what to subtract from instances that are exact copies of negatives.

    An instance of a positive bag with a copy in a negative bag loses ``-log(c)``, where ``c`` is
    the share of the negatives that have a copy in another negative bag, at least one of them.
    Where features are continuous ``c`` is near 0 and a copy is strong evidence; where they are
    counts or categories ``c`` is near 1 and a copy means nothing.

    Parameters
    ----------
    rows : array or CSR of shape (n_instances, n_features)
        The instances.
    offsets, positive
        As in :class:`WalkProblem`.

    Returns
    -------
    array of shape (n_instances,)
        0 for all others.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0], [2.0], [1.0], [3.0], [4.0]])
    >>> copy_penalty(rows, np.array([0, 2, 4, 5]), np.array([True, False, False])).round(2)
    array([1.1, 0. , 0. , 0. , 0. ])
    """
    owner = segment_ids(offsets)
    group = _groups_of_equal_rows(rows)
    negative = ~positive[owner]
    # Number of different negative bags in which each distinct row occurs.
    pairs = np.unique(np.column_stack([group[negative], owner[negative]]), axis=0)
    n_bags = np.bincount(pairs[:, 0], minlength=int(group.max()) + 1)[group]
    repeated = int((n_bags[negative] > 1).sum())
    penalty = -np.log(max(repeated, 1) / int(negative.sum()))
    return np.where(~negative & (n_bags > 0), penalty, 0.0)


def _groups_of_equal_rows(rows: Any) -> IntArray:
    """Number the distinct rows; equal rows share a number."""
    if sp.issparse(rows):
        rows = sp.csr_matrix(rows, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        ends = rows.indptr
        parts = itertools.pairwise(ends)
        keys = [rows.indices[a:b].tobytes() + rows.data[a:b].tobytes() for a, b in parts]
    else:
        keys = [row.tobytes() for row in np.ascontiguousarray(rows) + 0.0]
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
