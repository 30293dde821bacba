"""The text of ARFF and KEEL files: attributes, quoting, rows."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from pigmil._core.typing import FloatArray
from pigmil.io._common import listed, raise_format_error, read_lines
from pigmil.io._text_rows import to_floats
from pigmil.io._values import MISSING

# Possessive repeats (*+, ++) never give back what they took: time is linear in the text.
_SINGLE, _DOUBLE = r"""'((?:[^'\\]++|\\.)*+)'""", r'''"((?:[^"\\]++|\\.)*+)"'''
_CELL = re.compile(rf"""\s*+(?:{_SINGLE}|{_DOUBLE}|([^,'"]*+))\s*+(,|\Z)""", re.DOTALL)
_NAME = re.compile(rf"""\s*+(?:{_SINGLE}|{_DOUBLE}|([^\s{{]++))\s*+(.*)""", re.DOTALL)
_PAIR = re.compile(rf"""((?:{_SINGLE}|{_DOUBLE}|[^,'"]++)*+)(,|\Z)""", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_WORD = re.compile(r"(\S+)\s*(.*)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.+-]+")
_TO_ESCAPE = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "%": "\\%",
}


@dataclass
class Attribute:
    """A declared column: its name and kind, values of a nominal one, children of a relation."""

    name: str
    kind: str
    values: list[str] = field(default_factory=list)
    children: list["Attribute"] = field(default_factory=list)


@dataclass
class Header:
    """The declarations before the data, and the lines that follow."""

    attributes: list[Attribute]
    outputs: list[str]
    rows: Iterator[tuple[int, str]]


def quote(text: str) -> str:
    r"""Write a value so that :func:`split_cells` returns it unchanged.

    Examples
    --------
    >>> print(quote("plain"), quote("two words"), quote("it's"))
    plain 'two words' 'it\'s'
    """
    if _PLAIN.fullmatch(text):
        return text
    signs = (
        _TO_ESCAPE.get(sign) or (f"\\u{ord(sign):04x}" if _needs_escape(sign) else sign)
        for sign in text
    )
    return "'" + "".join(signs) + "'"


def _needs_escape(sign: str) -> bool:
    return ord(sign) < 32 or 0xD800 <= ord(sign) <= 0xDFFF or sign in "\x7f\x85\u2028\u2029"


def unescape(text: str) -> str:
    """Undo backslash escapes."""
    if "\\" not in text:
        return text

    def plain(match: re.Match[str]) -> str:
        sign = match[1]
        return chr(int(sign[1:], 16)) if len(sign) == 5 else _ESCAPES.get(sign, sign)

    return _ESCAPE.sub(plain, text)


def split_cells(path: Path, where: str, text: str) -> list[str]:
    """Return the unquoted values of a row."""
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")]
    cells, at = [], 0
    while True:
        match = _CELL.match(text, at)
        if not match:
            _unclosed_quote(path, where, text[at : at + 40])
        single, double, bare, end = match.groups()
        quoted = single if single is not None else double
        cells.append(bare.strip() if quoted is None else unescape(quoted))
        if not end:
            return cells
        at = match.end()


def read_header(path: Path, encoding: str) -> Header:
    """Read the declarations of an ARFF or KEEL file up to ``@data``."""
    lines = read_lines(path, encoding)
    top: list[Attribute] = []
    stack: list[Attribute] = []
    outputs: list[str] = []
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        where = f"line {number}"
        word, _, rest = _WORD.sub(r"\1 \2", text).partition(" ")
        word = word.lower()
        if word == "@attribute":
            attribute = _attribute(path, where, rest)
            (stack[-1].children if stack else top).append(attribute)
            if attribute.kind == "relational":
                if stack:
                    raise_format_error(path, "has a relation inside a relation.", where=where)
                stack.append(attribute)
        elif word == "@end":
            if not stack:
                raise_format_error(path, "has @end without a relational attribute.", where=where)
            stack.pop()
        elif word in ("@outputs", "@output"):
            outputs = [name.strip() for name in rest.split(",")]
        elif word == "@data":
            if stack:
                raise_format_error(
                    path, f"the relation {stack[-1].name!r} is not closed with @end.", where=where
                )
            if not top:
                raise_format_error(path, "declares no attributes before @data.", where=where)
            return Header(top, outputs, lines)
        elif word not in ("@relation", "@inputs", "@input"):
            raise_format_error(
                path, f"expected a declaration such as @attribute, got {text[:60]!r}.", where=where
            )
    raise_format_error(path, "has no @data.", hint="It may be cut short or of another format.")


def _attribute(path: Path, where: str, text: str) -> Attribute:
    match = _NAME.match(text)
    if not match or not text.strip():
        raise_format_error(path, f"cannot read the attribute {text[:60]!r}.", where=where)
    single, double, bare, kind = match.groups()
    quoted = single if single is not None else double
    name = bare if quoted is None else unescape(quoted)
    kind = kind.strip()
    if kind.startswith("{"):
        if not kind.rstrip().endswith("}"):
            raise_format_error(path, f"the values of {name!r} are not closed with }}.", where=where)
        return Attribute(name, "nominal", split_cells(path, where, kind.rstrip()[1:-1]))
    word = re.match(r"[A-Za-z]*", kind)
    kinds = {
        "numeric": "numeric",
        "real": "numeric",
        "integer": "numeric",
        "string": "string",
        "relational": "relational",
    }
    known = kinds.get(word[0].lower() if word else "")
    if known is None:
        raise_format_error(
            path,
            f"the attribute {name!r} has the type {kind[:40]!r}, which is not known.",
            where=where,
            hint="Known: numeric, real, integer, string, relational, {a,b,...}.",
        )
    return Attribute(name, known)


def default_cells(attributes: Sequence[Attribute]) -> list[str]:
    """Return the values that a sparse row leaves out: 0 or the first of a nominal attribute."""
    return [one.values[0] if one.kind == "nominal" and one.values else "0" for one in attributes]


def sparse_cells(path: Path, where: str, text: str, n_attributes: int) -> dict[int, str]:
    """Return the values of a sparse row ``{index value, ...}`` by their position."""
    cells: dict[int, str] = {}
    inner = text.strip()[1:].rstrip()
    if not inner.endswith("}"):
        raise_format_error(
            path, "a sparse row is not closed with }.", where=where, hint="It may be cut short."
        )
    inner, at, more = inner[:-1], 0, True
    while more and inner.strip():
        match = _PAIR.match(inner, at)
        if not match:
            _unclosed_quote(path, where, inner[at:])
        at, more = match.end(), match.groups()[-1] == ","
        index, _, value = match[1].strip().partition(" ")
        digits = index.isascii() and index.isdigit() and len(index) < 10
        if not digits or int(index) >= n_attributes:
            raise_format_error(
                path,
                f"a sparse row has the index {index[:20]!r}; there are {n_attributes} "
                "attributes, counted from 0.",
                where=where,
            )
        cells[int(index)] = split_cells(path, where, value)[0]
    return cells


def _unclosed_quote(path: Path, where: str, text: str) -> NoReturn:
    raise_format_error(
        path,
        f"a quote is not closed or stands inside a value: {text[:40]!r}.",
        where=where,
        hint="The line may be cut short.",
    )


@dataclass
class Features:
    """The features of a row: their names, and how cells become their values.

    Parameters
    ----------
    path : Path
        The file, for messages.
    attributes : sequence of Attribute
        The attributes that are features.
    nominal : str
        How words become numbers, as in ``read_arff``.
    """

    path: Path
    attributes: Sequence[Attribute]
    nominal: str

    def __post_init__(self) -> None:
        words = [one for one in self.attributes if one.kind != "numeric"]
        known = self.nominal in ("one_hot", "codes")
        if words and (not known or any(one.kind != "nominal" for one in words)):
            raise_format_error(
                self.path,
                f"the attributes {listed(one.name for one in words)} are not numeric.",
                hint="Pass nominal='one_hot' or nominal='codes', or keep them with info=[...].",
            )
        self.numeric = not words
        self.names: list[str] = []
        self.starts: list[int] = []  # column of each attribute
        for one in self.attributes:
            self.starts.append(len(self.names))
            spread = one.kind == "nominal" and self.nominal == "one_hot"
            self.names += [f"{one.name}={value}" for value in one.values] if spread else [one.name]
        self.codes = [
            {value: code for code, value in enumerate(one.values)} for one in self.attributes
        ]

    def dense(self, where: str, cells: list[str]) -> Any:
        """Return the values of a row that has all cells."""
        if self.numeric:
            return to_floats(self.path, where, cells)
        values = np.zeros(len(self.names))
        self.put(values, where, dict(enumerate(cells)))
        return values

    def put(self, values: FloatArray, where: str, cells: Mapping[int, str]) -> None:
        """Write cells, by the position of their attribute, into the values of a row."""
        for position, cell in cells.items():
            one, code, start = (
                self.attributes[position], self.codes[position], self.starts[position]
            )  # fmt: skip
            if one.kind == "numeric":
                values[start] = to_floats(self.path, where, [cell])[0]
            elif cell not in code:
                kind = (
                    "is missing" if cell in MISSING else f"has the undeclared value {cell[:40]!r}"
                )
                raise_format_error(self.path, f"the attribute {one.name!r} {kind}.", where=where)
            elif self.nominal == "codes":
                values[start] = code[cell]
            else:
                values[start : start + len(one.values)] = 0
                values[start + code[cell]] = 1
