"""Parquet with one row a bag, the instances in columns of lists."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io import parquet as long
from pigmil.io.common import Request, check_memory, listed, naming, raise_format_error, writing
from pigmil.io.long_table import FileRows
from pigmil.io.table import Roles, arrow_column, columns_to_write
from pigmil.io.values import feature_names_of


def read(path: Path, request: Request) -> Bags:
    """Read parquet; the layout is told from the columns."""
    return long.read(path, request)


def read_open(path: Path, file: Any, roles: Roles, request: Request, kept: dict[str, Any]) -> Bags:
    """Read one row a bag: a column of lists for each feature, or one of lists of vectors."""
    names, types = file.schema_arrow.names, file.schema_arrow.types
    plain = [names[place] for place in roles.features if not long.is_list(types[place])]
    if plain:
        raise_format_error(
            path,
            f"some features are lists and {listed(plain)} are not.",
            hint="Give every feature one list a bag, or drop those columns with info=[...].",
        )
    inner = [types[place].value_type for place in roles.features]
    nested = len(inner) == 1 and long.is_list(inner[0])
    dtype = long.float_type([inner[0].value_type] if nested else inner, request)
    row = 0
    with naming(path), FileRows(path, request, mappable=True, typed=True) as table:
        table.where = lambda instance: f"instance {instance + 1}"
        for batch in long.batches(file, len(names) * 64):
            sizes = _sizes(path, batch, roles, names, row)
            if not request.memory_map:
                check_memory(path, int(sizes.sum()) * len(roles.features) * 8, mappable=True)
            features = _features(path, batch, roles, nested, int(sizes.sum()), dtype)
            rest = long.other_columns(batch, roles, names, lambda column: column.flatten())
            spread = np.repeat(np.arange(batch.num_rows), sizes)
            bag, label, instance, info, bag_info = rest
            per_bag = {name: _spread(column, spread) for name, column in bag_info.items()}
            table.add(
                features, _spread(bag, spread), _spread(label, spread), instance, info, per_bag
            )
            row += batch.num_rows
        feature_names = None if nested else [names[place] for place in roles.features]
        bags = table.build(None if kept.get("unnamed") else feature_names)
    if bags.n_bags != row:
        raise_format_error(
            path, f"has {row} rows but {bags.n_bags} different bags; a bag has one row here."
        )
    return bags


def _spread(column: Coded | None, spread: NDArray[Any]) -> Any:
    return None if column is None else Coded(column.values, column.codes[spread])


def _sizes(path: Path, batch: Any, roles: Roles, names: list[str], row: int) -> NDArray[Any]:
    """Instances of each bag; all lists of a row must agree and none be missing or empty."""
    compute = import_optional("pyarrow.compute", extra="io", purpose="Reading parquet")
    places = [place for place in (roles.instance_label, *roles.info) if place is not None]
    first = None
    for place in (*roles.features, *places):
        if not long.is_list(batch.column(place).type):
            raise_format_error(path, f"the column {names[place]!r} must hold a list for each bag.")
        counts = (
            compute.list_value_length(batch.column(place))
            .fill_null(0)
            .to_numpy(zero_copy_only=False)
        )
        if (counts == 0).any():
            where = f"row {row + int(np.argmax(counts == 0)) + 1}"
            raise_format_error(
                path,
                f"the list {names[place]!r} is empty or missing.",
                where=where,
                hint="Every bag needs at least one instance.",
            )
        if first is None:
            first = counts
        elif (counts != first).any():
            bad = int(np.argmax(counts != first))
            raise_format_error(
                path,
                f"{names[place]!r} has {counts[bad]} entries where "
                f"{names[roles.features[0]]!r} has {first[bad]}.",
                where=f"row {row + bad + 1}",
                hint="All lists of a bag have one entry an instance.",
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
        return long.numbers(vectors.flatten()).astype(dtype).reshape(n_rows, widths.pop())
    values = np.empty((n_rows, len(roles.features)), dtype=dtype)
    for column, place in enumerate(roles.features):
        values[:, column] = long.numbers(batch.column(place).flatten())
    return values


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
    """Write one row a bag; each feature is a column of lists, one entry an instance."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing parquet")
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet")
    fixed = columns_to_write(
        bags,
        path,
        "parquet_list",
        bag=bag,
        label=label,
        instance_label=instance_label,
        lossy=lossy,
        text=False,
    )
    names = feature_names_of(bags)
    metadata = long.note(bags, fixed, (bag, label, instance_label))
    with writing(path) as temporary:
        writer = None
        try:
            for first, last in _groups(bags):
                rows = slice(int(bags.offsets[first]), int(bags.offsets[last]))
                cuts = arrow.array((bags.offsets[first : last + 1] - rows.start).astype(np.int32))
                values = bags.instances[rows]
                values = values.toarray() if bags.is_sparse else np.asarray(values)
                columns = {}
                for name, part in fixed.items():
                    if name in (bag, label, *bags.bag_info):
                        columns[name] = arrow_column(part[bags.offsets[first:last]])
                    else:
                        columns[name] = _listed(arrow, cuts, arrow_column(part[rows]))
                for place, name in enumerate(names):
                    flat = arrow.array(np.ascontiguousarray(values[:, place]))
                    columns[name] = _listed(arrow, cuts, flat)
                block = arrow.record_batch(columns).replace_schema_metadata(metadata)
                writer = writer or parquet.ParquetWriter(
                    str(temporary), block.schema, compression=compression
                )
                writer.write_batch(block)
        finally:
            if writer is not None:
                writer.close()


def _listed(arrow: Any, cuts: Any, flat: Any) -> Any:
    return arrow.ListArray.from_arrays(cuts, flat)


def _groups(bags: Bags, n_values: int = 1 << 21) -> Any:
    """Yield first and last of runs of bags that together hold a bounded number of values."""
    first = 0
    step = max(1, n_values // bags.n_features)
    while first < bags.n_bags:
        last = int(np.searchsorted(bags.offsets, bags.offsets[first] + step, side="right")) - 1
        last = min(max(last, first + 1), bags.n_bags)
        yield first, last
        first = last
