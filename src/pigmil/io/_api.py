"""``read_bags`` and ``write_bags``: the file formats, and how the format of a file is found."""

import importlib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.text import count
from pigmil.bags import Bags, as_bags
from pigmil.io._common import Column, Request, check_readable, listed, raise_format_error
from pigmil.io._h5_file import h5_files
from pigmil.io._label_rows import read_rows
from pigmil.io._label_table import id_text, read_label_table
from pigmil.io._slide_folder import read_folder
from pigmil.io._writing import plain


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
    Format("tsv", "tab-separated text, one row per instance", (".tsv", ".tab"), True, True, "io",
           module="csv", function="tsv"),
    Format("parquet", "Parquet, one row per instance", (".parquet", ".pq"), True, True, "io"),
    Format("parquet_list", "Parquet, one row per bag, lists of instances", (".parquet",), True,
           True, "io", module="parquet", function="lists"),
    Format("arff", "relational ARFF of WEKA", (".arff",), True, function="arff"),
    Format("keel", "KEEL, one row per instance", (".dat",), True, module="arff", function="keel"),
    Format("uci", "UCI / C4.5 .data with a .names file", (".data",), True),
    Format("sparse_mil", "sparse MIL .data: instance,bag,label,index:value,...", (".data",),
           module="sparse", function="sparse_mil"),
    Format("nju", "NJU text: bag, label, instance, label, values", (".txt",)),
    Format("mat", "MATLAB: features, bag_ids, labels (Andrews)", (".mat",)),
    Format("mat_prtools", "MATLAB: a PRTools data set with ident.milbag", (".mat",),
           module="mat", function="prtools"),
    Format("npz", "NumPy arrays in one file, never pickled", (".npz",)),
    Format("h5", "HDF5, one data set or group per bag, or a folder of files",
           (".h5", ".hdf5", ".hdf"), False, True, "io"),
    Format("svmlight", "svmlight / libsvm text with qid as the bag",
           (".svmlight", ".svm", ".libsvm"), module="sparse", function="svmlight"),
)  # fmt: skip
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
            f"no format has the suffix {suffix!r}.",
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


def read_bags(
    path: str | os.PathLike[str],
    format: str | None = None,
    bag: Column = None,
    label: Column = None,
    instance_label: Column = None,
    *,
    info: Sequence[str | int] = (),
    bag_info: Sequence[str | int] = (),
    ids: type | None = None,
    labels: type | str | Mapping[Any, Any] | None = None,
    bag_labels: Any = None,
    dtype: Any = None,
    missing: str = "raise",
    memory_map: bool | str | os.PathLike[str] | None = None,
    **options: Any,
) -> Bags:
    """Read bags from a file in any of the formats used for multiple-instance data.

    The format is detected from the first bytes and the suffix; :func:`formats` lists all formats.
    Nothing in a file is ever run: no pickles, no objects, no links to other files.

    Parameters
    ----------
    path : path
        The file, or a folder with one file of features per bag; see :func:`read_cohort` for
        folders with a table of labels.
    format : str, optional
        Name of the format, if it cannot be detected.
    bag, label, instance_label : str or int, optional
        Columns that hold the bag, its label and the label of the instance, by name or by
        position. The defaults of a table (csv, tsv, parquet) are ``bag``; ``bag_label``,
        ``label`` or ``y``; and ``instance_label``; other formats define these columns. ``False``
        means that there is no such column. All other columns are features.
    info : sequence of str or int, default=()
        Columns kept in ``instance_info`` instead of being features; they may be text.
    bag_info : sequence of str or int, default=()
        Columns kept in ``bag_info``: constant within each bag, such as patient or site.
    ids : type, optional
        ``str`` to keep ids as text, ``int`` to have them as numbers. By default ids in text
        files become whole numbers when all of them are written as such.
    labels : type, mapping or "signs", optional
        By default labels are as in the file, and text that looks like numbers becomes numbers.
        ``str`` keeps text; a mapping maps old values to new ones; ``"signs"`` makes the greater
        of two classes +1 and the other -1, for bags and instances.
    bag_labels : mapping, path or DataFrame, optional
        Label of each bag by id, for files without labels. A table (CSV, TSV, XLSX, Parquet or
        data frame) has a column ``bag``, ``slide_id`` or ``id``, and the column that ``label``
        names, ``label`` by default.
    dtype : float32 or float64, optional
        Type of the values; by default that of the file, float64 for text.
    missing : {"raise", "keep"}, default="raise"
        Whether a missing feature is an error or is kept as NaN, to be imputed later.
    memory_map : path or bool, optional
        Read a table larger than memory: values are written to this ``.npy`` file and mapped
        from it. True for a temporary file that is deleted when the process ends.
    **options
        Options of one format: ``delimiter`` and ``header`` (csv, tsv), ``encoding``
        (text), ``nominal`` (arff, keel), ``names`` (uci), ``n_features``, ``columns`` and
        ``zero_based`` (sparse_mil, svmlight), ``trusted`` (h5), ``layer`` and ``obsm`` (h5ad).

    Returns
    -------
    Bags

    Raises
    ------
    BagFormatError
        If anything is wrong with the file; the message names the file, the place and a remedy.

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
    file = Path(os.fspath(path))
    check_readable(file, folder=True)
    if file.is_dir() and format is None and not is_zarr(file) and not h5_files(file):
        bags = read_folder(file, memory_map=memory_map, **options)
        return (
            bags if bag_labels is None else _labelled(file, bags, bag_labels, str(label or "label"))
        )
    kind = format_named(file, format) if format else detect_format(file)
    if file.is_dir() and kind.name not in ("h5", "h5ad"):
        check_readable(file)
    if missing not in ("raise", "keep"):
        raise_format_error(file, f"missing={missing!r} is not 'raise' or 'keep'.")
    from_table = bag_labels is not None and not isinstance(bag_labels, Mapping)
    request = Request(
        bag=bag,
        label=None if from_table else label,
        instance_label=instance_label,
        info=(info,) if isinstance(info, str) else tuple(info),
        bag_info=(bag_info,) if isinstance(bag_info, str) else tuple(bag_info),
        ids=ids,
        labels=labels,
        dtype=_float_type(file, dtype),
        missing=missing,
        memory_map=memory_map,
    )
    _check_request(file, kind, request)
    read, _ = kind.load()
    _check_options(kind, "read_bags", read, options, taken=2)
    try:
        bags = read(file, request, **options)
    except (MemoryError, RecursionError) as error:
        raise BagFormatError(
            f"{file}: unpacks to more data than fits into memory ({type(error).__name__})."
        ) from error
    except OSError as error:
        if isinstance(error, BagFormatError):
            raise
        raise BagFormatError(f"{file}: cannot be read ({error}).") from error
    return _labelled(file, bags, bag_labels, label)


def write_bags(
    bags: Any,
    path: str | os.PathLike[str],
    format: str | None = None,
    **options: Any,
) -> None:
    """Write bags to a file, atomically.

    Values are kept exactly. Data that a format cannot store (for example instance labels in
    svmlight) is an error unless ``lossy=True``; ids and names that a format without quoting would
    change are always an error. ``npz``, ``parquet`` and ``h5`` store everything. Sparse bags stay
    sparse in ``npz``, ``mat``, ``sparse_mil`` and ``svmlight``; other formats store their zeros.

    Parameters
    ----------
    bags : Bags, or anything that :func:`as_bags` takes
        The bags to write.
    path : path
        The file; its suffix determines the format unless ``format`` is given.
    format : str, optional
        Name of the format, see :func:`formats`.
    **options
        ``lossy``; for tables the names of the columns ``bag``, ``label`` and ``instance_label``;
        for other formats the options of the writer.
    """
    file = Path(os.fspath(path))
    bags = as_bags(bags)
    if file.is_dir():
        raise_format_error(file, "is a folder; give the name of a file in it.")
    if not file.parent.is_dir():
        raise_format_error(file, f"there is no folder {file.parent}; create it first.")
    kind = format_named(file, format) if format else format_to_write(file, sparse=bags.is_sparse)
    if len(set(plain(file, bags.ids, "ids").tolist())) < bags.n_bags:
        raise_format_error(
            file,
            "some ids occur more than once (resampled bags?); a file needs unique ids.",
            hint="Create new ids: Bags(bags.instances, bags.offsets, y=bags.y).",
        )
    _, write = kind.load()
    _check_options(kind, "write_bags", write, options, taken=2)
    write(bags, file, **options)


def _float_type(path: Path, dtype: Any) -> Any:
    if dtype is None:
        return None
    try:
        parsed = np.dtype(dtype)
    except TypeError:
        parsed = None
    if parsed not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise_format_error(path, f"dtype={dtype!r} is not float32 or float64.")
    return parsed


def _check_request(path: Path, kind: Format, request: Request) -> None:
    """Raise an error for options that a format does not support."""
    if request.memory_map and not kind.streams:
        raise_format_error(
            path,
            f"memory_map= is not available for the format {kind.name!r}.",
            hint="Convert the file to parquet first.",
        )
    asked = {
        "bag": request.bag,
        "label": request.label,
        "instance_label": request.instance_label,
        "info": request.info or None,
        "bag_info": request.bag_info or None,
    }
    given = [name for name, value in asked.items() if value is not None]
    if given and not kind.columns:
        raise_format_error(
            path, f"{listed(given)}: the format {kind.name!r} has no columns to name."
        )


def _check_options(
    kind: Format, caller: str, function: Any, options: Mapping[str, Any], *, taken: int
) -> None:
    known = list(inspect.signature(function).parameters)[taken:]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(
            f"{caller} got {listed(unknown)}, which the format {kind.name!r} does not take; "
            f"it takes {listed(known) or 'no options of its own'}."
        )


def _labelled(path: Path, bags: Bags, given: Any, label: Column) -> Bags:
    """Return bags with the labels of a mapping or of a table, if one is given."""
    if given is None:
        return bags
    ids = bags.ids.tolist()
    if isinstance(given, Mapping):
        table = given
    else:
        rows = read_rows([read_label_table(given)], label=str(label or "label"))
        y = rows.labels(range(len(rows.ids)))
        by_id = dict(zip(rows.ids, y, strict=True))
        table = {one: by_id[id_text(one)] for one in ids if id_text(one) in by_id}
    absent = [one for one in ids if one not in table]
    if absent:
        raise_format_error(
            path, f"bag_labels has no label for {count(len(absent), 'bag')}: {listed(absent, 5)}."
        )
    return bags.with_labels(np.array([table[one] for one in ids]))


def is_zarr(path: Any) -> bool:
    """Return whether a folder is a zarr store, by its name."""
    return str(path).rstrip("/\\").lower().endswith(".zarr")
