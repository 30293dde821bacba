"""Tables: Parquet and Arrow, in files and folders ``name=value``; Excel, ARFF and svmlight."""

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil.bags import LazyBags, concatenate_lazy
from pigmil.bags._checks import check_memory
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
from pigmil.io._build import Table, bags_of_table, check_unique, column_of, table_roles
from pigmil.io._defence import check_readable, parsing, raise_format_error
from pigmil.io._formats import Request, table_files
from pigmil.io._text import (
    MISSING_MARKS,
    decode_rows,
    detect_decimal,
    open_text,
    raise_not_numbers,
)

NOTES = b"pigmil"  # schema metadata: the roles of columns, where the names do not show them
_NULL = "__HIVE_DEFAULT_PARTITION__"  # what a missing value is called in the name of a folder
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
    columns = folder_columns([file.relative_to(path) for file in files])
    pairs = zip(files, columns, strict=True)
    return concatenate_lazy([_scan_file(file, request, fixed) for file, fixed in pairs])


def _scan_file(path: Path, request: Request, fixed: dict[str, Any]) -> LazyBags:
    with open_table(path) as file:
        table = _FileTable.of(path, file, fixed)
        roles = table_roles(table, request)
        lists = [kind for kind in map(table.columns.get, roles.features) if is_list_type(kind)]
        by_rows = not lists or (len(lists) == 1 and hasattr(lists[0], "list_size"))
        if by_rows and isinstance(file, ParquetFile):
            return bags_of_table(table, request, roles)
        # Lists of any length and Arrow's own format are not read in parts.
        arrow = file.read_all([name for name in table.columns if name not in fixed])
        for name, value in fixed.items():
            arrow = arrow.append_column(name, [[value] * len(arrow)])
        if lists:
            columns, instances = columns_of_lists(arrow, roles)
        else:
            columns = {
                name: values_of(arrow.column(name), keep_type=name not in roles.info)
                for name in table.columns
                if name not in roles.features
            }
            instances = np.empty((len(arrow), len(roles.features)), table.dtype(roles))
            copy_columns([arrow.column(name) for name in roles.features], instances)
        loaded = Table(path, columns, instances, roles.features, noted=table.noted)
        return bags_of_table(loaded, request, roles)


def folder_columns(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the columns that the folders of each path stand for.

    They become int where all values of the column are whole numbers. A missing one is NaN among
    them and '' among text.

    Examples
    --------
    >>> folder_columns([Path("site=a%20b/bag_label=-1/0.parquet"), Path("site=2/bag_label=1/0.pq")])
    [{'site': 'a b', 'bag_label': -1}, {'site': '2', 'bag_label': 1}]
    """
    found = [dict(part.split("=", 1) for part in path.parts[:-1] if "=" in part) for path in paths]
    columns = {}
    for name in {name for own in found for name in own}:
        texts = [own.get(name, _NULL) for own in found]
        known = [None if text == _NULL else unquote(text) for text in texts]
        columns[name] = column_of(decode_rows(known, "id").tolist()).tolist()
    return [{name: columns[name][at] for name in own} for at, own in enumerate(found)]


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[Any]:
    """Open a Parquet file, or read a file or stream (as Hugging Face writes them) of Arrow.

    Files are read, not mapped: a mapped file that is cut short meanwhile ends the process.
    """
    pyarrow = import_optional("pyarrow", extra="io", purpose="Reading Parquet")
    ipc = import_optional("pyarrow.ipc", extra="io", purpose="Reading Arrow")
    with parsing(path, "Parquet or Arrow"), pyarrow.OSFile(str(path)) as handle:
        start = handle.read(6)
        handle.seek(0)
        if start[:4] == b"PAR1":
            yield ParquetFile(handle)
        else:
            check_memory(path, path.stat().st_size)
            table = (ipc.open_file if start == b"ARROW1" else ipc.open_stream)(handle).read_all()
            table.validate(full=True)  # Arrow follows offsets without a look at the ends
            yield _ArrowTable(table)


class _ArrowTable:
    """A table in memory, with what is used of a Parquet file to find its columns."""

    def __init__(self, table: Any) -> None:
        self.schema, self.n_rows, self.read_all = table.schema, len(table), table.select


class ParquetFile:
    """An open Parquet file, of which one row group is in memory."""

    def __init__(self, handle: Any) -> None:
        parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading Parquet")
        self._file = parquet.ParquetFile(handle)
        self.schema, self.n_rows = self._file.schema_arrow, self._file.metadata.num_rows
        groups = map(self._file.metadata.row_group, range(self._file.num_row_groups))
        lengths = [group.num_rows for group in groups]
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._group, self._columns = -1, dict[str, Any]()  # Arrow columns of one row group

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


@dataclass(frozen=True)
class TableSource(Source):
    """Rows of a Parquet file.

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
        return open_table(Path(self.stamp.path))

    def read(self, file: ParquetFile, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the features."""
        out = np.empty((stop - start, self.width), dtype=self.dtype)
        self.read_into(file, start, stop, out)
        return out

    def read_into(self, file: ParquetFile, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array."""
        for group, into, rows in file.groups(start, stop):
            size = rows.stop - rows.start
            columns = [part.slice(rows.start, size) for part in file.columns(self.columns, group)]
            if is_list_type(columns[0].type):
                out[into] = numbers_of_lists(columns[0])
            else:
                copy_columns(columns, out[into])

    def read_column(self, file: ParquetFile, key: str, start: int, stop: int) -> NDArray[Any]:
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
    def of(cls, path: Path, file: Any, fixed: dict[str, Any]) -> "_FileTable":
        schema = file.schema
        names = [name for name in schema.names if not name.startswith(PANDAS_INDEX)]
        check_unique(path, names)
        kinds: dict[str, Any] = {name: schema.field(name).type for name in names}
        text = [
            one for one in names if not (is_number_type(kinds[one]) or is_list_type(kinds[one]))
        ]
        noted = dict(json.loads((schema.metadata or {}).get(NOTES, b"{}")))
        others = [name for name in fixed if name not in (*BAG_NAMES, *LABEL_NAMES)]
        noted["bag_info"] = [*noted.get("bag_info", []), *others]
        return cls(path, kinds | fixed, text=text, noted=noted, file=file, fixed=fixed)

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        """Return a column for its role."""
        if name in self.fixed:
            return np.full(self.file.n_rows, self.fixed[name], dtype=object)
        return values_of(self.file.read_all([name]).column(0), keep_type=role != "info")

    def source(self, roles: Roles, request: Request) -> tuple[Source, int, Any, bool]:
        """Return the source of the features and info, the width, the type and whether sparse."""
        kinds = [self.columns[name] for name in roles.features]
        lists = is_list_type(kinds[0])
        width = kinds[0].list_size if lists else len(kinds)
        info = {name: name for name in roles.info}
        if roles.instance_label is not None:
            info[INSTANCE_LABELS] = roles.instance_label
        dtype, stamp = self.dtype(roles), Stamp.of(self.path)
        source = TableSource(stamp, tuple(info.items()), roles.features, width, dtype)
        return source, width, dtype, False

    def dtype(self, roles: Roles) -> np.dtype[Any]:
        """Return the type of the features once they are read."""
        kinds = [self.columns[name] for name in roles.features]
        single = {str(getattr(kind, "value_type", kind)) for kind in kinds} == {"float"}
        return np.dtype(np.float32 if single else np.float64)


class _CellTable(Table):
    """A table of cells: numbers, text, and None where a cell is empty."""

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        return decode_rows(list(self.columns[name]), role, request.ids if role == "id" else None)


def sheet_rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the first sheet of a workbook, blank ones left out.

    Parameters
    ----------
    path : Path
        An XLSX file.
    """
    openpyxl = import_optional("openpyxl", extra="io", purpose="Reading XLSX")
    with parsing(path, "XLSX"):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        with contextlib.closing(book):
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # a stated size that is too small would hide rows
            for row in sheet.iter_rows(values_only=True):
                if any(cell is not None for cell in row):
                    yield list(row)


def columns_of_rows(path: Path, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as columns by name; the first row names them, and short rows are filled up."""
    header, *rest = [*rows] or [[]]
    if not rest:
        raise_format_error(path, "has no rows.")
    names = ["" if name is None else str(name).strip() for name in header]
    while names and not names[-1]:
        names.pop()
    # Tables written by pandas begin with an unnamed column of row numbers.
    names = [name or f"column {position}" for position, name in enumerate(names)]
    check_unique(path, names, where="row 1")
    width = len(names)
    for number, row in enumerate(rest, start=2):
        if any(cell not in (None, "") for cell in row[width:]):
            problem = f"expected {width} values, got {len(row)}."
            raise_format_error(path, problem, where=f"row {number}")
    cells = [[*row, *[None] * width][:width] for row in rest]
    return {name: [row[at] for row in cells] for at, name in enumerate(names)}


def scan_xlsx(path: Path, request: Request) -> LazyBags:
    """Read the first sheet; its first row names the columns. Numbers may be stored as text."""
    by_name = columns_of_rows(path, sheet_rows(path))
    texts = {name: [_text(cell) for cell in column] for name, column in by_name.items()}
    rows = [list(by_name), *zip(*texts.values(), strict=True)]
    decimal = request.decimal or detect_decimal(path, ",", rows)
    outline = _CellTable(path, by_name, first_row=2)
    roles = table_roles(outline, request)
    raise_not_numbers(path, {name: texts[name] for name in roles.features}, decimal)
    columns: dict[str, Any] = {
        name: _numbers(column, decimal) if name in roles.features else [*map(_plain, column)]
        for name, column in by_name.items()
    }
    return bags_of_table(replace(outline, columns=columns), request, roles)


def _text(cell: Any) -> str:
    """Return a cell as text, empty for a number."""
    return "" if cell is None or isinstance(cell, int | float) else str(cell).strip()


def _plain(cell: Any) -> Any:
    """Return a cell as text or number as it is displayed: 1.0 is 1, dates become text."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)


def _numbers(column: Any, decimal: str) -> NDArray[Any]:
    """Return a column of numbers, also written as text, with NaN where they are missing."""

    def number(cell: Any) -> float:
        if isinstance(cell, int | float):
            return cell
        text = _text(cell)
        return np.nan if text in MISSING_MARKS else float(text.replace(decimal, "."))

    return np.array([number(cell) for cell in column], dtype=np.float64)


def scan_arff(path: Path, request: Request) -> LazyBags:
    """Read ARFF: relational, with one row per bag as WEKA writes it, or one row per instance.

    In a relational file the id is the attribute before the relation, and the label the attribute
    called class, bag_label, label or y, else the last one.
    """
    arff = import_optional("scipy.io.arff", extra="", purpose="Reading ARFF")
    hint = (
        "Text attributes, sparse rows and values in single quotes are not read; WEKA's "
        "StringToNominal and SparseToNonSparse filters remove the first two. Files of KEEL are "
        "read by pigmil.datasets.read_original."
    )
    with parsing(path, "ARFF", hint=hint), open_text(path, request.encoding) as file:
        rows, meta = arff.loadarff(file)
    if not len(rows):
        raise_format_error(path, "has no rows.")
    names, kinds = list(meta.names()), list(meta.types())
    if kinds.count("relational") > 1:
        raise_format_error(path, "has several relational attributes; a file of bags has one.")
    outer = [name for name, kind in zip(names, kinds, strict=True) if kind != "relational"]
    columns = {name: _decoded(rows[name]) for name in outer}
    lower = {name.lower(): name for name in reversed(outer)}
    label = next((lower[name] for name in ("class", *LABEL_NAMES) if name in lower), outer[-1])
    if "relational" in kinds:
        relation = kinds.index("relational")
        bags = rows[names[relation]]
        sizes = np.array([len(bag) for bag in bags])
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        if relation == 0:
            columns = {"bag": np.repeat(np.arange(1, len(bags) + 1), sizes), **columns}
        instances = np.concatenate(list(bags))
        for name in instances.dtype.names or ():
            if name in columns:
                raise_format_error(path, f"has several attributes of the name {name!r}.")
            columns[name] = _decoded(instances[name])
        bag = "bag" if relation == 0 else names[relation - 1]
        request = request.changed(bag=bag if request.bag is None else request.bag)
        label = label if label != request.bag else None
        roles = (request.bag, request.label or label, *request.info, *request.bag_info)
        others = tuple(name for name in outer if name not in roles)
        request = request.changed(bag_info=(*request.bag_info, *others))
    if request.label is None and label is not None:
        request = request.changed(label=label)
    text = [name for name, values in columns.items() if values.dtype == object]
    return bags_of_table(_CellTable(path, columns, text=text), request)


def _decoded(values: NDArray[Any]) -> NDArray[Any]:
    """Return nominal values, which scipy holds as bytes, as text; a question mark is missing."""
    if values.dtype.kind != "S":
        return values
    return np.array([value.decode("utf-8", "replace") for value in values], dtype=object)


def scan_svmlight(path: Path, request: Request) -> LazyBags:
    """Read ``label qid:bag index:value ...``; the instances are sparse."""
    datasets = import_optional("sklearn.datasets", extra="", purpose="Reading svmlight")
    with parsing(path, "svmlight", hint="Every line needs a qid: it names the bag."):
        instances, labels, bags = datasets.load_svmlight_file(
            str(path), zero_based=False, query_id=True
        )
    if len(bags) != len(labels):
        raise_format_error(
            path, f"has a qid in {len(bags)} of {len(labels)} lines.", hint="It names the bag."
        )
    whole = (labels == np.round(labels)).all()
    columns = {"bag": bags, "label": labels.astype(np.int64) if whole else labels}
    return bags_of_table(Table(path, columns, instances), request)
