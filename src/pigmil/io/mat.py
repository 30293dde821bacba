"""MATLAB files in the layout of Andrews: features, bag_ids and labels, one column an instance."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.io.common import Request, naming, parsing, raise_format_error, writing
from pigmil.io.mat5 import Cell, load
from pigmil.io.values import cannot_hold, feature_names_of, plain, relabelled


def read(path: Path, request: Request) -> Bags:
    """Read either layout: ``features``, ``bag_ids`` and ``labels``, or a PRTools data set.

    Bags come in the order in which their ids first appear. Names of bags and features, and
    labels of instances, are read where :func:`write_bags` has put them beside.
    """
    held = load(path)
    if "features" in held and "bag_ids" in held:
        return _andrews(path, held, request)
    from pigmil.io import mat_prtools

    return mat_prtools.read_variable(path, held, request)


def _andrews(path: Path, loaded: dict[str, Any], request: Request) -> Bags:
    with parsing(path, "a MATLAB file"):
        rows = vector(path, loaded["bag_ids"], "bag_ids")
        features = numeric(path, loaded["features"], "features", len(rows))
        labels, inner = (
            vector(path, loaded[name], name, len(rows)) if name in loaded else None
            for name in ("labels", "instance_labels")
        )
        names = (
            texts(path, loaded["feature_names"], "feature_names")
            if "feature_names" in loaded
            else None
        )
        y = None if labels is None else whole(labels)
        if "label_names" in loaded and y is not None:
            y = _named(path, y, texts(path, loaded["label_names"], "label_names"))
        bags = Bags.from_flat(
            features.astype(request.dtype) if request.dtype else features,
            _named(path, rows, texts(path, loaded["bag_names"], "bag_names"))
            if "bag_names" in loaded
            else whole(rows),
            y=y,
            instance_labels=None if inner is None else whole(inner),
            feature_names=names,
        )
        return same_bags(path, bags, request)


def same_bags(path: Path, bags: Bags, request: Request) -> Bags:
    """The bags with ids and labels as they were asked for."""
    if request.ids is None and request.labels is None:
        return bags
    new = relabelled(path, bags.ids, bags.y, bags.instance_labels, request)
    with naming(path):
        return Bags(
            bags.instances,
            bags.offsets,
            feature_names=bags.feature_names,
            instance_info=bags.instance_info,
            **new,
        )


def numeric(path: Path, value: Any, name: str, n_rows: int) -> Any:
    """A matrix of numbers, one row an instance; cells, structures and text are refused."""
    if not (sp.issparse(value) or isinstance(value, np.ndarray)):
        raise_format_error(path, f"the variable {name!r} is no matrix of numbers.")
    if value.ndim != 2 or value.dtype.kind not in "iuf":
        raise_format_error(path, f"the variable {name!r} is no matrix of numbers ({value.dtype}).")
    if value.shape[0] != n_rows:
        raise_format_error(
            path, f"the variable {name!r} has {value.shape[0]} rows for {n_rows} bag ids."
        )
    value = value.tocsr() if sp.issparse(value) else value
    return value.astype(np.float64) if value.dtype.kind != "f" else value


def vector(path: Path, value: Any, name: str, size: int | None = None) -> NDArray[Any]:
    """Row or column of numbers, or text; sparse only where its size is known from elsewhere."""
    if isinstance(value, Cell):
        return np.array(texts(path, value, name), dtype=str)
    if sp.issparse(value):
        if size is None or value.shape[0] * value.shape[1] != size:
            raise_format_error(
                path,
                f"the sparse variable {name!r} has the shape {value.shape}; expected one "
                "value an instance.",
            )
        value = value.toarray()
    if not isinstance(value, np.ndarray) or value.ndim > 2:
        raise_format_error(path, f"the variable {name!r} is no row of numbers or text.")
    if value.dtype.kind in "UO":
        return np.array(texts(path, value, name), dtype=str)
    if min(value.shape) > 1:
        raise_format_error(
            path, f"the variable {name!r} has the shape {value.shape}; expected one row."
        )
    flat: NDArray[Any] = value.ravel()
    return flat


def texts(path: Path, value: Any, name: str) -> list[str]:
    """Text of a cell array of strings or a matrix of characters (padded with blanks)."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        return [str(text).rstrip() for text in value]
    if not isinstance(value, Cell):
        raise_format_error(path, f"the variable {name!r} holds no text.")
    found = []
    for item in value.items:
        if not isinstance(item, np.ndarray) or item.dtype.kind != "U" or item.size > 1:
            raise_format_error(path, f"the variable {name!r} holds cells that are not text.")
        found.append(str(item[0]) if item.size else "")
    return found


def whole(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers as integers: MATLAB stores all numbers as doubles unless told otherwise."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            if np.isfinite(values).all() and (values == values.astype(np.int64)).all():
                return values.astype(np.int64)
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def _named(path: Path, places: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Names by position, counted from 1."""
    if places.dtype.kind not in "iuf" or (places != places).any():
        raise_format_error(path, "numbers its bags or labels by something that is no number.")
    if ((places < 1) | (places > len(names))).any():
        raise_format_error(path, f"numbers a bag or label beyond the {len(names)} names it holds.")
    return np.array(names)[places.astype(np.int64) - 1]


def cells(values: list[str]) -> NDArray[Any]:
    """Cell array of strings for ``savemat``."""
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    return array


def check_texts(path: Path, values: list[str]) -> None:
    """Refuse text that does not survive in MATLAB's characters."""
    for text in values:
        if not text or "\0" in text or any(ord(sign) > 0xFFFF for sign in text):
            raise_format_error(
                path,
                f"MATLAB files cannot hold the text {text!r}: empty, or with signs beyond 16 bits.",
            )
        if any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
            raise_format_error(path, f"the text {text!r} cannot be encoded.")


def write(bags: Bags, path: Path, *, compress: bool = True, lossy: bool = False) -> None:
    """Write features, bag_ids and labels; sparse bags stay sparse.

    Ids and labels that are text are numbered from 1, their names put beside them in
    ``bag_names`` and ``label_names``; other programs then see numbers.
    """
    cannot_hold(path, bags, "mat", lossy, instance_info=False)
    ids = plain(path, bags.ids, "ids")
    held: dict[str, Any] = {"comment": "bags of instances, one row an instance"}
    held["features"] = (
        sp.csc_matrix(bags.instances.astype(np.float64))
        if bags.is_sparse
        else np.asarray(bags.instances)
    )
    if bags.feature_names is not None:
        check_texts(path, feature_names_of(bags))
        held["feature_names"] = cells(feature_names_of(bags))
    held["bag_ids"] = ids[bags.bag_index][None, :]
    if ids.dtype.kind in "UO":
        check_texts(path, ids.tolist())
        held["bag_names"] = cells(ids.tolist())
        held["bag_ids"] = (bags.bag_index + 1)[None, :]
    if bags.y is not None:
        y = plain(path, bags.y, "labels")
        if y.dtype.kind in "UO":
            names, y = np.unique(y, return_inverse=True)
            check_texts(path, names.tolist())
            held["label_names"], y = cells(names.tolist()), y + 1
        held["labels"] = y[bags.bag_index][None, :]
    if bags.instance_labels is not None:
        inner = plain(path, bags.instance_labels, "instance labels")
        if inner.dtype.kind in "UO":
            check_texts(path, inner.tolist())
            inner = cells(inner.tolist()).ravel()
        held["instance_labels"] = inner[None, :]
    with writing(path) as temporary, temporary.open("wb") as file:
        scipy.io.savemat(file, held, do_compression=compress)
