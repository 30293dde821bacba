"""``as_bags``: convert arrays, tables, lists and AnnData objects to :class:`Bags`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, import_optional
from pigmil.bags._checks import as_csr, from_nested, is_nested, text_array
from pigmil.bags._columns import (
    BAG_NAMES,
    Roles,
    as_names,
    columns_of_lists,
    find_roles,
    numbers_of_lists,
)
from pigmil.bags._container import Bags

OBS_NAME = "obs_name"  # instance_info with the name of the observation
SCORE, RANK = "pigmil_score", "pigmil_rank"
_SPATIAL = "spatial"  # obsm of squidpy and wsidata with coordinates


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
    X : Bags, list, iterator or dict of 2-D arrays, array, sparse matrix, DataFrame or AnnData
        A dict maps ids to bags. A 3-D array has one bag per entry; a 2-D array is read as bags of
        one instance each. A DataFrame (pandas, polars, Arrow, a Hugging Face ``Dataset``) is a
        long table with one row per instance when it has the bag column, and a 2-D array
        otherwise; its features may be one column of vectors, or, in a table with one row per
        bag, of lists of vectors. A polars column of lists has one bag per entry.
    y : array of shape (n_bags,), optional
        Labels of the bags; they replace labels of ``X``.
    bag, label, instance_label : str, optional
        Columns of a DataFrame that hold the bag, its label and the instance label. Without them
        the default names of :func:`pigmil.scan_bags` are used where they are present.
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
    >>> as_bags({"a": np.zeros((2, 2)), "b": np.ones((3, 2))}, y=[0, 1]).ids
    array(['a', 'b'], dtype=object)
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
    names: dict[str, Any] = {"bag": bag, "label": label, "instance_label": instance_label}
    names |= {"info": as_names(info), "bag_info": as_names(bag_info)}
    if _is_instance(X, "anndata", "AnnData"):
        return as_bags(_from_anndata(X, names, layer, obsm, missing), y=y)
    if _is_instance(X, "datasets", "Dataset"):
        X = X.with_format("arrow")[:]
    if is_frame(X):
        return _from_frame(X, y, names, missing)
    if bag is not None:
        raise BagsError(
            f"bag={bag!r} names a column, but {type(X).__name__} has none; pass a DataFrame or "
            "use Bags.from_flat(instances, bag_ids).",
            parameter="bag",
        )
    if isinstance(X, Mapping):
        return Bags.from_list(list(X.values()), ids=list(X), y=y, missing=missing)
    if isinstance(X, Iterator):
        X = list(X)
    if _is_instance(X, "polars", "Series"):
        X = [[] if entry is None else numbers_of_lists(entry.to_arrow()) for entry in X]
    if is_bag_list(X):
        bags = from_nested(X) if is_nested(X) else list(X)
        return Bags.from_list(bags, y=y, missing=missing)
    try:
        array = X if isinstance(X, np.ndarray) or sp.issparse(X) else np.asarray(X)
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


def _is_instance(X: Any, module: str, name: str) -> bool:
    """Return whether an object has a class of a package, without importing the package."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(X, getattr(loaded, name, ()))


def is_frame(X: Any) -> bool:
    """Return whether this is a table of pandas, polars or Arrow."""
    frames = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
    return any(_is_instance(X, module, name) for module, name in frames)


def is_lazy(X: Any) -> bool:
    """Return whether these are bags on disk, as :func:`pigmil.scan_bags` returns them."""
    return getattr(X, "is_lazy", False) is True


def is_plain_table(X: Any) -> bool:
    """Return whether scikit-learn would read this as a 2-D table and not as bags."""
    others = (("polars", "Series"), ("datasets", "Dataset"))
    several = isinstance(X, Bags | Mapping | Iterator) or is_lazy(X) or is_bag_list(X)
    if several or any(_is_instance(X, module, name) for module, name in others):
        return False
    if is_frame(X):
        return not _has_bag_column(X)
    return np.ndim(X) != 3 if hasattr(X, "ndim") else True


def is_bag_list(X: Any) -> bool:
    """Return whether this is a sequence whose items are 2-D: a list or object array of bags."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return False
    if not isinstance(X, list | tuple | np.ndarray) or not len(X):
        return False
    return is_nested(X) or (_depth(X[0]) > 0 and any(_depth(item) == 2 for item in X))


def _depth(item: Any) -> int:
    if hasattr(item, "ndim"):
        return int(item.ndim)
    depth = 0
    while isinstance(item, list | tuple) and depth < 3:
        depth, item = depth + 1, (item[0] if len(item) else None)
    return depth


def _has_bag_column(X: Any) -> bool:
    columns = getattr(X, "column_names", None) or list(X.columns)
    return any(name in columns for name in BAG_NAMES)


def _from_frame(X: Any, y: Any, names: dict[str, Any], missing: str) -> Bags:
    nw = import_optional("narwhals", extra="frames", purpose="Reading a DataFrame")
    columns = [str(name) for name in (getattr(X, "column_names", None) or X.columns)]
    if len(set(columns)) < len(columns) or not columns:
        find_roles(columns, what="The DataFrame")  # raises
    frame = nw.from_native(X, eager_only=True)
    if not any(names.values()) and not _has_bag_column(X):
        offsets = np.arange(len(frame) + 1)
        return Bags(frame.to_numpy(), offsets, y=y, feature_names=columns, missing=missing)
    kinds = {str(name): frame.get_column(name).dtype for name in frame.columns}
    lists = [name for name, kind in kinds.items() if kind in (nw.List, nw.Array)]
    numeric = [name for name, kind in kinds.items() if kind.is_numeric() or kind == nw.Boolean]
    text = [name for name in columns if name not in {*numeric, *lists}]
    roles = find_roles(columns, **names, text=text, what="The DataFrame")

    def values(name: str) -> NDArray[Any]:
        column = frame.get_column(name)
        # Whole numbers with missing ones would become floats.
        keep_type = name in (roles.bag, roles.label) and column.null_count()
        return np.array(column.to_list(), dtype=object) if keep_type else column.to_numpy()

    if any(name in lists for name in roles.features):
        by_name, instances = columns_of_lists(frame.to_arrow(), roles)
    else:
        by_name = {name: values(name) for name in columns if name not in roles.features}
        instances = frame.select(roles.features).to_numpy()
    feature_names = roles.features if instances.shape[1] == len(roles.features) else None
    more = {"feature_names": feature_names, "missing": missing}
    return _from_columns(instances, by_name, roles, y, **more)


def _from_columns(
    instances: Any, columns: Mapping[Any, Any], roles: Roles, y: Any, **more: Any
) -> Bags:
    return Bags.from_flat(
        instances,
        columns[roles.bag],
        columns.get(roles.label) if y is None else y,
        columns.get(roles.instance_label),
        instance_info={name: columns[name] for name in roles.info},
        bag_info={name: columns[name] for name in roles.bag_info},
        **more,
    )


def _from_anndata(
    adata: Any, names: dict[str, Any], layer: str | None, obsm: str | None, missing: str
) -> Bags:
    """Return bags of observations; other columns of ``obs`` and coordinates stay as info."""
    given = [name for name in adata.obs.columns if name not in (SCORE, RANK)]
    columns = {str(name): _obs_values(adata.obs[name]) for name in given}
    roles = find_roles(list(columns), **names, others="info", what="obs of the AnnData object")
    features, feature_names = _obs_features(adata, layer, obsm)
    more = {"feature_names": feature_names, "missing": missing}
    bags = _from_columns(features, columns, roles, None, **more)
    info = {OBS_NAME: text_array([str(name) for name in adata.obs_names])}
    if _SPATIAL in adata.obsm and obsm != _SPATIAL and "coords" not in bags.instance_info:
        info["coords"] = np.asarray(adata.obsm[_SPATIAL])
    rows = bags.instance_info.get("row", np.arange(bags.n_instances))
    return bags.with_info(instance_info={name: values[rows] for name, values in info.items()})


def _obs_features(adata: Any, layer: str | None, obsm: str | None) -> tuple[Any, list[str] | None]:
    """Return the features of all observations and their names."""
    if layer is not None and obsm is not None:
        raise BagsError("Pass layer= or obsm=, not both.")
    for parameter, name, held in (("layer", layer, adata.layers), ("obsm", obsm, adata.obsm)):
        if name is not None and name not in held:
            raise BagsError(
                f"The AnnData object has no {parameter}={name!r}; it has "
                f"{', '.join(map(repr, held.keys())) or 'none'}.",
                parameter=parameter,
            )
    table = adata.obsm[obsm] if obsm else adata.X if layer is None else adata.layers[layer]
    if table is None:
        raise BagsError("The AnnData object has no X; pass layer= or obsm=.")
    names = getattr(table, "columns", None) if obsm else adata.var_names
    if hasattr(table, "to_memory"):  # of an object that is backed by its file
        table = table.to_memory()
    instances = as_csr(table) if sp.issparse(table) else np.asarray(table)
    return instances, None if names is None else [str(name) for name in names]


def _obs_values(column: Any) -> NDArray[Any]:
    """Return a column of ``obs`` as numbers or text; a missing text is ''."""
    if column.dtype.kind in "biuf":
        return np.asarray(column)
    values = column.astype(object).tolist()
    if any(isinstance(value, str) for value in values):
        return text_array(["" if value is None or value != value else str(value)
                           for value in values])  # fmt: skip
    return np.asarray(values)


def add_scores(adata: Any, bags: Bags, scores: Any) -> None:
    """Write the scores of instances to ``obs["pigmil_score"]`` and ``obs["pigmil_rank"]``.

    Rank 1 is the highest score. Observations that are not among the bags get NaN.

    Parameters
    ----------
    adata : AnnData
        The object the bags were read from, or one with the same ``obs_names``; it is changed.
    bags : Bags
        Bags of :func:`pigmil.as_bags` or :func:`pigmil.read_bags`, all or some of them.
    scores : array of shape (n_instances,)
        Scores of the instances of these bags, for example ``model.instance_scores_``.

    Examples
    --------
    >>> import anndata, numpy as np, pandas as pd
    >>> from pigmil import as_bags
    >>> from pigmil.bags import add_scores
    >>> obs = pd.DataFrame({"patient": ["p", "q", "p"]}, index=["c0", "c1", "c2"])
    >>> cells = anndata.AnnData(np.eye(3), obs=obs)
    >>> bags = as_bags(cells, bag="patient")
    >>> add_scores(cells, bags, [0.1, 0.7, 0.4])
    >>> cells.obs["pigmil_score"].tolist(), cells.obs["pigmil_rank"].tolist()
    ([0.1, 0.4, 0.7], [3.0, 2.0, 1.0])
    """
    scores = np.asarray(scores, dtype=np.float64)
    if OBS_NAME not in bags.instance_info:
        raise BagsError("The bags do not come from an AnnData object.")
    if scores.shape != (bags.n_instances,):
        raise BagsError(f"scores has shape {scores.shape}; expected ({bags.n_instances},).")
    if not adata.obs_names.is_unique:
        raise BagsError("obs_names contains duplicates; call adata.obs_names_make_unique() first.")
    names = bags.instance_info[OBS_NAME]
    rows = adata.obs_names.astype(str).get_indexer(names)
    if (rows < 0).any():
        raise BagsError(f"The AnnData object has no observation {names[rows < 0][0]!r}.")
    order = np.argsort(-scores, kind="stable")
    for column, found in ((SCORE, scores[order]), (RANK, np.arange(1, len(order) + 1))):
        values = np.full(adata.n_obs, np.nan)
        values[rows[order]] = found
        adata.obs[column] = values
