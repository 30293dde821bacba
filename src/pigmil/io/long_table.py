"""Rows of instances, as they come from a file, gathered into bags."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, Problems
from pigmil._core.segments import offsets_of
from pigmil._core.typing import IntArray
from pigmil.bags import Bags
from pigmil.io.common import Request, naming, raise_format_error
from pigmil.io.mapped import InMemory, OnDisk
from pigmil.io.values import MISSING, decode, decode_ids, decode_labels

_MAX_KEPT = 1000  # problems remembered with their place; the rest is only counted


class Coded(NamedTuple):
    """A column as its different values and, for each row, which of them it has."""

    values: Sequence[Any]
    codes: IntArray


def coded(column: Sequence[Any]) -> Coded:
    """Code a column of text; what stands for "missing" becomes None.

    Examples
    --------
    >>> coded(["a", "b", "a", "?"])
    Coded(values=['a', 'b', None], codes=array([0, 1, 0, 2]))
    """
    seen: dict[Any, int] = {}
    codes = [seen.setdefault(None if cell in MISSING else cell, len(seen)) for cell in column]
    return Coded(list(seen), np.array(codes, dtype=np.int64))


class _Growing:
    """A coded column that grows by blocks, each with its own values."""

    def __init__(self) -> None:
        self.seen: dict[Any, int] = {}
        self.blocks: list[NDArray[Any]] = []

    def add(self, block: Coded) -> NDArray[Any]:
        table = [self.seen.setdefault(value, len(self.seen)) for value in block.values]
        codes = np.array(table, dtype=np.int32)[block.codes]
        self.blocks.append(codes)
        return codes

    @property
    def values(self) -> list[Any]:
        return list(self.seen)

    def codes(self) -> NDArray[Any]:
        return np.concatenate(self.blocks)


class LongTable:
    """Gathers rows into bags in the order in which bags first appear; rows may come mixed.

    Besides the features, memory holds some 4 to 20 bytes a row and the ids. With
    ``memory_map`` the features lie in a file and are never in memory at once.

    Parameters
    ----------
    path : Path
        The file, for messages.
    request : Request
        What the caller asked for.
    where : callable, optional
        How a row, counted from 0, is named in messages.
    mappable : bool, default=False
        Whether the format can be read with ``memory_map``, for messages.
    typed : bool, default=False
        Whether the file tells text from numbers, so that text which looks like a number stays
        text.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        *,
        where: Callable[[int], str] | None = None,
        mappable: bool = False,
        typed: bool = False,
    ) -> None:
        self.path, self.request, self.typed = path, request, typed
        self.where = where or (lambda row: f"row {row + 1}")
        self.n_rows = 0
        self.store: InMemory | OnDisk = (
            OnDisk(path, request.memory_map)
            if request.memory_map
            else InMemory(path, mappable=mappable)
        )
        self.bags, self.labels, self.instance_labels = _Growing(), _Growing(), _Growing()
        self.info: dict[str, _Growing | list[NDArray[Any]]] = {}
        self.bag_label = np.empty(0, dtype=np.int32)
        self.first_row: list[int] = []
        self.clashes: dict[tuple[int, int], int] = {}
        self.problems = Problems(str(path))
        self.n_bad_values = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.store.discard()

    def add(
        self,
        features: Any,
        bag: Coded,
        label: Coded | None = None,
        instance_label: Coded | None = None,
        info: Mapping[str, Coded | NDArray[Any]] | None = None,
    ) -> None:
        """Take the next rows: features (dense or CSR) and what the other columns say of them."""
        features = self._typed(features)
        self._note_bad_values(features)
        codes = self._add_bags(bag)
        if label is not None:
            self._add_labels(codes, self.labels.add(label))
        if instance_label is not None:
            self.instance_labels.add(instance_label)
        for name, column in (info or {}).items():
            if isinstance(column, Coded):
                kept = self.info.setdefault(name, _Growing())
                assert isinstance(kept, _Growing)
                kept.add(column)
            else:
                parts = self.info.setdefault(name, [])
                assert isinstance(parts, list)
                parts.append(column)
        self.store.append(features)
        self.n_rows += features.shape[0]

    def _typed(self, features: Any) -> Any:
        wanted = self.request.dtype
        if wanted is None:
            wanted = features.dtype if features.dtype == np.float32 else np.float64
        with np.errstate(over="ignore"):
            return features.astype(wanted, copy=False)

    def _note_bad_values(self, features: Any) -> None:
        values = features.data if sp.issparse(features) else features
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum(dtype=np.float64)):
                return
        if sp.issparse(features):
            found = sp.coo_array(features)
            bad = ~np.isfinite(found.data)
            places = np.column_stack([found.coords[0][bad], found.coords[1][bad]])
        else:
            places = np.argwhere(~np.isfinite(features))
        for row, column in places[: max(0, 3 - self.n_bad_values)].tolist():
            value = features[row, column]
            kind = "missing or NaN" if value != value else f"{value}"
            self.problems.add(
                f"{self.where(self.n_rows + row)}, feature {column}: the value is {kind}; "
                "every feature needs a finite number. Impute it or drop the row."
            )
        self.n_bad_values += len(places)

    def _add_bags(self, bag: Coded) -> NDArray[Any]:
        values = [None if value != value else value for value in bag.values]
        known = len(self.bags.seen)
        codes = self.bags.add(Coded(values, bag.codes))
        if len(self.bags.seen) > known:
            new, first = np.unique(codes, return_index=True)
            self.first_row += (first[new >= known] + self.n_rows).tolist()
        return codes

    def _add_labels(self, codes: NDArray[Any], labels: NDArray[Any]) -> None:
        grown = len(self.bags.seen) - len(self.bag_label)
        self.bag_label = np.append(self.bag_label, np.full(grown, -1, dtype=np.int32))
        unset = np.flatnonzero(self.bag_label[codes] < 0)
        # Backwards, so that of several rows of one bag the first one stays.
        self.bag_label[codes[unset[::-1]]] = labels[unset[::-1]]
        for row in np.flatnonzero(self.bag_label[codes] != labels):
            if len(self.clashes) >= _MAX_KEPT:
                break
            self.clashes.setdefault((int(codes[row]), int(labels[row])), self.n_rows + int(row))

    def finish(
        self, feature_names: Sequence[str] | None = None, *, n_features: int | None = None
    ) -> Bags:
        """Return the bags; whatever is wrong with them is told in one error."""
        if self.n_rows == 0:
            raise_format_error(self.path, "holds no instances.", hint="It may be cut short.")
        if n_features == 0:
            raise_format_error(self.path, "has no feature columns beside the bag and its labels.")
        if self.n_bad_values > 3:
            self.problems.add(f"... and {self.n_bad_values - 3} more values that are not finite.")
        if None in self.bags.seen:
            row = self.first_row[self.bags.seen[None]]
            self.problems.add(f"{self.where(row)}: there is no bag id.")
        y, instance = self._decoded_labels()
        self.problems.raise_if_any(BagFormatError)
        codes = self.bags.codes()
        order = None
        if (np.diff(codes) < 0).any():
            order = np.argsort(codes, kind="stable").astype(np.int64)
        info = {name: self._info(column) for name, column in self.info.items()}
        if order is not None:
            instance = None if instance is None else instance[order]
            info = {name: values[order] for name, values in info.items()}
            info.setdefault("row", order)
        with naming(self.path):
            return Bags(
                self.store.finish(order),
                offsets_of(np.bincount(codes, minlength=len(self.bags.seen))),
                ids=decode_ids(self.path, self.bags.values, self._kind(self.bags.values, "ids")),
                y=y,
                instance_labels=instance,
                feature_names=feature_names,
                instance_info=info,
                check_finite=False,  # looked at row by row above, with the place in the file
            )

    def _kind(self, values: Sequence[Any], option: str) -> Any:
        """What ids or labels are to become: what was asked for, else text where it is typed."""
        asked = getattr(self.request, option)
        if asked is None and self.typed and any(isinstance(value, str) for value in values):
            return str
        return asked

    def _decoded_labels(self) -> tuple[Any, Any]:
        """Labels of bags and instances; all missing counts as having none."""
        bag, instance = self.labels.values, self.instance_labels.values
        missing = self.labels.seen.get(None)
        if missing is not None and len(bag) > 1:
            places = np.flatnonzero(self.bag_label == missing)
            self.problems.add_each(
                (
                    f"{self.where(self.first_row[place])}: the bag "
                    f"{self.bags.values[place]!r} has no label."
                    for place in places
                ),
                total=len(places),
                kind="bags without a label",
            )
        known = [value for value in bag if value is not None]
        if any(value != value for value in known):
            self.problems.add("Some bags have the label NaN.")
        y, per_instance = decode_labels(
            self.path,
            known or None,
            instance if any(value is not None for value in instance) else None,
            self._kind([*known, *instance], "labels"),
        )
        if y is not None:
            table = dict(zip(known, y.tolist(), strict=True))
            self._note_clashes(table)
            if missing is None:
                y = y[self.bag_label]
        if per_instance is not None:
            per_instance = per_instance[self.instance_labels.codes()]
        return y, per_instance

    def _note_clashes(self, table: Mapping[Any, Any]) -> None:
        bag_values, labels = self.bags.values, self.labels.values
        found = []
        for (bag, label), row in self.clashes.items():
            first, other = labels[self.bag_label[bag]], labels[label]
            # '1' and '1.0' are written differently and mean the same label.
            if table.get(first) != table.get(other):
                found.append(
                    f"{self.where(row)}: the bag {bag_values[bag]!r} is labelled {other!r} here "
                    f"and {first!r} before; a bag has one label."
                )
        self.problems.add_each(found, total=len(found), kind="rows whose label differs")

    def _info(self, column: Any) -> NDArray[Any]:
        if isinstance(column, list):
            return np.concatenate(column)
        values = column.values
        known = [value for value in values if value is not None]
        text = self.typed and any(isinstance(value, str) for value in known)
        decoded = decode(known, want=str if text else None)
        if len(known) < len(values):
            blank = np.nan if decoded.dtype.kind in "iuf" else ""
            filled = [blank if value is None else None for value in values]
            numbers = iter(decoded.tolist())
            decoded = np.array([next(numbers) if cell is None else cell for cell in filled])
        return np.asarray(decoded[column.codes()])
