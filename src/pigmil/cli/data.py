"""Read bags from a file or by data set name, and write tables."""

import difflib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.errors import BagFormatError
from pigmil._core.files import atomic_write
from pigmil._core.json import to_json_safe
from pigmil._core.optional import import_optional
from pigmil._core.text import count, escape_formula

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.scale import LazyBags

DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file of bags, or the name of a data set.")
]
FormatOption = Annotated[
    str | None, typer.Option("--format", help="Format of the file, if it is not recognised.")
]
BagOption = Annotated[str | None, typer.Option("--bag", help="Column with the id of the bag.")]
LabelOption = Annotated[
    str | None, typer.Option("--label", help="Column with the label of the bag.")
]
InstanceLabelOption = Annotated[
    str | None,
    typer.Option("--instance-label", help="Column with the label of the instance, if known."),
]
InfoOption = Annotated[
    list[str] | None,
    typer.Option(
        "--info", help="Column to keep as information, not as a feature; may be repeated."
    ),
]
TABLES = (".csv", ".tsv", ".parquet", ".json")
PositiveOption = Annotated[
    str | None, typer.Option("--positive", help="The positive label; needed for text labels.")
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Write text to .csv and .tsv unchanged. By default an apostrophe is put before text "
        "that a spreadsheet would run as a formula.",
        show_default=False,
    ),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        help="Table with one row per bag (id and label) for bags that are kept on disk.",
    ),
]
StreamOption = Annotated[
    bool,
    typer.Option(
        "--stream", help="Keep the bags on disk and read them block by block.", show_default=False
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="Address of a dask scheduler, for example tcp://node1:8786.",
        metavar="ADDRESS",
    ),
]  # fmt: skip
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", help="Start a dask cluster of so many processes here.", min=1),
]
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
    """Return the bags of a file, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; an existing file takes precedence.
    format, bag, label, instance_label, info : str, optional
        See :func:`pigmil.read_bags`.
    labelled : bool, default=True
        Raise an error for bags without labels.
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
            f"'{data}' has no bag labels, and fitting needs them; name their column with --label."
        )
    return bags


def scan_lazy_bags(
    data: str,
    *,
    labels: Path | None,
    bag: str | None,
    label: str | None,
    info: Sequence[str] | None,
    labelled: bool = True,
) -> "LazyBags":
    """Return bags that stay on disk; the arguments are those of :func:`open_bags`."""
    from pigmil.scale import scan_bags

    lazy = scan_bags(data, labels=labels, bag=bag, label=label, info=info or ())
    if labelled and lazy.y is None:
        raise BagFormatError(
            f"'{data}' has no bag labels, and fitting needs them; name their column with --label, "
            "or give a table with --labels."
        )
    return lazy


def find_positive_label(bags: "Bags | LazyBags", positive: str | None) -> Any:
    """Return the label that ``--positive`` names, or None for numeric labels without it.

    Text labels have no order, so a guess would often rank the instances of negative bags.
    """
    import numpy as np

    labels, counts = np.unique(np.asarray(bags.y), return_counts=True)
    listed = ", ".join(
        f"'{label}' ({count(int(n), 'bag')})" for label, n in zip(labels, counts, strict=True)
    )
    matches = [label for label in labels if str(label) == positive]
    if positive is not None and not matches:
        raise ValueError(f"--positive {positive}: no bag has this label; labels are {listed}.")
    if positive is None and any(isinstance(label, str) for label in labels):
        raise ValueError(
            f"The labels are text: {listed}. Name the positive one with --positive, for example "
            f"--positive {labels[-1]}."
        )
    return matches[0] if matches else None


def as_options(message: str, **names: str) -> str:
    """Replace the Python parameters that a message names by options of the command line.

    Examples
    --------
    >>> as_options("Say with bag= what it is, or pass lossy=True.")
    'Say with --bag what it is, or pass --lossy.'
    """

    def option(match: re.Match[str]) -> str:
        name = names.get(match[1], match[1].replace("_", "-"))
        return f"--{name}" + (" " if match[3] else "")

    pattern = r"\b(bag|label|instance_label|info|format|lossy)=(\[\.\.\.\]|True)?(?=(['\"\d])?)"
    return re.sub(pattern, option, message)


def _column(name: str | None) -> Any:
    """Return a column name, or a position if it is a number."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def check_targets(source: str, targets: dict[str, Path | None], suffixes: Any) -> None:
    """Raise an error for files that cannot be written or would overwrite the data.

    Parameters
    ----------
    source : str
        The data that the command reads.
    targets : dict of str to Path
        Files by option; None if not requested.
    suffixes : dict of str to sequence of str
        Allowed suffixes by option; all if an option is missing.
    """
    used: dict[Path, str] = {Path(source).resolve(): "the data"}
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
        if path.exists() and not path.is_file():
            raise ValueError(f"{option}: cannot write '{path}': it is not a regular file.")
        if path.resolve() in used:
            raise ValueError(
                f"{option}: '{path}' would overwrite {used[path.resolve()]}; choose another name."
            )
        used[path.resolve()] = option


def write_table(columns: dict[str, Any], path: Path, *, raw: bool = False) -> Path:
    """Write a table as .csv, .tsv, .parquet or .json (records).

    Parameters
    ----------
    columns : dict of str to array
        Values by column name.
    path : Path
        The file; it is replaced only when the table is complete.
    raw : bool, default=False
        Write text to .csv and .tsv unchanged, also where a spreadsheet would run it as a formula.
    """
    suffix = path.suffix.lower()
    if suffix not in TABLES:
        raise ValueError(f"Cannot write '{path}': the suffix must be {', '.join(TABLES)}.")
    pa = import_optional("pyarrow", extra="io", purpose="Writing a table")
    ready = {name: _to_arrow(values) for name, values in columns.items()}
    if suffix in (".csv", ".tsv") and not raw:
        ready = {
            escape_formula(name): list(map(escape_formula, values))
            if isinstance(values, list)
            else values
            for name, values in ready.items()
        }
    table = pa.table(ready)
    with atomic_write(path) as temporary:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet").write_table(
                table, temporary
            )
        elif suffix == ".json":
            records = json.dumps(
                to_json_safe(table.to_pylist()), ensure_ascii=False, allow_nan=False
            )
            temporary.write_text(records + "\n", "utf-8")
        else:
            csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
            delimiter = "\t" if suffix == ".tsv" else ","
            csv.write_csv(table, temporary, csv.WriteOptions(delimiter=delimiter))
    return path


def _to_arrow(values: Any) -> Any:
    import numpy as np

    array = np.asarray(values)
    return [str(value) for value in array] if array.dtype.kind in "OU" else array
