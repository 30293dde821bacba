"""The terms of an edge: similarity, consistency and discrimination of candidate instances."""

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pigmil._core.typing import FloatArray, IntArray
from pigmil.distances import squared_distance_blocks

Ranks = NDArray[np.int32]

_BLOCK_ELEMENTS = 1 << 21
# Branch and bound takes milliseconds up to the first size, and up to the second on sparse graphs.
EXACT_VERTICES = 30
EXACT_VERTICES_SPARSE = 50


def self_confidence(confidences: ArrayLike) -> FloatArray:
    """Return the confidence of each exemplar classifier in its own exemplar, Υ_ii.

    With the bias included this is 1 for every exemplar SVM (the exemplar lies on its margin, see
    `exemplar_svms`), so exemplars differ only when the bias is left out. Values that differ by
    rounding are made equal, so that Algorithm 2 takes no rounding for a gain.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> self_confidence([[1.0, 0.5], [-0.5, 2.0]])
    array([1., 2.])
    """
    own = np.array(np.diagonal(_square(confidences)), np.float64)
    scale = float(np.abs(own).max(initial=0.0)) or 1.0
    return np.round(own / scale, 12) * scale


def confidence_ranks(confidences: ArrayLike) -> Ranks:
    """Rank the instances each classifier is confident in, the highest first.

    Implements φ of Definition 6: the order of instance j among the other instances
    whose confidence under classifier i is positive.

    Departs from the paper: ties, which it does not mention, share the best rank (1, 2, 2, 4), so
    that the order of the instances changes nothing.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.

    Returns
    -------
    ndarray of int32, shape (m, m)
        1 for the highest positive confidence of the row, the exemplar itself left out; 0 where the
        confidence is not positive, and on the diagonal.

    Notes
    -----
    Cost: m sorts of m numbers; memory for input, output and a bounded block of rows.

    Examples
    --------
    >>> confidence_ranks([[9.0, 0.2, 0.7], [0.5, 9.0, -1.0], [0.3, 0.3, 9.0]])
    array([[0, 2, 1],
           [1, 0, 0],
           [1, 1, 0]], dtype=int32)
    """
    square = _square(confidences)
    m = len(square)
    ranks = np.zeros((m, m), np.int32)
    position = np.arange(1, m + 1, dtype=np.int32)
    step = max(1, _BLOCK_ELEMENTS // max(1, m))
    for start in range(0, m, step):
        # Negated, because numpy sorts upwards; what is not ranked goes to the end.
        block = -square[start : start + step].astype(np.float64)
        own = np.arange(len(block))
        block[own, start + own] = np.inf
        block[~(block < 0.0)] = np.inf
        order = np.argsort(block, axis=1)
        ordered = np.take_along_axis(block, order, axis=1)
        rank = np.broadcast_to(position, block.shape).copy()
        rank[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0  # a tie takes the rank before it
        np.maximum.accumulate(rank, axis=1, out=rank)
        rank[ordered == np.inf] = 0
        np.put_along_axis(ranks[start : start + step], order, rank, axis=1)
    return ranks


def similarity(confidences: ArrayLike, *, use: str = "weights") -> FloatArray:
    """Return the similarity of every two instances from the confidences of their exemplars.

    Implements Definition 6, Eq. (3): S_ij = 1 / (φ(i, j) φ(j, i)) if classifier
    i is confident in instance j and classifier j in instance i, and 0 otherwise.

    Departs from the paper: ties share the best rank, see `confidence_ranks`.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.
    use : {"weights", "edges", "none"}, default="weights"
        ``"edges"`` sets all positive similarities to 1, ``"none"`` those of all pairs; for studies
        of what the similarity contributes.

    Returns
    -------
    ndarray of shape (m, m)
        Symmetric, between 0 and 1, zero on the diagonal.

    Notes
    -----
    Cost: that of `confidence_ranks`, and one array of ranks.

    References
    ----------
    .. [1] M. Rastegari, H. Hajishirzi, A. Farhadi, "Discriminative and consistent similarities in
       instance-level multiple instance learning", CVPR 2015.

    Examples
    --------
    >>> similarity([[9.0, 0.2, 0.7], [0.5, 9.0, -1.0], [0.3, 0.3, 9.0]])
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0. ],
           [1. , 0. , 0. ]])
    """
    ranks = confidence_ranks(confidences)
    m = len(ranks)
    values = np.zeros((m, m))
    step = max(1, _BLOCK_ELEMENTS // max(1, m))
    for start in range(0, m, step):
        rows = slice(start, start + step)
        product = ranks[rows].astype(np.float64) * ranks[:, rows].T
        np.divide(1.0, product, out=values[rows], where=product > 0.0)
    if use != "weights":
        values = ((values > 0) | (use == "none")).astype(np.float64)
        np.fill_diagonal(values, 0.0)
    return values


def _square(confidences: ArrayLike) -> NDArray[np.floating]:
    """Return the confidences as an array, after checking that it is square."""
    square = np.asarray(confidences)
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise ValueError(
            f"Expected a square matrix of confidences, one classifier and one instance for each "
            f"row and column; got shape {square.shape}. Train one exemplar for each instance."
        )
    return square


def consistency(
    adjacency: ArrayLike, *, density: float = 0.9, exact: bool | None = None
) -> IntArray:
    """Return for every edge the size of the largest quasi-clique that holds both its ends.

    Implements Definition 7, Eq. (4). A vertex set ``V`` is a quasi-clique when it
    spans at least ``floor(density * binom(|V|, 2))`` edges; it need not be connected.

    Parameters
    ----------
    adjacency : array-like of shape (n_vertices, n_vertices)
        Symmetric; an edge wherever the value is above zero. The diagonal is ignored.
    density : float in (0, 1], default=0.9
        Share of the pairs that must be edges.
    exact : bool or None, default=None
        True for branch and bound (at most 62 vertices), False for a search. None takes branch and
        bound up to 30 vertices, or up to 50 when at most half of the pairs are edges. The search
        is local, or on more than 120 vertices through nested cores.

    Returns
    -------
    ndarray of int of shape (n_vertices, n_vertices)
        Symmetric; 0 where there is no edge.

    Notes
    -----
    Departs from the paper: pairs without an edge can share a quasi-clique too, but the graph
    weighs edges only, so they get 0. The paper names no way of searching.

    Every reported size is achieved by some quasi-clique. Exact sizes follow the vertices under any
    reordering. A search gives deterministic lower bounds: it numbers the vertices by degree,
    refined by the degrees around them, so reordering the input changes nothing unless two
    vertices look alike to that refinement.

    From some 40 mutually similar vertices on, any pair at all can join them without breaking
    density 0.9. Consistency then saturates: on large graphs it says "there is a dense core" and
    hardly distinguishes edges.

    Local search agrees with branch and bound on more than 99 % of the edges of graphs of 20 to 40
    vertices. On graphs of 150 vertices nested cores fall short of local search by 0 to 5 % when
    there are dense regions, and by 6 to 18 % on random graphs, which have none.

    Cost with M vertices and E edges: local search some 1-20 microseconds an edge, nested cores
    O(M^2 + E) for each of 12 to 48 chains, about a microsecond an edge; branch and bound is
    exponential in M.

    References
    ----------
    Brunato, Hoos, Battiti (2008), On effectively finding maximal quasi-cliques in graphs.

    Examples
    --------
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    >>> consistency(path)
    array([[0, 3, 0, 0],
           [3, 0, 3, 0],
           [0, 3, 0, 0],
           [0, 0, 0, 0]])
    """
    from pigmil.graph._kernels import exact_sizes, search_sizes

    edges = as_edges(adjacency)
    needed = edges_needed(len(edges), density)
    if not len(edges):
        return np.zeros((0, 0), dtype=np.int64)
    if is_exact(edges, exact):
        return exact_sizes(edges, missing_allowed(needed))[0]
    return search_sizes(edges, needed)


def edges_needed(n_vertices: int, density: float) -> IntArray:
    """Return ``floor(density * binom(k, 2))`` for ``k = 0 ... n_vertices``.

    The density is read as the decimal number it is written as: in floating point
    ``0.29 * 100`` falls below 29.

    Examples
    --------
    >>> edges_needed(5, 0.9)
    array([0, 0, 0, 2, 5, 9])
    """
    if not 0 < density <= 1:
        raise ValueError(f"density must lie in (0, 1], got {density!r}.")
    return _edges_needed(n_vertices, str(density)).copy()


@lru_cache(maxsize=64)
def _edges_needed(n_vertices: int, density: str) -> IntArray:
    share = Fraction(density)
    pairs = (k * (k - 1) // 2 for k in range(n_vertices + 1))
    return np.array([p * share.numerator // share.denominator for p in pairs], dtype=np.int64)


def as_edges(adjacency: ArrayLike) -> NDArray[np.int8]:
    """Return the edges as 0 and 1 with an empty diagonal."""
    given = np.asarray(adjacency)
    if given.ndim != 2 or given.shape[0] != given.shape[1]:
        raise ValueError(f"adjacency must be square, got an array of shape {given.shape}.")
    edges: NDArray[np.int8] = (given > 0).astype(np.int8)
    if not np.array_equal(edges, edges.T):
        i, j = np.argwhere(edges != edges.T)[0]
        raise ValueError(
            f"adjacency must be symmetric, but only one of ({i}, {j}) and ({j}, {i}) is an edge; "
            "pass `adjacency & adjacency.T` to keep mutual edges."
        )
    np.fill_diagonal(edges, 0)
    return edges


def is_exact(edges: NDArray[np.int8], exact: bool | None) -> bool:
    """Return whether branch and bound is wanted and possible; see `consistency`."""
    from pigmil.graph._kernels import MAX_EXACT_VERTICES

    n = len(edges)
    if exact and n > MAX_EXACT_VERTICES:
        raise ValueError(
            f"exact=True is limited to {MAX_EXACT_VERTICES} vertices, got {n}; "
            "use exact=None or exact=False."
        )
    if exact is not None:
        return exact
    sparse = edges.sum(dtype=np.int64) <= n * (n - 1) / 2
    return n <= EXACT_VERTICES or (n <= EXACT_VERTICES_SPARSE and bool(sparse))


def missing_allowed(needed: IntArray) -> IntArray:
    """Return how many pairs of a quasi-clique of each size may lack an edge."""
    size = np.arange(len(needed))
    return size * (size - 1) // 2 - needed


def influence(distance: ArrayLike, gamma_far: float = 1.0, gamma_near: float = 1.0) -> FloatArray:
    """Return the influence of a negative instance: limited when far, unbounded when near.

    Implements Eq. (6), with ``gamma_far`` and ``gamma_near`` for the paper's gamma_1 and gamma_2:
    ``-exp(-gamma_far * (distance - 1))`` from distance 1 on, ``gamma_near * ln(distance) - 1``
    below, and minus infinity at 0. The value is -1 at distance 1 from both sides.

    Parameters
    ----------
    distance : array-like
        Distances in units of length: "far" begins at 1.
    gamma_far, gamma_near : float, default=1.0
        How fast the influence fades far away, and grows close by.

    Returns
    -------
    ndarray of the shape of ``distance``, negative throughout (rounded to -0.0 very far away)

    Notes
    -----
    Departs from the paper: none.

    Examples
    --------
    >>> influence([0.0, 1.0, 2.0])
    array([       -inf, -1.        , -0.36787944])
    """
    delta = np.asarray(distance, dtype=np.float64)
    if np.any(delta < 0):
        raise ValueError(f"distances must not be negative, got {float(delta.min())!r}.")
    # Each branch sees only its own side, so neither the log nor the exponential can overflow.
    values = np.asarray(np.maximum(delta, 1.0))
    values -= 1.0
    values *= -gamma_far
    np.exp(values, out=values)
    np.negative(values, out=values)
    near = delta < 1.0
    with np.errstate(divide="ignore"):
        values[near] = gamma_near * np.log(delta[near]) - 1.0
    return values


def discrimination(
    X: Any,
    negatives: Any,
    *,
    unit: float = 1.0,
    gamma_far: float = 1.0,
    gamma_near: float = 1.0,
    scale: float = 1.0,
) -> FloatArray:
    """Return the discrimination of instances: the mean influence of all negative instances.

    Implements Eq. (5) of Definition 8; ``scale`` is the paper's Z.

    Parameters
    ----------
    X : array or CSR of shape (n_instances, n_features)
        Instances to measure.
    negatives : array or CSR of shape (n_negatives, n_features)
        All instances of the negative bags, at least one.
    unit : float, default=1.0
        Unit of length, see :func:`pigmil.distances.length_unit`.
    gamma_far, gamma_near : float, default=1.0
        See `influence`.
    scale : float, default=1.0
        Divides the mean.

    Returns
    -------
    ndarray of shape (n_instances,)
        Minus infinity for an exact copy of a negative instance.

    Notes
    -----
    Departs from the paper: distances are measured in ``unit``.
    Cost: O(n_instances n_negatives n_features), in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> negatives = np.array([[0.0], [2.0]])
    >>> discrimination(np.array([[1.0], [0.0]]), negatives)
    array([ -1., -inf])
    """
    if negatives.shape[0] == 0:
        raise ValueError("discrimination needs at least one negative instance, got none.")
    total = np.zeros(X.shape[0])
    for rows, _, squared in squared_distance_blocks(X, negatives):
        total[rows] += influence(np.sqrt(squared) / unit, gamma_far, gamma_near).sum(axis=1)
    return total / (scale * negatives.shape[0])
