"""Arrays inside files, read by ranges of rows: what lazy bags consist of."""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError
from pigmil._core.optional import import_optional
from pigmil._core.typing import IntArray
from pigmil.bags import as_csr
from pigmil.io._common import check_memory, parsing, raise_format_error
from pigmil.io._zarr_store import reopen_zarr

_TEXT_TYPES = ("string", "large_string")


@dataclass(frozen=True)
class Stamp:
    """Size and time of change of a file, by which a later reader recognizes it.

    Parameters
    ----------
    path : str
        The file, or the folder of a zarr store.
    size, mtime_ns : int
        Its size and time of change; of a part of a zarr store, the sum and the latest of its files.
    part : str
        An array or group inside a zarr store.
    """

    path: str
    size: int
    mtime_ns: int
    part: str = ""

    @classmethod
    def of(cls, path: Path, part: str = "") -> "Stamp":
        """Return the stamp of a file, or of a part of a zarr store."""
        return cls(os.path.abspath(path), *_size_and_time(path / part), part)

    def verify(self) -> None:
        """Raise an error that names the file if it has changed or vanished since."""
        try:
            found = _size_and_time(Path(self.path) / self.part)
        except OSError as error:
            # Without the cause: dask cannot send errors that derive from OSError.
            raise BagFormatError(
                f"{self.path}: cannot be opened on host {socket.gethostname()!r} "
                f"({error.strerror}), though it was there when the bags were scanned. Every "
                "worker must see the files under the same path; if the file is gone, scan again."
            ) from None
        if found != (self.size, self.mtime_ns):
            part = f"its part {self.part!r} " if self.part else ""
            raise_format_error(
                Path(self.path),
                f"{part}has changed since it was scanned ({self.size:,} bytes then, "
                f"{found[0]:,} now).",
                hint="Scan again with Bags.scan, and start again what was computed from it.",
            )


def _size_and_time(path: Path) -> tuple[int, int]:
    found = [path.stat()]
    if path.is_dir():
        names = (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        found = [os.stat(name) for name in names]
    return sum(one.st_size for one in found), max((one.st_mtime_ns for one in found), default=0)


@dataclass(frozen=True)
class Source:
    """A table of instances in a file, and further arrays with one row per instance.

    Parameters
    ----------
    stamp : Stamp
        The file.
    kind : {"h5", "zarr", "npy", "table"}
        How it is read.
    key : str
        Name of the array inside the file; for a table, that of the list column or empty.
    columns : tuple of str
        Feature columns of a table, if there is one column per feature.
    info : tuple of (str, str)
        Names of further data on each instance, and where they are.
    """

    stamp: Stamp
    kind: str
    key: str = ""
    columns: tuple[str, ...] = ()
    info: tuple[tuple[str, str], ...] = ()


def read_segments(
    sources: tuple[Source, ...],
    segments: IntArray,
    width: int,
    dtype: np.dtype[Any],
    *,
    sparse: bool,
    info: bool,
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Read ranges of rows one after the other.

    Parameters
    ----------
    sources : tuple of Source
        The tables.
    segments : array of int of shape (n_segments, 3)
        Position of the source, first row, and row after the last.
    width : int
        Number of features.
    dtype : dtype
        Type of the values that are returned.
    sparse : bool
        Whether the values are a CSR matrix.
    info : bool
        Whether to read the further arrays too.

    Returns
    -------
    instances : array or CSR
    info : dict of str to array
        Empty unless asked for.
    """
    sizes = segments[:, 2] - segments[:, 1]
    if len(segments) and not sparse:  # shapes are declared; the values need not be stored
        first = Path(sources[int(segments[0, 0])].stamp.path)
        check_memory(first, float(sizes.sum()) * width * dtype.itemsize)
    out = None if sparse else np.empty((int(sizes.sum()), width), dtype=dtype)
    parts: list[Any] = []
    beside: dict[str, list[NDArray[Any]]] = {}
    row = 0
    with contextlib.ExitStack() as stack:
        opened: Source | None = None
        for (at, start, stop), size in zip(segments.tolist(), sizes.tolist(), strict=True):
            source = sources[at]
            if opened is None or opened.stamp != source.stamp:
                source.stamp.verify()
            if opened is None or opened.stamp.path != source.stamp.path:
                stack.close()
                file = stack.enter_context(_READERS[source.kind](source.stamp.path))
            opened = source
            with parsing(Path(source.stamp.path), source.kind):
                if out is None:
                    parts.append(as_csr(file.read(source, start, stop)).astype(dtype))
                else:
                    file.read_into(source, start, stop, out[row : row + size])
                if info:
                    for name, key in source.info:
                        values = file.read_array(source, key, start, stop)
                        beside.setdefault(name, []).append(values)
            row += size
    instances = sp.vstack(parts, format="csr") if out is None else out
    complete = {name: np.concatenate(values) for name, values in beside.items()}
    return instances, {name: values for name, values in complete.items() if len(values) == row}


class _ArrayFile:
    """An HDF5 file or zarr store: arrays by name."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.arrays = self._open()

    def _open(self) -> Any:
        h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
        with parsing(Path(self.path), "HDF5"):
            return h5py.File(self.path, "r")

    def __enter__(self) -> "_ArrayFile":
        return self

    def __exit__(self, *_: object) -> None:
        self.arrays.close()

    def read(self, source: Source, start: int, stop: int) -> Any:
        """Return rows of the features, sparse ones as CSR."""
        array = self.arrays[source.key]
        if not hasattr(array, "shape"):
            io = import_optional("anndata.io", extra="anndata", purpose="Reading sparse AnnData")
            return io.sparse_dataset(array)[start:stop]
        return array[0, start:stop] if array.ndim == 3 else array[start:stop]

    def read_into(self, source: Source, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array, without a copy where possible."""
        array = self.arrays[source.key]
        if hasattr(array, "read_direct") and array.dtype == out.dtype and array.ndim == 2:
            array.read_direct(out, np.s_[start:stop])
        else:
            out[:] = self.read(source, start, stop)

    def read_array(self, source: Source, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a further array."""
        batched = self.arrays[source.key].ndim == 3 and self.arrays[key].shape[0] == 1
        array = self.arrays[key][0] if batched else self.arrays[key]
        return np.asarray(array[start:stop])


class _ZarrFile(_ArrayFile):
    def _open(self) -> Any:
        return reopen_zarr(Path(self.path))

    def __exit__(self, *_: object) -> None:
        self.arrays.store.close()


def map_npy(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file, mapped; refuse pipes, archives and objects."""
    if not path.is_file():
        raise_format_error(path, "is not a regular file.")
    with parsing(path, "npy"):
        return np.lib.format.open_memmap(path, mode="r")


class _NumpyFile:
    """A memory-mapped ``.npy`` file; further arrays are files too."""

    def __init__(self, path: str) -> None:
        self.array = map_npy(Path(path))

    def __enter__(self) -> "_NumpyFile":
        return self

    def __exit__(self, *_: object) -> None:
        del self.array

    def read_into(self, source: Source, start: int, stop: int, out: NDArray[Any]) -> None:
        out[:] = self.array[start:stop]

    def read_array(self, source: Source, key: str, start: int, stop: int) -> NDArray[Any]:
        values = map_npy(Path(key))
        return np.array(values.reshape(len(values), -1)[start:stop].squeeze(axis=1))


class TableFile:
    """A Parquet or Arrow file: row groups or record batches, one of them in memory at a time."""

    def __init__(self, path: str) -> None:
        self.path = path
        pyarrow = import_optional("pyarrow", extra="io", purpose="Reading Parquet")
        self._compute = import_optional("pyarrow.compute", extra="io", purpose="Reading Parquet")
        with parsing(Path(path), "Parquet or Arrow"):
            if path.lower().endswith((".parquet", ".pq")):
                parquet = import_optional("pyarrow.parquet", extra="io", purpose="Reading Parquet")
                self._file = parquet.ParquetFile(path)
                texts = [
                    one.name for one in self._file.schema_arrow if str(one.type) in _TEXT_TYPES
                ]
                if texts:  # a few bytes may stand for many copies of a long text
                    known = self._file.metadata
                    self._file.close()
                    self._file = parquet.ParquetFile(path, metadata=known, read_dictionary=texts)
                self.schema = self._file.schema_arrow
                count = range(self._file.num_row_groups)
                lengths = [self._file.metadata.row_group(at).num_rows for at in count]
            else:
                self._file = pyarrow.ipc.open_file(pyarrow.memory_map(path))
                self.schema = self._file.schema
                count = range(self._file.num_record_batches)
                lengths = [self._file.get_batch(at).num_rows for at in count]
        self.starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._chunk: tuple[Any, Any] = (None, None)

    def __enter__(self) -> "TableFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._chunk = (None, None)
        if hasattr(self._file, "close"):
            self._file.close()

    def column(self, name: str) -> Any:
        """Return a whole column, as an Arrow array."""
        pyarrow = import_optional("pyarrow", extra="io", purpose="Reading Parquet")
        kind = self.schema.field(name).type
        if pyarrow.types.is_nested(kind):
            raise_format_error(Path(self.path), f"the column {name!r} holds lists or structures.")
        # As Arrow holds it, as NumPy does, and where one value differs from the next.
        check_memory(Path(self.path), int(self.starts[-1]) * (2 * _row_bytes(kind) + 2))
        parts = [self._load(at, (name,))[0] for at in range(len(self.starts) - 1)]
        return pyarrow.chunked_array(parts, type=self.schema.field(name).type)

    def _load(self, at: int, columns: tuple[str, ...]) -> list[Any]:
        kinds = [self.schema.field(name).type for name in columns]
        if hasattr(self._file, "read_row_group"):
            n_rows = int(self.starts[at + 1] - self.starts[at])
            check_memory(Path(self.path), 2 * n_rows * sum(map(_row_bytes, kinds)))
            table = self._file.read_row_group(at, columns=list(columns), use_threads=False)
            return [table.column(name).combine_chunks() for name in columns]
        batch = self._file.get_batch(at)
        found = [batch.column(name) for name in columns]
        for column in found:
            column.validate(full=True)  # Arrow follows offsets without a look at the ends
        return found

    def _rows(self, columns: tuple[str, ...], start: int, stop: int) -> Iterator[tuple[int, Any]]:
        """Yield position in the range and values, chunk by chunk."""
        first = int(np.searchsorted(self.starts, start, side="right")) - 1
        for at in range(first, len(self.starts) - 1):
            begin, end = int(self.starts[at]), int(self.starts[at + 1])
            if begin >= stop:
                return
            if self._chunk[0] != (at, columns):
                loaded = self._load(at, columns)
                self._chunk = ((at, columns), _matrix(loaded))
            low, high = max(start, begin), min(stop, end)
            yield low - start, self._chunk[1][low - begin : high - begin]

    def read_into(self, source: Source, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array."""
        columns = source.columns or (source.key,)
        for at, values in self._rows(columns, start, stop):
            out[at : at + len(values)] = values

    def read_array(self, source: Source, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of another column."""
        keep, self._chunk = self._chunk, (None, None)
        parts = [np.asarray(values) for _, values in self._rows((key,), start, stop)]
        self._chunk = keep
        values = np.concatenate(parts)
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _row_bytes(kind: Any) -> float:
    """Return the bytes of one value of an Arrow type; of text, those of its place."""
    if hasattr(kind, "list_size"):
        return float(kind.list_size * _row_bytes(kind.value_type))
    try:
        return float(kind.bit_width / 8)
    except ValueError:
        return 8.0


def _matrix(columns: list[Any]) -> NDArray[Any]:
    """Return columns, or one column of lists of equal length, as a matrix."""
    pyarrow = import_optional("pyarrow", extra="io", purpose="Reading Parquet")
    first = columns[0]
    if pyarrow.types.is_fixed_size_list(first.type):
        values = first.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(first), first.type.list_size)
    if len(columns) == 1 and pyarrow.types.is_list(first.type):
        return np.array(first.to_pylist())
    return np.column_stack([column_values(column) for column in columns])


def column_values(column: Any) -> NDArray[Any]:
    """Return the values of an Arrow array; one with a dictionary repeats its texts, not copies."""
    dictionary = getattr(column, "dictionary", None)
    if dictionary is None or str(dictionary.type) not in _TEXT_TYPES:
        column = column if dictionary is None else column.dictionary_decode()
        return np.asarray(column.to_numpy(zero_copy_only=False))
    texts = np.array([*dictionary.to_pylist(), None], dtype=object)
    return texts[column.indices.fill_null(len(dictionary)).to_numpy(zero_copy_only=False)]


_READERS: dict[str, Any] = {
    "h5": _ArrayFile,
    "zarr": _ZarrFile,
    "npy": _NumpyFile,
    "table": TableFile,
}
