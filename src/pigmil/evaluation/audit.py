"""What is wrong with a data set before anything is compared on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil.bags import Bags
from pigmil.evaluation.splits import bag_splits, duplicate_groups


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
        The folds of the comparison, see :func:`pigmil.evaluation.splits.bag_splits`.

    Returns
    -------
    list of Finding
        Empty if nothing was found.

    Notes
    -----
    Cost: a sort of the instances, O(N log N d).

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> audit(make_ring(random_state=0))
    []
    """
    found: list[Finding] = []
    found += _class_sizes(bags, folds)
    if any(finding.severe for finding in found):
        return found
    found += _repeated_bags(bags, folds, repeats, random_state, groups)
    found += _repeated_instances(bags)
    found += _columns(bags)
    return found


def _class_sizes(bags: Bags, folds: int) -> list[Finding]:
    if bags.y is None:
        return [Finding("unlabelled", True, "The bags carry no labels.")]
    values, counts = np.unique(bags.y, return_counts=True)
    if len(values) != 2:
        return [Finding("classes", True, f"Two classes are needed, found {values.tolist()}.")]
    smallest = int(counts.min())
    if smallest < folds:
        return [
            Finding(
                "small_class",
                True,
                f"The class {values[counts.argmin()]!r} has {smallest} bags, fewer than the "
                f"{folds} folds; use at most {smallest} folds.",
            )
        ]
    return []


def _repeated_bags(
    bags: Bags, folds: int, repeats: int, random_state: int, groups: Any
) -> list[Finding]:
    group = duplicate_groups(bags)
    counts = np.bincount(group)
    repeated = counts[group] > 1
    if not repeated.any():
        return []
    apart = 0
    splits = list(
        bag_splits(bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups)
    )
    for split in splits:
        apart += int(np.isin(group[split.test], group[split.train]).sum())
    labels = np.unique(np.column_stack([group, np.unique(bags.y, return_inverse=True)[1]]), axis=0)
    contradicting = int((np.bincount(labels[:, 0]) > 1).sum())
    found = [
        Finding(
            "repeated_bags",
            apart > 0,
            f"{int(repeated.sum())} of {bags.n_bags} bags occur more than once; in "
            f"{apart / max(1, repeats):.0f} cases a repeat the test bag's twin is among the "
            "training bags"
            + (". Keep twins in one fold with groups='duplicates'." if apart else "."),
        )
    ]
    if contradicting:
        found.append(
            Finding(
                "contradicting_bags",
                True,
                f"{contradicting} groups of identical bags carry both labels.",
            )
        )
    return found


def _repeated_instances(bags: Bags) -> list[Finding]:
    values = bags.instances.toarray() if sp.issparse(bags.instances) else bags.instances
    _, group = np.unique(np.ascontiguousarray(values), axis=0, return_inverse=True)
    group = group.ravel()
    label = np.repeat(np.unique(bags.y, return_inverse=True)[1], bags.sizes)
    in_both = np.intersect1d(group[label == 0], group[label == 1])
    shared = np.isin(group, in_both) & (label == 1)
    if not shared.any():
        return []
    bag_of = bags.bag_index
    only = [bag for bag in np.unique(bag_of[shared]) if shared[bag_of == bag].all()]
    message = (
        f"{int(shared.sum())} instances of positive bags are exact copies of instances of "
        "negative bags"
    )
    if only:
        message += f"; {len(only)} positive bags hold nothing else"
    return [Finding("shared_instances", bool(only), message + ".")]


def _columns(bags: Bags) -> list[Finding]:
    values = bags.instances
    low = np.asarray(values.min(axis=0).todense() if sp.issparse(values) else values.min(axis=0))
    high = np.asarray(values.max(axis=0).todense() if sp.issparse(values) else values.max(axis=0))
    low, high = low.ravel(), high.ravel()
    constant = np.flatnonzero(low == high)
    found = []
    if constant.size:
        found.append(
            Finding(
                "constant_columns",
                constant.size == bags.n_features,
                f"{constant.size} of {bags.n_features} features are constant.",
            )
        )
    label = np.repeat(np.unique(bags.y, return_inverse=True)[1], bags.sizes).astype(bool)
    leaking = [
        int(column)
        for column in np.setdiff1d(np.arange(bags.n_features), constant)
        if _equals_label(values, int(column), label)
    ]
    if leaking:
        names = bags.feature_names
        told = [repr(names[column]) if names else str(column) for column in leaking[:5]]
        found.append(
            Finding("label_column", True, f"Features {', '.join(told)} equal the bag label.")
        )
    return found


def _equals_label(values: Any, column: int, label: Any) -> bool:
    """Whether a column has one value on positive rows and another on negative ones."""
    part = values[:, [column]].toarray().ravel() if sp.issparse(values) else values[:, column]
    positive, negative = part[label], part[~label]
    return bool(
        (positive == positive[0]).all()
        and (negative == negative[0]).all()
        and positive[0] != negative[0]
    )
