"""MATLAB files with the variables ``features``, ``bag_ids`` and ``labels``."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil._core.text import listed
from pigmil.bags import LazyBags, as_csr, text_array
from pigmil.bags._columns import BAG, BAG_LABEL, INSTANCE_LABEL
from pigmil.io._build import Table, bags_of_table
from pigmil.io._defence import check_memory, h5_group, parsing, raise_format_error
from pigmil.io._formats import Request

_PER_INSTANCE = {"bag_ids": BAG, "labels": BAG_LABEL, "instance_labels": INSTANCE_LABEL}


def load_variables(path: Path) -> dict[str, Any]:
    """Return the variables of a file: arrays, CSR matrices, and lists of text; not structures."""
    with path.open("rb") as file:
        is_hdf5 = file.read(10) == b"MATLAB 7.3"
    with parsing(path, "a MATLAB file"):
        if is_hdf5:
            return _load_hdf5(path)
        sizes = [float(np.prod(shape, dtype=float)) for _, shape, _ in scipy.io.whosmat(path)]
        check_memory(path, 8 * sum(sizes))
        found = scipy.io.loadmat(path, chars_as_strings=True)
        return {name: _plain(value) for name, value in found.items() if not name.startswith("__")}


def _plain(value: Any) -> Any:
    """Return a value of scipy: a matrix in CSR, a cell array of text as a list of text."""
    if sp.issparse(value):
        return as_csr(value.tocsr())
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [str(np.ravel(cell)[0]) if np.size(cell) else "" for cell in value.ravel()]
    if isinstance(value, np.ndarray) and value.dtype.kind == "U":
        return [str(text).rstrip() for text in value.ravel()]
    return value


def _load_hdf5(path: Path) -> dict[str, Any]:
    """Return the variables of a MATLAB 7.3 file, which holds arrays by columns."""
    h5py = import_optional("h5py", extra="io", purpose="Reading a MATLAB 7.3 file")
    with h5py.File(path, "r") as file:
        top = h5_group(path, file)

        def text_of(dataset: Any) -> str:
            return bytes(np.asarray(dataset[()], dtype="<u2").T.ravel()).decode("utf-16-le")

        variables: dict[str, Any] = {}
        for name, dataset in top.arrays.items():
            kind = dataset.attrs.get("MATLAB_class", b"")
            if kind == b"cell":
                variables[name] = [text_of(file[cell]) for cell in dataset[()].ravel()]
            elif kind == b"char":
                variables[name] = [text_of(dataset)]
            elif dataset.dtype.kind in "biuf":
                check_memory(path, dataset.size * 8.0)
                variables[name] = dataset[()].T
        for name, group in top.groups.items():
            if "MATLAB_sparse" in group.attributes and "jc" in group.arrays:
                n_rows, ends = int(group.attributes["MATLAB_sparse"]), group.arrays["jc"][()]
                data, rows = (
                    group.arrays[part][()] if part in group.arrays else np.empty(0)
                    for part in ("data", "ir")
                )
                shape = (n_rows, len(ends) - 1)
                columns = sp.csc_array((data, rows.astype(np.int64), ends), shape=shape)
                columns.check_format(full_check=True)
                variables[name] = as_csr(columns.tocsr())
        return variables


def scan_mat(path: Path, request: Request) -> LazyBags:
    """Read ``features`` (one row per instance) with ``bag_ids`` and ``labels``, one per instance.

    Optional are ``instance_labels``, ``feature_names``, and ``bag_names`` and ``label_names``, to
    which ids and labels then refer, counted from 1.
    """
    found = load_variables(path)
    with parsing(path, "a MATLAB file"):
        features = found.get("features")
        if "bag_ids" not in found or not hasattr(features, "dtype"):
            raise_format_error(
                path,
                f"has no variables features and bag_ids; it has {listed(found) or 'none'}.",
                hint="Old benchmark files are read by pigmil.datasets.read_original.",
            )
        assert features is not None
        if features.ndim != 2 or features.dtype.kind not in "iuf":
            raise_format_error(path, "the variable 'features' is not a matrix of numbers.")
        columns = {
            role: _vector(path, found, name, features.shape[0])
            for name, role in _PER_INSTANCE.items()
            if name in found
        }
        for role, names in ((BAG, "bag_names"), (BAG_LABEL, "label_names")):
            if names in found and role in columns:
                places, texts = columns[role], text_array(found[names])
                if places.dtype.kind != "i" or places.min() < 1 or places.max() > len(texts):
                    raise_format_error(path, f"refers to more {names} than the {len(texts)} given.")
                columns[role] = texts[places - 1]
        dtype = np.float32 if features.dtype == np.float32 else np.float64
        titles = found.get("feature_names")
        return bags_of_table(Table(path, columns, features.astype(dtype), titles), request)


def _vector(path: Path, found: dict[str, Any], name: str, size: int) -> NDArray[Any]:
    """Return a row or column with one value per instance; MATLAB stores integers as doubles."""
    value = found[name]
    if sp.issparse(value) and max(value.shape) == size:
        value = value.toarray()
    values = text_array(value) if isinstance(value, list) else np.ravel(np.asarray(value))
    if len(values) != size:
        raise_format_error(path, f"has {len(values)} {name} for {size} instances.")
    if values.dtype.kind == "f" and np.isfinite(values).all():
        whole = values.astype(np.int64)
        return whole if (whole == values).all() else values
    return values.astype(np.int64) if values.dtype.kind in "iu" else values
