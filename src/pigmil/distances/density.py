"""How dense the bags of one class are around an instance: the KDE family of the paper."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.distances import nearest_in_bags, squared_distance_blocks

# Added to the logarithmic density at an exact copy of a negative, which cannot be positive: more
# than any density can outweigh, yet finite, so that means and variances stay finite too.
COPY_PENALTY = 1e3


def log_density(
    queries: Any,
    bags: Bags,
    *,
    gamma: float = 1.0,
    unit: float = 1.0,
    reduction: str = "nearest",
    own_bag: NDArray[Any] | None = None,
    nearest: FloatArray | None = None,
) -> FloatArray:
    """Logarithm of the density of bags around every query.

    Implements Definition 2 and footnotes 1 and 2 of the paper,
    ``f(x) = 1/N sum over bags of R over the bag of exp(-gamma |x - x_ji| / unit)``, with R the
    nearest instance of the bag (KDE_min), the farthest (KDE_max) or the sum (KDE).

    Departs from the paper: min and max are taken over distances, not over the exponentials as
    printed (there "min" would be the farthest instance, and Table I could not come out);
    ``Z = 1``; lengths are measured in ``unit``; the logarithm is returned, so that nothing
    underflows.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Instances at which to measure.
    bags : Bags
        The bags of one class.
    gamma : float, default=1.0
        Decay per unit of length.
    unit : float, default=1.0
        Unit of length, see :func:`pigmil.distances.length_unit`.
    reduction : {"nearest", "sum", "farthest"}, default="nearest"
        R above.
    own_bag : array of int of shape (n_queries,), optional
        Position in ``bags`` of the bag each query comes from, which is then left out
        (only with "nearest" and "farthest"); -1 for none.
    nearest : array of shape (n_queries,), optional
        Filled with the distance, in units, to the nearest bag, by its nearest (farthest)
        instance; the same pass over the data yields it.

    Returns
    -------
    array of shape (n_queries,)
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
    rate = gamma / unit
    result = np.empty(queries.shape[0])
    if reduction == "sum":
        result[:] = -np.inf
        for rows, _, squared in squared_distance_blocks(queries, bags.instances):
            result[rows] = np.logaddexp(result[rows], _log_sum_decay(squared, rate))
        return result - np.log(bags.n_bags)
    for rows, squared in nearest_in_bags(queries, bags, farthest=reduction == "farthest"):
        count = np.full(len(squared), bags.n_bags)
        if own_bag is not None:
            inside = np.flatnonzero(own_bag[rows] >= 0)
            squared[inside, own_bag[rows][inside]] = np.inf
            count[inside] -= 1
        if nearest is not None:
            nearest[rows] = np.sqrt(squared.min(axis=1)) / unit
        result[rows] = _log_sum_decay(squared, rate) - np.log(np.maximum(count, 1))
    return result


def _log_sum_decay(squared: NDArray[Any], rate: float) -> FloatArray:
    """``log sum exp(-rate sqrt(squared))`` of every row; overwrites the block, which is large."""
    distances = np.sqrt(squared, out=squared)
    nearest = distances.min(axis=1, keepdims=True)
    # Nothing but bags that were left out: the sum is zero.
    nearest[np.isinf(nearest)] = 0
    distances -= nearest
    distances *= -rate
    np.exp(distances, out=distances)
    total = distances.sum(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.log(total) - rate * nearest[:, 0].astype(np.float64)


def negative_density(
    queries: Any,
    negative_bags: Bags,
    *,
    gamma: float = 1.0,
    unit: float = 1.0,
    reduction: str = "nearest",
    own_bag: NDArray[Any] | None = None,
) -> FloatArray:
    """Logarithmic density of negative bags around every query, beyond all bounds at a copy.

    As :func:`log_density`, with ``COPY_PENALTY`` added where a query is an exact copy of a
    negative instance: the counterpart of a discrimination of minus infinity. A negative bag of
    the query's own (``own_bag``) is left out, unless it is the only one.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> negative = Bags.from_list([np.array([[0.0]])])
    >>> negative_density(np.array([[0.0], [2.0]]), negative)
    array([1000.,   -2.])
    """
    nearest = np.full(queries.shape[0], np.nan)
    density = log_density(
        queries,
        negative_bags,
        gamma=gamma,
        unit=unit,
        reduction=reduction,
        own_bag=own_bag if negative_bags.n_bags > 1 else None,
        nearest=nearest,
    )
    return np.where(nearest == 0, density + COPY_PENALTY, density)
