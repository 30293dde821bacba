"""Ids, labels and info: from the text or numbers of a file to arrays."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil.bags import Bags, Decoder, text_array
from pigmil.io._common import listed, naming, raise_format_error

MISSING = ("", "?")
_MAX_LABEL = 1000  # characters of a label
_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0")
_SIGNED = re.compile(r"[+-]?[0-9]{1,18}")
NUMBER = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")


def decode(values: Sequence[Any], *, want: Any = None, strict: bool = False) -> NDArray[Any]:
    """Convert text to an array of integers, floats or booleans if possible, else of text.

    Parameters
    ----------
    values : sequence
        Text; other values are kept.
    want : type, optional
        ``str``, ``int`` or ``float`` to have exactly that.
    strict : bool, default=False
        Only text that Python itself would write for a whole number becomes one, so that ids
        such as ``007`` stay text; no other numbers are made.

    Examples
    --------
    >>> decode(["+1", "-1"]), decode(["a", "1"]), decode(["007"], strict=True)
    (array([ 1, -1]), array(['a', '1'], dtype=object), array(['007'], dtype=object))
    """
    values = list(values)
    if not all(isinstance(value, str) for value in values):
        array = np.array(values) if values else np.array([], dtype=np.int64)
        return array if want is None or array.dtype == object else array.astype(want)
    if want is str:
        return text_array(values)
    if want is not None:
        return np.array([want(value) for value in values])
    whole = _WHOLE if strict else _SIGNED
    if all(whole.fullmatch(value) for value in values):
        return np.array([int(value) for value in values], dtype=np.int64)
    if not strict and all(NUMBER.fullmatch(value) for value in values):
        numbers = [float(value) for value in values]
        if all(math.isfinite(number) for number in numbers):
            return np.array(numbers)
    if not strict and set(values) <= {"True", "False"}:
        return np.array([value == "True" for value in values])
    return text_array(values)


class TextDecoder(Decoder):
    """Turns the values of a file into ids, labels and info, as the caller asked for.

    Parameters
    ----------
    path, request
        The file and the options of ``read_bags``.
    typed : bool
        Whether the file distinguishes text from numbers, so that text which looks like a number
        stays text.
    """

    def __init__(self, path: Path, request: Any, *, typed: bool) -> None:
        self.path, self.request, self.typed = path, request, typed

    def _kind(self, values: Sequence[Any], asked: Any) -> Any:
        if asked is None and self.typed and any(isinstance(value, str) for value in values):
            return str
        return asked

    def ids(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return bag ids: whole numbers if all of them are, otherwise text."""
        return decode_ids(self.path, values, self._kind(values, self.request.ids))

    def labels(
        self, bag: Sequence[Any] | None, instance: Sequence[Any] | None
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        """Return labels of bags and of instances, of one kind."""
        asked = self.request.labels
        if asked is not None or not self.typed:
            return decode_labels(self.path, bag, instance, asked)
        y, _ = decode_labels(self.path, bag, None, self._kind(bag or (), None))
        _, inner = decode_labels(self.path, None, instance, self._kind(instance or (), None))
        return y, inner

    def info(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return the values of an info column; missing ones are NaN or, in text, ''."""
        known = [value for value in values if value is not None]
        decoded = decode(known, want=self._kind(known, None)).tolist()
        if len(known) < len(values):
            blank = "" if any(isinstance(value, str) for value in decoded) else np.nan
            remaining = iter(decoded)
            decoded = [blank if value is None else next(remaining) for value in values]
        return text_array(decoded)


def decode_ids(path: Path, values: Sequence[Any], want: type | None) -> NDArray[Any]:
    """Return ids as requested; by default whole numbers if all of them are, otherwise text."""
    if want is str:
        return text_array([str(value) for value in values])
    try:
        return text_array(decode(values, want=want, strict=True))
    except (TypeError, ValueError) as error:
        raise_format_error(
            path, f"has ids that are not {getattr(want, '__name__', want)} ({error})."
        )


def decode_labels(
    path: Path,
    bag_values: Sequence[Any] | None,
    instance_values: Sequence[Any] | None,
    want: Any,
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Return labels of bags and of instances, of one kind where both are given.

    ``want`` is None (as the file says), a type, a mapping from old to new values, or
    ``"signs"``: the greater of two values becomes +1, the other -1.
    """
    kind = want if isinstance(want, type) else None
    try:
        bag = None if bag_values is None else _label_array(path, decode(bag_values, want=kind))
        instance = None
        if instance_values is not None:
            instance = _label_array(path, _with_missing(path, instance_values, kind))
    except (TypeError, ValueError) as error:
        raise_format_error(
            path, f"has labels that are not {getattr(kind, '__name__', kind)} ({error})."
        )
    if want is None or kind is not None:
        return bag, instance
    if isinstance(want, Mapping):
        table = dict(want)
    elif want == "signs":
        table = _signs(path, [part for part in (bag, instance) if part is not None])
    else:
        raise_format_error(
            path, f"labels={want!r} is not understood; use a type, a mapping or 'signs'."
        )
    return _mapped(path, bag, table), _mapped(path, instance, table)


def _label_array(path: Path, labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as NumPy holds them, at the width of the longest, which is bounded."""
    if labels.dtype != object or not all(isinstance(label, str) for label in labels.tolist()):
        return labels
    longest = max(labels.tolist(), key=len, default="")
    if len(longest) > _MAX_LABEL:
        raise_format_error(
            path,
            f"has a label of {len(longest)} characters, which starts with {longest[:40]!r}.",
            hint="The file may be damaged, or another column holds the labels.",
        )
    return labels.astype(str)


def _with_missing(path: Path, values: Sequence[Any], kind: type | None) -> NDArray[Any]:
    """Decode labels; if some are missing (None), numbers become floats with NaN."""
    known = [value for value in values if value is not None]
    decoded = decode(known, want=kind)
    if len(known) == len(values):
        return decoded
    if decoded.dtype.kind not in "iuf":
        raise_format_error(
            path,
            "has instance labels that are text, and some are missing.",
            hint="Write a number for each class and leave the unknown ones empty, or name a class.",
        )
    result = np.full(len(values), np.nan)
    result[[value is not None for value in values]] = decoded
    return result


def _signs(path: Path, parts: list[NDArray[Any]]) -> dict[Any, int]:
    known = {value for part in parts for value in part.tolist() if value == value}
    if len({isinstance(value, str) for value in known}) > 1:
        raise_format_error(
            path,
            "mixes text and numbers in the labels of bags and instances.",
            hint="Pass labels={old: new, ...}.",
        )
    classes = sorted(known)
    if len(classes) == 1 and classes[0] in (-1, 0, 1):
        return {classes[0]: 1 if classes[0] == 1 else -1}
    if len(classes) != 2:
        raise_format_error(
            path,
            f"has {len(classes)} classes ({listed(classes)}); labels='signs' needs two.",
            hint="Pass labels={old: new, ...}.",
        )
    return {classes[0]: -1, classes[1]: 1}


def _mapped(path: Path, part: NDArray[Any] | None, table: Mapping[Any, Any]) -> Any:
    if part is None:
        return None
    values = part.tolist()
    absent = sorted({str(v) for v in values if v == v and v not in table and str(v) not in table})
    if absent:
        raise_format_error(path, f"has labels that labels= does not map: {listed(absent)}.")
    return np.array([v if v != v else table[v] if v in table else table[str(v)] for v in values])


def with_request(path: Path, bags: Bags, request: Any) -> Bags:
    """Return bags with ids, labels and type of values as the caller asked for."""
    if request.ids is None and request.labels is None and request.dtype is None:
        return bags
    instances = bags.instances if request.dtype is None else bags.instances.astype(request.dtype)
    with naming(path):
        return Bags(
            instances,
            bags.offsets,
            **relabelled(path, bags.ids, bags.y, bags.instance_labels, request),
            feature_names=bags.feature_names,
            instance_info=bags.instance_info,
            bag_info=bags.bag_info,
            missing=request.missing,
        )


def relabelled(path: Path, ids: Any, y: Any, instance: Any, request: Any) -> dict[str, Any]:
    """Return ids and labels of a format that holds them as arrays, as the caller asked for."""
    bag, instances = y, instance
    if request.labels is not None:
        bag, instances = decode_labels(
            path,
            None if y is None else y.tolist(),
            None if instance is None else instance.tolist(),
            request.labels,
        )
    if ids is not None and request.ids is not None:
        ids = decode_ids(path, ids.tolist(), request.ids)
    return {"ids": ids, "y": bag, "instance_labels": instances}
