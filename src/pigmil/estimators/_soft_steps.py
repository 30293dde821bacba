"""The steps of SoftPIGMIL: soft pool, walk, noisy-or, weights of the models, calibration.

Each is a sum over bags: a bag needs only the sums of the others to score itself again.
``psi`` holds one row per instance, whitened by a view (see ``_soft_views``).
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import rankdata

from pigmil._core.segments import offsets_of, segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray


def soft_pool(scores: FloatArray, offsets: IntArray, sharpness: float) -> FloatArray:
    """Share the one place of each bag among its instances.

    ``q_i = exp(sharpness s_i) / sum over the bag of exp(sharpness s_j)``.

    Examples
    --------
    >>> import numpy as np
    >>> soft_pool(np.array([0.0, np.log(3.0), 5.0]), np.array([0, 2, 3]), 1.0)
    array([0.25, 0.75, 1.  ])
    """
    owner = segment_ids(offsets)
    best = segment_reduce(np.maximum, scores, offsets)
    raised = np.exp(sharpness * (scores - best[owner]))
    return np.asarray(raised / segment_reduce(np.add, raised, offsets)[owner], dtype=np.float64)


def bag_sums(weights: FloatArray, rows: NDArray[Any], offsets: IntArray) -> NDArray[Any]:
    """Return the weighted sum of the rows of each bag, in the precision of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> bag_sums(np.array([1.0, 0.5, 2.0]), np.array([[1.0], [4.0], [5.0]]), np.array([0, 2, 3]))
    array([[ 3.],
           [10.]])
    """
    # A sparse product adds up rows several times faster than np.add.reduceat.
    entries = (weights.astype(rows.dtype), np.arange(len(rows)), offsets)
    sums: NDArray[Any] = sp.csr_matrix(entries, shape=(len(offsets) - 1, len(rows))) @ rows
    return sums


@dataclass(frozen=True)
class Direction:
    """A linear score of whitened instances: ``(psi . coef - center) / spread``."""

    coef: NDArray[Any]
    center: float
    spread: float

    def scores(self, psi: NDArray[Any]) -> FloatArray:
        """Return the score of every instance."""
        values = (psi @ self.coef.astype(psi.dtype)).astype(np.float64)
        return np.asarray((values - self.center) / self.spread, dtype=np.float64)


def standardized(coef: NDArray[Any], values: FloatArray, certain: BoolArray) -> Direction:
    """Measure values in standard deviations of the certain negatives' values.

    ``center`` and ``spread`` are the mean and the standard deviation of ``values[certain]``; the
    latter is at least a hundredth of the standard deviation of all values, and 1 if all are equal.

    Examples
    --------
    >>> import numpy as np
    >>> direction = standardized(np.ones(1), np.array([1.0, 3.0, 9.0]), np.array([1, 1, 0]) == 1)
    >>> direction.center, direction.spread
    (2.0, 1.0)
    """
    negatives = values[certain]
    spread = max(float(negatives.std()), 0.01 * float(values.std()))
    return Direction(coef, float(negatives.mean()), spread if spread > 1e-12 else 1.0)


class WalkProblem:
    """Hold what stays the same in all rounds of a walk over one view.

    Parameters
    ----------
    psi : array of shape (n_instances, n_directions)
        Whitened instances.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    """

    def __init__(self, psi: NDArray[Any], offsets: IntArray, positive: BoolArray) -> None:
        owner = segment_ids(offsets)
        sizes = np.diff(offsets)
        self.psi, self.offsets = psi, offsets
        self.inside = np.flatnonzero(positive[owner])
        self.certain = ~positive[owner]
        self.n_positive = int(positive.sum())
        self._candidates = psi[self.inside]
        self._starts = offsets_of(sizes[positive])
        self._place = segment_ids(self._starts)
        negatives = psi[self.certain]
        starts = offsets_of(sizes[~positive])
        sums = bag_sums(np.ones(len(negatives)), negatives, starts)
        self.negative_sum = sums.sum(axis=0)
        self.n_negative = int(sizes[~positive].sum())
        # The mean over the negatives of other bags: a negative bag does not count itself.
        self._against = (psi @ self.negative_sum).astype(np.float64)
        own = np.einsum("ij,ij->i", negatives, sums[segment_ids(starts)])
        self._against[self.certain] -= own
        others = np.where(positive, self.n_negative, np.maximum(self.n_negative - sizes, 1))
        self._against /= others[owner]

    def score(self, pool: FloatArray) -> tuple[FloatArray, Direction]:
        """Score every instance against the pool of the other bags.

        ``s_i = mean over the other positive bags b of sum_{j in b} q_j psi_i.psi_j - mean over
        the negative instances j of other bags of psi_i.psi_j``, then in standard deviations of
        the negatives' scores.

        Parameters
        ----------
        pool : array of shape (n_instances,)
            The shares q; only those of positive bags are read.

        Returns
        -------
        scores : array of shape (n_instances,)
        direction : Direction
            The same score for an instance of no training bag.
        """
        places = bag_sums(pool[self.inside], self._candidates, self._starts)
        total = places.sum(axis=0)
        towards = (self.psi @ total).astype(np.float64)
        own = np.einsum("ij,ij->i", self._candidates, places[self._place])
        towards[self.inside] = (towards[self.inside] - own) / max(self.n_positive - 1, 1)
        towards[self.certain] /= self.n_positive
        values = towards - self._against
        coef = total / self.n_positive - self.negative_sum / self.n_negative
        direction = standardized(coef, values, self.certain)
        return (values - direction.center) / direction.spread, direction


def walk(
    problem: WalkProblem, *, sharpness: float, max_iter: int, tol: float
) -> tuple[FloatArray, Direction, list[tuple[FloatArray, FloatArray]]]:
    """Score and share the places in turn, from equal shares, until the shares stay the same.

    Returns
    -------
    scores, direction
        Of the last round, see :meth:`WalkProblem.score`.
    rounds : list of (pool, scores)
        The shares of each round and the scores they gave, of the instances of positive bags.
    """
    offsets, inside = problem.offsets, problem.inside
    pool = soft_pool(np.zeros(len(problem.psi)), offsets, 1.0)
    rounds = []
    for _ in range(max_iter):
        scores, direction = problem.score(pool)
        rounds.append((pool[inside], scores[inside]))
        updated = soft_pool(scores, offsets, sharpness)
        change = np.abs(updated - pool)[inside].max()
        pool = updated
        if change < tol:
            break
    return scores, direction, rounds


def noisy_or_loss(
    parameters: FloatArray,
    psi: NDArray[Any],
    offsets: IntArray,
    positive: BoolArray,
    ridge: float,
) -> tuple[float, FloatArray]:
    """Return the loss of a noisy-or over bags and its gradient.

    With ``g_i = coef . psi_i + intercept`` and ``p_i = 1 / (1 + exp(-g_i))`` a bag is positive
    with probability ``p_b = 1 - prod_i (1 - p_i)``. The loss is minus the mean log-likelihood of
    the positive bags and that of the negative bags, half each, plus ``ridge / 2 |coef|^2``.

    Parameters
    ----------
    parameters : array of shape (n_directions + 1,)
        Coefficients, and the intercept last.
    psi, offsets, positive
        As in :class:`WalkProblem`.
    ridge : float
        Weight of the penalty.

    Examples
    --------
    >>> import numpy as np
    >>> loss, gradient = noisy_or_loss(
    ...     np.zeros(2), np.ones((2, 1)), np.array([0, 1, 2]), np.array([True, False]), 1.0
    ... )
    >>> round(loss, 4), gradient
    (0.6931, array([0., 0.]))
    """
    owner = segment_ids(offsets)
    coef = parameters[:-1]
    margins = (psi @ coef.astype(psi.dtype)).astype(np.float64) + parameters[-1]
    # -log(1 - p_b), which is the loss of a negative bag
    hazard = segment_reduce(np.add, np.logaddexp(0.0, margins), offsets)
    hazard = np.maximum(hazard, 1e-300)
    weights = np.where(positive, 0.5 / positive.sum(), 0.5 / (~positive).sum())
    losses = np.where(positive, -np.log(-np.expm1(-hazard)), hazard)
    with np.errstate(over="ignore"):
        slopes = np.where(positive, -1.0 / np.expm1(hazard), 1.0) * weights
    pull = slopes[owner] / (1.0 + np.exp(-np.clip(margins, -500.0, 500.0)))
    gradient = (pull.astype(psi.dtype) @ psi).astype(np.float64) + ridge * coef
    loss = float(weights @ losses) + 0.5 * ridge * float(coef @ coef)
    return loss, np.append(gradient, pull.sum())


def fit_noisy_or(
    psi: NDArray[Any], offsets: IntArray, positive: BoolArray, *, ridge: float, max_iter: int
) -> Direction:
    """Minimize :func:`noisy_or_loss` by L-BFGS from zero coefficients.

    The number of steps is bounded, which also regularizes; the score is the linear part, in
    standard deviations of the negatives' scores.
    """
    start = np.append(np.zeros(psi.shape[1]), -2.0)
    found = minimize(
        noisy_or_loss,
        start,
        args=(psi, offsets, positive, ridge),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": max_iter},
    )
    coef = found.x[:-1]
    values = (psi @ coef.astype(psi.dtype)).astype(np.float64)
    return standardized(coef, values, ~positive[segment_ids(offsets)])


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


def model_weights(aucs: FloatArray, temperature: float, smallest: float = 0.01) -> FloatArray:
    """Return the weights of the models, which sum to 1.

    ``w_m ~ exp((auc_m - max auc) / temperature)``; those below ``smallest`` of the largest
    become 0.

    Examples
    --------
    >>> import numpy as np
    >>> model_weights(np.array([0.9, 0.9, 0.5]), 0.02)
    array([0.5, 0.5, 0. ])
    """
    weights = np.exp((aucs - aucs.max()) / temperature)
    weights[weights < smallest] = 0.0
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


def quota(sizes: IntArray, most: int) -> int:
    """Return the largest number per bag with which all bags together give at most ``most``.

    At least 1: no bag is left out.

    Examples
    --------
    >>> import numpy as np
    >>> quota(np.array([2, 10, 10]), 12)
    5
    """
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(sizes, middle).sum() <= most:
            low = middle
        else:
            high = middle - 1
    return low


def working_positions(
    scores: FloatArray, offsets: IntArray, most: int, order: FloatArray
) -> IntArray:
    """Return the instances to work with: the best half and a random half of each bag's quota.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Scores so far; equal ones for a random choice.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    most : int
        Quota of each bag; smaller bags are taken whole.
    order : array of shape (n_instances,)
        Random numbers that break ties and choose the other half.

    Returns
    -------
    array of int
        Flat positions in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> working_positions(
    ...     np.array([1.0, 9.0, 2.0, 3.0]), np.array([0, 4]), 2, np.array([0.4, 0.3, 0.9, 0.1])
    ... )
    array([1, 2])
    """
    owner = segment_ids(offsets)
    best = _leaders(scores, order, owner, offsets, (most + 1) // 2)
    rest = np.where(best, -1.0, order)
    others = _leaders(rest, order, owner, offsets, most - (most + 1) // 2) & ~best
    return np.flatnonzero(best | others).astype(np.int64)


def _leaders(
    values: FloatArray, ties: FloatArray, owner: IntArray, offsets: IntArray, most: int
) -> BoolArray:
    """Mark the ``most`` instances of greatest value in each bag."""
    ranking = np.lexsort((-ties, -values, owner))
    marked = np.zeros(len(values), dtype=bool)
    marked[ranking] = np.arange(len(values)) - offsets[owner] < most
    return marked
