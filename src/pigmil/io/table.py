"""Columns of a long table: which is what when reading, and what they become when writing."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags
from pigmil.io.common import Request, find_column, listed, raise_format_error
from pigmil.io.values import as_text, cannot_hold, dense_blocks, feature_names_of, plain

BAG_NAMES = ("bag",)
LABEL_NAMES = ("bag_label", "label", "y")
INSTANCE_LABEL_NAMES = ("instance_label",)


@dataclass(frozen=True)
class Roles:
    """Positions of the columns by what they hold."""

    bag: int
    label: int | None
    instance_label: int | None
    info: tuple[int, ...]
    features: tuple[int, ...]

    @property
    def feature_set(self) -> frozenset[int]:
        """Positions of the features."""
        return frozenset(self.features)


def find_roles(path: Path, columns: list[str], request: Request, *, hint: str = "") -> Roles:
    """Tell which column is what; all that has no role is a feature."""
    bag = find_column(path, columns, request.bag, "bag", BAG_NAMES)
    if bag is None:
        raise_format_error(
            path,
            f"has no column 'bag'; its columns are {listed(columns)}.",
            hint=f"Say with bag= and label= (name or position) what they are. {hint}".rstrip(),
        )
    label = find_column(path, columns, request.label, "label", LABEL_NAMES)
    instance = find_column(
        path, columns, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    info = []
    for name in request.info:
        position = find_column(path, columns, name, "info")
        if position is not None:
            info.append(position)
    taken = [place for place in (bag, label, instance, *info) if place is not None]
    if len(set(taken)) < len(taken):
        twice = sorted({columns[place] for place in taken if taken.count(place) > 1})
        raise_format_error(
            path, f"the columns {listed(twice)} are given two roles; each column has one."
        )
    features = tuple(place for place in range(len(columns)) if place not in set(taken))
    if not features:
        raise_format_error(path, f"has no feature columns; its columns are {listed(columns)}.")
    return Roles(bag, label, instance, tuple(info), features)


def columns_to_write(
    bags: Bags,
    path: Path,
    format_name: str,
    *,
    bag: str,
    label: str,
    instance_label: str,
    lossy: bool,
    text: bool,
) -> dict[str, NDArray[Any]]:
    """Columns beside the features, one entry an instance, by name; refuses what cannot be kept."""
    wide = [name for name, values in bags.instance_info.items() if values.ndim != 1]
    if text and wide and not lossy:
        raise_format_error(
            path,
            f"the format {format_name!r} cannot hold {listed(wide)} of instance_info, which have "
            "several values an instance.",
            hint="Pass lossy=True to leave them out, or choose npz, parquet or h5.",
        )
    cannot_hold(path, bags, format_name, lossy)
    fixed: dict[str, NDArray[Any]] = {bag: plain(path, bags.ids, "ids")[bags.bag_index]}
    if bags.y is not None:
        fixed[label] = plain(path, bags.y, "labels")[bags.bag_index]
    if bags.instance_labels is not None:
        fixed[instance_label] = plain(path, bags.instance_labels, "instance labels")
    taken = {*fixed, *feature_names_of(bags)}
    for name, values in bags.instance_info.items():
        if name == "row" or (text and values.ndim != 1):
            continue
        if name in taken:
            raise_format_error(
                path, f"instance_info has {name!r}, which is also the name of another column."
            )
        fixed[name] = plain(path, values, f"instance_info[{name!r}]")
    _check_names(bags, path, [*fixed])
    return fixed


def _check_names(bags: Bags, path: Path, fixed: list[str]) -> None:
    names = feature_names_of(bags)
    clash = sorted(set(names) & set(fixed))
    if clash:
        raise_format_error(
            path,
            f"features are named {listed(clash)}, like the columns for the bag or its labels.",
            hint="Rename the features, or name those columns with bag=, label=, instance_label=.",
        )
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise_format_error(
            path, f"several features are named {listed(twice)}; names of columns must differ."
        )


def text_column(values: NDArray[Any]) -> Any:
    """Column of text or whole numbers: what is neither is written as Python writes it."""
    if values.dtype.kind == "f":
        return [None if value != value else repr(value) for value in values.tolist()]
    return values if values.dtype.kind in "iuU" else as_text(values)


def table_blocks(
    bags: Bags, fixed: dict[str, NDArray[Any]], dtype: Any, *, text: bool = True
) -> Iterator[Any]:
    """Yield the long table as Arrow record batches of bounded size."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    names = feature_names_of(bags)
    for start, end, values in dense_blocks(bags):
        columns = {
            name: arrow_column(text_column(part[start:end]) if text else part[start:end])
            for name, part in fixed.items()
        }
        for place, name in enumerate(names):
            columns[name] = arrow.array(np.ascontiguousarray(values[:, place], dtype=dtype))
        yield arrow.record_batch(columns)


def arrow_column(values: Any) -> Any:
    """Arrow array of a 1-D array or list, or of a 2-D array as lists of fixed length."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    if isinstance(values, list) or values.dtype.kind == "U":
        return arrow.array(list(values), type=arrow.string())
    if values.ndim == 2:
        flat = arrow.array(np.ascontiguousarray(values).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.array(values)
