"""MATLAB files in the layout of Andrews: features, bag_ids and labels, one column an instance."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.io.common import Request, check_memory, fail, listed, naming, parsing, writing
from pigmil.io.values import cannot_hold, feature_names_of, plain, relabelled

_BYTES = {"double": 8, "single": 4, "sparse": 1, "logical": 1, "int8": 1, "uint8": 1, "char": 4}


def read(path: Path, request: Request) -> Bags:
    """Read either layout: ``features``, ``bag_ids`` and ``labels``, or a PRTools data set.

    Bags come in the order in which their ids first appear. Names of bags and features, and
    labels of instances, are read where :func:`write_bags` has put them beside.
    """
    held = contents(path)
    if "features" in held and "bag_ids" in held:
        return _andrews(path, held, request)
    from pigmil.io import mat_prtools

    return mat_prtools.read_variable(path, held, request)


def contents(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and class of every variable, without reading their values."""
    with parsing(path, "a MATLAB file"):
        found = {name: (shape, kind) for name, shape, kind in scipy.io.whosmat(str(path))}
    if not found:
        fail(path, "holds no variables.", mend="It may be cut short.")
    return found


def variables(path: Path, held: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Values of some variables; no more is unpacked than memory holds."""
    size = sum(
        int(np.prod([float(n) for n in held[name][0]])) * _BYTES.get(held[name][1], 8)
        for name in names
        if name in held and held[name][1] != "sparse"
    )
    check_memory(path, size)
    with parsing(path, "a MATLAB file"):
        loaded: dict[str, Any] = scipy.io.loadmat(str(path), variable_names=names)
    return loaded


def _andrews(path: Path, held: dict[str, Any], request: Request) -> Bags:
    beside = [
        "features",
        "bag_ids",
        "labels",
        "instance_labels",
        "bag_names",
        "feature_names",
        "label_names",
    ]
    loaded = variables(path, held, beside)
    missing = [name for name in ("features", "bag_ids") if name not in loaded]
    if missing:
        fail(path, f"has lost {listed(missing)}.", mend="It may be cut short.")
    with parsing(path, "a MATLAB file"):
        features = numeric(path, loaded["features"], "features")
        rows = vector(path, loaded["bag_ids"], "bag_ids")
        labels = vector(path, loaded["labels"], "labels") if "labels" in loaded else None
        inner = None
        if "instance_labels" in loaded:
            inner = vector(path, loaded["instance_labels"], "instance_labels")
        names = texts(path, loaded["feature_names"]) if "feature_names" in loaded else None
        y = None if labels is None else whole(labels)
        if "label_names" in loaded and y is not None:
            y = _named(path, y, texts(path, loaded["label_names"]))
        bags = Bags.from_flat(
            features.astype(request.dtype) if request.dtype else features,
            _named(path, rows, texts(path, loaded["bag_names"]))
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


def numeric(path: Path, value: Any, name: str) -> Any:
    """A matrix of numbers; cells, structures, objects and functions are refused."""
    if sp.issparse(value):
        value = sp.csr_array(value)
        value.check_format(full_check=True)
    if value.ndim != 2 or value.dtype.kind not in "iufb":
        fail(
            path,
            f"the variable {name!r} is no matrix of numbers ({value.dtype}, "
            f"{value.ndim} dimensions).",
        )
    return value.astype(np.float64) if value.dtype.kind != "f" else value


def vector(path: Path, value: Any, name: str) -> NDArray[Any]:
    """Row or column of numbers or of text."""
    if sp.issparse(value):
        value = sp.csr_array(value)
        value.check_format(full_check=True)
        check_memory(path, int(np.prod([float(n) for n in value.shape])) * 8)
        value = value.toarray()
    if value.dtype == object:
        return np.array(texts(path, value))
    if value.dtype.kind not in "iufbU" or value.ndim > 2 or min(value.shape, default=0) > 1:
        fail(path, f"the variable {name!r} is no row of numbers or text.")
    if value.dtype.kind == "U":
        return np.array([str(text).rstrip() for text in value.ravel()])
    flat: NDArray[Any] = value.ravel()
    return flat


def texts(path: Path, value: Any) -> list[str]:
    """Text of a cell array of strings or a matrix of characters."""
    if value.dtype.kind == "U":
        return [str(text).rstrip() for text in value.ravel()]
    found = []
    for cell in value.ravel():
        if not isinstance(cell, np.ndarray) or cell.dtype.kind != "U" or cell.size > 1:
            if isinstance(cell, np.ndarray) and cell.size == 0 and cell.dtype.kind in "fU":
                found.append("")
                continue
            fail(path, "has a cell array that holds something other than text.")
        found.append(str(cell.ravel()[0]) if cell.size else "")
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
        fail(path, "numbers its bags or labels by something that is no number.")
    if ((places < 1) | (places > len(names))).any():
        fail(path, f"numbers a bag or label beyond the {len(names)} names it holds.")
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
            fail(
                path,
                f"MATLAB files cannot hold the text {text!r}: empty, or with signs beyond 16 bits.",
            )
        if any(0xD800 <= ord(sign) <= 0xDFFF for sign in text):
            fail(path, f"the text {text!r} cannot be encoded.")


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
    if ids.dtype.kind == "U":
        check_texts(path, ids.tolist())
        held["bag_names"] = cells(ids.tolist())
        held["bag_ids"] = (bags.bag_index + 1)[None, :]
    if bags.y is not None:
        y = plain(path, bags.y, "labels")
        if y.dtype.kind == "U":
            names, y = np.unique(y, return_inverse=True)
            check_texts(path, names.tolist())
            held["label_names"], y = cells(names.tolist()), y + 1
        held["labels"] = y[bags.bag_index][None, :]
    if bags.instance_labels is not None:
        inner = plain(path, bags.instance_labels, "instance labels")
        if inner.dtype.kind == "U":
            check_texts(path, inner.tolist())
            inner = cells(inner.tolist()).ravel()
        held["instance_labels"] = inner[None, :]
    with writing(path) as temporary, temporary.open("wb") as file:
        scipy.io.savemat(file, held, do_compression=compress)
