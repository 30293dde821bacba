"""Find defects of a data set before methods are compared on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.typing import BoolArray
from pigmil.bags import Bags
from pigmil.evaluation._splits import bag_splits, duplicate_groups, instance_hashes


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
    findings = [*_class_sizes(bags, folds), *_group_counts(groups, folds)]
    if any(finding.severe for finding in findings):
        return findings
    findings += _repeated_bags(bags, folds, repeats, random_state, groups)
    if len(np.unique(bags.y)) == 2:
        findings += _repeated_instances(bags)
    findings += _columns(bags)
    return findings


def _class_sizes(bags: Bags, folds: int) -> Iterator[Finding]:
    if bags.y is None:
        yield Finding("unlabelled", True, "The bags have no labels.")
        return
    values, counts = np.unique(bags.y, return_counts=True)
    smallest = int(counts.min())
    if len(values) < 2:
        yield Finding("classes", True, f"At least two classes are needed, found {values.tolist()}.")
    elif smallest < folds:
        yield Finding(
            "small_class",
            True,
            f"The class {values[counts.argmin()].item()!r} has {smallest} bags, fewer than the "
            f"{folds} folds; use at most {smallest} folds.",
        )


def _group_counts(groups: Any, folds: int) -> Iterator[Finding]:
    n = folds if groups is None else len(np.unique(groups))
    if n < folds:
        yield Finding(
            "few_groups",
            True,
            f"The bags form {n} groups, fewer than the {folds} folds; use at most {n} folds.",
        )


def _repeated_bags(
    bags: Bags, folds: int, repeats: int, random_state: int, groups: Any
) -> Iterator[Finding]:
    group = duplicate_groups(bags)
    counts = np.bincount(group)
    repeated = counts[group] > 1
    if not repeated.any():
        return
    splits = bag_splits(
        bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups
    )
    apart = sum(int(np.isin(group[split.test], group[split.train]).sum()) for split in splits)
    yield Finding(
        "repeated_bags",
        apart > 0,
        f"{bags.n_bags - len(counts)} of {bags.n_bags} bags are copies of another "
        f"({int(repeated.sum())} bags occur more than once); in "
        f"{apart / max(1, repeats):.0f} cases a repeat the test bag's twin is among the "
        "training bags" + (". Keep twins in one fold with groups='duplicates'." if apart else "."),
    )
    labels = np.unique(np.column_stack([group, np.unique(bags.y, return_inverse=True)[1]]), axis=0)
    contradicting = int((np.bincount(labels[:, 0]) > 1).sum())
    if contradicting:
        message = f"{contradicting} groups of identical bags have both labels."
        yield Finding("contradicting_bags", True, message)


def _repeated_instances(bags: Bags) -> Iterator[Finding]:
    _, group = np.unique(instance_hashes(bags), return_inverse=True)
    group = group.ravel()
    positive = _positive_rows(bags)
    shared = np.isin(group, group[~positive]) & positive
    if not shared.any():
        return
    copies = np.bincount(bags.bag_index[shared], minlength=bags.n_bags)
    only = int((copies == bags.sizes).sum())
    message = (
        f"{int(shared.sum())} instances of positive bags are exact copies of instances of "
        "negative bags"
    )
    if only:
        message += f"; {only} positive bags hold nothing else"
    yield Finding("shared_instances", only > 0, message + ".")


def _columns(bags: Bags) -> Iterator[Finding]:
    low, high = _ends(bags.instances)
    broken = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if broken.size:
        message = f"Features {_list_features(bags, broken)} hold values that are NaN or infinite."
        yield Finding("non_finite_columns", True, message)
    constant = low == high
    if constant.any():
        message = f"{int(constant.sum())} of {bags.n_features} features are constant."
        yield Finding("constant_columns", bool(constant.all()), message)
    for kind, what, rows in (
        ("label_column", "the bag label", _positive_rows(bags)),
        ("instance_label_column", "the instance label", _positive_instances(bags)),
    ):
        leaking = _splits_exactly(bags.instances, rows)
        if leaking.size:
            yield Finding(kind, True, f"Features {_list_features(bags, leaking)} equal {what}.")


def _positive_rows(bags: Bags) -> BoolArray:
    """Mark the instances of positive bags."""
    return np.repeat(np.unique(bags.y, return_inverse=True)[1].ravel() == 1, bags.sizes)


def _positive_instances(bags: Bags) -> BoolArray:
    """Mark the instances labelled positive; none if some labels are unknown."""
    labels = bags.instance_labels
    if labels is None or not (labels == labels).all() or len(np.unique(labels)) != 2:
        return np.zeros(bags.n_instances, dtype=bool)
    return np.asarray(labels == np.unique(labels)[1])


def _splits_exactly(values: Any, rows: BoolArray) -> Any:
    """Return the columns with one value in the given rows and another in all other rows."""
    if rows.all() or not rows.any():
        return np.zeros(0, dtype=np.int64)
    (low, high), (other_low, other_high) = _ends(values[rows]), _ends(values[~rows])
    return np.flatnonzero((low == high) & (other_low == other_high) & (low != other_low))


def _ends(values: Any) -> tuple[Any, Any]:
    """Return the least and the greatest value of each column; NaN if it contains one."""
    if sp.issparse(values):
        return values.min(axis=0).toarray().ravel(), values.max(axis=0).toarray().ravel()
    return values.min(axis=0), values.max(axis=0)


def _list_features(bags: Bags, columns: Any) -> str:
    names = bags.feature_names
    listed = [repr(names[column]) if names else str(column) for column in columns[:5]]
    return ", ".join(listed) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
