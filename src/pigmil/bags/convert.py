"""``as_bags``: everything that can be read as bags, turned into :class:`Bags`."""

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.errors import BagsError
from pigmil._core.optional import import_optional
from pigmil.bags.container import Bags

# Column names that a long table may carry without being told, as the data files of the field do.
BAG, BAG_LABEL, INSTANCE_LABEL = "bag", "bag_label", "instance_label"


def as_bags(
    X: Any,
    *,
    y: Any = None,
    bag: str | None = None,
    label: str | None = None,
    instance_label: str | None = None,
) -> Bags:
    """Turn anything that holds bags into :class:`Bags`, without a copy where possible.

    Parameters
    ----------
    X : Bags, list of 2-D arrays, 3-D array, 2-D array or sparse matrix, or DataFrame
        A 2-D array is read as bags of one instance each. A DataFrame (pandas, polars, Arrow)
        is a long table with one row an instance when it has the bag column, and a 2-D array
        otherwise.
    y : array of shape (n_bags,), optional
        Labels of the bags; replaces those that ``X`` may carry.
    bag, label, instance_label : str, optional
        Columns of a DataFrame that hold the bag, its label and the instance label. Without them
        the names ``bag``, ``bag_label`` and ``instance_label`` are used where they are present.

    Returns
    -------
    Bags

    Examples
    --------
    >>> import numpy as np
    >>> as_bags([np.zeros((2, 2)), np.ones((3, 2))]).sizes
    array([2, 3])
    >>> as_bags(np.zeros((4, 2))).sizes
    array([1, 1, 1, 1])
    """
    if isinstance(X, Bags):
        return X if y is None else X.with_labels(y)
    if is_frame(X):
        return _from_frame(X, y, bag, label, instance_label)
    if bag is not None:
        raise BagsError(
            f"bag={bag!r} names a column, but {type(X).__name__} has none; pass a DataFrame or "
            "use Bags.from_flat(instances, bag_ids)."
        )
    if is_bag_list(X):
        return Bags.from_list(list(X), y=y)
    if sp.issparse(X):
        return Bags(X, np.arange(X.shape[0] + 1), y=y)
    try:
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
    except ValueError as error:
        raise BagsError(
            "Cannot be read as bags: expected a list of 2-D arrays, one a bag, or a rectangular "
            f"array ({error})."
        ) from error
    if array.ndim == 3:
        n_bags, size, width = array.shape
        flat = array.reshape(n_bags * size, width)
        return Bags(flat, np.arange(n_bags + 1) * size, y=y)
    if array.ndim == 2:
        return Bags(array, np.arange(array.shape[0] + 1), y=y)
    raise BagsError(
        f"Cannot be read as bags: {type(X).__name__} with {array.ndim} dimension(s). Expected "
        "Bags, a list of 2-D arrays, a 3-D or 2-D array, or a DataFrame with a bag column."
    )


def is_frame(X: Any) -> bool:
    """Whether this is a table of pandas, polars or Arrow, told without importing any of them."""
    for module, name in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(X, getattr(loaded, name, ())):
            return True
    return False


def is_bag_list(X: Any) -> bool:
    """Whether this is a sequence whose items are 2-D: a list or object array of bags."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return False
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0 or _depth(X[0]) == 0:
        return False
    return any(sp.issparse(item) or _depth(item) == 2 for item in X)


def _depth(item: Any) -> int:
    if hasattr(item, "ndim"):
        return int(item.ndim)
    depth = 0
    while isinstance(item, list | tuple) and depth < 3:
        depth, item = depth + 1, (item[0] if len(item) else None)
    return depth


def has_bag_column(X: Any) -> bool:
    """Whether a DataFrame holds the column that makes it a long table of instances."""
    columns = getattr(X, "column_names", None) or list(X.columns)
    return BAG in columns


def _from_frame(
    X: Any, y: Any, bag: str | None, label: str | None, instance_label: str | None
) -> Bags:
    nw = import_optional("narwhals", extra="frames", purpose="Reading a DataFrame")
    frame = nw.from_native(X, eager_only=True)
    columns = list(frame.columns)
    asked = {"bag": bag, "label": label, "instance_label": instance_label}
    absent = [f"{role}={name!r}" for role, name in asked.items() if name and name not in columns]
    if absent:
        raise BagsError(
            f"The DataFrame has no column for {', '.join(absent)}; its columns are "
            f"{', '.join(map(repr, columns[:12]))}{' ...' if len(columns) > 12 else ''}."
        )
    bag = bag or (BAG if BAG in columns else None)
    if bag is None:
        return Bags(
            frame.to_numpy(),
            np.arange(len(frame) + 1),
            y=y,
            feature_names=[str(name) for name in columns],
        )
    label = label or (BAG_LABEL if BAG_LABEL in columns else None)
    instance_label = instance_label or (INSTANCE_LABEL if INSTANCE_LABEL in columns else None)
    features = [name for name in columns if name not in (bag, label, instance_label)]
    numeric = [
        name
        for name in features
        if frame[name].dtype.is_numeric() or frame[name].dtype == nw.Boolean
    ]
    if len(numeric) < len(features):
        other = [repr(name) for name in features if name not in numeric]
        raise BagsError(
            f"Columns {', '.join(other[:10])}{' ...' if len(other) > 10 else ''} are not numeric; "
            "encode them as numbers, drop them, or name them as bag=, label= or instance_label=."
        )
    if not features:
        raise BagsError(f"The DataFrame has no feature columns beside {bag!r}.")
    labels = y if y is not None else (frame[label].to_numpy() if label else None)
    return Bags.from_flat(
        frame.select(features).to_numpy(),
        frame[bag].to_numpy(),
        y=labels,
        instance_labels=frame[instance_label].to_numpy() if instance_label else None,
        feature_names=features,
    )
