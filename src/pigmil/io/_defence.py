"""Defence of all readers against damaged and hostile files, in one place.

- Whatever a parser raises becomes one :class:`BagFormatError` with the name of the file.
- Only regular files are opened; sizes that a file declares are compared with the memory.
- No file runs code or leads elsewhere: pickles are never loaded (the tensors of ``.pt`` files have
  an unpickler of their own, which knows nothing else), HDF5 files hold no links and no data in
  other files, zarr stores use only codecs on a list.

Native parsers may still crash or never return on a crafted file. With ``isolated=True`` a child
process with limits of memory and CPU time reads the files and sends ids, labels and arrays: a
decompression bomb, an endless loop or a crash ends the child, and is one error here.
"""

import contextlib
import json
import os
import stat
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import scipy.sparse as sp

from pigmil._core.errors import BagFormatError, BagsError, MissingDependencyError, import_optional
from pigmil._core.files import available_memory
from pigmil._core.isolation import Child, ChildCallError, ChildError
from pigmil._core.text import listed
from pigmil.bags import Bags, LazyBags

_MAX_DEPTH = 50  # groups inside groups of an HDF5 file
_CODEC_KEYS = ("filters", "compressor", "codecs", "index_codecs")
_CODECS = {
    "blosc", "bytes", "crc32c", "gzip", "lz4", "sharding_indexed", "transpose", "vlen-bytes",
    "vlen-utf8", "zlib", "zstd",
}  # fmt: skip
_MEBIBYTE = 2**20
# A call may take 30 s, 0.1 s more for each file and 1 s more for each 5 MB: several times what
# the slowest format (text) needs.
_SECONDS, _SECONDS_PER_FILE, _BYTES_PER_SECOND = 30.0, 0.1, 5e6
_MEMORY_SHARE = 0.5  # of the memory that is available, for the child
_SECONDS_OF_WAITING = 600.0  # beside ten times the CPU time: a slow disk, but not for ever
_LIBRARIES = ("scipy.io", "pigmil.io", "pigmil.bags")  # imported before a limit holds
_PARTS = ("ids", "y", "instance_labels", "feature_names", "offsets", "shape")


class BagFileNotFoundError(BagFormatError, FileNotFoundError):
    """There is no file where bags were to be read."""

    __str__ = Exception.__str__


def raise_format_error(path: Path, problem: str, *, where: str = "", hint: str = "") -> NoReturn:
    """Raise the error of a file: which file, where in it, what is wrong, how to fix it."""
    location = f"{path}, {where}" if where else str(path)
    raise BagFormatError(f"{location}: {problem}" + (f" {hint}" if hint else ""))


@contextlib.contextmanager
def parsing(path: Path, what: str, *, hint: str = "", quiet: bool = True) -> Iterator[None]:
    """Turn any error of a parser into one error that names the file, and ignore its warnings."""
    try:
        with warnings.catch_warnings():
            if quiet:
                warnings.simplefilter("ignore")
            yield
    except (BagFormatError, MissingDependencyError):
        raise
    except BagsError as error:
        raise BagFormatError(f"{path}: {error}") from error
    except Exception as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        hint = hint or "The file may be damaged, cut short or of another format."
        raise BagFormatError(f"{path}: cannot be read as {what} ({detail}). {hint}") from error


def check_readable(path: Path, *, folder: bool = False) -> None:
    """Raise a clear error unless the path is a regular file that can be opened and is not empty."""
    problem = ""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            problem = "" if folder else "is a folder; give a file in it, or a folder of .h5 files."
        elif not stat.S_ISREG(mode):
            problem = "is not a regular file."
        else:
            with path.open("rb") as file:
                problem = "" if file.read(1) else "is empty. Download or write it again."
    except FileNotFoundError:
        raise BagFileNotFoundError(
            f"{path}: there is no such file (working folder: {Path.cwd()})."
        ) from None
    except (OSError, ValueError) as error:
        problem = f"cannot be opened ({getattr(error, 'strerror', None) or error})."
    if problem:
        raise_format_error(path, problem)


@contextlib.contextmanager
def open_container(path: Path) -> Iterator[Any]:
    """Open an HDF5 file or a zarr store."""
    if path.is_dir():
        group = _open_zarr(path)
        with contextlib.closing(group.store):
            yield group
    else:
        h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
        with parsing(path, "HDF5"), h5py.File(path, "r") as file:
            yield file


@dataclass
class Group:
    """A group of an HDF5 file: its arrays, groups and attributes by name."""

    arrays: dict[str, Any]
    groups: dict[str, "Group"]
    attributes: Any


def contents(path: Path, group: Any, seen: frozenset[int] = frozenset()) -> Group:
    """Return all that an open HDF5 file holds; refuse links and data in other files."""
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    place = h5py.h5o.get_info(group.id).addr
    if place in seen or len(seen) > _MAX_DEPTH:
        raise_format_error(path, f"{group.name!r} is a group inside itself, or nested too deeply.")
    found = Group({}, {}, group.attrs)
    for name in group:
        link = group.get(name, getlink=True)
        member = group[name] if isinstance(link, h5py.HardLink) else None
        is_array = isinstance(member, h5py.Dataset)
        if member is None or (is_array and (member.is_virtual or member.external)):
            raise_format_error(
                path,
                f"{name!r} is a link, or stored in another file; neither is followed.",
                hint="Copy the data into the file.",
            )
        if is_array:
            found.arrays[name] = member
        elif isinstance(member, h5py.Group):
            found.groups[name] = contents(path, member, seen | {place})
    return found


def _open_zarr(path: Path) -> Any:
    """Open a zarr store after checking it; refuse unknown codecs, links, pipes and devices.

    The metadata of a store names the codecs that decode its chunks, and one of them unpickles.
    Copies of metadata that a store may keep at its top are not used.
    """
    zarr = import_optional("zarr", extra="io", purpose="Reading zarr")
    with parsing(path, "zarr"):
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                mode = os.lstat(os.path.join(folder, name)).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise_format_error(path, f"{name[:80]!r} is a link or not a regular file.")
            for name in {"zarr.json", ".zarray"} & set(files):
                _check_codecs(path, Path(folder) / name)
        return zarr.open_group(str(path), mode="r", use_consolidated=False)


def _check_codecs(path: Path, file: Path) -> None:
    node = json.loads(file.read_bytes())
    unknown = {name for key in _CODEC_KEYS for name in _codecs(node.get(key))} - _CODECS
    if unknown:
        raise_format_error(
            path,
            f"{file.parent.name!r} is packed with {listed(sorted(unknown))}.",
            hint="Write it again with one of blosc, gzip, lz4, zlib or zstd.",
        )
    if node.get("dtype") == "|O" and "vlen" not in str(node.get("filters")):
        raise_format_error(path, f"{file.parent.name!r} holds objects that are not text.")


def _codecs(value: Any) -> Iterator[str]:
    """Yield the names of codecs, also of those inside others."""
    for codec in value if isinstance(value, list) else [value]:
        if isinstance(codec, dict):
            yield str(codec.get("id", codec.get("name")))
            options: Any = codec.get("configuration")
            for key in _CODEC_KEYS if isinstance(options, dict) else ():
                yield from _codecs(options.get(key))
        elif codec is not None:
            yield str(codec)


# Errors of the child that are raised here again; all others mean a damaged file.
_ERRORS = (BagFormatError, BagFileNotFoundError, BagsError, MissingDependencyError)


@cache
def _child() -> Child:
    """Return the child of this process, which reads all isolated files one after the other."""
    return Child(preload=_LIBRARIES)


def call_isolated(function: Any, paths: Sequence[Path], request: Any) -> Any:
    """Return the result of a function of files and request, called in the child."""
    child = _child()
    inside = (Path(folder, name) for top in paths for folder, _, names in os.walk(top)
              for name in names)  # fmt: skip
    files = [file for file in (*paths, *inside) if file.exists()]
    n_bytes = sum(file.stat().st_size for file in files)
    child.cpu_limit = _SECONDS + len(files) * _SECONDS_PER_FILE + n_bytes / _BYTES_PER_SECOND
    child.time_limit = _SECONDS_OF_WAITING + 10 * child.cpu_limit
    child.memory_limit = (available_memory() or 8 << 30) * _MEMORY_SHARE / _MEBIBYTE
    try:
        return child.call(function, paths, request)
    except ChildCallError as error:
        for kind in _ERRORS:
            if kind.__name__ == error.type_name:
                raise kind(error.message) from None
        problem = f"cannot be read ({error.type_name}: {error.message})"
    except ChildError as error:
        problem = f"cannot be read in isolation: {error}"
    raise BagFormatError(f"{paths[0]}: {problem}. The file may be damaged.") from None


def read_parts(paths: Sequence[Path], request: Any) -> dict[str, Any]:
    """Return the arrays of which bags consist; called in the child. A sparse matrix is three."""
    from pigmil.io._formats import scan_paths

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bags = scan_paths(paths, request).load()
    rows = bags.instances
    sparse = [rows.data, rows.indices, rows.indptr] if bags.is_sparse else None
    return {name: getattr(bags, name) for name in _PARTS} | {
        "instances": sparse or rows,
        "bag_info": dict(bags.bag_info),
        "instance_info": dict(bags.instance_info),
        "warnings": [str(one.message) for one in caught if issubclass(one.category, UserWarning)],
    }


def scan_isolated(paths: Sequence[Path], request: Any) -> LazyBags:
    """Read files in the child process; see :func:`pigmil.scan_bags`."""
    found = call_isolated(read_parts, paths, request)
    for message in found.pop("warnings"):
        warnings.warn(message, UserWarning, stacklevel=4)
    instances, offsets, shape = (found.pop(name) for name in ("instances", "offsets", "shape"))
    if isinstance(instances, list):
        instances = sp.csr_array(tuple(instances), shape=(int(offsets[-1]), shape[1]))
    return LazyBags.from_bags(Bags(instances, offsets, **found, missing="keep"), paths[0])
