"""The table of file formats, and ``scan_bags`` and ``read_bags``, the entry to all of them."""

import importlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.text import listed
from pigmil.bags import Bags, LazyBags, concatenate_lazy
from pigmil.bags._columns import Column, as_names
from pigmil.io._defence import check_readable, parsing, raise_format_error, scan_isolated


class Request(SimpleNamespace):
    """All parameters of :func:`scan_bags` by name, as every format gets them."""

    def changed(self, **changes: Any) -> "Request":
        """Return a copy with other values."""
        return Request(**(vars(self) | changes))


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name : str
        The value of ``format=``.
    title : str
        Short description.
    suffixes : tuple of str
        Endings of file names, the usual one first.
    scan : str
        Module and name of the function ``scan(path, request) -> LazyBags``.
    write : str
        Module and name of the function ``write(bags, path)``; empty if it is read only.
    columns : bool
        Whether ``bag=``, ``label=``, ``instance_label=``, ``info=`` and ``bag_info=`` name columns.
    extra : str
        The extra of ``pigmil`` that it needs; empty for none.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    scan: str
    write: str = ""
    columns: bool = False
    extra: str = ""

    def load(self, purpose: str) -> Callable[..., Any]:
        """Import the function that scans or writes it."""
        module, _, name = getattr(self, purpose).partition(":")
        function: Callable[..., Any] = getattr(importlib.import_module(f"pigmil.io.{module}"), name)
        return function


_ALL = (
    Format("csv", "delimited text, one row per instance", (".csv", ".tsv", ".tab"),
           "_text:scan_csv", "_write:write_csv", True, "io"),
    Format("parquet", "Parquet, one row per instance", (".parquet", ".pq"),
           "_tables:scan_table", "_write:write_parquet", True, "io"),
    Format("arrow", "Arrow or Feather, one row per instance", (".arrow", ".feather"),
           "_tables:scan_table", columns=True, extra="io"),
    Format("xlsx", "Excel, one row per instance", (".xlsx",), "_tables:scan_xlsx",
           columns=True, extra="io"),
    Format("arff", "ARFF, one row per bag (relational) or instance", (".arff",),
           "_tables:scan_arff", columns=True),
    Format("svmlight", "svmlight / libsvm text with qid as the bag",
           (".svmlight", ".svm", ".libsvm"), "_tables:scan_svmlight"),
    Format("npz", "NumPy arrays in one file, never pickled", (".npz",), "_arrays:scan_npz",
           "_write:write_npz"),
    Format("npy", "NumPy array, one bag per file", (".npy",), "_arrays:scan_file"),
    Format("h5", "HDF5, one data set or group per bag", (".h5", ".hdf5", ".hdf"),
           "_arrays:scan_file", "_write:write_h5", True, "io"),
    Format("h5ad", "AnnData, bag and label as columns of obs", (".h5ad", ".zarr"),
           "_arrays:scan_anndata", columns=True, extra="anndata"),
    Format("pt", "PyTorch tensor, one bag per file", (".pt", ".pth"), "_arrays:scan_file"),
    Format("mat", "MATLAB: features, bag_ids, labels", (".mat",), "_saved_arrays:scan_mat"),
    Format("folder", "folder with one file of features per bag", (), "_arrays:scan_folder"),
)  # fmt: skip
FORMATS = {entry.name: entry for entry in _ALL}
_TABLES = (*FORMATS["parquet"].suffixes, *FORMATS["arrow"].suffixes)
_MAGIC = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x89HDF\r\n\x1a\n": "h5",
    b"MATLAB ": "mat",
    b"\x93NUMPY": "npy",
    b"\x1f\x8b": "csv",  # gzip
}


def formats() -> dict[str, Format]:
    """Return every format by name.

    Examples
    --------
    >>> from pigmil.io import formats
    >>> [name for name, entry in formats().items() if entry.write]
    ['csv', 'parquet', 'npz', 'h5']
    """
    return dict(FORMATS)


def format_named(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise BagFormatError(
            f"format={name!r} is not known; the formats are {listed(FORMATS, 20)}.",
            parameter="format",
        )
    return FORMATS[name]


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file or folder, from its suffix and then from its content.

    Parameters
    ----------
    path : path
        A file or folder.
    """
    path = Path(os.fspath(path))
    check_readable(path, folder=True)
    if path.is_dir():
        if any((path / name).exists() for name in ("zarr.json", ".zgroup", ".zattrs")):
            return FORMATS["h5ad"]
        return FORMATS["parquet" if table_files(path) else "folder"]
    named = by_suffix(path.name)
    if named is not None:
        return named
    with path.open("rb") as file:
        start = file.read(1 << 16)
    for magic, name in _MAGIC.items():
        if start.startswith(magic):
            return FORMATS[name]
    if start.startswith(b"PK\x03\x04"):
        return FORMATS["xlsx" if b"[Content_Types].xml" in start else "npz"]
    text = start.decode("utf-8", "replace").lstrip("\ufeff")
    first = next((line for line in text.splitlines() if line.strip(" \t%")), "")
    if re.search(r"^\s*@relation", text, re.IGNORECASE | re.MULTILINE):
        return FORMATS["arff"]
    if re.match(r"\S+\s+qid:\d+", first):
        return FORMATS["svmlight"]
    if re.search(r"[,;\t|]", first) and "\0" not in text:
        return FORMATS["csv"]
    raise_format_error(
        path,
        "its format cannot be detected from the suffix or the content.",
        hint=f"Pass format=, one of {listed(FORMATS, 20)}; old benchmark files (KEEL, UCI .data, "
        "NJU text) are read by pigmil.datasets.read_original.",
    )


def by_suffix(name: str) -> Format | None:
    """Return the format that a file name ends with."""
    name = name.lower().removesuffix(".gz")
    return next((entry for entry in _ALL if name.endswith(entry.suffixes)), None)


def table_files(folder: Path) -> list[Path]:
    """Return the Parquet and Arrow files of a folder: in it or, if there are none, below it."""
    for files in (folder.iterdir(), folder.rglob("*")):
        found = [file for file in sorted(files) if file.name.lower().endswith(_TABLES)]
        if found:
            return [file for file in found if not file.name.startswith((".", "_"))]
    return []


def scan_bags(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    format: str | None = None,
    bag: Column = None,
    label: Column = None,
    instance_label: Column = None,
    features: str | Sequence[str] | None = None,
    info: str | Sequence[str | int] = (),
    bag_info: str | Sequence[str | int] = (),
    labels: Any = None,
    id: str | None = None,
    group: str | None = None,
    level: str = "slide",
    missing: str = "raise",
    missing_values: str = "raise",
    empty: str = "raise",
    splits: Any = None,
    ids: type | None = None,
    dtype: Any = None,
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8",
    obsm: str | None = None,
    layer: str | None = None,
    header: bool = True,
    isolated: bool = False,
) -> LazyBags:
    """Open bags in files of any format without reading more of their instances than needed.

    Ids, labels and sizes are known at once; instances of Parquet, HDF5 and NumPy files and of
    tensors stay on disk until a method reads them block by block, those of other formats are in
    memory. Nothing in a file is ever run: no pickles, no objects, no links to other files.

    Parameters
    ----------
    paths : path or sequence of paths
        A file, a folder with one file of features per bag (as TRIDENT, CLAM, STAMP, slideflow and
        torchmil write them), a folder of Parquet files, also with folders ``name=value`` inside,
        or several of these with the same features. Bags of the same id are joined.
    format : str, optional
        Name of the format (:func:`formats`), if it cannot be detected from suffix and content.
    bag, label, instance_label : str or int, optional
        Columns that hold the bag, its label and the label of the instance, by name or by
        position. The defaults are ``bag`` or ``slide_id``; ``bag_label``, ``label`` or ``y``; and
        ``instance_label``. ``False`` means that there is no such column. All other columns are
        features. Where ``labels`` is given, ``label`` names its column.
    features : str or sequence of str, optional
        The feature columns, or the column of lists; the data set of HDF5 files.
    info : sequence of str or int, default=()
        Columns kept in ``instance_info`` instead of being features; they may be text.
    bag_info : sequence of str or int, default=()
        Columns kept in ``bag_info``: constant within each bag, such as patient or site.
    labels : mapping of id to label, path of a table, DataFrame, or sequence of tables, optional
        Labels of the bags: a table has one row per bag, as CSV, TSV, XLSX, Parquet or data frame;
        its other columns become ``bag_info``. A second table is joined by the column they share.
    id : str, optional
        Column of ``labels`` with the name of the bag, with or without the suffix of its file.
    group : str, optional
        Column of ``labels`` with the patient; needed for ``level="patient"`` unless it has one of
        the usual names.
    level : {"slide", "patient"}, default="slide"
        A bag is a slide, or all slides of a patient.
    missing : {"raise", "drop"}, default="raise"
        Whether bags without features, without a row in ``labels`` or without a label are an error
        that lists them, or are left out with a warning.
    missing_values : {"raise", "keep"}, default="raise"
        Whether a missing feature is an error or is kept as NaN, to be imputed later.
    empty : {"raise", "drop"}, default="raise"
        Whether bags without instances (slides without tissue) are an error or are left out.
    splits : path, DataFrame, or sequence of these, optional
        Files ``splits_0.csv`` of CLAM or ``splits.csv`` of torchmil; they become
        ``bag_info["split"]``, or one column per file.
    ids : type, optional
        ``str`` to keep the ids of text, Excel and ARFF files as text. By default they become whole
        numbers when all of them are written as such.
    dtype : float32 or float64, optional
        Type of the values; by default that of the file, float64 for text.
    delimiter, decimal : str, optional
        Of delimited text; by default both are detected.
    encoding : str, default="utf-8"
        Of text.
    obsm, layer : str, optional
        Where AnnData holds the features, if not in ``X``.
    header : bool, default=True
        Whether the first row of delimited text names the columns; without it they are named by
        their positions.
    isolated : bool, default=False
        Read the files, whole, in a child process with limits on memory and time: for files of
        unknown origin.

    Returns
    -------
    LazyBags

    Raises
    ------
    BagFormatError
        If anything is wrong with the files; the message names the file, the place and a remedy.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pigmil import scan_bags, write_bags
    >>> from pigmil.datasets import make_ring
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ring.parquet"
    >>> write_bags(make_ring(random_state=0), file)
    >>> lazy = scan_bags(file)
    >>> lazy.n_bags, lazy.n_instances, lazy[:2].load().n_bags
    (40, 320, 2)
    """
    parameters = locals()  # all of them, by name
    del parameters["paths"]
    parameters |= {"info": as_names(info), "bag_info": as_names(bag_info)}
    parameters["dtype"] = None if dtype is None else np.dtype(dtype)
    request = Request(**parameters)
    _check_request(request)
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not given:
        raise BagFormatError("There are no paths to scan.")
    full = [Path(os.path.abspath(path)) for path in given]
    if isolated:
        return scan_isolated(full, request)
    return scan_paths(full, request)


def scan_paths(paths: Sequence[Path], request: Request) -> LazyBags:
    """Scan files with a request that was checked."""
    # A separate table of labels has the column that label= names.
    inside = request if request.labels is None else request.changed(label=None)
    lazy = concatenate_lazy([_scan_path(path, inside) for path in paths])
    lazy = lazy._replace(missing=request.missing_values, dtype=request.dtype or lazy.dtype)
    from pigmil.io._labels import join_labels

    return join_labels(lazy, request)


def _scan_path(path: Path, request: Request) -> LazyBags:
    check_readable(path, folder=True)
    found = format_named(request.format) if request.format else detect_format(path)
    asked = ("bag", "label", "instance_label", "info", "bag_info")
    given = [name for name in asked if getattr(request, name) not in (None, (), False)]
    if given and not found.columns:
        raise_format_error(
            path, f"{listed(given)}: the format {found.name!r} has no columns to name."
        )
    with parsing(path, found.name, quiet=False):
        lazy: LazyBags = found.load("scan")(path, request)
    return lazy


def read_bags(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], **parameters: Any
) -> Bags:
    """Read bags from files of any format into memory: ``scan_bags(paths, ...).load()``.

    Parameters
    ----------
    paths : path or sequence of paths
        The files or folders.
    **parameters
        Those of :func:`scan_bags`.

    Returns
    -------
    Bags

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from pigmil import Bags, read_bags, write_bags
    >>> bags = Bags.from_list([np.zeros((2, 3)), np.ones((1, 3))], ids=["a", "b"], y=[0, 1])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.npz"
    >>> write_bags(bags, file)
    >>> read_bags(file)
    Bags(2 bags, 3 instances, 3 features, float64, labels 0: 1, 1: 1)
    """
    return scan_bags(paths, **parameters).load()


def _check_request(request: Request) -> None:
    for name, allowed in (
        ("level", ("slide", "patient")),
        ("missing", ("raise", "drop")),
        ("missing_values", ("raise", "keep")),
        ("empty", ("raise", "drop")),
        ("ids", (None, str)),
    ):
        value = getattr(request, name)
        if value not in allowed:
            raise BagFormatError(
                f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}.", parameter=name
            )
    if request.dtype is not None and request.dtype not in (np.float32, np.float64):
        raise BagFormatError(
            f"dtype={str(request.dtype)!r} is not float32 or float64.", parameter="dtype"
        )
