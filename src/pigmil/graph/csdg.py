"""The consistent similarity and discrimination graph (CSDG) of a pool, and the walk on it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pigmil._core.typing import FloatArray, IntArray
from pigmil.graph.edges import consistency
from pigmil.graph.reading import PaperReading

# Fields of a reading that are parameters of `edge_weights`.
_OF_WEIGHTS = ("alpha", "beta", "alpha_on", "discrimination_scale", "discrimination_relative")


@dataclass(frozen=True)
class CSDG:
    """A weighed and ranked graph.

    Attributes
    ----------
    vertices : ndarray of int of shape (n_vertices,)
        Instance behind each vertex.
    similarity, consistency, weights : ndarray of shape (n_vertices, n_vertices)
        Of each pair; ``weights`` before normalisation.
    discrimination, scores : ndarray of shape (n_vertices,)
        Of each vertex; ``scores`` are the ranking scores of Alg. 1.
    """

    vertices: IntArray
    similarity: FloatArray
    consistency: IntArray
    discrimination: FloatArray
    weights: FloatArray
    scores: FloatArray


def edge_weights(
    similarity: ArrayLike,
    consistency: ArrayLike,
    discrimination: ArrayLike,
    *,
    alpha: str | float = "log-ratio",
    beta: str | float = "log-ratio",
    alpha_on: str = "consistency",
    discrimination_scale: float = 1.0,
    discrimination_relative: float | None = None,
) -> FloatArray:
    """Return the edge weights ``max(0, S + alpha * C + beta * min(D_i, D_j))`` wherever ``S > 0``.

    Implements Definition 9, with S, C, D for the three arguments.

    Parameters
    ----------
    similarity, consistency : array-like of shape (n_vertices, n_vertices)
        Symmetric. The diagonal is ignored.
    discrimination : array-like of shape (n_vertices,)
        Minus infinity for a copy of a negative instance: its edges weigh nothing.
    alpha, beta : float or "log-ratio", default="log-ratio"
        ``alpha = max(10, ln(C / S))`` and ``beta = max(10, ln((alpha * S + C) / |D|))`` for each
        edge, or fixed numbers.
    alpha_on : {"consistency", "similarity"}, default="consistency"
        "similarity" is the reading of Eq. (2), ``alpha * S + C + beta * D``.
    discrimination_scale : float, default=1.0
        Factor on D, applied first.
    discrimination_relative : float, optional
        Rescale D, in place of beta, to this many times the mean size of ``S + alpha * C``. The
        paper's study of the ratio of D to S + C can be read as this or as ``discrimination_scale``.

    Returns
    -------
    ndarray of shape (n_vertices, n_vertices)

    Notes
    -----
    Departs from the paper: the text below the definition takes the greater D of the two ends in
    place of the lesser one. D is negative, so beta takes its size inside the logarithm; where D is
    0 (every negative out of reach) its term is 0, the limit of ``D * ln(1 / |D|)``.

    Cost: at most two logarithms per edge.

    Examples
    --------
    >>> edge_weights([[0.0, 0.5], [0.5, 0.0]], [[0, 2], [2, 0]], [-0.1, -0.2])
    array([[ 0. , 18.5],
           [18.5,  0. ]])
    """
    s = np.asarray(similarity, dtype=np.float64)
    c = np.asarray(consistency, dtype=np.float64)
    d = np.asarray(discrimination, dtype=np.float64)
    if not s.shape == c.shape == (len(d), len(d)):
        raise ValueError(
            f"similarity and consistency must be square with one row for each of the {len(d)} "
            f"values of discrimination, got shapes {s.shape} and {c.shape}."
        )
    if np.any(d > 0) or np.any(np.isnan(d)):
        raise ValueError("discrimination must be at most 0 and no NaN; see Eq. (6).")
    rows, columns = np.nonzero(np.triu(s > 0, 1))
    s_edge, c_edge = s[rows, columns], c[rows, columns]
    d_edge = np.minimum(d[rows], d[columns])
    np.multiply(d_edge, discrimination_scale, out=d_edge, where=np.isfinite(d_edge))

    with np.errstate(divide="ignore"):
        a = np.maximum(10.0, np.log(c_edge / s_edge)) if alpha == "log-ratio" else float(alpha)
        reach = d_edge < 0
        size = np.where(reach & np.isfinite(d_edge), -d_edge, 1.0)
        if beta == "log-ratio":
            b = np.maximum(10.0, np.log((a * s_edge + c_edge) / size))
        else:
            b = np.full(len(rows), float(beta))
    bonus = s_edge + a * c_edge if alpha_on == "consistency" else a * s_edge + c_edge
    known = reach & np.isfinite(d_edge)
    if discrimination_relative is not None and known.any():
        b = np.full(len(rows), discrimination_relative * bonus.mean() / size[known].mean())
    weight = np.where(reach, np.maximum(0.0, bonus - b * size), bonus)
    weight[np.isneginf(d_edge)] = 0.0

    weights = np.zeros_like(s)
    weights[rows, columns] = weight
    weights[columns, rows] = weight
    return weights


def normalise_weights(weights: ArrayLike, how: Literal["max", "row"] = "max") -> FloatArray:
    """Divide edge weights by the largest one, or by the sum of their row; zeros stay as they are.

    Algorithm 1 says "normalize" only.

    Examples
    --------
    >>> normalise_weights([[0.0, 4.0], [4.0, 0.0]])
    array([[0., 1.],
           [1., 0.]])
    """
    matrix = np.asarray(weights, dtype=np.float64)
    divisor = matrix.sum(axis=1, keepdims=True) if how == "row" else matrix.max(initial=0.0)
    return matrix / np.where(divisor == 0, 1.0, divisor)


def ranking_scores(
    weights: ArrayLike,
    self_confidence: ArrayLike,
    *,
    damping: float = 0.8,
    max_iter: int = 10,
    start: ArrayLike | np.random.RandomState | None = None,
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
    start : RandomState or array-like of shape (n_vertices,), optional
        Initial scores, ones by default; a RandomState draws them at every call, as Alg. 1 says.
        The number of products is fixed, so they affect the result.

    Returns
    -------
    ndarray of shape (n_vertices,)

    Notes
    -----
    Departs from the paper: the scores begin at one instead of at random (pass a RandomState for
    random ones), and they are returned where the printed algorithm returns the graph.

    The iteration need not converge: with weights divided by their maximum the spectral radius of
    ``damping * weights`` is often above one. Below it the limit is
    ``(1 - d) (I - d weights)^-1 self_confidence``.

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
    scores = first_scores(start, len(restart))
    step = damping * matrix
    for _ in range(max_iter + 1):
        scores = restart + step @ scores
    return scores


def first_scores(start: ArrayLike | np.random.RandomState | None, n_vertices: int) -> FloatArray:
    """Return the scores that a walk begins with, drawn or checked."""
    if start is None:
        return np.ones(n_vertices)
    if isinstance(start, np.random.RandomState):
        return start.uniform(size=n_vertices)
    scores = np.asarray(start, np.float64)
    if scores.shape != (n_vertices,):
        raise ValueError(f"start must have shape {(n_vertices,)}, got {scores.shape}.")
    return scores


def build_csdg(
    vertices: ArrayLike,
    similarity: ArrayLike,
    discrimination: ArrayLike,
    self_confidence: ArrayLike,
    reading: PaperReading | None = None,
    *,
    exact: bool | None = None,
    start: Any = None,
) -> CSDG:
    """Build, weigh and rank the graph of some of the candidate instances.

    Implements Definition 9 and Alg. 1.

    Parameters
    ----------
    vertices : array-like of int of shape (n_vertices,)
        Candidates that form the graph.
    similarity : array-like of shape (n_candidates, n_candidates)
        Similarity of all candidates.
    discrimination, self_confidence : array-like of shape (n_candidates,)
        Of all candidates.
    reading : PaperReading, optional
        How to weigh and rank.
    exact : bool, optional
        See `consistency`.
    start : RandomState or array-like of shape (n_vertices,), optional
        See `ranking_scores`.

    Examples
    --------
    >>> graph = build_csdg([0, 2], np.ones((3, 3)), [-0.1, -0.1, -0.1], [1.0, 1.0, 1.0])
    >>> graph.weights[0, 1]
    np.float64(20.0)
    """
    reading = reading or PaperReading()
    chosen = np.asarray(vertices, dtype=np.int64)
    s = np.array(np.asarray(similarity, dtype=np.float64)[np.ix_(chosen, chosen)])
    np.fill_diagonal(s, 0.0)
    d, confidence = (
        np.asarray(values, dtype=np.float64)[chosen] for values in (discrimination, self_confidence)
    )
    c = consistency(s, density=reading.quasi_clique_density, exact=exact)
    return rank_graph(chosen, s, c, d, confidence, reading, start)


def rank_graph(
    vertices: IntArray,
    similarity: FloatArray,
    consistency: IntArray,
    discrimination: FloatArray,
    self_confidence: FloatArray,
    reading: PaperReading,
    start: Any = None,
) -> CSDG:
    """Weigh and rank a graph whose consistency is known; all arguments are of its vertices."""
    how = {name: getattr(reading, name) for name in _OF_WEIGHTS}
    weights = edge_weights(similarity, consistency, discrimination, **how)
    scores = ranking_scores(
        normalise_weights(weights),
        self_confidence,
        damping=reading.damping,
        max_iter=reading.walk_iterations,
        start=start,
    )
    return CSDG(vertices, similarity, consistency, discrimination, weights, scores)
