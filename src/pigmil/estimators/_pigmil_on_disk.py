"""The instances of bags on disk that PIGMIL works with: screened by densities, block by block."""

from functools import partial
from typing import Any

import numpy as np

from pigmil._core.segments import offsets_of, segment_lowest
from pigmil._core.typing import BoolArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import log_density, representative_rows
from pigmil.scale import LazyBags, map_blocks

_REPRESENTATIVES = 2048  # of all bags together, for the estimates
_LEAST_REPRESENTATIVES = 2
_LEAST_PER_BAG = 8


def working_bags_on_disk(
    bags: LazyBags, is_positive: BoolArray, *, gamma: float, unit: float, most: int
) -> tuple[Bags, IntArray]:
    """Return the bags reduced to some of their instances, in memory.

    The first pass finds a few representatives of every bag. The second estimates by them the
    density of either class at every instance, and keeps of a positive bag the instances with the
    lowest density of negatives and those with the lowest ratio of the two densities, half each; of
    a negative bag those with the highest density of positives, and further representatives.

    Parameters
    ----------
    bags : LazyBags
        Training bags.
    is_positive : array of bool of shape (n_bags,)
        Their classes, both present.
    gamma, unit : float
        Decay per unit of length, and the unit.
    most : int
        Number of instances to keep, but at least eight per bag. Not more than that many are
        loaded as they are, and so are sparse ones.

    Returns
    -------
    reduced : Bags
        The same bags with fewer instances.
    rows : array of int
        Their flat positions in the bags on disk.
    """
    if bags.n_instances <= most or bags.is_sparse:
        return bags.load(info=False), np.arange(bags.n_instances, dtype=np.int64)
    few = max(_LEAST_REPRESENTATIVES, _REPRESENTATIVES // bags.n_bags)
    _, seen = _collect(bags, partial(_representatives, few))
    estimate = partial(
        _choose_in_block,
        seen[~is_positive],
        seen[is_positive],
        max(_LEAST_PER_BAG, most // bags.n_bags),
        gamma,
        unit,
    )
    own = np.where(is_positive, np.cumsum(is_positive), np.cumsum(~is_positive)) - 1
    for side in (is_positive, ~is_positive):
        if side.sum() == 1:
            own[side] = -1  # a single bag is all there is to compare with
    rows, reduced = _collect(bags, estimate, is_positive, own)
    return reduced, rows


def _collect(bags: LazyBags, function: Any, *per_bag: Any) -> tuple[IntArray, Bags]:
    """Return the instances that a function chooses in every block, and the bags of these."""
    cuts = np.cumsum([part.n_bags for part in bags.partitions()])[:-1]
    parts = list(map_blocks(function, bags, *(np.split(values, cuts) for values in per_bag)))
    starts = bags.offsets[np.concatenate([[0], cuts])]
    rows = np.concatenate([rows + start for (rows, _), start in zip(parts, starts, strict=True)])
    sizes = np.diff(np.searchsorted(rows, bags.offsets))
    instances = np.concatenate([instances for _, instances in parts])
    ids = bags.ids if len(set(bags.ids.tolist())) == bags.n_bags else None  # resampled
    names = bags.feature_names
    return rows, Bags(instances, offsets_of(sizes), ids=ids, y=bags.y, feature_names=names)


def _representatives(few: int, block: Bags) -> tuple[IntArray, Any]:
    rows = representative_rows(block, few)
    return rows, block.instances[rows]


def _choose_in_block(
    negative: Bags,
    positive: Bags,
    most: int,
    gamma: float,
    unit: float,
    block: Bags,
    is_positive: BoolArray,
    own: IntArray,
) -> tuple[IntArray, Any]:
    bag = block.bag_index
    inside = is_positive[bag]
    log_positive = log_density(
        block.instances, positive, gamma=gamma, unit=unit, own_bag=np.where(inside, own[bag], -1)
    )
    log_negative = log_density(
        block.instances, negative, gamma=gamma, unit=unit, own_bag=np.where(inside, -1, own[bag])
    )
    first = np.where(inside, log_negative, -log_positive)
    chosen = segment_lowest(first, block.offsets, -(-most // 2))
    ratio = np.where(chosen, np.inf, log_negative - log_positive)
    chosen |= segment_lowest(ratio, block.offsets, most // 2) & inside
    negatives = np.flatnonzero(~is_positive)
    if len(negatives):
        others = representative_rows(block[negatives], most // 2)
        chosen[np.flatnonzero(~inside)[others]] = True
    rows = np.flatnonzero(chosen)
    return rows, block.instances[rows]
