"""Bags that stay on disk: known by their ids, labels and sizes, read block by block."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, BagsError, Problems
from pigmil._core.segments import offsets_of, row_numbers, segment_blocks, segment_gather
from pigmil._core.typing import IntArray
from pigmil.bags._checks import as_csr, check_info, check_memory, text_array
from pigmil.bags._columns import group_rows
from pigmil.bags._container import Bags, BagsBase, resolve_index, take

BLOCK_BYTES = 1 << 25
INSTANCE_LABELS = "instance_label"  # further column that holds the labels of instances
ROW_NUMBER = "\0row"  # stands for a further column that holds the numbers of the rows
_GAP = 64  # rows that are read without need rather than beginning a new read


@dataclass(frozen=True)
class Stamp:
    """Size and time of change of a file, by which a later reader recognizes it.

    Parameters
    ----------
    path : str
        The file.
    size, mtime_ns : int
        Its size and time of change.
    """

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: str | Path) -> "Stamp":
        """Return the stamp of a file."""
        found = os.stat(path)
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    def verify(self) -> None:
        """Raise an error that names the file if it has changed or vanished since."""
        try:
            found = Stamp.of(self.path)
        except OSError as error:
            # Without the cause: dask cannot send errors that derive from OSError.
            raise BagFormatError(
                f"{self.path}: cannot be opened on host {socket.gethostname()!r} "
                f"({error.strerror}), though it was there when the bags were scanned. Every "
                "worker must see the files under the same path; if the file is gone, scan again."
            ) from None
        if found != self:
            raise BagFormatError(
                f"{self.path}: has changed since it was scanned ({self.size:,} bytes then, "
                f"{found.size:,} now). Scan again, and start again what was computed from it."
            )


@dataclass(frozen=True)
class Source:
    """A table of instances, and further columns, of which ranges of rows can be read.

    Formats derive from it. Sources are sent to workers, so that they hold paths and names, and
    :meth:`open` opens the file where the rows are read. Sources of the same file that follow each
    other share what :meth:`open` returns.

    Parameters
    ----------
    stamp : Stamp
        The file.
    info : tuple of (str, str)
        Names of further columns, with one row per instance, and where the file holds them.
    """

    stamp: Stamp
    info: tuple[tuple[str, str], ...] = ()

    def verify(self) -> None:
        """Raise an error if the file has changed since it was scanned."""
        self.stamp.verify()

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Return the open file, in a context that turns errors of its parser into one error."""
        raise NotImplementedError

    def read(self, file: Any, start: int, stop: int) -> Any:
        """Return rows of the features, as an array or sparse matrix."""
        raise NotImplementedError

    def read_into(self, file: Any, start: int, stop: int, out: NDArray[Any]) -> None:
        """Write rows of the features into an array."""
        out[...] = self.read(file, start, stop)

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a further column."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class MemorySource(Source):
    """Instances of a file without random access (CSV, MATLAB, npz), held in memory.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        All rows.
    columns : mapping of str to array of shape (n_instances, ...)
        The further columns; ``info`` maps their names to themselves.
    """

    instances: Any = None
    columns: Mapping[str, NDArray[Any]] | None = None

    @classmethod
    def of(cls, path: Path, instances: Any, columns: Mapping[str, NDArray[Any]]) -> "MemorySource":
        """Return the source of arrays that were read from a file."""
        info = tuple((name, name) for name in columns)
        return cls(Stamp.of(path), info, instances=instances, columns=dict(columns))

    def verify(self) -> None:
        """Do nothing: the file is not read again."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Return nothing: the rows are in memory."""
        return contextlib.nullcontext()

    def read(self, file: Any, start: int, stop: int) -> Any:
        """Return rows of the features."""
        return self.instances[start:stop]

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a further column."""
        assert self.columns is not None
        return self.columns[key][start:stop]

    def narrowed(self, start: int, stop: int) -> "MemorySource":
        """Return the source of some rows alone, to be sent to a worker."""
        columns = {name: values[start:stop] for name, values in (self.columns or {}).items()}
        # The numbers of rows in the file would be lost.
        columns |= {name: np.arange(start, stop) for name, key in self.info if key == ROW_NUMBER}
        info = tuple((name, name) for name in columns)
        return MemorySource(self.stamp, info, self.instances[start:stop], columns)


@dataclass(eq=False, repr=False)
class LazyBags(BagsBase):
    """Bags on disk, of which ids, labels, sizes and bag info are in memory.

    :func:`pigmil.scan_bags` returns them. They are indexed and split like :class:`pigmil.Bags`
    (slices, masks, arrays of positions, ids; scikit-learn's splitters work), which reads nothing.
    Methods score them block by block. A pickle of lazy bags holds paths and ranges of rows, and
    values only of formats that cannot be read in parts, so that it is cheap to send to a worker.

    Attributes
    ----------
    ids, y : array of shape (n_bags,)
        Name and label of each bag; ``y`` is None if no labels are known.
    bag_info : mapping of str to array of shape (n_bags,)
        Further data on each bag, such as the patient.
    sizes : array of int of shape (n_bags,)
        Number of instances of each bag.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag would begin if all were read.
    dtype : dtype
        Type of the values on disk; float16 is read as float32.
    feature_names : tuple of str or None
        Names of the features where the files have them.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from pigmil import scan_bags
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, size in (("a", 2), ("b", 3)):
    ...     np.save(folder / f"{name}.npy", np.ones((size, 4), dtype="float32"))
    >>> lazy = scan_bags(folder, labels={"a": 0, "b": 1})
    >>> lazy
    LazyBags(2 bags, 5 instances, 4 features, float32, labels 0: 1, 1: 1)
    >>> lazy[["b"]].load()
    Bags(1 bags, 3 instances, 4 features, float32, labels 1: 1)
    """

    is_lazy: ClassVar[bool] = True

    sources: Sequence[Source]
    # One row per range of rows: position of the source, first row, row after the last. The
    # ranges of bag i are rows segment_offsets[i] to segment_offsets[i + 1].
    segments: IntArray
    segment_offsets: IntArray
    ids: Any
    n_features: int
    dtype: Any
    y: Any = None
    bag_info: Mapping[str, Any] = field(default_factory=dict)
    feature_names: Sequence[str] | None = None
    is_sparse: bool = False
    missing: str = "raise"
    # Instance info that is the same in all rows of a segment, such as the slide of a patient.
    segment_info: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    transformers: tuple[Any, ...] = ()
    # Number and names of the features before they are transformed.
    stored: Any = None

    def __post_init__(self) -> None:
        self.segments = np.asarray(self.segments, dtype=np.int64).reshape(-1, 3)
        self.segment_offsets = np.asarray(self.segment_offsets, dtype=np.int64)
        self.ids = text_array(self.ids)
        self.y = None if self.y is None else text_array(self.y)
        self.bag_info = {name: text_array(values) for name, values in self.bag_info.items()}
        self.dtype = np.dtype(self.dtype)
        if self.feature_names is not None:
            self.feature_names = tuple(map(str, self.feature_names))
        self.stored = self.stored or (self.n_features, self.feature_names)
        lengths = offsets_of(self.segments[:, 2] - self.segments[:, 1])
        self.sizes: IntArray = np.diff(lengths[self.segment_offsets])

    @classmethod
    def from_bags(cls, bags: Bags, path: Path) -> "LazyBags":
        """Return bags that a format without random access has read, as lazy bags."""
        columns = dict(bags.instance_info)
        if bags.instance_labels is not None:
            columns[INSTANCE_LABELS] = bags.instance_labels
        starts, stops = bags.offsets[:-1], bags.offsets[1:]
        segments = np.column_stack([np.zeros_like(starts), starts, stops])
        sources = [MemorySource.of(path, bags.instances, columns)]
        same = ("ids", "y", "bag_info", "n_features", "dtype", "feature_names", "is_sparse")
        fields: dict[str, Any] = {name: getattr(bags, name) for name in same}
        missing = "keep" if bags.has_missing else "raise"
        return cls(sources, segments, np.arange(bags.n_bags + 1), missing=missing, **fields)

    @property
    def offsets(self) -> IntArray:
        """Where each bag would begin if all were read, followed by the number of instances."""
        return offsets_of(self.sizes)

    @property
    def paths(self) -> list[str]:
        """Files that hold these bags."""
        return list(dict.fromkeys(source.stamp.path for source in self.sources))

    @property
    def nbytes(self) -> int:
        """Bytes that the instances would take in memory."""
        return self.n_instances * self.stored[0] * self._value_type.itemsize

    @property
    def _row_bytes(self) -> int:
        """Bytes of one instance, as it is read or transformed."""
        return max(1, max(self.stored[0], self.n_features) * self._value_type.itemsize)

    @property
    def _value_type(self) -> np.dtype[Any]:
        """Type of the values once they are read."""
        small = self.dtype.kind == "f" and self.dtype.itemsize <= 4
        return np.dtype(np.float32 if small else np.float64)

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    def __getitem__(self, key: Any) -> Any:
        """Return one bag's instances for an integer or an id, else lazy bags."""
        chosen = resolve_index(key, self.ids)
        if isinstance(chosen, int):
            return self._take(np.array([chosen])).load().instances
        return self._take(np.arange(self.n_bags)[chosen])

    def _take(self, chosen: IntArray) -> "LazyBags":
        rows = segment_gather(self.segment_offsets, chosen)
        segments = self.segments[rows].copy()
        used, segments[:, 0] = np.unique(segments[:, 0], return_inverse=True)
        return self._replace(
            sources=[self.sources[position] for position in used.tolist()],
            segments=segments,
            segment_offsets=offsets_of(np.diff(self.segment_offsets)[chosen]),
            segment_info=take(self.segment_info, rows),
            **{name: take(getattr(self, name), chosen) for name in ("ids", "y", "bag_info")},
        )

    def _replace(self, **changes: Any) -> "LazyBags":
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a worker: of sources in memory, only the rows of these bags."""
        segments, sources = self.segments.copy(), list(self.sources)
        for position, source in enumerate(sources):
            if isinstance(source, MemorySource):
                rows = segments[:, 0] == position
                first, last = segments[rows, 1].min(), segments[rows, 2].max()
                sources[position] = source.narrowed(int(first), int(last))
                segments[rows, 1:] -= first
        return self.__dict__ | {"segments": segments, "sources": sources}

    def with_info(self, *, bag_info: Mapping[str, Any]) -> "LazyBags":
        """Return lazy bags with these columns of ``bag_info`` added or replaced."""
        problems = Problems("The new info")
        columns = check_info("bag_info", bag_info, self.n_bags, problems)
        problems.raise_if_any()
        return self._replace(bag_info={**self.bag_info, **columns})

    def with_transformer(self, transformer: Any) -> "LazyBags":
        """Return the same bags, transformed by a fitted :class:`pigmil.OnInstances` when read.

        Parameters
        ----------
        transformer : transformer of bags
            Its ``transform`` takes and returns :class:`pigmil.Bags`. It is sent to workers.
        """
        changed = self._replace(transformers=(*self.transformers, transformer))
        first = changed._take(np.array([0]))
        source, start, _ = first.segments[0]
        row = first._replace(segments=[[source, start, start + 1]], segment_offsets=[0, 1])
        probe = row.load(info=False)
        return changed._replace(n_features=probe.n_features, feature_names=probe.feature_names)

    def partitions(self, max_bytes: int = BLOCK_BYTES) -> list["LazyBags"]:
        """Split into lazy bags of at most ``max_bytes`` of values; a larger bag is one part.

        The cut depends on the bags alone, never on the number of workers.

        Parameters
        ----------
        max_bytes : int, default=2**25
            Bytes of values, once read.
        """
        runs = segment_blocks(self.offsets * self._row_bytes, max_bytes)
        return [self._take(np.arange(first, last)) for first, last in runs]

    def blocks(self, max_bytes: int = BLOCK_BYTES, *, info: bool = False) -> Iterator[Bags]:
        """Read the bags block by block.

        Parameters
        ----------
        max_bytes : int, default=2**25
            Bytes of values in a block; a larger bag is a block by itself.
        info : bool, default=False
            Whether to read further data on instances too (coordinates, instance labels).

        Yields
        ------
        Bags
        """
        for part in self.partitions(max_bytes):
            yield part.load(info=info)

    def load(self, *, info: bool = True) -> Bags:
        """Read all bags into memory.

        Parameters
        ----------
        info : bool, default=True
            Whether to read further data on instances too.

        Raises
        ------
        BagsError
            If the values would fill more than the memory that is available.
        """
        if not all(isinstance(source, MemorySource) for source in self.sources):
            check_memory(self.paths[0], self.nbytes)  # the rows are declared, not yet read
        instances, columns = self._read_rows(info=info)
        labels = columns.pop(INSTANCE_LABELS, None)
        repeated = len(set(self.ids.tolist())) < self.n_bags  # resampled
        try:
            bags = Bags(
                instances, self.offsets, ids=None if repeated else self.ids, y=self.y,
                instance_labels=labels, feature_names=self.stored[1], instance_info=columns,
                bag_info=self.bag_info, missing="keep" if self.transformers else self.missing,
            )  # fmt: skip
        except BagsError as error:
            missing = "feature" in str(error) and " is nan;" in str(error)
            hint = "\nTo impute them, pass missing_values='keep'." if missing else ""
            raise BagFormatError(f"{self.paths[0]}: {error}{hint}") from error
        for transformer in self.transformers:
            bags = transformer.transform(bags)
        return bags

    def _read_rows(self, *, info: bool) -> tuple[Any, dict[str, NDArray[Any]]]:
        """Read the rows of all bags; return the features and the further columns.

        Rows are read in the order of the files, in windows of at most a block: the rows of a bag
        may be scattered over a table, and one read for each of them would be slow.
        """
        dtype, n_rows = self._value_type, self.n_instances
        ranges = _merged_ranges(self.segments)
        if len(ranges) == 1 and not self.is_sparse and not self.segment_info:
            source = self.sources[int(ranges[0, 0])]
            start, stop = (int(row) for row in ranges[0, 1:3])
            if isinstance(source, MemorySource) and source.instances.dtype == dtype:
                part = source.narrowed(start, stop)
                return part.instances, dict(part.columns or {}) if info else {}
        out = None if self.is_sparse else np.empty((n_rows, self.stored[0]), dtype=dtype)
        parts: dict[str, list[tuple[IntArray, Any]]] = {}  # by column: rows of the result, values
        with contextlib.ExitStack() as stack:
            opened: Source | None = None
            file: Any = None
            for position, window in _windows(ranges, max(1, BLOCK_BYTES // self._row_bytes)):
                source = self.sources[position]
                if opened is None or opened.stamp != source.stamp:
                    source.verify()
                if opened is None or opened.stamp.path != source.stamp.path:
                    stack.close()
                    file = stack.enter_context(source.open())
                opened = source
                first, last = int(window[:, 1].min()), int(window[:, 2].max())
                rows: Any = row_numbers(window[:, 1] - first, window[:, 2] - first)
                if len(rows) == last - first and (np.diff(rows) == 1).all():
                    rows = slice(None)  # all of the window, in order
                places = row_numbers(window[:, 3], window[:, 3] + window[:, 2] - window[:, 1])
                if out is None:
                    block = as_csr(source.read(file, first, last)).astype(dtype)
                    parts.setdefault("", []).append((places, block[rows]))
                elif len(window) == 1:
                    source.read_into(file, first, last, out[places[0] : places[-1] + 1])
                else:
                    out[places] = source.read(file, first, last)[rows]
                for name, key in source.info if info else ():
                    values = np.arange(first, last)
                    if key != ROW_NUMBER:
                        values = text_array(source.read_column(file, key, first, last))
                    parts.setdefault(name, []).append((places, values[rows]))
        columns = {name: _in_order(found) for name, found in parts.items()}
        instances = columns.pop("") if out is None else out
        lengths = self.segments[:, 2] - self.segments[:, 1]
        of_segments = self.segment_info if info else {}
        columns |= {name: np.repeat(values, lengths) for name, values in of_segments.items()}
        # What only some files have is left out.
        return instances, {name: read for name, read in columns.items() if len(read) == n_rows}


def _merged_ranges(segments: IntArray) -> IntArray:
    """Return ranges of rows as (source, start, stop, place in the result), sorted by source.

    Ranges that follow each other both in the source and in the result are joined.
    """
    places = offsets_of(segments[:, 2] - segments[:, 1])[:-1]
    ranges = np.column_stack([segments, places])[np.lexsort((segments[:, 1], segments[:, 0]))]
    before, after = ranges[:-1], ranges[1:]
    follows = (
        (after[:, 0] == before[:, 0])
        & (after[:, 1] == before[:, 2])
        & (after[:, 3] == before[:, 3] + before[:, 2] - before[:, 1])
    )
    first = np.flatnonzero(np.append(True, ~follows)[: len(ranges)])
    merged = ranges[first]
    merged[:, 2] = ranges[np.append(first[1:], len(ranges)) - 1, 2]
    return merged


def _windows(ranges: IntArray, most_rows: int) -> Iterator[tuple[int, IntArray]]:
    """Yield source and ranges that are read at once: near each other, within ``most_rows``."""
    before, after = ranges[:-1], ranges[1:]
    apart = (
        (after[:, 0] != before[:, 0])
        | (after[:, 1] > before[:, 2] + _GAP)
        | (after[:, 1] // most_rows != before[:, 1] // most_rows)
    )
    for window in np.split(ranges, np.flatnonzero(apart) + 1):
        yield int(window[0, 0]), window


def _in_order(parts: list[tuple[IntArray, Any]]) -> Any:
    """Join values that were read in the order of the files, by their places in the result."""
    places = np.concatenate([place for place, _ in parts])
    blocks = [values for _, values in parts]
    values: Any = blocks[0]
    if len(blocks) > 1:
        sparse = sp.issparse(values)
        values = sp.vstack(blocks, format="csr") if sparse else np.concatenate(blocks)
    return values if (np.diff(places) == 1).all() else values[np.argsort(places, kind="stable")]


def concatenate_lazy(collections: Sequence[LazyBags]) -> LazyBags:
    """Return the lazy bags of several scans as one; bags with the same id are joined.

    Raises
    ------
    BagsError
        If numbers of features, storage, labels or info of a bag differ.
    """
    first = collections[0]
    if len(collections) == 1:
        return first
    problems = Problems(f"The {len(collections)} data sets")
    for lazy in collections[1:]:
        if lazy.n_features != first.n_features:
            problems.add(
                f"{lazy.paths[0]} has {lazy.n_features} features where {first.paths[0]} has "
                f"{first.n_features}; scan them apart, or write them with the same features."
            )
        elif lazy.feature_names != first.feature_names:
            problems.add(f"{lazy.paths[0]} names its features otherwise than {first.paths[0]}.")
    n_labelled = sum(lazy.y is not None for lazy in collections)
    if 0 < n_labelled < len(collections):
        problems.add(f"Only {n_labelled} of them have labels; give them all with labels=.")
    if len({lazy.is_sparse for lazy in collections}) > 1:
        problems.add("Some are sparse and some are dense.")
    problems.raise_if_any(BagFormatError)
    # The sources become one list: positions in it grow by the number of those before.
    starts = offsets_of(np.array([len(lazy.sources) for lazy in collections]))
    pairs = zip(collections, starts[:-1], strict=True)
    segments = [lazy.segments + np.array([start, 0, 0]) for lazy, start in pairs]
    counts = [np.diff(lazy.segment_offsets) for lazy in collections]
    names = [name for name in first.bag_info if all(name in lazy.bag_info for lazy in collections)]
    joined = first._replace(
        sources=[source for lazy in collections for source in lazy.sources],
        segments=np.concatenate(segments),
        segment_offsets=offsets_of(np.concatenate(counts)),
        ids=[bag_id for lazy in collections for bag_id in lazy.ids.tolist()],
        y=None if first.y is None else np.concatenate([lazy.y for lazy in collections]),
        dtype=np.result_type(*(lazy.dtype for lazy in collections)),
        bag_info={name: np.concatenate([lazy.bag_info[name] for lazy in collections])
                  for name in names},
    )  # fmt: skip
    groups = group_rows(
        joined.ids, joined.y, joined.bag_info,
        what="The data sets, of which some have parts of the same bag,",
        where=lambda at: joined._take(np.array([at])).paths[0], error=BagFormatError,
    )  # fmt: skip
    order = np.arange(joined.n_bags) if groups.order is None else groups.order
    joined = joined._take(order)
    return joined._replace(
        segment_offsets=joined.segment_offsets[offsets_of(groups.sizes)],
        ids=groups.ids, y=groups.y, bag_info=groups.bag_info,
    )  # fmt: skip
