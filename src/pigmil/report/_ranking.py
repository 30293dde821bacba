"""Ranked instances of positive bags."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pigmil._core.text import number, sanitize
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags

MAX_BAGS, MAX_ROWS, LEAST_ROWS = 400, 6000, 5
PICTURED, MAX_VALUES, MAX_FIELDS = 10, 6, 6
_COORDINATES = ("coords", "coordinates", "coord", "locations", "spatial")
_PAIRS = (
    ("x", "y"), ("X", "Y"), ("coord_x", "coord_y"), ("coords_0", "coords_1"), ("left", "top"),
    ("col", "row"),
)  # fmt: skip


def ranked_rows(model: Any, bags: Bags) -> IntArray:
    """Return the indices of the instances of positive bags, the highest score first.

    Parameters
    ----------
    model : fitted detecting method
        Its ``instance_scores_`` belong to ``bags``.
    bags : Bags
        The training bags.
    """
    rows = np.flatnonzero(np.repeat(bags.y == model.positive_label_, bags.sizes))
    scores = np.nan_to_num(model.instance_scores_[rows], nan=-np.inf)
    return rows[np.argsort(-scores, kind="stable")].astype(np.int64)


def detected_mask(model: Any, bags: Bags, selection: Any = None) -> Any:
    """Return a mask of the detected instances: those called by the selection, if there is one."""
    detected = model.detected_instances_ if selection is None else selection.called
    mask = np.zeros(bags.n_instances, dtype=bool)
    mask[np.asarray(detected, dtype=np.int64)] = True
    return mask


def ranking_columns(
    bags: Bags,
    scores: FloatArray,
    rows: IntArray,
    detected: BoolArray | None = None,
    marks: FloatArray | None = None,
) -> dict[str, Any]:
    """Return ranked instances as columns, with all information that they came with.

    Parameters
    ----------
    bags : Bags
        The bags.
    scores : array of shape (n_instances,)
        Scores of all instances.
    rows : array of int
        Flat indices of the instances to list, in this order.
    detected : array of bool of shape (n_instances,), optional
        Which instances are detected.
    marks : array of shape (n_instances,), optional
        1 and 0 for instances that the user marked, otherwise NaN.

    Returns
    -------
    dict of str to array
        ``bag``, ``instance``, ``score``, ``rank`` within the bag, ``detected``, ``mark`` and
        ``instance_label`` where known, and the columns of ``instance_info`` and ``bag_info``.
    """
    owner = bags.bag_index[rows]
    ranks = np.empty(bags.n_instances, dtype=np.int64)
    order = np.lexsort((-np.nan_to_num(scores, nan=-np.inf), bags.bag_index))
    ranks[order] = np.arange(bags.n_instances) - np.repeat(bags.offsets[:-1], bags.sizes) + 1
    columns: dict[str, Any] = {
        "bag": bags.ids[owner],
        "instance": rows - bags.offsets[owner],
        "score": scores[rows],
        "rank": ranks[rows],
    }
    if detected is not None:
        columns["detected"] = detected[rows]
    if marks is not None:
        columns["mark"] = np.array([mark_word(mark) for mark in marks[rows]], dtype=object)
    if bags.instance_labels is not None:
        columns["instance_label"] = bags.instance_labels[rows]
    for info, at in ((bags.instance_info, rows), (bags.bag_info, owner)):
        for name, values in info.items():
            parts = {name: values} if values.ndim == 1 else {}
            if values.ndim == 2:
                parts = {f"{name}_{number}": column for number, column in enumerate(values.T)}
            for title, column in parts.items():
                free = title
                while free in columns:
                    free += "_"
                columns[free] = column[at]
    return columns


def mark_word(mark: float) -> str:
    """Return "positive" or "negative" for an instance that the user marked, otherwise ""."""
    return "" if math.isnan(mark) else "positive" if mark else "negative"


def ranked_bags(
    model: Any,
    bags: Bags,
    thumbnails: Any = None,
    selection: Any = None,
    marks: FloatArray | None = None,
) -> dict[str, Any]:
    """Rank the instances of each positive bag; the bag with the best instance is first.

    Parameters
    ----------
    model : fitted detecting method
        Fitted on ``bags``.
    bags : Bags
        With the ids and the instance information that the user provided.
    thumbnails : Thumbnails, optional
        Pictures of the instances.
    selection : InstanceSelection, optional
        Its calls are the detected instances.
    marks : array of shape (n_instances,), optional
        1 and 0 for instances that the user marked, otherwise NaN.

    Returns
    -------
    dict
        ``columns`` (with ``name`` and whether they hold ``text``), ``labelled``, ``pictured``,
        ``bags`` and ``note``, which lists what was left out. A column with one value per bag is in
        ``info`` of the bag, not in its rows.
    """
    order = ranked_rows(model, bags)
    owner = bags.bag_index[order]
    chosen, first = np.unique(owner, return_index=True)
    chosen = chosen[np.argsort(first)]
    most = max(LEAST_ROWS, MAX_ROWS // min(len(chosen), MAX_BAGS))
    detected = detected_mask(model, bags, selection)
    names, same = info_columns(bags)
    labels = bags.instance_labels
    listed: list[dict[str, Any]] = []
    for bag in chosen[:MAX_BAGS].tolist():
        rows = order[owner == bag]
        listed.append(
            {
                "bag": bag,
                "id": sanitize(bags.ids[bag]),
                "size": int(bags.sizes[bag]),
                "detected": int(detected[rows].sum()),
                "best": rounded(model.instance_scores_[rows[0]])[0],
                "info": _bag_texts(bags, bag, same),
                "rows": [
                    {
                        "rank": rank,
                        "detected": bool(detected[row]),
                        "mark": "" if marks is None else mark_word(marks[row]),
                        "label": None if labels is None else sanitize(labels[row]),
                        **instance_fields(
                            model, bags, row, names, thumbnails if rank <= PICTURED else None
                        ),
                    }
                    for rank, row in enumerate(rows[:most].tolist(), 1)
                ],
            }
        )
    return {
        "columns": [column_title(bags, name) for name in names],
        "pictured": thumbnails is not None,
        "labelled": labels is not None,
        "bags": listed,
        "note": _note(len(chosen), len(order), sum(len(part["rows"]) for part in listed), most),
    }


def info_columns(bags: Bags) -> tuple[list[str], list[str]]:
    """Return the columns that differ between instances of a bag, and those that do not.

    The row of the file that an instance came from is left out if there are other columns, and so
    are columns with many numbers per instance, such as pictures.

    Examples
    --------
    >>> import numpy as np
    >>> info = {"smiles": ["C", "C", "O"], "conformer": ["a", "b", "a"]}
    >>> info_columns(Bags(np.zeros((3, 1)), [0, 2, 3], instance_info=info))
    (['conformer'], ['smiles'])
    """
    first = np.repeat(bags.offsets[:-1], bags.sizes)
    varying: list[str] = []
    same: list[str] = []
    for name, values in bags.instance_info.items():
        if values[:1].size > MAX_VALUES:
            continue
        constant = values.ndim == 1 and bags.n_instances > bags.n_bags
        if constant:
            given = values[first]
            constant = bool(np.all((values == given) | ((values != values) & (given != given))))
        (same if constant else varying).append(name)
    if len(varying) + len(same) > 1 and "row" in varying:
        varying.remove("row")
    return varying, same


def column_title(bags: Bags, name: str) -> dict[str, Any]:
    """Return the name of a column, and whether it holds text."""
    return {"name": sanitize(name), "text": bags.instance_info[name].dtype.kind in "OUS"}


def instance_fields(
    model: Any, bags: Bags, row: int, names: Sequence[str], thumbnails: Any
) -> dict[str, Any]:
    """Return position in the bag, score, some information as text and thumbnail of an instance."""
    return {
        "instance": int(row - bags.offsets[bags.bag_index[row]]),
        "score": rounded(model.instance_scores_[row])[0],
        "info": [_info_text(bags.instance_info[name][row]) for name in names],
        "image": None if thumbnails is None else thumbnails.of(row),
    }


def _bag_texts(bags: Bags, bag: int, same: Sequence[str]) -> list[dict[str, str]]:
    """Return what is known of a bag, besides what is the same for all bags."""
    fields = {name: bags.instance_info[name][bags.offsets[bag]] for name in same}
    for name, values in bags.bag_info.items():
        if values.ndim == 1 and len(set(values.tolist())) > 1:
            fields.setdefault(name, values[bag])
    return [
        {"name": sanitize(name), "value": _info_text(value)}
        for name, value in list(fields.items())[:MAX_FIELDS]
    ]


def _info_text(value: Any) -> str:
    """Return a value as text, several joined."""
    parts = np.asarray(value).ravel().tolist()
    texts = [number(part) if isinstance(part, float) else str(part) for part in parts]
    return sanitize(", ".join(texts))


def _note(n_bags: int, n_rows: int, listed: int, most: int) -> str | None:
    if listed == n_rows:
        return None
    best = f"the best {MAX_BAGS} of" if n_bags > MAX_BAGS else "all"
    return (
        f"To stay usable the page lists {listed:,} of {n_rows:,} instances: of {best} {n_bags} "
        f"positive bags the best {most} each. The ranked table file holds all of them."
    )


def rounded(values: Any) -> list[float | None]:
    """Round numbers to six significant digits; NaN and infinities become None.

    Examples
    --------
    >>> rounded([1 / 3, float("nan")])
    [0.333333, None]
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in flat]


def instance_coordinates(bags: Bags) -> FloatArray | None:
    """Return x and y of every instance, or None if the bags have no coordinates.

    They are taken from ``instance_info``: a column ``coords`` of two numbers per instance, or the
    columns ``x`` and ``y``.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    array of shape (n_instances, 2) or None
    """
    info = bags.instance_info
    pairs = [info[name][:, :2] for name in _COORDINATES if name in info and info[name].ndim == 2]
    pairs += [
        np.column_stack([info[x], info[y]])
        for x, y in _PAIRS
        if x in info and y in info and info[x].ndim == info[y].ndim == 1
    ]
    try:
        numbers = next(np.asarray(pair, np.float64) for pair in pairs if pair.shape[1] == 2)
    except (StopIteration, TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None
