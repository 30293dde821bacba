"""Folds over bags, the groups that stay in one fold, and defects of bags found before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from pigmil._core.text import listed
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import FOLD_GROUP, Bags
from pigmil.estimators._selection import instance_keys


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
    parts = np.split(_keys(bags), bags.offsets[1:-1])
    return _number(np.array([np.sort(part).tobytes().hex() for part in parts], dtype=object))


def _keys(bags: Bags) -> FloatArray:
    """Return a number per instance, equal for equal instances; missing values are equal."""
    rows = bags.instances.copy()
    values = rows.data if sp.issparse(rows) else rows
    values[np.isnan(values)] = np.pi
    return instance_keys(rows) + 0.0  # no negative zeros


@dataclass(frozen=True)
class Finding:
    """One thing an audit found.

    Attributes
    ----------
    kind : str
        What it is, in one word for machines.
    severe : bool
        Whether a comparison on this data cannot be trusted, or not be made.
    message : str
        What it is, in words.
    """

    kind: str
    severe: bool
    message: str


def audit(
    bags: Bags, *, folds: int = 10, repeats: int = 1, random_state: int = 0, groups: Any = None
) -> list[Finding]:
    """Look for what makes a comparison on these bags misleading.

    :func:`pigmil.bags.unusual_data` describes features that are constant or extreme.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    folds, repeats, random_state, groups
        The folds of the comparison, see :func:`pigmil.evaluation._splits.bag_splits`.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Notes
    -----
    Cost: a sort of the instances, O(N d + N log N).

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> audit(make_ring(random_state=0))
    []
    """
    found = list(_obstacles(bags, groups, folds))
    if not found:
        splits = bag_splits(
            bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups
        )
        found = [*_copies(bags, splits, repeats), *_leaks(bags)]
    return found


def _obstacles(bags: Bags, groups: Any, folds: int) -> Iterator[Finding]:
    """Yield why the bags cannot be divided into folds."""
    if bags.y is None:
        yield Finding("unlabelled", True, "The bags have no labels.")
        return
    values, counts = np.unique(bags.y, return_counts=True)
    if len(values) < 2:
        message = f"At least two classes are needed, found {values.tolist()}."
        yield Finding("classes", True, message)
    elif counts.min() < folds:
        message = f"The class {values[counts.argmin()].item()!r} has {counts.min()} bags"
        yield Finding("small_class", True, f"{message}, {_too_few(counts.min(), folds)}")
    n_groups = folds if groups is None else len(np.unique(groups))
    if n_groups < folds:
        message = f"The bags form {n_groups} groups, {_too_few(n_groups, folds)}"
        yield Finding("few_groups", True, message)


def _too_few(n: int, folds: int) -> str:
    return f"fewer than the {folds} folds; use at most {n} folds."


def _copies(bags: Bags, splits: Iterator[Split], repeats: int) -> Iterator[Finding]:
    """Yield findings on copies of whole bags, then on copies of single instances."""
    group, labels = duplicate_groups(bags), np.unique(bags.y, return_inverse=True)[1].ravel()
    counts = np.bincount(group)
    n_repeated = int((counts[group] > 1).sum())
    if n_repeated:
        apart = sum(int(np.isin(group[split.test], group[split.train]).sum()) for split in splits)
        hint = ". Keep twins in one fold with groups='duplicates'." if apart else "."
        message = (
            f"{bags.n_bags - len(counts)} of {bags.n_bags} bags are copies of another "
            f"({n_repeated} bags occur more than once); in {apart / max(1, repeats):.0f} cases a "
            f"repeat the test bag's twin is among the training bags{hint}"
        )
        yield Finding("repeated_bags", apart > 0, message)
        pairs = np.unique(np.column_stack([group, labels]), axis=0)
        n_contradicting = int((np.bincount(pairs[:, 0]) > 1).sum())
        if n_contradicting:
            message = f"{n_contradicting} groups of identical bags have both labels."
            yield Finding("contradicting_bags", True, message)
    keys, positive = _keys(bags), np.repeat(labels == 1, bags.sizes)
    shared = np.isin(keys, keys[~positive]) & positive
    if shared.any() and labels.max() == 1:
        copies = np.bincount(bags.bag_index[shared], minlength=bags.n_bags)
        n_only = int((copies == bags.sizes).sum())
        only = f"; {n_only} positive bags hold nothing else" if n_only else ""
        what = "instances of positive bags are exact copies of instances of negative bags"
        yield Finding("shared_instances", n_only > 0, f"{int(shared.sum())} {what}{only}.")


def _leaks(bags: Bags) -> Iterator[Finding]:
    """Yield the features with one value in the bags of a class and another in all others."""
    rows = (np.asarray(bags.y) == np.unique(bags.y)[1])[bags.bag_index]
    (low, high), (low_rest, high_rest) = (_ends(bags.instances[part]) for part in (rows, ~rows))
    columns = np.flatnonzero((low == high) & (low_rest == high_rest) & (low != low_rest))
    if columns.size:
        names = bags.feature_names or range(bags.n_features)
        features = listed((names[column] for column in columns), limit=5)
        yield Finding("label_column", True, f"Features {features} equal the bag label.")


def _ends(values: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value of each column; NaN if it contains one."""
    if sp.issparse(values):
        return values.min(axis=0).toarray().ravel(), values.max(axis=0).toarray().ravel()
    return values.min(axis=0), values.max(axis=0)
