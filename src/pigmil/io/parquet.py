"""Parquet: long (one row an instance), or one row a bag with columns of lists; in a stream."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io.common import (
    Request,
    check_memory,
    listed,
    naming,
    parsing,
    raise_format_error,
    writing,
)
from pigmil.io.delimited import coded_arrow
from pigmil.io.long_table import FileRows
from pigmil.io.table import Roles, columns_to_write, find_roles, table_blocks

_BATCH_VALUES, _MAX_VALUES = 1 << 19, 1 << 22
# No more of a file is held than what is being decoded, and no list is longer than data needs.
_OPEN = {
    "pre_buffer": False,
    "buffer_size": 1 << 16,
    "thrift_string_size_limit": 1 << 28,
    "thrift_container_size_limit": 1 << 24,
}
KEY = b"pigmil"  # schema metadata: which columns are what, where the names alone do not tell


def read(path: Path, request: Request) -> Bags:
    """Read parquet of either layout, told apart by whether features are lists."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading parquet")
    with parsing(path, "parquet"), parquet.ParquetFile(str(path), **_OPEN) as file:
        names, types = file.schema_arrow.names, file.schema_arrow.types
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise_format_error(path, f"has columns of the same name: {listed(twice)}.")
        kept = _kept(file.schema_arrow)
        info, bag_info = (
            tuple(name for name in kept.get(field, []) if name in names)
            for field in ("info", "bag_info")
        )
        request = replace(request, info=request.info or info, bag_info=request.bag_info or bag_info)
        roles = find_roles(path, names, request)
        kinds = [types[place] for place in roles.features]
        if any(is_list(kind) for kind in kinds):
            from pigmil.io import parquet_list

            return parquet_list.read_open(path, file, roles, request, kept)
        _check_numeric(path, [names[place] for place in roles.features], kinds)
        dtype = float_type(kinds, request)
        if not request.memory_map:
            size = file.metadata.num_rows * len(kinds) * dtype.itemsize
            check_memory(path, size, mappable=True)
        return _read_long(path, file, roles, request, dtype, kept)


def _read_long(
    path: Path, file: Any, roles: Roles, request: Request, dtype: np.dtype[Any], kept: Any
) -> Bags:
    names = list(file.schema_arrow.names)
    with naming(path), FileRows(path, request, mappable=True, typed=True) as table:
        for batch in batches(file, len(names)):
            features = np.empty((batch.num_rows, len(roles.features)), dtype=dtype)
            for place, position in enumerate(roles.features):
                features[:, place] = numbers(batch.column(position))
            table.add(features, *other_columns(batch, roles, names))
        feature_names = [names[place] for place in roles.features]
        return table.build(None if kept.get("unnamed") else feature_names)


def batches(file: Any, n_columns: int) -> Iterator[Any]:
    """Yield record batches of bounded size, one row group after the other."""
    fewest = min(512, _MAX_VALUES // max(1, n_columns))  # a batch costs some time a column
    size = max(1, fewest, min(1 << 16, _BATCH_VALUES // max(1, n_columns)))
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
            if batch.num_rows:
                yield batch


def other_columns(
    batch: Any, roles: Roles, names: list[str], flat: Callable[[Any], Any] = lambda column: column
) -> tuple[Any, ...]:
    """Bag, label, instance label and info of a batch; ``flat`` undoes lists of instances."""

    def column(position: int | None, undo: Callable[[Any], Any]) -> Coded | None:
        return None if position is None else coded_arrow(_hashable(undo(batch.column(position))))

    info = {}
    for position in roles.info:
        part = flat(batch.column(position))
        info[names[position]] = fixed_lists(part) if is_list(part.type) else coded_arrow(part)
    bag_info = {
        names[place]: coded_arrow(_hashable(batch.column(place))) for place in roles.bag_info
    }
    return (
        column(roles.bag, lambda part: part),
        column(roles.label, lambda part: part),
        column(roles.instance_label, flat),
        info,
        bag_info,
    )


def numbers(column: Any) -> NDArray[Any]:
    """Values of a column of numbers, NaN where it has none."""
    if str(column.type) not in ("double", "float"):
        column = column.cast("double", safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def fixed_lists(column: Any) -> NDArray[Any]:
    """2-D array of a column whose lists are all of one length."""
    width = len(column[0]) if len(column) else 0
    values = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(column), width)


def _hashable(column: Any) -> Any:
    """Ids and labels as text or numbers: bytes, dates and the like are turned into text."""
    if str(column.type).startswith("dictionary"):
        column = column.dictionary_decode()
    plain = ("int", "uint", "float", "double", "bool", "string")
    return column if str(column.type).startswith(plain) else column.cast("string")


def is_list(kind: Any) -> bool:
    """Whether a type of Arrow is one of its kinds of lists."""
    return str(kind).startswith(("list<", "large_list<", "fixed_size_list<"))


def _check_numeric(path: Path, names: list[str], kinds: list[Any]) -> None:
    numeric = ("int", "uint", "float", "double", "halffloat", "bool", "decimal")
    bad = [
        name for name, kind in zip(names, kinds, strict=True) if not str(kind).startswith(numeric)
    ]
    if bad:
        raise_format_error(
            path,
            f"the columns {listed(bad)} are not numeric.",
            hint="Encode them as numbers, keep them with info=[...], or name them as bag=, label= "
            "or instance_label=.",
        )


def float_type(kinds: list[Any], request: Request) -> np.dtype[Any]:
    """Type that the values get: what was asked for, float32 where all are, else float64."""
    if request.dtype is not None:
        return np.dtype(request.dtype)
    return np.dtype(np.float32 if {str(kind) for kind in kinds} == {"float"} else np.float64)


def _kept(schema: Any) -> dict[str, Any]:
    """What the writer noted beside the table; anything odd is as good as nothing."""
    try:
        kept = json.loads((schema.metadata or {}).get(KEY, b"{}"))
    except ValueError:
        return {}
    if not isinstance(kept, dict):
        return {}
    if not all(isinstance(kept.get(field, []), list) for field in ("info", "bag_info")):
        return {}
    return kept


def note(bags: Bags, fixed: dict[str, Any], roles: tuple[str, ...]) -> dict[bytes, bytes]:
    """Schema metadata that says which columns are neither features nor labels."""
    kept = {
        "info": [name for name in fixed if name not in roles and name not in bags.bag_info],
        "bag_info": [name for name in fixed if name in bags.bag_info],
        "unnamed": bags.feature_names is None,
    }
    return {KEY: json.dumps(kept).encode()}


def write(
    bags: Bags,
    path: Path,
    *,
    bag: str = "bag",
    label: str = "bag_label",
    instance_label: str = "instance_label",
    compression: str = "zstd",
    lossy: bool = False,
) -> None:
    """Write a long table, one row an instance; types of ids, labels and values are kept."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet")
    fixed = columns_to_write(
        bags,
        path,
        "parquet",
        bag=bag,
        label=label,
        instance_label=instance_label,
        lossy=lossy,
        text=False,
    )
    with writing(path) as temporary:
        writer = None
        try:
            for block in table_blocks(bags, fixed, bags.dtype, text=False):
                block = block.replace_schema_metadata(
                    note(bags, fixed, (bag, label, instance_label))
                )
                writer = writer or parquet.ParquetWriter(
                    str(temporary), block.schema, compression=compression
                )
                writer.write_batch(block)
        finally:
            if writer is not None:
                writer.close()
