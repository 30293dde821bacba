"""The number of values in each row group of a Parquet file, read from its footer.

pyarrow ends the whole process when it is asked for the metadata of a damaged column, so the footer
is read here: a structure in the compact protocol of Thrift.
"""

import struct
from pathlib import Path
from typing import Any

from pigmil.io._common import parsing, raise_format_error

_MARK = b"PAR1"
_MAX_DEPTH = 20
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
# Numbers of fields: row groups of a file, columns of a group, metadata of a column, its values.
_ROW_GROUPS, _COLUMNS, _COLUMN_METADATA, _NUM_VALUES = 4, 1, 3, 5


def values_per_row_group(path: Path) -> list[int]:
    """Return the number of values of all columns, for each row group.

    Parameters
    ----------
    path : Path
        A Parquet file.
    """
    with parsing(path, "parquet"):
        with path.open("rb") as file:
            file.seek(-8, 2)
            end = file.tell()
            length, mark = struct.unpack("<I4s", file.read(8))
            if mark != _MARK or length > end:
                raise_format_error(path, "has no footer, or an encrypted one.")
            file.seek(end - length)
            footer = _Compact(file.read(length)).read_struct(0)
        groups = [
            [column[_COLUMN_METADATA][_NUM_VALUES] for column in group[_COLUMNS]]
            for group in footer[_ROW_GROUPS]
        ]
        if any(type(count) is not int or count < 0 for group in groups for count in group):
            raise_format_error(path, "has a damaged footer.")
        return [sum(group) for group in groups]


class _Compact:
    """Values in the compact protocol of Thrift; structures become dictionaries by field."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def read_struct(self, depth: int) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("structures are nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            step, kind = kind >> 4, kind & 15
            number = number + step if step else self._integer()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _INTEGERS:
            return self._integer()
        if kind in (_TRUE, _FALSE, _BYTE):  # in lists, truth values have a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._take(8)
        if kind == _BINARY:
            return self._take(self._unsigned())
        if kind in (_LIST, _SET):
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == _STRUCT:
            return self.read_struct(depth + 1)
        raise ValueError(f"unknown type {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _take(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("the footer is cut short")
        return self.data[self.at - count : self.at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number is too long")

    def _integer(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
