"""The instances that SoftPIGMIL works with where there are too many, chosen bag by bag.

A bag needs only its own scores and random numbers, and a block holds whole bags: so the choice is
made where the block is read, and neither scores nor random numbers of all instances are collected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.segments import quota, segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.scale import LazyBags, map_blocks

_LEAST_PER_BAG = 6  # two by each of two rankings and two at random


@dataclass(frozen=True)
class WorkingSet:
    """The instances that models are fitted on, and what is known of their bags.

    Parameters
    ----------
    rows : array or CSR of shape (n_instances, n_features)
        The instances.
    positions : array of int of shape (n_instances,)
        Their flat positions among all instances.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin among them.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    folds : list of arrays of bool of shape (n_bags,)
        Which bags are held out together; none if there are too few.
    sampled : bool
        Whether there are more instances than the fit may have.
    """

    rows: Any
    positions: IntArray
    offsets: IntArray
    positive: BoolArray
    folds: list[BoolArray]
    sampled: bool

    @property
    def inside(self) -> BoolArray:
        """Which instances are in positive bags."""
        return np.asarray(self.positive[segment_ids(self.offsets)])

    def best_scores(self, scores: FloatArray) -> FloatArray:
        """Return the best score of each bag."""
        return segment_reduce(np.maximum, scores, self.offsets)

    def keep(self, kept: IntArray) -> "WorkingSet":
        """Return the same with some of the instances, given by ascending positions."""
        if len(kept) == len(self.positions):
            return self
        offsets = np.searchsorted(kept, self.offsets).astype(np.int64)
        return replace(self, rows=self.rows[kept], positions=self.positions[kept], offsets=offsets)


def instances_per_bag(sizes: IntArray, most: int) -> int:
    """Return how many instances of a bag to work with.

    All bags together give at most ``most``, unless that leaves less than six of a bag.

    Examples
    --------
    >>> import numpy as np
    >>> instances_per_bag(np.full(10, 100), 500), instances_per_bag(np.full(1000, 100), 500)
    (50, 6)
    """
    return max(_LEAST_PER_BAG, quota(sizes, most))


def choose_instances(
    bags: Bags | LazyBags,
    rank: Callable[..., Sequence[FloatArray]] | None,
    most: int,
    seeds: IntArray,
    *per_bag: NDArray[Any],
) -> tuple[IntArray, Any]:
    """Choose ``most`` instances of each bag: the best by some rankings, and random ones.

    See :func:`working_positions`.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    rank : callable or None
        Takes a block of bags and the entries of its bags in ``per_bag``; returns some scores of
        its instances. None for a random choice.
    most : int
        Largest number of instances of a bag.
    seeds : array of int of shape (n_bags,)
        Seeds of the random numbers of each bag: the choice does not depend on how bags are cut
        into blocks.
    *per_bag : arrays
        With one entry per bag.

    Returns
    -------
    positions : array of int
        Flat positions in ascending order.
    rows : array or CSR
        These instances.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[3.0], [9.0], [1.0]]), np.array([[5.0]])])
    >>> chosen, rows = choose_instances(
    ...     bags, lambda block: [block.instances[:, 0]], 1, np.array([0, 1])
    ... )
    >>> chosen, rows.ravel()
    (array([1, 3]), array([9., 5.]))
    """
    function = partial(_choose_in_block, rank, most)
    if isinstance(bags, LazyBags):
        counts = [part.n_bags for part in bags.partitions()]
        cuts = np.cumsum(counts)[:-1]
        arguments = [np.split(values, cuts) for values in (seeds, *per_bag)]
        parts = list(map_blocks(function, bags, *arguments))
        starts = bags.offsets[np.concatenate([[0], cuts])]
    else:
        parts, starts = [function(bags, seeds, *per_bag)], np.zeros(1, dtype=np.int64)
    positions = [inside + start for (inside, _), start in zip(parts, starts, strict=True)]
    rows = [rows for _, rows in parts]
    if len(rows) == 1:
        return positions[0], rows[0]
    joined = sp.vstack(rows, format="csr") if bags.is_sparse else np.concatenate(rows)
    return np.concatenate(positions), joined


def _choose_in_block(
    rank: Callable[..., Sequence[FloatArray]] | None,
    most: int,
    block: Bags,
    seeds: IntArray,
    *per_bag: NDArray[Any],
) -> tuple[IntArray, Any]:
    sizes = block.sizes
    draws = [
        np.random.RandomState(seed).uniform(size=size)
        for seed, size in zip(seeds, sizes, strict=True)
    ]
    rankings = [] if rank is None else rank(block, *per_bag)
    chosen = working_positions(rankings, block.offsets, most, np.concatenate(draws))
    return chosen, block.instances[chosen]


def working_positions(
    rankings: Sequence[FloatArray], offsets: IntArray, most: int, order: FloatArray
) -> IntArray:
    """Return the instances to work with: the best by each ranking and a random rest of each bag.

    With k rankings each gives ``most / (k + 1)`` instances of a bag, rounded up.

    Parameters
    ----------
    rankings : sequence of arrays of shape (n_instances,)
        Scores so far; none for a random choice.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    most : int
        Quota of each bag; smaller bags are taken whole.
    order : array of shape (n_instances,)
        Random numbers from 0 to 1 that break ties and choose the rest.

    Returns
    -------
    array of int
        Flat positions in ascending order.

    Examples
    --------
    >>> import numpy as np
    >>> working_positions(
    ...     [np.array([1.0, 9.0, 2.0, 3.0])], np.array([0, 4]), 2, np.array([0.4, 0.3, 0.9, 0.1])
    ... )
    array([1, 2])
    """
    owner = segment_ids(offsets)
    taken = np.zeros(len(order), dtype=bool)
    each = -(-most // (len(rankings) + 1))
    for scores in rankings:
        taken |= _leaders(scores, order, owner, offsets, each)
    # Those taken come first, then the random ones: the quota is filled up.
    filled = _leaders(np.where(taken, 2.0, order), order, owner, offsets, most)
    return np.flatnonzero(filled).astype(np.int64)


def _leaders(
    values: FloatArray, ties: FloatArray, owner: IntArray, offsets: IntArray, most: int
) -> BoolArray:
    """Mark the ``most`` instances of greatest value in each bag."""
    ranking = np.lexsort((-ties, -values, owner))
    marked = np.zeros(len(values), dtype=bool)
    marked[ranking] = np.arange(len(values)) - offsets[owner] < most
    return marked
