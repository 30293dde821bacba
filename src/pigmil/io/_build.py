"""From what a format finds in a file to lazy bags: one array per bag, or one table of rows."""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, Problems
from pigmil._core.text import count, listed, repeated
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
        if len(shape) != 2 or np.dtype(dtype).kind not in "biuf":
            self.problems.add(
                f"{where} has features of shape {shape} and type {dtype}; expected a table of "
                "numbers."
            )
        elif shape[0] and widths and shape[1] not in widths:
            (width, _), other = next(iter(self._kinds.items()))
            self.problems.add(
                f"{where} has {shape[1]} features where {other} has {width}; scan files of "
                "different encoders apart."
            )
        else:
            if shape[0]:  # join_labels refuses or drops bags without instances
                self._kinds.setdefault((shape[1], np.dtype(dtype)), source.stamp.path)
            self._bags.append((source, id, shape[0], label, info or {}))

    def build(self) -> LazyBags:
        """Return the bags, or raise one error that lists all problems."""
        self.problems.raise_if_any(BagFormatError)
        where, request = str(self.what), self.request
        if not self._kinds:
            raise_format_error(
                self.what,
                "holds no bags with instances.",
                hint="See pigmil.scan_bags for the layouts that are recognized.",
            )
        sources, ids, sizes, labels, infos = zip(*self._bags, strict=True)
        twice = repeated(ids)
        if twice:
            raise_format_error(
                self.what,
                f"several bags have the id {listed(twice, 3)}.",
                hint="Give different names to different bags; to join the parts of a bag, give "
                "their files as a list to scan_bags.",
            )
        filled = [source for source, size in zip(sources, sizes, strict=True) if size]
        held = [{name for name, _ in source.info} for source in filled]
        partly = sorted(set.union(*held) - set.intersection(*held))
        if partly:
            message = f"{where}: left out {listed(partly)}, which some of the bags do not have."
            warnings.warn(message, UserWarning, stacklevel=6)
        each = np.arange(len(ids))
        lazy = LazyBags(
            sources,
            np.column_stack([each, np.zeros_like(each), sizes]),
            np.arange(len(ids) + 1),
            ids=list(ids),
            bag_info={
                name: column_of([info.get(name) for info in infos])
                for name in {name: None for info in infos for name in info}
            },
            n_features=next(iter(self._kinds))[0],
            dtype=np.result_type(*(dtype for _, dtype in self._kinds)),
            feature_names=self.names,
        )
        known = [label for label in labels if label is not None]
        if not known or request.labels is not None:
            return lazy
        if len({isinstance(label, str) for label in known}) > 1:
            raise_format_error(self.what, "has labels that are text and labels that are numbers.")
        absent = np.array([label is None for label in labels])
        names = [str(name) for name in lazy.ids[absent]]
        report_bags(where, request.missing, "missing", [(names, "without a label")])
        return lazy[~absent].with_labels(known)


def column_of(values: Sequence[Any]) -> NDArray[Any]:
    """Return values as an array of numbers or text; a missing one is NaN, or '' among text.

    Examples
    --------
    >>> column_of([0.5, None]), column_of(["a", None])
    (array([0.5, nan]), array(['a', ''], dtype=object))
    """
    is_text = any(isinstance(value, str) for value in values)
    return text_array([("" if is_text else np.nan) if v is None else v for v in values])


def check_unique(path: Path, names: Sequence[str], *, where: str = "", hint: str = "") -> None:
    """Raise an error if several columns have the same name."""
    twice = repeated(names)
    if twice:
        problem = f"has several columns of the name {listed(twice)}."
        raise_format_error(path, problem, where=where, hint=hint)


def report_bags(
    where: str, action: str, parameter: str, kinds: Sequence[tuple[Sequence[str], str]]
) -> None:
    """Raise one error that lists bags of each kind, or warn that they are left out."""
    lines = [
        f"{count(len(names), 'bag')} {what}: {listed(names, 10)}" for names, what in kinds if names
    ]
    if lines and action == "raise":
        listing = "\n".join(f"- {line}." for line in lines)
        raise BagFormatError(
            f"{where}:\n{listing}\nPass {parameter}='drop' to leave them out.", parameter=parameter
        )
    if lines:
        warnings.warn(f"{where}: left out {'; '.join(lines)}.", UserWarning, stacklevel=7)


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
    asked = (request.bag, request.label, request.instance_label)
    info, bag_info = (
        dict.fromkeys([
            *getattr(request, role),
            *(n for n in table.noted.get(role, ()) if n in table.columns and n not in asked),
        ])
        for role in ("info", "bag_info")
    )  # fmt: skip
    return find_roles(
        table.names,
        bag=request.bag,
        label=request.label,
        instance_label=request.instance_label,
        info=tuple(info),
        bag_info=tuple(bag_info),
        features=request.features if table.instances is None else None,
        text=table.text,
        others="features" if table.instances is None else "info",
        what=str(table.path),
        hint=hint,
        error=BagFormatError,
    )


def bags_of_table(table: Table, request: Request, roles: Roles | None = None) -> LazyBags:
    """Resolve the columns of a table and group its rows into bags.

    Parameters
    ----------
    table : Table
        The table; only bag, label and bag info are read here.
    request : Request
        The parameters of ``scan_bags``.
    roles : Roles, optional
        What the columns hold, if it was resolved before.
    """
    roles = roles or table_roles(table, request)
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
        ids=groups.ids,
        y=groups.y,
        bag_info=groups.bag_info,
        n_features=width,
        dtype=dtype,
        feature_names=None if table.noted.get("unnamed") or len(names or ()) != width else names,
        is_sparse=sparse,
    )


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
