"""Exemplar SVMs by hard-negative mining: small exact problems, checked by one matrix product."""

from typing import Any, NamedTuple

import numpy as np

from pigmil._core.typing import FloatArray, IntArray
from pigmil.exemplars._shared_negatives import SharedNegatives

ROOM = 192  # members of one working set; more means that mining is the wrong tool
COLLECTED = 256  # hard negatives remembered from one pass
ADDED = 24  # hard negatives a working set gains in one round
MAX_PASSES = 60
SUBSAMPLE = 1000  # negatives in the subsample that is mined first
GROWTH = 12  # how much larger each next subsample is
ROUNDS_ON_SUBSAMPLE = 4
ROUGH = 0.1  # gap at which a subsample gives no further information


class Solutions(NamedTuple):
    """Exemplar SVMs in the coordinates of the negatives, one row per candidate."""

    weights: FloatArray  # (m, d)
    gap: FloatArray  # (m,) duality gap relative to the dual objective
    slack: FloatArray  # (m,) the smallest hinge of a negative, if all are positive; else 0


def mine_hard_negatives(
    points: FloatArray, negatives: SharedNegatives, upper: float, tol: float
) -> Solutions:
    """Solve the exemplar SVMs of a block of candidates by mining hard negatives.

    The relative gap is above ``tol`` where the working set overflowed (many negatives inside the
    margin) and another solver is needed.

    Parameters
    ----------
    points : array of shape (m, d)
        Candidates in the coordinates of the negatives.
    negatives : SharedNegatives
        Dense negatives.
    upper, tol : float
        Bound on the multipliers, and the gap to reach.
    """
    mining = _Mining(points, negatives, upper)
    unfinished = np.arange(len(points))
    strides = [max(1, negatives.n // SUBSAMPLE)]
    while strides[-1] > 1:
        strides.append(max(1, strides[-1] // GROWTH))
    mining.start(unfinished, strides[0])
    for stride in strides[:-1]:
        for _ in range(ROUNDS_ON_SUBSAMPLE):
            unfinished = mining.improve(unfinished, stride, ROUGH)
            if unfinished.size <= len(points) // 4:
                break
        unfinished = np.flatnonzero(~mining.sets.overflow)
    for _ in range(MAX_PASSES):
        if not unfinished.size:
            break
        unfinished = mining.improve(unfinished, 1, tol)
    return Solutions(mining.sets.weights, mining.gap, mining.slack)


class _Mining:
    """The working sets of one block of candidates, and the negatives they share."""

    def __init__(self, points: FloatArray, negatives: SharedNegatives, upper: float) -> None:
        from pigmil.exemplars import _kernels

        m, d = points.shape
        self.kernels: Any = _kernels
        self.points, self.negatives, self.upper = points, negatives, upper
        self.sets = _kernels.WorkingSets(
            members=np.zeros((m, ROOM), np.int64),
            size=np.zeros(m, np.int64),
            alpha=np.zeros((m, ROOM)),
            weights=np.zeros((m, d)),
            dual=np.zeros(m),
            overflow=np.zeros(m, np.bool_),
        )
        self.gap, self.slack = np.full(m, np.inf), np.zeros(m)
        # Reused in every pass: allocation costs more than a pass over a small set.
        self._largest = np.empty((m, COLLECTED))
        self._index = np.zeros((m, COLLECTED), np.int64)

    def start(self, which: IntArray, stride: int) -> None:
        """Fill each working set with the negatives that lie furthest towards its candidate."""
        everything = np.full(which.size, -np.inf)
        hardest = self._collect(self.points[which], np.zeros(which.size), everything, stride)
        self._grow(which, hardest, -np.inf)

    def improve(self, which: IntArray, stride: int, tol: float) -> IntArray:
        """Make one pass over the candidates ``which``; return those that are not yet solved."""
        points, weights, dual = self.points[which], self.sets.weights[which], self.sets.dual[which]
        along = np.einsum("ij,ij->i", weights, points)
        error = self.negatives.score_error(weights)
        hardest = self._collect(weights, 2.0 - along, -error, stride)
        half = 0.5 * np.einsum("ij,ij->i", weights, weights)
        # The gap counts only in double precision, and only if every positive hinge was collected.
        excess = half + self.upper * hardest.hinge - dual
        complete = hardest.n_hard <= COLLECTED
        near = np.flatnonzero(complete & (excess <= 10 * tol * dual + self.upper * error))
        rows, place = self._rows(hardest.negative[near], hardest.n_hard[near])
        self.kernels.exact_hinges(points, weights, near, rows, place, hardest)
        excess = half + self.upper * hardest.hinge - dual
        gap = np.full(which.size, np.inf)
        gap[near] = np.maximum(excess[near], 0.0) / dual[near]
        if stride == 1:
            self.gap[which] = gap
            for i in near[hardest.n_hard[near] == self.negatives.n]:
                self.slack[which[i]] = max(hardest.largest[i, : self.negatives.n].min(), 0.0)
        # By strong convexity |dw|^2 <= 2 gap: bound the error of w, not only of the objective.
        unsolved = np.flatnonzero((gap > tol) | (excess > 0.04 * tol * half))
        remaining: IntArray = which[unsolved]
        self._grow(remaining, self.kernels.HardNegatives(*(part[unsolved] for part in hardest)))
        return remaining[~self.sets.overflow[remaining]]

    def _collect(
        self, weights: FloatArray, offset: FloatArray, floor: FloatArray, stride: int
    ) -> Any:
        """Return the negatives with the largest hinges ``offset + score``, of every stride-th."""
        m = len(weights)
        hardest = self.kernels.HardNegatives(
            np.zeros(m), np.zeros(m, np.int64), self._largest[:m], self._index[:m]
        )
        for first, scores in self.negatives.scores(weights, stride):
            self.kernels.collect_hardest(scores, first, stride, offset, floor, hardest)
        return hardest

    def _grow(self, which: IntArray, hardest: Any, least: float = 0.0) -> None:
        """Add the hardest collected negatives to each working set and solve it."""
        # All negatives if they fit: the first solution is then the last.
        added = ADDED if self.negatives.n > ROOM else ROOM
        self.kernels.extend_sets(which, hardest, least, added, self.sets)
        rows, place = self._rows(self.sets.members[which], self.sets.size[which])
        self.kernels.solve_sets(self.points, which, rows, place, self.upper, self.sets)

    def _rows(self, index: IntArray, count: IntArray) -> tuple[FloatArray, IntArray]:
        """Return the negatives in the first ``count`` columns of every row, and their places."""
        index = index[:, : count.max(initial=0)]
        valid = np.arange(index.shape[1]) < count[:, None]
        wanted, inverse = np.unique(index[valid], return_inverse=True)
        place = np.zeros(index.shape, np.int64)
        place[valid] = inverse
        return self.negatives.rows(wanted), place
