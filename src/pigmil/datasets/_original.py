"""Files in which the authors of old benchmark sets published them, in formats of their own."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.text import listed
from pigmil.bags import Bags
from pigmil.io import read_bags
from pigmil.io._defence import check_readable, parsing, raise_format_error
from pigmil.io._text import decode_rows, open_text

_MISSING = ("", "?", "<null>")


def read_original(path: str | os.PathLike[str]) -> Bags:
    r"""Read a benchmark file as its authors published it.

    Detected by content: KEEL (``.dat``), the text of the NJU newsgroups, UCI / C4.5 ``.data`` with
    its ``.names``, sparse MIL ``.data`` (``instance,bag,label,index:value,...``), and MATLAB files
    of Andrews (features, bag_ids, labels) or with a PRTools data set. To keep one of them, write
    it with :func:`pigmil.write_bags`.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    Bags
        Ids and labels as in the file; sparse where the file is.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "bags.txt"
    >>> _ = file.write_text("7 1 i1 1 0.5 2\n7 1 i2 0 1.5 3\n8 0 i1 0 2.5 4\n")
    >>> read_original(file)
    Bags(2 bags, 3 instances, 2 features, float64, labels 0: 1, 1: 1)
    """
    file = Path(os.fspath(path))
    check_readable(file)
    with file.open("rb") as opened:
        start = opened.read(1 << 16)
    if start.startswith(b"MATLAB") or file.suffix.lower() == ".mat":
        return _read_mat(file)
    lines = [line.strip() for line in start.decode("utf-8", "replace").splitlines()]
    body = [line for line in lines if line and not line.startswith(("%", "#"))]
    cells = body[0].split(",") if body else []
    if body and body[0].startswith("@"):
        return _read_keel(file)
    if len(cells) > 3 and re.fullmatch(r"\s*\d+:\S+\s*", cells[3]):
        return _read_sparse_mil(file)
    if len(cells) > 2:
        return _read_uci(file)
    if body and len(body[0].split()) > 4:
        return _read_nju(file)
    hint = "Other formats are read by pigmil.read_bags."
    raise_format_error(file, "is none of the formats of old benchmark files.", hint=hint)


def _numbered_lines(path: Path, comment: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are neither blank nor comments."""
    with open_text(path, "utf-8") as text:
        for number, line in enumerate(text, start=1):
            if line.strip() and not line.startswith(tuple(comment)):
                yield number, line.strip()


class _Rows:
    """Rows of as many cells each, by line, and the bags that they make."""

    def __init__(
        self, path: Path, rows: Iterable[tuple[int, list[str]]], width: int | None = None
    ) -> None:
        self.path = path
        self.cells: list[list[str]] = []
        for number, cells in rows:
            self.cells.append(cells)
            width = len(cells) if width is None else width
            if len(cells) != width:
                problem = f"expected {width} values, got {len(cells)}."
                hint = "The line may be cut short."
                raise_format_error(path, problem, where=f"line {number}", hint=hint)
        if not self.cells:
            raise_format_error(path, "holds no instances.", hint="It may be cut short.")

    def column(self, place: int, role: str) -> NDArray[Any]:
        """Return a column as ids, labels or info."""
        values = (row[place] for row in self.cells)
        return decode_rows([None if value in _MISSING else value for value in values], role)

    def bags(
        self,
        bag: int,
        label: int,
        features: Sequence[int],
        names: Sequence[str] | None = None,
        instance_label: int | None = None,
        info: dict[str, int] | None = None,
    ) -> Bags:
        """Return the bags; arguments are the places of columns. A missing number is NaN."""
        inner = None if instance_label is None else self.column(instance_label, "info")
        if inner is not None and inner.dtype.kind == "f" and np.isnan(inner).all():
            inner = None
        with parsing(self.path, "bags"):
            cells = ([row[place] for place in features] for row in self.cells)
            return Bags.from_flat(
                np.array([[float("nan" if x in _MISSING else x) for x in row] for row in cells]),
                self.column(bag, "id"),
                self.column(label, "label"),
                inner,
                feature_names=names,
                instance_info={name: self.column(at, "info") for name, at in (info or {}).items()},
            )


def _split_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]


def _read_keel(path: Path) -> Bags:
    """Read KEEL: the first attribute is the bag, the one of ``@outputs``, else the last, the label.

    Features that are words are refused: the published sets have one column per value instead.
    """
    names, output = list[str](), ""
    lines = _numbered_lines(path, "%")
    for number, line in lines:
        keyword, _, rest = line.partition(" ")
        if keyword.lower() == "@data":
            break
        if keyword.lower() == "@attribute":
            found = re.match(r"\s*(?:'([^']+)'|([^\s{\[]+))", rest)
            if found is None:
                raise_format_error(path, "names no attribute.", where=f"line {number}")
            names.append(found[1] or found[2])
        elif keyword.lower() in ("@output", "@outputs"):
            output = rest.split(",")[0].strip()
    rows = _Rows(path, ((number, _split_cells(line)) for number, line in lines), len(names))
    label = names.index(output) if output in names else len(names) - 1
    features = [place for place in range(1, len(names)) if place != label]
    return rows.bags(0, label, features, [names[place] for place in features])


def _read_nju(path: Path) -> Bags:
    """Read whitespace-separated columns: bag, bag label, instance, instance label, values."""
    lines = _numbered_lines(path, "%")
    rows = _Rows(path, ((number, line.split()) for number, line in lines))
    features = range(4, len(rows.cells[0]))
    return rows.bags(0, 1, features, instance_label=3, info={"instance": 2})


def _read_uci(path: Path) -> Bags:
    """Read UCI / C4.5: the first column is the bag, the last the label, words are kept as info."""
    lines = ((number, line.split("|", 1)[0].strip()) for number, line in _numbered_lines(path, "|"))
    cells = ((number, _split_cells(line.removesuffix("."))) for number, line in lines)
    beside = path.with_suffix(".names")
    if beside.is_file():
        lines = ((number, line.split("|", 1)[0]) for number, line in _numbered_lines(beside, "|"))
        declared = [line.partition(":") for _, line in lines if ":" in line]
        rows = _Rows(path, cells, len(declared) + 1)
        names = [name.strip() for name, _, _ in declared]
        numeric = [kind.strip().lower().startswith("continuous") for _, _, kind in declared]
    else:
        rows = _Rows(path, cells)
        numeric = [re.fullmatch(r"[-+.0-9eE]+", cell) is not None for cell in rows.cells[0][:-1]]
        names = [str(place) for place in range(len(numeric))]
    features = [place for place in range(1, len(names)) if numeric[place]]
    info = {names[place]: place for place in range(1, len(names)) if not numeric[place]}
    feature_names = [names[place] for place in features] if beside.is_file() else None
    return rows.bags(0, len(names), features, feature_names, info=info)


def _read_sparse_mil(path: Path) -> Bags:
    """Read ``instance,bag,label,index:value,...``, indices from 1; the instances are sparse."""
    lines = [(number, _split_cells(line)) for number, line in _numbered_lines(path, "%#")]
    rows = _Rows(path, ((number, cells[:3]) for number, cells in lines))
    columns, values, ends = list[int](), list[float](), [0]
    with parsing(path, "lines of index:value pairs"):
        for _, cells in lines:
            pairs = [cell.split(":") for cell in cells[3:] if cell]
            columns += [int(index) - 1 for index, _ in pairs]
            values += [float(value) for _, value in pairs]
            ends.append(len(values))
        shape = (len(rows.cells), max(columns, default=0) + 1)
        instances = sp.csr_array((values, columns, ends), shape=shape)
        return Bags.from_flat(instances, rows.column(1, "id"), rows.column(2, "label"))


def _read_mat(path: Path) -> Bags:
    """Read the layout of Andrews, or the one variable that is a PRTools data set.

    Labels of a PRTools set belong to instances. Where they do not vary inside any bag they are the
    labels of the bags; where they do, they stay labels of instances, and a bag gets the last class
    (in the order of ``lablist``) that occurs in it: positive if any instance is.
    """
    with parsing(path, "a MATLAB file"):
        variables = scipy.io.loadmat(str(path), simplify_cells=True)
    if "bag_ids" in variables:
        return read_bags(path, format="mat")
    fields = {"data", "nlab", "ident", "lablist"}
    sets = [value for value in variables.values() if isinstance(value, dict) and fields <= {*value}]
    if len(sets) != 1 or "milbag" not in sets[0]["ident"]:
        names = listed(name for name in variables if not name.startswith("__"))
        raise_format_error(path, f"contains no bags in a known layout; its variables are {names}.")
    with parsing(path, "a PRTools data set"):
        record = sets[0]
        bag = _whole(record["ident"]["milbag"])
        codes = np.ravel(record["nlab"]).astype(np.int64) - 1
        y, inner = None, record["ident"].get("instance_label")
        if (codes >= 0).any():
            classes = _whole(record["lablist"])
            _, position = np.unique(bag, return_inverse=True)
            highest = np.zeros(position.max() + 1, dtype=np.int64)
            np.maximum.at(highest, position, codes)
            y = classes[highest[position]]
            if inner is None and (highest[position] != codes).any():
                inner = classes[codes]
        return Bags.from_flat(record["data"], bag, y, None if inner is None else _whole(inner))


def _whole(values: Any) -> NDArray[Any]:
    """Return a row of text, or of numbers, which MATLAB stores as doubles, as whole ones."""
    array = np.ravel(values)
    if array.dtype.kind in "UO":
        return np.array([str(value).rstrip() for value in array])
    return array.astype(np.int64) if (array == np.round(array)).all() else array
