"""Squared Euclidean distances in blocks: one matrix product a block, near pairs done again exactly.

``|a - b|^2 = |a|^2 + |b|^2 - 2 a.b`` costs one GEMM, in single precision where there are enough
features for the product to dominate. It cancels when ``a`` and ``b`` are near, so pairs whose
result is small beside the norms are computed again from the differences, in double precision: a
copy of an instance is at distance exactly zero.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.segments import IntArray
from pigmil.bags import Bags

_BLOCK_ROWS = 512
_BLOCK_VALUES = 1 << 22  # of a block of distances: 16 MB in single precision
_SINGLE_FROM_FEATURES = 24  # below it the product is cheap and double precision costs nothing
# A pair is done again when its result is below this share of the norms: single precision has
# lost about four of its seven digits there, double precision nine of its sixteen.
_NEAR = {np.dtype(np.float32): 1e-2, np.dtype(np.float64): 1e-6}


def squared_distance_blocks(
    queries: Any,
    references: Any,
    *,
    offsets: IntArray | None = None,
    block_values: int = _BLOCK_VALUES,
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
    block_values : int
        Largest number of distances in a block.

    Yields
    ------
    rows, columns : slice
        Which queries and references.
    squared : array of shape (rows, columns)
        Their squared distances, at least 0; the caller may overwrite it.

    Notes
    -----
    Cost: O(n_queries n_references n_features), memory O(block_values).

    Examples
    --------
    >>> import numpy as np
    >>> a = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> [block.tolist() for _, _, block in squared_distance_blocks(a, a)]
    [[[0.0, 25.0], [25.0, 0.0]]]
    """
    sparse = sp.issparse(queries) or sp.issparse(references)
    n_queries, n_references = queries.shape[0], references.shape[0]
    dtype: np.dtype[Any] = np.dtype(np.float64)
    if not sparse and queries.shape[1] >= _SINGLE_FROM_FEATURES:
        dtype = np.dtype(np.float32)
    centre = None if sparse else _centre(references)
    step = max(1, min(_BLOCK_ROWS, n_queries))
    cuts = _column_cuts(n_references, max(1, block_values // step), offsets)
    # Every query block meets every reference block: the references are prepared once if they
    # fit beside a block (the rule), and block by block if they do not (memory-mapped sets).
    keep = n_references * references.shape[1] <= 64 * block_values
    prepared = (
        [_prepare(references, cut, centre, dtype) for cut in cuts] if keep else [None] * len(cuts)
    )
    for start in range(0, n_queries, step):
        rows = slice(start, min(start + step, n_queries))
        left = _prepare(queries, rows, centre, dtype)
        for columns, ready in zip(cuts, prepared, strict=True):
            right = ready or _prepare(references, columns, centre, dtype)
            yield rows, columns, _block(left, right, dtype)


def nearest_in_bags(
    queries: Any, bags: Bags, *, farthest: bool = False
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

    Yields
    ------
    rows : slice
        Which queries.
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
    for rows, columns, squared in squared_distance_blocks(queries, bags.instances, offsets=offsets):
        if nearest is None:
            nearest = np.full((rows.stop - rows.start, bags.n_bags), worst, squared.dtype)
        first = int(np.searchsorted(offsets, columns.start, side="right")) - 1
        last = int(np.searchsorted(offsets, columns.stop, side="left"))
        starts = np.maximum(offsets[first:last], columns.start) - columns.start
        part = ufunc.reduceat(squared, starts, axis=1)
        ufunc(nearest[:, first:last], part, out=nearest[:, first:last])
        if columns.stop == bags.n_instances:
            yield rows, nearest
            nearest = None


def _centre(references: NDArray[Any]) -> NDArray[Any]:
    """A point near the middle of the data: smaller norms, less cancellation."""
    sample = references[:: max(1, references.shape[0] // 4096)]
    return np.asarray(sample.mean(axis=0, dtype=np.float64))


def _column_cuts(n_references: int, width: int, offsets: IntArray | None) -> list[slice]:
    cuts = [0]
    while cuts[-1] < n_references:
        end = min(cuts[-1] + width, n_references)
        if offsets is not None and end < n_references:
            whole = int(offsets[np.searchsorted(offsets, end, side="right") - 1])
            end = whole if whole > cuts[-1] else end
        cuts.append(end)
    return [slice(start, end) for start, end in itertools.pairwise(cuts)]


def _prepare(
    instances: Any, rows: slice, centre: NDArray[Any] | None, dtype: np.dtype[Any]
) -> tuple[Any, Any, NDArray[Any]]:
    """The rows as given, as they enter the product, and their squared norms there."""
    raw = instances[rows]
    if centre is None:
        moved = sp.csr_array(raw).astype(np.float64)
        norms = np.asarray(moved.multiply(moved).sum(axis=1)).ravel()
        return raw, moved, norms
    moved = np.subtract(raw, centre, dtype=np.float64).astype(dtype, copy=False)
    return raw, moved, np.einsum("ij,ij->i", moved, moved)


def _block(left: Any, right: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    raw_left, moved_left, norms_left = left
    raw_right, moved_right, norms_right = right
    if sp.issparse(moved_left):
        squared = np.ascontiguousarray((moved_right @ moved_left.toarray().T).T)
    else:
        squared = moved_left @ moved_right.T
    squared *= -2
    squared += norms_left[:, None]
    squared += norms_right
    # One comparison with a bound for the whole row, then the exact test on the few that pass.
    share = _NEAR[dtype]
    bound = share * (norms_left + norms_right.max(initial=0))
    near_rows = np.flatnonzero(squared.min(axis=1, initial=np.inf) < bound)
    for row in near_rows:
        values = squared[row]
        near = np.flatnonzero(values < share * (norms_left[row] + norms_right))
        if near.size:
            values[near] = _exact(raw_left, int(row), raw_right, near)
    return squared


def _exact(raw_left: Any, row: int, raw_right: Any, near: IntArray) -> NDArray[Any]:
    if sp.issparse(raw_right) or sp.issparse(raw_left):
        query = sp.csr_array(raw_left[[row]]).toarray()
        step = max(1, _BLOCK_VALUES // query.shape[1])
        parts = [
            sp.csr_array(raw_right[near[start : start + step]]).toarray()
            for start in range(0, len(near), step)
        ]
        return np.concatenate([((part - query) ** 2).sum(axis=1) for part in parts])
    difference = np.subtract(raw_right[near], raw_left[row], dtype=np.float64)
    return np.einsum("ij,ij->i", difference, difference)
