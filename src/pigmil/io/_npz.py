"""NumPy ``.npz``: the arrays of the container as they are; nothing is ever unpickled."""

import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy
from numpy.typing import NDArray

from pigmil.bags import Bags, as_csr
from pigmil.io._common import (
    Request,
    check_memory,
    listed,
    naming,
    parsing,
    raise_format_error,
    writing,
)
from pigmil.io._values import relabelled
from pigmil.io._writing import plain

_CHUNK = 1 << 22  # bytes read at a time
_LAST_CHARACTER = 0x10FFFF
_INFO, _BAG_INFO = "info_", "bag_info_"
_FIXED = (
    "instances",
    "data",
    "indices",
    "indptr",
    "shape",
    "offsets",
    "bag_ids",
    "ids",
    "y",
    "instance_labels",
    "feature_names",
)


def read(path: Path, request: Request) -> Bags:
    """Read ``instances`` with ``offsets``, or with ``bag_ids`` (one per instance).

    Sparse instances are ``data``, ``indices``, ``indptr`` and ``shape``. Optional are ``ids``,
    ``y``, ``instance_labels``, ``feature_names`` and ``info_...``.
    """
    arrays = _arrays(path)
    instances = _instances(path, arrays)
    if request.dtype is not None:
        with np.errstate(over="ignore"):
            instances = instances.astype(request.dtype)
    info, bag_info = (
        {name[len(start) :]: values for name, values in arrays.items() if name.startswith(start)}
        for start in (_INFO, _BAG_INFO)
    )
    names = arrays.get("feature_names")
    more: dict[str, Any] = {
        "feature_names": None if names is None else [str(one) for one in names.ravel()],
        "instance_info": info,
        "bag_info": bag_info,
        "missing": request.missing,
    }
    y, inner = arrays.get("y"), arrays.get("instance_labels")
    with parsing(path, "bags"):
        new = relabelled(path, arrays.get("ids"), y, inner, request)
        if "offsets" in arrays:
            return Bags(instances, arrays["offsets"], **new, **more)
        if "bag_ids" not in arrays:
            raise_format_error(path, f"has neither offsets nor bag_ids; it holds {listed(arrays)}.")
        new = relabelled(path, arrays["bag_ids"], y, inner, request)
        return Bags.from_flat(instances, new.pop("ids"), **new, **more)


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file that belong to bags; check sizes before unpacking anything."""
    with parsing(path, "npz"), zipfile.ZipFile(path) as archive:
        members = {one.filename.removesuffix(".npy"): one for one in archive.infolist()}
        wanted = {
            name: one
            for name, one in members.items()
            if name in _FIXED or name.startswith((_INFO, _BAG_INFO))
        }
        # Held twice while bags are made of them: as read, and in the order or type of bags.
        check_memory(path, 2 * sum(one.file_size for one in wanted.values()))
        arrays = {}
        for name, one in wanted.items():
            with archive.open(one) as file:
                arrays[name] = read_array(path, name, file, one.file_size)
    return arrays


def read_array(path: Path, name: str, file: IO[bytes], n_bytes: int) -> NDArray[Any]:
    """Read an array of numbers or text, after checking its header against its size.

    Parameters
    ----------
    path, name
        File and name of the array, for messages.
    file : binary file
        Positioned at the start of an array in the format of ``.npy``.
    n_bytes : int
        Length of header and values.
    """
    version = npy.read_magic(file)
    read_header = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    if version not in read_header:
        raise_format_error(path, f"the array {name!r} has an unknown version {version}.")
    shape, column_major, dtype = read_header[version](file)
    if dtype.hasobject or dtype.kind not in "biufU":
        raise_format_error(
            path,
            f"the array {name!r} holds {dtype}, not numbers or text.",
            hint="Save plain arrays; pickled objects are never loaded.",
        )
    count = prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > n_bytes:
        raise_format_error(
            path,
            f"the array {name!r} is cut short: {shape} of {dtype} do not fit in {n_bytes} bytes.",
        )
    # Held a second time as bags, numbers of other types a third time as floats.
    same = dtype.kind == "U" or dtype.str[1:] in ("f4", "f8")
    converted = dtype.itemsize if same else 16
    check_memory(path, count * (dtype.itemsize + converted))
    values = np.empty(count, dtype=dtype)
    target = values.view(np.uint8) if values.nbytes else values
    for start in range(0, values.nbytes, _CHUNK):
        chunk = file.read(min(_CHUNK, values.nbytes - start))
        target[start : start + len(chunk)] = np.frombuffer(chunk, dtype=np.uint8)
        if len(chunk) < min(_CHUNK, values.nbytes - start):
            raise_format_error(path, f"the array {name!r} is cut short.")
    file.read(1)  # at its end an archive compares the checksum
    if dtype.kind == "U" and values.nbytes:
        native = values.astype(dtype.newbyteorder("="), copy=False)
        if native.view(np.uint32).max() > _LAST_CHARACTER:
            raise_format_error(path, f"the array {name!r} holds characters that do not exist.")
    return values.reshape(shape[::-1]).T if column_major else values.reshape(shape)


def _instances(path: Path, arrays: dict[str, NDArray[Any]]) -> Any:
    if "instances" in arrays:
        if arrays["instances"].dtype.kind not in "biuf":
            raise_format_error(
                path, f"the array 'instances' holds {arrays['instances'].dtype}, not numbers."
            )
        return arrays["instances"]
    parts = ("data", "indices", "indptr", "shape")
    if not all(name in arrays for name in parts):
        raise_format_error(
            path,
            f"has no array 'instances'; it holds {listed(arrays) or 'nothing'}.",
            hint="Save instances (2-D) with offsets, or with bag_ids, one per instance.",
        )
    with parsing(path, "a sparse matrix"):
        data, indices, indptr, shape = (arrays[name] for name in parts)
        if data.dtype.kind not in "biuf" or indices.dtype.kind not in "iu":
            raise_format_error(path, "its sparse matrix holds no numbers.")
        if len(data) != len(indices) or not len(indptr) or indptr[-1] != len(indices):
            raise_format_error(path, "its sparse matrix has parts of different lengths.")
        rows, columns = (int(n) for n in shape)
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        return as_csr(matrix)


def write(bags: Bags, path: Path, *, compress: bool = True) -> None:
    """Write everything the container holds; sparse bags stay sparse."""
    held: dict[str, Any] = {"offsets": bags.offsets, "ids": plain(path, bags.ids, "ids")}
    if bags.is_sparse:
        matrix = bags.instances
        held |= {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": np.array(matrix.shape, dtype=np.int64),
        }
    else:
        held["instances"] = bags.instances
    if bags.y is not None:
        held["y"] = plain(path, bags.y, "labels")
    if bags.instance_labels is not None:
        held["instance_labels"] = plain(path, bags.instance_labels, "instance labels")
    if bags.feature_names is not None:
        held["feature_names"] = np.array(bags.feature_names, dtype=str)
    for start, columns in ((_INFO, bags.instance_info), (_BAG_INFO, bags.bag_info)):
        for name, values in columns.items():
            held[start + name] = plain(path, values, f"the info {name!r}")
    held = {name: _fixed_width(path, values) for name, values in held.items()}
    save = np.savez_compressed if compress else np.savez
    with naming(path), writing(path) as (temporary,), temporary.open("wb") as file:
        save(file, allow_pickle=False, **held)


def _fixed_width(path: Path, values: NDArray[Any]) -> NDArray[Any]:
    """Return text as NumPy stores it, where every entry has the width of the longest."""
    if values.dtype.kind != "O":
        return values
    longest = max((len(text) for text in values.ravel().tolist()), default=0)
    check_memory(path, 4 * longest * values.size)
    return values.astype(str)
