"""The file formats: names, suffixes, capabilities, and detection of a file's format."""

import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pigmil.bags import Bags
from pigmil.io._common import check_readable, listed, raise_format_error


@dataclass(frozen=True)
class Format:
    """A file format: its name, suffixes and what its reader supports.

    Attributes
    ----------
    name : str
        The value of ``format=``.
    title : str
        Short description.
    suffixes : tuple of str
        Endings of file names, the usual one first.
    columns : bool
        Whether ``bag=``, ``label=``, ``instance_label=``, ``info=`` and ``bag_info=`` name columns.
    streams : bool
        Whether it can be read into a memory-mapped file (``memory_map=``).
    extra : str or None
        The extra of ``pigmil`` it needs.
    """

    name: str
    title: str
    suffixes: tuple[str, ...]
    columns: bool = False
    streams: bool = False
    extra: str | None = None
    module: str = ""
    function: str = ""  # ending of its functions where a module serves several formats

    def load(self) -> tuple[Callable[..., Bags], Callable[..., None]]:
        """Import the functions that read and write it."""
        module = importlib.import_module(f"pigmil.io._{self.module or self.name}")
        ending = f"_{self.function}" if self.function else ""
        return getattr(module, f"read{ending}"), getattr(module, f"write{ending}")


_ALL = (
    Format("csv", "comma-separated text, one row per instance", (".csv",), True, True, "io"),
    Format(
        "tsv",
        "tab-separated text, one row per instance",
        (".tsv", ".tab"),
        True,
        True,
        "io",
        "csv",
        "tsv",
    ),
    Format("parquet", "Parquet, one row per instance", (".parquet", ".pq"), True, True, "io"),
    Format(
        "parquet_list",
        "Parquet, one row per bag, lists of instances",
        (".parquet",),
        True,
        True,
        "io",
        "parquet",
        "lists",
    ),
    Format("arff", "relational ARFF of WEKA", (".arff",), True, function="arff"),
    Format("keel", "KEEL, one row per instance", (".dat",), True, module="arff", function="keel"),
    Format("uci", "UCI / C4.5 .data with a .names file", (".data",), True),
    Format(
        "sparse_mil",
        "sparse MIL .data: instance,bag,label,index:value,...",
        (".data",),
        module="sparse",
        function="sparse_mil",
    ),
    Format("nju", "NJU text: bag, label, instance, label, values", (".txt",)),
    Format("mat", "MATLAB: features, bag_ids, labels (Andrews)", (".mat",)),
    Format(
        "mat_prtools",
        "MATLAB: a PRTools data set with ident.milbag",
        (".mat",),
        module="mat",
        function="prtools",
    ),
    Format("npz", "NumPy arrays in one file, never pickled", (".npz",)),
    Format(
        "h5",
        "HDF5, one data set or group per bag, or a folder of files",
        (".h5", ".hdf5", ".hdf"),
        False,
        True,
        "io",
    ),
    Format(
        "svmlight",
        "svmlight / libsvm text with qid as the bag",
        (".svmlight", ".svm", ".libsvm"),
        module="sparse",
        function="svmlight",
    ),
)
# Formats that are read and not written.
_READ_ONLY = (
    Format("xlsx", "XLSX workbook, one row per instance", (".xlsx",), True, extra="io"),
    Format("h5ad", "AnnData, bag and label as columns of obs", (".h5ad", ".zarr"), True,
           extra="anndata"),
)  # fmt: skip
FORMATS = {one.name: one for one in _ALL}
_READABLE = FORMATS | {one.name: one for one in _READ_ONLY}


def formats() -> dict[str, Format]:
    """Return every format that can be read and written, by name.

    XLSX (``format="xlsx"``) and AnnData (``format="h5ad"``) are read only.

    Examples
    --------
    >>> from pigmil.io import formats
    >>> formats()["keel"].suffixes
    ('.dat',)
    >>> [name for name, one in formats().items() if one.streams]
    ['csv', 'tsv', 'parquet', 'parquet_list', 'h5']
    """
    return dict(FORMATS)


def format_named(path: Path, name: str) -> Format:
    """Return the format of this name."""
    if name not in _READABLE:
        raise_format_error(
            path, f"format={name!r} is not known; the formats are {listed(_READABLE, 20)}."
        )
    return _READABLE[name]


def format_to_write(path: Path, *, sparse: bool) -> Format:
    """Return the format of a suffix."""
    suffix = path.suffix.lower()
    candidates = [one for one in (*_ALL, *_READ_ONLY) if suffix in one.suffixes]
    if not candidates:
        raise_format_error(
            path,
            f"the suffix {suffix!r} belongs to no format.",
            hint=f"Pass format=, one of {listed(FORMATS, 20)}.",
        )
    if suffix == ".data" and sparse:
        return FORMATS["sparse_mil"]
    return candidates[0]


def detect_format(path: str | os.PathLike[str]) -> Format:
    """Return the format of a file, from its first bytes and its suffix.

    Parameters
    ----------
    path : path
        A file, or a folder of ``.h5`` files.
    """
    path = Path(os.fspath(path))
    check_readable(path, folder=True)
    suffix = path.suffix.lower()
    if suffix in (".xlsx", ".h5ad", ".zarr"):
        return _READABLE["xlsx" if suffix == ".xlsx" else "h5ad"]
    if path.is_dir():
        return FORMATS["h5"]
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if start[:2] == b"\x1f\x8b":
        return FORMATS["tsv" if path.stem.lower().endswith((".tsv", ".tab")) else "csv"]
    binary = _by_magic(start)
    if binary:
        return FORMATS[binary]
    by_suffix = [one for one in _ALL if suffix in one.suffixes]
    if by_suffix and by_suffix[0].name in ("parquet", "npz", "h5", "mat"):
        # MATLAB 4 files have no signature; the other formats do, so this file is damaged.
        return by_suffix[0]
    text = start.decode("utf-8", "replace").lstrip("\ufeff")
    by_content = _by_content(text)
    if suffix in (".data", ".dat", ".txt") or not by_suffix:
        if by_content:
            return FORMATS[by_content]
        if by_suffix and suffix != ".dat":
            return by_suffix[0]
        raise_format_error(
            path,
            "its format cannot be detected from the suffix or the first lines.",
            hint=f"Pass format=, one of {listed(FORMATS, 20)}.",
        )
    return by_suffix[0]


def _by_magic(start: bytes) -> str | None:
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:8] == b"\x89HDF\r\n\x1a\n":
        return "h5"
    if start[:4] == b"PK\x03\x04":
        return "npz"
    if start[:10] in (b"MATLAB 5.0", b"MATLAB 7.3"):
        return "mat"
    return None


def _by_content(text: str) -> str | None:
    """Return the text format that the first lines look like."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    body = [line for line in lines if not line.startswith(("%", "#"))]
    if not body:
        return None
    first = body[0]
    if first.lower().startswith("@"):
        declared = [line.lower().split() for line in body if line.startswith("@")]
        relational = any(
            words[0] == "@attribute" and words[-1] == "relational" for words in declared
        )
        return "arff" if relational else "keel"
    if re.match(r"\S+\s+qid:\d+", first):
        return "svmlight"
    cells = first.split(",")
    if len(cells) > 3 and re.fullmatch(r"\s*\d+:\S+\s*", cells[3]):
        return "sparse_mil"
    if len(cells) > 2:
        last = cells[-1].removesuffix(".")[-1:]
        return "uci" if last.isascii() and last.isdigit() else None
    if len(first.split()) > 4 and all(re.fullmatch(r"[-+.0-9eE]+", v) for v in first.split()[4:]):
        return "nju"
    return None
