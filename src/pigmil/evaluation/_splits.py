"""Folds over bags, the same for every method, and the groups that stay in one fold."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from pigmil._core.typing import IntArray
from pigmil.bags import FOLD_GROUP, Bags


@dataclass(frozen=True)
class Split:
    """One train/test split of the bags."""

    repeat: int
    fold: int
    train: IntArray
    test: IntArray


def bag_splits(
    bags: Bags, *, repeats: int = 5, folds: int = 10, random_state: int = 0, groups: Any = None
) -> Iterator[Split]:
    """Yield repeated stratified folds over bags.

    They depend on the labels, the groups and the seed only, so that every method has the same
    folds on every machine.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    random_state : int, default=0
        Seed; repeat ``r`` uses ``random_state + r``.
    groups : array of shape (n_bags,), optional
        Bags of one group stay in one fold; see :func:`bag_groups`.

    Yields
    ------
    Split

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> len(list(bag_splits(make_ring(random_state=0))))
    50
    """
    for repeat in range(repeats):
        splits = _stratified(bags.y, folds, groups, random_state + repeat)
        yield from (Split(repeat, fold, *split) for fold, split in enumerate(splits))


def inner_splits(
    y: Any, *, groups: Any = None, repeats: int = 1, random_state: int = 0, folds: int = 5
) -> list[tuple[IntArray, IntArray]]:
    """Return the folds for tuning on training bags, fewer than asked for where a class is small.

    Parameters
    ----------
    y : array of shape (n_bags,)
        Labels of the training bags.
    groups : array of shape (n_bags,), optional
        Bags of one group stay in one fold.
    repeats : int, default=1
        How often the bags are divided anew.
    random_state : int, default=0
        Seed.
    folds : int, default=5
        Number of folds.

    Returns
    -------
    list of (array of int, array of int)
        Empty if some class has fewer than two bags, or two groups.
    """
    y = np.asarray(y)
    units = np.arange(len(y)) if groups is None else np.asarray(groups)
    folds = min(folds, *(len(np.unique(units[y == label])) for label in np.unique(y)))
    if folds < 2:
        return []
    seeds = range(random_state, random_state + repeats)
    return [split for seed in seeds for split in _stratified(y, folds, groups, seed)]


def _stratified(y: Any, folds: int, groups: Any, seed: int) -> Iterator[tuple[IntArray, IntArray]]:
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return kind(folds, shuffle=True, random_state=seed).split(np.zeros(len(y)), y, groups)


def bag_groups(bags: Bags, groups: Any) -> IntArray | None:
    """Return the group number of each bag.

    Parameters
    ----------
    bags : Bags
        The bags.
    groups : str, array of shape (n_bags,), tuple of these, or None
        ``"duplicates"`` for bags with the same instances, the name of a column of
        ``bags.bag_info`` (or ``instance_info``), or one value per bag. With a tuple, bags that
        agree in any of its parts are one group: ``("patient", "site")`` keeps both patients and
        sites in one fold.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.eye(2)] * 4, bag_info={"site": ["a", "b", "b", "c"]})
    >>> bag_groups(bags, "site")
    array([0, 1, 1, 2])
    >>> bag_groups(bags, ("site", [1, 2, 3, 1]))
    array([0, 1, 1, 0])
    """
    if groups is None:
        return None
    if isinstance(groups, tuple):
        parts = [bag_groups(bags, one) for one in groups]
        return _merge_groups([part for part in parts if part is not None])
    if isinstance(groups, str):
        return _named_groups(bags, groups)
    if len(groups) != bags.n_bags:
        raise ValueError(
            f"groups has {len(groups)} entries for {bags.n_bags} bags; give one value per bag, the "
            "name of a column of bag_info, or a tuple of these."
        )
    return _number(np.asarray(groups))


def with_fold_groups(bags: Any, groups: IntArray | None) -> Any:
    """Return the bags with a column that keeps groups together in the inner folds of methods."""
    return bags if groups is None else bags.with_info(bag_info={FOLD_GROUP: groups})


def _named_groups(bags: Bags, name: str) -> IntArray:
    if name == "duplicates":
        return duplicate_groups(bags)
    if name in bags.bag_info:
        return _number(np.asarray(bags.bag_info[name]))
    if name in bags.instance_info:
        # A file of one row per instance repeats what is known of a bag in each of its rows.
        group = _number(np.asarray(bags.instance_info[name]))
        first = group[bags.offsets[:-1]]
        differing = np.flatnonzero(group != first[bags.bag_index])
        if differing.size:
            bag = bags.ids[bags.bag_index[differing[0]]]
            raise ValueError(
                f"groups={name!r} differs between the instances of bag {bag!r}; a group is a "
                "property of whole bags."
            )
        return _number(first)
    known = ", ".join(map(repr, [*bags.bag_info, *bags.instance_info])) or "none"
    raise ValueError(
        f"groups={name!r} is neither 'duplicates' nor a column of bag_info; the bags have {known}."
    )


def _number(values: Any) -> IntArray:
    """Number groups in the order in which they first occur."""
    values = np.asarray([str(value) for value in values]) if values.dtype == object else values
    _, first, group = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[group.ravel()].astype(np.int64)


def _merge_groups(parts: Sequence[IntArray]) -> IntArray:
    """Unite groups that share a bag: the connected components of bags and groups."""
    n_bags = len(parts[0])
    starts = n_bags + np.cumsum([0, *(int(part.max()) + 1 for part in parts)])
    columns = np.concatenate([part + start for part, start in zip(parts, starts, strict=False)])
    rows = np.tile(np.arange(n_bags), len(parts))
    graph = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(starts[-1], starts[-1]))
    return _number(connected_components(graph, directed=False)[1][:n_bags])


def duplicate_groups(bags: Bags) -> IntArray:
    """Return the group number of each bag; bags with the same instances, in any order, share one.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> a, b = np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]])
    >>> duplicate_groups(Bags.from_list([a, b, a + 1]))
    array([0, 0, 1])
    """
    hashes = np.split(instance_hashes(bags), bags.offsets[1:-1])
    return _number(
        np.array([hashlib.sha256(np.sort(part).tobytes()).hexdigest() for part in hashes])
    )


def instance_hashes(bags: Bags) -> Any:
    """Return a hash of 16 bytes for each instance; equal instances have equal hashes.

    Cost: one hash per instance; sparse bags are made dense one bag at a time.
    """
    hashes = []
    for bag in bags:
        dense = bag.toarray() if sp.issparse(bag) else bag
        values = np.ascontiguousarray(dense, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one value
        hashes += [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in values]
    return np.array(hashes, dtype="V16")
