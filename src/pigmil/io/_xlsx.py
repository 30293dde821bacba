"""XLSX workbooks, one row per instance on the first sheet."""

from pathlib import Path
from typing import Any

import numpy as np

from pigmil.bags import Bags, encode
from pigmil.io._common import Request, check_memory, raise_format_error
from pigmil.io._csv import MISSING_MARKS
from pigmil.io._label_table import id_text, read_label_table
from pigmil.io._rows import FileRows, find_roles, refuse_text_columns


def read(path: Path, request: Request) -> Bags:
    """Read the first sheet; its first row names the columns."""
    table = read_label_table(path)
    names = list(table.columns)
    if not len(table):
        raise_format_error(path, "has no rows.")
    roles = find_roles(path, names, request)
    check_memory(path, 8 * len(table) * len(roles.features))
    features = np.full((len(table), len(roles.features)), np.nan)
    text: dict[str, tuple[int, str]] = {}
    for place, position in enumerate(roles.features):
        for row, value in enumerate(table.columns[names[position]]):
            if isinstance(value, str) and value.strip() not in MISSING_MARKS:
                try:
                    value = float(value)
                except ValueError:
                    text.setdefault(names[position], (row + 2, value))
                    break
            if not isinstance(value, str) and value is not None:
                features[row, place] = value
    if text:
        refuse_text_columns(path, list(text), *next(iter(text.values())))

    def column(position: int | None) -> Any:
        if position is None:
            return None
        values = table.columns[names[position]]
        return encode([None if value is None else id_text(value) for value in values])

    with FileRows(path, request, where=lambda row: f"row {row + 2}") as rows:
        rows.add(
            features,
            column(roles.bag),
            column(roles.label),
            column(roles.instance_label),
            {names[at]: column(at) for at in roles.info},
            {names[at]: column(at) for at in roles.bag_info},
        )
        return rows.build([names[at] for at in roles.features])


def write(bags: Bags, path: Path) -> None:
    """Raise an error: workbooks are only read."""
    raise_format_error(
        path, "XLSX files can be read but not written.", hint="Choose csv or parquet."
    )
