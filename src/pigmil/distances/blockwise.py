"""Squared Euclidean distances in blocks: one matrix product per block, exact for near pairs.

``|a - b|^2 = |a|^2 + |b|^2 - 2 a.b`` is one GEMM of rows ``(-2 a, |a|^2, 1)`` with columns
``(b, 1, |b|^2)``, in single precision where there are enough features for the product to dominate.
Digits cancel when ``a`` and ``b`` are near, so pairs whose result is small compared with the norms
are recomputed from the differences in double precision: a copy of an instance has distance exactly
zero.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags

_BLOCK_ROWS = 512
_BLOCK_VALUES = 1 << 21  # of a block of distances: 8 MB in single precision
_REFINED_VALUES = 1 << 17  # of the differences of near pairs at a time: they stay in cache
_SINGLE_FROM_FEATURES = 24  # below it the product is cheap and double precision costs nothing
_SINGLE_SCALES = (1e-9, 1e9)  # of the values: their squares stay well inside single precision
# A pair is recomputed when its result is below this share of the norms: single precision has
# lost about four of its seven digits there, double precision nine of its sixteen.
_NEAR = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-6}


def squared_distance_blocks(
    queries: Any,
    references: Any,
    *,
    offsets: IntArray | None = None,
    double: bool = False,
    upper: bool = False,
) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """Yield the squared distances of all queries to all references, block by block.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Rows of the blocks.
    references : array or CSR of shape (n_references, n_features)
        Columns of the blocks.
    offsets : array of int, optional
        Segments of the references that a block must not cut, unless one segment alone is larger
        than a block.
    double : bool, default=False
        Use double precision for any number of features, so that a comparison does not depend on
        the order of the instances.
    upper : bool, default=False
        Queries and references are the same: leave out the blocks in which every column comes
        before every row, since their transposes are there.

    Yields
    ------
    rows, columns : slice
        The queries and the references.
    squared : array of shape (rows, columns)
        Their squared distances, at least 0; the caller may overwrite it.

    Notes
    -----
    Cost: O(n_queries n_references n_features), memory that of one block.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> [block.tolist() for _, _, block in squared_distance_blocks(a, a)]
    [[[0.0, 25.0], [25.0, 0.0]]]
    """
    sparse = sp.issparse(queries) or sp.issparse(references)
    n_queries, n_references = queries.shape[0], references.shape[0]
    n_features = max(1, queries.shape[1])
    # A point near the middle of the data: smaller norms mean less cancellation.
    centre = None if sparse else _sample(references).mean(axis=0, dtype=np.float64)
    single = centre is not None and not double and _fits_single(queries, references, centre)
    dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
    # Both the distances of a block and its rows and columns are bounded in size.
    step = max(1, min(_BLOCK_ROWS, n_queries, _BLOCK_VALUES // n_features))
    width = max(1, min(_BLOCK_VALUES // step, max(_BLOCK_ROWS, _BLOCK_VALUES // n_features)))
    if upper:
        width = min(width, 2 * _BLOCK_ROWS)
    cuts = _column_cuts(n_references, width, offsets)
    for rows in slices(n_queries, step):
        left = _factor(queries, rows, centre, dtype, left=True)
        for columns in cuts:
            if upper and columns.stop <= rows.start:
                continue
            # Prepared for every block of queries, so that no copy of all references is kept.
            yield rows, columns, _block(left, _factor(references, columns, centre, dtype), dtype)


def squared_distances(queries: Any, references: Any, *, double: bool = False) -> FloatArray:
    """Return the squared distances of all queries to all references, where they fit in memory.

    Examples
    --------
    >>> import numpy as np
    >>> squared_distances(np.array([[0.0]]), np.array([[2.0], [3.0]]))
    array([[4., 9.]])
    """
    result = np.empty((queries.shape[0], references.shape[0]))
    for rows, columns, block in squared_distance_blocks(queries, references, double=double):
        result[rows, columns] = block
    return result


def nearest_in_bags(
    queries: Any, bags: Bags, *, farthest: bool = False, double: bool = False
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the squared distance of every query to its nearest instance in every bag.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Instances to measure from.
    bags : Bags
        Bags to measure to.
    farthest : bool, default=False
        Measure to the farthest instance of every bag instead.
    double : bool, default=False
        See :func:`squared_distance_blocks`.

    Yields
    ------
    rows : slice
        The queries.
    squared : array of shape (rows, n_bags)
        Squared distance to the nearest (or farthest) instance of each bag.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [5.0]]), np.array([[9.0]])])
    >>> [block.tolist() for _, block in nearest_in_bags(np.array([[4.0]]), bags)]
    [[[1.0, 25.0]]]
    """
    offsets = bags.offsets
    ufunc, worst = (np.maximum, -np.inf) if farthest else (np.minimum, np.inf)
    nearest: NDArray[Any] | None = None
    blocks = squared_distance_blocks(queries, bags.instances, offsets=offsets, double=double)
    for rows, columns, squared in blocks:
        if nearest is None:
            nearest = np.full((rows.stop - rows.start, bags.n_bags), worst, squared.dtype)
        inside, starts = segments_in(offsets, columns)
        part = ufunc.reduceat(squared, starts, axis=1)
        ufunc(nearest[:, inside], part, out=nearest[:, inside])
        if columns.stop == bags.n_instances:
            yield rows, nearest
            nearest = None


def slices(n: int, step: int) -> Iterator[slice]:
    """Yield slices of at most ``step`` that together cover ``n`` rows."""
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def segments_in(offsets: IntArray, part: slice) -> tuple[slice, IntArray]:
    """Return the segments of a range of instances, and where each begins in the range."""
    first = int(np.searchsorted(offsets, part.start, side="right")) - 1
    last = int(np.searchsorted(offsets, part.stop, side="left"))
    return slice(first, last), np.maximum(offsets[first:last], part.start) - part.start


def _sample(instances: NDArray[Any]) -> NDArray[Any]:
    return instances[:: max(1, instances.shape[0] // 4096)]


def _fits_single(queries: NDArray[Any], references: NDArray[Any], centre: NDArray[Any]) -> bool:
    """Return whether single precision saves time and can represent the squares."""
    if queries.shape[1] < _SINGLE_FROM_FEATURES:
        return False
    scales = [
        float(np.abs(np.subtract(_sample(part), centre, dtype=np.float64)).max(initial=0))
        for part in (queries, references)
    ]
    low, high = _SINGLE_SCALES
    return low <= max(scales) <= high


def _column_cuts(n_references: int, width: int, offsets: IntArray | None) -> list[slice]:
    cuts = [0]
    while cuts[-1] < n_references:
        end = min(cuts[-1] + width, n_references)
        if offsets is not None and end < n_references:
            whole = int(offsets[np.searchsorted(offsets, end, side="right") - 1])
            end = whole if whole > cuts[-1] else end
        cuts.append(end)
    return [slice(start, end) for start, end in itertools.pairwise(cuts)]


def _factor(
    instances: Any,
    rows: slice,
    centre: NDArray[Any] | None,
    dtype: np.dtype[Any],
    *,
    left: bool = False,
) -> tuple[Any, Any, NDArray[Any]]:
    """Return the rows as given, as factor of the matrix product, and their squared norms.

    With two more columns the product of a left and a right factor is the squared distance.
    """
    raw = instances[rows]
    if centre is None:
        matrix = sp.csr_array(raw).astype(np.float64)
        return raw, matrix, np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    factor = np.empty((raw.shape[0], raw.shape[1] + 2), dtype)
    vectors = factor[:, :-2]
    np.subtract(raw, centre, out=vectors, dtype=np.float64, casting="same_kind")
    norms = np.einsum("ij,ij->i", vectors, vectors)
    if left:
        vectors *= -2
    factor[:, -2], factor[:, -1] = (norms, 1) if left else (1, norms)
    return raw, factor, norms


def _block(left: Any, right: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the squared distances of two factors; near pairs from their differences."""
    raw_left, left_factor, norms_left = left
    raw_right, right_factor, norms_right = right
    if sp.issparse(left_factor):
        squared = np.ascontiguousarray((right_factor @ left_factor.toarray().T).T)
        squared *= -2
        squared += norms_left[:, None]
        squared += norms_right
    else:
        squared = left_factor @ right_factor.T
    # One comparison with a bound for the whole row, then the exact test on the few that pass.
    share = _NEAR[dtype]
    bound = share * (norms_left + norms_right.max(initial=0))
    near_rows = np.flatnonzero(squared.min(axis=1, initial=np.inf) < bound)
    for rows in slices(len(near_rows), max(1, _BLOCK_VALUES // max(1, squared.shape[1]))):
        chosen = near_rows[rows]
        row, column = np.nonzero(squared[chosen] < share * (norms_left[chosen, None] + norms_right))
        row = chosen[row]
        for pairs in slices(len(row), max(1, _REFINED_VALUES // max(1, raw_right.shape[1]))):
            a, b = raw_left[row[pairs]], raw_right[column[pairs]]
            if sp.issparse(a) or sp.issparse(b):
                a, b = sp.csr_array(a).toarray(), sp.csr_array(b).toarray()
            difference = np.subtract(a, b, dtype=np.float64)
            squared[row[pairs], column[pairs]] = np.einsum("ij,ij->i", difference, difference)
    return squared
