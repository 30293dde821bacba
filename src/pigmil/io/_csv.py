"""Comma- and tab-separated text, one row per instance, read as a stream through pyarrow."""

import contextlib
import csv
import gzip
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io._common import (
    Request,
    bounded_lines,
    is_gzip,
    listed,
    naming,
    open_text,
    parsing,
    raise_format_error,
    writing,
)
from pigmil.io._rows import FileRows, Roles, encode_arrow, find_roles, refuse_text_columns
from pigmil.io._writing import columns_to_write, table_blocks

_HEADER_LENGTH = 1 << 24
_ENCODING = "Save the file as UTF-8 or name its encoding, e.g. encoding='latin-1'."
_QUOTE = "A quote that is opened and never closed does this."
_SAMPLE_ROWS = 1000  # rows that decide which columns hold text
# Text that means a missing value in a column of numbers.
MISSING_MARKS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>")
_BLOCK_BYTES = 1 << 19  # pyarrow reads some thirty of these ahead


def read(
    path: Path,
    request: Request,
    *,
    delimiter: str = ",",
    header: bool = True,
    encoding: str = "utf-8",
) -> Bags:
    """Read a long table of text.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    delimiter : str, default=","
        One character.
    header : bool, default=True
        Whether the first row names the columns; without one, columns are named by position:
        ``bag=0``, ``label=1``.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    if len(delimiter) != 1:
        raise_format_error(path, f"delimiter={delimiter!r} must be one character.")
    columns, n_skipped, header_bytes = _columns(path, delimiter, header, encoding)
    hint = _hint(columns, delimiter, header)
    if hint and len(columns) == 1:
        raise_format_error(path, f"has only one column, {columns[0][:80]!r}.", hint=hint)
    roles = find_roles(path, columns, request, hint=hint)
    text = _Text(path, columns, roles, delimiter, header, encoding, n_skipped, header_bytes)
    try:
        return _read_rows(text, request, marks=("",))
    except _MissingMarkError:
        return _read_rows(text, request, marks=MISSING_MARKS)


@dataclass(frozen=True)
class _Text:
    """A file of delimited text: its columns and how it is written."""

    path: Path
    columns: list[str]
    roles: Roles
    delimiter: str
    header: bool
    encoding: str
    n_skipped: int  # blank lines before the first row
    header_bytes: int


def _read_rows(text: _Text, request: Request, *, marks: tuple[str, ...]) -> Bags:
    """Read the rows; ``marks`` are texts that mean a missing feature."""
    arrow = import_optional("pyarrow", extra="io", purpose="Reading csv")
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Reading csv")
    number = arrow.float32() if request.dtype == np.float32 else arrow.float64()
    names = [str(position) for position in range(len(text.columns))]
    types = dict.fromkeys(names, arrow.string())
    types |= {names[position]: number for position in text.roles.features}
    first = 2 if text.header else 1
    only_empty = marks == ("",)
    with (
        naming(text.path),
        FileRows(
            text.path, request, where=lambda row: f"row {row + first}", mappable=True
        ) as table,
    ):
        with _explained(text, only_empty), _open_bytes(text.path, arrow) as source:
            reader = arrow_csv.open_csv(
                source,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=max(_BLOCK_BYTES, 64 * text.header_bytes),
                    column_names=names,
                    # Blank rows are counted here, unlike those between the rows of data.
                    skip_rows_after_names=text.n_skipped + 1 if text.header else 0,
                    encoding=text.encoding,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=text.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    null_values=list(marks),
                    # With more marks, NA would also be missing as an id or a label.
                    strings_can_be_null=only_empty,
                    quoted_strings_can_be_null=False,
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    table.add(*_columns_of(batch, text, request, blank_is_missing=not only_empty))
        names_out = [text.columns[at] for at in text.roles.features] if text.header else None
        return table.build(names_out)


def _open_bytes(path: Path, arrow: Any) -> Any:
    """Open a file for pyarrow, unpacking gzip by its first bytes."""
    if is_gzip(path):
        return arrow.CompressedInputStream(arrow.OSFile(str(path)), "gzip")
    return arrow.OSFile(str(path))


def _columns(path: Path, delimiter: str, header: bool, encoding: str) -> tuple[list[str], int, int]:
    """Return names of the columns, the number of blank lines before, and the length of the row.

    Without a header the names are positions.
    """
    with gzip.open(path) if is_gzip(path) else path.open("rb") as file, parsing(path, "gzip"):
        start = file.read(4096)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") and encoding == "utf-8":
        raise_format_error(
            path, "is encoded as UTF-16.", where="row 1", hint="Pass encoding='utf-16'."
        )
    if b"\0" in start and "16" not in encoding and "32" not in encoding:
        raise_format_error(
            path, "contains zero bytes, so it is not text.", where="row 1", hint="Pass format=."
        )
    lengths: list[int] = []
    columns: list[str] = []
    blank = 0
    # Bytes that are not text are accepted here: pyarrow reports their row.
    with parsing(path, "delimited text"), open_text(path, encoding) as text:
        for row in csv.reader(_first_lines(path, text, lengths), delimiter=delimiter):
            if row:
                columns = row
                break
            blank += 1
    if not columns:
        raise_format_error(path, "has no rows.")
    if not header:
        return [str(position) for position in range(len(columns))], blank, sum(lengths)
    if any(map(_has_bad_bytes, columns)):
        raise_format_error(path, "is not valid UTF-8.", where="row 1", hint=_ENCODING)
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise_format_error(
            path,
            f"has columns of the same name: {listed(repeated)}.",
            where="row 1",
            hint="Rename them, or pass header=False and positions.",
        )
    return columns, blank, sum(lengths)


def _first_lines(path: Path, text: IO[str], lengths: list[int]) -> Iterator[str]:
    """Yield the lines that may belong to the first row, and record their lengths."""
    total = 0
    while line := text.readline(_HEADER_LENGTH):
        # A byte order mark would hide a quote after it.
        line = line if lengths else line.removeprefix("\ufeff")
        lengths.append(len(line))
        total += len(line)
        if total >= _HEADER_LENGTH:
            raise_format_error(
                path, "has a first row that is too long.", where="row 1", hint=_QUOTE
            )
        yield line


def _hint(columns: list[str], delimiter: str, header: bool) -> str:
    if len(columns) == 1:
        other = next((sign for sign in ";\t,| " if sign in columns[0] and sign != delimiter), None)
        if other:
            return f"The first row has no {delimiter!r}; try delimiter={other!r}."
    if header and all(_is_number(name) for name in columns):
        return "The first row holds numbers only; if there is no header pass header=False."
    return ""


class _MissingMarkError(Exception):
    """Features contain text such as NA for missing values."""


@contextlib.contextmanager
def _explained(text: _Text, only_empty: bool) -> Iterator[None]:
    """Add row, column and reason to an error of pyarrow."""
    try:
        with parsing(text.path, "delimited text"):
            yield
    except BagFormatError as error:
        if error.__cause__ is not None:  # raised by pyarrow, not by one of our checks
            _find_problem(text, only_empty)
        raise


def _find_problem(text: _Text, only_empty: bool) -> None:
    """Read the file row by row, slowly, and raise the first problem with its place."""
    number = 0
    marked = False
    path, columns = text.path, text.columns
    try:
        with open_text(path, text.encoding) as lines:
            for row in csv.reader(bounded_lines(path, lines), delimiter=text.delimiter):
                if not row:
                    continue
                number += 1
                if any(map(_has_bad_bytes, row)):
                    raise_format_error(
                        path, "is not valid UTF-8.", where=f"row {number}", hint=_ENCODING
                    )
                if len(row) != len(columns):
                    raise_format_error(
                        path,
                        f"expected {len(columns)} values, got {len(row)}.",
                        where=f"row {number}",
                        hint="The row may be cut short or hold an unquoted delimiter.",
                    )
                if text.header and number == 1:
                    continue
                for position in text.roles.features:
                    cell = row[position]
                    if not cell or _is_number(cell):
                        continue
                    if cell in MISSING_MARKS:
                        marked = True
                        continue
                    _refuse_text(text, number, position, cell)
    except csv.Error:
        raise_format_error(
            path, "has a row that is too long.", where=f"row {number + 1}", hint=_QUOTE
        )
    if marked and only_empty:
        raise _MissingMarkError


def _refuse_text(text: _Text, number: int, position: int, cell: str) -> None:
    """Raise the error of a cell that is not a number; list all columns with text."""
    columns = text.columns
    with open_text(text.path, text.encoding) as lines:
        bounded = bounded_lines(text.path, lines)
        rows = (row for row in csv.reader(bounded, delimiter=text.delimiter) if row)
        sample = list(itertools.islice(rows, int(text.header), _SAMPLE_ROWS))
    whole = [row for row in sample if len(row) == len(columns)]
    holding_text = []
    for place in text.roles.features:
        known = [row[place] for row in whole if row[place] and row[place] not in MISSING_MARKS]
        if known and not any(map(_is_number, known)):
            holding_text.append(columns[place] if text.header else place)
    column = columns[position] if text.header else position
    if column not in holding_text:
        raise_format_error(
            text.path,
            f"{cell[:80]!r} is not a number.",
            where=f"row {number}, column {column!r}",
            hint=f"Encode it as a number, leave the column out, or keep it with info={[column]!r}.",
        )
    refuse_text_columns(text.path, holding_text, number, cell)


def _has_bad_bytes(text: str) -> bool:
    """Return whether bytes that could not be decoded were read as lone surrogates."""
    return any("\udc80" <= sign <= "\udcff" for sign in text)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _columns_of(
    batch: Any, text: _Text, request: Request, *, blank_is_missing: bool
) -> tuple[Any, ...]:
    roles, columns = text.roles, text.columns
    kind = np.float32 if request.dtype == np.float32 else np.float64
    features = np.empty((batch.num_rows, len(roles.features)), dtype=kind)
    for place, position in enumerate(roles.features):
        features[:, place] = batch.column(position).to_numpy(zero_copy_only=False)

    def column(position: int | None) -> Coded | None:
        if position is None:
            return None
        coded = encode_arrow(batch.column(position))
        if blank_is_missing:
            coded = Coded([value or None for value in coded.values], coded.codes)
        return coded

    info, bag_info = (
        {columns[position]: column(position) for position in positions}
        for positions in (roles.info, roles.bag_info)
    )
    return (
        features,
        column(roles.bag),
        column(roles.label),
        column(roles.instance_label),
        info,
        bag_info,
    )


def write(
    bags: Bags,
    path: Path,
    *,
    delimiter: str = ",",
    bag: str = "bag",
    label: str = "bag_label",
    instance_label: str = "instance_label",
    lossy: bool = False,
) -> None:
    """Write a long table of text, one row per instance.

    Numbers are written so that reading returns exactly the same values. Text has no types: ids and
    labels that are text but look like numbers come back as numbers unless ``ids=str`` or
    ``labels=str`` says otherwise, and info columns have to be named with ``info=`` and
    ``bag_info=`` when reading.
    """
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
    names = {"bag": bag, "label": label, "instance_label": instance_label}
    columns = columns_to_write(bags, path, "csv", **names, lossy=lossy, text=True)
    options = arrow_csv.WriteOptions(delimiter=delimiter)
    with (
        writing(path) as (temporary,),
        temporary.open("wb") as file,
        contextlib.ExitStack() as stack,
    ):
        writer = None
        for block in table_blocks(bags, columns, np.float64):
            writer = writer or stack.enter_context(
                arrow_csv.CSVWriter(file, block.schema, write_options=options)
            )
            writer.write(block)


read_tsv = partial(read, delimiter="\t")
write_tsv = partial(write, delimiter="\t")
