"""Arrays and tables inside files, read by ranges of rows: the sources of lazy bags."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags._lazy import Source
from pigmil.io._common import check_memory, parsing, raise_format_error
from pigmil.io._zarr_store import reopen_zarr

_TEXT_TYPES = ("string", "large_string")


@dataclass(frozen=True)
class FileSource(Source):
    """Rows of a file.

    Parameters
    ----------
    key : str
        Name of the array inside the file; for a table, that of the list column or empty.
    columns : tuple of str
        Feature columns of a table, if there is one column per feature.
    """

    key: str = ""
    columns: tuple[str, ...] = ()

    def parser_errors(self) -> contextlib.AbstractContextManager[Any]:
        return parsing(Path(self.stamp.path), type(self).__name__.removesuffix("Source"))

    def read(self, file: Any, start: int, stop: int) -> Any:
        return file.read(self, start, stop)

    def read_into(self, file: Any, start: int, stop: int, out: NDArray[Any]) -> None:
        file.read_into(self, start, stop, out)

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        return np.asarray(file.read_array(self, key, start, stop))


class H5Source(FileSource):
    """An array of an HDF5 file."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        return _ArrayFile(self.stamp.path)


class ZarrSource(FileSource):
    """An array of a zarr store."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        return _ZarrFile(self.stamp.path)


class NpySource(FileSource):
    """An ``.npy`` file."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        return _NumpyFile(self.stamp.path)


class TableSource(FileSource):
    """A Parquet or Arrow file."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        return TableFile(self.stamp.path)


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

    def read(self, source: FileSource, start: int, stop: int) -> Any:
        """Return rows of the features, sparse ones as CSR."""
        array = self.arrays[source.key]
        if not hasattr(array, "shape"):
            io = import_optional("anndata.io", extra="anndata", purpose="Reading sparse AnnData")
            return io.sparse_dataset(array)[start:stop]
        return array[0, start:stop] if array.ndim == 3 else array[start:stop]

    def read_into(self, source: FileSource, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array, without a copy where possible."""
        array = self.arrays[source.key]
        if hasattr(array, "read_direct") and array.dtype == out.dtype and array.ndim == 2:
            array.read_direct(out, np.s_[start:stop])
        else:
            out[:] = self.read(source, start, stop)

    def read_array(self, source: FileSource, key: str, start: int, stop: int) -> NDArray[Any]:
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

    def read(self, source: FileSource, start: int, stop: int) -> Any:
        return self.array[start:stop]

    def read_into(self, source: FileSource, start: int, stop: int, out: NDArray[Any]) -> None:
        out[:] = self.array[start:stop]

    def read_array(self, source: FileSource, key: str, start: int, stop: int) -> NDArray[Any]:
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

    def read(self, source: FileSource, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the features."""
        columns = source.columns or (source.key,)
        return np.concatenate([values for _, values in self._rows(columns, start, stop)])

    def read_into(self, source: FileSource, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array."""
        columns = source.columns or (source.key,)
        for at, values in self._rows(columns, start, stop):
            out[at : at + len(values)] = values

    def read_array(self, source: FileSource, key: str, start: int, stop: int) -> NDArray[Any]:
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
