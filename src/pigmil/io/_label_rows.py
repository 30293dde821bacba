"""Tables of labels joined and checked: one row per slide, and its part of each split."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.text import count
from pigmil.bags import Bags, text_array
from pigmil.io._common import listed, raise_format_error
from pigmil.io._label_table import LabelTable, id_text, info_array, read_label_table
from pigmil.io._slide_file import SLIDE_SUFFIXES
from pigmil.io._values import decode_labels

_ID_NAMES = ("slide_id", "slide", "FILENAME", "bag_name", "bag", "bag_id", "image_id", "id")
_GROUP_NAMES = ("patient", "patient_id", "PATIENT", "case_id")
_SLIDE_ENDINGS = (
    *SLIDE_SUFFIXES, ".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".scn", ".czi", ".dcm", ".png",
)  # fmt: skip


@dataclass
class LabelRows:
    """The rows of the table, by id."""

    path: Path
    id: str
    label: str
    group: str | None
    columns: dict[str, list[Any]]
    ids: list[str]

    def take(self, chosen: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the columns other than id and label, for some rows."""
        return {
            name: info_array([values[row] for row in chosen])
            for name, values in self.columns.items()
            if name not in (self.id, self.label)
        }

    def labels(self, chosen: Sequence[int]) -> NDArray[Any]:
        """Return the labels of some rows; text that reads as numbers becomes numbers."""
        values = [self.columns[self.label][row] for row in chosen]
        y, _ = decode_labels(self.path, values, None, None)
        return np.asarray(y)


def read_rows(
    tables: Sequence[LabelTable],
    *,
    id: str = _ID_NAMES[0],
    label: str = "label",
    group: str | None = None,
) -> LabelRows:
    """Join the tables and check that each slide has one row."""
    table = tables[0]
    for other in tables[1:]:
        table = _join(table, other, group)
    if id not in table.columns and id == _ID_NAMES[0]:
        id = next((name for name in _ID_NAMES if name in table.columns), id)
    table.find(id, "id")
    if group is not None:
        table.find(group, "group")
    else:
        group = next((name for name in _GROUP_NAMES if name in table.columns), None)
    table.find(label, "label")
    values = table.columns[id]
    blank = [row for row, value in enumerate(values, start=2) if value is None]
    if blank:
        raise_format_error(
            table.path, f"has no {id} in {count(len(blank), 'row')}: {listed(blank, 5)}."
        )
    ids = [id_text(value) for value in values]
    repeated = [one for one, times in Counter(ids).items() if times > 1]
    if repeated:
        raise_format_error(
            table.path,
            f"has several rows for {count(len(repeated), 'slide')}: {listed(repeated, 5)}; "
            "each needs one.",
        )
    return LabelRows(table.path, id, label, group, table.columns, ids)


def _join(left: LabelTable, right: LabelTable, group: str | None) -> LabelTable:
    """Join two tables by the column they share; rows of the left stay in order."""
    shared = [name for name in left.columns if name in right.columns]
    key = group if group in shared else shared[0] if len(shared) == 1 else None
    if key is None:
        raise_format_error(
            right.path,
            f"shares {listed(shared) if shared else 'no column'} with {left.path}; tables are "
            "joined by one column.",
            hint="Name it with group=.",
        )
    # The table with repeated keys is the one of slides.
    keys = [None if value is None else id_text(value) for value in right.columns[key]]
    if len(set(keys)) < len(keys):
        other = [None if value is None else id_text(value) for value in left.columns[key]]
        if len(set(other)) == len(other):
            return _join(right, left, group)
        raise_format_error(
            right.path, f"has several rows for the same {key}, and so has {left.path}."
        )
    row_of = {one: row for row, one in enumerate(keys)}
    rows = [None if value is None else row_of.get(id_text(value)) for value in left.columns[key]]
    joined = dict(left.columns)
    for name, values in right.columns.items():
        if name not in joined:
            joined[name] = [None if row is None else values[row] for row in rows]
    return LabelTable(left.path, joined)


def names_of(value: str) -> Iterator[str]:
    """Yield the names under which the file of an id may be found: without folder or suffix."""
    yield value
    name = value.replace("\\", "/").rpartition("/")[2]
    yield name
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in _SLIDE_ENDINGS:
        yield stem


def with_splits(
    bags: Bags, splits: Any, delimiter: str | None = None, encoding: str = "utf-8"
) -> Bags:
    """Return bags with the part of each split they belong to, '' for none."""
    given = splits if isinstance(splits, list | tuple) else [splits]
    columns = {}
    for number, source in enumerate(given):
        table = read_label_table(source, delimiter=delimiter, encoding=encoding)
        part_of = _parts(table)
        parts = [
            next((part_of[name] for name in names_of(id_text(one)) if name in part_of), "")
            for one in bags.ids.tolist()
        ]
        columns["split" if len(given) == 1 else f"split_{number}"] = text_array(parts)
    return bags.with_info(bag_info=columns)


def _parts(table: LabelTable) -> dict[str, str]:
    """Return the part (train, val, test) of each slide of a table of splits."""
    columns = table.columns
    parts = [name for name in ("train", "val", "test") if name in columns]
    if "split" in columns:
        names = next((columns[name] for name in _ID_NAMES if name in columns), None)
        if names is None:
            raise_format_error(table.path, f"has no column of slides among {listed(columns)}.")
        pairs = zip(names, columns["split"], strict=True)
        return {id_text(name): str(part) for name, part in pairs if name is not None}
    if not parts:
        raise_format_error(
            table.path, f"has neither a column 'split' nor 'train'; it has {listed(columns)}."
        )
    if all(str(value) in ("True", "False") for name in parts for value in columns[name]):
        slides = next(values for name, values in columns.items() if name not in parts)
        return {
            id_text(slide): name
            for name in parts
            for slide, chosen in zip(slides, columns[name], strict=True)
            if str(chosen) == "True"
        }
    return {id_text(one): name for name in parts for one in columns[name] if one is not None}
