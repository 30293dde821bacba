"""Distances between bags, all from the nearest-instance distances of one blockwise pass."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import nearest_in_bags, squared_distance_blocks
from pigmil.distances.set_kernels import pair_sums

# Name -> (how a bag's nearest distances are reduced, how the two directions are joined).
_KINDS: dict[str, tuple[str, str | None]] = {
    "hausdorff": ("max", "max"),
    "ranked": ("rank", "max"),
    "min-min": ("min", None),
    "mean-min": ("mean", None),
    "max-min": ("max", None),
    "symmetric mean-min": ("mean", "mean"),
    "symmetric max-min": ("max", "mean"),
    "mean-mean": ("sum", None),
}
BAG_DISTANCES = tuple(_KINDS)


def bag_distances(
    queries: Bags, references: Bags | None = None, kind: str = "hausdorff", *, rank: int = 1
) -> FloatArray:
    """Return the distances between bags.

    With ``near(x, B)`` the Euclidean distance of instance x to its nearest instance in bag B:

    - ``"hausdorff"``: ``max(h(A, B), h(B, A))`` with ``h(A, B) = max over x in A of near(x, B)``;
    - ``"ranked"``: the same with the ``rank``-th smallest of ``near(x, B)`` in place of the
      largest: rank 1 is the minimal Hausdorff distance, and in a bag of fewer instances the
      largest is taken (Wang and Zucker);
    - ``"min-min"``, ``"mean-min"``, ``"max-min"``: the smallest, mean or largest ``near(x, B)``
      over x in A, from the query to the reference (Cheplygina, Tax and Loog);
    - ``"symmetric mean-min"``, ``"symmetric max-min"``: the mean of both directions;
    - ``"mean-mean"``: the mean distance over all pairs of instances.

    Parameters
    ----------
    queries : Bags
        Bags to measure from.
    references : Bags, optional
        Bags to measure to; the queries themselves if not given, at half the cost.
    kind : str, default="hausdorff"
        One of the names above.
    rank : int, default=1
        Only for ``"ranked"``.

    Returns
    -------
    array of shape (n_queries, n_references)

    Notes
    -----
    Cost: O(N_queries N_references d) in instances and features, one matrix product per block.
    Memory: one block, the largest bag by the number of reference bags, and the result.

    References
    ----------
    Wang, Zucker: Solving the Multiple-Instance Problem: A Lazy Learning Approach, ICML 2000.
    Cheplygina, Tax, Loog: Multiple Instance Learning with Bag Dissimilarities, Pattern
    Recognition 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [4.0]]), np.array([[1.0]])])
    >>> bag_distances(bags)
    array([[0., 3.],
           [3., 0.]])
    >>> bag_distances(bags, kind="mean-min")
    array([[0., 2.],
           [1., 0.]])
    """
    return bag_distances_of_kinds(queries, references, (kind,), rank=rank)[0]


def bag_distances_of_kinds(
    queries: Bags,
    references: Bags | None,
    kinds: Sequence[str],
    *,
    rank: int = 1,
    double: bool = False,
) -> list[FloatArray]:
    """Return several kinds of distances between the same bags, from one pass over the instances.

    Parameters
    ----------
    queries, references, rank
        As in :func:`bag_distances`.
    kinds : sequence of str
        Names of distances.
    double : bool, default=False
        Use double precision for any number of features, so that a comparison of distances does
        not depend on the other bags in the same call.

    Returns
    -------
    list of array of shape (n_queries, n_references)
        One per kind.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [4.0]]), np.array([[1.0]])])
    >>> [d.tolist() for d in bag_distances_of_kinds(bags, bags[1:], ("min-min", "max-min"))]
    [[[1.0], [0.0]], [[3.0], [0.0]]]
    """
    unknown = [kind for kind in kinds if kind not in _KINDS]
    if unknown:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {unknown[0]!r}.")
    to = queries if references is None else references
    names = sorted({_KINDS[kind][0] for kind in kinds} - {"sum"})
    forward = _directed(queries, to, names, rank, double)
    both = any(_KINDS[kind][1] for kind in kinds)
    backward = forward
    if both and references is not None:
        backward = _directed(to, queries, names, rank, double)
    distances = []
    for kind in kinds:
        reduction, join = _KINDS[kind]
        if reduction == "sum":
            sums = pair_sums(queries, references, np.sqrt)
            distances.append(sums / np.outer(queries.sizes, to.sizes))
        elif join is None:
            distances.append(forward[reduction])
        elif join == "max":
            distances.append(np.maximum(forward[reduction], backward[reduction].T))
        else:
            distances.append((forward[reduction] + backward[reduction].T) / 2)
    return distances


def _directed(
    queries: Bags, references: Bags, names: list[str], rank: int, double: bool
) -> dict[str, FloatArray]:
    """Reduce the nearest distances over the instances of each query; return the results by name."""
    shape = (queries.n_bags, references.n_bags)
    reduced = {name: np.empty(shape) for name in names}
    if not names:
        return reduced
    for bags, nearest in _nearest_of_whole_bags(queries, references, double):
        offsets = queries.offsets[bags.start : bags.stop + 1] - queries.offsets[bags.start]
        for name in names:
            reduced[name][bags] = _reduce(nearest, offsets, name, rank)
    return reduced


def _reduce(nearest: FloatArray, offsets: IntArray, reduction: str, rank: int) -> FloatArray:
    starts = offsets[:-1]
    if reduction == "min" or (reduction == "rank" and rank == 1):
        return np.minimum.reduceat(nearest, starts, axis=0)
    if reduction == "max":
        return np.maximum.reduceat(nearest, starts, axis=0)
    if reduction == "mean":
        return np.add.reduceat(nearest, starts, axis=0) / np.diff(offsets)[:, None]
    ranked = np.empty((len(starts), nearest.shape[1]))
    for position, (start, end) in enumerate(zip(starts, offsets[1:], strict=True)):
        index = min(rank, int(end - start)) - 1
        ranked[position] = np.partition(nearest[start:end], index, axis=0)[index]
    return ranked


def _nearest_of_whole_bags(
    queries: Bags, references: Bags, double: bool
) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the distances of instances to reference bags, for whole query bags at a time."""
    waiting: list[NDArray[Any]] = []
    first = done = 0
    for rows, squared in nearest_in_bags(queries.instances, references, double=double):
        waiting.append(np.sqrt(squared, dtype=np.float64))
        last = int(np.searchsorted(queries.offsets, rows.stop, side="right")) - 1
        if last == first:
            continue
        ready = np.concatenate(waiting)
        end = int(queries.offsets[last]) - done
        yield slice(first, last), ready[:end]
        waiting = [ready[end:]]
        first, done = last, done + end


def within_distances(bag: Any) -> Iterator[tuple[slice, FloatArray]]:
    """Yield the distances between the instances of one bag, some rows at a time.

    Distances are in double precision, so that comparing them does not depend on the order of the
    instances.

    Parameters
    ----------
    bag : array or CSR of shape (n_instances, n_features)
        The instances of one bag.

    Yields
    ------
    rows : slice
        The instances.
    distances : array of shape (rows, n_instances)
        Their distances to all instances of the bag.

    Examples
    --------
    >>> import numpy as np
    >>> [rows.tolist() for _, rows in within_distances(np.array([[0.0], [2.0]]))]
    [[[0.0, 2.0], [2.0, 0.0]]]
    """
    n_instances = bag.shape[0]
    parts: list[FloatArray] = []
    for rows, columns, squared in squared_distance_blocks(bag, bag, double=True):
        parts.append(np.sqrt(squared))
        if columns.stop == n_instances:
            yield rows, parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
            parts = []
