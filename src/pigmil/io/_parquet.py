"""Parquet as a stream: one row per instance, or one row per bag with columns of lists."""

import contextlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io._common import (
    Request,
    check_memory,
    listed,
    naming,
    parsing,
    raise_format_error,
    writing,
)
from pigmil.io._parquet_footer import values_per_row_group
from pigmil.io._rows import FileRows, Roles, encode_arrow, find_roles
from pigmil.io._writing import arrow_column, columns_to_write, table_blocks

_BATCH_VALUES, _MAX_VALUES = 1 << 19, 1 << 22
# Only what is being decoded is in memory, and lists of the header are bounded.
_OPEN = {
    "pre_buffer": False,
    "buffer_size": 1 << 16,
    "thrift_string_size_limit": 1 << 28,
    "thrift_container_size_limit": 1 << 24,
}
_BATCH_BYTES = 100 << 20  # a batch as Arrow holds it, its rows, and the last slab of the result
_DECODED_BYTES = 56  # for each value of a list: levels, values, copies of them, and its bag
_KEY = b"pigmil"  # schema metadata: the roles of columns, where the names do not show them


def read(path: Path, request: Request) -> Bags:
    """Read parquet of either layout, distinguished by whether features are lists."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading parquet")
    with parsing(path, "parquet"), parquet.ParquetFile(str(path), **_OPEN) as file:
        names, types = file.schema_arrow.names, file.schema_arrow.types
        if len(set(names)) < len(names):
            twice = sorted(name for name, count in Counter(names).items() if count > 1)
            raise_format_error(path, f"has columns of the same name: {listed(twice)}.")
        noted = notes_of(file.schema_arrow)
        known = set(names)
        info, bag_info = (
            tuple(name for name in noted.get(field, []) if name in known)
            for field in ("info", "bag_info")
        )
        request = replace(request, info=request.info or info, bag_info=request.bag_info or bag_info)
        roles = find_roles(path, names, request)
        kinds = [types[position] for position in roles.features]
        if any(_is_list(kind) for kind in kinds):
            return _read_lists(path, file, roles, request, noted)
        _check_numeric(path, [names[position] for position in roles.features], kinds)
        dtype = _float_type(kinds, request)
        if not request.memory_map:
            size = file.metadata.num_rows * len(kinds) * dtype.itemsize
            check_memory(path, size + _BATCH_BYTES, mappable=True)
        return _read_long(path, file, roles, request, dtype, noted)


read_lists = read  # the layout is detected from the columns


def _read_long(
    path: Path, file: Any, roles: Roles, request: Request, dtype: np.dtype[Any], noted: Any
) -> Bags:
    names = list(file.schema_arrow.names)
    with naming(path), FileRows(path, request, mappable=True, typed=True) as table:
        for batch in _batches(file, len(names)):
            features = np.empty((batch.num_rows, len(roles.features)), dtype=dtype)
            for place, position in enumerate(roles.features):
                features[:, place] = _numbers(batch.column(position))
            table.add(features, *_other_columns(batch, roles, names))
        feature_names = [names[place] for place in roles.features]
        return table.build(None if noted.get("unnamed") else feature_names)


def _batches(file: Any, n_columns: int) -> Iterator[Any]:
    """Yield record batches of bounded size, one row group after the other."""
    fewest = min(512, _MAX_VALUES // max(1, n_columns))  # a batch costs some time per column
    size = max(1, fewest, min(1 << 16, _BATCH_VALUES // max(1, n_columns)))
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
            if batch.num_rows:
                yield batch


def _other_columns(
    batch: Any, roles: Roles, names: list[str], flat: Callable[[Any], Any] = lambda column: column
) -> tuple[Any, ...]:
    """Return bag, label, instance label and info of a batch; ``flat`` flattens lists."""

    def column(position: int | None, undo: Callable[[Any], Any]) -> Coded | None:
        return None if position is None else encode_arrow(_hashable(undo(batch.column(position))))

    info = {}
    for position in roles.info:
        part = flat(batch.column(position))
        info[names[position]] = _fixed_lists(part) if _is_list(part.type) else encode_arrow(part)
    bag_info = {
        names[place]: encode_arrow(_hashable(batch.column(place))) for place in roles.bag_info
    }
    return (
        column(roles.bag, lambda part: part),
        column(roles.label, lambda part: part),
        column(roles.instance_label, flat),
        info,
        bag_info,
    )


def _numbers(column: Any) -> NDArray[Any]:
    """Return the values of a column of numbers, NaN where they are missing."""
    if str(column.type) not in ("double", "float"):
        column = column.cast("double", safe=False)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _fixed_lists(column: Any) -> NDArray[Any]:
    """Return a column of lists of equal length as a 2-D array."""
    width = len(column[0]) if len(column) else 0
    values = column.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(column), width)


def _hashable(column: Any) -> Any:
    """Return ids and labels as text or numbers: bytes, dates and other types become text."""
    if hasattr(column, "dictionary"):
        return type(column).from_arrays(column.indices, _hashable(column.dictionary))
    plain = ("int", "uint", "float", "double", "bool", "string")
    return column if str(column.type).startswith(plain) else column.cast("string")


def _is_list(kind: Any) -> bool:
    """Return whether a type of Arrow is one of its kinds of lists."""
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


def _float_type(kinds: list[Any], request: Request) -> np.dtype[Any]:
    """Return the requested type of the values; by default float32 if all are, else float64."""
    if request.dtype is not None:
        return np.dtype(request.dtype)
    return np.dtype(np.float32 if {str(kind) for kind in kinds} == {"float"} else np.float64)


def notes_of(schema: Any) -> dict[str, Any]:
    """Return the notes of the writer, or nothing if they cannot be read."""
    try:
        noted = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
    except ValueError:
        return {}
    if not isinstance(noted, dict):
        return {}
    for field in ("info", "bag_info"):
        listed_names = noted.get(field, [])
        if not isinstance(listed_names, list) or not all(
            isinstance(name, str) for name in listed_names
        ):
            return {}
    return noted


def _read_lists(
    path: Path, file: Any, roles: Roles, request: Request, noted: dict[str, Any]
) -> Bags:
    """Read one row per bag: a column of lists for each feature, or one of lists of vectors."""
    names, types = file.schema_arrow.names, file.schema_arrow.types
    plain = [names[position] for position in roles.features if not _is_list(types[position])]
    if plain:
        raise_format_error(
            path,
            f"some features are lists and {listed(plain)} are not.",
            hint="Give every feature one list per bag, or drop those columns with info=[...].",
        )
    inner = [types[position].value_type for position in roles.features]
    nested = len(inner) == 1 and _is_list(inner[0])
    dtype = _float_type([inner[0].value_type] if nested else inner, request)
    _check_lists(path, dtype, mapped=bool(request.memory_map))
    row = 0
    with naming(path), FileRows(path, request, mappable=True, typed=True) as table:
        table.where = lambda instance: f"instance {instance + 1}"
        for batch in _batches(file, len(names) * 64):
            sizes = _sizes(path, batch, roles, names, row)
            if not request.memory_map:
                check_memory(path, int(sizes.sum()) * len(roles.features) * 8, mappable=True)
            features = _features(path, batch, roles, nested, int(sizes.sum()), dtype)
            rest = _other_columns(batch, roles, names, lambda column: column.flatten())
            spread = np.repeat(np.arange(batch.num_rows), sizes)
            bag, label, instance, info, bag_info = rest
            per_bag = {name: _repeat(column, spread) for name, column in bag_info.items()}
            table.add(
                features, _repeat(bag, spread), _repeat(label, spread), instance, info, per_bag
            )
            row += batch.num_rows
        feature_names = None if nested else [names[position] for position in roles.features]
        bags = table.build(None if noted.get("unnamed") else feature_names)
    if bags.n_bags != row:
        raise_format_error(
            path, f"has {row} rows but {bags.n_bags} different bags; a bag has one row here."
        )
    return bags


def _check_lists(path: Path, dtype: np.dtype[Any], *, mapped: bool) -> None:
    """Raise an error if lists are too large for memory: a few bytes may encode many values.

    A row group is decoded whole if its lists are long, and a bag is never split.
    """
    sizes = values_per_row_group(path)
    result = 0 if mapped else sum(sizes) * dtype.itemsize
    check_memory(path, result + max(sizes, default=0) * _DECODED_BYTES, mappable=True)


def _repeat(column: Coded | None, spread: NDArray[Any]) -> Any:
    return None if column is None else Coded(column.values, column.codes[spread])


def _sizes(path: Path, batch: Any, roles: Roles, names: list[str], row: int) -> NDArray[Any]:
    """Return the size of each bag; lists of a row must have the same length, not 0."""
    compute = import_optional("pyarrow.compute", extra="io", purpose="Reading parquet")
    others = [at for at in (roles.instance_label, *roles.info) if at is not None]
    first = None
    for position in (*roles.features, *others):
        if not _is_list(batch.column(position).type):
            raise_format_error(
                path, f"the column {names[position]!r} must hold a list for each bag."
            )
        counts = (
            compute.list_value_length(batch.column(position))
            .fill_null(0)
            .to_numpy(zero_copy_only=False)
        )
        if (counts == 0).any():
            where = f"row {row + int(np.argmax(counts == 0)) + 1}"
            raise_format_error(
                path,
                f"the list {names[position]!r} is empty or missing.",
                where=where,
                hint="Every bag needs at least one instance.",
            )
        if first is None:
            first = counts
        elif (counts != first).any():
            bad = int(np.argmax(counts != first))
            raise_format_error(
                path,
                f"{names[position]!r} has {counts[bad]} entries where "
                f"{names[roles.features[0]]!r} has {first[bad]}.",
                where=f"row {row + bad + 1}",
                hint="All lists of a bag need one entry per instance.",
            )
    assert first is not None
    return np.asarray(first).astype(np.int64)


def _features(
    path: Path, batch: Any, roles: Roles, nested: bool, n_rows: int, dtype: Any
) -> NDArray[Any]:
    if nested:
        vectors = batch.column(roles.features[0]).flatten()
        compute = import_optional("pyarrow.compute", extra="io", purpose="Reading parquet")
        widths = set(compute.list_value_length(vectors).unique().to_pylist())
        if len(widths) != 1 or None in widths or 0 in widths:
            raise_format_error(
                path, f"has instances of {len(widths)} different lengths; all need the same."
            )
        return _numbers(vectors.flatten()).astype(dtype).reshape(n_rows, widths.pop())
    values = np.empty((n_rows, len(roles.features)), dtype=dtype)
    for column, position in enumerate(roles.features):
        values[:, column] = _numbers(batch.column(position).flatten())
    return values


def _write_table(
    format_name: str,
    bags: Bags,
    path: Path,
    *,
    bag: str = "bag",
    label: str = "bag_label",
    instance_label: str = "instance_label",
    compression: str = "zstd",
    lossy: bool = False,
) -> None:
    """Write one row per instance, or one row per bag with lists of one entry per instance.

    Types of ids, labels and values are kept.
    """
    names = {"bag": bag, "label": label, "instance_label": instance_label}
    columns = columns_to_write(bags, path, format_name, **names, lossy=lossy, text=False)
    if format_name == "parquet_list":
        blocks = _list_blocks(bags, columns, {bag, label, *bags.bag_info})
    else:
        blocks = table_blocks(bags, columns, bags.dtype, text=False)
    _write(path, blocks, _note(bags, columns, names), compression)


write = partial(_write_table, "parquet")
write_lists = partial(_write_table, "parquet_list")


def _write(
    path: Path, blocks: Iterator[Any], metadata: dict[bytes, bytes], compression: str
) -> None:
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet")
    with writing(path) as (temporary,), contextlib.ExitStack() as stack:
        writer = None
        for block in blocks:
            block = block.replace_schema_metadata(metadata)
            writer = writer or stack.enter_context(
                parquet.ParquetWriter(str(temporary), block.schema, compression=compression)
            )
            writer.write_batch(block)


def _note(bags: Bags, columns: Iterable[str], names: dict[str, str]) -> dict[bytes, bytes]:
    """Return schema metadata that says which columns are info and whether features are named."""
    others = [name for name in columns if name not in names.values()]
    noted = {
        "info": [name for name in others if name not in bags.bag_info],
        "bag_info": [name for name in others if name in bags.bag_info],
        "unnamed": bags.feature_names is None,
    }
    return {_KEY: json.dumps(noted).encode()}


def _list_blocks(
    bags: Bags, columns: dict[str, NDArray[Any]], per_bag: set[str], n_values: int = 1 << 21
) -> Iterator[Any]:
    """Yield record batches of whole bags that together hold a bounded number of values."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing parquet")
    step = max(1, n_values // bags.n_features)
    first = 0
    while first < bags.n_bags:
        last = int(np.searchsorted(bags.offsets, bags.offsets[first] + step, side="right")) - 1
        last = min(max(last, first + 1), bags.n_bags)
        rows = slice(int(bags.offsets[first]), int(bags.offsets[last]))
        ends = arrow.array((bags.offsets[first : last + 1] - rows.start).astype(np.int32))
        values = bags.instances[rows]
        values = values.toarray() if bags.is_sparse else np.asarray(values)
        block = {
            name: arrow_column(column[bags.offsets[first:last]])
            if name in per_bag
            else arrow.ListArray.from_arrays(ends, arrow_column(column[rows]))
            for name, column in columns.items()
        }
        for position, name in enumerate(bags.get_feature_names()):
            flat = arrow.array(np.ascontiguousarray(values[:, position]))
            block[name] = arrow.ListArray.from_arrays(ends, flat)
        yield arrow.record_batch(block)
        first = last
