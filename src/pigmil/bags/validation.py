"""What is checked before bags are built: every problem is collected, then told at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, Problems
from pigmil._core.segments import IntArray

_BLOCK_VALUES = 1 << 22  # values looked at in one go: 32 MB of float64, for memory-mapped arrays


def clean_instances(instances: Any) -> Any:
    """Return instances as a float32/float64 array or canonical CSR, uncopied if they are one.

    Integers, booleans and other floats become float64; anything else is refused.
    """
    if sp.issparse(instances):
        matrix = sp.csr_array(instances)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(_float_type(matrix.dtype, "sparse instances"))
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return matrix
    try:
        array = np.asanyarray(instances)
    except ValueError as error:
        raise BagsError(f"Instances must form a rectangular table of numbers: {error}") from error
    if array.ndim != 2:
        raise BagsError(
            f"Instances must be a 2-D table, one row an instance; got {array.ndim} dimension(s), "
            f"shape {array.shape}."
        )
    if array.dtype in (np.float32, np.float64) and array.dtype.isnative:
        return array
    if array.dtype == object:
        return _floats_of_objects(array)
    return array.astype(_float_type(array.dtype, "instances"))


def _float_type(dtype: np.dtype[Any], what: str) -> type[np.float64]:
    if dtype.kind not in "fiub":
        raise BagsError(
            f"The {what} have type {dtype}, which is not numeric; encode them as numbers first."
        )
    return np.float64


def _floats_of_objects(array: NDArray[Any]) -> NDArray[Any]:
    bad = []
    for column in range(array.shape[1]):
        try:
            array[:, column].astype(np.float64)
        except (TypeError, ValueError):
            bad.append(column)
    if bad:
        raise BagsError(
            f"Columns {bad[:10]}{' ...' if len(bad) > 10 else ''} of the instances are not "
            "numeric; encode them as numbers or leave them out."
        )
    return array.astype(np.float64)


def stack_bags(
    bags: Sequence[Any], ids: Any, instance_labels: Any
) -> tuple[Any, IntArray, NDArray[Any] | None]:
    """Stack a list of bags; returns instances, sizes and flat instance labels."""
    bags = [bag if sp.issparse(bag) else np.asarray(bag) for bag in bags]
    problems = Problems(f"The list of {len(bags)} bags")
    if not bags:
        problems.add("It is empty; at least one bag is needed.")
    widths = [bag.shape[1] for bag in bags if bag.ndim == 2]
    width = max(set(widths), key=widths.count) if widths else 0
    for position, bag in enumerate(bags):
        name = bag_name(position, ids)
        if bag.ndim != 2:
            problems.add(f"{name} has shape {bag.shape}; expected (n_instances, n_features).")
        elif bag.shape[0] == 0:
            problems.add(f"{name} has no instances; every bag needs at least one.")
        elif bag.shape[1] != width:
            problems.add(f"{name} has {bag.shape[1]} features where most bags have {width}.")
        elif bag.dtype.kind not in "fiubO":
            problems.add(f"{name} has type {bag.dtype}, which is not numeric.")
    flat = _flat_instance_labels(instance_labels, bags, ids, problems)
    problems.raise_if_any()
    sizes = np.array([bag.shape[0] for bag in bags], dtype=np.int64)
    if any(sp.issparse(bag) for bag in bags):
        return sp.vstack([sp.csr_array(bag) for bag in bags], format="csr"), sizes, flat
    return (bags[0] if len(bags) == 1 else np.concatenate(bags)), sizes, flat


def _flat_instance_labels(
    labels: Any, bags: Sequence[Any], ids: Any, problems: Problems
) -> NDArray[Any] | None:
    if labels is None:
        return None
    if len(labels) == len(bags) and all(np.ndim(part) == 1 for part in labels):
        for position, (part, bag) in enumerate(zip(labels, bags, strict=True)):
            if len(part) != bag.shape[0]:
                problems.add(
                    f"{bag_name(position, ids)} has {bag.shape[0]} instances but "
                    f"{len(part)} instance labels."
                )
        return np.concatenate([np.asarray(part) for part in labels])
    return np.asarray(labels)


def check_rows(
    instances: Any, bag_ids: Any, instance_labels: Any, info: Mapping[str, Any] | None
) -> None:
    """Check that everything given for each row of a long table has one entry a row."""
    problems = Problems(f"The table of {instances.shape[0]} rows")
    given = {"bag_ids": bag_ids, "instance_labels": instance_labels, **(info or {})}
    for name, values in given.items():
        if values is not None and len(values) != instances.shape[0]:
            problems.add(f"{name} has {len(values)} entries; expected one a row.")
    if instances.shape[0] == 0:
        problems.add("It has no rows; at least one instance is needed.")
    elif bag_ids is not None and np.asarray(bag_ids).dtype.kind in "fO":
        missing = np.flatnonzero([value is None or value != value for value in bag_ids])
        problems.add_each(
            (f"Row {row} has no bag id." for row in missing), total=len(missing), kind="such rows"
        )
    problems.raise_if_any()


def group_rows(bag_ids: Any) -> tuple[NDArray[Any], IntArray, IntArray | None]:
    """Group rows by bag in order of appearance; returns ids, sizes and the order, None if as is."""
    bag_ids = np.asarray(bag_ids)
    changes = np.flatnonzero(bag_ids[1:] != bag_ids[:-1]) + 1
    starts = np.concatenate([[0], changes])
    ids, first, run_bag = np.unique(bag_ids[starts], return_index=True, return_inverse=True)
    if len(ids) == len(starts):
        return bag_ids[starts], np.diff(np.append(starts, len(bag_ids))).astype(np.int64), None
    appearance = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    row_bag = np.repeat(appearance[run_bag.ravel()], np.diff(np.append(starts, len(bag_ids))))
    order = np.argsort(row_bag, kind="stable").astype(np.int64)
    return ids[np.argsort(first, kind="stable")], np.bincount(row_bag).astype(np.int64), order


def labels_per_bag(
    y: Any, ids: NDArray[Any], sizes: IntArray, order: IntArray | None
) -> NDArray[Any] | None:
    """Return one label a bag, given one a bag or one a row that is constant inside a bag."""
    if y is None:
        return None
    y = np.asarray(y)
    n_rows = int(sizes.sum())
    if y.shape == (len(ids),) and (len(ids) != n_rows or order is None):
        return y
    if y.shape != (n_rows,):
        raise BagsError(
            f"y has shape {y.shape}; expected one label for each of {len(ids)} bags or "
            f"{n_rows} rows."
        )
    per_row = y if order is None else y[order]
    starts = np.cumsum(sizes) - sizes
    same = per_row == np.repeat(per_row[starts], sizes)
    bad = np.unique(np.repeat(np.arange(len(ids)), sizes)[~np.asarray(same, dtype=bool)])
    problems = Problems(f"The labels of {len(ids)} bags")
    problems.add_each(
        (
            f"{bag_name(bag, ids)} has rows labelled "
            f"{sorted(set(per_row[starts[bag] : starts[bag] + sizes[bag]].tolist()), key=str)}; "
            "a bag has one label."
            for bag in bad
        ),
        total=len(bad),
        kind="bags with varying labels",
    )
    problems.raise_if_any()
    return np.asarray(per_row[starts])


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
    if instances.shape[1] == 0:
        problems.add("The instances have no features.")
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
    if names is not None and len(names) != instances.shape[1]:
        problems.add(f"{len(names)} feature names for {instances.shape[1]} features.")
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
    found = list(_non_finite(instances))
    if not found:
        return

    def tell() -> Iterator[str]:
        for row, column, value in found:
            bag = int(np.searchsorted(offsets, row, side="right") - 1)
            feature = f"feature {column}" + (f" ({names[column]!r})" if names else "")
            yield (
                f"{bag_name(bag, ids)}, instance {row - offsets[bag]}: {feature} is {value}; "
                "impute it or drop the instance."
            )

    problems.add_each(tell(), total=len(found), kind="values that are NaN or infinite")


def _non_finite(instances: Any) -> Iterator[tuple[int, int, float]]:
    """Row, column and value of what is not finite, looked for block by block."""
    if sp.issparse(instances):
        bad = np.flatnonzero(~np.isfinite(instances.data))
        rows = np.searchsorted(instances.indptr, bad, side="right") - 1
        for row, position in zip(rows, bad, strict=True):
            yield int(row), int(instances.indices[position]), float(instances.data[position])
        return
    step = max(1, _BLOCK_VALUES // max(1, instances.shape[1]))
    for start in range(0, instances.shape[0], step):
        block = np.asarray(instances[start : start + step])
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(block.sum(dtype=np.float64)):
                continue
        for row, column in np.argwhere(~np.isfinite(block)):
            yield int(start + row), int(column), float(block[row, column])
