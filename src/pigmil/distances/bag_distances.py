"""Distances between bags, all from the nearest-instance distances of one blockwise pass."""

from collections.abc import Callable, Sequence

import numpy as np

from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import nearest_in_bags, slices

# Name -> (how a bag's nearest distances are reduced, how the two directions are joined).
_KINDS = {
    "hausdorff": ("max", "larger"),
    "ranked": ("rank", "larger"),
    "min-min": ("min", "forward"),
    "mean-min": ("mean", "forward"),
    "max-min": ("max", "forward"),
    "symmetric mean-min": ("mean", "mean"),
    "symmetric max-min": ("max", "mean"),
}
BAG_DISTANCES = tuple(_KINDS)
# From the nearest distances of the instances of a bag, (n_instances, n_references), and the rank.
_REDUCTIONS: dict[str, Callable[[FloatArray, int], FloatArray]] = {
    "min": lambda nearest, rank: nearest.min(axis=0),
    "max": lambda nearest, rank: nearest.max(axis=0),
    "mean": lambda nearest, rank: nearest.mean(axis=0),
    "rank": lambda nearest, rank: np.sort(nearest, axis=0)[min(rank, len(nearest)) - 1],
}
_JOINS: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "forward": lambda there, back: there,
    "larger": np.maximum,
    "mean": lambda there, back: (there + back) / 2,
}
_ROWS = 4096  # query instances measured at a time


def bag_distances(
    queries: Bags,
    references: Bags | None = None,
    kind: str | Sequence[str] = "hausdorff",
    *,
    rank: int = 1,
    double: bool = False,
) -> FloatArray:
    """Return the distances between bags.

    With ``near(x, B)`` the Euclidean distance of instance x to its nearest instance in bag B:

    - ``"hausdorff"``: ``max(h(A, B), h(B, A))`` with ``h(A, B) = max over x in A of near(x, B)``;
    - ``"ranked"``: the same with the ``rank``-th smallest of ``near(x, B)`` in place of the
      largest: rank 1 is the minimal Hausdorff distance, and in a bag of fewer instances the
      largest is taken (Wang and Zucker);
    - ``"min-min"``, ``"mean-min"``, ``"max-min"``: the smallest, mean or largest ``near(x, B)``
      over x in A, from the query to the reference (Cheplygina, Tax and Loog);
    - ``"symmetric mean-min"``, ``"symmetric max-min"``: the mean of both directions.

    Parameters
    ----------
    queries : Bags
        Bags to measure from.
    references : Bags, optional
        Bags to measure to; the queries themselves if not given, at half the cost.
    kind : str or sequence of str, default="hausdorff"
        One of the names above, or several, which share one pass over the instances.
    rank : int, default=1
        Only for ``"ranked"``.
    double : bool, default=False
        Use double precision for any number of features, so that a comparison of distances does
        not depend on the other bags in the same call.

    Returns
    -------
    array of shape (n_queries, n_references), or (n_kinds, n_queries, n_references)

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
    >>> bag_distances(bags, bags[1:], kind=("min-min", "max-min")).tolist()
    [[[1.0], [0.0]], [[3.0], [0.0]]]
    """
    kinds = (kind,) if isinstance(kind, str) else kind
    unknown = [name for name in kinds if name not in _KINDS]
    if unknown:
        raise ValueError(f"kind must be one of {', '.join(_KINDS)}; got {unknown[0]!r}.")
    to = queries if references is None else references
    names = {_KINDS[name][0] for name in kinds}
    forward = backward = _directed(queries, to, names, rank, double)
    if references is not None and any(_KINDS[name][1] != "forward" for name in kinds):
        backward = _directed(to, queries, names, rank, double)
    found = [
        _JOINS[join](forward[reduction], backward[reduction].T)
        for reduction, join in (_KINDS[name] for name in kinds)
    ]
    return found[0] if isinstance(kind, str) else np.stack(found)


def _directed(
    queries: Bags, references: Bags, names: set[str], rank: int, double: bool
) -> dict[str, FloatArray]:
    """Reduce the nearest distances over the instances of each query; return the results by name."""
    reduced = {name: np.empty((queries.n_bags, references.n_bags)) for name in names}
    for chosen in slices(queries.n_bags, max(1, _ROWS // int(queries.sizes.max()))):
        some = queries[chosen]
        blocks = nearest_in_bags(some.instances, references, double=double)
        nearest = np.concatenate([np.sqrt(squared, dtype=np.float64) for _, squared in blocks])
        # A loop over bags, because every bag has its own number of instances.
        for bag, part in enumerate(np.split(nearest, some.offsets[1:-1]), start=chosen.start):
            for name in names:
                reduced[name][bag] = _REDUCTIONS[name](part, rank)
    return reduced
