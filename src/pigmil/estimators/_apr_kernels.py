"""Growing an axis-parallel rectangle: the loops that must be loops."""

import numpy as np

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray


@njit
def _added_size(row: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the increase of the sum of the sides if the box is extended to a row."""
    added = 0.0
    for k in range(row.shape[0]):
        if row[k] < lower[k]:
            added += lower[k] - row[k]
        elif row[k] > upper[k]:
            added += row[k] - upper[k]
    return added


@njit
def _bounds_without(
    instances: FloatArray, chosen: IntArray, bag: int, lower: FloatArray, upper: FloatArray
) -> None:
    """Compute the bounds of the chosen instances of all bags but one; -1 means none yet."""
    lower[:] = np.inf
    upper[:] = -np.inf
    for other in range(chosen.shape[0]):
        if other != bag and chosen[other] >= 0:
            for k in range(lower.shape[0]):
                value = instances[chosen[other], k]
                lower[k] = min(lower[k], value)
                upper[k] = max(upper[k], value)


@njit
def backfit(
    instances: FloatArray,
    offsets: IntArray,
    chosen: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    max_passes: int,
) -> None:
    """Choose again in each bag until nothing changes; a strictly smaller box is needed."""
    for _ in range(max_passes):
        changed = False
        for bag in range(chosen.shape[0]):
            if chosen[bag] < 0:
                continue
            _bounds_without(instances, chosen, bag, lower, upper)
            best = chosen[bag]
            best_added = _added_size(instances[best], lower, upper)
            for i in range(offsets[bag], offsets[bag + 1]):
                added = _added_size(instances[i], lower, upper)
                if added < best_added:
                    best = i
                    best_added = added
            if best != chosen[bag]:
                chosen[bag] = best
                changed = True
        if not changed:
            return


@njit
def grow(
    instances: FloatArray, offsets: IntArray, seed: int, seed_bag: int, max_passes: int
) -> IntArray:
    """Return the index of the instance of each bag that defines the grown box."""
    n_bags = offsets.shape[0] - 1
    chosen = np.full(n_bags, -1, dtype=np.int64)
    chosen[seed_bag] = seed
    lower = np.empty(instances.shape[1])
    upper = np.empty(instances.shape[1])
    for count in range(1, n_bags):
        _bounds_without(instances, chosen, -1, lower, upper)
        best, best_bag, best_added = -1, -1, np.inf
        for bag in range(n_bags):
            if chosen[bag] < 0:
                for i in range(offsets[bag], offsets[bag + 1]):
                    added = _added_size(instances[i], lower, upper)
                    if added < best_added:
                        best, best_bag, best_added = i, bag, added
        chosen[best_bag] = best
        # With two instances there is nothing to gain: either may be the first.
        if count > 1:
            backfit(instances, offsets, chosen, lower, upper, max_passes)
    return chosen
