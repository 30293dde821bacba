"""The formats: names, suffixes, what they take, and how a file's format is told."""

import importlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pigmil.io.common import listed, raise_format_error

_TEXT_FORMATS = ("csv", "tsv", "arff", "keel", "uci", "sparse_mil", "nju", "svmlight")


@dataclass(frozen=True)
class Format:
    """One file format: its name, what it is, its suffixes and what its reader takes.

    Attributes
    ----------
    name : str
        What ``format=`` calls it.
    title : str
        What it is, in a line.
    suffixes : tuple of str
        Endings of file names that mean it, the usual one first.
    columns : bool
        Whether ``bag=``, ``label=``, ``instance_label=`` and ``info=`` name columns of it.
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

    def load(self) -> Any:
        """Import the module that reads and writes it."""
        return importlib.import_module(f"pigmil.io.{self.module or self.name}")


_ALL = (
    Format(
        "csv", "comma-separated text, one row an instance", (".csv",), True, True, "io", "delimited"
    ),
    Format("tsv", "tab-separated text, one row an instance", (".tsv", ".tab"), True, True, "io"),
    Format("parquet", "Parquet, one row an instance", (".parquet", ".pq"), True, True, "io"),
    Format(
        "parquet_list",
        "Parquet, one row a bag, lists of instances",
        (".parquet",),
        True,
        True,
        "io",
    ),
    Format("arff", "relational ARFF of WEKA", (".arff",), True),
    Format("keel", "KEEL, one row an instance", (".dat",), True),
    Format("uci", "UCI / C4.5 .data with .names beside it", (".data",), True),
    Format("sparse_mil", "sparse MIL .data: instance,bag,label,index:value,...", (".data",)),
    Format("nju", "NJU text: bag, label, instance, label, values", (".txt",)),
    Format("mat", "MATLAB: features, bag_ids, labels (Andrews)", (".mat",)),
    Format(
        "mat_prtools",
        "MATLAB: a PRTools data set with ident.milbag",
        (".mat",),
        module="mat_prtools",
    ),
    Format("npz", "NumPy arrays in one file, never pickled", (".npz",)),
    Format(
        "h5",
        "HDF5, one data set or group a bag, or a folder of files",
        (".h5", ".hdf5", ".hdf"),
        False,
        True,
        "io",
    ),
    Format(
        "svmlight", "svmlight / libsvm text with qid as the bag", (".svmlight", ".svm", ".libsvm")
    ),
)
FORMATS = {one.name: one for one in _ALL}


def formats() -> dict[str, Format]:
    """Return every format that can be read and written, by name.

    Examples
    --------
    >>> from pigmil.io import formats
    >>> formats()["keel"].suffixes
    ('.dat',)
    >>> [name for name, one in formats().items() if one.streams]
    ['csv', 'tsv', 'parquet', 'parquet_list', 'h5']
    """
    return dict(FORMATS)


def named(path: Path, name: str) -> Format:
    """Format of this name."""
    if name not in FORMATS:
        raise_format_error(
            path, f"format={name!r} is not known; the formats are {listed(FORMATS, 20)}."
        )
    return FORMATS[name]


def format_to_write(path: Path, *, sparse: bool) -> Format:
    """Format that the suffix stands for."""
    suffix = path.suffix.lower()
    found = [one for one in _ALL if suffix in one.suffixes]
    if not found:
        raise_format_error(
            path,
            f"the suffix {suffix!r} stands for no format.",
            hint=f"Pass format=, one of {listed(FORMATS, 20)}.",
        )
    if suffix == ".data" and sparse:
        return FORMATS["sparse_mil"]
    return found[0]


def sniff(path: Path) -> Format:
    """Tell the format of a file from its first bytes and its suffix."""
    if path.is_dir():
        return FORMATS["h5"]
    with path.open("rb") as file:
        start = file.read(1 << 16)
    binary = _by_magic(path, start)
    if binary:
        return FORMATS[binary]
    suffix = path.suffix.lower()
    by_suffix = [one for one in _ALL if suffix in one.suffixes]
    if by_suffix and by_suffix[0].name in ("parquet", "npz", "h5", "mat"):
        # Old MATLAB 4 files have no mark of their own; the others do, so this one is damaged.
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
            "its format cannot be told from the suffix or the first lines.",
            hint=f"Pass format=, one of {listed(FORMATS, 20)}.",
        )
    return by_suffix[0]


def _by_magic(path: Path, start: bytes) -> str | None:
    if start[:4] == b"PAR1":
        return "parquet"
    if start[:8] == b"\x89HDF\r\n\x1a\n":
        return "h5"
    if start[:4] == b"PK\x03\x04":
        return "npz"
    if start[:10] == b"MATLAB 5.0":
        return "mat"
    if start[:10] == b"MATLAB 7.3":
        raise_format_error(
            path, "is a MATLAB 7.3 file.", hint="Save it in MATLAB with save(..., '-v7')."
        )
    return None


def _by_content(text: str) -> str | None:
    """Name of a text format that the first lines look like."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    body = [line for line in lines if not line.startswith(("%", "#"))]
    if not body:
        return None
    first = body[0]
    if first.lower().startswith("@"):
        relational = re.search(r"(?im)^\s*@attribute\s.*\srelational\s*$", text)
        return "arff" if relational else "keel"
    if re.match(r"\S+\s+qid:\d+", first):
        return "svmlight"
    cells = first.split(",")
    if len(cells) > 3 and re.fullmatch(r"\s*\d+:\S+\s*", cells[3]):
        return "sparse_mil"
    if len(cells) > 2:
        return "uci" if re.fullmatch(r".*[0-9]\.?", cells[-1]) else None
    if len(first.split()) > 4 and all(re.fullmatch(r"[-+.0-9eE]+", v) for v in first.split()[4:]):
        return "nju"
    return None
