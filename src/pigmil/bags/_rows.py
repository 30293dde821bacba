"""Build bags from rows: the one path for readers and converters.

They pass blocks of rows as columns; :class:`BagBuilder` groups them by bag in the order in which
bags first appear, checks what must agree and returns the parts of the container.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, PigmilError, Problems
from pigmil._core.segments import offsets_of
from pigmil._core.typing import IntArray
from pigmil.bags._checks import MAX_REPORTED, non_finite_values, text_array

# Default names of the columns of a long table.
BAG, BAG_LABEL, INSTANCE_LABEL = "bag", "bag_label", "instance_label"
ROW = "row"  # instance_info that holds the original row of an instance where rows were moved
_MAX_CONFLICTS = 1000  # rows that contradict earlier ones; further ones are not recorded


class Coded(NamedTuple):
    """A column as its distinct values and, for each row, the index of its value."""

    values: Sequence[Any]
    codes: IntArray


def encode(column: Any, *, missing: Sequence[Any] = ()) -> Coded:
    """Encode a column by its distinct values, in order of appearance; NaN becomes None.

    Parameters
    ----------
    column : array or sequence of shape (n_rows,)
        The values.
    missing : sequence, default=()
        Further values that count as missing, in addition to None and NaN.

    Examples
    --------
    >>> encode(["a", "b", "b", "a", "?"], missing=["?"])
    Coded(values=['a', 'b', None], codes=array([0, 1, 1, 0, 2]))
    """
    array = text_array(column)
    if not len(array):
        return Coded([], np.empty(0, dtype=np.int64))
    # Rows of a bag are usually neighbours: only the first row of each run is looked up.
    starts = np.concatenate([[0], np.flatnonzero(array[1:] != array[:-1]) + 1])
    seen: dict[Any, int] = {}
    codes = [
        seen.setdefault(None if value != value or value in missing else value, len(seen))
        for value in array[starts].tolist()
    ]
    lengths = np.diff(np.append(starts, len(array)))
    return Coded(list(seen), np.repeat(np.array(codes, dtype=np.int64), lengths))


class Decoder:
    """Converts the distinct values of columns to arrays; this base class does not change them."""

    def ids(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return bag ids as an array."""
        return text_array(values)

    def labels(
        self, bag: Sequence[Any] | None, instance: Sequence[Any] | None
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return labels of bags and of instances; None among the latter means unknown."""
        known = None if instance is None else [np.nan if one is None else one for one in instance]
        return (
            None if bag is None else np.array(bag),
            None if known is None else np.array(known),
        )

    def info(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the values of an info column, None meaning missing, as an array."""
        blank = "" if any(isinstance(value, str) for value in values) else np.nan
        return text_array([blank if value is None else value for value in values])


class Store(Protocol):
    """Where the features are put while rows are read."""

    def append(self, block: Any) -> None:
        """Take the next rows."""

    def finish(self, order: IntArray | None) -> Any:
        """Return all rows, in the given order."""

    def discard(self) -> None:
        """Drop the rows."""


class _Blocks:
    """The plain store: a single block is returned without a copy."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []

    def append(self, block: Any) -> None:
        self.blocks.append(block)

    def finish(self, order: IntArray | None) -> Any:
        stack = sp.vstack if sp.issparse(self.blocks[0]) else np.concatenate
        rows = self.blocks[0] if len(self.blocks) == 1 else stack(self.blocks)
        return rows if order is None else rows[order]

    def discard(self) -> None:
        self.blocks.clear()


class _Column:
    """A coded column that grows by blocks, each with its own distinct values."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}
        self.blocks: list[NDArray[Any]] = []

    def recode(self, block: Coded) -> NDArray[Any]:
        """Return the codes of a block in terms of all values seen so far."""
        table = [
            self.seen.setdefault(None if value != value else value, len(self.seen))
            for value in block.values
        ]
        return np.array(table, dtype=np.int32)[block.codes]

    def add(self, block: Coded) -> NDArray[Any]:
        codes = self.recode(block)
        self.blocks.append(codes)
        return codes

    @property
    def values(self) -> list[Any]:
        return list(self.seen)

    def codes(self) -> NDArray[Any]:
        return np.concatenate(self.blocks)


class _BagColumn(_Column):
    """A column that must be constant within each bag; keeps one code per bag."""

    def __init__(self) -> None:
        super().__init__()
        self.per_bag = np.empty(0, dtype=np.int32)
        self.conflicts: dict[tuple[int, int], int] = {}

    def add_rows(self, bags: NDArray[Any], n_bags: int, block: Coded, first_row: int) -> None:
        """Take the next rows: their bags, and their values in this column."""
        codes = self.recode(block)
        new = np.full(n_bags - len(self.per_bag), -1, dtype=np.int32)
        self.per_bag = np.append(self.per_bag, new)
        unset = np.flatnonzero(self.per_bag[bags] < 0)
        # Backwards, so that the first of several rows of one bag is the one that stays.
        self.per_bag[bags[unset[::-1]]] = codes[unset[::-1]]
        for row in np.flatnonzero(self.per_bag[bags] != codes):
            if len(self.conflicts) >= _MAX_CONFLICTS:
                break
            self.conflicts.setdefault((int(bags[row]), int(codes[row])), first_row + int(row))

    def complete(self, n_bags: int) -> None:
        """Treat bags for which the column was not given as missing."""
        absent = np.full(n_bags - len(self.per_bag), -1, dtype=np.int32)
        self.per_bag = np.append(self.per_bag, absent)
        if (self.per_bag < 0).any():
            self.per_bag[self.per_bag < 0] = self.seen.setdefault(None, len(self.seen))


class BagBuilder:
    """Builds bags from blocks of rows; rows of a bag may be scattered.

    Memory: the features, the ids, and 4 to 20 bytes per row. All problems are
    collected and raised by :meth:`finish` in one error.

    Parameters
    ----------
    what : str, default="The table"
        Name of the input, for the first line of an error.
    where : callable, optional
        Returns how messages refer to a row, counted from 0.
    error : type, default=BagsError
        The error to raise.
    store : Store, optional
        Where the features are put; in memory by default.
    decoder : Decoder, optional
        Turns distinct values into ids, labels and info.
    missing : {"raise", "keep"}, default="raise"
        What to do with NaN among the features.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> with BagBuilder() as builder:
    ...     builder.add(np.zeros((3, 2)), encode(["a", "b", "a"]), encode([1, 0, 1]))
    ...     bags = Bags(**builder.finish(["u", "v"]))
    >>> bags.ids.tolist(), bags.y.tolist(), bags.sizes.tolist()
    (['a', 'b'], [1, 0], [2, 1])
    """

    def __init__(
        self,
        *,
        what: str = "The table",
        where: Callable[[int], str] | None = None,
        error: type[PigmilError] = BagsError,
        store: Store | None = None,
        decoder: Decoder | None = None,
        missing: str = "raise",
    ) -> None:
        self.where = where or (lambda row: f"Row {row}")
        self.error, self.missing = error, missing
        self.store: Store = store or _Blocks()
        self.decoder = decoder or Decoder()
        self.problems = Problems(what)
        self.n_rows = 0
        self._first_row: list[int] = []
        self._bags, self._instance_labels, self._labels = _Column(), _Column(), _BagColumn()
        self._instance_info: dict[str, _Column | list[NDArray[Any]]] = {}
        self._bag_info: dict[str, _BagColumn] = {}
        self._n_bad, self._bad = 0, list[tuple[int, int, float]]()
        self._has_missing = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None:
            self.store.discard()

    def add(
        self,
        features: Any,
        bag: Coded,
        label: Coded | None = None,
        instance_label: Coded | None = None,
        instance_info: Mapping[str, Coded | NDArray[Any]] | None = None,
        bag_info: Mapping[str, Coded] | None = None,
    ) -> None:
        """Add the next rows: a block of features, dense or CSR, and the other columns."""
        self._check_values(features)
        known = len(self._bags.seen)
        bags = self._bags.add(bag)
        n_bags = len(self._bags.seen)
        if n_bags > known:
            new, first = np.unique(bags, return_index=True)
            self._first_row += (first[new >= known] + self.n_rows).tolist()
        if label is not None:
            self._labels.add_rows(bags, n_bags, label, self.n_rows)
        for name, values in (bag_info or {}).items():
            column = self._bag_info.setdefault(name, _BagColumn())
            column.add_rows(bags, n_bags, values, self.n_rows)
        if instance_label is not None:
            self._instance_labels.add(instance_label)
        for name, part in (instance_info or {}).items():
            if isinstance(part, Coded):
                coded = self._instance_info.setdefault(name, _Column())
                assert isinstance(coded, _Column)
                coded.add(part)
            else:
                parts = self._instance_info.setdefault(name, [])
                assert isinstance(parts, list)
                parts.append(part)
        self.store.append(features)
        self.n_rows += features.shape[0]

    def _check_values(self, features: Any) -> None:
        count, examples, any_missing = non_finite_values(
            features, allow_missing=self.missing == "keep", limit=MAX_REPORTED
        )
        self._has_missing |= any_missing
        self._n_bad += count
        room = MAX_REPORTED - len(self._bad)
        self._bad += [(row + self.n_rows, column, value) for row, column, value in examples[:room]]

    def finish(
        self,
        feature_names: Sequence[str] | None = None,
        *,
        y: Any = None,
        instance_labels: Any = None,
    ) -> dict[str, Any]:
        """Return the arguments of :class:`Bags`, or raise one error that lists all problems.

        Parameters
        ----------
        feature_names : sequence of str, optional
            Name of each feature.
        y, instance_labels : array, optional
            Labels of the bags in order of appearance, and of the rows in their original order, if
            they were not given as columns.
        """
        if self.n_rows == 0:
            self.problems.add("It holds no instances; at least one is needed.")
            self.problems.raise_if_any(self.error)
        self._report_values(feature_names)
        if None in self._bags.seen:
            row = self._first_row[self._bags.seen[None]]
            self.problems.add(f"{self.where(row)}: there is no bag id.")
        if self._labels.seen or self._instance_labels.seen:
            decoded, per_instance = self._decoded_labels()
            y = decoded if y is None else y
            instance_labels = per_instance if instance_labels is None else instance_labels
        bag_info = {name: self._decoded_bag_info(name) for name in self._bag_info}
        info = {name: self._decoded_info(column) for name, column in self._instance_info.items()}
        partial = [name for name, values in info.items() if len(values) != self.n_rows]
        if partial:
            self.problems.add(f"Only some bags have {', '.join(map(repr, partial))}; all need it.")
        self.problems.raise_if_any(self.error)
        codes = self._bags.codes()
        order = None
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable").astype(np.int64)
            info = {name: values[order] for name, values in info.items()}
            info.setdefault(ROW, order)
            if instance_labels is not None:
                instance_labels = np.asarray(instance_labels)[order]
        return {
            "instances": self.store.finish(order),
            "offsets": offsets_of(np.bincount(codes, minlength=len(self._bags.seen))),
            "ids": self.decoder.ids(self._bags.values),
            "y": y,
            "instance_labels": instance_labels,
            "feature_names": feature_names,
            "instance_info": info,
            "bag_info": bag_info,
            "missing": "keep" if self._has_missing else "raise",
            "check_finite": False,  # done above, row by row
        }

    def _report_values(self, names: Sequence[str] | None) -> None:
        self.problems.add_each(
            (
                f"{self.where(row)}, feature {column}"
                + (f" ({names[column]!r})" if names is not None and column < len(names) else "")
                + f": the value is {'missing (NaN)' if value != value else value}; every feature "
                "needs a finite number. Drop the row, or read it with missing='keep' and impute."
                for row, column, value in self._bad
            ),
            total=self._n_bad,
            kind="values that are not finite",
        )

    def _decoded_labels(self) -> tuple[Any, Any]:
        """Return labels of bags and instances; a column of missing values counts as no labels."""
        column, instance = self._labels, self._instance_labels.values
        if column.seen:
            column.complete(len(self._bags.seen))
        missing = column.seen.get(None)
        if missing is not None and len(column.seen) > 1:
            unlabelled = np.flatnonzero(column.per_bag == missing)
            self.problems.add_each(
                (
                    f"{self.where(self._first_row[bag])}: the bag {self._bags.values[bag]!r} "
                    "has no label."
                    for bag in unlabelled
                ),
                total=len(unlabelled),
                kind="bags without a label",
            )
        known = [value for value in column.values if value is not None]
        y, per_instance = self.decoder.labels(
            known or None, instance if any(value is not None for value in instance) else None
        )
        if y is not None:
            self._report_conflicts("is labelled", column, known, y)
            if missing is None:
                y = y[column.per_bag]
        if per_instance is not None:
            per_instance = per_instance[self._instance_labels.codes()]
        return y, per_instance

    def _decoded_bag_info(self, name: str) -> NDArray[Any]:
        column = self._bag_info[name]
        column.complete(len(self._bags.seen))
        decoded = self.decoder.info(column.values)
        self._report_conflicts(f"has {name}", column, column.values, decoded)
        return decoded[column.per_bag]

    def _report_conflicts(
        self, verb: str, column: _BagColumn, values: Sequence[Any], decoded: NDArray[Any]
    ) -> None:
        meaning = dict(zip(values, decoded.tolist(), strict=True))
        conflicts = []
        for (bag, code), row in column.conflicts.items():
            first, other = column.values[column.per_bag[bag]], column.values[code]
            # '1' and '1.0' are written differently and mean the same.
            if meaning.get(first) != meaning.get(other):
                conflicts.append(
                    f"{self.where(row)}: the bag {self._bags.values[bag]!r} {verb} {other!r} here "
                    f"and {first!r} before; it must be the same in all rows of a bag."
                )
        self.problems.add_each(conflicts, total=len(conflicts), kind="rows that contradict others")

    def _decoded_info(self, column: _Column | list[NDArray[Any]]) -> NDArray[Any]:
        if isinstance(column, list):
            return column[0] if len(column) == 1 else np.concatenate(column)
        return self.decoder.info(column.values)[column.codes()]
