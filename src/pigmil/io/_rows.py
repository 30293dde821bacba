"""Rows of a table: roles of its columns, storage in memory or in a mapped file, and bags."""

import struct
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError
from pigmil._core.files import create_temporary, replace_targets, writable_target
from pigmil._core.typing import IntArray
from pigmil.bags import BagBuilder, Bags, Coded
from pigmil.io._common import (
    Request,
    check_disk,
    check_memory,
    find_column,
    find_info,
    listed,
    naming,
    raise_format_error,
)
from pigmil.io._values import TextDecoder

BAG_NAMES = ("bag",)
LABEL_NAMES = ("bag_label", "label", "y")
INSTANCE_LABEL_NAMES = ("instance_label",)
_HEADER = 128  # bytes kept free before the values, for the header of a .npy file
_BLOCK_BYTES = 1 << 23
_SLAB_BYTES = 40 << 20  # above what the allocator keeps for itself when it is freed


@dataclass(frozen=True)
class Roles:
    """Positions of the columns by what they hold."""

    bag: int
    label: int | None
    instance_label: int | None
    info: tuple[int, ...]
    bag_info: tuple[int, ...]
    features: tuple[int, ...]


def find_roles(
    path: Path,
    columns: list[str],
    request: Request,
    *,
    bag: int | None = None,
    label: int | None = None,
    text: Sequence[int] = (),
    hint: str = "",
) -> Roles:
    """Return the role of each column; columns without a role are features.

    Parameters
    ----------
    path, columns, request
        The file, the names of its columns and the options of ``read_bags``.
    bag, label : int, optional
        Default positions, for formats without fixed names of columns.
    text : sequence of int, default=()
        Columns of text, which become info unless they have another role.
    hint : str, default=""
        End of the error if there is no bag.
    """
    if bag is None or request.bag is not None:
        bag = find_column(path, columns, request.bag, "bag", BAG_NAMES)
    if bag is None:
        raise_format_error(
            path,
            f"has no column 'bag'; its columns are {listed(columns)}.",
            hint=f"Say with bag= and label= (name or position) what they are. {hint}".rstrip(),
        )
    instance = find_column(
        path, columns, request.instance_label, "instance_label", INSTANCE_LABEL_NAMES
    )
    if label is None or request.label is not None:
        label = find_column(path, columns, request.label, "label", LABEL_NAMES)
    elif label in (bag, instance):
        label = None
    info, bag_info = find_info(path, columns, request)
    info += [at for at in text if at not in (bag, label, instance, *info, *bag_info)]
    taken = [at for at in (bag, label, instance, *info, *bag_info) if at is not None]
    if len(set(taken)) < len(taken):
        twice = sorted({columns[at] for at in taken if taken.count(at) > 1})
        raise_format_error(
            path, f"the columns {listed(twice)} are given two roles; each column has one."
        )
    features = tuple(sorted(set(range(len(columns))) - set(taken)))
    if not features:
        raise_format_error(path, f"has no feature columns; its columns are {listed(columns)}.")
    return Roles(bag, label, instance, tuple(info), tuple(bag_info), features)


def refuse_text_columns(path: Path, columns: Sequence[Any], row: int, cell: str) -> NoReturn:
    """Raise the error of columns that hold text; ``cell`` is the first one, in ``row``."""
    several = len(columns) > 1
    raise_format_error(
        path,
        f"the column{'s' if several else ''} {listed(columns)} hold{'' if several else 's'} "
        f"text, not numbers (row {row}: {cell[:80]!r}).",
        hint=f"Keep {'them' if several else 'it'} as information with info={list(columns)!r}, "
        "or encode the text as numbers.",
    )


def encode_arrow(column: Any) -> Coded:
    """Encode an Arrow column by its distinct values; nulls become None."""
    if hasattr(column, "dictionary"):
        # Not decoded: a small file may repeat one long text many times.
        values, codes = encode_arrow(column.dictionary)
        indices = column.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False)
        rows = np.append(codes, len(values))[indices]
        used, first, places = np.unique(rows, return_index=True, return_inverse=True)
        order = np.argsort(first)  # by appearance, as in a column without a dictionary
        held = [*values, None]
        return Coded([held[used[at]] for at in order], np.argsort(order)[places])
    encoded = column.dictionary_encode(null_encoding="encode")
    return Coded(encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False))


class FileRows(BagBuilder):
    """Builds bags from the rows of a file, in memory or in a memory-mapped file.

    Parameters
    ----------
    path : Path
        The file, for messages.
    request : Request
        The options of ``read_bags``.
    where : callable, optional
        Returns how messages refer to a row, counted from 0.
    mappable : bool, default=False
        Whether the format can be read with ``memory_map``, for messages.
    typed : bool, default=False
        Whether the file distinguishes text from numbers.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        *,
        where: Callable[[int], str] | None = None,
        mappable: bool = False,
        typed: bool = False,
    ) -> None:
        self.path, self.dtype = path, request.dtype
        super().__init__(
            what=str(path),
            where=where or (lambda row: f"row {row + 1}"),
            error=BagFormatError,
            store=OnDisk(path, request.memory_map)
            if request.memory_map
            else InMemory(path, mappable=mappable),
            decoder=TextDecoder(path, request, typed=typed),
            missing=request.missing,
        )

    def add(self, features: Any, *columns: Any, **named: Any) -> None:
        """Add the next rows, as :meth:`BagBuilder.add` does, in the requested type."""
        dtype = self.dtype or (np.float32 if features.dtype == np.float32 else np.float64)
        with np.errstate(over="ignore"):
            super().add(features.astype(dtype, copy=False), *columns, **named)

    def build(self, feature_names: Sequence[str] | None = None) -> Bags:
        """Return the bags, or raise one error that lists all problems."""
        if self.n_rows == 0:
            raise_format_error(self.path, "holds no instances.", hint="It may be cut short.")
        with naming(self.path):
            return Bags(**self.finish(feature_names))


class InMemory:
    """Keeps rows in slabs and copies them into one array at the end, freeing each slab.

    Slabs are large enough to be returned to the system at once; many small arrays would not
    be. Memory: the array and one slab.
    """

    def __init__(self, path: Path, *, mappable: bool) -> None:
        self.path, self.mappable = path, mappable
        self.slabs: deque[Any] = deque()
        self.used = 0  # rows of the last slab
        self.n_rows = self.n_bytes = 0

    def append(self, block: Any) -> None:
        """Add the next rows."""
        held = block.data.nbytes if sp.issparse(block) else block.nbytes
        # The block is in memory already; it is copied now, and again at the end.
        check_memory(self.path, 2 * held, mappable=self.mappable)
        self.n_rows, self.n_bytes = self.n_rows + block.shape[0], self.n_bytes + held
        if sp.issparse(block) or (not self.slabs and block.nbytes >= _SLAB_BYTES):
            self.slabs.append(block)
            self.used = block.shape[0]
            return
        start = 0
        while start < block.shape[0]:
            if not self.slabs or self.used == len(self.slabs[-1]):
                rows = max(1, _SLAB_BYTES // max(1, block.shape[1] * block.itemsize))
                self.slabs.append(np.empty((rows, block.shape[1]), dtype=block.dtype))
                self.used = 0
            room = min(len(self.slabs[-1]) - self.used, block.shape[0] - start)
            self.slabs[-1][self.used : self.used + room] = block[start : start + room]
            start, self.used = start + room, self.used + room

    def finish(self, order: IntArray | None) -> Any:
        """Return all rows; row ``i`` of the result is row ``order[i]`` of what was appended."""
        if sp.issparse(self.slabs[0]):
            matrix = sp.vstack(list(self.slabs), format="csr")
            return matrix if order is None else matrix[order]
        self.slabs[-1] = self.slabs[-1][: self.used]
        first = self.slabs[0]
        if order is None and len(self.slabs) == 1:
            return first if first.base is None else first.copy()
        result = np.empty((self.n_rows, first.shape[1]), dtype=first.dtype)
        position = None if order is None else np.argsort(order, kind="stable")
        del first
        start = 0
        while self.slabs:
            slab = self.slabs.popleft()
            rows = slice(start, start + slab.shape[0])
            result[rows if position is None else position[rows]] = slab
            start = rows.stop
        return result

    def discard(self) -> None:
        """Drop all rows."""
        self.slabs.clear()


class OnDisk:
    """Appends blocks of rows to a ``.npy`` file and maps it at the end.

    Memory: one block, because rows are written, not mapped, while the file grows. Rows
    that must move next to the others of their bag are copied once to a second file.

    Parameters
    ----------
    path : Path
        The file that is read, for messages.
    target : True or path
        The ``.npy`` file to make; True for a temporary file that is deleted with the process.
    """

    def __init__(self, path: Path, target: Any) -> None:
        self.path = path
        self.target = None if target is True else writable_target(target)
        self.folder = Path(tempfile.gettempdir()) if self.target is None else self.target.parent
        if self.target is not None and not self.folder.is_dir():
            raise_format_error(
                self.target, f"memory_map= names a folder that does not exist: {self.folder}."
            )
        self.file, self.name = self._new_file()
        self.n_rows, self.width = 0, 0
        self.dtype: np.dtype[Any] = np.dtype(np.float64)

    def append(self, block: Any) -> None:
        """Write the next rows."""
        if sp.issparse(block):
            block = block.toarray()
        check_disk(self.path, self.folder, block.nbytes)
        self.width, self.dtype = block.shape[1], block.dtype
        self.file.write(np.ascontiguousarray(block).data)
        self.n_rows += block.shape[0]

    def finish(self, order: IntArray | None) -> NDArray[Any]:
        """Return all rows, mapped read-only, in the given order."""
        if order is not None:
            self._reorder(order)
        self.file.seek(0)
        self.file.write(npy_header(self.dtype, (self.n_rows, self.width)))
        self.file.flush()
        if self.target is None or self.name is None:
            mapped = self._map(self.file)
            self.file.close()
            return mapped
        self.file.close()
        replace_targets([self.name], [self.target])
        return self._map(self.target)

    def _new_file(self) -> tuple[IO[bytes], Path | None]:
        if self.target is None:
            name, file = None, tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
        else:
            name = create_temporary(self.target)
            file = name.open("r+b")
        file.write(bytes(_HEADER))
        return file, name

    def _map(self, source: Any) -> NDArray[Any]:
        shape = (self.n_rows, self.width)
        return np.memmap(source, dtype=self.dtype, mode="r", offset=_HEADER, shape=shape)

    def _reorder(self, order: IntArray) -> None:
        self.file.flush()
        size = self.n_rows * self.width * self.dtype.itemsize
        check_disk(self.path, self.folder, size)
        moved, name = self._new_file()
        row_bytes = self.width * self.dtype.itemsize
        step = max(1, _BLOCK_BYTES // max(1, row_bytes))
        for start in range(0, self.n_rows, step):
            moved.write(self._gather(order[start : start + step], row_bytes))
        self.discard()
        self.file, self.name = moved, name

    def _gather(self, rows: IntArray, row_bytes: int) -> bytearray:
        """Read scattered rows of the file; read, not mapped, so that no page stays in memory."""
        block = bytearray(len(rows) * row_bytes)
        view = memoryview(block)
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        ends = [*breaks.tolist(), len(rows)]
        first = 0
        for last in ends:
            self.file.seek(_HEADER + int(rows[first]) * row_bytes)
            part = view[first * row_bytes : last * row_bytes]
            if self.file.readinto(part) != len(part):  # type: ignore[attr-defined]
                raise_format_error(self.path, "lost rows while they were sorted.")
            first = last
        return block

    def discard(self) -> None:
        """Delete the file."""
        self.file.close()
        if self.name is not None:
            self.name.unlink(missing_ok=True)


def npy_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Header of a ``.npy`` file, always 128 bytes, so that it can be written last.

    Examples
    --------
    >>> import numpy as np
    >>> len(npy_header(np.dtype("float32"), (10**15, 10**6)))
    128
    """
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    body = text.ljust(_HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(body)) + body.encode("ascii")
