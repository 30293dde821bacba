"""The ragged container: bags of instances in one flat array, cut by offsets."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, Problems, import_optional
from pigmil._core.segments import offsets_of, segment_gather, segment_ids
from pigmil._core.text import listed, repeated
from pigmil._core.typing import IntArray
from pigmil.bags._checks import (
    FeatureOfBag,
    check_bag_labels,
    check_bags,
    check_info,
    check_new_instances,
    clean_instances,
    stack_bags,
    text_array,
)
from pigmil.bags._columns import BAG, BAG_LABEL, INSTANCE_LABEL, ROW, group_rows

_BAG_FIELDS, _ROW_FIELDS = ("ids", "y", "bag_info"), ("instance_labels", "instance_info")
_FIELDS = (
    *("instances", "offsets", "feature_names", "has_missing"), *_BAG_FIELDS, *_ROW_FIELDS
)  # fmt: skip


class BagsBase:
    """What bags in memory and bags on disk have in common."""

    __slots__ = ()

    ids: NDArray[Any]
    y: Any  # array of shape (n_bags,), or None
    n_features: Any
    offsets: Any
    dtype: Any
    is_sparse: Any

    @property
    def n_bags(self) -> int:
        """Number of bags."""
        return len(self.ids)

    @property
    def n_instances(self) -> int:
        """Number of instances in all bags."""
        return int(self.offsets[-1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of bags and of features, as scikit-learn expects of a table."""
        return self.n_bags, self.n_features

    @property
    def bag_index(self) -> IntArray:
        """Position of the bag of each instance."""
        return segment_ids(self.offsets)

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        return f"{type(self).__name__}({summary(self)})"

    def _replace(self, **changes: Any) -> Self:
        raise NotImplementedError

    def with_labels(self, y: Any) -> Self:
        """Return the same bags with other bag labels.

        Instance labels may contradict them, as in one-vs-rest and in studies of label noise.
        """
        return self._replace(y=check_bag_labels(y, self.ids))


class Bags(BagsBase):
    """Immutable bags of instances, the container that all parts of the library use.

    The instances of all bags are stacked in one array, dense or scipy CSR, and ``offsets`` says
    where each bag begins: bag ``i`` is ``instances[offsets[i]:offsets[i + 1]]``. Arrays are used
    without a copy where the input allows it, memory-mapped ones included, and are read-only.

    Parameters
    ----------
    instances : array or sparse matrix of shape (n_instances, n_features)
        Instances, those of one bag next to each other.
    offsets : array of shape (n_bags + 1,)
        Where each bag begins, followed by the number of instances.
    ids : array of shape (n_bags,), optional
        Unique name of each bag, 0 to n_bags - 1 if not given. Text is held as Python strings.
    y : array of shape (n_bags,), optional
        Label of each bag.
    instance_labels : array of shape (n_instances,), optional
        Label of each instance where it is known.
    feature_names : sequence of str, optional
        Name of each feature.
    instance_info : mapping of str to array of shape (n_instances, ...), optional
        Further data on each instance that stays with it: coordinates of a tile, the name of a
        conformation, the row it was read from.
    bag_info : mapping of str to array of shape (n_bags, ...), optional
        Further data on each bag that stays with it: patient, site, split.
    missing : {"raise", "keep"}, default="raise"
        Whether NaN among the instances is an error or is kept, to be imputed later, for example
        with ``OnInstances(SimpleImputer())``. Estimators refuse bags with missing values.
    check_finite : bool, default=True
        Search all values for NaN and infinity. Turn it off only for arrays larger than memory
        that are known to be clean.

    Attributes
    ----------
    has_missing : bool
        Whether values may be missing (NaN).

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
    >>> Bags.from_list([[[1.0]], [[2.0]]], ids=["a", "b"])["b"]
    array([[2.]])
    """

    __slots__ = _FIELDS

    instances: Any
    instance_labels: Any  # array of shape (n_instances,), or None
    feature_names: tuple[str, ...] | None
    instance_info: Mapping[str, NDArray[Any]]
    bag_info: Mapping[str, NDArray[Any]]
    has_missing: bool

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
        bag_info: Mapping[str, Any] | None = None,
        missing: str = "raise",
        check_finite: bool = True,
    ) -> None:
        info = {"instance_info": instance_info, "bag_info": bag_info}
        given = {"ids": ids, "y": y, "instance_labels": instance_labels, **info}
        instances = clean_instances(instances)
        self.__setstate__(
            check_bags(instances, offsets, given, feature_names, missing, check_finite)
        )

    def __setstate__(self, fields: Mapping[str, Any]) -> None:
        for name in _FIELDS:
            object.__setattr__(self, name, _read_only(fields[name]))

    @classmethod
    def _trusted(cls, **fields: Any) -> "Bags":
        """Build from parts of bags that were checked before; ids may repeat (resampling)."""
        bags = cls.__new__(cls)
        bags.__setstate__(fields)
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
            One array per bag.
        ids, y : array of shape (n_bags,), optional
            Name and label of each bag.
        instance_labels : sequence of array of shape (n_i,), or flat array, optional
            Label of each instance.
        **more
            ``feature_names``, ``instance_info``, ``bag_info``, ``missing`` and ``check_finite``
            of :class:`Bags`.
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
        *,
        instance_info: Mapping[str, Any] | None = None,
        bag_info: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> "Bags":
        """Group the rows of a long table by bag, in the order in which bags first appear.

        Rows of one bag need not be neighbours. Where rows had to move,
        ``instance_info["row"]`` holds the row each instance came from.

        Parameters
        ----------
        instances : array or sparse matrix of shape (n_instances, n_features)
            One row per instance.
        bag_ids : array of shape (n_instances,)
            The bag of each row.
        y : array of shape (n_bags,) or (n_instances,), optional
            Label of each bag in order of appearance, or of each row, constant within a bag.
        instance_labels : array of shape (n_instances,), optional
            Label of each instance.
        instance_info : mapping of str to array of shape (n_instances, ...), optional
            Further data on each row.
        bag_info : mapping of str to array of shape (n_bags,) or (n_instances,), optional
            Further data on each bag, given like ``y``.
        **more
            ``feature_names``, ``missing`` and ``check_finite`` of :class:`Bags`.
        """
        instances = clean_instances(instances)
        n_rows = instances.shape[0]
        problems = Problems(f"The table of {n_rows} rows")
        rows = {"bag_ids": bag_ids, "instance_labels": instance_labels, **(instance_info or {})}
        for name, values in rows.items():
            if values is not None and len(values) != n_rows:
                problems.add(f"{name} has {len(values)} entries; expected one per row.")
        problems.raise_if_any()
        # What has one entry per row is reduced to one per bag; the rest must have that already.
        on_bags = dict(bag_info or {})
        by_row = {name: held for name, held in on_bags.items() if np.shape(held) == (n_rows,)}
        label_rows = y if np.shape(y) == (n_rows,) else None
        groups = group_rows(bag_ids, label_rows, by_row, what=problems.what)
        more |= {"ids": groups.ids, "bag_info": on_bags | groups.bag_info}
        info = {name: text_array(values) for name, values in (instance_info or {}).items()}
        order = groups.order
        if order is not None:
            instances, info = instances[order], take(info, order)
            info.setdefault(ROW, order)
            labels = None if instance_labels is None else np.asarray(instance_labels)
            instance_labels = take(labels, order)
        more |= {"instance_labels": instance_labels, "instance_info": info}
        return cls(
            instances, offsets_of(groups.sizes), y=y if label_rows is None else groups.y, **more
        )

    def _columns(self) -> dict[tuple[str, str], NDArray[Any]]:
        """Return ids, labels and info by field and name."""
        fields = {"ids": self.ids, "y": self.y, "instance_labels": self.instance_labels}
        columns = {(name, ""): values for name, values in fields.items() if values is not None}
        columns |= {("instance_info", name): v for name, v in self.instance_info.items()}
        return columns | {("bag_info", name): v for name, v in self.bag_info.items()}

    @property
    def n_features(self) -> int:
        """Number of features of an instance."""
        return int(self.instances.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values, float32 or float64."""
        return np.dtype(self.instances.dtype)

    @property
    def is_sparse(self) -> bool:
        """Whether the instances are a scipy CSR array."""
        return bool(sp.issparse(self.instances))

    @property
    def sizes(self) -> IntArray:
        """Number of instances of each bag."""
        return np.diff(self.offsets)

    def __iter__(self) -> Iterator[Any]:
        for start, end in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.instances[start:end]

    def __getitem__(self, key: Any) -> Any:
        """Return one bag's instances for an integer or an id, bags for a slice, mask or array."""
        chosen = resolve_index(key, self.ids)
        if isinstance(chosen, int):
            return self.instances[self.offsets[chosen] : self.offsets[chosen + 1]]
        if isinstance(chosen, slice):
            first, last, _ = chosen.indices(self.n_bags)
            offsets = self.offsets[first : max(first, last) + 1]
            return self._subset(slice(*offsets[[0, -1]]), chosen, offsets - offsets[0])
        rows = segment_gather(self.offsets, chosen)
        return self._subset(rows, chosen, offsets_of(self.sizes[chosen]))

    def _subset(self, rows: Any, chosen: Any, offsets: IntArray) -> "Bags":
        bag_fields = {name: take(getattr(self, name), chosen) for name in _BAG_FIELDS}
        row_fields = {name: take(getattr(self, name), rows) for name in _ROW_FIELDS}
        instances = self.instances[rows]
        return self._replace(instances=instances, offsets=offsets, **bag_fields, **row_fields)

    def _replace(self, **changes: Any) -> "Bags":
        return Bags._trusted(**self.__getstate__() | changes)

    def with_instances(
        self, instances: Any, *, feature_names: Sequence[str] | None = None, missing: str = "raise"
    ) -> "Bags":
        """Return the same bags with other features, one row per instance as before."""
        instances = clean_instances(instances)
        names = None if feature_names is None else tuple(str(name) for name in feature_names)
        has_missing = check_new_instances(instances, self, names, missing)
        return self._replace(instances=instances, feature_names=names, has_missing=has_missing)

    def with_info(
        self,
        *,
        bag_info: Mapping[str, Any] | None = None,
        instance_info: Mapping[str, Any] | None = None,
    ) -> "Bags":
        """Return the same bags with more info columns, which replace those of the same name.

        Parameters
        ----------
        bag_info : mapping of str to array of shape (n_bags, ...), optional
            Further data on each bag.
        instance_info : mapping of str to array of shape (n_instances, ...), optional
            Further data on each instance.

        Examples
        --------
        >>> bags = Bags.from_list([[[1.0]], [[2.0]]])
        >>> bags.with_info(bag_info={"patient": ["p1", "p2"]})[1:].bag_info["patient"]
        array(['p2'], dtype=object)
        """
        problems = Problems("The new info")
        bag_columns = check_info("bag_info", bag_info, self.n_bags, problems)
        instance_columns = check_info("instance_info", instance_info, self.n_instances, problems)
        problems.raise_if_any()
        return self._replace(
            bag_info={**self.bag_info, **bag_columns},
            instance_info={**self.instance_info, **instance_columns},
        )

    def with_marks(self, marks: Any, *, pos_label: Any = None) -> "Bags":
        """Return bags for fitting from which a method learns what a user knows of instances.

        An instance marked negative leaves its positive bag and joins a negative one. An instance
        marked positive stays where it is and is also a positive bag of its own. So every method
        learns from marks without a change: ``model.fit(bags.with_marks(marks))``. Ask for scores
        with the original bags; ``detected_instances_`` and ``instance_scores_`` refer to them too.

        Parameters
        ----------
        marks : path, frame, mapping or array of shape (n_instances,)
            A table with the columns ``bag`` (id), ``instance`` (position in the bag, from 0) and
            ``positive`` (yes or no), or the path of one in CSV or Parquet; or an array with 1, 0,
            and NaN where nothing is known.
        pos_label : label, optional
            The positive label; the greater of the two by default.

        Returns
        -------
        Bags
            Negatives are dealt evenly, to negative bags of the same group where there are any. A
            copy of a positive has the group of its bag, so that both stay in one fold (column
            ``fold_group`` of ``bag_info``). The column ``original_row`` of ``instance_info`` has
            the row of every instance before.

        Examples
        --------
        >>> bags = Bags.from_list([[[0.0], [1.0]], [[2.0]]], y=[1, 0])
        >>> marked = bags.with_marks({"bag": [0, 0], "instance": [0, 1], "positive": ["no", "yes"]})
        >>> [bag.ravel().tolist() for bag in marked]
        [[1.0], [0.0, 2.0], [1.0]]
        >>> marked.y
        array([1, 0, 1])
        """
        from pigmil.bags._marks import marked_bags

        return marked_bags(self, marks, pos_label)

    def get_feature_names(self) -> list[str]:
        """Return the names of the features; f0, f1, ... where they have none."""
        return list(self.feature_names or (f"f{column}" for column in range(self.n_features)))

    def to_columns(
        self, *, bag: str = BAG, label: str = BAG_LABEL, instance_label: str = INSTANCE_LABEL
    ) -> dict[str, NDArray[Any]]:
        """Return the columns of the long table that are not features, one entry per instance.

        Parameters
        ----------
        bag, label, instance_label : str
            Names of the columns for the bag and its labels; info keeps its own names.
        """
        index = self.bag_index
        held = ((bag, take(self.ids, index)), (label, take(self.y, index)),
                (instance_label, self.instance_labels))  # fmt: skip
        columns = [(name, values) for name, values in held if values is not None]
        columns += [(name, values[index]) for name, values in self.bag_info.items()]
        columns += [(name, values) for name, values in self.instance_info.items() if name != ROW]
        twice = repeated([*(name for name, _ in columns), *self.get_feature_names()])
        if twice:
            raise BagsError(
                f"Several columns of the table would be named {listed(sorted(twice))}. Rename the "
                "features or info, or the columns for the bag and its labels with bag=, label=, "
                "instance_label=."
            )
        return dict(columns)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per instance.

        Its columns are ``bag``, ``bag_label``, ``instance_label`` (the latter two where they
        are known), bag info, instance info and the features. Info with several values per
        instance gets one column per value, numbered from 0. Sparse features become dense.

        Examples
        --------
        >>> Bags.from_list([[[1.0], [2.0]]], ids=["a"], y=[1]).to_frame()
          bag  bag_label   f0
        0   a          1  1.0
        1   a          1  2.0
        """
        pandas = import_optional("pandas", extra="frames", purpose="Bags.to_frame")
        columns: dict[str, Any] = {}
        for name, values in self.to_columns().items():
            parts = values.reshape(len(values), -1).T
            columns |= {f"{name}_{at}" if values.ndim > 1 else name: part
                        for at, part in enumerate(parts)}  # fmt: skip
        instances = self.instances.toarray() if self.is_sparse else self.instances
        features = pandas.DataFrame(instances, columns=self.get_feature_names())
        return pandas.concat([pandas.DataFrame(columns), features], axis=1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return an object array of shape (n_bags, n_features), for scikit-learn.

        Entry ``[i, j]`` holds feature ``j`` of all instances of bag ``i``, whether bags have
        equal or different sizes. Tools that convert and index their input (bagging, boosting,
        feature selection, permutation importance) then work: :func:`as_bags` reads it back. A
        feature that was exchanged with that of a bag of another size is repeated or cut to the size
        of its new bag. Ids, labels and info are lost.
        """
        if self.is_sparse:
            raise TypeError(
                "Sparse bags cannot become an array, which this tool needs; make them dense with "
                "bags.with_instances(bags.instances.toarray())."
            )
        array = np.empty(self.shape, dtype=object)
        for position, bag in enumerate(self):
            for column in range(self.n_features):
                array[position, column] = bag[:, column].view(FeatureOfBag)
        return array

    def equals(self, other: "Bags") -> bool:
        """Return whether two collections have exactly the same bags, labels, names and info.

        ``instance_info["row"]``, which says where an instance was read from, is not compared.
        """
        if self.shape != other.shape or not np.array_equal(self.offsets, other.offsets):
            return False
        mine, others = self._columns(), other._columns()
        for columns in (mine, others):
            columns.pop(("instance_info", ROW), None)
        return bool(
            self.feature_names == other.feature_names
            and mine.keys() == others.keys()
            and all(_same(values, others[name]) for name, values in mine.items())
            and _same_instances(self.instances, other.instances)
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"Bags cannot be changed; to set {name!r} build new ones (with_instances, with_labels)."
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"Bags cannot be changed; {name!r} cannot be deleted.")

    def __getstate__(self) -> dict[str, Any]:
        state = {name: getattr(self, name) for name in _FIELDS}
        return state | {"instance_info": dict(self.instance_info), "bag_info": dict(self.bag_info)}

    def __sizeof__(self) -> int:
        values = self.instances.data if self.is_sparse else self.instances
        return int(values.nbytes + self.offsets.nbytes)


def summary(bags: Any) -> str:
    """Return the sizes of bags, in memory or on disk, and how many have which label."""
    parts = [
        f"{bags.n_bags} bags",
        f"{bags.n_instances} instances",
        f"{bags.n_features} features",
        f"{bags.dtype}" + (" sparse" if bags.is_sparse else ""),
    ]
    if bags.y is not None:
        # Labels of mixed types cannot be sorted, but their names can.
        labels = bags.y.astype(str) if bags.y.dtype == object else bags.y
        values, counts = np.unique(labels, return_counts=True)
        if len(values) <= 5:
            pairs = zip(values, counts, strict=True)
            parts.append("labels " + ", ".join(f"{value}: {number}" for value, number in pairs))
    return ", ".join(parts)


def resolve_index(key: Any, ids: NDArray[Any]) -> int | slice | IntArray:
    """Return the meaning of an index of bags: a position, a slice of step 1, or positions.

    Parameters
    ----------
    key : int, str, slice, mask, or array of int or of ids
        The index.
    ids : array of shape (n_bags,)
        Name of each bag.

    Examples
    --------
    >>> import numpy as np
    >>> ids = np.array(["a", "b", "c"], dtype=object)
    >>> resolve_index("c", ids), resolve_index(-1, ids), resolve_index([True, False, True], ids)
    (2, 2, array([0, 2]))
    """
    n_bags = len(ids)
    if isinstance(key, tuple):
        # scikit-learn indexes everything that has a shape as ``X[key, ...]``.
        if len(key) != 2 or key[1] is not Ellipsis:
            raise IndexError(
                "Bags are indexed by bag only; for features use bags.instances[:, columns] "
                "and bags.with_instances(...)."
            )
        key = key[0]
    if isinstance(key, bool | np.bool_):
        raise IndexError("A single bool is not an index of bags; use a mask, one entry per bag.")
    if isinstance(key, str):
        return int(_positions([key], ids)[0])
    if isinstance(key, int | np.integer):
        if not -n_bags <= key < n_bags:
            raise IndexError(f"There is no bag {key}; there are {n_bags} bags.")
        return range(n_bags)[int(key)]
    if isinstance(key, slice):
        if key.step in (None, 1):
            return key
    else:
        # An empty list must not become a float array.
        kind = np.asarray(key).dtype
        key = np.asarray(key, dtype=np.int64 if kind == np.float64 and not np.size(key) else kind)
        if key.size and all(isinstance(one, str) for one in key.ravel().tolist()):
            key = _positions(key.tolist(), ids)
    return np.atleast_1d(np.arange(n_bags, dtype=np.int64)[key])


def _positions(names: list[str], ids: NDArray[Any]) -> IntArray:
    """Return the position of each of these ids; of repeated ones, the first."""
    position = {one: at for at, one in reversed(list(enumerate(ids.tolist())))}
    absent = [one for one in names if one not in position]
    if absent:
        raise KeyError(f"There is no bag {absent[0]!r}; ids are like {ids[0]!r}.")
    return np.array([position[one] for one in names], dtype=np.int64)


def take(held: Any, chosen: Any) -> Any:
    """Return the chosen entries of an array, or of each array of a mapping; None of None."""
    if isinstance(held, Mapping):
        return {name: values[chosen] for name, values in held.items()}
    return None if held is None else held[chosen]


def _same(left: NDArray[Any], right: NDArray[Any]) -> bool:
    with_nan = left.dtype.kind == "f" and right.dtype.kind == "f"
    return bool(np.array_equal(left, right, equal_nan=with_nan))


def _same_instances(left: Any, right: Any) -> bool:
    if not sp.issparse(left) and not sp.issparse(right):
        return bool(np.array_equal(left, right, equal_nan=True))
    left, right = sp.csr_array(left, copy=True), sp.csr_array(right, copy=True)
    left.eliminate_zeros()
    right.eliminate_zeros()
    return all(
        np.array_equal(getattr(left, part), getattr(right, part), equal_nan=True)
        for part in ("indptr", "indices", "data")
    )


def _read_only(value: Any) -> Any:
    """Return a view that cannot be written through; containers of arrays likewise."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if sp.issparse(value):
        parts = (_read_only(value.data), _read_only(value.indices), _read_only(value.indptr))
        view = sp.csr_array(parts, shape=value.shape, copy=False)
        # It is canonical (see clean_instances): no later call may try to sort in place.
        view.has_sorted_indices = True
        view.has_canonical_format = True
        return view
    if isinstance(value, Mapping):
        return MappingProxyType({name: _read_only(values) for name, values in value.items()})
    return value
