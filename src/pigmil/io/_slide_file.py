"""The features of one slide, as any of the tools writes them."""

import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.io._common import check_memory, check_readable, listed, parsing, raise_format_error
from pigmil.io._h5_file import FEATURES, INFO, INSTANCE_LABELS, LABELS, OneFile
from pigmil.io._npz import read_array
from pigmil.io._torch import read_tensors

INDEX = ".index.npz"  # slideflow: locations of the tiles, next to the tensor
_PATCH_LABELS = ("patch_labels", "inst_labels", *INSTANCE_LABELS)


@dataclass
class Slide:
    """The instances of one slide and what is known about them.

    Attributes
    ----------
    features : array of shape (n_instances, n_features)
        May have no rows: slides without tissue.
    instance_info : dict of str to array of shape (n_instances, ...)
        Coordinates and other arrays with one row per instance.
    bag_info : dict of str to number or str
        Attributes of the slide, such as the size of its patches.
    label, instance_labels : label and array of shape (n_instances,), or None
        Where the file holds them.
    """

    features: NDArray[Any]
    instance_info: dict[str, NDArray[Any]] = field(default_factory=dict)
    bag_info: dict[str, Any] = field(default_factory=dict)
    label: Any = None
    instance_labels: NDArray[Any] | None = None


def read_slide(path: Path, *, trusted: bool = False) -> Slide:
    """Read the features of a slide from ``.h5``, ``.pt``, ``.npy`` or ``.npz``."""
    check_readable(path)
    suffix = path.suffix.lower()
    reader = SLIDE_SUFFIXES[suffix]
    slide = _read_h5(path, trusted) if reader is _read_h5 else reader(path)
    slide.features = _table(path, slide.features)
    size = len(slide.features)
    wrong = [name for name, values in slide.instance_info.items() if len(values) != size]
    if wrong:
        raise_format_error(
            path, f"has {size} instances, but a different number of rows in {listed(wrong)}."
        )
    return slide


def read_numbers(path: Path) -> NDArray[Any]:
    """Return the numbers of a ``.npy`` file, which hold one entry per instance or per bag."""
    check_readable(path)
    with parsing(path, "npy"), path.open("rb") as file:
        return read_array(path, path.stem, file, path.stat().st_size)


def _read_npy(path: Path) -> Slide:
    return Slide(read_numbers(path))


def _read_npz(path: Path) -> Slide:
    with parsing(path, "npz"), zipfile.ZipFile(path) as archive:
        arrays = {}
        for member in archive.infolist():
            with archive.open(member) as file:
                name = member.filename.removesuffix(".npy")
                arrays[name] = read_array(path, name, file, member.file_size)
    return _from_arrays(path, arrays)


def _read_pt(path: Path) -> Slide:
    content = read_tensors(path)
    if isinstance(content, np.ndarray):
        content = {"features": content}
    elif isinstance(content, list | tuple):
        content = dict(zip(("features", "coords"), content, strict=False))
    arrays = {name: values for name, values in content.items() if isinstance(values, np.ndarray)}
    slide = _from_arrays(path, arrays)
    index = path.with_name(path.stem + INDEX)
    if index.is_file():
        with parsing(index, "npz"), zipfile.ZipFile(index) as archive:
            member = archive.getinfo("arr_0.npy")
            with archive.open(member) as file:
                locations = read_array(index, "arr_0", file, member.file_size)
        slide.instance_info.setdefault("coords", locations)
    return slide


def _from_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Slide:
    """Return a slide from arrays by name."""
    tables = [name for name, values in arrays.items() if values.ndim in (2, 3)]
    names = [name for name in FEATURES if name in arrays] or tables[: len(tables) == 1]
    if not names:
        raise_format_error(
            path, f"has no array 'features'; it holds {listed(arrays) or 'no arrays'}."
        )
    slide = Slide(arrays[names[0]])
    shape = slide.features.shape
    size = shape[-2] if len(shape) > 1 else 0
    for name, values in arrays.items():
        if name in names or values.ndim == 0:
            continue
        if values.ndim > 1 and len(values) == 1 and values.shape[1] == size:
            values = values[0]
        if name in _PATCH_LABELS:
            slide.instance_labels = values.ravel()
        elif len(values) == size:
            slide.instance_info[name] = values
    slide.label = next(
        (arrays[name].ravel()[0].item() for name in LABELS if name in arrays and arrays[name].size),
        None,
    )
    return slide


def _read_h5(path: Path, trusted: bool = False) -> Slide:
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    with parsing(path, "HDF5"), h5py.File(path, "r") as opened:
        file = OneFile(h5py, path, opened, trusted)
        (stored,) = file.bags(alone=True)
        dataset = stored.features
        count = int(np.prod([float(n) for n in dataset.shape or ()]))
        if dataset.dtype.kind not in "iufb":
            raise_format_error(path, f"has features of type {dataset.dtype}, not numbers.")
        check_memory(path, count * max(4, dataset.dtype.itemsize))
        slide = Slide(np.asarray(dataset[()]), label=stored.label)
        size = slide.features.shape[-2] if slide.features.ndim > 1 else 0
        for name, values in stored.instance_info.items():
            read = file.values(values)
            read = read[0] if read.ndim > 1 and len(read) != size else read
            if name in _PATCH_LABELS:
                slide.instance_labels = read
            else:
                slide.instance_info[name] = read
        holders = [opened, dataset, *(stored.instance_info.values())]
        slide.bag_info = dict(_attributes(file, holders)) | stored.bag_info
    return slide


def _attributes(file: OneFile, holders: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Yield the attributes that are a single number or text that is safe to read."""
    for holder in holders:
        for name in holder.attrs:
            dtype = holder.attrs.get_id(name).dtype
            text = file.h5py.check_string_dtype(dtype)
            safe = dtype.kind in "iufb" if text is None else text.length or file.trusted
            if not safe or name in (*LABELS, "id") or name.startswith(INFO):
                continue
            value = np.asarray(holder.attrs[name])
            if value.size == 1:
                single = value.ravel()[0]
                single = single.item() if isinstance(single, np.generic) else single
                yield name, single.decode("utf-8") if isinstance(single, bytes) else single


def _table(path: Path, features: NDArray[Any]) -> NDArray[Any]:
    """Return features as a table of float32 where the file holds no wider floats."""
    if features.ndim == 3 and features.shape[0] == 1:
        features = features[0]
    if features.size == 0:
        features = features.reshape(0, features.shape[-1] if features.ndim == 2 else 0)
    if features.ndim != 2 or features.dtype.kind not in "iufb":
        raise_format_error(
            path,
            f"has features of shape {features.shape} and type {features.dtype}; expected a table "
            "of numbers, one row per instance.",
        )
    single = features.dtype.kind == "f" and features.dtype.itemsize <= 4
    return features.astype(np.float32 if single else np.float64, copy=False)


SLIDE_SUFFIXES: dict[str, Callable[..., Slide]] = {
    ".h5": _read_h5,
    ".hdf5": _read_h5,
    ".hdf": _read_h5,
    ".pt": _read_pt,
    ".pth": _read_pt,
    ".npy": _read_npy,
    ".npz": _read_npz,
}
