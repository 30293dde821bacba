"""Reductions over the segments of a flat array: one segment per bag.

``offsets`` has one entry more than there are segments; segment ``i`` is
``values[offsets[i]:offsets[i + 1]]``. Every segment must hold at least one value:
``ufunc.reduceat`` returns a wrong value, silently, for an empty one.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.typing import BoolArray, IntArray


def segment_reduce(ufunc: np.ufunc, values: NDArray[Any], offsets: IntArray) -> NDArray[Any]:
    """Reduce every segment along the first axis with a ufunc such as ``np.maximum``.

    Examples
    --------
    >>> import numpy as np
    >>> segment_reduce(np.maximum, np.array([3.0, 1.0, 2.0]), np.array([0, 2, 3]))
    array([3., 2.])
    """
    sizes = np.diff(offsets)
    if sizes.size == 0 or sizes.min() < 1:
        raise ValueError(f"Every segment needs at least one value; sizes are {sizes}.")
    result: NDArray[Any] = ufunc.reduceat(values, offsets[:-1])
    return result


def segment_mean(values: NDArray[Any], offsets: IntArray) -> NDArray[Any]:
    """Return the mean of every segment along the first axis."""
    sizes = np.diff(offsets).reshape(-1, *([1] * (values.ndim - 1)))
    result: NDArray[Any] = segment_reduce(np.add, values, offsets) / sizes
    return result


def segment_argmax(values: NDArray[Any], offsets: IntArray) -> IntArray:
    """Return the flat index of the first largest value of every segment, NaN last.

    Examples
    --------
    >>> import numpy as np
    >>> segment_argmax(np.array([1.0, 3.0, 3.0, 2.0]), np.array([0, 3, 4]))
    array([1, 3])
    """
    usable = np.where(np.isnan(values), -np.inf, values)
    best = segment_reduce(np.maximum, usable, offsets)
    # Of equal values numbers come first: a NaN would tie with minus infinity.
    is_best = usable == np.repeat(best, np.diff(offsets))
    has_number = segment_reduce(np.logical_or, is_best & ~np.isnan(values), offsets)
    is_best &= ~(np.isnan(values) & np.repeat(has_number, np.diff(offsets)))
    hits = np.flatnonzero(is_best)
    owner = np.searchsorted(offsets, hits, side="right") - 1
    _, first = np.unique(owner, return_index=True)
    return hits[first].astype(np.int64)


def segment_argmin(values: NDArray[Any], offsets: IntArray) -> IntArray:
    """Return the flat index of the first smallest value of every segment, NaN last."""
    return segment_argmax(-values, offsets)


def segment_lowest(values: NDArray[Any], offsets: IntArray, count: int) -> BoolArray:
    """Mark the ``count`` lowest values of every segment, or all of a shorter one.

    Examples
    --------
    >>> import numpy as np
    >>> segment_lowest(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 3, 4]), 2)
    array([False,  True,  True,  True])
    """
    owner = segment_ids(offsets)
    order = np.lexsort((values, owner))
    marked = np.zeros(len(values), dtype=np.bool_)
    marked[order] = np.arange(len(values)) - offsets[owner] < count
    return marked


def segment_ids(offsets: IntArray) -> IntArray:
    """Return the segment number of every flat position.

    Examples
    --------
    >>> import numpy as np
    >>> segment_ids(np.array([0, 2, 3]))
    array([0, 0, 1])
    """
    sizes = np.diff(offsets)
    return np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)


def segment_gather(offsets: IntArray, chosen: IntArray) -> IntArray:
    """Return the flat positions of the chosen segments, in the order of the choice.

    Examples
    --------
    >>> import numpy as np
    >>> segment_gather(np.array([0, 2, 3, 5]), np.array([2, 0]))
    array([3, 4, 0, 1])
    """
    return row_numbers(offsets[:-1][chosen], offsets[1:][chosen])


def row_numbers(starts: IntArray, stops: IntArray) -> IntArray:
    """Return all rows of some ranges, one range after the other.

    Examples
    --------
    >>> row_numbers(np.array([5, 0]), np.array([7, 2]))
    array([5, 6, 0, 1])
    """
    ends = offsets_of(stops - starts)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], stops - starts)


def offsets_of(sizes: NDArray[Any]) -> IntArray:
    """Return the offsets of segments with these sizes."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def quota(sizes: IntArray, most: int) -> int:
    """Return the largest number of instances per bag such that all bags together have ``most``.

    It is at least 1, so that no bag is left out.

    Examples
    --------
    >>> import numpy as np
    >>> quota(np.array([2, 10, 10]), 12)
    5
    """
    low, high = 1, int(sizes.max())
    while low < high:
        middle = (low + high + 1) // 2
        if np.minimum(sizes, middle).sum() <= most:
            low = middle
        else:
            high = middle - 1
    return low


def segment_blocks(offsets: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last segment (exclusive) of runs with at most ``most`` values.

    A longer segment is a run of its own.

    Examples
    --------
    >>> list(segment_blocks(np.array([0, 2, 3, 9, 10]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last
