"""MATLAB files that hold a PRTools data set with bags: data, nlab, lablist, ident.milbag."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.io import mat
from pigmil.io.common import Request, listed, parsing, raise_format_error, writing
from pigmil.io.mat5 import Cell, Struct
from pigmil.io.values import cannot_hold, feature_names_of, plain

_NEEDED = ("data", "nlab", "ident")


def read(path: Path, request: Request) -> Bags:
    """Read a MATLAB file; the layout is told from its variables."""
    return mat.read(path, request)


def read_variable(path: Path, held: dict[str, Any], request: Request) -> Bags:
    """Read the one variable that is a PRTools data set.

    Labels of a MIL data set belong to instances. Where they do not vary inside any bag they are
    the labels of the bags; where they do, they are kept as labels of instances and a bag gets
    the last class (in the order of ``lablist``) that occurs in it: positive if any instance is.
    """
    sets = [name for name, value in held.items() if _is_set(value)]
    if len(sets) != 1:
        raise_format_error(
            path,
            f"holds no bags that are understood; its variables are {listed(held)}.",
            hint="Expected features, bag_ids and labels, or one PRTools data set (data, nlab, "
            "ident.milbag).",
        )
    with parsing(path, "a PRTools data set"):
        record = held[sets[0]].items[0]
        ident = record["ident"].items[0] if isinstance(record["ident"], Struct) else {}
        if "milbag" not in ident:
            raise_format_error(path, "its PRTools data set has no bags (ident.milbag).")
        bag_ids = mat.vector(path, ident["milbag"], "ident.milbag")
        features = mat.numeric(path, record["data"], "data", len(bag_ids))
        labels = _labels(path, record)
        inner = None
        if "instance_label" in ident:
            inner = mat.whole(mat.vector(path, ident["instance_label"], "ident.instance_label"))
        names = None
        if isinstance(record.get("featlab"), Cell):
            names = mat.texts(path, record["featlab"], "featlab")
        bag_ids = mat.whole(bag_ids) if bag_ids.dtype.kind in "iuf" else bag_ids
        y, labels_inside = _per_bag(bag_ids, *labels)
        bags = Bags.from_flat(
            features.astype(request.dtype) if request.dtype else features,
            bag_ids,
            y=y,
            instance_labels=labels_inside if inner is None else inner,
            feature_names=names if names and len(names) == features.shape[1] else None,
        )
        return mat.same_bags(path, bags, request)


def _is_set(value: Any) -> bool:
    return (
        isinstance(value, Struct)
        and len(value.items) == 1
        and all(field in value.items[0] for field in _NEEDED)
    )


def _labels(path: Path, record: Any) -> tuple[NDArray[Any] | None, Any]:
    """Class of each instance, counted from 0, and the classes; None where all are unlabelled."""
    codes = mat.whole(mat.vector(path, record["nlab"], "nlab"))
    if codes.dtype.kind != "i":
        raise_format_error(path, "nlab of its PRTools data set holds no whole numbers.")
    if (codes == 0).all():
        return None, []
    classes = mat.vector(path, record.get("lablist"), "lablist")
    classes = mat.whole(classes) if classes.dtype.kind in "iuf" else classes
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
    _, place = np.unique(bag_ids, return_inverse=True)
    highest = np.zeros(place.max() + 1, dtype=np.int64)
    np.maximum.at(highest, place, codes)
    per_row = highest[place]
    varies = bool((per_row != codes).any())
    return classes[per_row], classes[codes] if varies else None


def write(bags: Bags, path: Path, *, name: str = "x", lossy: bool = False) -> None:
    """Write a PRTools data set as a structure; in MATLAB ``prdataset`` makes an object of it.

    Labels of instances, where known, go to ``ident.instance_label``; sparse bags stay sparse.
    """
    cannot_hold(path, bags, "mat_prtools", lossy, instance_info=False)
    ids = plain(path, bags.ids, "ids")[bags.bag_index]
    if ids.dtype.kind in "UO":
        mat.check_texts(path, bags.ids.tolist())
    ident: dict[str, Any] = {
        "milbag": mat.cells(ids.tolist()) if ids.dtype.kind in "UO" else ids[:, None]
    }
    if bags.instance_labels is not None:
        inner = plain(path, bags.instance_labels, "instance labels")
        if inner.dtype.kind in "UO":
            mat.check_texts(path, inner.tolist())
        ident["instance_label"] = (
            mat.cells(inner.tolist()) if inner.dtype.kind in "UO" else inner[:, None]
        )
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
        if classes.dtype.kind in "UO":
            mat.check_texts(path, classes.tolist())
        record["nlab"] = (codes[bags.bag_index] + 1.0)[:, None]
        record["lablist"] = (
            mat.cells(classes.tolist()) if classes.dtype.kind in "UO" else classes[:, None]
        )
    if bags.feature_names is not None:
        mat.check_texts(path, feature_names_of(bags))
        record["featlab"] = mat.cells(feature_names_of(bags))
    with writing(path) as temporary, temporary.open("wb") as file:
        scipy.io.savemat(file, {name: record}, do_compression=True, long_field_names=True)
