"""Comma- and tab-separated text, one row an instance; read in a stream through pyarrow."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded
from pigmil.io.common import Request, listed, naming, parsing, raise_format_error, writing
from pigmil.io.long_table import FileRows
from pigmil.io.table import Roles, columns_to_write, find_roles, table_blocks

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
        The file and what is wanted from it.
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
    columns, header_bytes = _columns(path, delimiter, header, encoding)
    roles = find_roles(path, columns, request, hint=_hint(columns, delimiter, header))
    number = arrow.float32() if request.dtype == np.float32 else arrow.float64()
    names = [str(position) for position in range(len(columns))]
    types = {
        name: number if position in roles.feature_set else arrow.string()
        for position, name in enumerate(names)
    }
    first = 2 if header else 1
    with (
        naming(path),
        FileRows(path, request, where=lambda row: f"row {row + first}", mappable=True) as table,
    ):
        with _pleading(path, columns):
            reader = arrow_csv.open_csv(
                str(path),
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,
                    block_size=max(_BLOCK_BYTES, 64 * header_bytes),
                    column_names=names,
                    skip_rows_after_names=1 if header else 0,
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
                    table.add(*_parts(batch, roles, columns, request))
        names_out = [columns[position] for position in roles.features] if header else None
        return table.build(names_out)


def _columns(path: Path, delimiter: str, header: bool, encoding: str) -> tuple[list[str], int]:
    """Names of the columns (positions without a header) and the length of the first row."""
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
    with (
        parsing(path, "delimited text"),
        # Bytes that are no text pass here: pyarrow names the row they are in.
        path.open(encoding=encoding, errors="surrogateescape", newline="") as text,
    ):
        for row in csv.reader(_first_lines(path, text, lengths), delimiter=delimiter):
            if row:
                columns = row
                break
    if not columns:
        raise_format_error(path, "has no rows.")
    columns[0] = columns[0].removeprefix("\ufeff")
    if not header:
        return [str(position) for position in range(len(columns))], sum(lengths)
    if any("\udc80" <= sign <= "\udcff" for name in columns for sign in name):
        raise_format_error(path, "is not valid UTF-8.", where="row 1", hint=_ENCODING)
    repeated = sorted(name for name, count in Counter(columns).items() if count > 1)
    if repeated:
        raise_format_error(
            path,
            f"has columns of the same name: {listed(repeated)}.",
            where="row 1",
            hint="Rename them, or pass header=False and positions.",
        )
    return columns, sum(lengths)


def _first_lines(path: Path, text: IO[str], lengths: list[int]) -> Iterator[str]:
    """Yield lines as long as they may belong to the first row; notes how long they were."""
    while line := text.readline(_HEADER_LENGTH):
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
    if header and all(re.fullmatch(r"[-+.0-9eE]+", name) for name in columns):
        return "The first row holds numbers only; if there is no header pass header=False."
    return ""


class _pleading:
    """Explain what pyarrow found wrong: it names the row and the column by position."""

    def __init__(self, path: Path, columns: list[str]) -> None:
        self.path, self.columns = path, columns
        self.inner = parsing(path, "delimited text")

    def __enter__(self) -> None:
        self.inner.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or isinstance(error, BagFormatError):
            self.inner.__exit__(kind, error, trace)
            return
        text = str(error)
        row = re.search(r"Row #(\d+)", text)
        column = re.search(r"column #(\d+)", text)
        where = f"row {row[1]}" if row else ""
        if column and int(column[1]) < len(self.columns):
            where = ", ".join(filter(None, [where, f"column {self.columns[int(column[1])]!r}"]))
        value = re.search(r"conversion error to (?:double|float): invalid value (.*)", text, re.S)
        count = re.search(r"Expected (\d+) columns, got (\d+)", text)
        try:
            if value:
                raise_format_error(
                    self.path,
                    f"{value[1][:80]} is not a number.",
                    where=where,
                    hint="Encode it as a number, leave the column out, or keep it with info=[...].",
                )
            if count:
                raise_format_error(
                    self.path,
                    f"expected {count[1]} values, got {count[2]}.",
                    where=where,
                    hint="The row may be cut short or hold an unquoted delimiter.",
                )
            if "UTF8" in text:
                raise_format_error(
                    self.path,
                    "is not valid UTF-8.",
                    where=where,
                    hint=_ENCODING,
                )
            if "straddl" in text:
                raise_format_error(
                    self.path,
                    "has a row too long to be one.",
                    where=where,
                    hint=_QUOTE,
                )
        except BagFormatError as told:
            raise told from error
        self.inner.__exit__(kind, error, trace)


def _parts(batch: Any, roles: Roles, columns: list[str], request: Request) -> tuple[Any, ...]:
    kind = np.float32 if request.dtype == np.float32 else np.float64
    features = np.empty((batch.num_rows, len(roles.features)), dtype=kind)
    for place, position in enumerate(roles.features):
        features[:, place] = batch.column(position).to_numpy(zero_copy_only=False)

    def column(position: int | None) -> Coded | None:
        return None if position is None else coded_arrow(batch.column(position))

    info, bag_info = (
        {columns[position]: coded_arrow(batch.column(position)) for position in positions}
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


def coded_arrow(column: Any) -> Coded:
    """Code an Arrow column; nulls become None."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return Coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))


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
    """Write a long table of text, one row an instance.

    Numbers are written so that they are read back bit for bit. Text has no types: ids and
    labels that are text but look like numbers come back as numbers unless ``ids=str`` or
    ``labels=str`` says otherwise, and entries of ``instance_info`` are columns to be named
    with ``info=`` when reading.
    """
    import_optional("pyarrow", extra="io", purpose="Writing csv")
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
    fixed = columns_to_write(
        bags,
        path,
        "csv",
        bag=bag,
        label=label,
        instance_label=instance_label,
        lossy=lossy,
        text=True,
    )
    options = arrow_csv.WriteOptions(delimiter=delimiter)
    writer = None
    with writing(path) as temporary, temporary.open("wb") as file:
        for block in table_blocks(bags, fixed, np.float64):
            writer = writer or arrow_csv.CSVWriter(file, block.schema, write_options=options)
            writer.write(block)
        if writer is not None:
            writer.close()
