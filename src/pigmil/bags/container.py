"""The ragged container: bags of instances in one flat array, cut by offsets."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core import state
from pigmil._core.model_parts import model_part
from pigmil._core.segments import offsets_of, segment_gather, segment_ids
from pigmil._core.typing import IntArray
from pigmil.bags.arrange import (
    check_rows,
    clean_instances,
    group_rows,
    labels_per_bag,
    stack_bags,
)
from pigmil.bags.validation import check_bag_labels, check_bags, check_new_instances

_FIELDS = ("instances", "offsets", "ids", "y", "instance_labels", "feature_names", "instance_info")


@model_part
class Bags:
    """Immutable bags of instances, the one collection every part of the library works on.

    The instances of all bags lie below each other in one array, dense or scipy CSR, and
    ``offsets`` says where each bag begins: bag ``i`` is
    ``instances[offsets[i]:offsets[i + 1]]``. Arrays are taken over without a copy where the
    input allows it, memory-mapped ones included, and are handed out read-only.

    Parameters
    ----------
    instances : array or sparse matrix of shape (n_instances, n_features)
        Instances, those of one bag next to each other.
    offsets : array of shape (n_bags + 1,)
        Where each bag begins, closed by the number of instances.
    ids : array of shape (n_bags,), optional
        Name of each bag, 0 to n_bags - 1 if not given.
    y : array of shape (n_bags,), optional
        Label of each bag.
    instance_labels : array of shape (n_instances,), optional
        Label of each instance where it is known.
    feature_names : sequence of str, optional
        Name of each feature.
    instance_info : mapping of str to array of shape (n_instances, ...), optional
        What else is known of each instance and should travel with it: coordinates of a tile,
        the name of a conformation, the row it was read from.
    check_finite : bool, default=True
        Look through all values for NaN and infinity. Turn it off only for arrays larger than
        memory that are known to be clean.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.zeros((2, 3)), np.ones((1, 3))], y=[0, 1])
    >>> bags
    Bags(2 bags, 3 instances, 3 features, float64, labels 0: 1, 1: 1)
    >>> bags[1]
    array([[1., 1., 1.]])
    >>> bags[[1, 0]].y
    array([1, 0])
    """

    __slots__ = _FIELDS

    instances: Any
    offsets: IntArray
    ids: NDArray[Any]
    y: Any  # array of shape (n_bags,), or None
    instance_labels: Any  # array of shape (n_instances,), or None
    feature_names: tuple[str, ...] | None
    instance_info: Mapping[str, NDArray[Any]]

    def __init__(
        self,
        instances: Any,
        offsets: Any,
        *,
        ids: Any = None,
        y: Any = None,
        instance_labels: Any = None,
        feature_names: Sequence[str] | None = None,
        instance_info: Mapping[str, Any] | None = None,
        check_finite: bool = True,
    ) -> None:
        fields = check_bags(
            clean_instances(instances),
            offsets,
            ids=ids,
            y=y,
            instance_labels=instance_labels,
            feature_names=feature_names,
            instance_info=instance_info,
            check_finite=check_finite,
        )
        self._assign(fields)

    def _assign(self, fields: Mapping[str, Any]) -> None:
        for name in _FIELDS:
            object.__setattr__(self, name, _read_only(fields[name]))

    @classmethod
    def _trusted(cls, **fields: Any) -> "Bags":
        """Build from parts of bags that were checked before; ids may repeat (resampling)."""
        bags = cls.__new__(cls)
        bags._assign(fields)
        return bags

    @classmethod
    def from_list(
        cls,
        bags: Sequence[Any],
        ids: Any = None,
        y: Any = None,
        instance_labels: Any = None,
        **more: Any,
    ) -> "Bags":
        """Stack a list of (n_i, d) arrays or sparse matrices.

        Parameters
        ----------
        bags : sequence of array of shape (n_i, n_features)
            One array a bag.
        ids, y : array of shape (n_bags,), optional
            Name and label of each bag.
        instance_labels : sequence of array of shape (n_i,), or flat array, optional
            Label of each instance.
        **more
            ``feature_names``, ``instance_info``, ``check_finite`` of :class:`Bags`.
        """
        instances, sizes, flat_labels = stack_bags(bags, ids, instance_labels)
        return cls(instances, offsets_of(sizes), ids=ids, y=y, instance_labels=flat_labels, **more)

    @classmethod
    def from_flat(
        cls,
        instances: Any,
        bag_ids: Any,
        y: Any = None,
        instance_labels: Any = None,
        instance_info: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> "Bags":
        """Group the rows of a long table by bag, in the order in which bags first appear.

        Rows of one bag need not be neighbours. Where rows had to move,
        ``instance_info["row"]`` holds the row each instance came from.

        Parameters
        ----------
        instances : array or sparse matrix of shape (n_instances, n_features)
            One row an instance.
        bag_ids : array of shape (n_instances,)
            The bag of each row.
        y : array of shape (n_bags,) or (n_instances,), optional
            Label of each bag in order of appearance, or of each row, constant inside a bag.
        instance_labels : array of shape (n_instances,), optional
            Label of each instance.
        instance_info : mapping of str to array, optional
            What else is known of each row.
        **more
            ``feature_names``, ``check_finite`` of :class:`Bags`.
        """
        instances = clean_instances(instances)
        check_rows(instances, bag_ids, instance_labels, instance_info)
        ids, sizes, order = group_rows(bag_ids)
        y = labels_per_bag(y, ids, sizes, order)
        info = dict(instance_info or {})
        if order is not None:
            instances = instances[order]
            instance_labels = (
                None if instance_labels is None else np.asarray(instance_labels)[order]
            )
            info = {name: np.asarray(values)[order] for name, values in info.items()}
            info.setdefault("row", order)
        return cls(
            instances,
            offsets_of(sizes),
            ids=ids,
            y=y,
            instance_labels=instance_labels,
            instance_info=info,
            **more,
        )

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.offsets) - 1

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.instances.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features of an instance."""
        return int(self.instances.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of features: what scikit-learn asks of a table."""
        return self.n_bags, self.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values, float32 or float64."""
        dtype: np.dtype[Any] = self.instances.dtype
        return dtype

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are a scipy CSR array."""
        return bool(sp.issparse(self.instances))

    @property
    def sizes(self) -> IntArray:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    @property
    def bag_index(self) -> IntArray:
        """Position of the bag of each instance."""
        return segment_ids(self.offsets)

    def __len__(self) -> int:
        return self.n_bags

    def __iter__(self) -> Iterator[Any]:
        for start, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:end]

    def __getitem__(self, key: Any) -> Any:
        """Return one bag's instances for an integer, bags for a slice, mask or index array."""
        if isinstance(key, tuple):
            # scikit-learn indexes everything that has a shape as ``X[key, ...]``.
            if len(key) == 2 and key[1] is Ellipsis:
                key = key[0]
            else:
                raise IndexError(
                    "Bags are indexed by bag only; for features use bags.instances[:, columns] "
                    "and bags.with_instances(...)."
                )
        if isinstance(key, bool | np.bool_):
            raise IndexError("A single bool is no index of bags; give a mask of one entry a bag.")
        if isinstance(key, int | np.integer):
            if not -self.n_bags <= key < self.n_bags:
                raise IndexError(f"There is no bag {key}; there are {self.n_bags} bags.")
            position = range(self.n_bags)[key]
            return self.instances[self.offsets[position] : self.offsets[position + 1]]
        if isinstance(key, slice) and key.step in (None, 1):
            return self._slice(key)
        chosen = np.arange(self.n_bags, dtype=np.int64)[
            key if isinstance(key, slice) else np.asarray(key, dtype=_index_dtype(key))
        ]
        return self._take(np.atleast_1d(chosen))

    def _slice(self, key: slice) -> "Bags":
        first, last, _ = key.indices(self.n_bags)
        last = max(first, last)
        rows = slice(int(self.offsets[first]), int(self.offsets[last]))
        return self._part(rows, slice(first, last), self.offsets[first : last + 1] - rows.start)

    def _take(self, chosen: IntArray) -> "Bags":
        rows = segment_gather(self.offsets, chosen)
        return self._part(rows, chosen, offsets_of(self.sizes[chosen]))

    def _part(self, rows: Any, chosen: Any, offsets: IntArray) -> "Bags":
        return Bags._trusted(
            instances=self.instances[rows],
            offsets=offsets,
            ids=self.ids[chosen],
            y=None if self.y is None else self.y[chosen],
            instance_labels=None if self.instance_labels is None else self.instance_labels[rows],
            feature_names=self.feature_names,
            instance_info={name: values[rows] for name, values in self.instance_info.items()},
        )

    def with_instances(
        self, instances: Any, *, feature_names: Sequence[str] | None = None
    ) -> "Bags":
        """Return the same bags with other features, one row an instance as before."""
        instances = clean_instances(instances)
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        check_new_instances(instances, self.offsets, self.ids, names)
        fields = {name: getattr(self, name) for name in _FIELDS}
        return Bags._trusted(**{**fields, "instances": instances, "feature_names": names})

    def with_labels(self, y: Any) -> "Bags":
        """Return the same bags with other bag labels, which instance labels may contradict.

        One-vs-rest and studies of label noise need such bags.
        """
        fields = {name: getattr(self, name) for name in _FIELDS}
        return Bags._trusted(**{**fields, "y": check_bag_labels(y, self.ids)})

    def equals(self, other: "Bags") -> bool:
        """Whether two collections hold the same bags, labels and names, value for value."""
        if self.shape != other.shape or not np.array_equal(self.offsets, other.offsets):
            return False
        mine, theirs = self.instances, other.instances
        if self.is_sparse or other.is_sparse:
            same = (sp.csr_array(mine) != sp.csr_array(theirs)).nnz == 0
        else:
            same = np.array_equal(mine, theirs)
        return (
            same
            and np.array_equal(self.ids, other.ids)
            and _same(self.y, other.y)
            and _same(self.instance_labels, other.instance_labels)
            and self.feature_names == other.feature_names
        )

    def __repr__(self) -> str:
        parts = [
            f"{self.n_bags} bags",
            f"{self.n_instances} instances",
            f"{self.n_features} features",
            f"{self.dtype}" + (" sparse" if self.is_sparse else ""),
        ]
        if self.y is not None:
            values, counts = np.unique(_sortable(self.y), return_counts=True)
            if len(values) <= 5:
                pairs = zip(values, counts, strict=True)
                parts.append("labels " + ", ".join(f"{value}: {count}" for value, count in pairs))
        return f"Bags({', '.join(parts)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"Bags cannot be changed; to set {name!r} build new ones (with_instances, with_labels)."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Bags cannot be changed; {name!r} cannot be deleted.")

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in _FIELDS}
        return {**state, "instance_info": dict(self.instance_info)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._assign(state)

    _state: ClassVar[dict[str, state.Field]] = {}

    def _check_state(self, sizes: state.Sizes) -> None:
        """Raise an error if these are no bags; for bags that come from a model file."""
        instances = self.instances
        if sp.issparse(instances):
            fresh = sp.csr_array(
                (instances.data, instances.indices, instances.indptr), shape=instances.shape
            )
            sorted_rows = bool(fresh.has_canonical_format)
        else:
            sorted_rows = isinstance(instances, np.ndarray) and instances.ndim == 2
        if not sorted_rows or instances.dtype not in (np.float32, np.float64):
            raise state.StateError("instances are not a table of floating-point numbers")
        state.Floats(shape=None, sparse=True).verify(instances, "instances", {})
        names = self.feature_names
        if not isinstance(names, tuple | None) or not all(isinstance(n, str) for n in names or ()):
            raise state.StateError("feature_names are not texts")
        if not isinstance(self.offsets, np.ndarray) or self.offsets.dtype != np.int64:
            raise state.StateError("offsets are not integers")
        check_bags(
            instances,
            self.offsets,
            ids=None,
            y=None,
            instance_labels=None,
            feature_names=names,
            instance_info=self.instance_info,
            check_finite=True,
        )
        per_bag, per_instance = (self.n_bags,), (self.n_instances,)
        if not isinstance(self.ids, np.ndarray) or self.ids.shape != per_bag:
            raise state.StateError("ids are not one per bag")
        for values, shape in ((self.y, per_bag), (self.instance_labels, per_instance)):
            if values is not None and not (
                isinstance(values, np.ndarray) and values.shape == shape
            ):
                raise state.StateError(f"labels are not of shape {shape}")

    def __sizeof__(self) -> int:
        held = self.instances.data.nbytes if self.is_sparse else self.instances.nbytes
        return int(held + self.offsets.nbytes)


def _index_dtype(key: Any) -> Any:
    """Type for an index: an empty list must not become a float array."""
    kind = np.asarray(key).dtype
    return np.int64 if kind == np.float64 and np.size(key) == 0 else kind


def _same(left: NDArray[Any] | None, right: NDArray[Any] | None) -> bool:
    if left is None or right is None:
        return left is None and right is None
    with_nan = left.dtype.kind == "f" and right.dtype.kind == "f"
    return bool(np.array_equal(left, right, equal_nan=with_nan))


def _sortable(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels of mixed types cannot be sorted; their names can."""
    return labels.astype(str) if labels.dtype == object else labels


def _read_only(value: Any) -> Any:
    """Return a view that cannot be written through; containers of arrays likewise."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if sp.issparse(value):
        parts = (_read_only(value.data), _read_only(value.indices), _read_only(value.indptr))
        view = sp.csr_array(parts, shape=value.shape, copy=False)
        # Known to be canonical (see clean_instances): no later call may try to sort in place.
        view.has_sorted_indices = True
        view.has_canonical_format = True
        return view
    if isinstance(value, Mapping):
        return MappingProxyType({name: _read_only(values) for name, values in value.items()})
    return value
