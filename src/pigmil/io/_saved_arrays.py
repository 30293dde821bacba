"""Arrays in ``.npy``, ``.npz`` and ``.pt`` files, read when they are needed; MATLAB files.

Nothing in a file is run: NumPy's pickles are refused, and the unpickler of ``.pt`` files knows
tensors, lists and dictionaries, and refuses every other name.
"""

import contextlib
import io
import pickle
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from pigmil._core.text import listed
from pigmil.bags import LazyBags, as_csr, text_array
from pigmil.bags._checks import check_memory
from pigmil.bags._columns import BAG, BAG_LABEL, INSTANCE_LABEL
from pigmil.io._build import Table, bags_of_table
from pigmil.io._defence import (
    check_readable,
    contents,
    open_container,
    parsing,
    raise_format_error,
)
from pigmil.io._formats import Request

_PER_INSTANCE = {"bag_ids": BAG, "labels": BAG_LABEL, "instance_labels": INSTANCE_LABEL}
SLIDEFLOW_INDEX = ".index.npz"  # end of the name of a file beside a tensor: locations of the tiles
# NumPy parses headers with Python's own parser, which fails in several threads before 3.11.8
# ("AST constructor recursion depth mismatch").
_HEADERS = threading.Lock()
_STORAGES = {  # the names of torch for types; bfloat16 is the upper half of a float32
    "DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "BFloat16Storage": "u2",
    "LongStorage": "i8", "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1",
    "ByteStorage": "u1", "BoolStorage": "?",
}  # fmt: skip


@dataclass(frozen=True)
class NpyArray:
    """An array in the format of ``.npy``, in a file or a member of an archive; never unpickled.

    Rows are read, not mapped: a mapped file that is cut short meanwhile ends the process.
    """

    path: Path
    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int  # of the first value
    in_columns: bool

    @classmethod
    def of(cls, path: Path, member: str, file: IO[bytes]) -> "NpyArray":
        """Return the array that a file holds, from its header."""
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with _HEADERS:
            shape, in_columns, dtype = read(file)
        if dtype.kind not in "biufU":
            raise_format_error(
                path,
                f"the array {member or path.stem!r} holds {dtype}, not numbers or text.",
                hint="Save plain arrays; pickled objects are never loaded.",
            )
        return cls(path, member, shape, dtype, file.tell(), in_columns)

    def __getitem__(self, key: Any) -> NDArray[Any]:
        if not self.member and isinstance(key, slice) and self.shape and not self.in_columns:
            start, stop, _ = key.indices(self.shape[0])
            width = prod(self.shape[1:])
            skipped = start * width * self.dtype.itemsize
            n_rows = max(0, stop - start)
            values = np.fromfile(
                self.path, dtype=self.dtype, count=n_rows * width, offset=self.offset + skipped
            )
            return values.reshape(n_rows, *self.shape[1:])
        check_memory(self.path, prod(self.shape) * self.dtype.itemsize)
        with contextlib.ExitStack() as stack:
            file: Any = stack.enter_context(self.path.open("rb"))
            if self.member:
                file = stack.enter_context(zipfile.ZipFile(file)).open(self.member)
            with _HEADERS:
                return np.asarray(npy.read_array(file, allow_pickle=False))[key]


def read_npy(path: Path) -> dict[str, NpyArray]:
    """Return the array of a ``.npy`` file as ``features``, of which no value is read."""
    check_readable(path)
    with parsing(path, "npy"), path.open("rb") as file:
        return {"features": NpyArray.of(path, "", file)}


def read_npz(path: Path) -> dict[str, NpyArray]:
    """Return the arrays of a ``.npz`` file by name, of which no value is read."""
    check_readable(path)
    arrays = {}
    with parsing(path, "npz"), zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as file:
                arrays[name.removesuffix(".npy")] = NpyArray.of(path, name, file)
    return arrays


@dataclass(frozen=True)
class Tensor:
    """A tensor in a file, of which the values are not read yet.

    Attributes
    ----------
    path, member : Path, str
        The file, and the member of the archive that holds the values.
    storage : str
        The name of torch for their type.
    offset, shape, strides : int and tuples of int
        Which of the values belong to the tensor, counted in values.
    big_endian : bool
        Their byte order.
    """

    path: Path
    member: str
    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    big_endian: bool

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values once they are read."""
        return np.dtype("f4" if self.storage == "BFloat16Storage" else _STORAGES[self.storage])

    def __getitem__(self, key: Any) -> NDArray[Any]:
        stored = np.dtype(_STORAGES[self.storage]).newbyteorder(">" if self.big_endian else "<")
        if not prod(self.shape):
            return np.empty(self.shape, dtype=self.dtype)[key]
        with zipfile.ZipFile(self.path) as archive:
            check_memory(self.path, 2 * archive.getinfo(self.member).file_size)
            values = np.frombuffer(archive.read(self.member), dtype=stored)
        last = self.offset + sum(
            (n - 1) * step for n, step in zip(self.shape, self.strides, strict=True)
        )
        # More values than are stored would be a tensor that repeats them, a few bytes for a lot.
        if last >= len(values) or prod(self.shape) > len(values):
            raise_format_error(
                self.path,
                f"has a tensor of shape {self.shape}, which needs more values than the "
                f"{len(values)} that are stored.",
            )
        if self.storage == "BFloat16Storage":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        values = values.astype(self.dtype, copy=False)
        steps = tuple(step * values.itemsize for step in self.strides)
        view = np.lib.stride_tricks.as_strided(
            values[self.offset :], self.shape, steps, writeable=False
        )
        return np.array(view[key])


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors of a file by name: a single one is ``features``, a second ``coords``.

    ``torch.save`` (since torch 1.6) writes a zip file: the pickle ``*/data.pkl`` describes the
    tensors, ``*/data/0`` and so on hold their values.

    Parameters
    ----------
    path : Path
        The file.
    """
    if not zipfile.is_zipfile(path):
        raise_format_error(
            path,
            "is not a zip file, as torch.save has written since torch 1.6.",
            hint="Load it with torch and save it again, or save NumPy arrays.",
        )
    with parsing(path, "tensors"), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        described = [name for name in names if name.endswith("/data.pkl")]
        if len(described) != 1:
            raise_format_error(path, "has no data.pkl, or several; it holds no tensors.")
        folder = described[0].removesuffix("data.pkl")
        order = folder + "byteorder"
        big_endian = order in names and archive.read(order).strip() == b"big"
        content = _Unpickler(path, archive.read(described[0]), folder, big_endian).load()
    if isinstance(content, Tensor):
        content = {"features": content}
    if isinstance(content, list | tuple):
        content = dict(zip(("features", "coords"), content, strict=False))
    if not isinstance(content, Mapping):
        raise_format_error(path, f"holds {type(content).__name__}, not tensors.")
    arrays = {str(name): value for name, value in content.items() if isinstance(value, Tensor)}
    index = path.with_name(path.stem + SLIDEFLOW_INDEX)
    return {"coords": read_npz(index)["arr_0"], **arrays} if index.is_file() else arrays


class _Unpickler(pickle.Unpickler):
    """Builds descriptions of tensors; refuses every name that these do not need."""

    def __init__(self, path: Path, description: bytes, folder: str, big_endian: bool) -> None:
        super().__init__(io.BytesIO(description))
        self.path, self.folder, self.big_endian = path, folder, big_endian

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name."""
        # New functions for every file: a pickle may change attributes of what it is given.
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *arguments: self._tensor(*arguments[:4])
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *rest: tensor
        if (module, name) == ("collections", "OrderedDict"):
            return lambda: {}
        if module == "torch" and name in _STORAGES:
            return name
        raise_format_error(
            self.path,
            f"refers to {module[:60]}.{name[:60]}; only tensors are read; nothing is run.",
            hint="Save the features as a tensor, or as NumPy arrays.",
        )

    def persistent_load(self, identity: Any) -> Any:
        """Return the storage of a tensor: kind, and member of the archive."""
        word, kind, key, *_ = identity
        if word != "storage" or kind not in _STORAGES or not isinstance(key, str):
            raise_format_error(self.path, "describes the values of a tensor in an unknown way.")
        return kind, f"{self.folder}data/{key}"

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> Tensor:
        kind, member = storage
        numbers = (offset, *shape, *strides)
        sized = isinstance(shape, tuple) and len(shape) == len(strides) <= 8
        if not sized or not all(type(n) is int and 0 <= n < 1 << 48 for n in numbers):
            raise_format_error(self.path, "has a tensor of an impossible shape.")
        return Tensor(self.path, member, kind, offset, shape, tuple(strides), self.big_endian)


def _variables(path: Path) -> dict[str, Any]:
    """Return the variables of a file: arrays, CSR matrices, and lists of text; not structures."""
    with path.open("rb") as file:
        is_hdf5 = file.read(10) == b"MATLAB 7.3"
    if is_hdf5:
        return _load_hdf5(path)
    sizes = [float(np.prod(shape, dtype=float)) for _, shape, _ in scipy.io.whosmat(path)]
    check_memory(path, 8 * sum(sizes))
    found = scipy.io.loadmat(path, chars_as_strings=True)
    return {name: _unpacked(found[name]) for name in found if not name.startswith("__")}


def _unpacked(value: Any) -> Any:
    """Return a value of scipy: a matrix in CSR, a cell array of text as a list of text."""
    if sp.issparse(value):
        return as_csr(value.tocsr())
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in value.ravel()]
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return [str(text).rstrip() for text in value.ravel()]
    return value


def _load_hdf5(path: Path) -> dict[str, Any]:
    """Return the matrices of numbers of a MATLAB 7.3 file, which holds them by columns."""
    variables = {}
    with open_container(path) as file:
        for name, dataset in contents(path, file).arrays.items():
            if dataset.attrs.get("MATLAB_class") not in (b"cell", b"char"):
                check_memory(path, dataset.size * 8.0)
                variables[name] = dataset[()].T
    return variables


def scan_mat(path: Path, request: Request) -> LazyBags:
    """Read ``features`` (one row per instance) with ``bag_ids`` and ``labels``, one per instance.

    Optional are ``instance_labels`` and ``feature_names``. Ids and labels may be cells of text.
    """
    with parsing(path, "a MATLAB file"):
        found = _variables(path)
        features = found.get("features")
        if "bag_ids" not in found or not hasattr(features, "dtype"):
            raise_format_error(
                path,
                f"has no variables features and bag_ids; it has {listed(found) or 'none'}.",
                hint="Old benchmark files are read by pigmil.datasets.read_original; of MATLAB 7.3 "
                "full matrices of numbers are read (save text and sparse matrices with -v7).",
            )
        assert features is not None
        if features.ndim != 2 or features.dtype.kind not in "iuf":
            raise_format_error(path, "the variable 'features' is not a matrix of numbers.")
        columns = {
            role: _vector(path, found, name, features.shape[0])
            for name, role in _PER_INSTANCE.items()
            if name in found
        }
        dtype = np.float32 if features.dtype == np.float32 else np.float64
        titles = found.get("feature_names")
        return bags_of_table(Table(path, columns, features.astype(dtype), titles), request)


def _vector(path: Path, found: dict[str, Any], name: str, size: int) -> NDArray[Any]:
    """Return a row or column with one value per instance; MATLAB stores integers as doubles."""
    value = found[name]
    if sp.issparse(value) and max(value.shape) == size:
        value = value.toarray()
    values = text_array(value) if isinstance(value, list) else np.ravel(np.asarray(value))
    if len(values) != size:
        raise_format_error(path, f"has {len(values)} {name} for {size} instances.")
    if values.dtype.kind == "f" and np.isfinite(values).all():
        whole = values.astype(np.int64)
        return whole if (whole == values).all() else values
    return values.astype(np.int64) if values.dtype.kind in "iu" else values
