"""A reader of MATLAB 5 to 7 files that checks every length before it trusts it.

``scipy.io.loadmat`` reads the same files, and the tests compare this reader with it; but it crashes
the interpreter on damaged ones, so it is not used on files of unknown origin. Only data
is built here: numbers, text, cells and structures. Functions and opaque objects are skipped.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil.io._common import check_memory, raise_format_error

_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8",
          13: "u8"}  # fmt: skip
_TEXT = {2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8",
            15: "u8"}  # fmt: skip
_MATRIX, _COMPRESSED = 14, 15
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE = 1, 2, 3, 4, 5
_MAX_DEPTH = 16
_COPIES = 3  # of the values while they are read: unpacked, as numbers, as bags


@dataclass
class Cell:
    """A cell array, its members in column order."""

    items: list[Any]


@dataclass
class Struct:
    """A structure or object: one dictionary of fields per element."""

    items: list[dict[str, Any]]


class _Damaged(Exception):
    """Something in the file contradicts itself."""


def load(path: Path) -> dict[str, Any]:
    """Read all variables of a file: arrays, sparse arrays, text, cells, structures by name.

    Text is an array with one string per row, numbers are arrays of two or more dimensions.
    """
    content = memoryview(path.read_bytes())
    if len(content) < 128 or bytes(content[126:128]) not in (b"IM", b"MI"):
        raise_format_error(
            path,
            "is not a MATLAB 5 file: its header is missing or cut short.",
            hint="Save it in MATLAB with save(..., '-v7').",
        )
    order = "<" if bytes(content[126:128]) == b"IM" else ">"
    variables: dict[str, Any] = {}
    at = 128
    while at < len(content):
        try:
            kind, body, after = _element(content, at, order)
            if kind == _COMPRESSED:
                kind, body, _ = _element(_inflated(path, body, order), 0, order)
            if kind == _MATRIX:
                name, value = _matrix(path, body, order, 0)
                if value is not None and name not in variables:
                    variables[name] = value
        except (_Damaged, zlib.error, UnicodeError, ValueError, struct.error) as error:
            raise_format_error(
                path,
                f"is damaged or cut short ({' '.join(str(error).split())[:200]}).",
                where=f"byte {at}",
                hint="Download or save it again.",
            )
        at = after
    if not variables:
        raise_format_error(path, "holds no variables.", hint="It may be cut short.")
    return variables


def _element(content: memoryview, at: int, order: str) -> tuple[int, memoryview, int]:
    """Return type and bytes of the element at a position, and the position of the next one."""
    if at + 8 > len(content):
        raise _Damaged("an element begins where the file ends")
    first, size = struct.unpack_from(order + "II", content, at)
    if first >> 16:  # a small element: size and type share a word, up to four bytes follow
        size, kind, start = first >> 16, first & 0xFFFF, at + 4
        if size > 4:
            raise _Damaged("a small element claims more than four bytes")
        return kind, content[start : start + size], at + 8
    start = at + 8
    if size > len(content) - start:
        raise _Damaged(f"an element claims {size} bytes where {len(content) - start} are left")
    padded = size if first == _COMPRESSED else -(-size // 8) * 8
    return first, content[start : start + size], start + padded


def _inflated(path: Path, body: memoryview, order: str) -> memoryview:
    """Unpack a compressed element, no further than it says it goes."""
    start = zlib.decompressobj().decompress(body, 8)
    if len(start) < 8:
        raise _Damaged("a compressed element is empty")
    _, size = struct.unpack(order + "II", start)
    check_memory(path, _COPIES * size)
    stream = zlib.decompressobj()
    content = stream.decompress(body, size + 8)
    rest = stream.decompress(stream.unconsumed_tail, 8)  # padding; behind it the checksum
    if not stream.eof or len(rest) >= 8:
        raise _Damaged("a compressed element is longer than it says, or has no checksum")
    return memoryview(content)


def _parts(body: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    at = 0
    while at < len(body):
        kind, part, at = _element(body, at, order)
        yield kind, part


def _matrix(path: Path, body: memoryview, order: str, depth: int) -> tuple[str, Any]:
    """Name and value of a matrix element; None for what holds no data."""
    if depth > _MAX_DEPTH:
        raise _Damaged("cells are nested too deeply")
    if not len(body):
        return "", np.empty((0, 0))
    parts = _parts(body, order)
    flags = _numbers(*_next(parts), order)
    shape = tuple(int(n) for n in _numbers(*_next(parts), order))
    name = bytes(_next(parts)[1]).decode("latin-1")
    if not len(flags) or len(shape) < 2 or min(shape) < 0:
        raise _Damaged(f"the variable {name!r} has no shape")
    kind, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & 0x800)
    if is_complex:
        raise _Damaged(f"the variable {name!r} holds complex numbers")
    count = int(np.prod([float(n) for n in shape]))
    if kind == _CHAR:
        return name, _text(*_next(parts), order, shape, count)
    if kind == _SPARSE:
        return name, _sparse(parts, order, shape)
    if kind == _CELL:
        items = [_member(path, parts, order, depth) for _ in range(_bounded(count, body))]
        return name, Cell(items)
    if kind in (_STRUCT, _OBJECT):
        if kind == _OBJECT:
            _next(parts)  # the name of its class
        return name, _struct(path, parts, order, _bounded(count, body), depth)
    if kind not in _CLASSES:
        return name, None
    values = _numbers(*_next(parts), order)
    if len(values) != count:
        raise _Damaged(f"the variable {name!r} has {len(values)} values for the shape {shape}")
    check_memory(path, 24 * count)  # small types become wide ones: as read, as floats, as bags
    array = values.astype(_CLASSES[kind]).reshape(shape, order="F")
    return name, array


def _next(parts: Iterator[tuple[int, memoryview]]) -> tuple[int, memoryview]:
    part = next(parts, None)
    if part is None:
        raise _Damaged("a variable ends too soon")
    return part


def _bounded(count: int, body: memoryview) -> int:
    if count * 8 > len(body):  # every member takes a tag at least
        raise _Damaged(f"{count} members do not fit in {len(body)} bytes")
    return count


def _numbers(kind: int, part: memoryview, order: str) -> NDArray[Any]:
    if kind not in _TYPES:
        raise _Damaged(f"expected numbers, found an element of type {kind}")
    dtype = np.dtype(order + _TYPES[kind])
    if len(part) % dtype.itemsize:
        raise _Damaged("an array ends inside a number")
    return np.frombuffer(part, dtype=dtype)


def _text(
    kind: int, part: memoryview, order: str, shape: tuple[int, ...], count: int
) -> NDArray[Any]:
    """Return one string per row of a matrix of characters."""
    if kind not in _TEXT:
        raise _Damaged(f"expected text, found an element of type {kind}")
    encoding = _TEXT[kind] + ({"<": "-le", ">": "-be"}[order] if kind in (4, 17, 18) else "")
    text = bytes(part).decode(encoding)
    # MATLAB counts units of 16 bits, other programs characters or bytes.
    if count not in (len(text), len(part), len(text.encode("utf-16-le")) // 2):
        raise _Damaged(f"text of {len(text)} characters has the shape {shape}")
    if shape[0] <= 1:
        return np.array([text] if count else [], dtype=str)
    if len(text) != count:
        raise _Damaged(f"a matrix of text has {len(text)} characters for the shape {shape}")
    rows = np.array(list(text), dtype="U1").reshape(shape[0], -1, order="F")
    return np.array(["".join(row) for row in rows], dtype=str)


def _sparse(parts: Iterator[tuple[int, memoryview]], order: str, shape: tuple[int, ...]) -> Any:
    rows = _numbers(*_next(parts), order).astype(np.int64)
    cuts = _numbers(*_next(parts), order).astype(np.int64)
    values = _numbers(*_next(parts), order).astype(np.float64)
    if len(shape) != 2 or len(cuts) != shape[1] + 1 or cuts[0] != 0 or (np.diff(cuts) < 0).any():
        raise _Damaged("the columns of a sparse matrix are not in order")
    used = int(cuts[-1])
    if used > min(len(rows), len(values)):
        raise _Damaged("a sparse matrix has fewer values than it claims")
    if used and not (rows[:used].min() >= 0 and rows[:used].max() < shape[0]):
        raise _Damaged("a sparse matrix has a value outside its rows")
    # Left in columns: a number of rows that is a lie costs memory only once rows are made.
    return sp.csc_array((values[:used], rows[:used], cuts), shape=shape)


def _member(path: Path, parts: Iterator[tuple[int, memoryview]], order: str, depth: int) -> Any:
    kind, part = _next(parts)
    if kind != _MATRIX:
        raise _Damaged(f"a member of a cell or structure is an element of type {kind}")
    return _matrix(path, part, order, depth + 1)[1]


def _struct(
    path: Path, parts: Iterator[tuple[int, memoryview]], order: str, count: int, depth: int
) -> Struct:
    width = _numbers(*_next(parts), order)
    names = bytes(_next(parts)[1])
    if len(width) != 1 or not 0 < int(width[0]) <= 1024:
        raise _Damaged("a structure has no fields")
    step = int(width[0])
    fields = [
        names[at : at + step].split(b"\0")[0].decode("latin-1") for at in range(0, len(names), step)
    ]
    return Struct(
        [{name: _member(path, parts, order, depth) for name in fields} for _ in range(count)]
    )
