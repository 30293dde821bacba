"""Tensors of a ``.pt`` file, read without torch and without running anything in it.

``torch.save`` writes a zip file: ``*/data.pkl`` describes the tensors, ``*/data/0`` and so on
hold their values. The description is a pickle, but it is not unpickled: the few instructions that
describe tensors in lists and dictionaries are followed here, and all others are refused.
"""

import pickletools
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.archives import read_member
from pigmil.io._common import check_memory, parsing, raise_format_error

_MAX_PICKLE = 1 << 20  # bytes of the description: that of one tensor has about 200
_MAX_OPERATIONS = 100_000
_STORAGES = {
    "DoubleStorage": "f8",
    "FloatStorage": "f4",
    "HalfStorage": "f2",
    "BFloat16Storage": "u2",
    "LongStorage": "i8",
    "IntStorage": "i4",
    "ShortStorage": "i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_LITERALS = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "BINFLOAT",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
    ]
)
_SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset(("PROTO", "FRAME"))


class _Mark:
    """Where the items of a tuple, list or dictionary begin on the stack."""


@dataclass(frozen=True)
class _Name:
    """A name of a module that the description refers to; never imported."""

    module: str
    name: str


@dataclass(frozen=True)
class _Storage:
    """The values of one member of the archive."""

    kind: str
    key: str
    n_values: int


def read_tensors(path: Path) -> Any:
    """Return the tensors of a file as arrays, in the lists and dictionaries they are saved in.

    Parameters
    ----------
    path : Path
        A file written by ``torch.save`` (torch 1.6 or later).
    """
    with path.open("rb") as file:
        if file.read(4) != b"PK\x03\x04":
            raise_format_error(
                path,
                "is not a zip file, as torch.save has written since torch 1.6.",
                hint="Load it with torch and save it again, or save NumPy arrays.",
            )
    with parsing(path, "tensors"), zipfile.ZipFile(path) as archive:
        members = {one.filename: one for one in archive.infolist()}
        described = [name for name in members if name.endswith("/data.pkl")]
        if len(described) != 1 or len(members) != len(archive.infolist()):
            raise_format_error(path, "has no data.pkl, or several; it holds no tensors.")
        if members[described[0]].file_size > _MAX_PICKLE:
            raise_format_error(path, "has a data.pkl too large to describe tensors.")
        return _Reader(path, archive, described[0].removesuffix("data.pkl")).read()


def _short(name: Any) -> str:
    """Return a name for a message; the text of nested lists could take forever to build."""
    return name[:60] if isinstance(name, str) else f"a {type(name).__name__}"


class _Reader:
    """Follows the description of the tensors of one archive."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, folder: str) -> None:
        self.path, self.archive, self.folder = path, archive, folder
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.values: dict[_Storage, NDArray[Any]] = {}
        self.n_bytes = 0  # of all tensors, which may share their values
        self.big_endian = False
        if folder + "byteorder" in archive.namelist():
            with archive.open(folder + "byteorder") as order:
                self.big_endian = order.read(8).strip() == b"big"

    def read(self) -> Any:
        """Return the object that the description builds."""
        description = read_member(self.archive, self.archive.getinfo(self.folder + "data.pkl"))
        for number, (operation, argument, _) in enumerate(pickletools.genops(description)):
            if operation.name == "STOP":
                return self._checked(self.stack.pop())
            if number > _MAX_OPERATIONS:
                raise_format_error(self.path, "has a data.pkl too long to describe tensors.")
            self._follow(operation.name, argument)
        raise_format_error(self.path, "has a data.pkl that is cut short.")

    def _follow(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            stack.append(argument)
        elif name == "MARK":
            stack.append(_Mark())
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "GLOBAL":
            stack.append(self._name(*argument.split(" ", 1)))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(self._name(module, attribute))
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name in _SHORT_TUPLES:
            count = _SHORT_TUPLES[name]
            last = tuple(stack[-count:])
            del stack[-count:]
            stack.append(last)
        elif name == "APPEND":
            item = stack.pop()
            self._top(list).append(item)
        elif name == "APPENDS":
            items = self._since_mark()
            self._top(list).extend(items)
        elif name == "SETITEM":
            value, key = stack.pop(), stack.pop()
            self._set_items([key, value])
        elif name == "SETITEMS":
            self._set_items(self._since_mark())
        elif name == "BINPERSID":
            stack.append(self._storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._built(function, arguments))
        else:
            raise_format_error(
                self.path, f"holds the instruction {name}, which no tensor needs; it is refused."
            )

    def _since_mark(self) -> list[Any]:
        """Remove the items above the last mark, and the mark, from the stack."""
        position = len(self.stack) - 1
        while not isinstance(self.stack[position], _Mark):  # ends with an IndexError without a mark
            position -= 1
        position %= len(self.stack)
        items = self.stack[position + 1 :]
        del self.stack[position:]
        return items

    def _set_items(self, items: list[Any]) -> None:
        """Add keys and values, in turn; hashing nested tuples as keys could take forever."""
        if not all(isinstance(key, str | int) for key in items[::2]):
            raise_format_error(self.path, "has a dictionary whose keys are not text.")
        self._top(dict).update(zip(items[::2], items[1::2], strict=True))

    def _top(self, kind: type) -> Any:
        if type(self.stack[-1]) is not kind:
            raise_format_error(self.path, "has a damaged data.pkl.")
        return self.stack[-1]

    def _name(self, module: Any, name: Any) -> _Name:
        """Return a name that descriptions of tensors use; refuse all others."""
        rebuilds = (module, name) in (
            ("torch._utils", "_rebuild_tensor_v2"),
            ("torch._utils", "_rebuild_parameter"),
            ("collections", "OrderedDict"),
        )
        if rebuilds or (module == "torch" and name in _STORAGES):
            return _Name(module, name)
        raise_format_error(
            self.path,
            f"refers to {_short(module)}.{_short(name)}; only tensors are read; nothing is run.",
            hint="Save the features as a tensor, or as NumPy arrays.",
        )

    def _storage(self, identity: Any) -> _Storage:
        word, kind, key, _, n_values = identity
        known = isinstance(kind, _Name) and kind.name in _STORAGES and isinstance(key, str)
        if word != "storage" or not known or type(n_values) is not int or n_values < 0:
            raise_format_error(self.path, "describes the values of a tensor in an unknown way.")
        return _Storage(kind.name, key, n_values)

    def _built(self, function: Any, arguments: Any) -> Any:
        name = function.name if isinstance(function, _Name) else ""
        if name == "OrderedDict" and arguments == ():
            return {}
        if name == "_rebuild_parameter" and isinstance(arguments[0], np.ndarray):
            return arguments[0]
        if name != "_rebuild_tensor_v2":
            raise_format_error(self.path, "calls something that builds no tensor; it is refused.")
        storage, offset, shape, strides = arguments[:4]
        if not isinstance(storage, _Storage):
            raise_format_error(self.path, "has a tensor without values.")
        return self._tensor(storage, offset, shape, strides)

    def _tensor(self, storage: _Storage, offset: Any, shape: Any, strides: Any) -> NDArray[Any]:
        """Return one tensor, after checking that it lies within its values."""
        sized = isinstance(shape, tuple) and isinstance(strides, tuple) and len(shape) <= 8
        if (
            not sized
            or len(shape) != len(strides)
            or not all(
                type(number) is int and 0 <= number < 1 << 48
                for number in (offset, *shape, *strides)
            )
        ):
            raise_format_error(self.path, "has a tensor of an impossible shape.")
        values = self._values(storage)
        count = prod(shape)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if count and (last >= len(values) or count > len(values)):
            raise_format_error(
                self.path,
                f"has a tensor of shape {tuple(shape)}, which needs more values than the "
                f"{len(values)} that are stored.",
            )
        self.n_bytes += count * values.itemsize
        check_memory(self.path, self.n_bytes)
        if not count:
            return np.empty(shape, dtype=values.dtype)
        steps = tuple(step * values.itemsize for step in strides)
        view = np.lib.stride_tricks.as_strided(values[offset:], shape, steps, writeable=False)
        return np.ascontiguousarray(view)

    def _values(self, storage: _Storage) -> NDArray[Any]:
        if storage not in self.values:
            kind = np.dtype(_STORAGES[storage.kind]).newbyteorder(">" if self.big_endian else "<")
            member = self.archive.getinfo(f"{self.folder}data/{storage.key}")
            if member.file_size != storage.n_values * kind.itemsize:
                raise_format_error(
                    self.path,
                    f"says it stores {storage.n_values} values, and has {member.file_size} bytes "
                    f"for them.",
                )
            # As read, as floats, as the instances of bags, and once more while these are joined.
            wide = 4 if kind.kind == "f" and kind.itemsize <= 4 else 8
            check_memory(self.path, storage.n_values * (kind.itemsize + 3 * wide))
            values = np.frombuffer(read_member(self.archive, member), dtype=kind)
            if storage.kind == "BFloat16Storage":  # the upper half of a float32
                values = (values.astype(np.uint32) << 16).view(np.float32)
            self.values[storage] = values.astype(values.dtype.newbyteorder("="), copy=False)
        return self.values[storage]

    def _checked(self, content: Any) -> Any:
        if isinstance(content, np.ndarray | dict | list | tuple):
            return content
        raise_format_error(self.path, f"holds {type(content).__name__}, not tensors.")
