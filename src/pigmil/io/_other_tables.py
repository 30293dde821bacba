"""Excel, ARFF, svmlight, MATLAB: small tables, read whole by openpyxl, scipy and scikit-learn."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil._core.text import listed
from pigmil.bags import LazyBags, as_csr, text_array
from pigmil.bags._columns import BAG, BAG_LABEL, INSTANCE_LABEL, LABEL_NAMES
from pigmil.io._build import Table, bags_of_table, check_unique, table_roles
from pigmil.io._defence import check_memory, contents, open_container, parsing, raise_format_error
from pigmil.io._formats import Request
from pigmil.io._text import COMMA, MISSING_MARKS, decode_rows, open_text

_PER_INSTANCE = {"bag_ids": BAG, "labels": BAG_LABEL, "instance_labels": INSTANCE_LABEL}


class _CellTable(Table):
    """A table of cells: numbers, text, and None where a cell is empty."""

    def column(self, name: str, role: str, request: Request) -> NDArray[Any]:
        return decode_rows(list(self.columns[name]), role, request.ids if role == "id" else None)


def sheet_rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the first sheet of a workbook, blank ones left out.

    Parameters
    ----------
    path : Path
        An XLSX file.
    """
    openpyxl = import_optional("openpyxl", extra="io", purpose="Reading XLSX")
    with parsing(path, "XLSX"):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # a stated size that is too small would hide rows
            for row in sheet.iter_rows(values_only=True):
                if any(cell is not None for cell in row):
                    yield list(row)
        finally:
            book.close()


def columns_of_rows(path: Path, rows: Iterable[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as columns by name; the first row names them, and short rows are filled up."""
    header, *rest = [*rows] or [[]]
    if not rest:
        raise_format_error(path, "has no rows.")
    names = ["" if name is None else str(name).strip() for name in header]
    while names and not names[-1]:
        names.pop()
    # Tables written by pandas begin with an unnamed column of row numbers.
    names = [name or f"column {position}" for position, name in enumerate(names)]
    check_unique(path, names, where="row 1")
    width = len(names)
    for number, row in enumerate(rest, start=2):
        if any(cell not in (None, "") for cell in row[width:]):
            problem = f"expected {width} values, got {len(row)}."
            raise_format_error(path, problem, where=f"row {number}")
    cells = [[*row, *[None] * width][:width] for row in rest]
    return {name: [row[at] for row in cells] for at, name in enumerate(names)}


def scan_xlsx(path: Path, request: Request) -> LazyBags:
    """Read the first sheet; its first row names the columns."""
    by_name = columns_of_rows(path, sheet_rows(path))
    numbers = {name: _numbers(column, request.decimal) for name, column in by_name.items()}
    text = [name for name, values in numbers.items() if values is None]
    outline = _CellTable(path, by_name, text=text, first_row=2)
    roles = table_roles(outline, request)
    columns: dict[str, Any] = {
        name: numbers[name] if name in roles.features else [_plain(cell) for cell in column]
        for name, column in by_name.items()
    }
    return bags_of_table(replace(outline, columns=columns), request, roles)


def _plain(cell: Any) -> Any:
    """Return a cell as text or number as it is displayed: 1.0 is 1, dates become text."""
    if isinstance(cell, float) and cell.is_integer():
        return int(cell)
    return cell if cell is None or isinstance(cell, bool | int | float | str) else str(cell)


def _numbers(column: Any, decimal: str | None) -> NDArray[Any] | None:
    """Return a column as numbers, NaN where they are missing; None if it holds text.

    Text in which a comma is the decimal sign counts as a number.
    """
    values = np.full(len(column), np.nan)
    for row, cell in enumerate(column):
        if isinstance(cell, str):
            cell = cell.strip()
            if decimal != "." and COMMA.fullmatch(cell):
                cell = cell.replace(",", ".")
        if cell is None or cell in MISSING_MARKS:
            continue
        try:
            values[row] = float(cell)
        except (TypeError, ValueError):
            return None
    return values


def scan_arff(path: Path, request: Request) -> LazyBags:
    """Read ARFF: relational, with one row per bag as WEKA writes it, or one row per instance.

    In a relational file the id is the attribute before the relation, and the label the attribute
    called class, bag_label, label or y, else the last one.
    """
    arff = import_optional("scipy.io.arff", extra="", purpose="Reading ARFF")
    hint = (
        "Text attributes, sparse rows and values in single quotes are not read; WEKA's "
        "StringToNominal and SparseToNonSparse filters remove the first two."
    )
    with parsing(path, "ARFF", hint=hint), open_text(path, request.encoding) as file:
        rows, meta = arff.loadarff(file)
    if not len(rows):
        raise_format_error(path, "has no rows.")
    names, kinds = list(meta.names()), list(meta.types())
    if kinds.count("relational") > 1:
        raise_format_error(path, "has several relational attributes; a file of bags has one.")
    outer = [name for name, kind in zip(names, kinds, strict=True) if kind != "relational"]
    columns = {name: _decoded(rows[name]) for name in outer}
    lower = {name.lower(): name for name in reversed(outer)}
    label = next((lower[name] for name in ("class", *LABEL_NAMES) if name in lower), outer[-1])
    if "relational" in kinds:
        relation = kinds.index("relational")
        bags = rows[names[relation]]
        sizes = np.array([len(bag) for bag in bags])
        columns = {name: np.repeat(values, sizes) for name, values in columns.items()}
        if relation == 0:
            columns = {"bag": np.repeat(np.arange(1, len(bags) + 1), sizes), **columns}
        instances = np.concatenate(list(bags))
        for name in instances.dtype.names or ():
            if name in columns:
                raise_format_error(path, f"has several attributes of the name {name!r}.")
            columns[name] = _decoded(instances[name])
        bag = "bag" if relation == 0 else names[relation - 1]
        request = replace(request, bag=bag if request.bag is None else request.bag)
        label = label if label != request.bag else None
        roles = (request.bag, request.label or label, *request.info, *request.bag_info)
        others = tuple(name for name in outer if name not in roles)
        request = replace(request, bag_info=(*request.bag_info, *others))
    if request.label is None and label is not None:
        request = replace(request, label=label)
    text = [name for name, values in columns.items() if values.dtype == object]
    return bags_of_table(_CellTable(path, columns, text=text), request)


def _decoded(values: NDArray[Any]) -> NDArray[Any]:
    """Return nominal values, which scipy holds as bytes, as text; a question mark is missing."""
    if values.dtype.kind != "S":
        return values
    return np.array([value.decode("utf-8", "replace") for value in values], dtype=object)


def scan_svmlight(path: Path, request: Request) -> LazyBags:
    """Read ``label qid:bag index:value ...``; the instances are sparse."""
    datasets = import_optional("sklearn.datasets", extra="", purpose="Reading svmlight")
    with parsing(path, "svmlight", hint="Every line needs a qid: it names the bag."):
        instances, labels, bags = datasets.load_svmlight_file(
            str(path),
            n_features=request.options.get("n_features"),
            zero_based=request.options.get("zero_based", False),
            query_id=True,
        )
    if len(bags) != len(labels):
        raise_format_error(
            path, f"has a qid in {len(bags)} of {len(labels)} lines.", hint="It names the bag."
        )
    whole = (labels == np.round(labels)).all()
    columns = {"bag": bags, "label": labels.astype(np.int64) if whole else labels}
    return bags_of_table(Table(path, columns, instances), request)


def _variables(path: Path) -> dict[str, Any]:
    """Return the variables of a file: arrays, CSR matrices, and lists of text; not structures."""
    with path.open("rb") as file:
        is_hdf5 = file.read(10) == b"MATLAB 7.3"
    if is_hdf5:
        return _load_hdf5(path)
    sizes = [float(np.prod(shape, dtype=float)) for _, shape, _ in scipy.io.whosmat(path)]
    check_memory(path, 8 * sum(sizes))
    found = scipy.io.loadmat(path, chars_as_strings=True)
    return {name: _unpacked(found[name]) for name in found if not name.startswith("__")}


def _unpacked(value: Any) -> Any:
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
    with open_container(path) as file:
        top = contents(path, file)

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
    with parsing(path, "a MATLAB file"):
        found = _variables(path)
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
