"""Labels and bag info from a separate table with one row per bag."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagsError
from pigmil.bags._lazy import LazyBags
from pigmil.io._common import listed
from pigmil.io._label_rows import read_rows
from pigmil.io._label_table import LabelTable, id_text, read_label_table

_LABELS = ("bag_label", "label", "y")


def attach_labels(
    lazy: LazyBags, labels: Any, *, id: str | None, label: str | None, missing: str
) -> LazyBags:
    """Return lazy bags with the labels and info of a table.

    Parameters
    ----------
    lazy : LazyBags
        The bags.
    labels : mapping of id to label, path of a table, or DataFrame
        A table has one row per bag; columns other than id and label become bag info.
    id, label : str, optional
        Columns of the table.
    missing : {"raise", "drop"}
        Whether a bag for which the table has no label is an error or is left out.
    """
    if isinstance(labels, Mapping):
        table = LabelTable(Path("labels"), {"id": list(labels), "label": list(labels.values())})
    else:
        try:
            table = read_label_table(labels)
        except TypeError as error:
            raise BagsError(
                "labels= takes a mapping of id to label, the path of a table, or a DataFrame; got "
                f"{type(labels).__name__}."
            ) from error
    label = label or next((name for name in _LABELS if name in table.columns), "label")
    rows = read_rows([table], label=label, **({} if id is None else {"id": id}))
    row_of = {one: row for row, one in enumerate(rows.ids) if rows.columns[label][row] is not None}
    for one, row in list(row_of.items()):  # tables often have the file name with its suffix
        if Path(one).suffix:
            row_of.setdefault(Path(one).stem, row)
    ids = [id_text(one) for one in lazy.ids.tolist()]
    absent = [one for one in ids if one not in row_of]
    if absent and (missing == "raise" or len(absent) == lazy.n_bags):
        raise BagsError(
            f"{rows.path} has no label for {len(absent)} of {lazy.n_bags} bags: "
            f"{listed(absent, 3)}; its ids are like {listed(rows.ids, 2)}. Add them, choose the "
            "column with id=, or pass missing='drop'."
        )
    lazy = lazy[np.array([one in row_of for one in ids])]
    chosen = [row_of[one] for one in ids if one in row_of]
    return lazy._replace(y=rows.labels(chosen), bag_info={**lazy.bag_info, **rows.take(chosen)})


def join_labels(lazy: LazyBags, request: Any) -> LazyBags:
    """Return lazy bags with labels, bag info and splits of tables, at the level asked for.

    Parameters
    ----------
    lazy : LazyBags
        The bags of the files.
    request : Request
        ``labels``, ``id``, ``label``, ``group``, ``level``, ``missing`` and ``splits``.
    """
    return attach_labels(
        lazy, request.labels, id=request.id, label=request.label, missing=request.missing
    )
