"""Similarity that decays with distance: its unit of length, densities and embeddings of bags."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import nearest_in_bags, squared_distance_blocks, squared_distances
from pigmil.scale import LazyBags, column_moments, take_rows

_MEDIAN_SAMPLE = 1000
# Multiplications for exact densities (some seconds of them), and instances per bag, from which
# estimates save time.
_WORTH_PRODUCTS = 1e11
_WORTH_BAG_SIZE = 40


def length_unit(
    instances: Any,
    rule: str | float = "auto",
    *,
    random_state: Any = 0,
    weights: FloatArray | None = None,
) -> float:
    """Return the length that counts as 1: a formula divides all distances by it.

    The constants of the paper are all 1, which suits z-scored data in two dimensions only:
    distances grow with the square root of the number of features.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features), Bags or LazyBags
        The training instances.
    rule : {"auto", "median"} or float, default="auto"
        ``"auto"``: ``unit^2 = (sum of feature variances) / 2``, which is 1 for z-scored data in
        two dimensions. ``"median"``: the median distance between instances (of at most 1000,
        drawn by ``random_state``). A number is used as given; 1.0 reproduces the paper.
    random_state : int, RandomState instance or None, default=0
        For the sample behind ``"median"``.
    weights : array of shape (n_instances,), optional
        Weights of instances in memory, for ``"auto"`` only.

    Returns
    -------
    float
        The unit, positive; 1.0 where all instances are the same.

    Examples
    --------
    >>> import numpy as np
    >>> length_unit(np.array([[-1.0, -1.0], [1.0, 1.0]]))
    1.0
    >>> length_unit(np.zeros((3, 2)), 0.5)
    0.5
    """
    if isinstance(instances, Bags):
        instances = instances.instances
    if rule == "auto":
        square = float(column_moments(instances, weights)[1].sum()) / 2
    elif rule == "median":
        lazy = isinstance(instances, LazyBags)
        chosen = np.arange(instances.n_instances if lazy else instances.shape[0])
        if len(chosen) > _MEDIAN_SAMPLE:
            chosen = check_random_state(random_state).choice(chosen, _MEDIAN_SAMPLE, replace=False)
        sample = take_rows(instances, np.sort(chosen)) if lazy else instances[chosen]
        pairs = squared_distances(sample, sample)[np.triu_indices(len(chosen), k=1)]
        square = float(np.median(pairs)) if pairs.size else 0.0
    else:
        return float(rule)
    return float(np.sqrt(square)) if square > 0 else 1.0


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
    weights: FloatArray | None = None,
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
    weights : array of shape (n_bags,), optional
        Weights of the bags; not together with ``own_bag``, ``copies`` or ``by_group``.

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
    n_bags = bags.n_bags if weights is None else weights.sum()
    result = np.full((len(rates), queries.shape[0]), -np.inf)
    if reduction == "sum":
        for rows, columns, squared in squared_distance_blocks(queries, bags.instances):
            factors = None if weights is None else np.repeat(weights, bags.sizes)[columns]
            add_log_sums(result[:, rows], np.sqrt(squared, out=squared), rates, factors)
        result -= np.log(n_bags)
        return result if np.ndim(gamma) else result[0]
    group, sums = by_group or (None, result[:, None])  # (n_widths, n_groups, n_queries)
    sums[:] = -np.inf
    n_groups = sums.shape[1]
    members: list[Any] = [slice(None)]
    if n_groups > 1:
        members = [group == k for k in range(n_groups)]
    count = np.full(queries.shape[0], n_bags)  # bags that are not the query's own
    if own_bag is not None:
        count[own_bag >= 0] -= 1
    for rows, squared in nearest_in_bags(queries, bags, farthest=reduction == "farthest"):
        if own_bag is not None:
            inside = np.flatnonzero(own_bag[rows] >= 0)
            squared[inside, own_bag[rows][inside]] = np.inf
        if copies is not None:
            copies[rows] = (squared == 0).sum(axis=1) / np.maximum(count[rows], 1)
        distances = np.sqrt(squared, out=squared)
        for number, columns in enumerate(members):
            add_log_sums(sums[:, number, rows], distances[:, columns], rates, weights)
    result = np.logaddexp.reduce(sums, axis=1) - np.log(np.maximum(count, 1))
    return result if np.ndim(gamma) else result[0]


def worth_screening(bags: Bags, is_positive: BoolArray) -> bool:
    """Return whether the data are so large that estimated densities save time: dense, large bags.

    See :func:`pigmil.distances.class_log_densities`.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> worth_screening(Bags.from_list([np.zeros((2, 3))] * 2), np.array([True, False]))
    False
    """
    n_negative = int(np.diff(bags.offsets)[~is_positive].sum())
    products = float(bags.n_instances) * n_negative * bags.instances.shape[1]
    large = products >= _WORTH_PRODUCTS and bags.n_instances >= _WORTH_BAG_SIZE * bags.n_bags
    return large and not sp.issparse(bags.instances)


def add_log_sums(
    total: FloatArray,
    distances: NDArray[Any],
    rates: FloatArray,
    weights: FloatArray | None = None,
) -> None:
    """Add ``sum weight exp(-rate distances)`` of every row to sums kept as logarithms, per rate.

    Overwrites the block of distances, which is large.
    """
    if not distances.shape[1]:
        return
    nearest = distances.min(axis=1, keepdims=True)
    nearest[np.isinf(nearest)] = 0  # all bags are left out: the sum is zero
    distances -= nearest
    for row, rate in enumerate(rates):
        last = row == len(rates) - 1
        decayed = np.multiply(distances, -rate, out=distances if last else None)
        with np.errstate(divide="ignore"):
            powers = np.exp(decayed, out=decayed)
            sums = powers.sum(axis=1, dtype=np.float64) if weights is None else powers @ weights
            sums = np.log(sums)
        sums -= rate * nearest[:, 0].astype(np.float64)
        total[row] = np.logaddexp(total[row], sums)


def embed_bags(bags: Bags, prototypes: Any, gamma: float) -> FloatArray:
    """Return the similarity of every bag to every prototype, as PIGMIL, MILES and MILIS use it.

    Implements Eqs. (9) and (10) of the paper:
    ``w(X, p) = max over x in X of exp(-gamma |x - p|^2)``, the similarity of the bag's nearest
    instance.

    Parameters
    ----------
    bags : Bags
        Bags to embed.
    prototypes : array or CSR of shape (n_prototypes, n_features)
        Instances that span the embedding.
    gamma : float
        Width of the kernel, per squared distance.

    Returns
    -------
    array of shape (n_bags, n_prototypes)

    Notes
    -----
    Cost: O(n_instances n_prototypes n_features), one matrix product per block.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [1.0]]), np.array([[3.0]])])
    >>> embed_bags(bags, np.array([[1.0]]), gamma=1.0).round(3)
    array([[1.   ],
           [0.018]])
    """
    embedded = np.empty((bags.n_bags, prototypes.shape[0]))
    for rows, squared in nearest_in_bags(prototypes, bags):
        embedded[:, rows] = np.exp(-gamma * squared.T)
    return embedded
