"""Exemplar SVMs: one candidate against all negatives, many candidates at once."""

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from pigmil._core.typing import FloatArray
from pigmil.exemplars._model import Confidence, ExemplarClassifiers, check_pair
from pigmil.exemplars._shared_negatives import SharedNegatives
from pigmil.exemplars.lda import exemplar_lda

__all__ = [
    "Confidence",
    "ExemplarClassifiers",
    "exemplar_lda",
    "exemplar_svms",
]

_BLOCK_BYTES = 1 << 28


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
    gap closes. If too many negatives lie inside the margin, coordinate descent and an exact
    decomposition are used instead; up to 4096 sparse negatives are solved by their dot products.

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
    >>> from pigmil.exemplars.svm import exemplar_svms
    >>> svms = exemplar_svms([[2.0]], [[0.0], [-1.0]], C=100.0)
    >>> float(svms.weights[0, 0].round(6)), float(svms.intercepts[0].round(6))
    (1.0, -1.0)
    """
    candidates, negatives = check_pair(candidates, negatives)
    if not C > 0 or not tol > 0:
        raise ValueError(f"C and tol must be positive; got C={C!r}, tol={tol!r}.")
    shared = SharedNegatives(negatives, candidates)
    step = _block_size(shared.d)
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


def _block_size(d: int) -> int:
    """Return the number of candidates in a block, so that their working sets fit in memory."""
    from pigmil.exemplars._mining import ROOM

    return int(np.clip(_BLOCK_BYTES // (8 * ROOM * d), 16, 512))


def _solve_block(
    candidates: Any, shared: SharedNegatives, C: float, tol: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, intercepts and gaps of some candidates, in the units of the input."""
    from pigmil.exemplars._decomposition import SMALLEST_ROOM, decompose
    from pigmil.exemplars._gram import solve_through_products
    from pigmil.exemplars._mining import mine_hard_negatives

    points = shared.points(candidates)
    upper = C * shared.scale**2
    weights = np.zeros_like(points)
    gaps = np.full(len(points), np.inf)
    lowest = np.full(len(points), -np.inf)
    rest: npt.NDArray[np.int64] = np.arange(len(points))
    if shared.products is not None:
        weights, gaps, lowest = solve_through_products(points, shared, upper, tol)
        rest = np.flatnonzero(gaps > tol)
    elif shared.n > SMALLEST_ROOM:
        sets = mine_hard_negatives(points, shared, upper, tol)
        weights, gaps = sets.weights, sets.gap
        rest = np.flatnonzero(gaps > tol)
    for i in rest:
        solution = decompose(points[i], shared, upper, tol)
        weights[i], gaps[i], lowest[i] = solution.weight, solution.gap, solution.lowest_score
    along = np.einsum("ij,ij->i", weights, points)
    # Optimal biases are between -1 - min score (if that is lower) and 1 - w.x: take the middle.
    highest = 1.0 - along
    middle = 0.5 * (highest + np.minimum(highest, -1.0 - lowest))
    weights = weights / shared.scale
    return weights, middle - weights @ shared.mean, gaps
