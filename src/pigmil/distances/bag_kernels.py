"""Kernels between bags: sums over pairs of their instances, and the parts of graphs of bags."""

from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import segments_in, squared_distance_blocks, squared_distances


def gaussian_sums(
    queries: Bags,
    references: Bags | None = None,
    *,
    gamma: float = 1.0,
    query_weights: FloatArray | None = None,
    reference_weights: FloatArray | None = None,
) -> FloatArray:
    """Return the set kernel with a Gaussian base, ``sum w_a w_b exp(-gamma |a - b|^2)``.

    Implements the multi-instance kernel of Gartner et al. (with a Gaussian base kernel
    its power p only multiplies gamma) and, with weights, the numerator of the miGraph kernel.

    Parameters
    ----------
    queries : Bags
        Bags of the rows.
    references : Bags, optional
        Bags of the columns; the queries themselves if not given.
    gamma : float, default=1.0
        Decay per squared distance.
    query_weights, reference_weights : array of shape (n_instances,), optional
        Weight of each instance, 1 if not given; those of the queries are also those of the
        references if none are given.

    Returns
    -------
    array of shape (n_queries, n_references)

    Notes
    -----
    Cost: O(N_queries N_references d) in instances and features; memory one block and the result.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))])
    >>> gaussian_sums(bags).round(4)
    array([[4.    , 0.7358],
           [0.7358, 1.    ]])
    """
    itself = references is None
    to = queries if references is None else references
    if itself:
        reference_weights = query_weights
    sums = np.zeros((queries.n_bags, to.n_bags))
    blocks = squared_distance_blocks(
        queries.instances, to.instances, offsets=to.offsets, upper=itself
    )
    for rows, columns, squared in blocks:
        values = np.exp(np.multiply(squared, -gamma, out=squared), out=squared)
        if itself and columns.start < rows.stop:
            # All above the diagonal, and half of the diagonal; the transpose adds the rest.
            diagonal = rows.start - columns.start
            values = (np.triu(values, diagonal) + np.triu(values, diagonal + 1)) / 2
        if query_weights is not None:
            values *= query_weights[rows, None]
        if reference_weights is not None:
            values *= reference_weights[columns]
        row_bags, row_starts = segments_in(queries.offsets, rows)
        column_bags, column_starts = segments_in(to.offsets, columns)
        # Rows first: whole rows are added, and the array that is left is small.
        part = np.add.reduceat(values, row_starts, axis=0, dtype=np.float64)
        sums[row_bags, column_bags] += np.add.reduceat(part, column_starts, axis=1)
    return sums + sums.T if itself else sums


def gaussian_self_sums(bags: Bags, *, gamma: float = 1.0) -> FloatArray:
    """Return the set kernel of every bag with itself, the diagonal of :func:`gaussian_sums`.

    Parameters
    ----------
    bags : Bags
        The bags.
    gamma : float, default=1.0
        Decay per squared distance.

    Returns
    -------
    array of shape (n_bags,)

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> gaussian_self_sums(Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))]))
    array([4., 1.])
    """
    sums = np.ones(bags.n_bags)  # of bags of one instance
    for k in np.flatnonzero(bags.sizes > 1):
        sums[k] = gaussian_sums(bags[k : k + 1], gamma=gamma)[0, 0]
    return sums


# Distances that differ from the mean by rounding only (equidistant instances) are not below it.
_BELOW = 1 - 1e-9
# Copies are joined by an edge of this share of the mean distance, not of length zero.
_SHORTEST = 1e-6
_MAX_NODES = 64
_EDGES_AT_ONCE = 4096


def affinity_weights(bags: Bags) -> FloatArray:
    """Return the weight of every instance: one over the number of instances joined with it.

    Implements ``W_a = 1 / sum_u w_au`` of miGraph, where ``w_au = 1`` for instances nearer to each
    other than the mean distance in their bag, and for ``u = a``. Instances that lie close together
    share a weight of about one, so a dense cluster counts once.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    array of shape (n_instances,)

    Notes
    -----
    The mean is over pairs of different instances. Where all instances of a bag are the same, or
    there is only one, nothing is nearer than the mean and every weight is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> affinity_weights(Bags.from_list([np.array([[0.0], [1.0], [9.0]])]))
    array([0.5, 0.5, 1. ])
    """
    return np.concatenate([1 / (1 + _graph(bag)[0].sum(axis=1)) for bag in bags])


def _graph(bag: Any) -> tuple[BoolArray, FloatArray]:
    """Return which instances of a bag are joined, and the affinity of each pair of instances.

    Affinity is the reciprocal of the distance in units of the threshold; the unit cancels where
    affinities are compared.
    """
    if bag.shape[0] == 1:
        return np.zeros((1, 1), dtype=bool), np.zeros((1, 1))
    # In double precision, so that the order of the instances changes no comparison.
    distances = np.sqrt(squared_distances(bag, bag, double=True))
    threshold = _BELOW * float(distances.sum()) / (bag.shape[0] * (bag.shape[0] - 1))
    joined = distances < threshold
    np.fill_diagonal(joined, False)
    unit = max(threshold, np.finfo(float).tiny)
    return joined, 1 / np.maximum(distances / unit, _SHORTEST)


def edge_maps(bags: Bags, factor: FloatArray) -> FloatArray:
    """Return one vector per bag, whose inner products are the edge kernel of MIGraph.

    Implements ``sum over edges e, e' of exp(-gamma |e - e'|^2)`` of MIGraph, where
    an edge between u and v is ``e = (d_u, p_u, d_v, p_v)``: ``d_u`` the degree of u over the
    number of edges, ``p_u = w_uv / sum_z w_uz``, and ``w`` the reciprocal of the distance.

    The Gaussian of four features between 0 and 1 is a product of four one-dimensional ones, each
    of which is a short inner product (see :func:`gaussian_factor`). A bag with m edges then costs
    O(m) instead of O(m^2), and a pair of bags one inner product.

    Departs from the paper: it does not say which end of an undirected edge is u; here it is the
    end with the greater degree, then the greater ``p``, so the order of instances does not matter.
    Copies get a distance of a millionth of the mean distance, so that the reciprocal is finite.

    Parameters
    ----------
    bags : Bags
        The bags.
    factor : array of shape (n_polynomials, n_terms)
        From :func:`gaussian_factor`.

    Returns
    -------
    array of shape (n_bags, n_terms ** 4)
        All zero for a bag without edges.
    """
    n_terms = factor.shape[1]
    maps = np.zeros((bags.n_bags, n_terms**2, n_terms**2))
    for position, bag in enumerate(bags):
        joined, affinity = _graph(bag)
        row, column = np.nonzero(np.triu(joined))
        if not len(row):
            continue
        degree = joined.sum(axis=1) / len(row)
        strength = np.where(joined, affinity, 0).sum(axis=1)
        # Of both ends of every edge, degree and share: (2 ends, 2 features, n_edges).
        one, two = ([degree[k], affinity[row, column] / strength[k]] for k in (row, column))
        swap = (one[0] < two[0]) | ((one[0] == two[0]) & (one[1] < two[1]))
        ends = np.where(swap, [two, one], [one, two])
        for start in range(0, len(row), _EDGES_AT_ONCE):
            (left, its), (right, other) = ends[:, :, start : start + _EDGES_AT_ONCE]
            maps[position] += _end_map(left, its, factor).T @ _end_map(right, other, factor)
    return maps.reshape(bags.n_bags, -1)


def _end_map(degree: FloatArray, share: FloatArray, factor: FloatArray) -> FloatArray:
    """Return the features of one end of every edge, of shape (n_edges, n_terms ** 2)."""
    left, right = (
        chebyshev.chebvander(2 * values - 1, factor.shape[0] - 1) @ factor
        for values in (degree, share)
    )
    return (left[:, :, None] * right[:, None, :]).reshape(len(degree), -1)


def gaussian_factor(gamma: float, tolerance: float = 1e-9) -> FloatArray:
    """Return a low-rank factor of the Gaussian kernel on numbers between 0 and 1.

    The factor A satisfies ``exp(-gamma (x - y)^2) = t(x) A A' t(y)'`` within the tolerance, where
    t(x) are the Chebyshev polynomials at ``2 x - 1``. It interpolates the kernel at Chebyshev
    nodes; the error falls geometrically with their number.

    Parameters
    ----------
    gamma : float
        Decay per squared difference.
    tolerance : float, default=1e-9
        Largest error allowed.

    Returns
    -------
    array of shape (n_polynomials, n_terms)

    Examples
    --------
    >>> import numpy as np
    >>> A = gaussian_factor(1.0)
    >>> t = np.polynomial.chebyshev.chebvander(2 * np.array([0.0, 0.5]) - 1, len(A) - 1) @ A
    >>> bool(np.isclose(t[0] @ t[1], np.exp(-0.25)))
    True
    """
    grid = np.linspace(0, 1, 201)
    exact = np.exp(-gamma * (grid[:, None] - grid) ** 2)
    for n_nodes in range(3, _MAX_NODES):
        points = chebyshev.chebpts1(n_nodes)
        kernel = np.exp(-gamma * (points[:, None] - points) ** 2 / 4)
        values, vectors = np.linalg.eigh(kernel)
        large = values > tolerance / 100
        factor = np.linalg.solve(
            chebyshev.chebvander(points, n_nodes - 1), vectors[:, large] * np.sqrt(values[large])
        )
        image = chebyshev.chebvander(2 * grid - 1, n_nodes - 1) @ factor
        if np.abs(image @ image.T - exact).max() <= tolerance:
            return factor
    raise ValueError(f"gamma={gamma} is too large for a short factorisation; use at most 100.")
