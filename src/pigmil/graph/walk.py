"""Ranking scores of the vertices by a damped walk on the graph (Algorithm 1)."""

import numpy as np
from numpy.typing import ArrayLike

from pigmil._core.typing import FloatArray

__all__ = ["fixed_point", "ranking_scores"]


def ranking_scores(
    weights: ArrayLike,
    self_confidence: ArrayLike,
    *,
    damping: float = 0.8,
    max_iter: int = 10,
    start: str | ArrayLike = "ones",
) -> FloatArray:
    """Rank the vertices: ``R <- (1 - damping) * self_confidence + damping * weights @ R``.

    Implements Alg. 1 and Eq. (8). The loop runs while ``n <= max_iter``, so the
    default makes 11 products.

    Parameters
    ----------
    weights : array-like of shape (n_vertices, n_vertices)
        Normalised edge weights.
    self_confidence : array-like of shape (n_vertices,)
        Confidence of each instance under its own exemplar classifier.
    damping : float, default=0.8
        Share of the score that comes from the neighbours.
    max_iter : int, default=10
        As printed: one product more than this number is made.
    start : "ones" or array-like of shape (n_vertices,), default="ones"
        Initial scores. The number of products is fixed, so they affect the result.

    Returns
    -------
    ndarray of shape (n_vertices,)

    Notes
    -----
    Departs from the paper: the scores begin at one instead of at random (pass an array for random
    ones), and they are returned where the printed algorithm returns the graph.

    The iteration need not converge: with weights divided by their maximum the spectral radius of
    ``damping * weights`` is often above one. `fixed_point` exists only below.

    Cost: ``max_iter + 1`` products of a square matrix with a vector.

    Examples
    --------
    >>> import numpy as np
    >>> ranking_scores(np.array([[0.0, 1.0], [1.0, 0.0]]), [1.0, 0.0], damping=0.5, max_iter=1)
    array([0.75, 0.5 ])
    """
    matrix = np.asarray(weights, dtype=np.float64)
    restart = (1 - damping) * np.asarray(self_confidence, dtype=np.float64)
    if matrix.shape != (len(restart), len(restart)):
        raise ValueError(
            f"weights must be square with one row for each of the {len(restart)} values of "
            f"self_confidence, got shape {matrix.shape}."
        )
    if isinstance(start, str):
        if start != "ones":
            raise ValueError(f"start must be 'ones' or an array of scores, got {start!r}.")
        scores = np.ones_like(restart)
    else:
        scores = np.asarray(start, dtype=np.float64)
        if scores.shape != restart.shape:
            raise ValueError(f"start must have shape {restart.shape}, got {scores.shape}.")
    step = damping * matrix
    for _ in range(max_iter + 1):
        scores = restart + step @ scores
    return scores


def fixed_point(
    weights: ArrayLike, self_confidence: ArrayLike, *, damping: float = 0.8
) -> FloatArray:
    """Return the limit of the walk, ``(1 - d) (I - d E)^-1 self_confidence``.

    Raises
    ------
    ValueError
        If the spectral radius of ``damping * weights`` is not below one: the walk has no limit.

    Examples
    --------
    >>> import numpy as np
    >>> fixed_point(np.array([[0.0, 1.0], [1.0, 0.0]]), [3.0, 0.0], damping=0.5)
    array([2., 1.])
    """
    step = damping * np.asarray(weights, dtype=np.float64)
    radius = float(np.abs(np.linalg.eigvals(step)).max(initial=0.0))
    if radius >= 1:
        raise ValueError(
            f"The walk has no limit: the spectral radius of damping * weights is {radius:.6g}, "
            "expected below 1; lower damping or normalise the weights by 'spectral'."
        )
    restart = (1 - damping) * np.asarray(self_confidence, dtype=np.float64)
    limit = np.linalg.solve(np.eye(len(restart)) - step, restart)
    return np.asarray(limit, dtype=np.float64)
