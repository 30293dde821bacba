"""What is checked before bags are built: every problem is collected, then told at once."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, Problems
from pigmil._core.typing import IntArray

_BLOCK_VALUES = 1 << 22  # values looked at in one go: 32 MB of float64, for memory-mapped arrays
_SHOWN = 10  # values that are not finite, kept to be told


def check_bags(
    instances: Any,
    offsets: Any,
    *,
    ids: Any,
    y: Any,
    instance_labels: Any,
    feature_names: Sequence[str] | None,
    instance_info: Mapping[str, Any] | None,
    check_finite: bool,
) -> dict[str, Any]:
    """Check all parts of a collection and return them as arrays."""
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise BagsError(
            "offsets must be a 1-D array of integers, one more than there are bags; got shape "
            f"{offsets.shape}, type {offsets.dtype}."
        )
    offsets = offsets.astype(np.int64)
    n_bags, n_instances = len(offsets) - 1, instances.shape[0]
    if offsets[0] != 0 or offsets[-1] != n_instances or (np.diff(offsets) < 0).any():
        raise BagsError(
            f"offsets must rise from 0 to the number of instances, {n_instances}; got "
            f"{offsets[0]} to {offsets[-1]}"
            + (", falling in between." if (np.diff(offsets) < 0).any() else ".")
        )
    names = None if feature_names is None else tuple(str(name) for name in feature_names)
    info = {name: np.asarray(values) for name, values in (instance_info or {}).items()}
    fields = {
        "ids": np.arange(n_bags) if ids is None else np.asarray(ids),
        "y": None if y is None else np.asarray(y),
        "instance_labels": None if instance_labels is None else np.asarray(instance_labels),
    }
    problems = Problems(f"{n_bags} bags of {n_instances} instances")
    empty = np.flatnonzero(np.diff(offsets) == 0)
    problems.add_each(
        (f"{bag_name(bag, ids)} has no instances; every bag needs at least one." for bag in empty),
        total=len(empty),
        kind="empty bags",
    )
    for name, expected in (("ids", n_bags), ("y", n_bags), ("instance_labels", n_instances)):
        value = fields[name]
        if value is not None and value.shape != (expected,):
            problems.add(f"{name} has shape {value.shape}; expected ({expected},).")
            fields[name] = None
    for name, values in info.items():
        if values.shape[:1] != (n_instances,):
            problems.add(
                f"instance_info[{name!r}] has shape {values.shape}; expected ({n_instances}, ...)."
            )
    _check_names(instances, names, problems)
    _check_ids(fields["ids"], problems)
    _check_missing_labels(fields["y"], ids, problems)
    _check_instance_labels(fields["y"], fields["instance_labels"], offsets, ids, problems)
    if check_finite:
        _check_finite(instances, offsets, ids, names, problems)
    problems.raise_if_any()
    return {
        **fields,
        "instances": instances,
        "offsets": offsets,
        "feature_names": names,
        "instance_info": info,
    }


def check_bag_labels(y: Any, ids: NDArray[Any]) -> NDArray[Any] | None:
    """Check new labels for bags that were checked before."""
    if y is None:
        return None
    y = np.asarray(y)
    problems = Problems(f"The labels of {len(ids)} bags")
    if y.shape != (len(ids),):
        problems.add(f"y has shape {y.shape}; expected ({len(ids)},).")
    else:
        _check_missing_labels(y, ids, problems)
    problems.raise_if_any()
    return y


def check_new_instances(
    instances: Any, offsets: IntArray, ids: NDArray[Any], names: tuple[str, ...] | None
) -> None:
    """Check new features for bags that were checked before."""
    problems = Problems(f"New features for {offsets[-1]} instances")
    if instances.shape[0] != offsets[-1]:
        problems.add(f"There are {instances.shape[0]} rows; expected one an instance.")
        problems.raise_if_any()
    _check_names(instances, names, problems)
    _check_finite(instances, offsets, ids, names, problems)
    problems.raise_if_any()


def _check_names(instances: Any, names: tuple[str, ...] | None, problems: Problems) -> None:
    if instances.shape[1] == 0:
        problems.add("The instances have no features.")
    if names is not None and len(names) != instances.shape[1]:
        problems.add(f"{len(names)} feature names for {instances.shape[1]} features.")


def bag_name(position: int | np.integer[Any], ids: Any) -> str:
    """How messages name a bag: its position, and its id where it has one."""
    if ids is None or position >= len(ids):
        return f"Bag {position}"
    value = ids[position]
    return f"Bag {position} ({value.item() if isinstance(value, np.generic) else value!r})"


def _check_ids(ids: NDArray[Any] | None, problems: Problems) -> None:
    if ids is None:
        return
    values, counts = np.unique(ids.astype(str) if ids.dtype == object else ids, return_counts=True)
    repeated = values[counts > 1]
    problems.add_each(
        (
            f"The id {value!r} is given to {count} bags; ids must be unique."
            for value, count in zip(repeated.tolist(), counts[counts > 1], strict=True)
        ),
        total=len(repeated),
        kind="repeated ids",
    )


def _check_missing_labels(y: NDArray[Any] | None, ids: Any, problems: Problems) -> None:
    if y is None or y.dtype.kind not in "fO":
        return
    missing = np.flatnonzero([value is None or value != value for value in y])
    problems.add_each(
        (f"{bag_name(bag, ids)} has no label (NaN)." for bag in missing),
        total=len(missing),
        kind="bags without a label",
    )


def _check_instance_labels(
    y: NDArray[Any] | None,
    labels: NDArray[Any] | None,
    offsets: IntArray,
    ids: Any,
    problems: Problems,
) -> None:
    """A negative bag holds no positive instance; the greater label is the positive one."""
    if y is None or labels is None or y.dtype.kind == "O" or labels.dtype.kind == "O":
        return
    bag_classes, instance_classes = np.unique(y), np.unique(labels[labels == labels])
    if len(instance_classes) == 1 and len(bag_classes) == 2:
        # One label only: told to be the positive one where bags and instances share their labels.
        instance_classes = bag_classes if instance_classes[0] == bag_classes[1] else bag_classes[:0]
    if len(instance_classes) != 2 or len(bag_classes) > 2:
        return
    if len(bag_classes) == 2:
        negative = y == bag_classes[0]
    else:
        negative = y == instance_classes[0]
    positive = (labels == instance_classes[1]).astype(np.int64)
    counts = np.diff(np.concatenate([[0], np.cumsum(positive)])[offsets])
    bad = np.flatnonzero(negative & (counts > 0))
    problems.add_each(
        (
            f"{bag_name(bag, ids)} is negative but {counts[bag]} of its instances are labelled "
            f"positive ({instance_classes[1].item()!r})."
            for bag in bad
        ),
        total=len(bad),
        kind="negative bags with positive instances",
    )


def _check_finite(
    instances: Any,
    offsets: IntArray,
    ids: Any,
    names: tuple[str, ...] | None,
    problems: Problems,
) -> None:
    total, found = _non_finite(instances)
    problems.add_each(
        (
            f"{bag_name(bag, ids)}, instance {row - offsets[bag]}: feature {column}"
            + (f" ({names[column]!r})" if names and column < len(names) else "")
            + f" is {value}; impute it or drop the instance."
            for row, column, value in found
            for bag in [int(np.searchsorted(offsets, row, side="right") - 1)]
        ),
        total=total,
        kind="values that are NaN or infinite",
    )


def _non_finite(instances: Any) -> tuple[int, list[tuple[int, int, float]]]:
    """How many values are not finite, and row, column and value of the first few.

    Looked for block by block, so that memory stays bounded.
    """
    if sp.issparse(instances):
        bad = np.flatnonzero(~np.isfinite(instances.data))
        rows = np.searchsorted(instances.indptr, bad[:_SHOWN], side="right") - 1
        return len(bad), [
            (int(row), int(instances.indices[position]), float(instances.data[position]))
            for row, position in zip(rows, bad[:_SHOWN], strict=True)
        ]
    total, found = 0, list[tuple[int, int, float]]()
    step = max(1, _BLOCK_VALUES // max(1, instances.shape[1]))
    for start in range(0, instances.shape[0], step):
        block = np.asarray(instances[start : start + step])
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum(dtype=np.float64)):
                continue
        bad = np.flatnonzero(~np.isfinite(block))
        total += len(bad)
        for row, column in zip(*np.unravel_index(bad[:_SHOWN], block.shape), strict=True):
            found.append((int(start + row), int(column), float(block[row, column])))
    return total, found[:_SHOWN]
