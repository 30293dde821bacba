"""One open HDF5 file: the bags in it, read without following it anywhere else."""

import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.isolation import child_environment
from pigmil._core.memory import available_memory
from pigmil.io._common import check_memory, listed, raise_format_error

LABELS = ("label", "bag_label", "y")
FEATURES = ("features", "feats", "instances")
INSTANCE_LABELS = ("instance_labels", "instance_label")
NAMES = "feature_names"
INFO = "info:"  # start of the names of attributes that hold bag info


_DEFLATE, _DEFLATE_RATIO = 1, 1032  # its number in HDF5, and the most it packs
_ARRANGING = (2, 3)  # shuffle and checksum: filters that do not pack
_MAX_DEPTH, _MAX_GROUPS = 50, 100_000
_OUT_OF_TIME = getattr(signal, "SIGXCPU", 0)

SUFFIXES = (".h5", ".hdf5", ".hdf")


def h5_files(folder: Path) -> list[Path]:
    """Return the HDF5 files of a folder; hidden ones are leftovers of interrupted writing."""
    return sorted(
        one
        for one in folder.iterdir()
        if one.suffix.lower() in SUFFIXES and not one.name.startswith(".")
    )


def check_packing(path: Path, dataset: Any) -> None:
    """Refuse a data set whose chunks unpack to more than their stated size.

    The HDF5 library unpacks a chunk to its end, whatever size the file states for it.
    """
    properties = dataset.id.get_create_plist()
    filters = [properties.get_filter(at)[0] for at in range(properties.get_nfilters())]
    packers = [one for one in filters if one not in _ARRANGING]
    if len(packers) > 1:
        raise_format_error(path, f"{dataset.name!r} is compressed twice.")
    available = available_memory()
    if packers != [_DEFLATE] or available is None:
        return
    suspicious = available // (4 * _DEFLATE_RATIO)  # bytes of a chunk that could fill a quarter
    if dataset.id.get_storage_size() <= suspicious:
        return
    stated = prod(dataset.chunks) * dataset.dtype.itemsize
    large: list[Any] = []

    def note_large(chunk: Any) -> None:
        if chunk.size > suspicious:
            large.append(chunk.chunk_offset)

    dataset.id.chunk_iter(note_large)
    for place in large:
        mask, packed = dataset.id.read_direct_chunk(place)
        if mask:
            continue
        unpacked = zlib.decompressobj().decompress(packed, stated + 64)
        if len(unpacked) > stated + 4:  # a checksum may follow
            raise_format_error(
                path, f"a chunk of {dataset.name!r} unpacks to more than its {stated} bytes."
            )


def _item_size(dtype: Any) -> int:
    """Return the bytes of one value; text of variable length becomes Python strings."""
    return 100 if dtype.hasobject else int(dtype.itemsize)


_READ_TEXT = Path(__file__).with_name("_h5_text.py")
_SECONDS_FOR_TEXT, _TEXT_PER_SECOND = 15, 1 << 21


def check_text(path: Path) -> None:
    """Refuse an HDF5 file whose text cannot be read, after trying it in a separate process.

    On damaged text of variable length the HDF5 library may end the process, or never return.
    """
    seconds = _SECONDS_FOR_TEXT + path.stat().st_size // _TEXT_PER_SECOND
    most = (available_memory() or 1 << 40) // 2  # it is read as objects, and copied once
    problem, done = "", _read_text_apart([str(path), str(most), str(seconds)], 10 * seconds)
    if done is None or done.returncode == -_OUT_OF_TIME:
        problem = f"took more than {seconds} seconds"
    elif done.returncode < 0:
        problem = f"the HDF5 library ended with signal {-done.returncode}"
    elif done.returncode > 0:
        problem = (done.stderr.splitlines() or ["unknown error"])[-1][:300]
    if problem or done is None:
        raise_format_error(
            path,
            f"the text in it cannot be read ({problem}).",
            hint="The file may be damaged or cut short.",
        )
    size = int(done.stdout)
    check_memory(path, 2 * size)
    if size > most:  # it was not read to its end
        raise_format_error(path, f"the text in it needs more than {size / 1e9:,.1f} GB of memory.")


def _read_text_apart(
    arguments: list[str], timeout: float
) -> "subprocess.CompletedProcess[str] | None":
    """Read the text of a file in a separate process; return None if that does not end."""
    environment = {**child_environment(), "OPENBLAS_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            [sys.executable, "-P", str(_READ_TEXT), *arguments], env=environment,
            capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def check_stored_inside(path: Path, h5py: Any) -> int:
    """Refuse an HDF5 file with links or with data in other files; return the size of its arrays.

    Parameters
    ----------
    path : Path
        The file; all of it will be read.
    h5py : module
        The library.
    """
    total, seen = 0, set[Any]()
    with h5py.File(path, "r") as file:
        opened = OneFile(h5py, path, file, trusted=True)
        waiting = [(file, 0)]
        while waiting:
            group, depth = waiting.pop()
            for name in group:
                kind = opened.member_class(group, name)
                if kind is h5py.Dataset:
                    dataset = opened.dataset(group, name)
                    size = prod(float(n) for n in dataset.shape or ())
                    total += int(size * _item_size(dataset.dtype))
                elif kind is h5py.Group:
                    inner = group[name]
                    place = h5py.h5o.get_info(inner.id).addr
                    if place in seen or depth >= _MAX_DEPTH or len(seen) > _MAX_GROUPS:
                        raise_format_error(
                            path,
                            f"{name!r} is a group inside itself, or groups are nested too deeply.",
                        )
                    seen.add(place)
                    waiting.append((inner, depth + 1))
    return total


@dataclass
class StoredBag:
    """One bag of a file: its features, label and info, not yet read."""

    id: Any
    features: Any
    label: Any = None
    instance_info: dict[str, Any] = field(default_factory=dict)
    bag_info: dict[str, Any] = field(default_factory=dict)


@dataclass
class OneFile:
    """An open file. Links, virtual and external data sets are refused, not followed."""

    h5py: Any
    path: Path
    file: Any
    trusted: bool

    def feature_names(self) -> list[str] | None:
        """Return the names of the features, where the file has them."""
        if NAMES not in self.file:
            return None
        return [str(one) for one in self.values(self.dataset(self.file, NAMES)).ravel()]

    def bags(self, *, alone: bool) -> Iterator[StoredBag]:
        """Yield the bags; ``alone`` says that the file must be one bag itself."""
        file, group_class = self.file, self.h5py.Group
        if self.path.suffix.lower() == ".h5ad" or {"obs", "var", "X"} <= set(file):
            raise_format_error(
                self.path,
                "is an AnnData file; which of its columns are bags and labels is not known here.",
                hint="Pass format='h5ad', and name them with bag= and label=.",
            )
        if any(name in file for name in FEATURES):
            yield self._group(file, self.path.stem)
            return
        if alone:
            raise_format_error(
                self.path,
                f"has no data set 'features'; it holds {listed(file)}.",
                hint="In a folder every file is one bag.",
            )
        top = file
        if "bags" in file and self.member_class(file, "bags") is group_class:
            top = file["bags"]
        for name in top:
            if self.member_class(top, name) is group_class:
                if any(one in top[name] for one in FEATURES):
                    yield self._group(top[name], name)
            elif name != NAMES:
                dataset = self.dataset(top, name)
                if dataset.ndim == 2 and dataset.dtype.kind in "iuf":
                    yield StoredBag(name, dataset, self._label(dataset, None))

    def values(self, dataset: Any) -> NDArray[Any]:
        """Return all values of a data set of numbers or text, text decoded."""
        self._check_kind(dataset.dtype, dataset.name)
        count = float(np.prod([float(n) for n in dataset.shape or ()]))
        text = self.h5py.check_string_dtype(dataset.dtype) is not None
        # Text becomes Python objects first, then an array of 4 bytes for each character.
        n_bytes = 6 * dataset.dtype.itemsize + 100 if text else 2 * dataset.dtype.itemsize
        check_memory(self.path, count * n_bytes)
        if self.h5py.check_string_dtype(dataset.dtype) is not None:
            return np.array(dataset.asstr()[()], dtype=str)
        return np.asarray(dataset[()])

    def member_class(self, group: Any, name: str) -> Any:
        """Return the class of a member, after checking that it is stored in this file."""
        link = group.get(name, getlink=True)
        if not isinstance(link, self.h5py.HardLink):
            raise_format_error(
                self.path,
                f"{name!r} is a link to another place ({type(link).__name__}); links are not "
                "followed.",
                hint="Copy the data into the file.",
            )
        return group.get(name, getclass=True)

    def dataset(self, group: Any, name: str) -> Any:
        """Return a data set that is stored in this file."""
        if self.member_class(group, name) is not self.h5py.Dataset:
            raise_format_error(self.path, f"{name!r} is not a data set.")
        dataset = group[name]
        if dataset.is_virtual or dataset.external:
            raise_format_error(
                self.path,
                f"{name!r} is stored in another file, which is not opened.",
                hint="Copy the data into the file.",
            )
        check_packing(self.path, dataset)
        return dataset

    def _group(self, group: Any, default_id: str) -> StoredBag:
        """Return the bag of a group: features, and data sets with one row per instance."""
        name = next(one for one in FEATURES if one in group)
        features = self.dataset(group, name)
        bag_id = self._attribute(group, "id") if "id" in group.attrs else default_id
        bag = StoredBag(bag_id, features, self._label(features, group))
        bag.bag_info = {
            one[len(INFO) :]: self._attribute(group, one)
            for one in group.attrs
            if one.startswith(INFO)
        }
        size = features.shape[-2] if features.ndim >= 2 else -1
        for other in group:
            if other in (name, NAMES, *LABELS):
                continue
            if self.member_class(group, other) is self.h5py.Dataset:
                dataset = self.dataset(group, other)
                shape = dataset.shape or ()
                if features.ndim == 3 and shape[:1] == (1,):
                    shape = shape[1:]
                if shape[:1] == (size,):
                    bag.instance_info[other] = dataset
        return bag

    def _label(self, features: Any, group: Any) -> Any:
        for name in LABELS:
            if name in features.attrs:
                return self._attribute(features, name)
            if group is not None and name in group.attrs:
                return self._attribute(group, name)
            if group is not None and name in group:
                dataset = self.dataset(group, name)
                if dataset.size == 1:
                    return self._scalar(self.values(dataset), name)
        return None

    def _attribute(self, holder: Any, name: str) -> Any:
        self._check_kind(holder.attrs.get_id(name).dtype, name)
        return self._scalar(holder.attrs[name], name)

    def _scalar(self, value: Any, name: str) -> Any:
        if isinstance(value, np.ndarray) and value.size == 1:
            value = value.ravel()[0]
        value = value.decode("utf-8") if isinstance(value, bytes) else value
        if not isinstance(value, str | int | float | np.integer | np.floating | np.bool_):
            raise_format_error(self.path, f"{name!r} is neither a number nor text.")
        return value.item() if isinstance(value, np.generic) else value

    def _check_kind(self, dtype: Any, name: str) -> None:
        """Raise an error for data other than numbers or text, and for text that is unsafe."""
        text = self.h5py.check_string_dtype(dtype)
        if text is None and dtype.kind not in "iufb":
            raise_format_error(self.path, f"{name!r} holds {dtype}, not numbers or text.")
        if text is not None and text.length is None and not self.trusted:
            raise_format_error(
                self.path,
                f"{name!r} is text of variable length, with which a damaged file can hang or "
                "crash the HDF5 library.",
                hint="If you trust the file pass trusted=True; else store numbers or text of "
                "fixed length, or give labels with bag_labels=.",
            )
