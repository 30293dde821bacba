"""AnnData files (``.h5ad``, zarr): observations as instances, bag and label as columns of obs."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil._core.text import listed
from pigmil.bags import LazyBags, text_array
from pigmil.bags._columns import Roles
from pigmil.bags._lazy import INSTANCE_LABELS, MemorySource, Source, Stamp
from pigmil.io._build import Table, bags_of_table
from pigmil.io._defence import h5_group, open_zarr, parsing, raise_format_error
from pigmil.io._formats import Request

OBS_NAME = "obs_name"  # instance_info with the name of the observation
_SPATIAL = "obsm/spatial"  # coordinates, of squidpy and wsidata


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[Any]:
    """Open the HDF5 file or zarr store."""
    if path.is_dir():
        store = open_zarr(path)
        try:
            yield store
        finally:
            store.store.close()
        return
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    with parsing(path, "AnnData"), h5py.File(path, "r") as file:
        yield file


def is_anndata(file: Any) -> bool:
    """Return whether an open HDF5 file or zarr store is an AnnData object."""
    return file.attrs.get("encoding-type") == "anndata" or {"obs", "var"} <= set(file)


@dataclass(frozen=True)
class AnnDataSource(Source):
    """The features of the observations: ``X``, a layer or an entry of ``obsm``.

    Parameters
    ----------
    key : str
        Where the file holds them.
    columns : MemorySource
        Columns of ``obs``, which are in memory.
    """

    key: str = ""
    columns: MemorySource | None = None

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Return the open file."""
        return open_file(Path(self.stamp.path))

    def parser_errors(self) -> contextlib.AbstractContextManager[Any]:
        """Turn errors of the libraries into :class:`BagFormatError`."""
        return parsing(Path(self.stamp.path), "AnnData")

    def read(self, file: Any, start: int, stop: int) -> Any:
        """Return rows of the features, sparse ones as CSR."""
        return _array(file, self.key)[start:stop]

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a column of ``obs``, or of the coordinates."""
        if key == _SPATIAL:
            return np.asarray(file[key][start:stop])
        assert self.columns is not None
        return self.columns.read_column(None, key, start, stop)


def _array(file: Any, key: str) -> Any:
    """Return a dense or sparse array of which rows can be read."""
    array = file[key]
    if hasattr(array, "shape"):
        return array
    io = import_optional("anndata.io", extra="anndata", purpose="Reading sparse AnnData")
    return io.sparse_dataset(array)


class _Observations(Table):
    """The table ``obs``, with features that stay in the file."""

    key = "X"

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        """Return a column; a missing text is '' in info, and an error in ids and labels."""
        values = text_array(self.columns[name])
        if role == "info" and values.dtype == object:
            values = text_array(["" if value is None else value for value in values.tolist()])
        return values

    def source(self, roles: Roles, request: Request) -> tuple[Source, int, Any, bool]:
        """Return the source of the features and of the other columns."""
        columns = {name: self.column(name, "info", request) for name in roles.info}
        if roles.instance_label is not None:
            columns[INSTANCE_LABELS] = self.column(roles.instance_label, "label", request)
        info = {name: name for name in columns}
        with open_file(self.path) as file:
            array = _array(file, self.key)
            width, dtype = int(array.shape[1]), array.dtype
            sparse = not hasattr(file[self.key], "shape")
            if _SPATIAL in file and self.key != _SPATIAL and "coords" not in columns:
                info["coords"] = _SPATIAL
        held = MemorySource.of(self.path, np.empty((0, 0)), columns)
        stamp = Stamp.of(self.path, self.key if self.path.is_dir() else "")
        return AnnDataSource(stamp, tuple(info.items()), self.key, held), width, dtype, sparse


def scan_anndata(path: Path, request: Request) -> LazyBags:
    """Scan AnnData: only ``obs`` and the names of the features are read."""
    io = import_optional("anndata.io", extra="anndata", purpose="Reading AnnData")
    if request.layer is not None and request.obsm is not None:
        raise_format_error(path, "pass layer= or obsm=, not both.")
    given = request.features if isinstance(request.features, str) else "X"
    key = f"layers/{request.layer}" if request.layer else given
    key = f"obsm/{request.obsm}" if request.obsm else key
    with open_file(path) as file, parsing(path, "AnnData"):
        if not path.is_dir():
            h5_group(path, file)
        if key not in file:
            above = file.get(key.partition("/")[0], file) if "/" in key else file
            raise_format_error(path, f"has no {key!r}; it holds {listed(above) or 'none'}.")
        obs, names = io.read_elem(file["obs"]), None
        if not key.startswith("obsm/"):
            names = [str(name) for name in io.read_elem(file["var"]).index]
        columns = {str(name): _values(obs[name]) for name in obs.columns}
        columns[OBS_NAME] = text_array([str(name) for name in obs.index])
        table = _Observations(path, columns, np.empty((len(obs), 0)), names, first_row=0)
        table.key = key
        return bags_of_table(
            table, request, hint="It is an AnnData file, with observations as instances."
        )


def _values(column: Any) -> NDArray[Any]:
    """Return a column of ``obs`` as numbers or text; a missing text is None."""
    if column.dtype.kind in "biuf":
        return np.asarray(column)
    values = column.astype(object).tolist()
    return text_array([None if value is None or value != value else value for value in values])
