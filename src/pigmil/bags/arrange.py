"""From what users have to flat arrays: cleaning, stacking, grouping rows by bag."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, Problems
from pigmil._core.typing import IntArray
from pigmil.bags.validation import bag_name


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
        # Masked values become NaN, so that they are refused by name and not taken as they are.
        masked = isinstance(instances, np.ma.MaskedArray) and instances.dtype.kind in "fiub"
        array = instances.astype(np.float64).filled(np.nan) if masked else np.asarray(instances)
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
    problems = Problems(f"The list of {len(bags)} bags")
    bags = [_as_table(bag, bag_name(position, ids), problems) for position, bag in enumerate(bags)]
    problems.raise_if_any()
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
    join = np.ma.concatenate if any(map(np.ma.isMaskedArray, bags)) else np.concatenate
    return (bags[0] if len(bags) == 1 else join(bags)), sizes, flat


def _as_table(bag: Any, name: str, problems: Problems) -> Any:
    if sp.issparse(bag) or isinstance(bag, np.ma.MaskedArray):
        return bag
    try:
        return np.asarray(bag)
    except ValueError:
        problems.add(f"{name} is not a table: its rows differ in length or nesting.")
        return bag


def _flat_instance_labels(
    labels: Any, bags: Sequence[Any], ids: Any, problems: Problems
) -> NDArray[Any] | None:
    if labels is None:
        return None
    if (
        hasattr(labels, "__len__")
        and len(labels) == len(bags)
        and all(np.ndim(part) == 1 for part in labels)
    ):
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
