"""Exemplar SVMs by hard-negative mining: small exact problems, checked by one matrix product."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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


@dataclass
class WorkingSets:
    """The working sets of one block of candidates, and the negatives they share."""

    points: FloatArray
    negatives: SharedNegatives
    upper: float
    members: IntArray = field(init=False)
    size: IntArray = field(init=False)
    alpha: FloatArray = field(init=False)
    weights: FloatArray = field(init=False)
    dual: FloatArray = field(init=False)
    gap: FloatArray = field(init=False)
    overflow: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        m, d = self.points.shape
        self.members = np.zeros((m, ROOM), np.int64)
        self.size = np.zeros(m, np.int64)
        self.alpha = np.zeros((m, ROOM))
        self.weights = np.zeros((m, d))
        self.dual = np.zeros(m)
        self.gap = np.full(m, np.inf)
        self.overflow = np.zeros(m, np.bool_)
        self._slot = np.full(self.negatives.n, -1, np.int64)
        self._rows = np.empty((0, d))
        self._n_rows = 0
        # Reused in every pass: allocation costs more than a pass over a small set.
        self._largest = np.empty((m, COLLECTED))
        self._index = np.empty((m, COLLECTED), np.int64)
        self._new = np.empty((m, ADDED), np.int64)
        self._n_new = np.zeros(m, np.int64)

    def collect(
        self,
        which: IntArray,
        weights: FloatArray,
        offset: FloatArray,
        floor: FloatArray,
        stride: int,
    ) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
        """Score the negatives for some candidates; return hinge sums and the largest hinges."""
        from pigmil.exemplars._mining_kernels import collect_largest

        hinge = np.zeros(which.size)
        count = np.zeros(which.size, np.int64)
        largest, index = self._largest[: which.size], self._index[: which.size]
        for first, scores in self.negatives.scores(weights, stride):
            collect_largest(scores, first, stride, offset, floor, hinge, count, largest, index)
        return hinge, count, largest, index

    def _fetch(self, wanted: IntArray) -> None:
        """Add negatives in double precision to the rows that the block shares."""
        missing = np.unique(wanted)
        missing = missing[self._slot[missing] < 0]
        stop = self._n_rows + missing.size
        if stop > len(self._rows):
            grown = np.empty((max(stop, 2 * len(self._rows)), self._rows.shape[1]))
            grown[: self._n_rows] = self._rows[: self._n_rows]
            self._rows = grown
        self._rows[self._n_rows : stop] = self.negatives.rows(missing)
        self._slot[missing] = np.arange(self._n_rows, stop)
        self._n_rows = stop

    def start(self, which: IntArray, stride: int) -> None:
        """Fill each working set with the negatives that lie furthest towards its candidate."""
        nothing = np.full(which.size, -np.inf)
        collected = self.collect(which, self.points[which], np.zeros(which.size), nothing, stride)
        self._grow(which, collected[1], collected[2], collected[3], -np.inf)

    def improve(self, which: IntArray, stride: int, tol: float) -> IntArray:
        """Make one pass over the candidates ``which``; return those that are not yet solved."""
        from pigmil.exemplars._mining_kernels import exact_hinges

        weights = self.weights[which]
        along = np.einsum("ij,ij->i", weights, self.points[which])
        error = self.negatives.score_error(weights)
        hinge, count, largest, index = self.collect(which, weights, 2.0 - along, -error, stride)
        squared = np.einsum("ij,ij->i", weights, weights)
        dual = self.dual[which]
        complete = count <= COLLECTED
        # The gap counts only in double precision, and only if every positive hinge was collected.
        excess = 0.5 * squared + self.upper * hinge - dual
        near = np.flatnonzero(complete & (excess <= 10 * tol * dual + self.upper * error))
        if near.size:
            kept = np.arange(COLLECTED) < count[near, None]
            self._fetch(index[near][kept])
            exact_hinges(
                self.points[which],
                weights,
                near,
                self._rows,
                self._slot,
                count,
                largest,
                index,
                hinge,
            )
        gap = np.full(which.size, np.inf)
        excess = 0.5 * squared + self.upper * hinge - dual
        gap[near] = np.maximum(excess[near], 0.0) / dual[near]
        if stride == 1:
            self.gap[which] = gap
        # By strong convexity |dw|^2 <= 2 gap: bound the error of w, not only of the objective.
        open_ = (gap > tol) | (excess > 0.02 * tol * squared)
        self._grow(which[open_], count[open_], largest[open_], index[open_], 0.0)
        stuck = self.overflow[which] | (open_ & (self._n_new[which] == 0))
        self.overflow[which[stuck]] = True
        remaining: IntArray = which[open_ & ~stuck]
        return remaining

    def _grow(
        self, which: IntArray, count: IntArray, largest: FloatArray, index: IntArray, least: float
    ) -> None:
        """Add the hardest collected negatives to each working set and solve it."""
        from pigmil.exemplars._mining_kernels import choose_new, grow_and_solve

        every = np.arange(which.size)
        new = np.empty((which.size, ADDED), np.int64)
        n_new = np.zeros(which.size, np.int64)
        choose_new(
            every,
            count,
            largest,
            index,
            self.members[which],
            self.size[which],
            least,
            ADDED,
            new,
            n_new,
        )
        self._fetch(new[np.arange(ADDED) < n_new[:, None]])
        self._new[which] = new
        self._n_new[which] = n_new
        grow_and_solve(
            self.points,
            which,
            self._rows,
            self._slot,
            self.upper,
            self._new,
            self._n_new,
            self.members,
            self.size,
            self.alpha,
            self.weights,
            self.dual,
            self.overflow,
        )


def mine_hard_negatives(
    points: FloatArray, negatives: SharedNegatives, upper: float, tol: float
) -> WorkingSets:
    """Solve the exemplar SVMs of a block of candidates by mining hard negatives.

    The returned sets have a relative ``gap`` for each candidate. It is above ``tol`` where the
    working set overflowed (many negatives inside the margin) and another solver is needed.
    """
    sets = WorkingSets(points, negatives, upper)
    unfinished = np.arange(len(points))
    strides = _strides(negatives.n)
    sets.start(unfinished, strides[0])
    for stride in strides[:-1]:
        for _ in range(ROUNDS_ON_SUBSAMPLE):
            unfinished = sets.improve(unfinished, stride, ROUGH)
            if unfinished.size <= len(points) // 4:
                break
        unfinished = np.flatnonzero(~sets.overflow)
    for _ in range(MAX_PASSES):
        if not unfinished.size:
            break
        unfinished = sets.improve(unfinished, 1, tol)
    return sets


def _strides(n: int) -> list[int]:
    """Return the strides of the subsamples to mine, each about twelve times the one before."""
    strides = [max(1, n // SUBSAMPLE)]
    while strides[-1] > 1:
        strides.append(max(1, strides[-1] // GROWTH))
    return strides
