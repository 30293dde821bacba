"""Find defects of a data set before methods are compared on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.text import listed
from pigmil._core.typing import BoolArray
from pigmil.bags import Bags
from pigmil.evaluation._splits import Split, bag_splits, duplicate_groups, instance_hashes


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
    Cost: a hash and a sort of the instances, O(N d + N log N).

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> audit(make_ring(random_state=0))
    []
    """
    found = list(_fold_findings(bags, groups, folds))
    if not found:
        splits = bag_splits(
            bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups
        )
        found = [*_repeated_bags(bags, splits, repeats), *_columns(bags)]
    return [Finding(*one) for one in found]


_Found = Iterator[tuple[str, bool, str]]  # the fields of a Finding


def _fold_findings(bags: Bags, groups: Any, folds: int) -> _Found:
    """Yield why the bags cannot be divided into folds."""
    if bags.y is None:
        yield "unlabelled", True, "The bags have no labels."
        return
    values, counts = np.unique(bags.y, return_counts=True)
    n_least, n_groups = int(counts.min()), folds if groups is None else len(np.unique(groups))
    if len(values) < 2:
        yield "classes", True, f"At least two classes are needed, found {values.tolist()}."
    elif n_least < folds:
        message = f"The class {values[counts.argmin()].item()!r} has {n_least} bags"
        yield "small_class", True, f"{message}, {_too_few(n_least, folds)}"
    if n_groups < folds:
        yield "few_groups", True, f"The bags form {n_groups} groups, {_too_few(n_groups, folds)}"


def _too_few(n: int, folds: int) -> str:
    return f"fewer than the {folds} folds; use at most {n} folds."


def _repeated_bags(bags: Bags, splits: Iterator[Split], repeats: int) -> _Found:
    """Yield findings on copies of whole bags, then on copies of single instances."""
    group = duplicate_groups(bags)
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
        yield "repeated_bags", apart > 0, message
        labels = np.unique(bags.y, return_inverse=True)[1]
        pairs = np.unique(np.column_stack([group, labels]), axis=0)
        n_contradicting = int((np.bincount(pairs[:, 0]) > 1).sum())
        if n_contradicting:
            message = f"{n_contradicting} groups of identical bags have both labels."
            yield "contradicting_bags", True, message
    hashes, positive = instance_hashes(bags), _positive_rows(bags)
    shared = np.isin(hashes, hashes[~positive]) & positive
    if shared.any() and len(np.unique(bags.y)) == 2:
        copies = np.bincount(bags.bag_index[shared], minlength=bags.n_bags)
        n_only = int((copies == bags.sizes).sum())
        only = f"; {n_only} positive bags hold nothing else" if n_only else ""
        what = "instances of positive bags are exact copies of instances of negative bags"
        yield "shared_instances", n_only > 0, f"{int(shared.sum())} {what}{only}."


def _columns(bags: Bags) -> _Found:
    low, high = _ends(bags.instances)
    broken = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if broken.size:
        message = f"Features {_list_features(bags, broken)} hold values that are NaN or infinite."
        yield "non_finite_columns", True, message
    constant = low == high
    if constant.any():
        message = f"{int(constant.sum())} of {bags.n_features} features are constant."
        yield "constant_columns", bool(constant.all()), message
    for kind, what, rows in (
        ("label_column", "the bag label", _positive_rows(bags)),
        ("instance_label_column", "the instance label", _positive_instances(bags)),
    ):
        if rows.all() or not rows.any():
            continue
        # One value in the positive rows and another in all others.
        (low, high), (low_rest, high_rest) = (
            _ends(bags.instances[rows]),
            _ends(bags.instances[~rows]),
        )
        leaking = np.flatnonzero((low == high) & (low_rest == high_rest) & (low != low_rest))
        if leaking.size:
            yield kind, True, f"Features {_list_features(bags, leaking)} equal {what}."


def _positive_rows(bags: Bags) -> BoolArray:
    """Mark the instances of positive bags."""
    return np.repeat(np.unique(bags.y, return_inverse=True)[1].ravel() == 1, bags.sizes)


def _positive_instances(bags: Bags) -> BoolArray:
    """Mark the instances labelled positive; none if some labels are unknown."""
    labels = bags.instance_labels
    if labels is None or not (labels == labels).all() or len(np.unique(labels)) != 2:
        return np.zeros(bags.n_instances, dtype=bool)
    return np.asarray(labels == np.unique(labels)[1])


def _ends(values: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value of each column; NaN if it contains one."""
    if sp.issparse(values):
        return values.min(axis=0).toarray().ravel(), values.max(axis=0).toarray().ravel()
    return values.min(axis=0), values.max(axis=0)


def _list_features(bags: Bags, columns: Any) -> str:
    names = bags.feature_names
    return listed((names[column] if names else int(column) for column in columns), limit=5)
