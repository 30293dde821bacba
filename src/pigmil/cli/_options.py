"""Options of the commands that read bags."""

import ast
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="A file of bags, a folder of slides, or a data set by name."
    ),
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
    typer.Option("--workers", help="Start a dask cluster of so many processes here.", min=1),
]


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
