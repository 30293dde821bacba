"""Delimited text (CSV, TSV), read by pyarrow; delimiter and decimal sign are detected together."""

import contextlib
import csv
import gzip
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, import_optional
from pigmil.bags import LazyBags, text_array
from pigmil.bags._columns import copy_columns
from pigmil.io._build import Table, bags_of_table, check_unique, table_roles
from pigmil.io._defence import parsing, raise_format_error
from pigmil.io._formats import Request

DELIMITERS = ",;\t|"
# Text that means a missing value.
MISSING_MARKS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
NO_LABEL = frozenset(MISSING_MARKS) - {"None"}  # which may be the name of a class
_SAMPLE_ROWS = 100  # rows from which delimiter and decimal sign are detected
_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0")
_CODE = re.compile(r"[+-]?0[0-9]")
_SIGNED = re.compile(r"[+-]?[0-9]{1,18}")
_EXPONENT = r"(?:[eE][+-]?+[0-9]++)?+"
_NUMBER = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)" + _EXPONENT)
_POINT = re.compile(r"[+-]?+[0-9]*+\.[0-9]++" + _EXPONENT)
COMMA = re.compile(r"[+-]?+[0-9]*+,[0-9]++" + _EXPONENT)
_COMMAS = re.compile(r"[+-]?+[0-9.]*+,[0-9.,]*+" + _EXPONENT)  # numbers, also with thousands
_THOUSANDS = re.compile(r"[+-]?+[1-9][0-9]{0,2}(?:,[0-9]{3})++")


def decode(values: Sequence[Any], *, strict: bool = False) -> NDArray[Any]:
    """Convert text to an array of integers, floats or booleans if possible, else of text.

    Text stays text if any of it has a leading zero, as codes of patients and sites have.

    Parameters
    ----------
    values : sequence
        Text; other values are kept.
    strict : bool, default=False
        Only text that Python itself would write for a whole number becomes one, as needed for ids;
        no other numbers are made.

    Examples
    --------
    >>> decode(["+1", "-1"]), decode(["a", "1"]), decode(["007"])
    (array([ 1, -1]), array(['a', '1'], dtype=object), array(['007'], dtype=object))
    """
    values = list(values)
    if not all(isinstance(value, str) for value in values) or any(map(_CODE.match, values)):
        return text_array(values)
    whole = _WHOLE if strict else _SIGNED
    if all(whole.fullmatch(value) for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    if not strict and all(_NUMBER.fullmatch(value) for value in values):
        numbers = np.array([float(value) for value in values])
        if np.isfinite(numbers).all():
            return numbers
    if not strict and set(values) <= {"True", "False"}:
        return np.array([value == "True" for value in values])
    return text_array(values)


def decode_rows(values: Sequence[Any], role: str, want: type | None = None) -> NDArray[Any]:
    """Return a column of text, with None where it is missing, for its role.

    Parameters
    ----------
    values : sequence
        One entry per row, text or numbers.
    role : {"id", "label", "info"}
        Missing ids and labels stay None; missing info becomes NaN or ''.
    want : type, optional
        ``str`` to keep ids as text, so that also NA is one.
    """
    marks = {""} if want is str or role == "info" else NO_LABEL
    distinct: dict[Any, int] = {}
    codes = np.array([distinct.setdefault(value, len(distinct)) for value in values])
    present = [value for value in distinct if not (value is None or value in marks)]
    decoded = text_array(present) if want is str else decode(present, strict=role == "id")
    if len(present) == len(distinct):
        return decoded[codes]
    is_text = decoded.dtype == object
    blank: Any = None if role != "info" else "" if is_text else np.nan
    by_value = dict(zip(present, decoded.tolist(), strict=True))
    filled = [by_value.get(value, blank) for value in distinct]
    kind = object if role != "info" or is_text else np.float64
    return np.array(filled, dtype=kind)[codes]


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed with gzip."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, gzipped or not; bytes that are no text become lone surrogates."""
    opener: Any = gzip.open if is_gzip(path) else open
    if encoding.lower() in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
        with parsing(path, "gzip"), opener(path, "rb") as file:
            if b"\0" in file.read(4096):
                raise_format_error(
                    path,
                    "contains zero bytes, so it is not UTF-8 text.",
                    hint="Pass encoding='utf-16' if that is what it is, or format=.",
                )
    text: IO[str] = opener(path, "rt", encoding=encoding, errors="surrogateescape", newline="")
    return text


@dataclass(frozen=True)
class Dialect:
    """How a file of delimited text is written, from its first rows.

    Attributes
    ----------
    delimiter, decimal : str
        The signs.
    first_row : list of str
        The names of the columns, or the first values.
    n_blank : int
        Number of blank lines before it.
    """

    delimiter: str
    decimal: str
    first_row: list[str]
    n_blank: int


def detect_dialect(
    path: Path, encoding: str, delimiter: str | None = None, decimal: str | None = None
) -> Dialect:
    """Detect delimiter and decimal sign of a text; what is given is taken.

    The delimiter is the one that splits the first rows into most columns of equal number; the
    decimal sign is the comma if more columns hold numbers with a comma than with a point.
    """
    for name, value in (("delimiter", delimiter), ("decimal", decimal)):
        if value is not None and len(value) != 1:
            raise BagFormatError(f"{path}: {name}={value!r} must be one character.", parameter=name)
    with parsing(path, "delimited text"), open_text(path, encoding) as text:
        lines = list(itertools.islice(text, _SAMPLE_ROWS))
    n_blank = next((at for at, line in enumerate(lines) if line.strip("\r\n")), len(lines))
    lines = lines[n_blank:]
    if not lines:
        raise_format_error(path, "has no rows.")
    tried: dict[str, list[list[str]]] = {}
    for sign in delimiter or DELIMITERS:
        with contextlib.suppress(csv.Error):  # a cell that is too long: another sign separates them
            tried[sign] = [row for row in csv.reader(lines, delimiter=sign) if row]
    if not any(tried.values()):
        raise_format_error(path, "is not delimited text.")

    def regular_columns(sign: str) -> tuple[bool, int]:
        """Return whether all rows have the same number of columns, and the number."""
        first, *others = map(len, tried[sign])
        equal = all(width == first for width in others[: max(1, len(others) - 1)])
        return equal and first > 1, first

    sign = max(tried, key=regular_columns)
    rows = tried[sign]
    if any("\udc80" <= letter <= "\udcff" for cell in rows[0] for letter in cell):
        _raise_encoding(path, "row 1")
    if decimal is None:
        decimal = detect_decimal(path, sign, rows)
    return Dialect(sign, decimal, rows[0], n_blank)


def detect_decimal(path: Path, delimiter: str, rows: Sequence[Sequence[str]]) -> str:
    """Return the decimal sign of rows of text, of which the first names the columns."""
    with_comma = with_point = 0
    grouped = True  # whether all commas may separate thousands
    for column in zip(*(row for row in rows[1:] if len(row) == len(rows[0])), strict=True):
        cells = [cell.strip() for cell in column]
        commas = [cell for cell in cells if COMMA.fullmatch(cell)]
        with_comma += bool(commas)
        with_point += any(map(_POINT.fullmatch, cells))
        grouped &= all(map(_THOUSANDS.fullmatch, commas))
    if with_comma <= with_point:
        return "."
    if grouped and delimiter != ";":
        raise BagFormatError(
            f"{path}: the comma in its numbers may be the decimal sign or separate thousands. Pass "
            "decimal=',' in the first case; remove it in the second.",
            parameter="decimal",
        )
    return ","


def _raise_encoding(path: Path, where: str = "") -> None:
    raise BagFormatError(
        f"{path}{', ' + where if where else ''}: is not valid UTF-8. Save it as UTF-8 or name its "
        "encoding, for example encoding='latin-1'.",
        parameter="encoding",
    )


def scan_csv(path: Path, request: Request) -> LazyBags:
    """Read a long table of text, whose first row names the columns unless ``header=False``."""
    dialect = detect_dialect(path, request.encoding, request.delimiter, request.decimal)
    header = request.header
    names = dialect.first_row if header else list(map(str, range(len(dialect.first_row))))
    names = [name.strip() for name in names]
    if len(names) == 1:
        raise_format_error(
            path,
            f"has only one column, {names[0][:80]!r}.",
            hint="Pass delimiter= if columns are separated by another sign than , ; | or a tab.",
        )
    hint = ""
    if header and all(map(_NUMBER.fullmatch, names)):
        hint = "The first row holds numbers only; if there is no header pass header=False."
    advice = f"Rename them, or pass header=False and positions. {hint}".rstrip()
    check_unique(path, names, where="row 1", hint=advice)
    outline = _TextTable(path, dict.fromkeys(names), first_row=1 + header)
    roles = table_roles(outline, request, hint=hint)
    columns = _read_columns(path, dialect, names, roles.features, request, header)
    n_rows = len(columns[roles.bag])
    if not n_rows:
        raise_format_error(path, "holds no instances.", hint="It may be cut short.")
    instances = np.empty((n_rows, len(roles.features)), dtype=request.dtype or np.float64)
    copy_columns([columns.pop(name) for name in roles.features], instances)
    feature_names = roles.features if header else None
    table = replace(outline, columns=columns, instances=instances, feature_names=feature_names)
    return bags_of_table(table, request, roles)


@dataclass
class _TextTable(Table):
    """A table of which the features are numbers and all other columns text."""

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        encoded = self.columns[name].combine_chunks().dictionary_encode()
        want = request.ids if role == "id" else None
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        return decode_rows(encoded.dictionary.to_pylist(), role, want)[codes]


def _read_columns(
    path: Path,
    dialect: Dialect,
    names: list[str],
    features: Sequence[str],
    request: Request,
    header: bool,
) -> dict[str, Any]:
    """Return the columns as Arrow holds them: features as numbers, the others as text."""
    pyarrow = import_optional("pyarrow", extra="io", purpose="Reading csv")
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Reading csv")
    places = dict(zip(names, map(str, range(len(names))), strict=True))  # names may be empty

    def read(kind: Any) -> dict[str, Any]:
        types = dict.fromkeys(places.values(), pyarrow.string())
        types |= {places[name]: kind for name in features}
        compression = "gzip" if is_gzip(path) else None
        with pyarrow.input_stream(str(path), compression=compression) as stream:
            table = arrow_csv.read_csv(
                stream,
                read_options=arrow_csv.ReadOptions(
                    use_threads=False,  # errors then have the row
                    block_size=max(1 << 20, 64 * sum(map(len, names))),
                    column_names=list(places.values()),
                    # Blank rows are counted here, unlike those between the rows of data.
                    skip_rows_after_names=dialect.n_blank + 1 if header else 0,
                    encoding=request.encoding,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=dialect.delimiter, newlines_in_values=True
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=types,
                    null_values=list(MISSING_MARKS),
                    strings_can_be_null=False,  # NA may be an id
                    decimal_point=dialect.decimal,
                ),
            )
        return dict(zip(names, table.columns, strict=True))

    try:
        return read(pyarrow.float32() if request.dtype == np.float32 else pyarrow.float64())
    except pyarrow.ArrowException as error:
        if "utf8" in str(error).lower():
            _raise_encoding(path)
        with parsing(path, "delimited text", hint="A row may be cut short or hold a delimiter."):
            texts = read(pyarrow.string())
        cells = {name: texts[name].to_pylist() for name in features}
        raise_not_numbers(path, cells, dialect.decimal)
        raise


def raise_not_numbers(path: Path, cells: Mapping[str, list[str]], decimal: str) -> None:
    """Raise an error with row, column and remedy for the first cell that is not a number."""
    is_number = re.compile(_NUMBER.pattern.replace(r"\.", re.escape(decimal)))
    first_bad: dict[str, tuple[int, str]] = {}  # column: row and text of the cell
    for name, column in cells.items():
        for row, cell in enumerate(map(str.strip, column), start=2):
            if cell not in MISSING_MARKS and not is_number.fullmatch(cell):
                first_bad[name] = row, cell
                break
    if not first_bad:
        return
    # Columns in which some cells are numbers with commas are no information.
    words = [
        name for name in first_bad
        if not any(_COMMAS.fullmatch(cell.strip()) for cell in cells[name])
    ]  # fmt: skip
    name = [*(name for name in first_bad if name not in words), *words][0]
    row, cell = first_bad[name]
    problem, parameter = f"row {row}, column {name!r}: {cell[:80]!r}", None
    if COMMA.fullmatch(cell):
        problem, parameter = f"{problem} has a decimal comma. Pass decimal=','.", "decimal"
    elif _COMMAS.fullmatch(cell):
        problem += " has signs between thousands; remove them."
    elif name in words:
        parameter = "info"
        problem += (
            " is not a number. Correct it, or keep all columns of text as information with "
            f"info={words!r}."
        )
    else:
        problem += " is not a number. Correct it."
    raise BagFormatError(f"{path}, {problem}", parameter=parameter)
