"""Results derived from a pool: instance scores, further detected instances, hard negatives."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import segment_argmax, segment_argmin
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import log_kernel_mean, squared_distance_blocks

__all__ = ["extend_pool", "hard_negatives", "pool_scores", "top_instances_per_bag"]


def pool_scores(
    queries: Any,
    log_negative_density: FloatArray,
    pool: Any,
    *,
    gamma: float,
    unit: float,
    query_bag: NDArray[Any] | None = None,
    pool_bag: NDArray[Any] | None = None,
) -> FloatArray:
    """Return the log ratio of the density of the pool to that of negative bags at every query.

    ``log mean over pool of exp(-gamma |x - t| / unit) - log_negative_density``. With the bags
    given, the pool member of the query's own bag is left out unless there is no other.

    Parameters
    ----------
    queries, pool : array or CSR with the same features
        Instances to score, and those of the pool.
    log_negative_density : array of shape (n_queries,)
        Log density of the negative bags at the queries.
    gamma, unit : float
        Decay per unit of length, and the unit.
    query_bag, pool_bag : array of int, optional
        Bag of each query and of each pool member, no two members of one bag.

    Returns
    -------
    array of shape (n_queries,)

    Examples
    --------
    >>> import numpy as np
    >>> pool_scores(np.array([[0.0]]), np.array([-3.0]), np.array([[1.0]]), gamma=1.0, unit=1.0)
    array([2.])
    """
    own = None
    if query_bag is not None and pool_bag is not None and pool.shape[0] > 1:
        position = np.full(int(max(query_bag.max(), pool_bag.max())) + 1, -1)
        position[pool_bag] = np.arange(len(pool_bag))
        own = position[query_bag]
    density = log_kernel_mean(queries, pool, gamma=gamma, unit=unit, own_point=own)
    return density - log_negative_density


def extend_pool(scores: FloatArray, bags: Bags, pool: IntArray, chosen: BoolArray) -> IntArray:
    """Return one instance of each chosen bag: its pool member, else its best-scored instance."""
    best = segment_argmax(scores, bags.offsets)
    best[bags.bag_index[pool]] = pool
    return best[chosen]


def top_instances_per_bag(
    pool: IntArray, working_sets: list[IntArray], scores: FloatArray, count: int
) -> IntArray:
    """Return the pool with, up to ``count`` per bag, the best-scored others of each working set.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([0.1, 0.9, 0.5])
    >>> top_instances_per_bag(np.array([0]), [np.arange(3)], scores, 2)
    array([0, 1])
    """
    if count == 1:
        return pool
    chosen = []
    for member, candidates in zip(pool, working_sets, strict=True):
        others = candidates[candidates != member]
        order = np.argsort(-scores[others], kind="stable")
        chosen.append(np.append(member, others[order[: count - 1]]))
    return np.concatenate(chosen)


def hard_negatives(bags: Bags, negative: BoolArray, pool: Any) -> IntArray:
    """Return the flat index of the instance of each negative bag that is nearest to the pool.

    Parameters
    ----------
    bags : Bags
        Training bags.
    negative : array of bool of shape (n_bags,)
        The negative ones.
    pool : array or CSR of shape (n_pool, n_features)
        Instances of the pool.

    Returns
    -------
    array of int of shape (n_negative_bags,)
    """
    squared = np.full(bags.n_instances, np.inf)
    for rows, _, block in squared_distance_blocks(bags.instances, pool):
        np.minimum(squared[rows], block.min(axis=1), out=squared[rows])
    return segment_argmin(squared, bags.offsets)[negative]
