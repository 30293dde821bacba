"""Formats of arrays: HDF5, NumPy and tensors, in one file or a folder of slides; AnnData.

Every kind of file is opened as a mapping from names to arrays, of which ranges of rows can be
read, so that all layouts are recognized by the same code.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil._core.text import listed
from pigmil.bags import Bags, LazyBags, as_bags, as_csr, concatenate_lazy
from pigmil.bags._checks import check_memory
from pigmil.bags._lazy import INSTANCE_LABELS, Source, Stamp
from pigmil.io._build import ArrayBags
from pigmil.io._defence import (
    Group,
    contents,
    open_container,
    parsing,
    raise_format_error,
)
from pigmil.io._formats import FORMATS, Request, detect_format
from pigmil.io._labels import with_splits
from pigmil.io._saved_arrays import SLIDEFLOW_INDEX, read_npy, read_npz, read_tensors

FEATURES = ("features", "feats", "instances")
LABELS = ("label", "bag_label", "y", "labels")
MARKS = ("instance_labels", "instance_label", "patch_labels", "inst_labels")
NAMES = "feature_names"
INFO = "info:"  # start of the names of attributes that hold bag info
_BESIDE = ("labels", "coords", "patch_labels", "inst_labels", "instance_labels")  # torchmil
# Folders of the tools that contain no features, or the same slides again; zarr stores.
_NO_SLIDES = re.compile(
    r"\..*|.*\.zarr|slide_features_.*|patches|masks|stitches|thumbnails|visualization|heatmaps"
)
_HIDDEN = re.compile(r"\..*|.*" + re.escape(SLIDEFLOW_INDEX))  # files
_SAVED: Any = {"npy": read_npy, "npz": read_npz, "pt": read_tensors}  # the others are containers
_SLIDES = tuple(suffix for name in ("h5", *_SAVED) for suffix in FORMATS[name].suffixes)


def _beside(path: Path) -> dict[str, Any]:
    """Return the arrays of a slide in folders next to its features, as torchmil writes them."""
    files = ((kind, folder / kind / f"{path.stem}.npy")
             for kind in _BESIDE for folder in list(path.parents)[:3])  # fmt: skip
    return {kind: read_npy(file)["features"] for kind, file in files if file.is_file()}


@contextlib.contextmanager
def open_arrays(path: Path, kind: str) -> Iterator[Any]:
    """Open a file as a mapping from names to arrays; ``kind`` is the name of its format."""
    with parsing(path, kind):
        if kind in _SAVED:
            yield _SAVED[kind](path) | _beside(path)
        else:
            with open_container(path) as opened:
                yield opened


@dataclass(frozen=True)
class ArraySource(Source):
    """The features of one bag, an array of a file.

    Parameters
    ----------
    kind : str
        Name of the format by which the file is opened.
    key : str
        Name of the array inside the file.
    """

    kind: str = ""
    key: str = ""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Return the open file."""
        return open_arrays(Path(self.stamp.path), self.kind)

    def read(self, file: Any, start: int, stop: int) -> NDArray[Any]:
        """Return rows of the features."""
        array = file[self.key]
        return _rows(array, start, stop, batched=_is_batched(array, array))

    def read_into(self, file: Any, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array, without a copy where possible."""
        array = file[self.key]
        if hasattr(array, "read_direct") and array.dtype == out.dtype and array.ndim == 2:
            array.read_direct(out, np.s_[start:stop])
        else:
            out[...] = self.read(file, start, stop)

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of another array; labels may be stored as a table of one column."""
        values = _rows(file[key], start, stop, batched=_is_batched(file[key], file[self.key]))
        return values.reshape(-1) if key.rpartition("/")[2] in MARKS else values


def _is_batched(array: Any, features: Any) -> bool:
    """Return whether an array is ``(1, n, ...)``, as tools write features ``(1, n, d)``."""
    return len(features.shape) == 3 and tuple(array.shape[:2]) == (1, features.shape[1])


def _rows(array: Any, start: int, stop: int, *, batched: bool = False) -> NDArray[Any]:
    """Return rows of an array, which are second in one that is batched."""
    if array.dtype.kind in "OS" and hasattr(array, "asstr"):
        array = array.asstr()
    if batched:
        return np.asarray(array[0:1])[0, start:stop]
    return np.asarray(array[start:stop])


def _features_of(request: Request, arrays: Mapping[str, Any]) -> str | None:
    """Return the name of the features: as asked for, a usual one, or the only table."""
    if isinstance(request.features, str):
        return request.features if request.features in arrays else None
    tables = [name for name, array in arrays.items() if len(array.shape) in (2, 3)]
    usual = [name for name in FEATURES if name in arrays]
    return next(iter(usual or tables[: len(tables) == 1]), None)


def _add_bag(
    found: ArrayBags,
    path: Path,
    kind: str,
    default_id: str,
    arrays: Mapping[str, Any],
    attributes: Mapping[str, Any],
    prefix: str = "",
) -> None:
    """Add the bag of a slide or group: features, and arrays with one row per instance."""
    name = _features_of(found.request, arrays)
    if name is None:
        wanted = found.request.features or "features"
        raise_format_error(
            path, f"has no array {wanted!r}; it holds {listed(arrays) or 'no arrays'}."
        )
    features, label = arrays[name], None
    size = features.shape[-2] if len(features.shape) > 1 else 0
    info = {}
    for other, array in arrays.items():
        rows = tuple(array.shape)
        rows = rows[1:] if _is_batched(array, features) else rows
        if other in (name, NAMES):
            continue
        if other in LABELS and prod(rows) == 1:
            label = _single(array[()])
        elif rows[:1] == (size,):
            info[INSTANCE_LABELS if other in MARKS else other] = prefix + other
        elif other in _BESIDE:
            found.problems.add(
                f"{path}: the bag {default_id!r} has {size} instances, and {other!r} has the "
                f"shape {rows}."
            )
    single = {key: _single(value) for key, value in attributes.items()}
    own = {key: value for key, value in single.items() if value is not None}
    label = next((own[key] for key in LABELS if key in own), label)
    bag_id = own.pop("id", default_id)
    bag_info = {key.removeprefix(INFO): own[key] for key in own if key not in LABELS}
    source = ArraySource(Stamp.of(path), tuple(sorted(info.items())), kind, prefix + name)
    shape = tuple(features.shape) if len(features.shape) > 1 or size else (0, 0)
    found.add(source, bag_id, shape, features.dtype, label, bag_info)


def _single(value: Any) -> Any:
    """Return the number or text of an attribute or array of one entry; None for anything else."""
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biufSUO":
        return None
    item = array.ravel()[0]
    item = item.item() if isinstance(item, np.generic) else item
    item = item.decode("utf-8") if isinstance(item, bytes) else item
    return item if isinstance(item, bool | int | float | str) else None


def _add_container(found: ArrayBags, path: Path, kind: str, top: Group, *, alone: bool) -> None:
    """Add the bags of an HDF5 file: one bag, or one per group or array."""
    wanted = found.request.features
    names = (wanted,) if isinstance(wanted, str) else FEATURES
    if NAMES in top.arrays and found.names is None:
        stored = top.arrays[NAMES]
        found.names = tuple(str(name) for name in _rows(stored, 0, stored.shape[0]))
    if alone or any(name in top.arrays for name in names):
        holders = (top.attributes, *(array.attrs for array in top.arrays.values()))
        attributes = {name: value for holder in holders[::-1] for name, value in holder.items()}
        _add_bag(found, path, kind, path.stem, top.arrays | _beside(path), attributes)
        return
    prefix = "bags/" if "bags" in top.groups else ""
    top = top.groups.get("bags", top)
    for name, group in top.groups.items():
        if any(key in group.arrays for key in names):
            attributes = dict(group.attributes.items())
            _add_bag(found, path, kind, name, group.arrays, attributes, f"{prefix}{name}/")
    for name, array in top.arrays.items():
        if name != NAMES and len(array.shape) == 2 and array.dtype.kind in "iuf":
            _add_bag(found, path, kind, name, {name: array}, dict(array.attrs.items()), prefix)


def _add_file(found: ArrayBags, path: Path, kind: str, *, alone: bool) -> None:
    with open_arrays(path, kind) as opened:
        if kind in _SAVED:
            _add_bag(found, path, kind, path.stem, opened, {})
        else:
            _add_container(found, path, kind, contents(path, opened), alone=alone)


def scan_file(path: Path, request: Request) -> LazyBags:
    """Scan a file of features: ``.h5``, ``.npy`` or ``.pt``.

    A file that holds ``features`` is one bag. Otherwise each group with ``features`` is one, and
    each array of two dimensions, its name the id. Arrays next to the features with one row per
    instance (``coords``) become ``instance_info``; the label is an attribute or array ``label``;
    other attributes become ``bag_info``.
    """
    kind = request.format or detect_format(path).name
    if kind not in _SAVED:
        with parsing(path, kind), open_container(path) as file:
            if is_anndata(file):
                return scan_anndata(path, request)
    if request.bag is not None or request.info or request.bag_info:
        raise_format_error(path, "has one array per bag, and no columns for bag= or info=.")
    found = ArrayBags(path, request)
    _add_file(found, path, kind, alone=False)
    return found.build()


def scan_folder(path: Path, request: Request) -> LazyBags:
    """Scan a folder with one file of features per bag, at any depth, as slide tools write them.

    Files of one slide in several folders are an error that lists the folders, since they are
    features of different encoders; ``h5_files`` of CLAM is preferred to its ``pt_files``.
    """
    by_folder = {
        folder: slides
        for folder, slides in _slides_below(path)
        if slides and (folder == path or folder.name not in _BESIDE)
    }
    for folder in list(by_folder):
        if folder.name == "pt_files" and folder.with_name("h5_files") in by_folder:
            del by_folder[folder]
    stores = [entry for entry in sorted(path.iterdir()) if entry.suffix in (".zarr", ".h5ad")]
    if not by_folder and stores:
        return concatenate_lazy([scan_anndata(store, request) for store in stores])
    files = [file for folder in by_folder.values() for file in folder]
    if not files:
        raise_format_error(path, f"has no feature files ({', '.join(_SLIDES)}) in it or below it.")
    first_of: dict[str, Path] = {}
    found = ArrayBags(path, request)
    for file in files:
        other = first_of.setdefault(file.stem, file)
        if other != file:
            folders = sorted({str(one.parent.relative_to(path)) for one in (file, other)})
            raise_format_error(
                path,
                f"has several feature files for {file.stem!r}, in {listed(folders)}.",
                hint="Give one of these folders, with files of one format.",
            )
        _add_file(found, file, detect_format(file).name, alone=True)
    lazy, splits = found.build(), path / "splits.csv"  # of torchmil
    if request.splits is None and splits.is_file():
        return with_splits(lazy, request.changed(splits=splits))
    return lazy


def _slides_below(top: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield folders and the visible feature files in them; links to folders are not followed."""

    def fail(error: OSError) -> None:
        raise error

    for name, folders, files in os.walk(top, onerror=fail):
        folder = Path(name)
        folders[:] = sorted(inner for inner in folders if not _NO_SLIDES.fullmatch(inner))
        visible = [file for file in sorted(files) if not _HIDDEN.fullmatch(file)]
        yield folder, [folder / file for file in visible if file.lower().endswith(_SLIDES)]


def scan_npz(path: Path, request: Request) -> LazyBags:
    """Read ``instances`` with ``offsets``, where each bag begins and the last ends; or one slide.

    Sparse instances are ``data``, ``indices``, ``indptr`` and ``shape``. Optional are ``ids``,
    ``y``, ``instance_labels``, ``feature_names``, ``info_...`` and ``bag_info_...``.
    """
    stored = read_npz(path)
    if "offsets" not in stored:
        return scan_file(path, request)
    check_memory(path, sum(prod(one.shape) * one.dtype.itemsize for one in stored.values()))
    with parsing(path, "npz"):
        arrays = {name: array[()] for name, array in stored.items()}
        instances = arrays.get("instances")
        if instances is None and "indptr" in arrays:
            parts = tuple(arrays[name] for name in ("data", "indices", "indptr"))
            instances = as_csr(sp.csr_array(parts, shape=tuple(arrays["shape"].tolist())))
        if instances is None or instances.dtype.kind not in "biuf":
            raise_format_error(path, f"has no numbers 'instances'; it holds {listed(arrays)}.")
        names = [str(name) for name in arrays.get("feature_names", ())] or None
        info, bag_info = (
            {key[len(start) :]: arrays[key] for key in arrays if key.startswith(start)}
            for start in ("info_", "bag_info_")
        )
        fields: dict[str, Any] = {
            name: arrays.get(name) for name in ("ids", "y", "instance_labels")
        }
        fields |= {"feature_names": names, "instance_info": info, "bag_info": bag_info}
        bags = Bags(instances, arrays["offsets"], **fields, missing="keep")
        return LazyBags.from_bags(bags, path)


def scan_anndata(path: Path, request: Request) -> LazyBags:
    """Read AnnData from ``.h5ad`` or zarr: ``obs``, and the one table that holds the features."""
    anndata = import_optional("anndata", extra="anndata", purpose="Reading AnnData")
    io = import_optional("anndata.io", extra="anndata", purpose="Reading AnnData")
    if request.layer is not None and request.obsm is not None:
        raise_format_error(path, "pass layer= or obsm=, not both.")
    folder, name = "layers" if request.layer else "obsm", request.layer or request.obsm
    key = f"{folder}/{name}" if name else "X"
    with open_container(path) as file, parsing(path, "AnnData"):
        if not path.is_dir():
            contents(path, file)  # refuses links
        if not is_anndata(file):
            raise_format_error(path, "holds no AnnData; zarr stores of other kinds are not read.")
        if key not in file:
            above = file.get(folder, {}) if name else file
            raise_format_error(path, f"has no {key!r}; it holds {listed(above) or 'none'}.")
        table = file[key]
        dense = hasattr(table, "shape")
        parts = [table] if dense else [table[part] for part in ("data", "indices", "indptr")]
        check_memory(path, sum(prod(part.shape) * part.dtype.itemsize for part in parts))
        held: dict[str, Any] = {name: io.read_elem(file[name]) for name in ("obs", "var")}
        held["obsm"] = {
            place: io.read_elem(file[f"obsm/{place}"])
            for place in (request.obsm, "spatial")
            if place and f"obsm/{place}" in file
        }
        if key == "X":
            held["X"] = io.read_elem(table)
        elif folder == "layers":
            held["layers"] = {name: io.read_elem(table)}
        columns = {
            name: getattr(request, name)
            for name in ("bag", "label", "instance_label", "info", "bag_info", "layer", "obsm")
        }
        bags = as_bags(anndata.AnnData(**held), **columns, missing="keep")
        return LazyBags.from_bags(bags, path)


def is_anndata(file: Any) -> bool:
    """Return whether an open HDF5 file or zarr store holds an AnnData object."""
    return file.attrs.get("encoding-type") == "anndata" or {"obs", "var"} <= set(file)
