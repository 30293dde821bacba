"""The instances that SoftPIGMIL works with where there are too many, chosen bag by bag.

A bag needs only its own scores and random numbers, and a block holds whole bags: so the choice is
made where the block is read, and neither scores nor random numbers of all instances are collected.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.segments import quota
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._soft_screen import working_positions
from pigmil.scale import LazyBags, map_blocks

_LEAST_PER_BAG = 6  # two by each of two rankings and two at random


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

    See :func:`~pigmil.estimators._soft_screen.working_positions`.

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
