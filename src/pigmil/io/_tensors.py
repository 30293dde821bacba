"""Tensors of a ``.pt`` file, read without torch and without running anything in it.

``torch.save`` writes a zip file: ``*/data.pkl`` is a pickle that describes the tensors,
``*/data/0`` and so on hold their values. The unpickler here knows tensors, lists and dictionaries;
every other name is refused.
"""

import io
import pickle
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil.io._defence import check_memory, parsing, raise_format_error

_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",  # the upper half of a float32
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}


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
    n_values: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    big_endian: bool

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values once they are read."""
        return np.dtype("f4" if self.storage == "BFloat16Storage" else _STORAGES[self.storage])

    def __getitem__(self, key: Any) -> NDArray[Any]:
        stored = np.dtype(_STORAGES[self.storage]).newbyteorder(">" if self.big_endian else "<")
        if not prod(self.shape):
            return np.empty(self.shape, dtype=self.dtype)[key]
        check_memory(self.path, 2 * self.n_values * self.dtype.itemsize)
        with zipfile.ZipFile(self.path) as archive:
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


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name: a single one is ``features``, a second ``coords``.

    Parameters
    ----------
    path : Path
        A file written by ``torch.save`` (torch 1.6 or later).
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
    return {str(name): value for name, value in content.items() if isinstance(value, Tensor)}


class _Unpickler(pickle.Unpickler):
    """Builds descriptions of tensors; refuses every name that these do not need."""

    def __init__(self, path: Path, description: bytes, folder: str, big_endian: bool) -> None:
        super().__init__(io.BytesIO(description))
        self.path, self.folder, self.big_endian = path, folder, big_endian

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name."""
        # New functions for every file: a pickle may change attributes of what it is given.
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *rest: self._tensor(
                storage, offset, shape, strides
            )
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
        """Return the storage of a tensor: kind, member of the archive and number of values."""
        word, kind, key, _, n_values = identity
        if word != "storage" or kind not in _STORAGES or not isinstance(key, str):
            raise_format_error(self.path, "describes the values of a tensor in an unknown way.")
        return kind, f"{self.folder}data/{key}", n_values

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any) -> Tensor:
        kind, member, n_values = storage
        numbers = (offset, n_values, *shape, *strides)
        sized = isinstance(shape, tuple) and len(shape) == len(strides) <= 8
        if not sized or not all(type(n) is int and 0 <= n < 1 << 48 for n in numbers):
            raise_format_error(self.path, "has a tensor of an impossible shape.")
        return Tensor(
            self.path, member, kind, n_values, offset, shape, tuple(strides), self.big_endian
        )
