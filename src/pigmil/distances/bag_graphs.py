"""The graph of the instances of a bag, as the kernels of miGraph and MIGraph use it.

Two instances are joined when they are nearer than the mean distance between the instances of their
bag. Only distances within bags are needed: O(sum of squared bag sizes).
"""

from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.distances.bag_distances import within_distances

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
    parts = []
    for bag in bags:
        threshold = _threshold(bag)
        counts = [(distances < threshold).sum(axis=1) for _, distances in within_distances(bag)]
        parts.append(1 / np.maximum(np.concatenate(counts), 1))
    return np.concatenate(parts)


def _threshold(bag: Any) -> float:
    """Return the distance below which two instances of a bag are joined."""
    n_pairs = bag.shape[0] * (bag.shape[0] - 1)
    if not n_pairs:
        return 0.0
    total = sum(float(distances.sum()) for _, distances in within_distances(bag))
    return _BELOW * total / n_pairs


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
        threshold = _threshold(bag)
        degree, strength = _degrees(bag, threshold)
        n_edges = degree.sum() / 2
        if n_edges == 0:
            continue
        for rows, distances in within_distances(bag):
            joined = np.triu(distances < threshold, k=rows.start + 1)
            row, column = np.nonzero(joined)
            affinity = _affinity(distances[row, column], threshold)
            row += rows.start
            # Of both ends of every edge, degree and share: (2 ends, 2 features, n_edges).
            one, two = ([degree[k] / n_edges, affinity / strength[k]] for k in (row, column))
            swap = (one[0] < two[0]) | ((one[0] == two[0]) & (one[1] < two[1]))
            ends = np.where(swap, [two, one], [one, two])
            for start in range(0, len(row), _EDGES_AT_ONCE):
                (left, its), (right, other) = ends[:, :, start : start + _EDGES_AT_ONCE]
                maps[position] += _end_map(left, its, factor).T @ _end_map(right, other, factor)
    return maps.reshape(bags.n_bags, -1)


def _degrees(bag: Any, threshold: float) -> tuple[FloatArray, FloatArray]:
    """Return the number of edges and the sum of affinities of every instance."""
    degree, strength = np.zeros(bag.shape[0]), np.ones(bag.shape[0])
    for rows, distances in within_distances(bag):
        joined = distances < threshold
        local = np.arange(rows.stop - rows.start)
        joined[local, local + rows.start] = False
        degree[rows] = joined.sum(axis=1)
        strength[rows] = np.where(joined, _affinity(distances, threshold), 0).sum(axis=1)
    return degree, strength


def _affinity(distances: FloatArray, threshold: float) -> FloatArray:
    """Return the reciprocal distance in units of the threshold; the unit cancels in ``p``."""
    return 1 / np.maximum(distances / max(threshold, np.finfo(float).tiny), _SHORTEST)


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
