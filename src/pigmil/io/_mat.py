"""MATLAB files in two layouts: Andrews (features, bag_ids, labels) and PRTools data sets."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.io import _mat5, _mat73
from pigmil.io._common import Request, listed, parsing, raise_format_error, writing
from pigmil.io._mat5 import Cell, Struct
from pigmil.io._values import with_request
from pigmil.io._writing import cannot_hold, plain

_NEEDED = ("data", "nlab", "ident")


def read(path: Path, request: Request) -> Bags:
    """Read either layout: ``features``, ``bag_ids`` and ``labels``, or a PRTools data set.

    Bags come in the order in which their ids first appear. Names of bags and features, and
    labels of instances, are read where :func:`write_bags` has stored them.
    """
    with path.open("rb") as file:
        is_hdf5 = file.read(10) == b"MATLAB 7.3"
    variables = (_mat73 if is_hdf5 else _mat5).load(path)
    if "features" in variables and "bag_ids" in variables:
        return _andrews(path, variables, request)
    return _prtools(path, variables, request)


read_prtools = read  # the layout is detected from the variables


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
            features,
            _named(path, rows, texts(path, loaded["bag_names"], "bag_names"))
            if "bag_names" in loaded
            else whole(rows),
            y=y,
            instance_labels=None if inner is None else whole(inner),
            feature_names=names,
            missing=request.missing,
        )
        return with_request(path, bags, request)


def numeric(path: Path, value: Any, name: str, n_rows: int) -> Any:
    """Return a matrix of numbers, one row per instance; refuse cells, structures and text."""
    if not (sp.issparse(value) or isinstance(value, np.ndarray)):
        raise_format_error(path, f"the variable {name!r} is not a matrix of numbers.")
    if value.ndim != 2 or value.dtype.kind not in "iuf":
        raise_format_error(
            path, f"the variable {name!r} is not a matrix of numbers ({value.dtype})."
        )
    if value.shape[0] != n_rows:
        raise_format_error(
            path, f"the variable {name!r} has {value.shape[0]} rows for {n_rows} bag ids."
        )
    value = value.tocsr() if sp.issparse(value) else value
    return value.astype(np.float64) if value.dtype.kind != "f" else value


def vector(path: Path, value: Any, name: str, size: int | None = None) -> NDArray[Any]:
    """Return a row or column of numbers or text; sparse only where its size is known."""
    if isinstance(value, Cell):
        return np.array(texts(path, value, name), dtype=str)
    if sp.issparse(value):
        if size is None or value.shape[0] * value.shape[1] != size:
            raise_format_error(
                path,
                f"the sparse variable {name!r} has the shape {value.shape}; expected one "
                "value per instance.",
            )
        value = value.toarray()
    if not isinstance(value, np.ndarray) or value.ndim > 2:
        raise_format_error(path, f"the variable {name!r} is not a row of numbers or text.")
    if value.dtype.kind in "UO":
        return np.array(texts(path, value, name), dtype=str)
    if min(value.shape) > 1:
        raise_format_error(
            path, f"the variable {name!r} has the shape {value.shape}; expected one row."
        )
    flat: NDArray[Any] = value.ravel()
    return flat


def texts(path: Path, value: Any, name: str) -> list[str]:
    """Return the text of a cell array of strings or a matrix of characters."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
        return [str(text).rstrip() for text in value]
    if not isinstance(value, Cell):
        raise_format_error(path, f"the variable {name!r} holds no text.")
    strings = []
    for item in value.items:
        if not isinstance(item, np.ndarray) or item.dtype.kind != "U" or item.size > 1:
            raise_format_error(path, f"the variable {name!r} holds cells that are not text.")
        strings.append(str(item[0]) if item.size else "")
    return strings


def whole(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers: MATLAB stores all numbers as doubles by default."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            if np.isfinite(values).all() and (values == values.astype(np.int64)).all():
                return values.astype(np.int64)
    return values.astype(np.int64) if values.dtype.kind in "iu" else values


def _named(path: Path, places: NDArray[Any], names: list[str]) -> NDArray[Any]:
    """Return names by position, counted from 1."""
    if places.dtype.kind not in "iuf" or (places != places).any():
        raise_format_error(path, "refers to bags or labels by values that are not numbers.")
    if ((places < 1) | (places > len(names))).any():
        raise_format_error(
            path, f"refers to a bag or label beyond the {len(names)} names it holds."
        )
    return np.array(names)[places.astype(np.int64) - 1]


def cells(path: Path, values: list[str]) -> NDArray[Any]:
    """Return text as a cell array for ``savemat``; text that MATLAB cannot hold is refused."""
    for text in values:
        if not text or "\0" in text or any(ord(sign) > 0xFFFF for sign in text):
            raise_format_error(
                path,
                f"MATLAB files cannot hold the text {text!r}: it is empty, or has characters "
                "beyond 16 bits.",
            )
        if any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
            raise_format_error(path, f"the text {text!r} cannot be encoded.")
    array = np.empty((len(values), 1), dtype=object)
    array[:, 0] = values
    return array


def column(path: Path, values: NDArray[Any]) -> NDArray[Any]:
    """Return a column of numbers, or text as a cell array."""
    return cells(path, values.tolist()) if values.dtype.kind in "UO" else values[:, None]


def write(bags: Bags, path: Path, *, compress: bool = True, lossy: bool = False) -> None:
    """Write features, bag_ids and labels; sparse bags stay sparse.

    Ids and labels that are text are numbered from 1, their names stored in
    ``bag_names`` and ``label_names``; other programs then see numbers.
    """
    cannot_hold(path, bags, "mat", lossy, instance_info=False)
    ids = plain(path, bags.ids, "ids")
    held: dict[str, Any] = {"comment": "bags of instances, one row per instance"}
    held["features"] = (
        sp.csc_matrix(bags.instances.astype(np.float64))
        if bags.is_sparse
        else np.asarray(bags.instances)
    )
    if bags.feature_names is not None:
        held["feature_names"] = cells(path, bags.get_feature_names())
    held["bag_ids"] = ids[bags.bag_index][None, :]
    if ids.dtype.kind in "UO":
        held["bag_names"] = cells(path, ids.tolist())
        held["bag_ids"] = (bags.bag_index + 1)[None, :]
    if bags.y is not None:
        y = plain(path, bags.y, "labels")
        if y.dtype.kind in "UO":
            names, y = np.unique(y, return_inverse=True)
            held["label_names"], y = cells(path, names.tolist()), y + 1
        held["labels"] = y[bags.bag_index][None, :]
    if bags.instance_labels is not None:
        inner = plain(path, bags.instance_labels, "instance labels")
        if inner.dtype.kind in "UO":
            inner = cells(path, inner.tolist()).ravel()
        held["instance_labels"] = inner[None, :]
    with writing(path) as (temporary,), temporary.open("wb") as file:
        scipy.io.savemat(file, held, do_compression=compress)


def _prtools(path: Path, variables: dict[str, Any], request: Request) -> Bags:
    """Read the one variable that is a PRTools data set.

    Labels of a MIL data set belong to instances. Where they do not vary inside any bag they are
    the labels of the bags; where they do, they are kept as labels of instances and a bag gets
    the last class (in the order of ``lablist``) that occurs in it: positive if any instance is.
    """
    sets = [name for name, value in variables.items() if _is_set(value)]
    if len(sets) != 1:
        raise_format_error(
            path,
            f"contains no bags in a known layout; its variables are {listed(variables)}.",
            hint="Expected features, bag_ids and labels, or one PRTools data set (data, nlab, "
            "ident.milbag).",
        )
    with parsing(path, "a PRTools data set"):
        record = variables[sets[0]].items[0]
        ident = record["ident"].items[0] if isinstance(record["ident"], Struct) else {}
        if "milbag" not in ident:
            raise_format_error(path, "its PRTools data set has no bags (ident.milbag).")
        bag_ids = vector(path, ident["milbag"], "ident.milbag")
        features = numeric(path, record["data"], "data", len(bag_ids))
        labels = _labels(path, record)
        inner = None
        if "instance_label" in ident:
            inner = whole(vector(path, ident["instance_label"], "ident.instance_label"))
        names = None
        if isinstance(record.get("featlab"), Cell):
            names = texts(path, record["featlab"], "featlab")
        bag_ids = whole(bag_ids) if bag_ids.dtype.kind in "iuf" else bag_ids
        y, labels_inside = _per_bag(bag_ids, *labels)
        bags = Bags.from_flat(
            features,
            bag_ids,
            y=y,
            instance_labels=labels_inside if inner is None else inner,
            feature_names=names if names and len(names) == features.shape[1] else None,
            missing=request.missing,
        )
        return with_request(path, bags, request)


def _is_set(value: Any) -> bool:
    return (
        isinstance(value, Struct)
        and len(value.items) == 1
        and all(field in value.items[0] for field in _NEEDED)
    )


def _labels(path: Path, record: Any) -> tuple[NDArray[Any] | None, Any]:
    """Return the class of each instance, counted from 0, and the classes; None without labels."""
    codes = whole(vector(path, record["nlab"], "nlab"))
    if codes.dtype.kind != "i":
        raise_format_error(path, "nlab of its PRTools data set does not contain whole numbers.")
    if (codes == 0).all():
        return None, []
    classes = vector(path, record.get("lablist"), "lablist")
    classes = whole(classes) if classes.dtype.kind in "iuf" else classes
    if ((codes < 1) | (codes > len(classes))).any():
        bad = int(np.argmax((codes < 1) | (codes > len(classes))))
        raise_format_error(
            path,
            f"nlab names a class that lablist does not have ({codes[bad]}).",
            where=f"instance {bad + 1}",
        )
    return codes - 1, classes


def _per_bag(
    bag_ids: NDArray[Any], codes: NDArray[Any] | None, classes: Any
) -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
    """Label of each row's bag, and the labels of rows where they vary inside bags."""
    if codes is None or len(codes) != len(bag_ids):
        return (None if codes is None else codes), None
    _, position = np.unique(bag_ids, return_inverse=True)
    highest = np.zeros(position.max() + 1, dtype=np.int64)
    np.maximum.at(highest, position, codes)
    per_row = highest[position]
    varies = bool((per_row != codes).any())
    return classes[per_row], classes[codes] if varies else None


def write_prtools(bags: Bags, path: Path, *, name: str = "x", lossy: bool = False) -> None:
    """Write a PRTools data set as a structure; in MATLAB ``prdataset`` makes an object of it.

    Labels of instances, where known, go to ``ident.instance_label``; sparse bags stay sparse.
    """
    cannot_hold(path, bags, "mat_prtools", lossy, instance_info=False)
    ident = {"milbag": column(path, plain(path, bags.ids, "ids")[bags.bag_index])}
    if bags.instance_labels is not None:
        inner = plain(path, bags.instance_labels, "instance labels")
        ident["instance_label"] = column(path, inner)
    record: dict[str, Any] = {
        "data": sp.csc_matrix(bags.instances.astype(np.float64))
        if bags.is_sparse
        else np.asarray(bags.instances),
        "nlab": np.zeros((bags.n_instances, 1)),
        "lablist": np.zeros((0, 0)),
        "ident": ident,
        "labtype": "crisp",
    }
    if bags.y is not None:
        classes, codes = np.unique(plain(path, bags.y, "labels"), return_inverse=True)
        record["nlab"] = (codes[bags.bag_index] + 1.0)[:, None]
        record["lablist"] = column(path, classes)
    if bags.feature_names is not None:
        record["featlab"] = cells(path, bags.get_feature_names())
    with writing(path) as (temporary,), temporary.open("wb") as file:
        scipy.io.savemat(file, {name: record}, do_compression=True, long_field_names=True)
