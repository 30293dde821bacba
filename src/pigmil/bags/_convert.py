"""``as_bags``: convert arrays, tables and lists to :class:`Bags`."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.errors import BagsError
from pigmil._core.optional import import_optional
from pigmil._core.text import listed
from pigmil.bags._anndata import bags_from_anndata, is_anndata
from pigmil.bags._container import Bags
from pigmil.bags._nested import from_nested, is_nested
from pigmil.bags._rows import BAG, BAG_LABEL, INSTANCE_LABEL


def as_bags(
    X: Any,
    *,
    y: Any = None,
    bag: str | None = None,
    label: str | None = None,
    instance_label: str | None = None,
    info: Sequence[str] = (),
    bag_info: Sequence[str] = (),
    layer: str | None = None,
    obsm: str | None = None,
    missing: str = "raise",
) -> Bags:
    """Convert arrays, tables or lists of arrays to :class:`Bags`, without a copy if possible.

    Parameters
    ----------
    X : Bags, list of 2-D arrays, 3-D or 2-D array, sparse matrix, DataFrame or AnnData
        A 2-D array is read as bags of one instance each. A DataFrame (pandas, polars, Arrow)
        is a long table with one row per instance when it has the bag column, and a 2-D array
        otherwise.
    y : array of shape (n_bags,), optional
        Labels of the bags; they replace labels of ``X``.
    bag, label, instance_label : str, optional
        Columns of a DataFrame that hold the bag, its label and the instance label. Without them
        the names ``bag``, ``bag_label`` and ``instance_label`` are used where they are present.
    info : sequence of str, default=()
        Columns of a DataFrame to keep in ``instance_info`` instead of as features.
    bag_info : sequence of str, default=()
        Columns of a DataFrame to keep in ``bag_info``; constant within each bag.
    layer, obsm : str, optional
        Where an AnnData object holds the features, if not in ``X``. Its ``obs`` has the columns
        ``bag`` and ``label``; the others stay in ``instance_info``.
    missing : {"raise", "keep"}, default="raise"
        Whether NaN among the features is an error or is kept, to be imputed later.

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
    if is_lazy(X):
        raise BagsError(
            "These bags are on disk (LazyBags) and are needed in memory here; call .load() first, "
            "if they fit."
        )
    if is_anndata(X):
        read = bags_from_anndata(
            X, bag=bag, label=label, instance_label=instance_label, layer=layer, obsm=obsm,
            bag_info=_listed(bag_info), missing=missing,
        )  # fmt: skip
        return read if y is None else read.with_labels(y)
    if is_frame(X):
        roles = {"bag": bag, "label": label, "instance_label": instance_label}
        return _from_frame(X, y, roles, _listed(info), _listed(bag_info), missing)
    if bag is not None:
        raise BagsError(
            f"bag={bag!r} names a column, but {type(X).__name__} has none; pass a DataFrame or "
            "use Bags.from_flat(instances, bag_ids)."
        )
    if is_bag_list(X):
        listed = from_nested(X) if is_nested(X) else list(X)
        return Bags.from_list(listed, y=y, missing=missing)
    if sp.issparse(X):
        return Bags(X, np.arange(X.shape[0] + 1), y=y, missing=missing)
    try:
        array = X if isinstance(X, np.ndarray) else np.asarray(X)
    except ValueError as error:
        raise BagsError(
            "Cannot be read as bags: expected a list of 2-D arrays, one per bag, or a rectangular "
            f"array ({error})."
        ) from error
    if array.ndim == 3:
        n_bags, size, width = array.shape
        flat = array.reshape(n_bags * size, width)
        return Bags(flat, np.arange(n_bags + 1) * size, y=y, missing=missing)
    if array.ndim == 2:
        return Bags(array, np.arange(array.shape[0] + 1), y=y, missing=missing)
    raise BagsError(
        f"Cannot be read as bags: {type(X).__name__} with {array.ndim} dimension(s). Expected "
        "Bags, a list of 2-D arrays, a 3-D or 2-D array, or a DataFrame with a bag column."
    )


def is_plain_table(X: Any) -> bool:
    """Return whether scikit-learn would read this as a 2-D table and not as bags."""
    if isinstance(X, Bags) or is_lazy(X) or is_bag_list(X):
        return False
    if is_frame(X):
        return not has_bag_column(X)
    return np.ndim(X) != 3 if hasattr(X, "ndim") else True


def is_lazy(X: Any) -> bool:
    """Return whether these are bags on disk, as :meth:`Bags.scan` returns them."""
    return getattr(X, "is_lazy", False) is True


def is_frame(X: Any) -> bool:
    """Return whether this is a table of pandas, polars or Arrow, without importing any of them."""
    for module, name in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table")):
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(X, getattr(loaded, name, ())):
            return True
    return False


def is_bag_list(X: Any) -> bool:
    """Return whether this is a sequence whose items are 2-D: a list or object array of bags."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return False
    if not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    if is_nested(X):
        return True
    return _depth(X[0]) > 0 and any(sp.issparse(item) or _depth(item) == 2 for item in X)


def _depth(item: Any) -> int:
    if hasattr(item, "ndim"):
        return int(item.ndim)
    depth = 0
    while isinstance(item, list | tuple) and depth < 3:
        depth, item = depth + 1, (item[0] if len(item) else None)
    return depth


def has_bag_column(X: Any) -> bool:
    """Return whether a DataFrame holds the column that makes it a long table of instances."""
    columns = getattr(X, "column_names", None) or list(X.columns)
    return BAG in columns


def _listed(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _from_frame(
    X: Any,
    y: Any,
    roles: dict[str, str | None],
    info: list[str],
    bag_info: list[str],
    missing: str,
) -> Bags:
    nw = import_optional("narwhals", extra="frames", purpose="Reading a DataFrame")
    frame = nw.from_native(X, eager_only=True)
    columns = list(frame.columns)
    asked = [*roles.items(), *(("info", name) for name in info)]
    asked += [("bag_info", name) for name in bag_info]
    absent = [f"{role}={name!r}" for role, name in asked if name and name not in columns]
    if absent:
        raise BagsError(
            f"The DataFrame has no column for {', '.join(absent)}; its columns are "
            f"{listed(columns)}."
        )
    defaults = {"bag": BAG, "label": BAG_LABEL, "instance_label": INSTANCE_LABEL}
    if roles["bag"] is None and BAG not in columns:
        defaults = {}
    named = {
        role: roles[role] or (name if name in columns and name not in (*info, *bag_info) else None)
        for role, name in defaults.items()
    }
    taken = {*named.values(), *info, *bag_info}
    features = [name for name in columns if name not in taken]
    if not features:
        raise BagsError(f"The DataFrame has no feature columns; it has {columns}.")
    numeric = [
        name
        for name in features
        if frame.get_column(name).dtype.is_numeric() or frame.get_column(name).dtype == nw.Boolean
    ]
    if named and len(numeric) < len(features):
        other = [name for name in features if name not in numeric]
        raise BagsError(
            f"Columns {listed(other)} are not numeric; "
            "encode them as numbers, drop them, keep them with info= or bag_info=, or name them "
            "as bag=, label= or instance_label=."
        )

    def column(role: str) -> Any:
        name = named.get(role)
        return None if name is None else frame.get_column(name).to_numpy()

    return Bags.from_flat(
        frame.select(features).to_numpy(),
        column("bag") if named else np.arange(len(frame)),
        y=column("label") if y is None else y,
        instance_labels=column("instance_label"),
        feature_names=[str(name) for name in features],
        instance_info={name: frame.get_column(name).to_numpy() for name in info},
        bag_info={name: frame.get_column(name).to_numpy() for name in bag_info},
        missing=missing,
    )
