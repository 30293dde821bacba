"""HDF5 as slide tools write it: one data set or group a bag, or a folder with one file a bag."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil._core.segments import offsets_of
from pigmil.bags import Bags
from pigmil.io.common import Request, check_memory, listed, parsing, raise_format_error, writing
from pigmil.io.h5_file import FEATURES, INSTANCE_LABELS, LABELS, NAMES, OneFile, StoredBag
from pigmil.io.mapped import InMemory, OnDisk
from pigmil.io.values import cannot_hold, plain, relabelled

_SUFFIXES = (".h5", ".hdf5", ".hdf")


def read(path: Path, request: Request, *, trusted: bool = False) -> Bags:
    """Read bags from one file or from a folder of files.

    One file: each data set of two dimensions at the top is a bag, its name the id; or each
    group that holds ``features`` is one. A file that itself holds ``features`` is one bag,
    and a folder of such files has one bag a file, named like the file. What lies beside the
    features with one row an instance (``coords``) goes to ``instance_info``; the label is an
    attribute or data set ``label``, if there is one (else ``bag_labels=``).

    Links to other files, virtual and external storage are refused.

    Parameters
    ----------
    path, request
        The file or folder and what is wanted from it.
    trusted : bool, default=False
        Whether to read text of variable length too, which is how h5py stores Python strings
        unless told otherwise. Not for files of unknown origin: on damaged ones the HDF5
        library may crash or never return.
    """
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    gathered = _Gathered(path, request)
    try:
        for one in _files(path):
            with parsing(one, "HDF5"), h5py.File(one, "r") as opened:
                file = OneFile(h5py, one, opened, trusted)
                if gathered.names is None:
                    gathered.names = file.feature_names()
                for bag in file.bags(alone=path.is_dir()):
                    gathered.take(file, bag)
        return gathered.finish()
    except BaseException:
        gathered.store.discard()
        raise


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(one for one in path.iterdir() if one.suffix.lower() in _SUFFIXES)
    if not files:
        raise_format_error(path, "is a folder without .h5 files.")
    return files


class _Gathered:
    """What was read so far."""

    def __init__(self, path: Path, request: Request) -> None:
        self.path, self.request = path, request
        self.store: Any = (
            OnDisk(path, request.memory_map)
            if request.memory_map
            else InMemory(path, mappable=True)
        )
        self.names: list[str] | None = None
        self.ids: list[Any] = []
        self.labels: list[Any] = []
        self.sizes: list[int] = []
        self.beside: dict[str, list[NDArray[Any]]] = {}
        self.width = 0
        self.dtype: Any = request.dtype

    def take(self, file: OneFile, bag: StoredBag) -> None:
        """Read one bag: features, and the arrays beside them."""
        path, features = file.path, bag.features
        shape: Any = features.shape or ()
        if len(shape) == 3 and shape[0] == 1:
            shape = shape[1:]
        if len(shape) != 2 or features.dtype.kind not in "iuf":
            raise_format_error(
                path,
                f"the bag {bag.id!r} has features of shape {features.shape} and type "
                f"{features.dtype}; expected a table of numbers.",
            )
        if shape[0] == 0:
            raise_format_error(
                path, f"the bag {bag.id!r} has no instances; every bag needs at least one."
            )
        check_memory(path, shape[0] * shape[1] * max(4, features.dtype.itemsize))
        if self.dtype is None:
            single = features.dtype.kind == "f" and features.dtype.itemsize <= 4
            self.dtype = np.dtype(np.float32 if single else np.float64)
        if self.sizes and shape[1] != self.width:
            raise_format_error(
                path,
                f"the bag {bag.id!r} has {shape[1]} features where {self.ids[0]!r} has "
                f"{self.width}.",
            )
        self.width = shape[1]
        with np.errstate(over="ignore"):
            values = features[()].reshape(shape).astype(self.dtype)
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            raise_format_error(
                path,
                f"the bag {bag.id!r}, instance {bad[0, 0] + 1}: feature {bad[0, 1]} is "
                f"{values[tuple(bad[0])]} ({len(bad)} such values in the bag).",
                hint="Impute it or drop the instance.",
            )
        for name, dataset in bag.beside.items():
            array = file.values(dataset)
            if features.ndim == 3 and array.shape[0] == 1:
                array = array[0]
            self.beside.setdefault(name, []).append(array)
        self.ids.append(bag.id)
        self.labels.append(bag.label)
        self.sizes.append(shape[0])
        self.store.append(values)

    def finish(self) -> Bags:
        """Return the bags."""
        path, n_bags = self.path, len(self.sizes)
        if not n_bags:
            raise_format_error(
                path, "holds no bags: no data set of two dimensions and no group with features."
            )
        partial = sorted(name for name, parts in self.beside.items() if len(parts) != n_bags)
        if partial:
            raise_format_error(
                path, f"only some bags have {listed(partial)}; all need them, or none."
            )
        unlabelled = [
            one for one, label in zip(self.ids, self.labels, strict=True) if label is None
        ]
        if unlabelled and len(unlabelled) < n_bags:
            raise_format_error(
                path, f"{len(unlabelled)} bags have no label: {listed(unlabelled, 5)}."
            )
        with parsing(path, "bags"):
            info = {name: np.concatenate(parts) for name, parts in self.beside.items()}
            inner = next((info.pop(name) for name in INSTANCE_LABELS if name in info), None)
            y = None if unlabelled else np.array(self.labels)
            return Bags(
                self.store.finish(None),
                offsets_of(np.array(self.sizes)),
                feature_names=self.names,
                instance_info=info,
                check_finite=False,  # looked at bag by bag above, with the name of the file
                **relabelled(path, np.array(self.ids), y, inner, self.request),
            )


def write(bags: Bags, path: Path, *, compression: str | None = None, lossy: bool = False) -> None:
    """Write one group a bag under ``bags``, with the id and label as attributes.

    Beside ``features`` lies what is known of the instances. Text is stored in fields of fixed
    length. Sparse bags are written with their zeros.
    """
    h5py = import_optional("h5py", extra="io", purpose="Writing HDF5")
    cannot_hold(path, bags, "h5", lossy)
    ids = _stored(h5py, path, plain(path, bags.ids, "ids"))
    labels = None if bags.y is None else _stored(h5py, path, plain(path, bags.y, "labels"))
    info = {name: values for name, values in bags.instance_info.items() if name != "row"}
    taken = {*FEATURES, *LABELS, *INSTANCE_LABELS, NAMES} & set(info)
    odd = sorted(taken | {name for name in info if "/" in name or name in (".", "..", "")})
    if odd:
        raise_format_error(
            path, f"instance_info has names that HDF5 cannot use here: {listed(odd)}."
        )
    if bags.instance_labels is not None:
        info["instance_labels"] = bags.instance_labels
    beside = {name: _stored(h5py, path, plain(path, values, name)) for name, values in info.items()}
    with writing(path) as temporary, h5py.File(temporary, "w") as file:
        if bags.feature_names is not None:
            names, kind = _stored(h5py, path, np.array(bags.feature_names, dtype=str))
            file.create_dataset(NAMES, data=names, dtype=kind)
        top = file.create_group("bags")
        for place, values in enumerate(bags):
            group = top.create_group(f"{place:08d}")
            group.attrs.create("id", ids[0][place, ...], dtype=ids[1])
            if labels is not None:
                group.attrs.create("label", labels[0][place, ...], dtype=labels[1])
            dense = values.toarray() if bags.is_sparse else values
            group.create_dataset("features", data=dense, compression=compression)
            rows = slice(int(bags.offsets[place]), int(bags.offsets[place + 1]))
            for name, (whole, kind) in beside.items():
                group.create_dataset(name, data=whole[rows], dtype=kind)


def _stored(h5py: Any, path: Path, values: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """Values and their type in the file: text as UTF-8 of fixed length, no heap involved."""
    if values.dtype.kind != "U":
        return values, values.dtype
    try:
        encoded = np.char.encode(values, "utf-8")
    except UnicodeError as error:
        raise_format_error(path, f"cannot hold text that is no Unicode ({error}).")
    kind = h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize))
    return encoded.astype(kind), kind
