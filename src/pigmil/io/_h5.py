"""HDF5 as slide tools write it: one data set or group per bag, or a folder of files."""

import contextlib
import io
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, Coded, encode
from pigmil.io._common import (
    Request,
    check_memory,
    check_readable,
    listed,
    parsing,
    raise_format_error,
    writing,
)
from pigmil.io._h5_file import (
    FEATURES,
    INFO,
    INSTANCE_LABELS,
    LABELS,
    NAMES,
    OneFile,
    StoredBag,
    h5_files,
)
from pigmil.io._rows import FileRows
from pigmil.io._writing import plain


def read(path: Path, request: Request, *, trusted: bool = False) -> Bags:
    """Read bags from one file or from a folder of files.

    One file: each data set of two dimensions at the top is a bag, its name the id; or each
    group that holds ``features`` is one. A file that itself holds ``features`` is one bag,
    and a folder of such files has one bag per file, named like the file. Data sets next to the
    features with one row per instance (``coords``) go to ``instance_info``; the label is an
    attribute or data set ``label``, if there is one (else ``bag_labels=``).

    Links to other files, virtual and external storage are refused.

    Parameters
    ----------
    path, request
        The file or folder and the options of ``read_bags``.
    trusted : bool, default=False
        Whether to read text of variable length too, which is how h5py stores Python strings
        by default. Not for files of unknown origin: on damaged ones the HDF5
        library may crash or never return.
    """
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    starts, ids, seen, widths = [0], list[Any](), set[Any](), set[int]()
    names: list[str] | None = None

    def where(row: int) -> str:
        bag = int(np.searchsorted(starts, row, side="right")) - 1
        return f"the bag {list(ids)[bag]!r}, instance {row - starts[bag] + 1}"

    with FileRows(path, request, where=where, mappable=True, typed=True) as rows:
        for one in _files(path):
            with parsing(one, "HDF5"), h5py.File(one, "r") as opened:
                file = OneFile(h5py, one, opened, trusted)
                names = names or file.feature_names()
                if not request.memory_map:
                    # As parts, and joined. A small file can declare many bags that are not stored.
                    sizes = (_float_bytes(bag.features) for bag in file.bags(alone=path.is_dir()))
                    check_memory(one, 2 * sum(sizes), mappable=True)
                for bag in file.bags(alone=path.is_dir()):
                    features = _features(one, bag)
                    widths.add(features.shape[1])
                    if bag.id in seen or len(widths) > 1:
                        raise_format_error(
                            one,
                            f"the bag {bag.id!r} occurs twice."
                            if bag.id in seen
                            else f"the bag {bag.id!r} has {features.shape[1]} features where "
                            f"{next(iter(ids))!r} has {sorted(widths - {features.shape[1]})[0]}.",
                        )
                    _add(rows, file, bag, features)
                    ids.append(bag.id)
                    seen.add(bag.id)
                    starts.append(rows.n_rows)
        if not ids:
            raise_format_error(
                path, "holds no bags: no data set of two dimensions and no group with features."
            )
        return rows.build(names)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = h5_files(path)
    if not files:
        raise_format_error(path, "is a folder without .h5 files.")
    for one in files:
        check_readable(one)
    return files


def _features(path: Path, bag: StoredBag) -> NDArray[Any]:
    """Return the features of a bag, of float32 where the file holds no wider floats."""
    dataset = bag.features
    shape: Any = dataset.shape or ()
    if len(shape) == 3 and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != 2 or dataset.dtype.kind not in "iuf":
        raise_format_error(
            path,
            f"the bag {bag.id!r} has features of shape {dataset.shape} and type "
            f"{dataset.dtype}; expected a table of numbers.",
        )
    if shape[0] == 0:
        raise_format_error(
            path, f"the bag {bag.id!r} has no instances; every bag needs at least one."
        )
    # As stored, as floats, and copied into the table of all bags.
    stored = float(shape[0]) * float(shape[1]) * dataset.dtype.itemsize
    check_memory(path, stored + 3 * _float_bytes(dataset))
    kind = np.float32 if _is_single(dataset) else np.float64
    return np.asarray(dataset[()].reshape(shape), dtype=kind)


def _is_single(dataset: Any) -> bool:
    """Return whether float32 holds all numbers of a data set."""
    return bool(dataset.dtype.kind == "f" and dataset.dtype.itemsize <= 4)


def _float_bytes(dataset: Any) -> float:
    """Return the size of a data set in memory, as floats."""
    return math.prod(map(float, dataset.shape or ())) * (4 if _is_single(dataset) else 8)


def _add(rows: FileRows, file: OneFile, bag: StoredBag, features: NDArray[Any]) -> None:
    """Add one bag: its features and other arrays."""
    size = len(features)
    whole = np.zeros(size, dtype=np.int64)
    info = {}
    for name, dataset in bag.instance_info.items():
        values = file.values(dataset)
        info[name] = values[0] if dataset.ndim > 1 and len(values) != size else values
    inner = next((info.pop(name) for name in INSTANCE_LABELS if name in info), None)
    if rows.n_rows == 0 and rows.dtype is None:
        rows.dtype = features.dtype  # all bags get the type of the first
    rows.add(
        features,
        Coded([bag.id], whole),
        Coded([bag.label], whole),
        None if inner is None else encode(inner),
        info,
        {name: Coded([value], whole) for name, value in bag.bag_info.items()},
    )


def write(bags: Bags, path: Path, *, compression: str | None = None, lossy: bool = False) -> None:
    """Write one group per bag under ``bags``, with id, label and bag info as attributes.

    Instance labels and info are data sets next to ``features``. Text is stored in fields of fixed
    length. Sparse bags are written with their zeros.
    """
    h5py = import_optional("h5py", extra="io", purpose="Writing HDF5")
    info = {name: values for name, values in bags.instance_info.items() if name != "row"}
    taken = {*FEATURES, *LABELS, *INSTANCE_LABELS, NAMES} & set(info)
    unusable = sorted(taken | {name for name in info if "/" in name or name in (".", "..", "")})
    if unusable:
        raise_format_error(
            path, f"instance_info has names that HDF5 cannot use here: {listed(unusable)}."
        )
    if bags.instance_labels is not None:
        info["instance_labels"] = bags.instance_labels
    attributes = {"id": bags.ids, **{INFO + name: values for name, values in bags.bag_info.items()}}
    if bags.y is not None:
        attributes["label"] = bags.y
    per_bag, per_instance = (
        {name: _stored(h5py, path, plain(path, values, name)) for name, values in columns.items()}
        for columns in (attributes, info)
    )
    with writing(path) as (temporary,), _writable(h5py, temporary) as (file, sink):
        if bags.feature_names is not None:
            names, kind = _stored(h5py, path, np.array(bags.feature_names, dtype=str))
            file.create_dataset(NAMES, data=names, dtype=kind)
        top = file.create_group("bags")
        for position, values in enumerate(bags):
            sink.raise_error()
            group = top.create_group(f"{position:08d}")
            for name, (whole, kind) in per_bag.items():
                group.attrs.create(name, whole[position, ...], dtype=kind)
            dense = values.toarray() if bags.is_sparse else values
            group.create_dataset("features", data=dense, compression=compression)
            rows = slice(int(bags.offsets[position]), int(bags.offsets[position + 1]))
            for name, (whole, kind) in per_instance.items():
                group.create_dataset(name, data=whole[rows], dtype=kind)


class _Sink(io.RawIOBase):
    """A file for h5py that remembers the error of a write instead of raising it.

    The HDF5 library crashes when it cannot write while it closes a file, so errors such as
    a full disk are kept from it and raised by the writer.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = 0) -> int:
        return self.file.seek(offset, whence)

    def write(self, content: Any) -> int:
        return self._try(self._write_all, content, len(content))

    def _write_all(self, content: Any) -> int:
        rest = memoryview(content).cast("B")
        while rest:
            rest = rest[self.file.write(rest) :]
        return len(content)

    def readinto(self, buffer: Any) -> int:
        return self._try(self.file.readinto, buffer, 0)  # type: ignore[attr-defined]

    def truncate(self, size: int | None = None) -> int:
        return self._try(self.file.truncate, size, size or 0)

    def flush(self) -> None:
        """Do nothing: the file is not buffered."""

    def _try(self, function: Callable[[Any], int], argument: Any, failed: int) -> int:
        try:
            return failed if self.error else function(argument)
        except OSError as error:
            self.error = error
            return failed

    def raise_error(self) -> None:
        """Raise the error of an earlier write."""
        if self.error is not None:
            raise self.error


@contextlib.contextmanager
def _writable(h5py: Any, path: Path) -> Iterator[tuple[Any, _Sink]]:
    """Open an HDF5 file for writing; a full disk is an OSError, never the end of the process."""
    with path.open("r+b", buffering=0) as file:
        sink = _Sink(file)
        try:
            with h5py.File(sink, "w") as opened:
                yield opened, sink
        finally:
            sink.raise_error()


def _stored(h5py: Any, path: Path, values: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """Return values and their type in the file: text is UTF-8 of fixed length, without a heap."""
    if values.dtype.kind not in "UO":
        return values, values.dtype
    try:
        encoded = np.char.encode(values.astype(str), "utf-8")
    except UnicodeError as error:
        raise_format_error(path, f"cannot hold text that is not valid Unicode ({error}).")
    kind = h5py.string_dtype("utf-8", max(1, encoded.dtype.itemsize))
    return encoded.astype(kind), kind
