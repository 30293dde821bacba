"""Densities of the training bags by class, and scores of instances by a pool."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import (
    offsets_of,
    segment_argmax,
    segment_argmin,
    segment_gather,
    segment_reduce,
)
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import (
    ClassDensities,
    class_log_densities,
    log_density,
    squared_distance_blocks,
)
from pigmil.graph.candidates import copy_penalty, two_sided_score

_MAX_REFINEMENTS = 10

_logger = logging.getLogger("pigmil")


@dataclass(frozen=True)
class ClassSplit:
    """The training bags by class, and the log densities around their instances.

    Attributes
    ----------
    bags : Bags
        All training bags.
    is_positive : array of bool of shape (n_bags,)
        The positive ones.
    positive, negative : Bags
        Bags of each class.
    rows : array of int of shape (n_positive_instances,)
        Flat training index of each instance of the positive bags.
    unit : float
        Unit of length.
    decays : tuple of float
        Decays of the densities, one row of the arrays below each.
    log_negative_density : array of shape (n_decays, n_instances)
        Of the negative bags at every training instance, its own bag left out.
    log_positive_density : array of shape (n_decays, n_positive_instances), or None
        Of the other positive bags at every instance of the positive bags, if it is needed.
    copy_penalty : array of shape (n_positive_instances,)
        See :func:`pigmil.graph.copy_penalty`.
    fold : array of int of shape (n_bags,), optional
        Fold of each training bag.
    fold_sums : ClassDensities, optional
        Logarithms of the sums over the bags of each fold, in place of the means over all.
    """

    bags: Bags
    is_positive: BoolArray
    positive: Bags
    negative: Bags
    rows: IntArray
    unit: float
    decays: tuple[float, ...]
    log_negative_density: FloatArray
    log_positive_density: FloatArray | None
    copy_penalty: FloatArray
    fold: IntArray | None = None
    fold_sums: ClassDensities | None = None

    @classmethod
    def from_bags(
        cls,
        bags: Bags,
        is_positive: BoolArray,
        *,
        decays: tuple[float, ...],
        unit: float,
        two_sided: bool,
        fold: IntArray | None = None,
        screen: bool = False,
    ) -> "ClassSplit":
        """Split the bags by class and measure the densities.

        Parameters
        ----------
        bags : Bags
            Training bags.
        is_positive : array of bool of shape (n_bags,)
            Class of each.
        decays, unit
            Decays per unit of length, and the unit.
        two_sided : bool
            Whether to measure the density of the positive bags.
        fold : array of int of shape (n_bags,), optional
            Fold of each bag; lets :meth:`without_fold` reuse the distances.
        screen : bool, default=False
            Whether most densities are estimated, see
            :func:`pigmil.distances.class_log_densities`.
        """
        densities = class_log_densities(
            bags,
            is_positive,
            gammas=decays,
            unit=unit,
            two_sided=two_sided,
            screen=screen,
            fold=fold,
        )
        _logger.info(
            "densities: exact for %d of %d instances of positive bags, estimated for the rest",
            densities.exact.sum(),
            len(densities.exact),
        )
        return cls(
            bags,
            is_positive,
            bags[is_positive],
            bags[~is_positive],
            segment_gather(bags.offsets, np.flatnonzero(is_positive)),
            unit,
            decays,
            densities.log_negative,
            densities.log_positive,
            copy_penalty(densities.in_negative, densities.in_positive),
            fold,
            None if fold is None else densities,
        )

    def at_width(self, width: int) -> "ClassSplit":
        """Return the split with one of the decays only, without folds."""
        positive, chosen = self.log_positive_density, slice(width, width + 1)
        return replace(
            self,
            decays=self.decays[chosen],
            log_negative_density=self.log_negative_density[chosen],
            log_positive_density=None if positive is None else positive[chosen],
            fold=None,
            fold_sums=None,
        )

    def without_fold(self, number: int) -> "ClassSplit":
        """Return the split of the bags outside one fold.

        The density of negatives is still given at every instance, those of the fold included:
        these are held out. Only the grade of exact copies is that of all bags.
        """
        if self.fold is None or self.fold_sums is None:
            raise ValueError("This split has no folds; pass fold to ClassSplit.from_bags.")
        train = self.fold != number
        positive, negative = train[self.is_positive], train & ~self.is_positive
        inside = segment_gather(self.positive.offsets, np.flatnonzero(positive))
        own = negative[self.bags.bag_index]
        log_positive = None
        if self.log_positive_density is not None:
            sums = self.fold_sums.positive_sums[:, :, inside]
            log_positive = _log_mean(sums, number, np.array(positive.sum() - 1))
        return ClassSplit(
            self.bags,
            self.is_positive & train,
            self.positive[positive],
            self.negative[train[~self.is_positive]],
            self.rows[inside],
            self.unit,
            self.decays,
            _log_mean(self.fold_sums.negative_sums, number, negative.sum() - own),
            log_positive,
            self.copy_penalty[inside],
        )

    def working_scores(
        self, width: int, *, margin: float = 0.7, penalty: float = 10.0
    ) -> FloatArray:
        """Return the working score of every instance of the positive bags for one of the decays.

        As :func:`pigmil.graph.working_score`, from the stored densities.
        """
        n, positive = self.log_negative_density[width, self.rows], self.log_positive_density
        if positive is None:
            return two_sided_score(n, None)
        score = two_sided_score(n, positive[width], margin=margin, penalty=penalty)
        return score + self.copy_penalty


def _log_mean(sums: FloatArray, left_out: int, count: NDArray[Any]) -> FloatArray:
    """Return the log mean over all folds but one, of ``count`` bags at each instance."""
    others = np.arange(sums.shape[1]) != left_out
    return np.logaddexp.reduce(sums[:, others], axis=1) - np.log(np.maximum(count, 1))


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
    members = Bags(pool, np.arange(pool.shape[0] + 1))  # each is a bag of its own
    density = log_density(queries, members, gamma=gamma, unit=unit, own_bag=own)
    return density - log_negative_density


def score_by_pool(
    split: ClassSplit, width: int, pool: IntArray, working_bags: BoolArray
) -> tuple[FloatArray, IntArray]:
    """Score every training instance by the pool, extended to all positive bags and refined.

    The pool is extended by the best-scored instance of each positive bag that was set aside.
    Then, up to ten times, the best-scored instance of every positive bag takes its place.

    Parameters
    ----------
    split : ClassSplit
        The training bags by class.
    width : int
        Index of the decay.
    pool : array of int of shape (n_working_bags,)
        Flat indices of the pool, in the order of the bags.
    working_bags : array of bool of shape (n_positive_bags,)
        Which of the positive bags are working bags.

    Returns
    -------
    scores : array of shape (n_instances,)
        See `pool_scores`; the member of an instance's own bag is left out.
    refined : array of int of shape (n_positive_bags,)
        Flat indices of the instances the scores are measured to.
    """
    bags, owners = split.bags, split.bags.bag_index

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
    refined[working_bags] = pool
    for _ in range(_MAX_REFINEMENTS):
        previous, refined = refined, best_of_each(refined)
        if np.array_equal(refined, previous):
            break
    return score(np.arange(bags.n_instances), refined), refined


def held_out_areas(
    split: ClassSplit, first_pool: Callable[[ClassSplit, int], IntArray]
) -> FloatArray:
    """Return how well the first pool of each width separates held-out bags.

    Parameters
    ----------
    split : ClassSplit
        The training bags by class, with folds.
    first_pool : callable
        From the split of the bags outside a fold and the index of a width to the flat indices of
        a pool.

    Returns
    -------
    array of shape (n_decays,)
        Area under the ROC curve of the held-out bags, scored by their best instance; the mean
        over folds.
    """
    bags, fold = split.bags, split.fold
    assert fold is not None, "a split with folds"
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
            areas[width, number] = bag_auc(best, split.is_positive[test])
    return areas.mean(axis=1)


def bag_auc(values: FloatArray, positive: BoolArray) -> float:
    """Return the share of pairs of a positive and a negative bag in the right order.

    This is the area under the ROC curve. Ties count one half.

    Examples
    --------
    >>> import numpy as np
    >>> bag_auc(np.array([3.0, 1.0, 1.0, 0.0]), np.array([True, True, False, False]))
    0.875
    """
    return float(weighted_auc(values, positive, np.ones((1, len(values))))[0])


def weighted_auc(values: Any, positive: BoolArray, weights: FloatArray) -> FloatArray:
    """Return the area under the ROC curve for each row of weights of the bags."""
    # Levels instead of values, which may be minus infinity: equal for ties.
    level = np.unique(values, return_inverse=True)[1].ravel()
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))
    high = np.add.reduceat((weights * positive)[:, order], starts, axis=1)
    low = np.add.reduceat((weights * ~positive)[:, order], starts, axis=1)
    below = np.cumsum(low, axis=1) - low
    won: FloatArray = (high * (below + low / 2)).sum(axis=1)
    return won / (high.sum(axis=1) * low.sum(axis=1))


def auc_standard_error(auc: float, n_positive: int, n_negative: int) -> float:
    """Return the standard error of an area under the ROC curve after Hanley and McNeil (1982).

    The area is first drawn towards one half, as by one more bag of the smaller class that says
    nothing: otherwise a perfect one would have none. With ``q1 = a / (2 - a)`` and
    ``q2 = 2 a^2 / (1 + a)`` the square is
    ``(a (1 - a) + (n_positive - 1) (q1 - a^2) + (n_negative - 1) (q2 - a^2)) / (n_positive
    n_negative)``.

    Examples
    --------
    >>> round(auc_standard_error(1.0, 1, 1), 4)
    0.433
    """
    n_bags = min(n_positive, n_negative)
    area = max((auc * n_bags + 0.5) / (n_bags + 1), 0.5)
    both_positive, both_negative = area / (2 - area), 2 * area**2 / (1 + area)
    square = area * (1 - area) + (n_positive - 1) * (both_positive - area**2)
    square += (n_negative - 1) * (both_negative - area**2)
    return float(np.sqrt(square / (n_positive * n_negative)))


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
