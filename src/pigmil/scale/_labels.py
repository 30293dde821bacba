"""Labels and bag info from a table beside the features: one row per bag."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagsError, Problems
from pigmil._core.optional import import_optional
from pigmil.bags import text_array
from pigmil.io._common import check_readable, listed, parsing
from pigmil.scale._lazy import LazyBags

_IDS = ("bag", "slide_id", "slide", "id", "FILENAME", "filename", "file")
_LABELS = ("bag_label", "label", "y")


def attach_labels(
    lazy: LazyBags, labels: Any, *, id: str | None, label: str | None, missing: str
) -> LazyBags:
    """Give lazy bags the labels and info of a table.

    Parameters
    ----------
    lazy : LazyBags
        The bags.
    labels : mapping of id to label, path of a table, or DataFrame
        A table has one row per bag; columns beside id and label become bag info.
    id, label : str, optional
        Columns of the table.
    missing : {"raise", "drop"}
        Whether a bag that the table does not list is an error or is left out.
    """
    if isinstance(labels, Mapping):
        names = list(labels)
        columns = {"": np.array(list(labels.values()), dtype=object)}
        label = ""
    else:
        names, columns, label = _read_table(labels, id, label)
    row_of: dict[str, int] = {}
    problems = Problems("The table of labels")
    for row, name in enumerate(map(str, names)):
        if name in row_of:
            problems.add(f"The bag {name!r} is there twice.")
        row_of[name] = row
    for name, row in list(row_of.items()):  # tables often have the file name with its suffix
        if Path(name).suffix:
            row_of.setdefault(Path(name).stem, row)
    absent = [one for one in lazy.ids.tolist() if str(one) not in row_of]
    if absent and (missing == "raise" or len(absent) == lazy.n_bags):
        problems.add(
            f"It has no row for {len(absent)} of {lazy.n_bags} bags: {listed(absent, 3)}; its ids "
            f"are like {listed(names, 2)}. Add them, choose the column with id=, or pass "
            "missing='drop'."
        )
    problems.raise_if_any()
    if absent:
        lazy = lazy[np.array([str(one) in row_of for one in lazy.ids.tolist()])]
    rows = np.array([row_of[str(one)] for one in lazy.ids.tolist()], dtype=np.int64)
    y = np.asarray(columns.pop(label))[rows]
    if y.dtype == object:
        y = text_array(y.tolist())
    info = {name: text_array(np.asarray(values)[rows].tolist()) for name, values in columns.items()}
    return lazy._replace(y=y, bag_info={**lazy.bag_info, **info})


def _read_table(
    table: Any, id: str | None, label: str | None
) -> tuple[list[Any], dict[str, Any], str]:
    """Return ids, the other columns, and the name of the label column."""
    what = "The table of labels"
    if isinstance(table, str | Path):
        path, what = Path(table), str(table)
        check_readable(path)
        pandas = import_optional("pandas", extra="frames", purpose="Reading a table of labels")
        readers = {
            ".csv": pandas.read_csv,
            ".tsv": lambda file: pandas.read_csv(file, sep="\t"),
            ".xlsx": pandas.read_excel,
            ".parquet": pandas.read_parquet,
        }
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise BagsError(f"{path}: expected a table, {', '.join(readers)}.")
        with parsing(path, "a table"):
            table = reader(path)
    narwhals = import_optional("narwhals", extra="frames", purpose="Reading a table of labels")
    try:
        frame = narwhals.from_native(table, eager_only=True)
    except TypeError as error:
        raise BagsError(
            "labels= takes a mapping of id to label, the path of a table, or a DataFrame; got "
            f"{type(table).__name__}."
        ) from error
    names = list(frame.columns)
    chosen = []
    for role, asked, defaults in (("id", id, _IDS), ("label", label, _LABELS)):
        found = asked if asked in names else next((n for n in defaults if n in names), None)
        if found is None or (asked is not None and asked not in names):
            raise BagsError(
                f"{what} has no column for {role}={asked!r}; its columns are {listed(names)}."
            )
        chosen.append(found)
    columns = {name: frame.get_column(name).to_numpy() for name in names if name != chosen[0]}
    return frame.get_column(chosen[0]).to_list(), columns, chosen[1]
