"""The instances of positive bags by falling score."""

from typing import Any

import numpy as np

from pigmil._core.text import sanitize
from pigmil._core.typing import IntArray
from pigmil.bags import Bags
from pigmil.report.text import rounded

MAX_BAGS, MAX_ROWS, LEAST_ROWS = 400, 6000, 5


def ranked_rows(model: Any, bags: Bags) -> IntArray:
    """Flat indices of the instances of positive bags by falling score, those without one last.

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


def detected_mask(model: Any, bags: Bags) -> Any:
    """Mark the detected instances."""
    mask = np.zeros(bags.n_instances, dtype=bool)
    mask[np.asarray(model.detected_instances_, dtype=np.int64)] = True
    return mask


def ranked_bags(model: Any, bags: Bags) -> dict[str, Any]:
    """Per positive bag its ranked instances, the bag with the best instance first.

    Parameters
    ----------
    model : fitted detecting method
        What was fitted on ``bags``.
    bags : Bags
        As the user knows them: ids, what is known of the instances.

    Returns
    -------
    dict
        ``columns``, ``bags`` and ``note``, which says what was left out.
    """
    order = ranked_rows(model, bags)
    owner = bags.bag_index[order]
    chosen, first = np.unique(owner, return_index=True)
    chosen = chosen[np.argsort(first)]
    most = max(LEAST_ROWS, MAX_ROWS // min(len(chosen), MAX_BAGS))
    detected = detected_mask(model, bags)
    names = list(bags.instance_info)
    by_owner = np.argsort(owner, kind="stable")
    parts = dict(
        zip(
            np.unique(owner).tolist(),
            np.split(order[by_owner], np.flatnonzero(np.diff(owner[by_owner])) + 1),
            strict=True,
        )
    )
    listed: list[dict[str, Any]] = [
        {
            "bag": int(bag),
            "id": sanitize(bags.ids[bag]),
            "size": int(bags.sizes[bag]),
            "detected": int(detected[bags.offsets[bag] : bags.offsets[bag + 1]].sum()),
            "best": rounded(model.instance_scores_[parts[bag][:1]])[0],
            "rows": [
                {"rank": rank, **_row(model, bags, row, bool(detected[row]), names)}
                for rank, row in enumerate(parts[bag][:most].tolist(), 1)
            ],
        }
        for bag in chosen[:MAX_BAGS].tolist()
    ]
    return {
        "columns": [sanitize(name) for name in names],
        "labelled": bags.instance_labels is not None,
        "bags": listed,
        "note": _note(len(chosen), len(order), sum(len(part["rows"]) for part in listed), most),
    }


def _row(model: Any, bags: Bags, row: int, detected: bool, names: list[str]) -> dict[str, Any]:
    place = int(row - bags.offsets[np.searchsorted(bags.offsets, row, side="right") - 1])
    return {
        "instance": place,
        "score": rounded(model.instance_scores_[row])[0],
        "detected": detected,
        "label": None if bags.instance_labels is None else sanitize(bags.instance_labels[row]),
        "info": [_told(bags.instance_info[name][row]) for name in names],
    }


def _told(value: Any) -> str:
    """One thing known of an instance: a value, or a few as of coordinates."""
    values = np.asarray(value).ravel()
    text = ", ".join(str(part) for part in values[:6].tolist())
    return sanitize(text + (", …" if values.size > 6 else ""))


def _note(n_bags: int, n_rows: int, listed: int, most: int) -> str | None:
    if listed == n_rows:
        return None
    shown_bags = (
        f"the best {MAX_BAGS} of {n_bags} positive bags"
        if n_bags > MAX_BAGS
        else (f"all {n_bags} positive bags")
    )
    return (
        f"To stay usable the page lists {listed:,} of {n_rows:,} instances: of {shown_bags} the "
        f"best {most} each. The ranked table file holds all of them."
    )
