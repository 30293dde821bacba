"""Columns of long tables: their roles when reading, their values when writing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io._common import Request, find_column, find_info, listed, naming, raise_format_error
from pigmil.io._values import as_text, dense_blocks, plain

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
    bag_info: tuple[int, ...]
    features: tuple[int, ...]


def find_roles(
    path: Path,
    columns: list[str],
    request: Request,
    *,
    bag: int | None = None,
    label: int | None = None,
    text: Sequence[int] = (),
    hint: str = "",
) -> Roles:
    """Return the role of each column; columns without a role are features.

    Parameters
    ----------
    path, columns, request
        The file, the names of its columns and the options of ``read_bags``.
    bag, label : int, optional
        Default positions, for formats without fixed names of columns.
    text : sequence of int, default=()
        Columns of text, which become info unless they have another role.
    hint : str, default=""
        End of the error if there is no bag.
    """
    if bag is None or request.bag is not None:
        bag = find_column(path, columns, request.bag, "bag", BAG_NAMES)
    if bag is None:
        raise_format_error(
            path,
            f"has no column 'bag'; its columns are {listed(columns)}.",
            hint=f"Say with bag= and label= (name or position) what they are. {hint}".rstrip(),
        )
    instance = find_column(
        path, columns, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    if label is None or request.label is not None:
        label = find_column(path, columns, request.label, "label", LABEL_NAMES)
    elif label in (bag, instance):
        label = None
    info, bag_info = find_info(path, columns, request)
    info += [at for at in text if at not in (bag, label, instance, *info, *bag_info)]
    taken = [at for at in (bag, label, instance, *info, *bag_info) if at is not None]
    if len(set(taken)) < len(taken):
        twice = sorted({columns[at] for at in taken if taken.count(at) > 1})
        raise_format_error(
            path, f"the columns {listed(twice)} are given two roles; each column has one."
        )
    features = tuple(sorted(set(range(len(columns))) - set(taken)))
    if not features:
        raise_format_error(path, f"has no feature columns; its columns are {listed(columns)}.")
    return Roles(bag, label, instance, tuple(info), tuple(bag_info), features)


def refuse_text_columns(path: Path, columns: Sequence[Any], row: int, cell: str) -> NoReturn:
    """Raise the error of columns that hold text; ``cell`` is the first one, in ``row``."""
    several = len(columns) > 1
    raise_format_error(
        path,
        f"the column{'s' if several else ''} {listed(columns)} hold{'' if several else 's'} "
        f"text, not numbers (row {row}: {cell[:80]!r}).",
        hint=f"Keep {'them' if several else 'it'} as information with info={list(columns)!r}, "
        "or encode the text as numbers.",
    )


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
    """Return the columns other than features, one entry per instance; losing data is an error."""
    info = {**bags.bag_info, **bags.instance_info}
    wide = [name for name, values in info.items() if values.ndim != 1]
    wide = [name for name in wide if text or name in bags.bag_info or info[name].ndim > 2]
    if wide and not lossy:
        raise_format_error(
            path,
            f"the format {format_name!r} cannot hold {listed(wide)} of the info, which have "
            "several values for a bag or an instance.",
            hint="Pass lossy=True to leave them out, or choose npz.",
        )
    with naming(path):
        columns = bags.to_columns(bag=bag, label=label, instance_label=instance_label)
    return {
        name: plain(path, values, f"the column {name!r}")
        for name, values in columns.items()
        if name not in wide
    }


def text_column(values: NDArray[Any]) -> Any:
    """Return a column of text or whole numbers; other numbers are written as Python does."""
    if values.dtype.kind == "f":
        return [None if value != value else repr(value) for value in values.tolist()]
    return values if values.dtype.kind in "iuUO" else as_text(values)


def table_blocks(
    bags: Bags, fixed: dict[str, NDArray[Any]], dtype: Any, *, text: bool = True
) -> Iterator[Any]:
    """Yield the long table as Arrow record batches of bounded size."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    names = bags.get_feature_names()
    for start, end, values in dense_blocks(bags):
        columns = {
            name: arrow_column(text_column(part[start:end]) if text else part[start:end])
            for name, part in fixed.items()
        }
        for position, name in enumerate(names):
            columns[name] = arrow.array(np.ascontiguousarray(values[:, position], dtype=dtype))
        yield arrow.record_batch(columns)


def arrow_column(values: Any) -> Any:
    """Return a 1-D array or list as an Arrow array, a 2-D array as lists of fixed length."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    if isinstance(values, list) or values.dtype.kind in "UO":
        return arrow.array(list(values), type=arrow.string())
    if values.ndim == 2:
        flat = arrow.array(np.ascontiguousarray(values).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.array(values)


def encode_arrow(column: Any) -> Coded:
    """Encode an Arrow column by its distinct values; nulls become None."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return Coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))
