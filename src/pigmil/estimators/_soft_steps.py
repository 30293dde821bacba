"""The models of SoftPIGMIL on one view: soft pool, walk, noisy-or.

Each is a sum over bags: a bag needs only the sums of the others to score itself again.
``psi`` holds one row per instance, whitened by a view (see ``_soft_views``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize

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
        self.traced = np.flatnonzero(positive[owner])
        self.certain = ~positive[owner]
        self.n_positive = int(positive.sum())
        self._candidates = psi[self.traced]
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
        places = bag_sums(pool[self.traced], self._candidates, self._starts)
        total = places.sum(axis=0)
        towards = (self.psi @ total).astype(np.float64)
        own = np.einsum("ij,ij->i", self._candidates, places[self._place])
        towards[self.traced] = (towards[self.traced] - own) / max(self.n_positive - 1, 1)
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
        The shares of each round that count and the scores they gave: those of the instances
        ``problem.traced``.
    """
    offsets, traced = problem.offsets, problem.traced
    pool = soft_pool(np.zeros(len(problem.psi)), offsets, 1.0)
    rounds = []
    for _ in range(max_iter):
        scores, direction = problem.score(pool)
        rounds.append((pool[traced], scores[traced]))
        updated = soft_pool(scores, offsets, sharpness)
        change = np.abs(updated - pool)[traced].max()
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
