"""Values that JSON can hold."""

import math
from collections.abc import Callable, Mapping
from typing import Any


def to_json_safe(
    value: Any, *, text: Callable[[Any], str] = str, keep_non_finite: bool = False
) -> Any:
    """Convert a value to dictionaries, lists, text, numbers, booleans and None.

    Parameters
    ----------
    value : object
        NumPy values become Python numbers and lists, functions and classes their qualified names,
        and any other object its text.
    text : callable, default=str
        Converts keys and texts, for example to make every character visible.
    keep_non_finite : bool, default=False
        Keep NaN and infinities, which standard JSON does not allow, instead of writing None.

    Examples
    --------
    >>> import numpy as np
    >>> to_json_safe({"auc": np.float64("nan"), "sizes": np.array([2, 3]), "f": len})
    {'auc': None, 'sizes': [2, 3], 'f': 'builtins.len'}
    """

    def convert(item: Any) -> Any:
        if item is None or isinstance(item, bool | int):
            return item
        if isinstance(item, str):
            return text(item)
        if isinstance(item, Mapping):
            return {text(key): convert(part) for key, part in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return [convert(part) for part in item]
        if hasattr(item, "tolist"):
            return convert(item.tolist())
        if isinstance(item, float):
            return item if keep_non_finite or math.isfinite(item) else None
        name = getattr(item, "__qualname__", None)
        return text(item) if name is None else text(f"{item.__module__}.{name}")

    return convert(value)
