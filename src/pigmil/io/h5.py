"""HDF5 as slide tools write it: one data set or group a bag, or a folder with one file a bag."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil._core.segments import offsets_of
from pigmil.bags import Bags
from pigmil.io.common import Request, check_memory, fail, listed, parsing, writing
from pigmil.io.mapped import InMemory, OnDisk
from pigmil.io.values import cannot_hold, plain, relabelled

_LABELS = ("label", "bag_label", "y")
_FEATURES = ("features", "feats", "instances")
_INSTANCE_LABELS = ("instance_labels", "instance_label")
_SUFFIXES = (".h5", ".hdf5", ".hdf")


@dataclass
class _Bag:
    """Where one bag lies."""

    id: Any
    features: Any
    label: Any = None
    beside: dict[str, Any] = field(default_factory=dict)


def read(path: Path, request: Request) -> Bags:
    """Read bags from one file or from a folder of files.

    One file: each data set of two dimensions at the top is a bag, its name the id; or each
    group that holds ``features`` is one. A file that itself holds ``features`` is one bag,
    and a folder of such files has one bag a file, named like the file. What lies beside the
    features with one row an instance (``coords``) goes to ``instance_info``; the label is an
    attribute or data set ``label``, if there is one (else ``bag_labels=``).

    Links to other files, virtual and external storage are refused.
    """
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    files = _files(path)
    store = (
        OnDisk(path, request.memory_map) if request.memory_map else InMemory(path, mappable=True)
    )
    parts: dict[str, list[Any]] = {"ids": [], "labels": [], "sizes": []}
    beside: dict[str, list[NDArray[Any]]] = {}
    names = None
    try:
        with ExitStack() as opened:
            for file_path in files:
                with parsing(file_path, "HDF5"):
                    file = opened.enter_context(h5py.File(file_path, "r"))
                    if "feature_names" in file and names is None:
                        names = _texts(_dataset(h5py, file_path, file, "feature_names"))
                    for bag in _bags(h5py, file_path, file, alone=path.is_dir()):
                        _take(file_path, bag, request, store, parts, beside)
                    if path.is_dir():
                        opened.pop_all().close()
        if not parts["sizes"]:
            fail(path, "holds no bags: no data set of two dimensions and no group with features.")
        return _assembled(path, request, store, parts, beside, names)
    except BaseException:
        store.discard()
        raise


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(one for one in path.iterdir() if one.suffix.lower() in _SUFFIXES)
    if not files:
        fail(path, "is a folder without .h5 files.")
    return files


def _bags(h5py: Any, path: Path, file: Any, *, alone: bool) -> Iterator[_Bag]:
    """Yield the bags of an open file."""
    if any(name in file for name in _FEATURES):
        bag = _group(h5py, path, file)
        bag.id = _decoded(file.attrs["id"]) if "id" in file.attrs else path.stem
        yield bag
        return
    if alone:
        fail(
            path,
            f"has no data set 'features'; it holds {listed(file)}.",
            mend="In a folder every file is one bag.",
        )
    top = file
    if "bags" in file and _link(h5py, path, file, "bags") is h5py.Group:
        top = file["bags"]
    for name in top:
        kind = _link(h5py, path, top, name)
        if kind is h5py.Group:
            if any(one in top[name] for one in _FEATURES):
                bag = _group(h5py, path, top[name])
                bag.id = _decoded(top[name].attrs["id"]) if "id" in top[name].attrs else name
                yield bag
        elif name != "feature_names":
            found = _dataset(h5py, path, top, name)
            if found.ndim == 2 and found.dtype.kind in "iuf":
                yield _Bag(name, found, _label(h5py, path, found, None))


def _link(h5py: Any, path: Path, group: Any, name: str) -> Any:
    """Class of a member, once it is known to lie in this file."""
    link = group.get(name, getlink=True)
    if not isinstance(link, h5py.HardLink):
        fail(
            path,
            f"{name!r} is a link to another place ({type(link).__name__}); links are not followed.",
            mend="Copy the data into the file.",
        )
    return group.get(name, getclass=True)


def _dataset(h5py: Any, path: Path, group: Any, name: str) -> Any:
    if _link(h5py, path, group, name) is not h5py.Dataset:
        fail(path, f"{name!r} is no data set.")
    found = group[name]
    if found.is_virtual or found.external:
        fail(
            path,
            f"{name!r} is stored in another file; that is not followed.",
            mend="Copy the data into the file.",
        )
    return found


def _group(h5py: Any, path: Path, group: Any) -> _Bag:
    """A group that holds features, and what lies beside them."""
    name = next(one for one in _FEATURES if one in group)
    features = _dataset(h5py, path, group, name)
    bag = _Bag(None, features, _label(h5py, path, features, group))
    size = features.shape[-2] if features.ndim >= 2 else -1
    for other in group:
        if other in (name, "feature_names", *_LABELS):
            continue
        if _link(h5py, path, group, other) is h5py.Dataset:
            found = _dataset(h5py, path, group, other)
            shape: Any = found.shape or ()
            if shape[:1] == (1,) and shape[1:2] == (size,) and features.ndim == 3:
                shape = shape[1:]
            if shape[:1] == (size,):
                bag.beside[other] = found
    return bag


def _label(h5py: Any, path: Path, features: Any, group: Any) -> Any:
    for holder in (features, group):
        for name in _LABELS:
            if holder is None:
                continue
            if name in holder.attrs:
                return _scalar(path, holder.attrs[name], name)
            if holder is group and name in group:
                found = _dataset(h5py, path, group, name)
                if found.size == 1:
                    return _scalar(path, found[()], name)
    return None


def _scalar(path: Path, value: Any, name: str) -> Any:
    value = _decoded(value)
    if np.ndim(value) and np.size(value) == 1:
        value = _decoded(np.ravel(value)[0])
    if not isinstance(value, str | int | float | np.integer | np.floating | np.bool_):
        fail(path, f"the label {name!r} is neither a number nor text.")
    return value.item() if isinstance(value, np.generic) else value


def _decoded(value: Any) -> Any:
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _take(
    path: Path,
    bag: _Bag,
    request: Request,
    store: Any,
    parts: dict[str, list[Any]],
    beside: dict[str, list[NDArray[Any]]],
) -> None:
    """Read one bag: features, and the arrays beside them."""
    features = bag.features
    shape: Any = features.shape or ()
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2 or features.dtype.kind not in "iuf":
        fail(
            path,
            f"the bag {bag.id!r} has features of shape {features.shape} and type "
            f"{features.dtype}; expected a table of numbers.",
        )
    if shape[0] == 0:
        fail(path, f"the bag {bag.id!r} has no instances; every bag needs at least one.")
    check_memory(path, shape[0] * shape[1] * max(4, features.dtype.itemsize))
    kind = request.dtype or (
        np.float32 if features.dtype.itemsize <= 4 and features.dtype.kind == "f" else np.float64
    )
    first = parts.setdefault("kind", [(np.dtype(kind), shape[1], bag.id)])[0]
    if first[1] != shape[1]:
        fail(path, f"the bag {bag.id!r} has {shape[1]} features where {first[2]!r} has {first[1]}.")
    with np.errstate(over="ignore"):
        values = features[()].reshape(shape).astype(first[0])
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        fail(
            path,
            f"the bag {bag.id!r}, instance {bad[0, 0] + 1}: feature {bad[0, 1]} is "
            f"{values[tuple(bad[0])]} ({len(bad)} such values in the bag).",
            mend="Impute it or drop the instance.",
        )
    for name, found in bag.beside.items():
        check_memory(path, int(np.prod([float(n) for n in found.shape])) * found.dtype.itemsize)
        array = found.asstr()[()] if found.dtype.kind == "O" else found[()]
        array = array.reshape(shape[0], *array.shape[-1:]) if array.ndim == 3 else array
        beside.setdefault(name, []).append(array.astype(str) if array.dtype.kind == "O" else array)
    parts["ids"].append(bag.id)
    parts["labels"].append(bag.label)
    parts["sizes"].append(shape[0])
    store.append(values)


def _assembled(
    path: Path, request: Request, store: Any, parts: Any, beside: Any, names: Any
) -> Bags:
    with parsing(path, "bags"):
        n_bags = len(parts["sizes"])
        partial = sorted(name for name, arrays in beside.items() if len(arrays) != n_bags)
        if partial:
            fail(path, f"only some bags have {listed(partial)}; all need them, or none.")
        info = {name: np.concatenate(arrays) for name, arrays in beside.items()}
        inner = next((info.pop(name) for name in _INSTANCE_LABELS if name in info), None)
        unlabelled = [
            one for one, label in zip(parts["ids"], parts["labels"], strict=True) if label is None
        ]
        if unlabelled and len(unlabelled) < n_bags:
            fail(path, f"{len(unlabelled)} bags have no label: {listed(unlabelled, 5)}.")
        y = None if unlabelled else np.array(parts["labels"])
        ids = np.array([one.item() if isinstance(one, np.generic) else one for one in parts["ids"]])
        new = relabelled(path, ids, y, inner, request)
        return Bags(
            store.finish(None),
            offsets_of(np.array(parts["sizes"])),
            feature_names=names,
            instance_info=info,
            check_finite=False,
            **new,
        )


def _texts(dataset: Any) -> list[str]:
    return [str(one) for one in dataset.asstr()[()].ravel()]


def write(bags: Bags, path: Path, *, compression: str | None = None, lossy: bool = False) -> None:
    """Write one group a bag under ``bags``: ``features``, what is known of the instances, and
    the id and label as attributes. Sparse bags are written with their zeros.
    """  # noqa: D205
    h5py = import_optional("h5py", extra="io", purpose="Writing HDF5")
    cannot_hold(path, bags, "h5", lossy)
    ids = plain(path, bags.ids, "ids").tolist()
    labels = None if bags.y is None else plain(path, bags.y, "labels").tolist()
    beside = {
        name: plain(path, values, name)
        for name, values in bags.instance_info.items()
        if name != "row"
    }
    taken = {*_FEATURES, *_LABELS, *_INSTANCE_LABELS, "feature_names"} & set(beside)
    odd = sorted(taken | {name for name in beside if "/" in name or name in (".", "..", "")})
    if odd:
        fail(path, f"instance_info has names that HDF5 cannot use here: {listed(odd)}.")
    if bags.instance_labels is not None:
        beside["instance_labels"] = plain(path, bags.instance_labels, "instance labels")
    text = h5py.string_dtype("utf-8")
    with writing(path) as temporary, h5py.File(temporary, "w") as file:
        if bags.feature_names is not None:
            file.create_dataset("feature_names", data=list(bags.feature_names), dtype=text)
        top = file.create_group("bags")
        for place, values in enumerate(bags):
            group = top.create_group(f"{place:08d}")
            group.attrs["id"] = ids[place]
            if labels is not None:
                group.attrs["label"] = labels[place]
            dense = values.toarray() if bags.is_sparse else values
            group.create_dataset("features", data=dense, compression=compression)
            rows = slice(int(bags.offsets[place]), int(bags.offsets[place + 1]))
            for name, whole in beside.items():
                part = whole[rows]
                if part.dtype.kind == "U":
                    group.create_dataset(name, data=part.astype(object), dtype=text)
                else:
                    group.create_dataset(name, data=part)
