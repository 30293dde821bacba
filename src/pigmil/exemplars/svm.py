"""Exemplar SVMs: one candidate against all negatives, many candidates at once."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pigmil._core.typing import FloatArray, IntArray
from pigmil.exemplars._model import ExemplarClassifiers, SharedNegatives, check_pair

_ROOM = 192  # members of one working set; more means that mining is the wrong tool
_COLLECTED = 256  # hard negatives remembered from one pass
_ADDED = 24  # hard negatives a working set gains in one round
_MAX_PASSES = 60
_SUBSAMPLE = 1000  # negatives in the subsample that is mined first
_GROWTH = 12  # how much larger each next subsample is
_ROUNDS_ON_SUBSAMPLE = 4
_ROUGH = 0.1  # gap at which a subsample gives no further information
# Share of the hinge margin (2) to which a working set is solved: a little above rounding.
_EXACT = 1e-12
_BLOCK_BYTES = 1 << 28  # of the working sets of a block of candidates
_LIBSVM_TOL = (0.01, 1e-9)  # share of tol, and the least that double precision reaches
_LIBSVM_STEPS = 300_000  # so that badly scaled features end with a warning


def exemplar_svms(
    candidates: Any,
    negatives: Any,
    *,
    C: float = 1.0,
    tol: float = 1e-4,
    n_jobs: int | None = None,
) -> ExemplarClassifiers:
    """Train one linear SVM per candidate, against all negatives.

    The model is that of ``SVC(kernel="linear", C=C, class_weight={1: n_negatives, -1: 1})``
    with candidate i as the only positive: hinge loss, free bias, and the positive weighted like
    all negatives together ("resampling" in the paper). With this weight the optimal bias puts the
    candidate on its margin, b = 1 - w.x_i, which leaves a problem without a bias ::

        min_w |w|^2 / 2 + C sum_j max(0, 2 - w.(x_i - n_j)),

    whose dual is a QP with box constraints. Few negatives have a weight in it, so each candidate
    keeps a small working set that is solved exactly. One matrix product scores all negatives for
    all unfinished candidates, and the hardest negatives enter the working sets until the duality
    gap closes. LIBSVM solves what mining leaves: candidates with many negatives inside the margin,
    and sparse instances.

    Departs from the paper: not in the model. If every negative violates the margin (tiny C), all
    biases of an interval are optimal, and the middle is taken, as in LIBSVM.

    Parameters
    ----------
    candidates : array-like or CSR of shape (m, d)
        The exemplars.
    negatives : array-like, memmap or CSR of shape (n, d)
        Instances of the negative bags. Read in blocks; a memory map is never loaded whole.
    C : float, default=1.0
        Weight of the loss on each negative.
    tol : float, default=1e-4
        Largest duality gap that is accepted, relative to the dual objective.
    n_jobs : int, default=None
        Threads over blocks of candidates. The result does not depend on it.

    Returns
    -------
    ExemplarClassifiers

    Warns
    -----
    ConvergenceWarning
        If some candidate's gap stays above ``tol``.

    Notes
    -----
    Cost: about 4 passes of 2 m n d floating-point operations in single precision, and a QP of
    some tens of variables per candidate. The gap is always evaluated in double precision, over all
    negatives that single precision cannot exclude.

    References
    ----------
    .. [1] T. Malisiewicz, A. Gupta, A. Efros, "Ensemble of exemplar-SVMs for object detection and
       beyond", ICCV 2011.

    Examples
    --------
    >>> from pigmil.exemplars import exemplar_svms
    >>> svms = exemplar_svms([[2.0]], [[0.0], [-1.0]], C=100.0)
    >>> float(svms.weights[0, 0].round(6)), float(svms.intercepts[0].round(6))
    (1.0, -1.0)
    """
    candidates, negatives = check_pair(candidates, negatives)
    if not C > 0 or not tol > 0:
        raise ValueError(f"C and tol must be positive; got C={C!r}, tol={tol!r}.")
    shared = SharedNegatives(negatives)
    step = int(np.clip(_BLOCK_BYTES // (8 * _ROOM * shared.d), 16, 512))
    starts = range(0, candidates.shape[0], step)
    # One BLAS thread for any n_jobs: otherwise threads multiply and the last digits change.
    with threadpool_limits(limits=1, user_api="blas"):
        parts = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(_solve_block)(candidates[start : start + step], shared, C, tol)
            for start in starts
        )
    weights, intercepts, gaps = (np.concatenate(column) for column in zip(*parts, strict=True))
    late = int((gaps > tol).sum())
    if late:
        warnings.warn(
            f"{late} of {len(gaps)} exemplar SVMs ended with a relative duality gap above "
            f"tol={tol:g} (largest {gaps.max():.1e}). Scale the features, or raise tol or lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return ExemplarClassifiers(weights, intercepts, gaps)


def _solve_block(
    candidates: Any, shared: SharedNegatives, C: float, tol: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, intercepts and gaps of some candidates, in the units of the input."""
    points = shared.points(candidates)
    upper = C * shared.scale**2
    mining = _Mining(points, shared, upper)
    if not shared.is_sparse:
        mining.solve(tol)
    weights, gaps, slack = mining.weights, mining.gap, mining.slack
    for i in np.flatnonzero(gaps > tol):
        weight, gap, least = _solve_by_libsvm(points[i], shared, upper, tol)
        if gap < gaps[i]:
            weights[i], gaps[i], slack[i] = weight, gap, least
    # Where every hinge is positive, all biases of an interval of this length are optimal.
    intercepts = 1.0 - np.einsum("ij,ij->i", weights, points) - slack / 2
    weights = weights / shared.scale
    return weights, intercepts - weights @ shared.mean, gaps


class _Mining:
    """Solve the exemplar SVMs of a block of candidates by mining hard negatives.

    Each candidate has a working set: the few negatives that matter to it, with their multipliers.

    Parameters
    ----------
    points : array of shape (m, d)
        Candidates in the coordinates of the negatives.
    negatives : SharedNegatives
        Dense negatives.
    upper : float
        Bound on the multipliers.

    Attributes
    ----------
    weights : array of shape (m, d)
        Solutions, ``w = sum of alpha_j (x - n_j)`` over the working set.
    gap : array of shape (m,)
        Duality gap relative to the dual objective. It stays large where the working set overflowed
        (many negatives inside the margin) and another solver is needed.
    slack : array of shape (m,)
        The smallest hinge of a negative, if all are positive; else 0.
    """

    def __init__(self, points: FloatArray, negatives: SharedNegatives, upper: float) -> None:
        from pigmil.exemplars import _kernels

        m, d = points.shape
        self.kernels: Any = _kernels
        self.points, self.negatives, self.upper = points, negatives, upper
        self.members = [np.empty(0, np.int64)] * m  # the working set of each candidate
        self.alpha = [np.empty(0)] * m  # the multipliers of its members
        self.overflow = np.zeros(m, np.bool_)  # whether the set is full, or nothing is left to add
        self.weights, self.dual = np.zeros((m, d)), np.zeros(m)
        self.gap, self.slack = np.full(m, np.inf), np.zeros(m)
        # Reused in every pass: allocation costs more than a pass over a small set.
        self._largest = np.empty((m, _COLLECTED))
        self._index = np.zeros((m, _COLLECTED), np.int64)

    def solve(self, tol: float) -> None:
        """Mine growing subsamples of the negatives, then all of them until the gaps close."""
        unfinished = np.arange(len(self.points))
        strides = [max(1, self.negatives.n // _SUBSAMPLE)]
        while strides[-1] > 1:
            strides.append(max(1, strides[-1] // _GROWTH))
        # Begin with the negatives that lie furthest towards each candidate.
        nothing, everything = np.zeros(len(self.points)), np.full(len(self.points), -np.inf)
        hardest = self._collect(self.points, nothing, everything, strides[0])
        self._grow(unfinished, hardest, -np.inf)
        for stride in strides[:-1]:
            for _ in range(_ROUNDS_ON_SUBSAMPLE):
                unfinished = self._improve(unfinished, stride, _ROUGH)
                if unfinished.size <= len(self.points) // 4:
                    break
            unfinished = np.flatnonzero(~self.overflow)
        for _ in range(_MAX_PASSES):
            if not unfinished.size:
                break
            unfinished = self._improve(unfinished, 1, tol)

    def _improve(self, which: IntArray, stride: int, tol: float) -> IntArray:
        """Make one pass over the candidates ``which``; return those that are not yet solved."""
        points, weights, dual = self.points[which], self.weights[which], self.dual[which]
        along = np.einsum("ij,ij->i", weights, points)
        error = self.negatives.score_error(weights)
        hardest = self._collect(weights, 2.0 - along, -error, stride)
        half = 0.5 * np.einsum("ij,ij->i", weights, weights)
        # The gap counts only in double precision, and only if every positive hinge was collected.
        excess = half + self.upper * hardest.hinge - dual
        complete = hardest.n_hard <= _COLLECTED
        near = np.flatnonzero(complete & (excess <= 10 * tol * dual + self.upper * error))
        for i in near:
            count = hardest.n_hard[i]
            rows = self.negatives.rows(hardest.negative[i, :count])
            hinges = 2.0 - (points[i] - rows) @ weights[i]
            hardest.largest[i, :count] = hinges
            hardest.hinge[i] = np.maximum(hinges, 0.0).sum()
            if stride == 1 and count == self.negatives.n:
                self.slack[which[i]] = max(hinges.min(), 0.0)
        excess = half + self.upper * hardest.hinge - dual
        gap = np.full(which.size, np.inf)
        gap[near] = np.maximum(excess[near], 0.0) / dual[near]
        if stride == 1:
            self.gap[which] = gap
        # By strong convexity |dw|^2 <= 2 gap: bound the error of w, not only of the objective.
        unsolved = np.flatnonzero((gap > tol) | (excess > 0.04 * tol * half))
        remaining: IntArray = which[unsolved]
        self._grow(remaining, self.kernels.HardNegatives(*(part[unsolved] for part in hardest)))
        return remaining[~self.overflow[remaining]]

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
        """Add the hardest collected negatives, above ``least``, to each working set and solve it.

        Members with a multiplier of 0 are dropped, since small sets make the rounds cheap; they
        return if they matter.
        """
        # All negatives if they fit: the first solution is then the last.
        most = _ADDED if self.negatives.n > _ROOM else _ROOM
        for i, n_hard, hinges, negative in zip(which, *hardest[1:], strict=True):
            order = np.argsort(-hinges[:n_hard], kind="stable")
            new = negative[order[hinges[order] > least]]
            new = new[~np.isin(new, self.members[i])][:most]
            kept = self.alpha[i] > 0.0
            members = np.append(self.members[i][kept], new)
            if not new.size or members.size > _ROOM:
                self.overflow[i] = True
                continue
            alpha = np.append(self.alpha[i][kept], np.zeros(new.size))
            difference = self.points[i] - self.negatives.rows(members)
            linear = np.full(members.size, 2.0)
            gram = difference @ difference.T
            self.kernels.solve_box_qp(gram, linear, self.upper, alpha, _EXACT)
            self.members[i], self.alpha[i], self.weights[i] = members, alpha, alpha @ difference
            self.dual[i] = 2.0 * alpha.sum() - 0.5 * self.weights[i] @ self.weights[i]


def _solve_by_libsvm(
    point: FloatArray, negatives: SharedNegatives, upper: float, tol: float
) -> tuple[FloatArray, float, float]:
    """Return the weights of one exemplar SVM, their relative gap and the smallest hinge."""
    rows = negatives.rows(slice(None))
    share, least = _LIBSVM_TOL
    svc = SVC(
        kernel="linear",
        C=upper,
        class_weight={1: negatives.n, -1: 1},
        tol=max(share * tol, least),
        max_iter=_LIBSVM_STEPS,
    )
    both = sp.vstack([sp.csr_array(point[None]), rows]) if negatives.is_sparse else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gap decides
        svc.fit(np.vstack([point, rows]) if both is None else both, [1] + [-1] * negatives.n)
    dual_coef = svc.dual_coef_.toarray() if negatives.is_sparse else svc.dual_coef_
    alpha = np.zeros(negatives.n + 1)
    alpha[svc.support_] = np.clip(-dual_coef[0], 0.0, upper)
    weight = alpha.sum() * point - alpha[1:] @ rows
    hinge = 2.0 - point @ weight + rows @ weight
    half = 0.5 * float(weight @ weight)
    dual = 2.0 * float(alpha.sum()) - half
    slack = max(float(hinge.min()), 0.0)
    excess = half + upper * float(np.maximum(hinge, 0.0).sum()) - dual
    # For large C hinges within rounding cost more than a slightly longer w without any.
    longer = 2.0 / max(2.0 - float(hinge.max()), 1e-100)
    if half * longer**2 - dual < excess:
        weight, slack, excess = weight * longer, 0.0, half * longer**2 - dual
    return weight, max(excess, 0.0) / dual if dual > 0.0 else np.inf, slack
