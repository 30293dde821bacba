"""Tables that describe bags: labels, patients and splits, from a file or a data frame."""

import csv
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import is_frame, text_array
from pigmil.io._common import (
    bounded_lines,
    check_memory,
    check_readable,
    listed,
    open_text,
    parsing,
    raise_format_error,
)
from pigmil.io._values import decode
from pigmil.io._workbook import sheet_rows

DELIMITERS = ",;\t|"
_MAX_ROWS = 10_000_000
_MAX_HEADER = 1 << 20
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]")


@dataclass(frozen=True)
class LabelTable:
    """Columns of a table by name; a missing value is None.

    Attributes
    ----------
    path : Path
        The file, or a name for a data frame; for messages.
    columns : dict of str to list
        Values of each column.
    """

    path: Path
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def find(self, name: str, parameter: str) -> str:
        """Return the name of a column, or raise an error that lists the columns."""
        if name not in self.columns:
            raise_format_error(
                self.path,
                f"has no column {name!r}; its columns are {listed(self.columns)}.",
                hint=f"Name the column with {parameter}=.",
            )
        return name


def read_label_table(
    source: Any, *, delimiter: str | None = None, encoding: str = "utf-8"
) -> LabelTable:
    """Read a table from CSV, TSV (also gzipped), XLSX, Parquet or a data frame.

    Parameters
    ----------
    source : path, DataFrame, mapping of columns, or LabelTable
        The table; the first row of a file names the columns.
    delimiter : str, optional
        Of text; by default the comma, semicolon, tab or bar that the first row holds most.
    encoding : str, default="utf-8"
        Of text.

    Examples
    --------
    >>> read_label_table({"slide_id": ["a", "b"], "label": [0, 1]}).columns["label"]
    [0, 1]
    """
    if isinstance(source, LabelTable):
        return source
    if is_frame(source):
        return LabelTable(Path("the data frame"), _frame_columns(source))
    if isinstance(source, Mapping):
        return LabelTable(
            Path("the table"), {str(name): list(values) for name, values in source.items()}
        )
    path = Path(os.fspath(source))
    check_readable(path)
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        return LabelTable(path, _parquet_columns(path))
    if start == b"PK\x03\x04":
        return LabelTable(path, _by_column(path, sheet_rows(path)))
    rows = text_rows(path, delimiter=delimiter, encoding=encoding)
    return LabelTable(path, _by_column(path, rows))


def text_rows(path: Path, *, delimiter: str | None, encoding: str) -> Iterator[list[str]]:
    """Yield the rows of delimited text, blank ones left out."""
    with parsing(path, "delimited text"), open_text(path, encoding) as text:
        sign = delimiter or _guess_delimiter(text)
        if len(sign) != 1:
            raise_format_error(path, f"delimiter={sign!r} must be one character.")
        try:
            lines = bounded_lines(path, text)
            yield from (row for row in csv.reader(lines, delimiter=sign) if any(row))
        except csv.Error as error:
            raise_format_error(path, f"is not delimited text ({error}).")


def _guess_delimiter(text: IO[str]) -> str:
    first, length = "", 0
    while not first.strip() and length < _MAX_HEADER and (line := text.readline(_MAX_HEADER)):
        first = line
        length += len(line)
    text.seek(0)
    return max(DELIMITERS, key=first.count)


def _cell(value: Any) -> Any:
    """Return a number or text; a missing value is None, a date becomes text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value != value or value == "":
        return None
    return value if isinstance(value, bool | int | float | str) else str(value)


def _by_column(path: Path, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as columns; the first row has their names."""
    iterator = iter(rows)
    header = next(iterator, None)
    if header is None:
        raise_format_error(path, "has no rows.")
    names = ["" if name is None else str(name).strip() for name in header]
    while names and not names[-1]:
        names.pop()
    # Tables written by pandas begin with an unnamed column of row numbers.
    names = [name or f"column {position}" for position, name in enumerate(names)]
    _check_unique(path, names)
    columns: list[list[Any]] = [[] for _ in names]
    for number, row in enumerate(iterator, start=2):
        cells = [_cell(cell) for cell in row]
        if any(cell is not None for cell in cells[len(names) :]) or number > _MAX_ROWS:
            raise_format_error(
                path,
                f"expected {len(names)} values, got {len(cells)}."
                if number <= _MAX_ROWS
                else "has too many rows for a table of bags.",
                where=f"row {number}",
            )
        cells += [None] * (len(names) - len(cells))
        for column, cell in zip(columns, cells, strict=False):
            column.append(cell)
    return dict(zip(names, columns, strict=True))


def _check_unique(path: Path, names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise_format_error(path, f"has columns of the same name: {listed(repeated)}.")
    if any("\udc80" <= sign <= "\udcff" for name in names for sign in name):
        raise_format_error(
            path, "is not valid UTF-8.", where="row 1", hint="Name its encoding with encoding=."
        )


def _frame_columns(frame: Any) -> dict[str, list[Any]]:
    nw = import_optional("narwhals", extra="frames", purpose="Reading a DataFrame")
    table = nw.from_native(frame, eager_only=True)
    return {
        str(name): [_cell(value) for value in table.get_column(name).to_list()]
        for name in table.columns
    }


def _parquet_columns(path: Path) -> dict[str, list[Any]]:
    arrow = import_optional("pyarrow", extra="io", purpose="Reading parquet")
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading parquet")
    with parsing(path, "parquet"), parquet.ParquetFile(path) as file:
        if file.metadata.num_rows > _MAX_ROWS:
            raise_format_error(path, "has too many rows for a table of bags.")
        names = [one.name for one in file.schema_arrow if not arrow.types.is_nested(one.type)]
        check_memory(path, 100 * len(names) * file.metadata.num_rows)
        table = file.read(columns=names)
        return {
            name: [_cell(value) for value in table.column(name).to_pylist()]
            for name in names
            if not name.startswith("__index_level_")
        }


def id_text(value: Any) -> str:
    """Return an id as text; a spreadsheet turns whole numbers into 7.0.

    Examples
    --------
    >>> id_text(7.0), id_text("007 "), id_text(7)
    ('7', '007', '7')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def info_array(values: Sequence[Any]) -> NDArray[Any]:
    """Return the values of a column as an array of numbers or text.

    Text becomes numbers if all values are numbers and none has a leading zero, as codes
    of patients and sites have. A missing value is NaN among numbers and '' among text.

    Examples
    --------
    >>> info_array(["1", "2"]), info_array(["01", "2"]), info_array([0.5, None])
    (array([1, 2]), array(['01', '2'], dtype=object), array([0.5, nan]))
    """
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        texts = [id_text(value) for value in known]
        coded = any(_LEADING_ZERO.match(text) for text in texts)
        known = texts if coded else decode(texts).tolist()
    if len(known) < len(values):
        is_text = any(isinstance(value, str) for value in known)
        remaining = iter(known)
        known = [
            ("" if is_text else np.nan) if value is None else next(remaining) for value in values
        ]
    return text_array(known)
