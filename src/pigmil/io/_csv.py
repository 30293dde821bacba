"""Comma- and tab-separated text, one row per instance, read as a stream through pyarrow."""

import contextlib
import csv
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io._common import Request, listed, naming, parsing, raise_format_error, writing
from pigmil.io._rows import FileRows
from pigmil.io._table import Roles, columns_to_write, encode_arrow, find_roles, table_blocks

_HEADER_LENGTH = 1 << 24
_ENCODING = "Save the file as UTF-8 or name its encoding, e.g. encoding='latin-1'."
_QUOTE = "A quote that is opened and never closed does this."
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
        Whether the first row names the columns; without one, ``bag=0`` and ``label=1`` say by
        position what they are.
    encoding : str, default="utf-8"
        Encoding of the file.
    """
    arrow = import_optional("pyarrow", extra="io", purpose="Reading csv")
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Reading csv")
    if len(delimiter) != 1:
        raise_format_error(path, f"delimiter={delimiter!r} must be one character.")
    columns, n_blank, header_bytes = _columns(path, delimiter, header, encoding)
    roles = find_roles(path, columns, request, hint=_hint(columns, delimiter, header))
    number = arrow.float32() if request.dtype == np.float32 else arrow.float64()
    names = [str(position) for position in range(len(columns))]
    types = dict.fromkeys(names, arrow.string())
    types |= {names[position]: number for position in roles.features}
    first = 2 if header else 1
    with (
        naming(path),
        FileRows(path, request, where=lambda row: f"row {row + first}", mappable=True) as table,
    ):
        with _explained(path, columns, roles, delimiter, header, encoding):
            reader = arrow_csv.open_csv(
                str(path),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=max(_BLOCK_BYTES, 64 * header_bytes),
                    column_names=names,
                    # Blank rows are counted here, unlike those between the rows of data.
                    skip_rows_after_names=n_blank + 1 if header else 0,
                    encoding=encoding,
                ),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
            for batch in reader:
                if batch.num_rows:
                    table.add(*_columns_of(batch, roles, columns, request))
        names_out = [columns[position] for position in roles.features] if header else None
        return table.build(names_out)


def _columns(path: Path, delimiter: str, header: bool, encoding: str) -> tuple[list[str], int, int]:
    """Return names of columns, number of blank rows before them, and the length of the first row.

    Without a header the names are positions.
    """
    with path.open("rb") as file:
        start = file.read(4096)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff") and encoding == "utf-8":
        raise_format_error(
            path, "is encoded as UTF-16.", where="row 1", hint="Pass encoding='utf-16'."
        )
    if b"\0" in start and "16" not in encoding and "32" not in encoding:
        raise_format_error(
            path, "holds zero bytes, so it is not text.", where="row 1", hint="Pass format=."
        )
    lengths: list[int] = []
    columns: list[str] = []
    n_blank = 0
    with (
        parsing(path, "delimited text"),
        # Bytes that are no text pass here: pyarrow names the row they are in.
        path.open(encoding=encoding, errors="surrogateescape", newline="") as text,
    ):
        for row in csv.reader(_first_lines(path, text, lengths), delimiter=delimiter):
            if row:
                columns = row
                break
            n_blank += 1
    if not columns:
        raise_format_error(path, "has no rows.")
    if not header:
        return [str(position) for position in range(len(columns))], n_blank, sum(lengths)
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
    return columns, n_blank, sum(lengths)


def _first_lines(path: Path, text: IO[str], lengths: list[int]) -> Iterator[str]:
    """Yield lines as long as they may belong to the first row; notes how long they were."""
    while line := text.readline(_HEADER_LENGTH):
        # The mark of the byte order would hide a quote behind it.
        line = line if lengths else line.removeprefix("\ufeff")
        lengths.append(len(line))
        if sum(lengths) >= _HEADER_LENGTH:
            raise_format_error(
                path, "has a first row too long to be one.", where="row 1", hint=_QUOTE
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


@contextlib.contextmanager
def _explained(
    path: Path, columns: list[str], roles: Roles, delimiter: str, header: bool, encoding: str
) -> Iterator[None]:
    """Find row, column and reason where pyarrow refuses a file."""
    try:
        with parsing(path, "delimited text"):
            yield
    except BagFormatError as error:
        if error.__cause__ is not None:  # raised by pyarrow, not by one of our checks
            _find_problem(path, columns, roles, delimiter, header, encoding)
        raise


def _find_problem(
    path: Path, columns: list[str], roles: Roles, delimiter: str, header: bool, encoding: str
) -> None:
    """Read the file row by row, slowly, and raise the first problem with its place."""
    number = 0
    try:
        with path.open(encoding=encoding, errors="surrogateescape", newline="") as text:
            for row in csv.reader(text, delimiter=delimiter):
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
                if header and number == 1:
                    continue
                for position in roles.features:
                    if row[position] and not _is_number(row[position]):
                        raise_format_error(
                            path,
                            f"{row[position][:80]!r} is not a number.",
                            where=f"row {number}, column {columns[position]!r}",
                            hint="Encode it as a number, leave the column out, or keep it with "
                            "info=[...].",
                        )
    except csv.Error:
        raise_format_error(
            path, "has a row too long to be one.", where=f"row {number + 1}", hint=_QUOTE
        )


def _has_bad_bytes(text: str) -> bool:
    """Whether bytes that could not be decoded were read as lone surrogates."""
    return any("\udc80" <= sign <= "\udcff" for sign in text)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _columns_of(batch: Any, roles: Roles, columns: list[str], request: Request) -> tuple[Any, ...]:
    kind = np.float32 if request.dtype == np.float32 else np.float64
    features = np.empty((batch.num_rows, len(roles.features)), dtype=kind)
    for place, position in enumerate(roles.features):
        features[:, place] = batch.column(position).to_numpy(zero_copy_only=False)

    def column(position: int | None) -> Coded | None:
        return None if position is None else encode_arrow(batch.column(position))

    info, bag_info = (
        {columns[position]: encode_arrow(batch.column(position)) for position in positions}
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

    Numbers are written so that they are read back bit for bit. Text has no types: ids and
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
