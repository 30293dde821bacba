"""Where the rows of a long table are put while it is read: in memory or in a mapped file."""

import os
import secrets
import struct
import tempfile
from collections import deque
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.segments import IntArray
from pigmil.io.common import check_disk, check_memory, fail

_HEADER = 128  # bytes kept free before the values, for the header of a .npy file
_BLOCK_BYTES = 1 << 25


class InMemory:
    """Keeps blocks of rows and lays them into one array at the end, freeing each as it goes.

    Cost: the array, and one block more than that.
    """

    def __init__(self, path: Path, *, mappable: bool) -> None:
        self.path, self.mappable = path, mappable
        self.blocks: deque[Any] = deque()
        self.n_rows = self.n_bytes = 0

    def append(self, block: Any) -> None:
        """Take the next rows."""
        held = block.data.nbytes if sp.issparse(block) else block.nbytes
        self.n_rows, self.n_bytes = self.n_rows + block.shape[0], self.n_bytes + held
        check_memory(self.path, self.n_bytes, mappable=self.mappable)
        self.blocks.append(block)

    def finish(self, order: IntArray | None) -> Any:
        """Return all rows; row ``i`` of the result is row ``order[i]`` of what was appended."""
        if sp.issparse(self.blocks[0]):
            matrix = sp.vstack(list(self.blocks), format="csr")
            return matrix if order is None else matrix[order]
        if order is None and len(self.blocks) == 1:
            return self.blocks[0]
        first = self.blocks[0]
        result = np.empty((self.n_rows, first.shape[1]), dtype=first.dtype)
        place = None if order is None else np.argsort(order, kind="stable")
        start = 0
        while self.blocks:
            block = self.blocks.popleft()
            rows = slice(start, start + block.shape[0])
            result[rows if place is None else place[rows]] = block
            start = rows.stop
        return result

    def discard(self) -> None:
        """Drop what was taken."""
        self.blocks.clear()


class OnDisk:
    """Appends blocks of rows to a ``.npy`` file and maps it at the end.

    Memory stays that of one block: rows are written, not mapped, while the file grows. Rows
    that must move to stand beside the others of their bag are copied once to a second file.

    Parameters
    ----------
    path : Path
        The file that is read, for messages.
    target : True or path
        The ``.npy`` file to make; True for a temporary file that goes away with the process.
    """

    def __init__(self, path: Path, target: Any) -> None:
        self.path = path
        self.target = None if target is True else Path(os.fspath(target))
        self.folder = Path(tempfile.gettempdir()) if self.target is None else self.target.parent
        if self.target is not None and not self.folder.is_dir():
            fail(self.target, f"memory_map= names a folder that is not there: {self.folder}.")
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
        os.replace(self.name, self.target)
        return self._map(self.target)

    def _new_file(self) -> tuple[IO[bytes], Path | None]:
        if self.target is None:
            name, file = None, tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
        else:
            name = self.target.with_name(f".{self.target.name}.{secrets.token_hex(6)}.tmp")
            file = name.open("x+b")
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
        step = max(1, _BLOCK_BYTES // max(1, self.width * self.dtype.itemsize))
        for start in range(0, self.n_rows, step):
            # Mapped anew for each block, so that pages read before do not count as held.
            source = self._map(self.file)
            moved.write(np.ascontiguousarray(source[order[start : start + step]]).data)
            del source
        self.discard()
        self.file, self.name = moved, name

    def discard(self) -> None:
        """Drop what was written."""
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
