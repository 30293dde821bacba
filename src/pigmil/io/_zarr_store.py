"""Checks of a zarr store before the zarr library opens it.

The metadata of a store names the codecs that decode its chunks, and one of them unpickles. Only
codecs that unpack numbers and text are accepted here, chunks may not unpack to more than the
metadata says, and all of it must be regular files.
"""

import json
import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.optional import import_optional
from pigmil.io._common import check_memory, listed, parsing, raise_format_error

_METADATA = ("zarr.json", ".zarray")
_IGNORED = (".zgroup", ".zattrs", ".zmetadata")
_MAX_DIMENSIONS = 8
_MAX_METADATA = 1 << 26  # bytes of one file
_CODEC_KEYS = ("filters", "compressor", "codecs", "index_codecs")
_PACKERS = ("blosc", "zstd", "gzip", "zlib", "lz4")
_SHARDS = "sharding_indexed"
_CODECS = frozenset((*_PACKERS, _SHARDS, "bytes", "transpose", "crc32c", "vlen-utf8", "vlen-bytes"))
_TEXT_TYPES = ("|O", "string", "bytes", "variable_length_utf8", "variable_length_bytes")
_TEXT_BYTES = 100  # of a Python string and the pointer to it
_CHUNKS_AT_ONCE = 10  # zarr decodes several at the same time
_MAX_UNPACKED_TEXT = 1 << 30  # of one chunk
_NO_CHUNK = 2**64 - 1  # place of a chunk that a shard does not hold


@dataclass
class _Array:
    """Sizes and packing of one array, from its metadata."""

    n_bytes: float
    chunk_bytes: float
    packer: str  # of the chunks, or ""
    is_text: bool
    n_inner: int = 0  # chunks of a file, where files are shards
    index_first: bool = False


def open_zarr(path: Path, *, whole: bool) -> Any:
    """Open a store after checking it; refuse one that could run code or fill the memory.

    Parameters
    ----------
    path : Path
        The folder.
    whole : bool
        Whether all arrays will be read, or only chunks of them at a time.

    Returns
    -------
    zarr.Group
        Without the copies of metadata that a store may keep at its top.
    """
    with parsing(path, "zarr"):
        total = largest = 0.0
        arrays: dict[str, _Array] = {}
        for folder, files in _walk(path):
            for name in _METADATA:
                if name in files and (array := _array(path, Path(folder) / name)) is not None:
                    arrays[folder] = array
                    total += array.n_bytes
                    largest = max(largest, array.chunk_bytes)
            nearest = _nearest(folder, arrays)
            if nearest is not None and nearest.packer:
                total += _check_chunks(path, folder, files, nearest)
        # Arrays are held as read, and once more as the instances of bags.
        check_memory(path, (2 * total if whole else 0) + _CHUNKS_AT_ONCE * largest)
    return reopen_zarr(path)


def reopen_zarr(path: Path) -> Any:
    """Open a store that was checked before."""
    zarr = import_optional("zarr", extra="io", purpose="Reading zarr")
    with parsing(path, "zarr"):
        return zarr.open_group(str(path), mode="r", use_consolidated=False)


def _nearest(folder: str, arrays: dict[str, _Array]) -> _Array | None:
    """Return the array that a folder belongs to."""
    while folder not in arrays:
        above = os.path.dirname(folder)
        if above == folder or not above:
            return None
        folder = above
    return arrays[folder]


def _walk(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield all folders and their files; refuse links, pipes and devices."""
    for folder, folders, files in os.walk(path):
        for name in (*folders, *files):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise_format_error(path, f"{name[:80]!r} is a link or not a regular file.")
        yield folder, files


def _read_json(path: Path, file: Path) -> dict[str, Any]:
    if file.stat().st_size > _MAX_METADATA:
        raise_format_error(path, f"its {file.name} is too large.")
    document = json.loads(file.read_bytes())
    if not isinstance(document, dict):
        raise_format_error(path, f"its {file.name} is damaged.")
    return document


def _codecs(value: Any) -> Iterator[str]:
    """Yield the names of codecs, also of those inside others."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            yield str(one.get("id", one.get("name")))
            inner: Any = one.get("configuration")
            for key in _CODEC_KEYS if isinstance(inner, dict) else ():
                yield from _codecs(inner.get(key))
        elif one is not None:
            yield str(one)


def _array(path: Path, file: Path) -> _Array | None:
    """Return what a file of metadata says of an array; None if it describes a group."""
    node = _read_json(path, file)
    codecs = [codec for key in _CODEC_KEYS for codec in _codecs(node.get(key))]
    unknown = [codec for codec in codecs if codec not in _CODECS]
    packers = [codec for codec in codecs if codec in _PACKERS]
    if unknown or len(packers) > 1:
        raise_format_error(
            path,
            f"{file.parent.name!r} is packed with {listed(unknown or packers)}.",
            hint=f"Write it again with one of {', '.join(_PACKERS)}.",
        )
    if "shape" not in node:
        return None
    kind = node.get("dtype", node.get("data_type"))
    grid: Any = node.get("chunk_grid") or {}
    chunks: Any = node.get("chunks", (grid.get("configuration") or {}).get("chunk_shape"))
    for numbers in (node["shape"], chunks):
        valid = isinstance(numbers, list) and len(numbers) <= _MAX_DIMENSIONS
        if not valid or not all(type(n) is int and 0 <= n < 1 << 62 for n in numbers):
            raise_format_error(path, f"{file.parent.name!r} has an impossible shape.")
    is_text = isinstance(kind, str) and kind in _TEXT_TYPES
    if is_text and not {"vlen-utf8", "vlen-bytes"} & set(codecs):
        raise_format_error(path, f"{file.parent.name!r} holds objects that are not text.")
    size = _TEXT_BYTES if is_text else _item_size(path, kind)
    array = _Array(
        n_bytes=float(prod(node["shape"])) * size,
        chunk_bytes=float(prod(chunks)) * size,
        packer=packers[0] if packers else "",
        is_text=is_text,
    )
    if _SHARDS in codecs:
        _set_shards(path, node, chunks, array)
    return array


def _set_shards(path: Path, node: dict[str, Any], chunks: list[int], array: _Array) -> None:
    """Note how many chunks a file holds; only the usual order of codecs is known here."""
    codecs = node["codecs"]
    options: Any = codecs[0].get("configuration") or {}
    inner: Any = options.get("chunk_shape")
    shape = isinstance(inner, list) and len(inner) == len(chunks)
    index = list(_codecs(options.get("index_codecs")))
    nested = _SHARDS in list(_codecs(options.get("codecs")))
    if (
        len(codecs) != 1
        or nested
        or index != ["bytes", "crc32c"]
        or not shape
        or not all(type(n) is int and 0 < n <= whole and whole % n == 0
                   for n, whole in zip(inner, chunks, strict=True))
    ):  # fmt: skip
        raise_format_error(path, "has shards in an unknown form.")
    array.n_inner = prod(chunks) // prod(inner)
    array.index_first = options.get("index_location") == "start"


def _shard_starts(path: Path, file: str, array: _Array) -> Iterator[int]:
    """Yield where the chunks of a shard start."""
    size, n_bytes = os.path.getsize(file), 16 * array.n_inner + 4
    if n_bytes > size:
        raise_format_error(path, "has a shard that is cut short.")
    with open(file, "rb") as shard:
        shard.seek(0 if array.index_first else size - n_bytes)
        index = np.frombuffer(shard.read(n_bytes - 4), dtype="<u8").reshape(-1, 2)
    for start, length in index[index[:, 0] != _NO_CHUNK].tolist():
        if start + length > size:
            raise_format_error(path, "has a shard whose chunks lie outside it.")
        yield start


def _item_size(path: Path, kind: Any) -> int:
    if isinstance(kind, dict):
        kind = (kind.get("configuration") or {}).get("length_bytes", kind.get("name"))
        if type(kind) is int and 0 <= kind < 1 << 31:
            return kind
    if isinstance(kind, str) and kind.startswith("numpy."):  # dates and durations
        return 8
    if isinstance(kind, list):  # fields of a record
        kind = [tuple(one) for one in kind]
    dtype = np.dtype(kind)
    if dtype.hasobject:
        raise_format_error(path, f"has an array of {dtype}.")
    return dtype.itemsize


def _check_chunks(path: Path, folder: str, files: list[str], array: _Array) -> float:
    """Compare the unpacked size of every chunk with the metadata; return that of texts."""
    texts = 0.0
    most = array.chunk_bytes / max(1, array.n_inner)
    most = _MAX_UNPACKED_TEXT if array.is_text else max(most, 64)
    for name in files:
        if name in _IGNORED or name in _METADATA:
            continue
        file = os.path.join(folder, name)
        for start in _shard_starts(path, file, array) if array.n_inner else (0,):
            unpacked = _unpacked_size(file, start, array.packer, most)
            if unpacked is None or unpacked > most:
                size = "an unknown size" if unpacked is None else f"{unpacked:,.0f} bytes or more"
                raise_format_error(
                    path, f"the chunk {name!r} unpacks to {size}; at most {most:,.0f} are expected."
                )
            texts += unpacked if array.is_text else 0
    return texts


def _unpacked_size(file: str, start: int, packer: str, most: float) -> int | None:
    """Return the size a chunk unpacks to, as its header states or by counting; None if unknown."""
    with open(file, "rb") as chunk:
        chunk.seek(start)
        head = chunk.read(18)
        if packer == "blosc":
            return int.from_bytes(head[4:8], "little")
        if packer == "lz4":
            return int.from_bytes(head[:4], "little")
        if packer == "zstd":
            return _zstd_size(head)
        stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
        packed = head + chunk.read()
    if len(packed) * 1032 <= most:  # deflate cannot do better
        return 0
    return len(stream.decompress(packed, int(most) + 1))


def _zstd_size(head: bytes) -> int | None:
    """Return the content size that a zstd frame states, if it does.

    Examples
    --------
    >>> _zstd_size(bytes.fromhex("28b52ffd2003190000616263"))
    3
    """
    if head[:4] != b"\x28\xb5\x2f\xfd":
        return None
    descriptor = head[4]
    single = descriptor >> 5 & 1
    length = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(head[start : start + length], "little")
    return size + 256 * (length == 2) if length else None
