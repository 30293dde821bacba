"""AnnData objects: cells or tiles as observations, their scores written back."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagsError
from pigmil._core.text import listed
from pigmil.bags._checks import as_csr, text_array
from pigmil.bags._container import Bags

OBS_NAME = "obs_name"  # instance_info with the name of the observation
SCORE, RANK = "pigmil_score", "pigmil_rank"
_SPATIAL = "spatial"  # obsm of squidpy and wsidata with coordinates


def is_anndata(X: Any) -> bool:
    """Return whether this is an AnnData object, without importing the package."""
    loaded = sys.modules.get("anndata")
    return loaded is not None and isinstance(X, loaded.AnnData)


def bags_from_anndata(
    adata: Any,
    *,
    bag: str | None,
    label: str | None,
    instance_label: str | None = None,
    layer: str | None = None,
    obsm: str | None = None,
    bag_info: Sequence[str] = (),
    missing: str = "raise",
) -> Bags:
    """Return bags of observations; columns of ``obs`` name the bag and its label.

    The other columns of ``obs`` stay in ``instance_info``, and coordinates in
    ``obsm["spatial"]`` as ``coords``.
    """
    obs = adata.obs
    columns = [str(name) for name in obs.columns]
    roles = {"bag": bag, "label": label, "instance_label": instance_label}
    roles |= {f"bag_info ({name})": name for name in bag_info}
    absent = [f"{role}={name!r}" for role, name in roles.items() if name and name not in columns]
    if bag is None or absent:
        raise BagsError(
            ("bag= must name the column of obs that holds the bag" if not absent else
             f"The AnnData object has no column in obs for {', '.join(absent)}")
            + f"; its columns are {listed(columns) or 'none'}."
        )  # fmt: skip
    features, names = _features(adata, layer, obsm)
    taken = {name for name in (*roles.values(), SCORE, RANK) if name}
    info = {name: _values(obs[name]) for name in columns if name not in taken}
    info[OBS_NAME] = text_array([str(name) for name in adata.obs_names])
    if _SPATIAL in adata.obsm and obsm != _SPATIAL and "coords" not in info:
        info["coords"] = np.asarray(adata.obsm[_SPATIAL])
    return Bags.from_flat(
        features,
        _values(obs[bag]),
        y=None if label is None else _values(obs[label]),
        instance_labels=None if instance_label is None else _values(obs[instance_label]),
        feature_names=names,
        instance_info=info,
        bag_info={name: _values(obs[name]) for name in bag_info},
        missing=missing,
    )


def _features(adata: Any, layer: str | None, obsm: str | None) -> tuple[Any, list[str] | None]:
    """Return the features of all observations and their names."""
    if layer is not None and obsm is not None:
        raise BagsError("Pass layer= or obsm=, not both.")
    for parameter, name, held in (("layer", layer, adata.layers), ("obsm", obsm, adata.obsm)):
        if name is not None and name not in held:
            raise BagsError(
                f"The AnnData object has no {parameter}={name!r}; it has "
                f"{', '.join(map(repr, held.keys())) or 'none'}."
            )
    if obsm is not None:
        table = adata.obsm[obsm]
        names = [str(name) for name in table.columns] if hasattr(table, "columns") else None
        return _in_memory(table), names
    table = adata.X if layer is None else adata.layers[layer]
    if table is None:
        raise BagsError("The AnnData object has no X; pass layer= or obsm=.")
    return _in_memory(table), [str(name) for name in adata.var_names]


def _in_memory(table: Any) -> Any:
    """Return a table as an array or CSR matrix, loading it where the object is backed."""
    if hasattr(table, "to_memory"):
        table = table.to_memory()
    if sp.issparse(table):
        return as_csr(table)
    return np.asarray(table)


def _values(column: Any) -> NDArray[Any]:
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
    if OBS_NAME not in bags.instance_info or scores.shape != (bags.n_instances,):
        raise BagsError(
            "The bags do not come from an AnnData object."
            if OBS_NAME not in bags.instance_info
            else f"scores has shape {scores.shape}; expected ({bags.n_instances},)."
        )
    position = {str(name): at for at, name in enumerate(adata.obs_names)}
    if len(position) < adata.n_obs:
        raise BagsError("obs_names contains duplicates; call adata.obs_names_make_unique() first.")
    names = bags.instance_info[OBS_NAME].tolist()
    absent = [name for name in names if name not in position]
    if absent:
        raise BagsError(f"The AnnData object has no observation {absent[0]!r}.")
    rows = np.array([position[name] for name in names])
    values, ranks = np.full(adata.n_obs, np.nan), np.full(adata.n_obs, np.nan)
    values[rows] = scores
    order = np.argsort(-scores, kind="stable")
    ranks[rows[order]] = np.arange(1, len(order) + 1)
    adata.obs[SCORE], adata.obs[RANK] = values, ranks
