"""Bags for a command: a file, or the name of a data set; and their results as tables."""

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from pigmil import datasets
from pigmil._core.errors import BagFormatError
from pigmil._core.files import atomic_file
from pigmil._core.optional import import_optional
from pigmil.bags import Bags
from pigmil.io import read_bags

DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file of bags, or the name of a data set.")
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="Format of the file, if it cannot be told.")
]
BagOption = Annotated[str | None, typer.Option("--bag", help="Column that names the bag.")]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column with the bag's label.")]
InstanceLabelOption = Annotated[
    str | None, typer.Option("--instance-label", help="Column with the instance's label, if known.")
]


def open_bags(
    data: str,
    *,
    format: str | None = None,
    bag: str | None = None,
    label: str | None = None,
    instance_label: str | None = None,
    labelled: bool = True,
) -> Bags:
    """Bags of a file, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; a file of that name goes first.
    format, bag, label, instance_label : str, optional
        See :func:`pigmil.read_bags`.
    labelled : bool, default=True
        Refuse bags without labels.
    """
    if not Path(data).exists() and data in datasets.list():
        bags = datasets.load(data)
    else:
        bags = read_bags(
            data,
            format=format,
            bag=_column(bag),
            label=_column(label),
            instance_label=_column(instance_label),
        )
    if labelled and bags.y is None:
        raise BagFormatError(
            f"'{data}' holds no bag labels, and they are needed to learn from; name their column "
            "with --label."
        )
    return bags


def _column(name: str | None) -> Any:
    """A column by name, or by position where a number is given."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def write_table(columns: dict[str, Any], path: Path) -> Path:
    """Write a table as .csv, .tsv, .parquet or .json (records), whole or not at all."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".parquet", ".json"):
        raise ValueError(
            f"Cannot write '{path}': the suffix must be .csv, .tsv, .parquet or .json."
        )
    pa = import_optional("pyarrow", extra="io", purpose="Writing a table")
    table = pa.table({name: _arrow_ready(values) for name, values in columns.items()})
    with atomic_file(path) as temporary:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet").write_table(
                table, temporary
            )
        elif suffix == ".json":
            temporary.write_text(json.dumps(table.to_pylist(), ensure_ascii=False) + "\n", "utf-8")
        else:
            csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, temporary, csv.WriteOptions(delimiter=delimiter))
    return path


def _arrow_ready(values: Any) -> Any:
    array = np.asarray(values)
    return [str(value) for value in array] if array.dtype.kind in "OU" else array
