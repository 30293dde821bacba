"""Inputs of commands: their options, the bags and the method that these name."""

import ast
import functools
import inspect
import itertools
import shlex
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pigmil._core.errors import BagFormatError
from pigmil._core.text import count, did_you_mean

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.cli._console import Output
    from pigmil.scale import LazyBags

_CONSTANTS = {"true": True, "false": False, "none": None}
# Their columns are named by options; other formats know what their parts are.
_TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".feather", ".arrow", ".xlsx")


# Options by their group in ``--help``; `command` adds names and descriptions.
data_option = functools.partial(typer.Option, rich_help_panel="Data")
method_option = functools.partial(typer.Option, rich_help_panel="Method")
result_option = functools.partial(typer.Option, rich_help_panel="Results")
output_option = functools.partial(result_option, "--output", "-o")
T = TypeVar("T")
Data = Annotated[T, data_option()]
Method = Annotated[T, method_option()]
Result = Annotated[T, result_option()]

DataArgument = Annotated[str, typer.Argument(metavar="DATA")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL")]
PositiveOption = Annotated[str | None, data_option("--positive")]
TextList = list[str] | None
Impute = StrEnum("Impute", ["median", "mean"])


@dataclass(frozen=True)
class ReadOptions:
    """Options of all commands that read bags; those without a field go through ``--read``.

    Parameters
    ----------
    bag : str
        Column with the bag ids.
    label : str
        Column with the bag labels.
    info : list of str
        Column to keep as information, not as a feature; may be repeated.
    labels : list of Path
        Table with one row per bag or slide: .csv, .tsv, .xlsx or .parquet. A second table is
        joined by the column that both share.
    id : str
        Column of --labels with the ids, such as slide_id.
    group : list of str
        Column, such as patient or site, whose bags stay in one fold; may be repeated.
    impute : {"median", "mean"}
        How to fill missing values from the training bags.
    isolated : bool
        Read files of unknown origin in a process with limits.
    read : list of str
        Other parameter of `scan_bags`, as name=value, such as instance_label=COLUMN,
        level=patient, missing=drop, delimiter=';' or format=csv; may be repeated.
    """

    bag: Data[str | None] = None
    label: Data[str | None] = None
    info: Data[TextList] = None
    labels: Data[list[Path] | None] = None
    id: Data[str | None] = None
    group: Annotated[TextList, data_option("--group", "--groups")] = None
    impute: Data[Impute | None] = None
    isolated: Data[bool] = False
    read: Data[TextList] = None

    def arguments(self, data: str, images: str | None = None) -> dict[str, Any]:
        """Return the arguments of :func:`pigmil.scan_bags` for data with a column of images."""
        given = named_values("--read", self.read, reading_parameters())
        columns = {"bag": self.bag, "label": self.label, "id": self.id}
        given |= {name: _column(text) for name, text in columns.items() if text is not None}
        info = [*(self.info or []), *([images] if images and is_table(data) else [])]
        if info:
            given["info"] = list(map(_column, dict.fromkeys(info)))
        if self.labels:
            given |= {"labels": list(self.labels), "group": self.group[0] if self.group else None}
        elif self.group and is_table(data):
            given["bag_info"] = [*given.get("bag_info", ()), *map(_column, self.group)]
        if self.impute is not None:
            given["missing_values"] = "keep"
        if self.isolated:
            given["isolated"] = True
        if "delimiter" in given:
            given["delimiter"] = given["delimiter"].replace("\\t", "\t")
        return given


NO_OPTIONS = ReadOptions()


@dataclass(frozen=True)
class FitOptions:
    """Options of the commands that fit one method.

    Parameters
    ----------
    method : str
        See `pigmil methods`.
    scale : bool
        Standardise features first.
    set_ : list of str
        Parameter, as name=value; may be repeated.
    pos_label : str
        The positive label; needed for text labels.
    seed : int
        Random seed.
    """

    method: Annotated[str, method_option("--method", "-m")] = "SoftPIGMIL"
    scale: Method[bool] = True
    set_: Method[TextList] = None
    pos_label: PositiveOption = None
    seed: Method[int] = 0

    def build(self, *, detects: bool = False) -> Any:
        """Return the method with its parameters; raise an error if it must detect and does not."""
        from pigmil.estimators import get_estimator

        kind = get_estimator(self.method)
        if detects and not kind.card.detects:
            raise ValueError(
                f"{kind.card.name} classifies bags but does not score instances; `pigmil methods` "
                "lists the methods that do."
            )
        model = kind()
        known = [parameter for parameter in model.get_params() if parameter != "callback"]
        values = named_values("--set", self.set_, known, f" of {self.method}")
        if "random_state" in known:
            values.setdefault("random_state", self.seed)
        return model.set_params(**values)


FIT_OPTIONS = FitOptions()


def _column(name: str) -> str | int:
    """Return a column name, or a position if it is a number."""
    return int(name) if name.lstrip("-").isdigit() else name


@functools.cache
def reading_parameters() -> tuple[str, ...]:
    """Return the parameters of :func:`pigmil.scan_bags`."""
    from pigmil.io import scan_bags

    return tuple(inspect.getfullargspec(scan_bags).kwonlyargs)


def named_values(
    option: str, texts: list[str] | None, known: Collection[str], of: str = ""
) -> dict[str, Any]:
    """Return the values of an option that is given as ``name=value``, with known names."""
    values = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or name not in known:
            raise ValueError(
                f"{option} {text}: expected name=value with a parameter{of}: {', '.join(known)}."
                + did_you_mean(name, known)
            )
        values[name] = literal(value)
    return values


def literal(text: str) -> Any:
    """Return the Python value that a text represents, or the text itself."""
    try:
        return _CONSTANTS[text.lower()] if text.lower() in _CONSTANTS else ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def open_bags(
    data: str,
    options: ReadOptions = NO_OPTIONS,
    *,
    labelled: bool = True,
    lazy: bool = False,
    images: str | None = None,
    output: "Output | None" = None,
) -> Any:
    """Return the bags of a file, of a folder of slides, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; an existing file takes precedence.
    options : ReadOptions
        As given on the command line.
    labelled : bool, default=True
        Raise an error for bags without labels.
    lazy : bool, default=False
        Return lazy bags, which stay on disk.
    images : str, optional
        Column with picture files, kept as information.
    output : Output, optional
        Where to show progress, and to warn of unusual data.
    """
    from pigmil.bags import unusual_data
    from pigmil.io import scan_bags

    bags: Any
    with nullcontext() if output is None else output.progress("reading bags"):
        if Path(data).exists():
            bags = scan_bags(data, **options.arguments(data, images))
            bags = bags if lazy else bags.load()
        else:
            bags = _load_by_name(data)
    if labelled and bags.y is None:
        hint = "name their column with --label, or a table that has them with --labels"
        if Path(data).is_dir():
            hint = "name the table that has them with --labels, its columns with --id and --label"
        raise BagFormatError(f"'{data}' has no bag labels, and fitting needs them; {hint}.")
    if output is not None and not lazy:
        for sentence in unusual_data(bags):
            output.warn(sentence)
    return bags


def _load_by_name(name: str) -> "Bags":
    """Return a data set; an unknown name may also be that of a missing file."""
    from pigmil import datasets

    known = datasets.list_datasets()
    if name not in known:
        beside = itertools.islice(Path(name).parent.glob("[!.]*"), 10_000)
        hint = did_you_mean(name, [*map(str, beside), *known])
        raise BagFormatError(
            f"There is no file '{name}' (working folder: {Path.cwd()}), and no data set of that "
            f"name.{hint or ' See `pigmil datasets list`.'}"
        )
    return datasets.load_dataset(name)


def is_table(data: str) -> bool:
    """Return whether the data is a table, whose columns are named by options."""
    return Path(data).is_file() and Path(data).suffix.lower() in _TABLES


def find_positive_label(bags: "Bags | LazyBags", positive: str | None) -> Any:
    """Return the label that ``--positive`` names, or None for numeric labels without it.

    Text labels have no order, so a guess would often rank the instances of negative bags.
    """
    import numpy as np

    labels, counts = np.unique(np.asarray(bags.y), return_counts=True)
    numbers = zip(labels, counts, strict=True)
    listed = ", ".join(f"'{label}' ({count(int(n), 'bag')})" for label, n in numbers)
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
