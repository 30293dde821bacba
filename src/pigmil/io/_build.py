"""From what a format finds in a file to lazy bags: one array per bag, or one table of rows."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, Problems
from pigmil._core.text import listed
from pigmil.bags import LazyBags, text_array
from pigmil.bags._checks import is_missing
from pigmil.bags._columns import ROW, Roles, find_roles, group_rows
from pigmil.bags._lazy import INSTANCE_LABELS, ROW_NUMBER, MemorySource, Source
from pigmil.io._defence import raise_format_error
from pigmil.io._formats import Request


class ArrayBags:
    """Collects bags that are one array of a file each, and builds lazy bags of them.

    Parameters
    ----------
    what : Path
        The file or folder, for messages.
    request : Request
        The parameters of ``scan_bags``.
    """

    def __init__(self, what: Path, request: Request) -> None:
        self.what, self.request = what, request
        self.names: Sequence[str] | None = None  # of the features
        self.problems = Problems(f"{what}: the bags")
        self._bags: list[tuple[Source, Any, int, Any, dict[str, Any]]] = []
        self._kinds: dict[tuple[int, np.dtype[Any]], str] = {}  # width, type: first bag with it

    def add(
        self,
        source: Source,
        id: Any,
        shape: tuple[int, ...],
        dtype: Any,
        label: Any = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        """Add a bag: where its rows are, its name, shape and type, its label and bag info.

        A shape (1, n, d), as some encoders write it, counts as (n, d).
        """
        shape = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
        where = f"{source.stamp.path}: the bag {id!r}"
        widths = {width for width, _ in self._kinds}
        if len(shape) != 2 or np.dtype(dtype).kind not in "iuf":
            self.problems.add(
                f"{where} has features of shape {shape} and type {dtype}; expected a table of "
                "numbers."
            )
        elif label is not None and not isinstance(label, bool | int | float | str | np.generic):
            self.problems.add(f"{where} has the label {str(label)[:80]!r}; expected one value.")
        elif shape[0] == 0:
            if self.request.empty == "raise":
                self.problems.add(f"{where} has no instances; pass empty='drop' to leave it out.")
        elif widths and shape[1] not in widths:
            (width, _), other = next(iter(self._kinds.items()))
            self.problems.add(
                f"{where} has {shape[1]} features where {other} has {width}; scan files of "
                "different encoders apart."
            )
        else:
            self._kinds.setdefault((shape[1], np.dtype(dtype)), source.stamp.path)
            self._bags.append((source, id, shape[0], label, info or {}))

    def build(self) -> LazyBags:
        """Return the bags, or raise one error that lists all problems."""
        self.problems.raise_if_any(BagFormatError)
        if not self._bags:
            raise_format_error(
                self.what,
                "holds no bags.",
                hint="See pigmil.scan_bags for the layouts that are recognized.",
            )
        sources, ids, sizes, labels, infos = zip(*self._bags, strict=True)
        twice = [name for name, count in Counter(ids).items() if count > 1]
        if twice:
            raise_format_error(
                self.what,
                f"several bags have the id {listed(twice, 3)}.",
                hint="Give different names to different bags; to join the parts of a bag, give "
                "their files as a list to scan_bags.",
            )
        count = np.arange(len(ids))
        names = set.intersection(*(set(info) for info in infos))
        return LazyBags(
            sources,
            np.column_stack([count, np.zeros_like(count), sizes]),
            np.arange(len(ids) + 1),
            ids=list(ids),
            y=None if any(label is None for label in labels) else list(labels),
            bag_info={name: [info[name] for info in infos] for name in sorted(names)},
            n_features=next(iter(self._kinds))[0],
            dtype=np.result_type(*(dtype for _, dtype in self._kinds)),
            feature_names=self.names,
        )


@dataclass
class Table:
    """A table with one row per instance, as a format hands it to :func:`bags_of_table`.

    Parameters
    ----------
    path : Path
        The file.
    columns : mapping of str to array of shape (n_rows, ...)
        All columns, or those that are no features where ``instances`` is given.
    instances : array or CSR of shape (n_rows, n_features), optional
        The features, if they are no columns.
    feature_names : sequence of str, optional
        Names of the columns of ``instances``.
    text : collection of str
        Columns that do not hold numbers.
    noted : mapping
        What the writer noted on the roles of columns: ``info``, ``bag_info`` and ``unnamed``.
    first_row : int
        How the first row is counted in messages.
    """

    path: Path
    columns: Mapping[str, Any]
    instances: Any = None
    feature_names: Sequence[str] | None = None
    text: Collection[str] = ()
    noted: Mapping[str, Any] = field(default_factory=dict)
    first_row: int = 1

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return list(self.columns)

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        """Return a column for its role: "id", "label" or "info"."""
        return text_array(self.columns[name])

    def source(self, roles: Roles, request: Request) -> tuple[Source, int, Any, bool]:
        """Return the source of the features and info, the width, the type and whether sparse."""
        features = self.instances
        if features is None:
            dtype = request.dtype or np.result_type(
                *(self.columns[n].dtype for n in roles.features)
            )
            dtype = np.float32 if dtype == np.float32 else np.float64
            features = np.empty((len(self.columns[roles.bag]), len(roles.features)), dtype=dtype)
            for place, name in enumerate(roles.features):
                features[:, place] = self.columns[name]
        columns = {name: self.column(name, "info", request) for name in roles.info}
        if roles.instance_label is not None:
            labels = self.column(roles.instance_label, "label", request)
            columns[INSTANCE_LABELS] = instance_labels(self.path, labels)
        source = MemorySource.of(self.path, features, columns)
        return source, features.shape[1], features.dtype, not isinstance(features, np.ndarray)


def table_roles(table: Table, request: Request, *, hint: str = "") -> Roles:
    """Return what the columns of a table hold, by the request and what its writer noted."""
    info, bag_info = (
        (*getattr(request, role), *(n for n in table.noted.get(role, ()) if n in table.columns))
        for role in ("info", "bag_info")
    )
    return find_roles(
        table.names,
        bag=request.bag,
        label=request.label,
        instance_label=request.instance_label,
        info=tuple(dict.fromkeys(info)),
        bag_info=tuple(dict.fromkeys(bag_info)),
        features=request.features if table.instances is None else None,
        text=table.text,
        others="features" if table.instances is None else "info",
        what=str(table.path),
        hint=hint,
        error=BagFormatError,
    )


def bags_of_table(table: Table, request: Request, *, hint: str = "") -> LazyBags:
    """Resolve the columns of a table and group its rows into bags.

    Parameters
    ----------
    table : Table
        The table; only bag, label and bag info are read here.
    request : Request
        The parameters of ``scan_bags``.
    hint : str
        End of the message if there is no column of bags.
    """
    roles = table_roles(table, request, hint=hint)
    groups = group_rows(
        table.column(roles.bag, "id", request),
        None if roles.label is None else table.column(roles.label, "label", request),
        {name: table.column(name, "info", request) for name in roles.bag_info},
        what=str(table.path),
        where=lambda row: f"row {row + table.first_row}",
        error=BagFormatError,
    )
    source, width, dtype, sparse = table.source(roles, request)
    if len(groups.runs) > len(groups.ids):  # rows move, so that their numbers are worth keeping
        object.__setattr__(source, "info", (*source.info, (ROW, ROW_NUMBER)))
    names = table.feature_names if table.instances is not None else roles.features
    return LazyBags(
        [source],
        np.column_stack([np.zeros(len(groups.runs), dtype=np.int64), groups.runs]),
        groups.run_offsets,
        ids=typed_ids(table.path, groups.ids, request.ids),
        y=groups.y,
        bag_info=groups.bag_info,
        n_features=width,
        dtype=dtype,
        feature_names=None if table.noted.get("unnamed") or len(names or ()) != width else names,
        is_sparse=sparse,
    )


def typed_ids(path: Path, ids: NDArray[Any], want: type | None) -> NDArray[Any]:
    """Return ids of the type that the caller asked for."""
    if want is None:
        return ids
    try:
        return text_array([want(value) for value in ids.tolist()])
    except (TypeError, ValueError) as error:
        raise_format_error(path, f"has ids that are not {want.__name__} ({error}).")


def instance_labels(path: Path, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels of instances with NaN where they are unknown, which only numbers can be."""
    missing = [is_missing(value) for value in labels.tolist()] if labels.dtype == object else []
    if not any(missing):
        return labels
    if any(isinstance(value, str) for value in labels[~np.array(missing)].tolist()):
        raise_format_error(
            path,
            "has instance labels that are text, and some are missing.",
            hint="Write a number for each class and leave the unknown ones empty, or name a class.",
        )
    return np.where(missing, np.nan, labels).astype(np.float64)
