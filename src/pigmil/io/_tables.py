"""Parquet, Arrow and Feather: files, folders of them, and folders ``name=value``."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil.bags import LazyBags, concatenate_lazy
from pigmil.bags._columns import (
    BAG_NAMES,
    LABEL_NAMES,
    Roles,
    columns_of_lists,
    copy_columns,
    is_list_type,
    is_number_type,
    numbers_of_lists,
    values_of,
)
from pigmil.bags._lazy import INSTANCE_LABELS, Source, Stamp
from pigmil.io._build import Table, bags_of_table, check_unique, table_roles
from pigmil.io._defence import check_readable, parsing
from pigmil.io._formats import Request, table_files

NOTES = b"pigmil"  # schema metadata: the roles of columns, where the names do not show them
PANDAS_INDEX = "__index_level_"  # columns in which pandas stores row labels


def scan_table(path: Path, request: Request) -> LazyBags:
    """Scan a Parquet or Arrow file, or a folder of them; only bag, label and bag info are read.

    There is one row per instance, with one column per feature or one column of vectors, or one row
    per bag, with one column of lists per feature or one column of lists of vectors.
    """
    if not path.is_dir():
        return _scan_file(path, request, {})
    files = table_files(path)
    for file in files:
        check_readable(file)
    scans = [_scan_file(file, request, folder_columns(file.relative_to(path))) for file in files]
    return concatenate_lazy(scans)


def _scan_file(path: Path, request: Request, fixed: dict[str, Any]) -> LazyBags:
    with parsing(path, "Parquet or Arrow"), ArrowFile(path) as file:
        table = _FileTable.of(path, file, fixed)
        roles = table_roles(table, request)
        lists = [kind for kind in map(table.columns.get, roles.features) if is_list_type(kind)]
        if not lists or (len(lists) == 1 and hasattr(lists[0], "list_size")):
            return bags_of_table(table, request, roles)
        # Lists of any length are not read in parts.
        arrow = file.read_all([name for name in table.columns if name not in fixed])
        for name, value in fixed.items():
            arrow = arrow.append_column(name, [[value] * len(arrow)])
        columns, instances = columns_of_lists(arrow, roles)
        return bags_of_table(Table(path, columns, instances, noted=table.noted), request, roles)


def folder_columns(path: Path) -> dict[str, Any]:
    """Return the columns that the folders of a path stand for; whole numbers become int.

    Examples
    --------
    >>> folder_columns(Path("site=a%20b/bag_label=1/part-0.parquet"))
    {'site': 'a b', 'bag_label': 1}
    """
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    texts = {name: unquote(value) for name, value in pairs}
    return {
        name: int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        for name, text in texts.items()
    }


class ArrowFile:
    """An open Parquet or Arrow file: row groups or record batches, one of them in memory.

    Files are read, not mapped: a mapped file that is cut short meanwhile ends the process.
    """

    def __init__(self, path: Path) -> None:
        pyarrow = import_optional("pyarrow", extra="io", purpose="Reading Parquet")
        self._stack = contextlib.ExitStack()
        handle = self._stack.enter_context(pyarrow.OSFile(str(path)))
        start = handle.read(6)
        handle.seek(0)
        if start[:4] == b"PAR1":
            parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading Parquet")
            self._file = parquet.ParquetFile(handle)
            self.schema = self._file.schema_arrow
            groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
            lengths = [group.num_rows for group in groups]
        else:
            self._file = _BatchFile(handle, is_file=start == b"ARROW1")
            self.schema, lengths = self._file.schema, self._file.lengths
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._group, self._columns = -1, dict[str, Any]()  # Arrow columns of one row group

    def __enter__(self) -> "ArrowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read_all(self, names: list[str]) -> Any:
        """Return columns of all rows as an Arrow table."""
        return self._file.read(columns=names)

    def columns(self, names: tuple[str, ...], group: int) -> list[Any]:
        """Return columns of a row group; they stay in memory until another group is read."""
        if group != self._group:
            self._group, self._columns = group, {}
        absent = [name for name in names if name not in self._columns]
        if absent:
            read = self._file.read_row_group(group, columns=absent)
            self._columns |= {name: read.column(name) for name in absent}
        return [self._columns[name] for name in names]

    def groups(self, start: int, stop: int) -> Iterator[tuple[int, slice, slice]]:
        """Yield the row groups of a range, the rows of the range, and those of the group."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for group in range(first, len(self.starts) - 1):
            begin, end = int(self.starts[group]), int(self.starts[group + 1])
            if begin >= stop:
                return
            low, high = max(start, begin), min(stop, end)
            yield group, slice(low - start, high - start), slice(low - begin, high - begin)


class _BatchFile:
    """Arrow's own format, with the methods of ``ParquetFile`` that are used here.

    Of a file one record batch is read at a time; a stream (as Hugging Face writes them) is read
    whole, because it has no index of its batches.
    """

    def __init__(self, handle: Any, *, is_file: bool) -> None:
        self._ipc = import_optional("pyarrow.ipc", extra="io", purpose="Reading Arrow")
        self._handle = handle
        self._batches: Any = None
        if is_file:
            opened = self._reader([0])
            self.schema = self._ipc.open_file(handle).schema
            numbers = range(opened.num_record_batches)
            self.lengths = [opened.get_batch(number).num_rows for number in numbers]
        else:
            self._batches = list(self._ipc.open_stream(handle))
            self.schema = self._batches[0].schema
            self.lengths = [batch.num_rows for batch in self._batches]

    def _reader(self, fields: list[int]) -> Any:
        options = self._ipc.IpcReadOptions(included_fields=fields)
        return self._ipc.open_file(self._handle, options=options)

    def read_row_group(self, group: int, columns: list[str]) -> Any:
        import pyarrow

        if self._batches is None:
            fields = sorted(self.schema.get_field_index(name) for name in columns)
            batch = self._reader(fields).get_batch(group)
        else:
            batch = self._batches[group]
        batch.validate(full=True)  # Arrow follows offsets without a look at the ends
        return pyarrow.Table.from_batches([batch]).select(columns)

    def read(self, columns: list[str]) -> Any:
        import pyarrow

        groups = range(len(self.lengths))
        return pyarrow.concat_tables([self.read_row_group(group, columns) for group in groups])


@dataclass(frozen=True)
class TableSource(Source):
    """Rows of a Parquet or Arrow file.

    Parameters
    ----------
    columns : tuple of str
        One column per feature, or one column of vectors.
    width : int
        Number of features.
    dtype : dtype
        Type of the values.
    """

    columns: tuple[str, ...] = ()
    width: int = 0
    dtype: Any = np.float64

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Return the open file."""
        with self.parser_errors():
            return ArrowFile(Path(self.stamp.path))

    def parser_errors(self) -> contextlib.AbstractContextManager[Any]:
        """Turn errors of pyarrow into :class:`BagFormatError`."""
        return parsing(Path(self.stamp.path), "Parquet or Arrow")

    def read(self, file: ArrowFile, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the features."""
        out = np.empty((stop - start, self.width), dtype=self.dtype)
        self.read_into(file, start, stop, out)
        return out

    def read_into(self, file: ArrowFile, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array."""
        for group, into, rows in file.groups(start, stop):
            size = rows.stop - rows.start
            columns = [part.slice(rows.start, size) for part in file.columns(self.columns, group)]
            if is_list_type(columns[0].type):
                out[into] = numbers_of_lists(columns[0])
            else:
                copy_columns(columns, out[into])

    def read_column(self, file: ArrowFile, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a further column."""
        parts = [
            values_of(file.columns((key,), group)[0].slice(rows.start, rows.stop - rows.start))
            for group, _, rows in file.groups(start, stop)
        ]
        return np.concatenate(parts)


@dataclass
class _FileTable(Table):
    """A table in a file, of which columns are read when they are needed."""

    file: Any = None
    fixed: Any = None  # columns that folders stand for: one value for all rows

    @classmethod
    def of(cls, path: Path, file: ArrowFile, fixed: dict[str, Any]) -> "_FileTable":
        schema = file.schema
        names = [name for name in schema.names if not name.startswith(PANDAS_INDEX)]
        check_unique(path, names)
        kinds: dict[str, Any] = {name: schema.field(name).type for name in names}
        text = [
            one for one in names if not (is_number_type(kinds[one]) or is_list_type(kinds[one]))
        ]
        noted = _noted(schema)
        others = [name for name in fixed if name not in (*BAG_NAMES, *LABEL_NAMES)]
        noted["bag_info"] = [*noted.get("bag_info", []), *others]
        return cls(path, kinds | fixed, text=text, noted=noted, file=file, fixed=fixed)

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        """Return a column for its role."""
        if name in self.fixed:
            return np.full(int(self.file.starts[-1]), self.fixed[name], dtype=object)
        return values_of(self.file.read_all([name]).column(0), keep_type=role != "info")

    def source(self, roles: Roles, request: Request) -> tuple[Source, int, Any, bool]:
        """Return the source of the features and info, the width, the type and whether sparse."""
        kinds = [self.columns[name] for name in roles.features]
        lists = is_list_type(kinds[0])
        width = kinds[0].list_size if lists else len(kinds)
        single = {str(kind.value_type if lists else kind) for kind in kinds} == {"float"}
        dtype = np.dtype(np.float32 if single else np.float64)
        info = {name: name for name in roles.info}
        if roles.instance_label is not None:
            info[INSTANCE_LABELS] = roles.instance_label
        source = TableSource(Stamp.of(self.path), tuple(info.items()), roles.features, width, dtype)
        return source, width, dtype, False


def _noted(schema: Any) -> dict[str, Any]:
    """Return what the writer noted, or nothing if it cannot be read."""
    try:
        noted = json.loads((schema.metadata or {}).get(NOTES, b"{}"))
        names = [*noted.get("info", []), *noted.get("bag_info", [])]
    except (ValueError, AttributeError, TypeError):
        return {}
    return noted if all(isinstance(name, str) for name in names) else {}
