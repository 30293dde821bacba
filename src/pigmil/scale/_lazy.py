"""Bags that stay on disk: known by their ids, labels and sizes, read block by block."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, Problems
from pigmil._core.memory import available_memory
from pigmil._core.segments import offsets_of, segment_gather, segment_ids
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags, resolve_index, summary, text_array
from pigmil.scale._sources import Source, read_segments

BLOCK_BYTES = 1 << 25
INSTANCE_LABELS = "instance_label"


class LazyBags:
    """Bags on disk, of which ids, labels, sizes and bag info are in memory.

    :meth:`pigmil.Bags.scan` returns them. They are indexed and split like :class:`pigmil.Bags`
    (slices, masks, arrays of positions, ids; scikit-learn's splitters work), which reads nothing.
    Methods score them block by block. A pickle of lazy bags holds paths and ranges of rows, never
    values, so that it is cheap to send to a worker.

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
    >>> from pigmil import Bags
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, size in (("a", 2), ("b", 3)):
    ...     np.save(folder / f"{name}.npy", np.ones((size, 4), dtype="float32"))
    >>> lazy = Bags.scan(folder, labels={"a": 0, "b": 1})
    >>> lazy
    LazyBags(2 bags, 5 instances, 4 features, float32, labels 0: 1, 1: 1)
    >>> lazy[["b"]].load()
    Bags(1 bags, 3 instances, 4 features, float32, labels 1: 1)
    """

    is_lazy: ClassVar[bool] = True

    def __init__(
        self,
        sources: Sequence[Source],
        segments: IntArray,
        segment_offsets: IntArray,
        *,
        ids: Any,
        n_features: int,
        dtype: Any,
        y: Any = None,
        bag_info: Mapping[str, Any] | None = None,
        feature_names: Sequence[str] | None = None,
        is_sparse: bool = False,
        transformers: tuple[Any, ...] = (),
    ) -> None:
        self._sources = tuple(sources)
        self._segments = np.asarray(segments, dtype=np.int64).reshape(-1, 3)
        self._segment_offsets = np.asarray(segment_offsets, dtype=np.int64)
        self.ids: NDArray[Any] = text_array(ids)
        self.y: Any = None if y is None else text_array(y)
        self.bag_info: dict[str, NDArray[Any]] = {
            name: text_array(values) for name, values in (bag_info or {}).items()
        }
        self._stored_features = int(n_features)
        self.dtype = np.dtype(dtype)
        self._stored_names = None if feature_names is None else tuple(map(str, feature_names))
        self.is_sparse = bool(is_sparse)
        self._transformers = transformers
        self.n_features = self._stored_features
        self.feature_names = self._stored_names
        lengths = self._segments[:, 2] - self._segments[:, 1]
        starts = self._segment_offsets[:-1]
        self.sizes: IntArray = (
            np.add.reduceat(lengths, starts) if len(starts) else np.empty(0, dtype=np.int64)
        )

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.ids)

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.sizes.sum())

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of features, as scikit-learn expects of a table."""
        return self.n_bags, self.n_features

    @property
    def offsets(self) -> IntArray:
        """Where each bag would begin if all were read, followed by the number of instances."""
        return offsets_of(self.sizes)

    @property
    def bag_index(self) -> IntArray:
        """Position of the bag of each instance."""
        return segment_ids(self.offsets)

    @property
    def paths(self) -> list[str]:
        """Files that hold these bags."""
        return list(dict.fromkeys(source.stamp.path for source in self._sources))

    @property
    def nbytes(self) -> int:
        """Bytes that the instances would take in memory."""
        return self.n_instances * self._stored_features * self._value_type.itemsize

    @property
    def _value_type(self) -> np.dtype[Any]:
        """Type of the values once they are read."""
        small = self.dtype.kind == "f" and self.dtype.itemsize <= 4
        return np.dtype(np.float32 if small else np.float64)

    def __len__(self) -> int:
        return self.n_bags

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks():
            yield from block

    def __getitem__(self, key: Any) -> Any:
        """Return one bag's instances for an integer or an id, else lazy bags."""
        chosen = resolve_index(key, self.ids)
        if isinstance(chosen, int):
            return self._take(np.array([chosen])).load().instances
        if isinstance(chosen, slice):
            chosen = np.arange(self.n_bags, dtype=np.int64)[chosen]
        return self._take(chosen)

    def _take(self, chosen: IntArray) -> "LazyBags":
        rows = segment_gather(self._segment_offsets, chosen)
        segments = self._segments[rows].copy()
        used, segments[:, 0] = np.unique(segments[:, 0], return_inverse=True)
        return self._replace(
            sources=[self._sources[at] for at in used.tolist()],
            segments=segments,
            segment_offsets=offsets_of(np.diff(self._segment_offsets)[chosen]),
            ids=self.ids[chosen],
            y=None if self.y is None else self.y[chosen],
            bag_info={name: values[chosen] for name, values in self.bag_info.items()},
        )

    def _replace(self, **changes: Any) -> "LazyBags":
        fields = {
            "sources": self._sources,
            "segments": self._segments,
            "segment_offsets": self._segment_offsets,
            "ids": self.ids,
            "y": self.y,
            "bag_info": self.bag_info,
            "n_features": self._stored_features,
            "dtype": self.dtype,
            "feature_names": self._stored_names,
            "is_sparse": self.is_sparse,
            "transformers": self._transformers,
        }
        made = LazyBags(**(fields | changes))
        if "transformers" not in changes:
            made.n_features, made.feature_names = self.n_features, self.feature_names
        return made

    def with_info(self, *, bag_info: Mapping[str, Any]) -> "LazyBags":
        """Return lazy bags with these columns of ``bag_info`` added or replaced."""
        for name, values in bag_info.items():
            if len(values) != self.n_bags:
                raise ValueError(
                    f"bag_info[{name!r}] has {len(values)} entries for {self.n_bags} bags."
                )
        return self._replace(bag_info={**self.bag_info, **bag_info})

    def with_labels(self, y: Any) -> "LazyBags":
        """Return the same bags with other labels."""
        y = text_array(y)
        if len(y) != self.n_bags:
            raise BagsError(f"There are {len(y)} labels for {self.n_bags} bags.")
        return self._replace(y=y)

    def with_transformer(self, transformer: Any) -> "LazyBags":
        """Return the same bags, transformed by a fitted :class:`pigmil.OnInstances` when read.

        Parameters
        ----------
        transformer : transformer of bags
            Its ``transform`` takes and returns :class:`pigmil.Bags`. It is sent to workers.
        """
        made = self._replace(transformers=(*self._transformers, transformer))
        first = made._take(np.array([0]))
        first._segments = first._segments[:1].copy()
        first._segments[0, 2] = first._segments[0, 1] + 1
        first._segment_offsets = np.array([0, 1])
        first.sizes = np.array([1])
        probe = first.load()
        made.n_features, made.feature_names = probe.n_features, probe.feature_names
        return made

    def partitions(self, max_bytes: int = BLOCK_BYTES) -> list["LazyBags"]:
        """Split into lazy bags of at most ``max_bytes`` of values; a larger bag is one part.

        The cut depends on the bags alone, never on the number of workers.

        Parameters
        ----------
        max_bytes : int, default=2**25
            Bytes of values, once read.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1; got {max_bytes}.")
        row_bytes = max(1, max(self._stored_features, self.n_features) * self._value_type.itemsize)
        ends = self.offsets * row_bytes
        parts, first = [], 0
        while first < self.n_bags:
            last = int(np.searchsorted(ends, ends[first] + max_bytes, side="right")) - 1
            last = min(max(last, first + 1), self.n_bags)
            parts.append(self._take(np.arange(first, last, dtype=np.int64)))
            first = last
        return parts

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
            yield part._read(info=info)

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
        available = available_memory()
        if not self.is_sparse and available is not None and self.nbytes > 0.9 * available:
            raise BagsError(
                f"The {self.n_instances:,} instances take {self.nbytes / 1e9:,.1f} GB, and "
                f"{available / 1e9:,.1f} GB of memory are available. Fit a method that streams "
                "(SoftPIGMIL, MaxPoolingLR, SIL), or load some of the bags: lazy[:100].load()."
            )
        return self._read(info=info)

    def _read(self, *, info: bool) -> Bags:
        instances, beside = read_segments(
            self._sources,
            self._segments,
            self._stored_features,
            self._value_type,
            sparse=self.is_sparse,
            info=info,
        )
        labels = beside.pop(INSTANCE_LABELS, None)
        repeated = len(set(self.ids.tolist())) < self.n_bags  # resampled
        problems = {"ids": None if repeated else self.ids, "y": self.y}
        bags = Bags(
            instances,
            self.offsets,
            **problems,
            instance_labels=labels,
            feature_names=self._stored_names,
            instance_info=beside,
            bag_info=self.bag_info,
            missing="keep" if self._transformers else "raise",
        )
        for transformer in self._transformers:
            bags = transformer.transform(bags)
        return bags

    def column_moments(self) -> tuple[int, FloatArray, FloatArray]:
        """Return the number of instances, and mean and variance of every feature, in one pass."""
        from pigmil.scale._engine import column_moments

        return column_moments(self)

    def __repr__(self) -> str:
        return f"LazyBags({summary(self)})"


def concatenate_lazy(collections: Sequence[LazyBags]) -> LazyBags:
    """Return the lazy bags of several scans as one; bags with the same id are joined.

    Raises
    ------
    BagsError
        If numbers of features, storage or labels differ.
    """
    first = collections[0]
    problems = Problems(f"The {len(collections)} data sets")
    for lazy in collections[1:]:
        if lazy.n_features != first.n_features:
            problems.add(
                f"{lazy.paths[0]} has {lazy.n_features} features where {first.paths[0]} has "
                f"{first.n_features}; scan them apart, or write them with the same features."
            )
        elif lazy.feature_names != first.feature_names:
            problems.add(f"{lazy.paths[0]} names its features otherwise than {first.paths[0]}.")
    known = [lazy.y is not None for lazy in collections]
    if any(known) and not all(known):
        problems.add(f"Only {sum(known)} of them have labels; give them all with labels=.")
    if len({lazy.is_sparse for lazy in collections}) > 1:
        problems.add("Some are sparse and some are dense.")
    problems.raise_if_any()
    segments, counts, start = [], [], 0
    for lazy in collections:
        moved = lazy._segments.copy()
        moved[:, 0] += start
        start += len(lazy._sources)
        segments.append(moved)
        counts.append(np.diff(lazy._segment_offsets))
    names = set.intersection(*(set(lazy.bag_info) for lazy in collections))
    joined = first._replace(
        sources=[source for lazy in collections for source in lazy._sources],
        segments=np.concatenate(segments),
        segment_offsets=offsets_of(np.concatenate(counts)),
        ids=np.concatenate([lazy.ids.astype(object) for lazy in collections]),
        y=None if first.y is None else np.concatenate([lazy.y for lazy in collections]),
        dtype=np.result_type(*(lazy.dtype for lazy in collections)),
        bag_info={
            name: np.concatenate([lazy.bag_info[name] for lazy in collections])
            for name in first.bag_info
            if name in names
        },
    )
    return _join_by_id(joined)


def _join_by_id(lazy: LazyBags) -> LazyBags:
    """Join bags with the same id, which were split over files; their labels must agree."""
    positions: dict[Any, list[int]] = {}
    for at, one in enumerate(lazy.ids.tolist()):
        positions.setdefault(one, []).append(at)
    if len(positions) == lazy.n_bags:
        return lazy
    problems = Problems("Bags that are split over several files")
    for one, places in positions.items():
        if lazy.y is not None and len({lazy.y[at] for at in places}) > 1:
            files = sorted({lazy._sources[s].stamp.path for s in _sources_of(lazy, places)})
            problems.add(
                f"The bag {one!r} has different labels in {' and '.join(files[:2])}; correct the "
                "labels, or give the two parts different ids."
            )
    problems.raise_if_any()
    order = np.array([at for places in positions.values() for at in places], dtype=np.int64)
    chosen = lazy._take(order)
    firsts = np.array([places[0] for places in positions.values()], dtype=np.int64)
    n_parts = np.array([len(places) for places in positions.values()])
    return chosen._replace(
        segment_offsets=chosen._segment_offsets[offsets_of(n_parts)],
        ids=lazy.ids[firsts],
        y=None if lazy.y is None else lazy.y[firsts],
        bag_info={name: values[firsts] for name, values in lazy.bag_info.items()},
    )


def _sources_of(lazy: LazyBags, places: list[int]) -> set[int]:
    rows = segment_gather(lazy._segment_offsets, np.array(places, dtype=np.int64))
    return set(lazy._segments[rows, 0].tolist())
