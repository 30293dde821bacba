"""Exemplar SVMs: one candidate against all negatives, many candidates at once."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from pigmil._core.typing import FloatArray
from pigmil.exemplars._mining import ROOM, mine_hard_negatives
from pigmil.exemplars._model import ExemplarClassifiers, check_pair
from pigmil.exemplars._shared_negatives import SharedNegatives

_BLOCK_BYTES = 1 << 28  # of the working sets of a block of candidates
_LIBSVM_ROWS = 5000  # negatives that LIBSVM sees at a time
_LIBSVM_ROUNDS = 20
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
    shared = SharedNegatives(negatives, candidates)
    step = int(np.clip(_BLOCK_BYTES // (8 * ROOM * shared.d), 16, 512))
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
    weights, gaps, slack = (
        np.zeros_like(points),
        np.full(len(points), np.inf),
        np.zeros(len(points)),
    )
    if not shared.is_sparse:
        weights, gaps, slack = mine_hard_negatives(points, shared, upper, tol)
    for i in np.flatnonzero(gaps > tol):
        weight, gap, least = _solve_by_libsvm(points[i], shared, upper, tol)
        if gap < gaps[i]:
            weights[i], gaps[i], slack[i] = weight, gap, least
    # Where every hinge is positive, all biases of an interval of this length are optimal.
    intercepts = 1.0 - np.einsum("ij,ij->i", weights, points) - slack / 2
    weights = weights / shared.scale
    return weights, intercepts - weights @ shared.mean, gaps


def _solve_by_libsvm(
    point: FloatArray, negatives: SharedNegatives, upper: float, tol: float
) -> tuple[FloatArray, float, float]:
    """Return the weights of one exemplar SVM, their relative gap and the smallest hinge.

    LIBSVM sees all negatives, or of many some: the next round then sees those with a multiplier
    and the hardest others, until the gap over all of them closes.
    """
    chosen = np.arange(0, negatives.n, -(-negatives.n // _LIBSVM_ROWS))
    weight, best, slack = np.zeros_like(point), np.inf, 0.0
    share, least = _LIBSVM_TOL
    for _ in range(_LIBSVM_ROUNDS):
        rows = negatives.rows(chosen)
        y = np.append(1, np.full(len(chosen), -1))
        svc = SVC(
            kernel="linear",
            C=upper,
            class_weight={1: len(chosen), -1: 1},
            tol=max(share * tol, least),
            max_iter=_LIBSVM_STEPS,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the gap decides
            svc.fit(_stack(point, rows), y)
        dual_coef = svc.dual_coef_.toarray() if negatives.is_sparse else svc.dual_coef_
        alpha = np.zeros(len(y))
        alpha[svc.support_] = np.clip(-dual_coef[0], 0.0, upper)
        found = alpha.sum() * point - alpha[1:] @ rows
        hinge = 2.0 - point @ found + negatives.exact_scores(found)
        half = 0.5 * float(found @ found)
        dual = 2.0 * float(alpha.sum()) - half
        least_hinge = max(float(hinge.min()), 0.0)
        excess = half + upper * float(np.maximum(hinge, 0.0).sum()) - dual
        # For large C hinges within rounding cost more than a slightly longer w without any.
        longer = 2.0 / max(2.0 - float(hinge.max()), 1e-100)
        if half * longer**2 - dual < excess:
            found, least_hinge, excess = found * longer, 0.0, half * longer**2 - dual
        gap = max(excess, 0.0) / dual if dual > 0.0 else np.inf
        if gap < best:
            weight, best, slack = found, gap, least_hinge
        if best <= tol or len(chosen) == negatives.n:
            break
        hinge[chosen[alpha[1:] > 0.0]] = np.inf
        size = min(negatives.n, int(np.isinf(hinge).sum()) + _LIBSVM_ROWS)
        chosen = np.sort(np.argsort(-hinge, kind="stable")[:size])
    return weight, best, slack


def _stack(point: FloatArray, rows: Any) -> Any:
    if sp.issparse(rows):
        return sp.vstack([sp.csr_array(point[None]), rows], format="csr")
    return np.vstack([point[None], rows])
