"""Bags for a command: a file, or the name of a data set; and their results as tables."""

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.errors import BagFormatError
from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional

if TYPE_CHECKING:
    from pigmil.bags import Bags

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
InfoOption = Annotated[
    list[str] | None,
    typer.Option("--info", help="Column to keep with the instance, not a feature; repeat."),
]
TABLES = (".csv", ".tsv", ".parquet", ".json")
REPORTS = (".html", ".htm", ".md")


def open_bags(
    data: str,
    *,
    format: str | None = None,
    bag: str | None = None,
    label: str | None = None,
    instance_label: str | None = None,
    info: Sequence[str] | None = None,
    labelled: bool = True,
) -> "Bags":
    """Bags of a file, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; a file of that name goes first.
    format, bag, label, instance_label, info : str, optional
        See :func:`pigmil.read_bags`.
    labelled : bool, default=True
        Refuse bags without labels.
    """
    from pigmil import datasets
    from pigmil.io import read_bags

    known = datasets.list_datasets()
    if not Path(data).exists() and data in known:
        bags = datasets.load_dataset(data)
    elif not Path(data).exists():
        close = difflib.get_close_matches(data, known, n=3)
        hint = f"did you mean {' or '.join(close)}?" if close else "see `pigmil datasets list`."
        raise BagFormatError(
            f"There is no file '{data}' (working folder: {Path.cwd()}), and no data set of that "
            f"name; {hint}"
        )
    else:
        try:
            bags = read_bags(
                data,
                format=format,
                bag=_column(bag),
                label=_column(label),
                instance_label=_column(instance_label),
                info=[_column(name) for name in info or ()],
            )
        except BagFormatError as error:
            raise BagFormatError(as_options(str(error))) from error
    if labelled and bags.y is None:
        raise BagFormatError(
            f"'{data}' holds no bag labels, and they are needed to learn from; name their column "
            "with --label."
        )
    return bags


def as_options(message: str, **names: str) -> str:
    """The mending a message names, in words of the command line.

    Examples
    --------
    >>> as_options("Say with bag= what it is, or pass lossy=True.")
    'Say with --bag what it is, or pass --lossy.'
    """

    def option(found: re.Match[str]) -> str:
        name = names.get(found[1], found[1].replace("_", "-"))
        return f"--{name}" + (" " if found[3] else "")

    pattern = r"\b(bag|label|instance_label|info|format|lossy)=(\[\.\.\.\]|True)?(?=(['\"\d])?)"
    return re.sub(pattern, option, message)


def _column(name: str | None) -> Any:
    """A column by name, or by position where a number is given."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def check_targets(source: str, targets: dict[str, Path | None], suffixes: Any) -> None:
    """Refuse what could not be written, or would overwrite the data, before any work is done.

    Parameters
    ----------
    source : str
        The data.
    targets : dict of str to Path
        By option; None for what is not asked for.
    suffixes : dict of str to sequence of str
        Suffixes of each option; any if it is not among them.
    """
    taken: dict[Path, str] = {Path(source).resolve(): "the data"}
    for option, path in targets.items():
        if path is None:
            continue
        allowed = suffixes.get(option)
        if allowed and path.suffix.lower() not in allowed:
            raise ValueError(
                f"{option}: cannot write '{path}'; the suffix must be {', '.join(allowed)}."
            )
        if path.is_dir() or not path.absolute().parent.is_dir():
            what = "is a folder" if path.is_dir() else f"there is no folder '{path.parent}'"
            raise ValueError(f"{option}: cannot write '{path}': {what}.")
        if path.resolve() in taken:
            raise ValueError(
                f"{option}: '{path}' would overwrite {taken[path.resolve()]}; choose another name."
            )
        taken[path.resolve()] = option


def write_table(columns: dict[str, Any], path: Path) -> Path:
    """Write a table as .csv, .tsv, .parquet or .json (records), whole or not at all."""
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise ValueError(f"Cannot write '{path}': the suffix must be {', '.join(TABLES)}.")
    pa = import_optional("pyarrow", extra="io", purpose="Writing a table")
    table = pa.table({name: _arrow_ready(values) for name, values in columns.items()})
    with atomic_write(path) as temporary:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet").write_table(
                table, temporary
            )
        elif suffix == ".json":
            from pigmil._core.json import to_json_safe

            records = json.dumps(
                to_json_safe(table.to_pylist()), ensure_ascii=False, allow_nan=False
            )
            temporary.write_text(records + "\n", "utf-8")
        else:
            csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, temporary, csv.WriteOptions(delimiter=delimiter))
    return path


def _arrow_ready(values: Any) -> Any:
    import numpy as np

    array = np.asarray(values)
    return [str(value) for value in array] if array.dtype.kind in "OU" else array
