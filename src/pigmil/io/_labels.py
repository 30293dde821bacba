"""Labels, patients and splits of bags, from tables beside the files; for read and scan alike."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError
from pigmil._core.segments import offsets_of
from pigmil._core.text import count, listed, repeated
from pigmil.bags import LazyBags, is_frame, text_array
from pigmil.bags._checks import is_missing
from pigmil.bags._columns import LABEL_NAMES, group_rows
from pigmil.io._build import column_of, report_bags
from pigmil.io._defence import check_readable, parsing
from pigmil.io._formats import Request
from pigmil.io._tables import PANDAS_INDEX, columns_of_rows, open_table, sheet_rows
from pigmil.io._text import NO_LABEL, decode_rows, detect_dialect, open_text

_ID_NAMES = ("slide_id", "slide", "FILENAME", "bag_name", "bag", "bag_id", "image_id", "id")
_GROUP_NAMES = ("patient", "patient_id", "PATIENT", "case_id")
_ENDINGS = (  # of names of slides in tables, which the names of feature files lack
    ".h5", ".hdf5", ".hdf", ".pt", ".pth", ".npy", ".npz", ".svs", ".tif", ".tiff", ".ndpi",
    ".mrxs", ".scn", ".czi", ".dcm", ".png",
)  # fmt: skip


@dataclass(frozen=True)
class LabelTable:
    """Columns of a table by name, with its name for messages; a missing value is None."""

    name: str
    columns: dict[str, list[Any]]

    def find(self, asked: str | None, usual: Sequence[str], parameter: str) -> str:
        """Return the column that is asked for, or one of a usual name; it must be there."""
        name = asked or next((name for name in usual if name in self.columns), usual[0])
        if name not in self.columns:
            raise BagFormatError(
                f"{self.name}: has no column {name!r}; its columns are {listed(self.columns)}. "
                f"Name the column with {parameter}=.",
                parameter=parameter,
            )
        return name


def read_label_table(source: Any, request: Request) -> LabelTable:
    """Read a table with one row per bag from CSV, TSV, XLSX, Parquet, a data frame or a mapping.

    Examples
    --------
    >>> read_label_table({"a": 0, "b": 1}, Request(encoding="utf-8")).columns
    {'id': ['a', 'b'], 'label': [0, 1]}
    """
    if isinstance(source, Mapping):
        return LabelTable("labels", {"id": list(source), "label": list(source.values())})
    if is_frame(source):
        import narwhals as nw

        frame = nw.from_native(source, eager_only=True)
        read = {name: frame.get_column(name).to_list() for name in frame.columns}
        return LabelTable("the data frame", {str(name): _cells(read[name]) for name in read})
    if not isinstance(source, str | os.PathLike):
        raise BagFormatError(
            "labels= takes a mapping of id to label, the path of a table, or a DataFrame; got "
            f"{type(source).__name__}.",
            parameter="labels",
        )
    path = Path(os.path.abspath(source))
    check_readable(path)
    with path.open("rb") as file:
        start = file.read(4)
    if start == b"PAR1":
        with open_table(path) as opened:
            flat = [one.name for one in opened.schema if not hasattr(one.type, "value_field")]
            names = [name for name in flat if not name.startswith(PANDAS_INDEX)]
            columns = opened.read_all(names).to_pydict()
    else:
        rows = sheet_rows(path) if start == b"PK\x03\x04" else _text_rows(path, request)
        columns = columns_of_rows(path, rows)
    return LabelTable(str(source), {name: _cells(values) for name, values in columns.items()})


def _text_rows(path: Path, request: Request) -> Iterator[list[str]]:
    sign = detect_dialect(path, request.encoding, request.delimiter, ".").delimiter
    with parsing(path, "delimited text"), open_text(path, request.encoding) as text:
        yield from (row for row in csv.reader(text, delimiter=sign) if any(row))


def _cells(values: Sequence[Any]) -> list[Any]:
    """Return numbers and text; a missing value is None, a date becomes text."""
    items = (value.item() if isinstance(value, np.generic) else value for value in values)
    return [
        None if is_missing(item) else item if isinstance(item, bool | int | float) else str(item)
        for item in items
    ]


def id_text(value: Any) -> str:
    """Return an id as text; a spreadsheet turns whole numbers into 7.0.

    Examples
    --------
    >>> id_text(7.0), id_text("007 "), id_text(7)
    ('7', '007', '7')
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def decoded(values: Sequence[Any]) -> NDArray[Any]:
    """Return the values of a column as an array of numbers or text.

    Text becomes numbers if all values are numbers and none has a leading zero. A missing value is
    NaN among numbers and '' among text.

    Examples
    --------
    >>> decoded(["1", "2"]), decoded(["01", "2"]), decoded(["0.5", None])
    (array([1, 2]), array(['01', '2'], dtype=object), array([0.5, nan]))
    """
    if not any(isinstance(value, str) for value in values):
        return column_of(values)
    return decode_rows([None if value is None else id_text(value) for value in values], "info")


def join_labels(lazy: LazyBags, request: Request) -> LazyBags:
    """Return bags with instances, with the labels and info of tables, splits, one per patient.

    The bags keep the order of the files.
    """
    if request.labels is not None:
        given = request.labels if isinstance(request.labels, list | tuple) else [request.labels]
        table = read_label_table(given[0], request)
        for other in given[1:]:
            table = _join(table, read_label_table(other, request), request.group)
        lazy = _with_labels(lazy, table, request)
    empty = lazy.sizes == 0
    if empty.any():
        names = [str(name) for name in lazy.ids[empty]]
        report_bags(lazy.paths[0], request.empty, "empty", [(names, "without instances")])
        lazy = lazy[~empty]
    if request.splits is not None:
        lazy = with_splits(lazy, request)
    usual = (name for name in _GROUP_NAMES if name in lazy.bag_info)
    group = request.group or next(usual, _GROUP_NAMES[0])
    if group not in lazy.bag_info and (request.group or request.level == "patient"):
        raise BagFormatError(
            f"There is no column {group!r} of patients; name it with group=. Columns are "
            f"{listed(lazy.bag_info) or 'none'}.",
            parameter="group",
        )
    return lazy if request.level == "slide" else _join_groups(lazy, group)


def _with_labels(lazy: LazyBags, table: LabelTable, request: Request) -> LazyBags:
    """Return the bags that have a label, with the other columns of the table as info."""
    columns = table.columns
    id_name = table.find(request.id, _ID_NAMES, "id")
    asked = request.label if isinstance(request.label, str) else None
    label = table.find(asked, LABEL_NAMES, "label")
    blank = [row for row, value in enumerate(columns[id_name], start=2) if value is None]
    if blank:
        raise BagFormatError(
            f"{table.name}: has no {id_name} in {count(len(blank), 'row')}: {listed(blank, 5)}."
        )
    ids = [id_text(value) for value in columns[id_name]]
    twice = repeated(ids)
    if twice:
        raise BagFormatError(
            f"{table.name}: has several rows for {count(len(twice), 'bag')}: {listed(twice, 5)}; "
            "each needs one."
        )
    row_of = {name: row for row, own in enumerate(ids) for name in reversed([*_names(own)])}
    row_of |= {own: row for row, own in enumerate(ids)}  # the exact name wins
    names = list(map(str, lazy.ids.tolist()))
    rows = [row_of.get(id_text(bag_id)) for bag_id in lazy.ids.tolist()]  # None: not in the table
    used = set(rows)
    if used == {None}:
        raise BagFormatError(
            f"{lazy.paths[0]}: none of its bags is listed in {table.name}; they are like "
            f"{listed(names, 2)}, and its ids like {listed(ids, 2)}. Choose the column with id=.",
            parameter="id",
        )
    labels = [None if row is None else columns[label][row] for row in rows]
    labels = [None if value in NO_LABEL else value for value in labels]
    no_features = [own for row, own in enumerate(ids) if row not in used]
    found = [*zip(names, rows, labels, strict=True)]
    no_row = [name for name, row, _ in found if row is None]
    no_label = [name for name, row, value in found if row is not None and value is None]
    kinds = [
        (no_features, "of the table without features"),
        (no_row, "with features but without a row in the table"),
        (no_label, f"without a label in the column {label!r}"),
    ]
    report_bags(f"{lazy.paths[0]} and {table.name}", request.missing, "missing", kinds)
    kept = [at for at, value in enumerate(labels) if value is not None]
    if not kept:
        raise BagFormatError(f"{table.name}: no bag has a label in the column {label!r}.")
    chosen = [row for row, value in zip(rows, labels, strict=True) if None not in (row, value)]
    info = {
        name: decoded([values[row] for row in chosen if row is not None])
        for name, values in columns.items()
        if name != id_name
    }
    y, lazy = info.pop(label), lazy[kept]
    return lazy._replace(y=y, bag_info={**lazy.bag_info, **info})


def _names(value: str) -> Iterator[str]:
    """Yield the names under which the file of an id may be found: without folder or suffix."""
    yield value
    name = value.replace("\\", "/").rpartition("/")[2]
    yield name
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in _ENDINGS:
        yield stem


def _join(left: LabelTable, right: LabelTable, group: str | None) -> LabelTable:
    """Join two tables by the column they share; rows of the table of slides stay in order."""
    shared = [name for name in left.columns if name in right.columns]
    key = group if group in shared else shared[0] if len(shared) == 1 else None
    if key is None:
        raise BagFormatError(
            f"{right.name}: shares {listed(shared) if shared else 'no column'} with {left.name}; "
            "tables are joined by one column. Name it with group=.",
            parameter="group",
        )
    own, keys = (
        [None if value is None else id_text(value) for value in table.columns[key]]
        for table in (left, right)
    )
    if len(set(keys)) < len(keys):  # the table with repeated keys is the one of slides
        left, right, own, keys = right, left, keys, own
    if len(set(keys)) < len(keys):
        raise BagFormatError(
            f"{right.name}: has several rows for the same {key}, and so has {left.name}."
        )
    row_of = {value: row for row, value in enumerate(keys) if value is not None}
    joined = dict(left.columns)
    for name, values in right.columns.items():
        if name not in joined:
            joined[name] = [values[row_of[one]] if one in row_of else None for one in own]
    return LabelTable(left.name, joined)


def with_splits(lazy: LazyBags, request: Request) -> LazyBags:
    """Return bags with the part of each split they belong to, '' for none."""
    given = request.splits if isinstance(request.splits, list | tuple) else [request.splits]
    columns = {}
    for number, source in enumerate(given):
        part_of = _parts(read_label_table(source, request))
        found = (
            next((part_of[name] for name in _names(id_text(own)) if name in part_of), "")
            for own in lazy.ids.tolist()
        )
        columns["split" if len(given) == 1 else f"split_{number}"] = text_array(list(found))
    return lazy.with_info(bag_info=columns)


def _parts(table: LabelTable) -> dict[str, str]:
    """Return the part (train, val, test) of each bag of a table of splits."""
    columns = table.columns
    parts = [name for name in ("train", "val", "test") if name in columns]
    slides = next((columns[name] for name in _ID_NAMES if name in columns), None)
    if "split" in columns and slides is not None:
        pairs = [*zip(slides, columns["split"], strict=True)]
    elif parts:
        pairs = [(own, name) for name in parts for own in columns[name]]
    else:
        raise BagFormatError(
            f"{table.name}: has neither columns of bag and 'split' nor a column 'train'; it has "
            f"{listed(columns)}."
        )
    known = {(id_text(own), str(part)) for own, part in pairs if None not in (own, part)}
    twice = repeated(name for name, _ in known)
    if twice:
        problem = f"has several parts for {count(len(twice), 'bag')}: {listed(sorted(twice), 5)}"
        raise BagFormatError(f"{table.name}: {problem}.")
    return dict(known)


def _join_groups(lazy: LazyBags, group: str) -> LazyBags:
    """Join the bags of each patient into one; instances keep the id of their slide."""
    groups = group_rows(
        lazy.bag_info[group],
        what=f"The column {group!r}",
        where=lambda row: f"Slide {lazy.ids[row]!r}",
        error=BagFormatError,
    )
    order = np.arange(lazy.n_bags) if groups.order is None else groups.order
    ends, firsts = offsets_of(groups.sizes), groups.first_rows

    def varies(column: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each patient whether the slides differ; two missing values are equal."""
        own, first = column[order], np.repeat(column[firsts], groups.sizes)
        differs = (own != first) & ((own == own) | (first == first))
        return np.asarray(np.logical_or.reduceat(differs, ends[:-1]))

    if lazy.y is not None and varies(lazy.y).any():
        mixed = groups.ids[varies(lazy.y)].tolist()
        raise BagFormatError(
            f"Slides of {count(len(mixed), 'patient')} have different labels: "
            f"{listed(mixed, 5)}. Patient-level bags need one label per patient."
        )
    info = lazy.bag_info
    on_slides = {_ID_NAMES[0]: lazy.ids}
    on_slides |= {name: column for name, column in info.items() if varies(column).any()}
    n_parts = np.diff(lazy.segment_offsets)
    on_segments = {name: np.repeat(column, n_parts) for name, column in on_slides.items()}
    chosen = lazy._replace(segment_info=on_segments)._take(order)
    return chosen._replace(
        segment_offsets=chosen.segment_offsets[ends],
        ids=groups.ids,
        y=None if lazy.y is None else lazy.y[firsts],
        bag_info={name: info[name][firsts] for name in info if name not in on_slides},
    )
