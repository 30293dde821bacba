"""Read bags from a file or by data set name, and write tables."""

import ast
import difflib
import json
import re
import shlex
import warnings
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.errors import BagFormatError, BagsError
from pigmil._core.files import atomic_write
from pigmil._core.json import to_json_safe
from pigmil._core.optional import import_optional
from pigmil._core.text import count, escape_formula
from pigmil.cli.console import Output

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.scale import LazyBags

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file of bags, a folder of slides, or a data set by name."
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


class Level(StrEnum):
    """Unit that makes a bag of a cohort."""

    slide = "slide"
    patient = "patient"


class Missing(StrEnum):
    """Treatment of slides without features, labels or instances."""

    error = "raise"
    drop = "drop"


class Impute(StrEnum):
    """Value that stands for a missing feature."""

    median = "median"
    mean = "mean"


@dataclass(frozen=True)
class ReadOptions:
    """Options of all commands that read bags; the parameters of read_bags and read_cohort."""

    bag: Annotated[str | None, typer.Option("--bag", help="Column with the id of the bag.")] = None
    label: Annotated[
        str | None, typer.Option("--label", help="Column with the label of the bag.")
    ] = None
    instance_label: Annotated[
        str | None,
        typer.Option("--instance-label", help="Column with the label of the instance, if known."),
    ] = None
    info: Annotated[
        list[str] | None,
        typer.Option(
            "--info",
            help="Column to keep as information on the instance, not as a feature; may be "
            "repeated.",
        ),
    ] = None
    bag_info: Annotated[
        list[str] | None,
        typer.Option(
            "--bag-info",
            help="Column to keep as information on the bag, the same in all its rows; may be "
            "repeated.",
        ),
    ] = None
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            help="Table with one row per bag or slide: .csv, .tsv, .xlsx or .parquet. A second "
            "one is joined by the column they share.",
        ),
    ] = None
    id: Annotated[str, typer.Option("--id", help="Column of --labels with the bag or slide.")] = (
        "slide_id"
    )
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            "--groups",
            help="Column such as patient or site. `compare` keeps its bags in one fold; may be "
            "repeated.",
        ),
    ] = None
    level: Annotated[
        Level, typer.Option("--level", help="With --labels: a bag is a slide or a patient.")
    ] = Level.slide
    missing: Annotated[
        Missing,
        typer.Option("--missing", help="With --labels: slides without features or label."),
    ] = Missing.error
    empty: Annotated[
        Missing, typer.Option("--empty", help="With --labels: slides without instances.")
    ] = Missing.error
    impute: Annotated[
        Impute | None,
        typer.Option("--impute", help="Fill missing features, with values of the training bags."),
    ] = None
    format: Annotated[
        str | None, typer.Option("--format", help="Format of the file, if it is not recognised.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Delimiter of text files.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of text files, such as latin-1.")
    ] = None
    read: Annotated[
        list[str] | None,
        typer.Option(
            "--read", help="Further option of the format, as name=value; may be repeated."
        ),
    ] = None

    def format_options(self) -> dict[str, Any]:
        """Return the options that only some formats have."""
        options = named_values("--read", self.read)
        if self.delimiter is not None:
            options["delimiter"] = self.delimiter.replace("\\t", "\t")
        if self.encoding is not None:
            options["encoding"] = self.encoding
        return options


NO_OPTIONS = ReadOptions()


def named_values(option: str, texts: list[str] | None) -> dict[str, Any]:
    """Return the values of an option that is given as ``name=value``."""
    values: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ValueError(f"{option} {text}: expected name=value.")
        values[name] = literal(value)
    return values


def literal(text: str) -> Any:
    """Return the Python value that text stands for, or the text."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def open_bags(
    data: str,
    options: ReadOptions = NO_OPTIONS,
    *,
    labelled: bool = True,
    output: Output | None = None,
) -> "Bags":
    """Return the bags of a file, of a folder of slides, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; an existing file takes precedence.
    options : ReadOptions
        As given on the command line.
    labelled : bool, default=True
        Raise an error for bags without labels.
    output : Output, optional
        Where to warn of unusual data.
    """
    from pigmil import datasets
    from pigmil.bags import unusual_data

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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                bags = _read(data, options)
            except (BagsError, TypeError) as error:
                raise BagFormatError(as_options(str(error))) from error
        for warning in caught:
            if output is not None:
                output.warn(as_options(str(warning.message)))
    if labelled and bags.y is None:
        raise BagFormatError(
            f"'{data}' has no bag labels, and fitting needs them; name their column with --label, "
            "or a table of labels with --labels."
        )
    if output is not None:
        for sentence in unusual_data(bags):
            output.warn(sentence)
    return bags


def _read(data: str, options: ReadOptions) -> "Bags":
    """Read a file, or a folder with its table of labels."""
    from pigmil.io import detect_format, read_bags, read_cohort

    folder = Path(data).is_dir() and Path(data).suffix.lower() != ".zarr"
    kind = detect_format(data) if options.format is None and not folder else None
    columns = kind is None or kind.columns
    reading: dict[str, Any] = {"format": options.format} if options.format else {}
    if options.impute is not None:
        reading["missing"] = "keep"
    if options.bag is not None:
        reading["bag"] = _column(options.bag)
    if options.instance_label is not None:
        reading["instance_label"] = _column(options.instance_label)
    if options.info:
        reading["info"] = [_column(name) for name in options.info]
    if not options.labels:
        on_bags = [*(options.bag_info or []), *((options.group or []) if columns else [])]
        if on_bags and not folder:
            reading["bag_info"] = [_column(name) for name in dict.fromkeys(on_bags)]
        if options.label is not None:
            reading["label"] = _column(options.label)
        return read_bags(data, **reading, **options.format_options())
    if options.bag_info:
        reading["bag_info"] = [_column(name) for name in options.bag_info]
    tables = [_read_table(path, options) for path in options.labels]
    bags: Any = data
    if not folder:
        bags = read_bags(data, **reading, **options.format_options())
    elif options.info or options.bag or options.instance_label or options.bag_info:
        raise ValueError(
            "--bag, --info, --bag-info and --instance-label name columns of a file; in a folder, "
            "files are bags. Columns of --labels are kept as they are."
        )
    return read_cohort(
        bags,
        tables,
        id=options.id,
        label=options.label or "label",
        group=options.group[0] if options.group else None,
        level=options.level.value,
        missing=options.missing.value,
        empty=options.empty.value,
        **({} if not folder else _folder_options(options)),
    )


def _read_table(path: Path, options: ReadOptions) -> Any:
    """Return a table of labels, in the delimiter and encoding asked for."""
    from pigmil.io import read_label_table

    return read_label_table(path, delimiter=options.delimiter, encoding=options.encoding or "utf-8")


def _folder_options(options: ReadOptions) -> dict[str, Any]:
    given = options.format_options()
    return {name: value for name, value in given.items() if name not in ("delimiter", "encoding")}


def scan_lazy_bags(data: str, options: ReadOptions, *, labelled: bool = True) -> "LazyBags":
    """Return bags that stay on disk; the arguments are those of :func:`open_bags`."""
    from pigmil.scale import scan_bags

    table = options.labels[0] if options.labels else None
    lazy = scan_bags(
        data,
        labels=table,
        id=None if options.id == NO_OPTIONS.id else options.id,
        bag=options.bag,
        label=options.label,
        info=options.info or (),
    )
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


# Parameters in messages of the library -> options.
_OPTIONS = {
    **{
        field.name: f"--{field.name.replace('_', '-')}"
        for field in fields(ReadOptions)
        if field.name not in ("read", "labels")
    },
    "bag_labels": "--labels",
    "lossy": "--lossy",
    "groups": "--group",
    # What only some formats have is passed on by name.
    **{
        name: f"--read {name}="
        for name in (
            *(
                "header",
                "nominal",
                "names",
                "n_features",
                "columns",
                "zero_based",
                "trusted",
                "layer",
                "obsm",
            ),
            *("memory_map", "dtype", "ids", "labels"),
        )
    },
    "number_ids": "--write number_ids=",
}
_SENTENCES = {
    "or read it with missing='keep' and impute.": "or pass --impute median.",
    "Pass labels={old: new, ...}.": "Name the positive label with --positive.",
    "groups='duplicates'": "--group-duplicates",
}
_PARAMETER = re.compile(
    r"(?<![\w.])([a-z_]+)="
    r"(\[\.\.\.\]|\[(?:'[^']*'|\"[^\"]*\"|, )+\]|True\b|False\b|'[^']*'|\"[^\"]*\"|-?\d+)?"
)


def as_options(message: str, **names: str) -> str:
    """Replace the Python parameters that a message names by options of the command line.

    Parameters
    ----------
    message : str
        Message of an error.
    **names : str
        Options, without dashes, of parameters for which this command has another name.

    Examples
    --------
    >>> as_options("Say with bag= what it is, or pass lossy=True or header=False.")
    'Say with --bag what it is, or pass --lossy or --read header=False.'
    >>> as_options("Keep them with info=['smiles', 'name'].")
    'Keep them with --info smiles --info name.'
    """
    for sentence, replacement in _SENTENCES.items():
        message = message.replace(sentence, replacement)

    def option(match: re.Match[str]) -> str:
        name, value = match[1], match[2] or ""
        if value[:1] in "'\"" and value:
            value = _shell_word(ast.literal_eval(value))
        flag = f"--{names[name]}" if name in names else _OPTIONS.get(name)
        if flag is None:
            return match[0]
        if flag.endswith("="):
            return flag + (value or "VALUE")
        if value.startswith("[") and value != "[...]":
            return " ".join(f"{flag} {_shell_word(one)}" for one in ast.literal_eval(value))
        return flag if value in ("", "True", "[...]") else f"{flag} {value}"

    return _PARAMETER.sub(option, message)


def _shell_word(text: str) -> str:
    return shlex.quote(text)


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
