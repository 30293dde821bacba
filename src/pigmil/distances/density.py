"""Densities of bags around an instance: the KDE family of the PIGMIL paper."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.distances import nearest_in_bags, squared_distance_blocks


def log_density(
    queries: Any,
    bags: Bags,
    *,
    gamma: ArrayLike = 1.0,
    unit: float = 1.0,
    reduction: str = "nearest",
    own_bag: NDArray[Any] | None = None,
    copies: FloatArray | None = None,
    by_group: tuple[NDArray[Any], FloatArray] | None = None,
) -> FloatArray:
    """Return the logarithm of the density of bags around every query.

    Implements Eq. (1) and footnotes 1 and 2 of the paper,
    ``f(x) = 1/N sum over bags of R over the bag of exp(-gamma |x - x_ji| / unit)``, with R the
    nearest instance of the bag (KDE_min), the farthest (KDE_max) or the sum (KDE).

    Departs from the paper: min and max are taken over distances, not over the exponentials as
    printed (there "min" would be the farthest instance, which contradicts Table I); ``Z = 1``;
    lengths are measured in ``unit``; the logarithm is returned, so that nothing underflows.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Instances at which to measure.
    bags : Bags
        The bags of one class.
    gamma : float or array-like of shape (n_widths,), default=1.0
        Decay per unit of length. Several values share one computation of the distances.
    unit : float, default=1.0
        Unit of length, see :func:`pigmil.distances.length_unit`.
    reduction : {"nearest", "sum", "farthest"}, default="nearest"
        R above.
    own_bag : array of int of shape (n_queries,), optional
        Position in ``bags`` of the bag each query comes from, which is then left out
        (only with "nearest" and "farthest"); -1 for none.
    copies : array of shape (n_queries,), optional
        Filled with the share of bags that hold an exact copy of the query (with "nearest").
    by_group : (array of int of shape (n_bags,), array (n_widths, n_groups, n_queries)), optional
        Group of each bag, and an array to fill with the logarithm of the sum over the bags of
        each group (not with "sum"): the densities of any groups follow without new distances.

    Returns
    -------
    array of shape (n_queries,), or (n_widths, n_queries) if ``gamma`` is an array
        ``log f(x)``; ``-inf`` if no bag is left.

    Notes
    -----
    Cost: O(n_queries n_instances n_features), in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [3.0]]), np.array([[1.0]])])
    >>> x = np.array([[0.0]])
    >>> bool(np.isclose(np.exp(log_density(x, bags)), (1 + np.exp(-1)) / 2))
    True
    """
    rates = np.atleast_1d(np.asarray(gamma, dtype=np.float64)) / unit
    result = np.empty((len(rates), queries.shape[0]))
    if reduction == "sum":
        result[:] = -np.inf
        for rows, _, squared in squared_distance_blocks(queries, bags.instances):
            _add_log_sums(result[:, rows], np.sqrt(squared, out=squared), rates)
        result -= np.log(bags.n_bags)
    else:
        farthest = reduction == "farthest"
        for rows, squared in nearest_in_bags(queries, bags, farthest=farthest):
            count = np.full(len(squared), bags.n_bags)
            if own_bag is not None:
                inside = np.flatnonzero(own_bag[rows] >= 0)
                squared[inside, own_bag[rows][inside]] = np.inf
                count[inside] -= 1
            if copies is not None:
                copies[rows] = (squared == 0).sum(axis=1) / np.maximum(count, 1)
            distances = np.sqrt(squared, out=squared)
            result[:, rows] = -np.inf
            if by_group is None:
                _add_log_sums(result[:, rows], distances, rates)
            else:
                group, sums = by_group
                sums[:, :, rows] = -np.inf
                for number in range(sums.shape[1]):
                    _add_log_sums(sums[:, number, rows], distances[:, group == number], rates)
                result[:, rows] = np.logaddexp.reduce(sums[:, :, rows], axis=1)
            result[:, rows] -= np.log(np.maximum(count, 1))
    return result if np.ndim(gamma) else result[0]


def log_kernel_mean(
    queries: Any,
    points: Any,
    *,
    gamma: float = 1.0,
    unit: float = 1.0,
    own_point: NDArray[Any] | None = None,
) -> FloatArray:
    """Return ``log mean over points of exp(-gamma |x - point| / unit)`` for every query.

    Parameters
    ----------
    queries, points : array or CSR with the same features
        Instances at which to measure, and the points to measure to.
    gamma, unit : float, default=1.0
        Decay per unit of length, and the unit.
    own_point : array of int of shape (n_queries,), optional
        Index of the point that is left out for each query; -1 for none.

    Returns
    -------
    array of shape (n_queries,)

    Examples
    --------
    >>> import numpy as np
    >>> log_kernel_mean(np.array([[0.0]]), np.array([[2.0], [2.0]]))
    array([-2.])
    """
    rates = np.array([gamma / unit])
    result = np.full((1, queries.shape[0]), -np.inf)
    count = np.full(queries.shape[0], points.shape[0])
    if own_point is not None:
        count -= own_point >= 0
    for rows, columns, squared in squared_distance_blocks(queries, points):
        if own_point is not None:
            own = own_point[rows] - columns.start
            inside = np.flatnonzero((own >= 0) & (own < squared.shape[1]))
            squared[inside, own[inside]] = np.inf
        _add_log_sums(result[:, rows], np.sqrt(squared, out=squared), rates)
    return result[0] - np.log(np.maximum(count, 1))


def _add_log_sums(total: FloatArray, distances: NDArray[Any], rates: FloatArray) -> None:
    """Add ``sum exp(-rate distances)`` of every row to sums kept as logarithms, per rate.

    Overwrites the block of distances, which is large.
    """
    nearest = distances.min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 0  # all bags are left out: the sum is zero
    distances -= nearest
    for row, rate in enumerate(rates):
        last = row == len(rates) - 1
        decayed = np.multiply(distances, -rate, out=distances if last else None)
        with np.errstate(divide="ignore"):
            sums = np.log(np.exp(decayed, out=decayed).sum(axis=1, dtype=np.float64))
        sums -= rate * nearest[:, 0].astype(np.float64)
        total[row] = np.logaddexp(total[row], sums)
