"""Excel, ARFF and svmlight: small tables, read whole by openpyxl, scipy and scikit-learn."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import import_optional
from pigmil._core.text import listed
from pigmil.bags import LazyBags
from pigmil.bags._columns import LABEL_NAMES
from pigmil.io._build import Table, bags_of_table, table_roles
from pigmil.io._defence import parsing, raise_format_error
from pigmil.io._formats import Request
from pigmil.io._text import MISSING_MARKS, decode_rows, open_text


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


def scan_xlsx(path: Path, request: Request) -> LazyBags:
    """Read the first sheet; its first row names the columns."""
    rows = sheet_rows(path)
    names = ["" if name is None else str(name).strip() for name in next(rows, [])]
    while names and not names[-1]:
        names.pop()
    _check_unique(path, names)
    padding = [None] * len(names)
    cells = [[*row, *padding][: len(names)] for row in rows]
    if not cells:
        raise_format_error(path, "has no rows.")
    by_name = dict(zip(names, zip(*cells, strict=True), strict=True))
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
            if cell in MISSING_MARKS:
                continue
            if decimal != "." and cell.count(",") == 1 and "." not in cell:
                cell = cell.replace(",", ".")
            try:
                cell = float(cell)
            except ValueError:
                return None
        if cell is not None:
            if not isinstance(cell, bool | int | float):
                return None
            values[row] = cell
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
    inner_text: list[str] = []
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
            inner_text += [name] if columns[name].dtype == object else []
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


def _check_unique(path: Path, names: list[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise_format_error(path, f"has several columns of the name {listed(twice)}.", where="row 1")
