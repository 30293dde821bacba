"""Marks: what a user knows of single instances, as bags that every method can learn from."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagsError, Problems, import_optional
from pigmil._core.segments import offsets_of
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags._container import Bags

FOLD_GROUP = "fold_group"  # column of bag_info: bags with the same value stay in one fold
ORIGINAL_ROW = "original_row"  # column of instance_info: the row before marks moved instances
ORIGINAL_SIZE = "original_size"  # column of bag_info: the size before, 0 for copies of positives
_COLUMNS = ("bag", "instance", "positive")
_WORDS = {"yes": 1.0, "true": 1.0, "1": 1.0, "1.0": 1.0, "no": 0.0, "false": 0.0, "0": 0.0,
          "0.0": 0.0}  # fmt: skip


def marked_bags(bags: Bags, marks: Any, pos_label: Any = None) -> Bags:
    """Return bags for fitting; see :meth:`pigmil.Bags.with_marks`."""
    if bags.y is None or len(np.unique(bags.y)) != 2:
        raise BagsError("Marks need bags with two labels.", parameter="marks")
    if ORIGINAL_SIZE in bags.bag_info:
        raise BagsError("These bags have marks already; give all marks to the bags before them.")
    values = mark_values(bags, marks)
    positive = np.asarray(bags.y == (max(bags.y.tolist()) if pos_label is None else pos_label))
    _check_labels(bags, values, positive)
    owner = bags.bag_index
    moved = np.flatnonzero((values == 0) & positive[owner])
    copied = np.flatnonzero(values == 1)
    groups = np.asarray(bags.bag_info.get(FOLD_GROUP, np.arange(bags.n_bags)))
    owner[moved] = _negative_bags(groups[owner[moved]], groups, positive)
    rows = np.concatenate([np.argsort(owner, kind="stable"), copied])
    bags_of_rows = np.concatenate([np.arange(bags.n_bags), bags.bag_index[copied]])
    sizes = np.concatenate([np.bincount(owner, minlength=bags.n_bags), np.ones_like(copied)])
    marked = bags._subset(rows, bags_of_rows, offsets_of(sizes))
    return marked._replace(ids=_ids(bags, copied)).with_info(
        bag_info={
            FOLD_GROUP: groups[bags_of_rows],
            ORIGINAL_SIZE: np.concatenate([bags.sizes, np.zeros_like(copied)]),
        },
        instance_info={ORIGINAL_ROW: rows},
    )


def before_marks(marked: Any) -> tuple[Bags, IntArray, FloatArray] | None:
    """Return the bags before marks, their rows among those with marks, and the marks.

    None for bags without marks, and if some of the bags were left out or have changed places. The
    marks are 1, 0, and NaN where nothing is known.
    """
    if not isinstance(marked, Bags) or ORIGINAL_SIZE not in marked.bag_info:
        return None
    original, rows = np.unique(marked.instance_info[ORIGINAL_ROW], return_index=True)
    sizes = np.asarray(marked.bag_info[ORIGINAL_SIZE])
    kept = np.flatnonzero(sizes > 0)
    offsets = offsets_of(sizes[kept])
    complete = len(original) == offsets[-1] == original[-1] + 1
    if not complete or kept[-1] != len(kept) - 1:  # copies come last
        return None
    before = marked._subset(rows, kept, offsets)
    stays = marked.bag_index[rows] == before.bag_index
    # Every bag keeps an instance: a positive one may not lose all, a negative one loses none.
    if not np.logical_or.reduceat(stays, offsets[:-1]).all():
        return None
    values = np.where(stays, np.nan, 0.0)
    copies = np.repeat(sizes == 0, marked.sizes)
    values[marked.instance_info[ORIGINAL_ROW][copies]] = 1.0
    return before, rows.astype(np.int64), values


def mark_values(bags: Bags, marks: Any) -> FloatArray:
    """Return 1 for every instance marked positive, 0 for negative, NaN for unknown.

    Parameters
    ----------
    bags : Bags
        The bags.
    marks : path, frame, mapping or array of shape (n_instances,)
        As :meth:`pigmil.Bags.with_marks` takes them.
    """
    if isinstance(marks, str | os.PathLike):
        pandas = import_optional("pandas", extra="frames", purpose="Reading marks")
        if Path(marks).suffix == ".parquet":
            marks = pandas.read_parquet(marks)
        else:  # ids stay as they are written, also 007 and NA
            marks = pandas.read_csv(marks, dtype={"bag": str}, keep_default_na=False)
    if not hasattr(marks, "columns") and not isinstance(marks, Mapping):
        values = np.asarray(marks, dtype=np.float64)
        known_values = np.isnan(values) | (values == 0) | (values == 1)
        if values.shape != (bags.n_instances,) or not known_values.all():
            raise BagsError(
                f"An array of marks has 0, 1 or NaN for each of {bags.n_instances} instances; got "
                f"the shape {values.shape}.",
                parameter="marks",
            )
        return values
    missing = [name for name in _COLUMNS if name not in marks]
    if missing:
        raise BagsError(
            f"A table of marks has the columns {', '.join(_COLUMNS)}; there is no "
            f"{' and no '.join(missing)}.",
            parameter="marks",
        )
    values = np.full(bags.n_instances, np.nan)
    problems = Problems("The marks")
    known = {str(name): at for at, name in enumerate(bags.ids.tolist())}
    for bag, instance, given in zip(*(list(marks[name]) for name in _COLUMNS), strict=True):
        at = known.get(str(bag))
        place = str(instance).strip().removesuffix(".0")
        mark = _WORDS.get(str(given).strip().lower())
        if at is None:
            problems.add(f"There is no bag '{bag}'.")
        elif not (place.isdecimal() and int(place) < bags.sizes[at]):
            problems.add(f"Bag '{bag}' has no instance '{place}'; they are counted from 0.")
        elif mark is None:
            problems.add(f"Bag '{bag}', instance {place}: expected yes or no, got {given!r}.")
        elif values[bags.offsets[at] + int(place)] == 1 - mark:
            problems.add(f"Bag '{bag}', instance {place} is marked both positive and negative.")
        else:
            values[bags.offsets[at] + int(place)] = mark
    problems.raise_if_any()
    return values


def _check_labels(bags: Bags, values: FloatArray, positive: BoolArray) -> None:
    """Raise one error that lists the marks which contradict the bag labels."""
    problems = Problems("The marks")
    for row in np.flatnonzero((values == 1) & ~positive[bags.bag_index]):
        at = bags.bag_index[row]
        problems.add(
            f"Bag '{bags.ids[at]}' is negative, but its instance {row - bags.offsets[at]} is "
            "marked positive."
        )
    n_negative = np.add.reduceat((values == 0).astype(np.int64), bags.offsets[:-1])
    for at in np.flatnonzero(positive & (n_negative == bags.sizes)):
        problems.add(
            f"Bag '{bags.ids[at]}' is positive, but all its instances are marked negative."
        )
    problems.raise_if_any()


def _negative_bags(wanted: Any, groups: Any, positive: BoolArray) -> IntArray:
    """Return a negative bag for each instance that moves, of its group if there is one.

    The bag that has received the fewest instances so far comes first.
    """
    negative = np.flatnonzero(~positive)
    received = np.zeros(len(groups), dtype=np.int64)
    chosen = np.empty(len(wanted), dtype=np.int64)
    for at, group in enumerate(wanted):
        same = negative[groups[negative] == group]
        candidates = same if len(same) else negative
        chosen[at] = candidates[np.argmin(received[candidates])]
        received[chosen[at]] += 1
    return chosen


def _ids(bags: Bags, copied: IntArray) -> Any:
    """Return the ids of the bags, and unique ones for copies of single instances."""
    owner = bags.bag_index[copied]
    if bags.ids.dtype.kind in "iu":
        new: Any = int(bags.ids.max()) + 1 + np.arange(len(copied))
    else:
        places = zip(bags.ids[owner], copied - bags.offsets[owner], strict=True)
        new = np.array([f"{name}, instance {place}" for name, place in places], dtype=object)
    return np.concatenate([bags.ids, new])
