"""The zip archive of a model file, opened without trust: names, sizes and types come first."""

import json
import math
import re
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.archives import read_member
from pigmil._core.errors import ModelFileError
from pigmil._core.memory import available_memory

SCHEMA = "schema.json"
MAX_MEMBERS = 50_000
MAX_SCHEMA_BYTES = 1 << 28
# Arrays are stored as they are; only sparse matrices are compressed, and never this much.
MAX_RATIO = 200
FREE_BYTES = 1 << 24  # unpacked size below which the ratio is not checked
MAX_DIMENSIONS = 8

_MEMBER = re.compile(r"[0-9]{1,20}\.np[yz]")
_SPARSE_MEMBERS = frozenset({"indices.npy", "indptr.npy", "format.npy", "shape.npy", "data.npy"})
_SPARSE_MARK = "_is_array.npy"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_READ_HEADER = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


class ModelArchive:
    """Members of a model file: the schema, arrays and sparse matrices.

    The directory of the archive is checked when it is opened: known names, each once, not
    encrypted, their sizes within the file and within a bound on the ratio of compression. Every
    member is read at most once, however often the schema refers to it.

    Parameters
    ----------
    file : binary file
        An open file.
    size : int
        Its length in bytes.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._zip = zipfile.ZipFile(file)
        self._size = size
        self._members = _checked_members(self._zip, size, MAX_MEMBERS)
        for name in self._members:
            if name != SCHEMA and not _MEMBER.fullmatch(name):
                raise ModelFileError(f"it has a member named {name[:80]!r}")
        self._unpacked = sum(info.file_size for info in self._members.values())
        self._read: dict[str, Any] = {}

    def schema(self) -> Any:
        """Return the parsed schema."""
        info = self._members.get(SCHEMA)
        if info is None:
            raise ModelFileError(f"it has no {SCHEMA}")
        if info.file_size > MAX_SCHEMA_BYTES:
            raise ModelFileError(f"its {SCHEMA} has {info.file_size} bytes")
        return json.loads(read_member(self._zip, info))

    def check_array(self, name: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return type and shape of an array member; its values are not read yet."""
        info = self._info(name, ".npy")
        with self._zip.open(info) as stream:
            return _read_header(stream, info.file_size, name)

    def check_sparse(self, name: Any) -> None:
        """Check the directory and the headers of a sparse matrix; its values are not read yet."""
        info = self._info(name, ".npz")
        with self._zip.open(info) as stream, zipfile.ZipFile(stream) as inner:
            members = _checked_members(inner, info.file_size, len(_SPARSE_MEMBERS) + 1)
            if set(members) - {_SPARSE_MARK} != _SPARSE_MEMBERS:
                raise ModelFileError(f"member {name} is not a sparse matrix in rows")
            self._unpacked += sum(part.file_size for part in members.values())
            for part in members.values():
                with inner.open(part) as content:
                    _read_header(content, part.file_size, f"{name}/{part.filename}", "biufUS")

    def check_memory(self) -> None:
        """Raise an error if unpacking exceeds the allowed ratio or the available memory."""
        if self._unpacked > FREE_BYTES + MAX_RATIO * self._size:
            raise ModelFileError(
                f"it unpacks to {self._unpacked} bytes, over {MAX_RATIO} times its size"
            )
        available = available_memory()
        if available is not None and self._unpacked > available:
            raise ModelFileError(
                f"it unpacks to {self._unpacked >> 20} MiB and {available >> 20} MiB of memory "
                "are available"
            )

    def array(self, name: str) -> NDArray[Any]:
        """Return an array member."""
        if name not in self._read:
            info = self._info(name, ".npy")
            with self._zip.open(info) as stream:
                self._read[name] = _read_array(stream, info.file_size, name)
        found: NDArray[Any] = self._read[name]
        return found

    def sparse(self, name: str, kind: type) -> Any:
        """Return a sparse matrix in rows whose indices are all inside it."""
        if name not in self._read:
            info = self._info(name, ".npz")
            parts = {}
            with self._zip.open(info) as stream, zipfile.ZipFile(stream) as inner:
                for part in inner.infolist():
                    with inner.open(part) as content:
                        parts[part.filename] = _read_array(content, part.file_size, name)
            self._read[name] = _sparse_matrix(parts, name, kind)
        return self._read[name]

    def _info(self, name: Any, suffix: str) -> zipfile.ZipInfo:
        if not isinstance(name, str) or not name.endswith(suffix) or name not in self._members:
            raise ModelFileError(f"it has no member {str(name)[:80]!r} of kind {suffix}")
        return self._members[name]


def regular_size(path: Path) -> int:
    """Return the size of a regular file; refuse folders, pipes and devices."""
    if not path.exists():
        raise ModelFileError(f"There is no model file at '{path}'.")
    if not path.is_file():
        raise ModelFileError(f"'{path}' is not a regular file.")
    return path.stat().st_size


def _checked_members(archive: zipfile.ZipFile, size: int, most: int) -> dict[str, zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > most:
        raise ModelFileError(f"it has {len(infos)} members; at most {most} are read")
    members = {info.filename: info for info in infos}
    if len(members) < len(infos):
        raise ModelFileError("two of its members have the same name")
    for info in infos:
        if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
            raise ModelFileError(f"member {info.filename[:80]!r} is encrypted or oddly compressed")
    # Members that overlap would be packed bytes counted twice.
    if sum(info.compress_size for info in infos) > size:
        raise ModelFileError("its members are larger than the file")
    unpacked = sum(info.file_size for info in infos)
    if unpacked > FREE_BYTES + MAX_RATIO * size:
        raise ModelFileError(
            f"it unpacks to {unpacked} bytes, more than {MAX_RATIO} times its size"
        )
    return members


def _read_header(
    stream: IO[bytes], size: int, name: str, kinds: str = "biufU"
) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the header of an ``.npy`` member; the values must fill the rest of it exactly."""
    version = np.lib.format.read_magic(stream)
    if version not in _READ_HEADER:
        raise ModelFileError(f"array {name} has format version {version}")
    shape, _, dtype = _READ_HEADER[version](stream)
    if dtype.kind not in kinds or dtype.itemsize == 0 or dtype.subdtype or dtype.names:
        raise ModelFileError(f"array {name} has type {dtype}")
    if len(shape) > MAX_DIMENSIONS or any(type(n) is not int or n < 0 for n in shape):
        raise ModelFileError(f"array {name} has an impossible shape")
    expected = math.prod(shape) * dtype.itemsize
    if size - stream.tell() != expected:
        raise ModelFileError(
            f"array {name} has {size - stream.tell()} bytes; its shape {shape} needs {expected}"
        )
    return dtype, shape


def _read_array(stream: IO[bytes], size: int, name: str) -> NDArray[Any]:
    version = np.lib.format.read_magic(stream)
    shape, fortran, dtype = _READ_HEADER[version](stream)
    flat = np.empty(math.prod(shape), dtype=dtype)
    room: Any = flat.view(np.uint8) if flat.size else b""
    done = 0
    while done < len(room):
        count = stream.readinto(room[done:])  # type: ignore[attr-defined]
        if not count:
            raise ModelFileError(f"array {name} ends early")
        done += count
    stream.read(1)  # reaches the end, where the checksum is compared
    if dtype.kind == "b" and flat.size and flat.view(np.uint8).max() > 1:
        raise ModelFileError(f"array {name} holds values that are neither true nor false")
    if dtype.kind == "U" and flat.size and flat.view(np.uint32).max() > 0x10FFFF:
        raise ModelFileError(f"array {name} holds characters that do not exist")
    native = flat if dtype.isnative else flat.astype(dtype.newbyteorder("="))
    return native.reshape(shape, order="F" if fortran else "C")


def _sparse_matrix(parts: dict[str, NDArray[Any]], name: str, kind: type) -> Any:
    wrong = ModelFileError(f"member {name} is not a valid sparse matrix in rows")
    indptr, indices, data = (parts[f"{part}.npy"] for part in ("indptr", "indices", "data"))
    shape, marker = parts["shape.npy"], parts["format.npy"]
    if marker.shape != () or marker.item() not in ("csr", b"csr"):
        raise wrong
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise wrong
    rows, columns = (int(n) for n in shape)
    if any(part.ndim != 1 or part.dtype not in (np.int32, np.int64) for part in (indptr, indices)):
        raise wrong
    if data.ndim != 1 or data.dtype.kind not in "biuf" or len(data) != len(indices):
        raise wrong
    if len(indptr) != rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise wrong
    if (np.diff(indptr) < 0).any():
        raise wrong
    if len(indices) and not 0 <= indices.min() <= indices.max() < columns:
        raise wrong
    matrix = kind((data, indices, indptr), shape=(rows, columns))
    assert sp.issparse(matrix)
    return matrix
