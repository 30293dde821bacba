"""Densities of large data: estimated for all instances, exact for those that may be positive."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import segment_lowest
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import squared_distances
from pigmil.distances.similarity import add_log_sums, log_density

_CELL_SIZE = 256  # instances in a cell on average
_CELLS_SEARCHED = 8
# Representatives of all bags of a class together, and instances measured exactly; both at least
# as many per bag as the second number.
_REPRESENTATIVES = (1024, 2)
_PROMISING = (3072, 10)
_LLOYD_STEPS = 4
_POWER_STEPS = 8
_DIRECTION_SAMPLE = 512
# Estimates are raised by this quantile of their error, so that few of them fall below the exact
# value: an instance must not win because its density was only estimated.
_SHIFT_QUANTILE = 0.9


@dataclass(frozen=True)
class ClassDensities:
    """Log densities at training instances; see :func:`class_log_densities`.

    Attributes
    ----------
    log_negative : array of shape (n_widths, n_instances)
        Of the negative bags, the instance's own bag left out.
    log_positive : array of shape (n_widths, n_positive_instances), or None
        Of the other positive bags, at the instances of positive bags.
    in_negative, in_positive : array of shape (n_positive_instances,)
        Share of those bags that hold an exact copy of the instance; 0 where not ``exact``.
    exact : array of bool of shape (n_positive_instances,)
        Instances of positive bags whose densities are exact.
    negative_sums : array of shape (n_widths, n_folds, n_instances)
        Logarithms of the sums over the negative bags of each fold: the densities of any folds
        follow without new distances.
    positive_sums : array of shape (n_widths, n_folds, n_positive_instances)
        The same over the positive bags, if they are measured.
    """

    log_negative: FloatArray
    log_positive: FloatArray | None
    in_negative: FloatArray
    in_positive: FloatArray
    exact: BoolArray
    negative_sums: FloatArray
    positive_sums: FloatArray


def class_log_densities(
    bags: Bags,
    is_positive: BoolArray,
    *,
    gammas: tuple[float, ...],
    unit: float = 1.0,
    two_sided: bool = True,
    screen: bool = True,
    fold: IntArray | None = None,
) -> ClassDensities:
    """Measure the densities of both classes at the training instances.

    With a screen not all instances are compared with each other. They are divided into cells of
    similar ones. The nearest instance of a bag is looked for in the cells nearest to that of the
    query, and among a few representatives of the bag. The instances of positive bags that look
    promising by these estimates are then measured exactly: half of them have the lowest density of
    negatives, half the lowest ratio of that density to the density of the other positive bags.

    Parameters
    ----------
    bags : Bags
        Training bags with dense instances.
    is_positive : array of bool of shape (n_bags,)
        Their classes, both present.
    gammas : tuple of float
        Decays per unit of length. The middle one decides which instances are promising.
    unit : float, default=1.0
        Unit of length.
    two_sided : bool, default=True
        Whether the density of positive bags is needed.
    screen : bool, default=True
        Whether most densities are estimated.
    fold : array of int of shape (n_bags,), optional
        Fold of each bag; a single one if not given.

    Returns
    -------
    ClassDensities

    Notes
    -----
    The nearest of some instances of a bag is never nearer than the nearest of all, so estimates
    are too low. They are raised by an upper quantile of the error that the exact ones show.

    Cost: O(n_instances n_features), times 8 cells of up to 256 instances and 1,024 representatives
    (or 2 per bag, if that is more) for the estimates, and times 3,072 promising instances (or 10
    per positive bag) for the exact densities.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [3.0]]), np.array([[3.0]]), np.array([[0.0]])])
    >>> found = class_log_densities(bags, np.array([True, True, False]), gammas=(1.0,))
    >>> found.log_negative
    array([[ 0., -3., -3.,  0.]])
    >>> found.log_positive
    array([[-3.,  0.,  0.]])
    """
    rows = np.flatnonzero(is_positive[bags.bag_index])
    fold = np.zeros(bags.n_bags, dtype=np.int64) if fold is None else fold
    rates = np.array(gammas) / unit
    shape = len(gammas), int(fold.max()) + 1
    negative = _Side(bags, ~is_positive, np.arange(bags.n_instances), fold, shape)
    positive = _Side(bags, is_positive, rows, fold, shape)
    if negative.references.n_bags == 1:  # all there is to compare with
        negative.own_bag = np.full(bags.n_instances, -1)
    sides = [negative, positive] if two_sided else [negative]
    exact = np.ones(len(rows), dtype=np.bool_)
    if screen:
        cells = _cells(bags.instances)
        for side in sides:
            side.estimate(cells, rates)
        middle = len(gammas) // 2
        low = negative.log[middle, rows]
        criteria = [low, low - positive.log[middle]] if two_sided else [low]
        count = -(-_per_bag(_PROMISING, positive.references) // 2)
        marked = [segment_lowest(each, positive.references.offsets, count) for each in criteria]
        exact = np.logical_or.reduce(marked)
    for side in sides:
        side.measure(rows[exact] if screen else side.rows, rates)
    return ClassDensities(
        negative.log,
        positive.log if two_sided else None,
        negative.copies[rows],
        positive.copies,
        exact,
        negative.sums,
        positive.sums,
    )


class _Side:
    """Densities of the bags of one class at some instances; see :class:`ClassDensities`."""

    def __init__(
        self,
        bags: Bags,
        is_reference: BoolArray,
        rows: IntArray,
        fold: IntArray,
        shape: tuple[int, int],
    ) -> None:
        self.bags, self.rows = bags, rows
        self.references, self.fold = bags[is_reference], fold[is_reference]
        # Of every instance, the position of its bag among the references; -1 in other bags.
        position = np.where(is_reference, np.cumsum(is_reference) - 1, -1)
        self.position: IntArray = position[bags.bag_index]
        self.own_bag = self.position  # which reference an instance is not compared with
        self.log = np.empty((shape[0], len(rows)))
        self.sums = np.full((*shape, len(rows)), -np.inf)
        self.copies = np.zeros(len(rows))

    def estimate(self, cells: list[tuple[IntArray, IntArray]], rates: FloatArray) -> None:
        """Compare the members of each cell with its neighbours and some of every bag."""
        n_bags = self.references.n_bags
        inside = np.flatnonzero(self.position >= 0)
        few = _per_bag(_REPRESENTATIVES, self.references)
        representatives = inside[representative_rows(self.references, few)]
        place = np.full(self.bags.n_instances, -1)  # of an instance in the result
        place[self.rows] = np.arange(len(self.rows))
        count = np.ones(len(self.rows))  # bags that are not the query's own
        for members, near in cells:
            queries = members[place[members] >= 0]
            if not len(queries):
                continue
            compared = np.union1d(near[self.position[near] >= 0], representatives)
            starts = np.searchsorted(self.position[compared], np.arange(n_bags))
            instances = self.bags.instances
            squared = squared_distances(instances[queries], instances[compared])
            distances = np.sqrt(np.minimum.reduceat(squared, starts, axis=1))
            own = self.own_bag[queries]
            distances[own >= 0, own[own >= 0]] = np.inf
            count[place[queries]] = np.maximum(1, np.isfinite(distances).sum(axis=1))
            for number in range(self.sums.shape[1]):
                part = np.full((len(rates), len(queries)), -np.inf)
                add_log_sums(part, distances[:, self.fold == number], rates)
                self.sums[:, number, place[queries]] = part
        self.log = np.logaddexp.reduce(self.sums, axis=1) - np.log(count)

    def measure(self, chosen: IntArray, rates: FloatArray) -> None:
        """Measure some instances; raise estimates of others by an upper quantile of the error."""
        everything = len(chosen) == self.bags.n_instances
        instances = self.bags.instances
        place = np.searchsorted(self.rows, chosen)
        sums, copies = np.empty((*self.sums.shape[:2], len(chosen))), np.zeros(len(chosen))
        known = log_density(
            instances if everything else instances[chosen],
            self.references,
            gamma=rates,
            own_bag=self.own_bag[chosen],
            copies=copies,
            by_group=(self.fold, sums),
        )
        if len(chosen) < len(self.rows):
            before = self.log[:, place]
            finite = np.isfinite(before)
            errors = np.where(finite, known - np.where(finite, before, 0.0), 0.0)
            shift = np.quantile(errors, _SHIFT_QUANTILE, axis=1, keepdims=True)
            self.log += shift
            self.sums += shift[:, None]
        self.log[:, place], self.sums[:, :, place], self.copies[place] = known, sums, copies


def representative_rows(bags: Bags, n_per_bag: int) -> IntArray:
    """Return the flat indices of instances that represent each bag.

    They are the instances nearest to the k-means centres of the bag; a bag of no more than
    ``n_per_bag`` instances is represented by all of them. Instances serve better than centres,
    which in many dimensions lie nearer to everything.

    Parameters
    ----------
    bags : Bags
        Bags with dense instances.
    n_per_bag : int
        Representatives of a bag at most.

    Returns
    -------
    array of int
        In increasing order.

    Notes
    -----
    The centres start at instances spread evenly over the distances to the mean of the bag, so the
    choice is deterministic and, but for ties, independent of the order of the instances.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [0.1], [0.3], [5.0], [5.1], [5.3]])])
    >>> representative_rows(bags, 2)
    array([1, 4])
    """
    chosen = []
    for first, end in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        members = np.arange(first, end)
        if len(members) > n_per_bag:
            instances = bags.instances[first:end]
            centres = _centres(instances, n_per_bag)
            members = first + np.unique(squared_distances(centres, instances).argmin(axis=1))
        chosen.append(members)
    return np.concatenate(chosen)


def _cells(instances: NDArray[Any]) -> list[tuple[IntArray, IntArray]]:
    """Divide instances into cells of similar ones; return the members, and whom to compare with.

    A set of instances is cut at the median of its first principal direction until no part is
    larger than a cell, so that all cells have nearly the same size. The members of a cell are
    compared with those of the cells nearest to it.
    """
    points = np.subtract(instances, instances.mean(axis=0, dtype=np.float64)).astype(np.float32)
    cells: list[IntArray] = []
    parts = [np.arange(len(points))]
    while parts:
        part = parts.pop()
        if len(part) <= _CELL_SIZE:
            cells.append(part)
            continue
        order = np.argsort(points[part] @ _main_direction(points[part]), kind="stable")
        parts += [part[order[: len(part) // 2]], part[order[len(part) // 2 :]]]
    centres = np.array([points[part].mean(axis=0) for part in cells])
    searched = np.argsort(squared_distances(centres, centres), axis=1, kind="stable")
    near = [np.concatenate([cells[k] for k in row[:_CELLS_SEARCHED]]) for row in searched]
    return list(zip(cells, near, strict=True))


def _main_direction(points: NDArray[Any]) -> NDArray[Any]:
    """Return roughly the first principal direction, by power iteration on a sample."""
    sample = points[:: max(1, len(points) // _DIRECTION_SAMPLE)]
    sample = sample - sample.mean(axis=0)
    direction = sample[np.einsum("ij,ij->i", sample, sample).argmax()]
    for _ in range(_POWER_STEPS):
        length = np.linalg.norm(direction)
        direction = sample.T @ (sample @ (direction / (length or 1.0)))
    return direction


def _per_bag(limits: tuple[int, int], bags: Bags) -> int:
    total, least = limits
    return max(least, total // bags.n_bags)


def _centres(instances: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the centres of a k-means clustering in single precision."""
    points = np.asarray(instances, dtype=np.float32)
    from_mean = points - points.mean(axis=0)
    by_distance = np.argsort(np.einsum("ij,ij->i", from_mean, from_mean), kind="stable")
    centres = points[by_distance[np.linspace(0, len(points) - 1, count).round().astype(int)]]
    for _ in range(_LLOYD_STEPS):
        nearest = squared_distances(points, centres).argmin(axis=1)
        for k in np.unique(nearest):
            centres[k] = points[nearest == k].mean(axis=0)
    return centres
