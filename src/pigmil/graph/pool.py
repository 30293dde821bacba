"""Results derived from a pool: instance scores, further detected instances, hard negatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from pigmil._core.segments import (
    offsets_of,
    segment_argmax,
    segment_argmin,
    segment_gather,
    segment_reduce,
)
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import log_kernel_mean, squared_distance_blocks
from pigmil.graph.class_split import ClassSplit

__all__ = [
    "hard_negatives",
    "held_out_areas",
    "pool_scores",
    "score_by_pool",
    "top_instances_per_bag",
]

_MAX_REFINEMENTS = 10


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


def score_by_pool(
    bags: Bags, split: ClassSplit, width: int, pool: IntArray, kept: BoolArray
) -> tuple[FloatArray, IntArray]:
    """Score every training instance by the pool, extended to all positive bags and refined.

    The pool is extended by the best-scored instance of each positive bag that was set aside.
    Then, up to ten times, the best-scored instance of every positive bag takes its place.

    Parameters
    ----------
    bags : Bags
        Training bags.
    split : ClassSplit
        The same by class.
    width : int
        Index of the decay.
    pool : array of int of shape (n_working_bags,)
        Flat indices of the pool, in the order of the bags.
    kept : array of bool of shape (n_positive_bags,)
        The working bags.

    Returns
    -------
    scores : array of shape (n_instances,)
        See `pool_scores`; the member of an instance's own bag is left out.
    refined : array of int of shape (n_positive_bags,)
        Flat indices of the instances the scores are measured to.
    """
    owners = bags.bag_index

    def score(rows: IntArray, members: IntArray) -> FloatArray:
        return pool_scores(
            bags.instances[rows],
            split.log_negative_density[width, rows],
            bags.instances[members],
            gamma=split.decays[width],
            unit=split.unit,
            query_bag=owners[rows],
            pool_bag=owners[members],
        )

    def best_of_each(members: IntArray) -> IntArray:
        return split.rows[segment_argmax(score(split.rows, members), split.positive.offsets)]

    refined = best_of_each(pool)
    refined[kept] = pool
    for _ in range(_MAX_REFINEMENTS):
        previous, refined = refined, best_of_each(refined)
        if np.array_equal(refined, previous):
            break
    return score(np.arange(bags.n_instances), refined), refined


def held_out_areas(
    bags: Bags, split: ClassSplit, first_pool: Callable[[ClassSplit, int], IntArray]
) -> FloatArray:
    """Return how well the first pool of each width separates held-out bags.

    Parameters
    ----------
    bags : Bags
        Training bags.
    split : ClassSplit
        The same by class, with folds.
    first_pool : callable
        From the split of the bags outside a fold and the index of a width to the flat indices of
        a pool.

    Returns
    -------
    array of shape (n_decays,)
        Area under the ROC curve of the held-out bags, scored by their best instance; the mean
        over folds.
    """
    if split.folds is None:
        raise ValueError("This split has no folds; pass fold to ClassSplit.from_bags.")
    fold = split.folds.fold
    areas = np.zeros((len(split.decays), int(fold.max()) + 1))
    for number in range(areas.shape[1]):
        train = split.without_fold(number)
        test = np.flatnonzero(fold == number)
        rows, offsets = segment_gather(bags.offsets, test), offsets_of(bags.sizes[test])
        instances = bags.instances[rows]
        for width, decay in enumerate(split.decays):
            scores = pool_scores(
                instances,
                train.log_negative_density[width, rows],
                bags.instances[first_pool(train, width)],
                gamma=decay,
                unit=split.unit,
            )
            best = segment_reduce(np.maximum, scores, offsets)
            areas[width, number] = _area(best, split.is_positive[test])
    return areas.mean(axis=1)


def _area(values: FloatArray, positive: BoolArray) -> float:
    """Return the area under the ROC curve: the share of pairs in the right order, ties half."""
    n_positive, n_negative = positive.sum(), (~positive).sum()
    ranks = rankdata(values)[positive].sum() - n_positive * (n_positive + 1) / 2
    return float(ranks / (n_positive * n_negative))


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
