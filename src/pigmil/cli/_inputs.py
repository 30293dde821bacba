"""Inputs of commands: their options, the bags and the method that these name."""

import ast
import shlex
import warnings
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pigmil._core.errors import BagFormatError
from pigmil._core.text import count, did_you_mean

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.cli._console import Output
    from pigmil.scale import LazyBags

DataArgument = Annotated[
    str,
    typer.Argument(metavar="DATA", help="File of bags, folder of slides, or name of a data set."),
]
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
    typer.Option(
        "--workers", help="Start a local dask cluster with this number of processes.", min=1
    ),
]


SeedOption = Annotated[int, typer.Option("--seed", help="Random seed.")]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", help="Number of parallel workers.", min=1)]


class Level(StrEnum):
    """Unit that makes a bag of a cohort."""

    slide = "slide"
    patient = "patient"


class Missing(StrEnum):
    """Treatment of slides without features, labels or instances."""

    error = "raise"
    drop = "drop"


class Impute(StrEnum):
    """Value that replaces a missing one."""

    median = "median"
    mean = "mean"


@dataclass(frozen=True)
class ReadOptions:
    """Options of all commands that read bags; the parameters of read_bags and read_cohort."""

    bag: Annotated[str | None, typer.Option("--bag", help="Column with the bag ids.")] = None
    label: Annotated[str | None, typer.Option("--label", help="Column with the bag labels.")] = None
    instance_label: Annotated[
        str | None,
        typer.Option("--instance-label", help="Column with the instance labels, if known."),
    ] = None
    info: Annotated[
        list[str] | None,
        typer.Option(
            "--info",
            help="Column to keep as information about the instance instead of using it as a "
            "feature; may be repeated.",
        ),
    ] = None
    bag_info: Annotated[
        list[str] | None,
        typer.Option(
            "--bag-info",
            help="Column to keep as information about the bag, constant within each bag; may be "
            "repeated.",
        ),
    ] = None
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            help="Table with one row per bag or slide: .csv, .tsv, .xlsx or .parquet. A second "
            "table is joined by the column that both share.",
        ),
    ] = None
    id: Annotated[
        str, typer.Option("--id", help="Column of --labels with the bag or slide ids.")
    ] = "slide_id"
    group: Annotated[
        list[str] | None,
        typer.Option(
            "--group",
            "--groups",
            help="Column, such as patient or site, whose bags are kept in one fold; may be "
            "repeated.",
        ),
    ] = None
    level: Annotated[
        Level, typer.Option("--level", help="With --labels: whether a bag is a slide or a patient.")
    ] = Level.slide
    missing: Annotated[
        Missing,
        typer.Option(
            "--missing", help="With --labels: how to treat slides without features or label."
        ),
    ] = Missing.error
    empty: Annotated[
        Missing,
        typer.Option("--empty", help="With --labels: how to treat slides without instances."),
    ] = Missing.error
    impute: Annotated[
        Impute | None,
        typer.Option(
            "--impute", help="Fill missing values with the median or mean of the training bags."
        ),
    ] = None
    format: Annotated[
        str | None, typer.Option("--format", help="File format, if it is not recognised.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option("--delimiter", help="Delimiter of text files.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of text files, such as latin-1.")
    ] = None
    read: Annotated[
        list[str] | None,
        typer.Option("--read", help="Other option of the reader, as name=value; may be repeated."),
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
    """Return the Python value that a text represents, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def open_bags(
    data: str,
    options: ReadOptions = NO_OPTIONS,
    *,
    labelled: bool = True,
    output: "Output | None" = None,
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
    from pigmil.bags import unusual_data

    if Path(data).exists():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            bags = _read(data, options)
        for warning in caught:
            if output is not None:
                output.warn(str(warning.message))
    else:
        bags = _load_by_name(data)
    if labelled:
        _check_labelled(data, bags)
    if output is not None:
        for sentence in unusual_data(bags):
            output.warn(sentence)
    return bags


def _load_by_name(name: str) -> "Bags":
    """Return a data set; an unknown name may also be that of a missing file."""
    from pigmil import datasets

    known = datasets.list_datasets()
    if name not in known:
        hint = did_you_mean(name, [*_beside(Path(name)), *known])
        raise BagFormatError(
            f"There is no file '{name}' (working folder: {Path.cwd()}), and no data set of that "
            f"name.{hint or ' See `pigmil datasets list`.'}"
        )
    return datasets.load_dataset(name)


def _check_labelled(data: str, bags: "Bags | LazyBags") -> None:
    """Raise an error for bags without labels."""
    if bags.y is not None:
        return
    if Path(data).is_dir():
        hint = "name the table that has them with --labels, and its columns with --id and --label"
    else:
        hint = "name their column with --label, or a table that has them with --labels"
    raise BagFormatError(f"'{data}' has no bag labels, and fitting needs them; {hint}.")


def _beside(path: Path) -> list[str]:
    """Return the visible files and folders beside a path that does not exist."""
    try:
        names = [one.name for one in path.parent.iterdir() if not one.name.startswith(".")]
    except OSError:
        return []
    return [str(path.parent / name) for name in names[:10_000]]


def has_columns(data: str, options: ReadOptions) -> bool:
    """Return whether the data is a table, whose columns are named by options."""
    from pigmil.io import detect_format, formats

    if not Path(data).is_file():
        return False
    return formats()[options.format].columns if options.format else detect_format(data).columns


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
    if labelled:
        _check_labelled(data, lazy)
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
        raise ValueError(
            f"--positive {positive}: no bag has this label; labels are {listed}."
            + did_you_mean(str(positive), [str(label) for label in labels])
        )
    if positive is None and any(isinstance(label, str) for label in labels):
        choices = " or ".join(f"--positive {shlex.quote(str(label))}" for label in labels[:3])
        raise ValueError(f"The labels are text: {listed}. Name the positive one: {choices}.")
    return matches[0] if matches else None


def _column(name: str | None) -> Any:
    """Return a column name, or a position if it is a number."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name


def complete_method(incomplete: str) -> list[str]:
    """Return the method names that start with the text, for shell completion."""
    from pigmil.estimators.registry import METHODS

    return [name for name in METHODS if name.lower().startswith(incomplete.lower())]


MethodOption = Annotated[
    str,
    typer.Option(
        "--method", "-m", help="Name of the method, see `pigmil methods`.",
        autocompletion=complete_method,
    ),
]  # fmt: skip


SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="Parameter of the method, as name=value; may be repeated."),
]


def build_method(name: str, settings: list[str] | None, seed: int, *, detects: bool = False) -> Any:
    """Build a method with parameters given as ``name=value``."""
    from pigmil.estimators import get_estimator

    kind = get_estimator(name)
    model = kind()
    known = [parameter for parameter in model.get_params() if parameter != "callback"]
    values: dict[str, Any] = {}
    for text in settings or []:
        key, separator, value = text.partition("=")
        if not separator or key not in known:
            raise ValueError(
                f"--set {text}: expected name=value with a parameter of {name}: {', '.join(known)}."
            )
        values[key] = literal(value)
    if "random_state" in known:
        values.setdefault("random_state", seed)
    if detects and not kind.card.detects:
        raise ValueError(
            f"{kind.card.name} classifies bags but does not score instances; `pigmil methods` "
            "lists the methods that do."
        )
    return model.set_params(**values)


def fit_with_progress(output: "Output", model: Any, bags: "Bags", pipeline: Any = None) -> None:
    """Fit a method, or the pipeline it is the last step of, with a progress bar."""
    with output.progress(f"fitting {model.card.name}") as report_progress:
        has_callback = "callback" in model.get_params()
        if has_callback:
            total = model.max_updates
            model.set_params(
                callback=lambda step: report_progress(
                    step.n_updates, total, f"updating {model.card.name}"
                )
            )
        try:
            (model if pipeline is None else pipeline).fit(bags, bags.y)
        finally:
            if has_callback:  # it must not be stored with the model
                model.set_params(callback=None)
