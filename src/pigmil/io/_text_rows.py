"""Build bags from rows of text and from index:value pairs."""

import math
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp

from pigmil.bags import Bags, Coded, encode
from pigmil.io._common import Request, raise_format_error
from pigmil.io._rows import FileRows, Roles
from pigmil.io._values import MISSING

_FLUSH_VALUES = 1 << 19
MAX_INDEX = (1 << 31) - 2  # columns of a sparse file: what 32-bit indices can count


def coded(column: Sequence[Any]) -> Coded:
    """Encode a column of text; an empty cell and a question mark are missing values."""
    return encode(column, missing=MISSING)


def to_floats(path: Path, where: str, cells: Sequence[str]) -> list[float]:
    """Return the numbers of a row; a missing one becomes NaN, other text is an error."""
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        values = [_to_float(path, where, position, cell) for position, cell in enumerate(cells)]
    if "_" in "".join(cells):  # Python reads 1_000 as a number, which data files do not mean
        for position, cell in enumerate(cells):
            if "_" in cell:
                _not_a_number(path, where, position, cell)
    return values


def _to_float(path: Path, where: str, place: int, cell: str) -> float:
    if cell.strip() in MISSING:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        _not_a_number(path, where, place, cell)


def _not_a_number(path: Path, where: str, place: int, cell: str) -> NoReturn:
    raise_format_error(
        path,
        f"{cell[:60]!r} is not a number.",
        where=f"{where}, value {place + 1}",
        hint="Encode it as a number or keep the column with info=[...].",
    )


def count_cells(path: Path, where: str, cells: Sequence[Any], expected: int) -> None:
    """Raise an error if a row has too few or too many values."""
    if len(cells) != expected:
        raise_format_error(
            path,
            f"expected {expected} values, got {len(cells)}.",
            where=where,
            hint="The line may be cut short.",
        )


class TextRows:
    """Collects rows of a text file and adds them in blocks.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    info, bag_info : sequence of str
        Names of the info columns of instances and of bags.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        info: Sequence[str] = (),
        bag_info: Sequence[str] = (),
    ) -> None:
        self.path, self.info_names, self.bag_info_names = path, info, bag_info
        self.lines = array("q")
        self.table = FileRows(path, request, where=lambda row: f"line {self.lines[row]}")
        self.width: int | None = None
        self._clear()

    def _clear(self) -> None:
        self.values: list[Any] = []
        self.bags: list[str] = []
        self.labels: list[str] = []
        self.instance_labels: list[str] = []
        self.info: list[tuple[str, ...]] = []
        self.bag_info: list[tuple[str, ...]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.table.__exit__(*error)

    def add(
        self,
        line: int,
        values: Any,
        bag: str,
        label: str | None = None,
        instance_label: str | None = None,
        info: tuple[str, ...] = (),
        bag_info: tuple[str, ...] = (),
    ) -> None:
        """Add one row."""
        if self.width is None:
            self.width = len(values)
        if len(values) != self.width:
            raise_format_error(
                self.path,
                f"expected {self.width} features as in the lines before, got {len(values)}.",
                where=f"line {line}",
                hint="The line may be cut short.",
            )
        self.lines.append(line)
        self.values.append(values)
        self.bags.append(bag)
        if label is not None:
            self.labels.append(label)
        if instance_label is not None:
            self.instance_labels.append(instance_label)
        self.info.append(info)
        self.bag_info.append(bag_info)
        if len(self.values) * max(1, self.width) > _FLUSH_VALUES:
            self._flush()

    def add_cells(self, line: int, values: Any, cells: Sequence[str], roles: Roles) -> None:
        """Add one row of cells; ``values`` are its features."""
        label, instance_label = (
            None if at is None else cells[at] for at in (roles.label, roles.instance_label)
        )
        info, bag_info = (tuple(cells[at] for at in part) for part in (roles.info, roles.bag_info))
        self.add(line, values, cells[roles.bag], label, instance_label, info, bag_info)

    def _flush(self) -> None:
        if not self.values:
            return
        info, bag_info = (
            {name: coded([row[at] for row in rows]) for at, name in enumerate(names)}
            for names, rows in (
                (self.info_names, self.info),
                (self.bag_info_names, self.bag_info),
            )
        )
        self.table.add(
            np.array(self.values, dtype=np.float64).reshape(len(self.values), -1),
            coded(self.bags),
            coded(self.labels) if self.labels else None,
            coded(self.instance_labels) if self.instance_labels else None,
            info,
            bag_info,
        )
        self._clear()

    def build(self, feature_names: Sequence[str] | None = None) -> Bags:
        """Return the bags."""
        self._flush()
        return self.table.build(feature_names)


class SparseRows:
    """Collects rows of index:value pairs."""

    def __init__(self, path: Path, request: Request, *, zero_based: bool = False) -> None:
        self.path, self.base = path, 0 if zero_based else 1
        self.lines = array("q")
        self.table = FileRows(path, request, where=lambda row: f"line {self.lines[row]}")
        self.indices, self.data, self.cuts = array("q"), array("d"), array("q", [0])
        self.bags: list[str] = []
        self.labels: list[str] = []

    def add(self, line: int, pairs: Sequence[str], bag: str, label: str) -> None:
        """Add one row of ``index:value`` pairs with increasing indices."""
        last = self.base - 1
        for pair in pairs:
            index_text, colon, value_text = pair.partition(":")
            if not colon or not (index_text.isascii() and index_text.isdigit()):
                raise_format_error(
                    self.path, f"expected index:value, got {pair[:60]!r}.", where=f"line {line}"
                )
            if len(index_text) > 12 or int(index_text) > MAX_INDEX:
                raise_format_error(
                    self.path,
                    f"the index {index_text[:40]} is too large for a feature.",
                    where=f"line {line}",
                    hint="The file may be damaged.",
                )
            index = int(index_text)
            if index < self.base:
                raise_format_error(
                    self.path,
                    f"has the index {index}, but indices count from 1.",
                    where=f"line {line}",
                    hint="Pass zero_based=True if they count from 0.",
                )
            if index <= last:
                raise_format_error(
                    self.path,
                    f"the index {index} follows {last}; indices must increase.",
                    where=f"line {line}",
                )
            last = index
            self.indices.append(index - self.base)
            self.data.append(to_floats(self.path, f"line {line}", [value_text])[0])
        self.cuts.append(len(self.indices))
        self.lines.append(line)
        self.bags.append(bag)
        self.labels.append(label)

    def build(self, n_features: int | None, columns: str) -> Bags:
        """Return the bags, with all columns or only those that are used somewhere."""
        indices = np.array(self.indices, dtype=np.int64)
        width = int(indices.max()) + 1 if indices.size else 1
        if n_features is not None:
            if n_features < width:
                raise_format_error(
                    self.path,
                    f"has the index {width - 1 + self.base}, more than the "
                    f"n_features={n_features} asked for.",
                )
            width = n_features
        names = None
        if columns == "used":
            used, indices = np.unique(indices, return_inverse=True)
            names, width = [str(one + self.base) for one in used.tolist()], max(1, len(used))
            names = names or [str(self.base)]
        elif columns != "all":
            raise_format_error(self.path, f"columns={columns!r} is not 'all' or 'used'.")
        if not self.lines:
            raise_format_error(self.path, "holds no instances.", hint="It may be cut short.")
        shape = (len(self.lines), width)
        cuts = np.array(self.cuts, dtype=np.int64)
        matrix = sp.csr_array((np.array(self.data), indices, cuts), shape=shape)
        with self.table as table:
            table.add(matrix, coded(self.bags), coded(self.labels))
            return table.build(names)
