"""Inputs of commands: their options, the bags and the method that these name."""

import ast
import functools
import inspect
import shlex
from collections.abc import Collection
from contextlib import AbstractContextManager
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


def complete_method(incomplete: str) -> list[str]:
    """Return the method names that start with the text, for shell completion."""
    from pigmil.estimators.registry import METHODS

    return [name for name in METHODS if name.lower().startswith(incomplete.lower())]


# Options by their group in ``--help``; `command` adds names and descriptions.
data_option = functools.partial(typer.Option, rich_help_panel="Data")
method_option = functools.partial(typer.Option, rich_help_panel="Method")
result_option = functools.partial(typer.Option, rich_help_panel="Results")
T = TypeVar("T")
Data = Annotated[T, data_option()]
Method = Annotated[T, method_option()]
Result = Annotated[T, result_option()]

DataArgument = Annotated[str, typer.Argument(metavar="DATA")]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL")]
MethodOption = Annotated[str, method_option("--method", "-m", autocompletion=complete_method)]
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

    def arguments(self, data: str) -> dict[str, Any]:
        """Return the arguments of :func:`pigmil.scan_bags` for data."""
        given = named_values("--read", self.read, reading_parameters())
        for name in ("bag", "label", "id"):
            if getattr(self, name) is not None:
                given[name] = _column(getattr(self, name))
        if self.info:
            given["info"] = [_column(name) for name in self.info]
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


def _column(name: str) -> str | int:
    """Return a column name, or a position if it is a number."""
    return int(name) if name.lstrip("-").isdigit() else name


@functools.cache
def reading_parameters() -> tuple[str, ...]:
    """Return the parameters of :func:`pigmil.scan_bags`."""
    from pigmil.io import scan_bags

    return tuple(inspect.getfullargspec(scan_bags).kwonlyargs)


def split_setting(text: str, option: str = "--write", expected: str = "") -> tuple[str, Any]:
    """Return name and value of a text such as ``name=value``."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise ValueError(f"{option} {text}: expected name=value{expected}.")
    return name, literal(value)


def named_values(
    option: str, texts: list[str] | None, known: Collection[str], of: str = ""
) -> dict[str, Any]:
    """Return the values of an option that is given as ``name=value``, with known names."""
    expected = f" with a parameter{of}: {', '.join(known)}"
    values = dict(split_setting(text, option, expected) for text in texts or [])
    for name in values:
        if name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(f"{option} {name}: expected name=value{expected}.{hint}")
    return values


def literal(text: str) -> Any:
    """Return the Python value that a text represents, or the text itself."""
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text


def open_bags(
    data: str,
    options: ReadOptions = NO_OPTIONS,
    *,
    labelled: bool = True,
    lazy: bool = False,
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
    output : Output, optional
        Where to warn of unusual data.
    """
    from pigmil.bags import unusual_data
    from pigmil.io import scan_bags

    bags: Any
    if Path(data).exists():
        bags = scan_bags(data, **options.arguments(data))
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
        try:
            beside = [path for path in Path(name).parent.iterdir() if path.name[0] != "."]
        except OSError:
            beside = []
        hint = did_you_mean(name, [*map(str, beside[:10_000]), *known])
        raise BagFormatError(
            f"There is no file '{name}' (working folder: {Path.cwd()}), and no data set of that "
            f"name.{hint or ' See `pigmil datasets list`.'}"
        )
    return datasets.load_dataset(name)


def is_table(data: str) -> bool:
    """Return whether the data is a table, whose columns are named by options."""
    return Path(data).is_file() and Path(data).suffix.lower() in _TABLES


def start_cluster(workers: str | None) -> AbstractContextManager[Any]:
    """Start the workers that an option asks for, or connect to those of a scheduler."""
    from pigmil.scale import cluster_client

    number = workers is not None and workers.isdigit()
    if number and not int(workers or 0):
        raise ValueError("--workers 0: expected at least one, or the address of a scheduler.")
    return cluster_client(None if number else workers, int(workers or 0) if number else None)


def find_positive_label(bags: "Bags | LazyBags", positive: str | None) -> Any:
    """Return the label that ``--positive`` names, or None for numeric labels without it.

    Text labels have no order, so a guess would often rank the instances of negative bags.
    """
    import numpy as np

    labels, counts = np.unique(np.asarray(bags.y), return_counts=True)
    known = zip(labels, counts, strict=True)
    listed = ", ".join(f"'{label}' ({count(int(n), 'bag')})" for label, n in known)
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


def build_method(name: str, settings: list[str] | None, seed: int, *, detects: bool = False) -> Any:
    """Build a method with parameters given as ``name=value``."""
    from pigmil.estimators import get_estimator

    kind = get_estimator(name)
    model = kind()
    known = [parameter for parameter in model.get_params() if parameter != "callback"]
    values = named_values("--set", settings, known, f" of {name}")
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
            total, step_name = model.max_updates, f"updating {model.card.name}"
            model.set_params(
                callback=lambda step: report_progress(step.n_updates, total, step_name)
            )
        try:
            (model if pipeline is None else pipeline).fit(bags, bags.y)
        finally:
            if has_callback:  # it must not be stored with the model
                model.set_params(callback=None)
