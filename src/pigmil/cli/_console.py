"""Output of commands: text, JSON, tables, progress and errors, on any terminal or stream."""

import ast
import copy
import dataclasses
import functools
import inspect
import json
import logging
import re
import shlex
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress

from pigmil._core.errors import PigmilError, import_optional
from pigmil._core.files import atomic_write
from pigmil._core.text import Table, escape_formula, sanitize, to_json_safe

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130
_BEAT = 4.0  # seconds between the lines that a long task writes to a log file
TABLES = (".csv", ".parquet")
INSTANCE_TABLES = (*TABLES, ".h5ad")
REPORTS = (".html", ".htm", ".md")
# Errors in what the user passed; their messages are shown without a traceback.
_INPUT_ERRORS = (PigmilError, ValueError, TypeError, OSError)
# A parameter in a message of the library, with the value that it suggests.
_PARAMETER = re.compile(
    r"(?<![\w.-])(?<!--read )(?<!--set )(?<!--write )([a-z_]+)="
    r"(\[[^\]]*\]|'[^']*'|\"[^\"]*\"|(?:True|False)\b|-?\d+)?"
)


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """Options that every command has.

    Parameters
    ----------
    as_json : bool
        Print one JSON object instead of text.
    quiet : bool
        Print nothing but errors.
    debug : bool
        Show tracebacks and log messages.
    """

    as_json: Annotated[bool, typer.Option("--json")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q")] = False
    debug: Annotated[bool, typer.Option()] = False


_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_COMMON = inspect.Parameter("common", _KEYWORD, default=OutputOptions())


class CommandFailedError(Exception):
    """The command ran as asked but produced no result; exit status 1."""


class Output:
    """Output of a command: text on a terminal, or one JSON object at the end.

    Parameters
    ----------
    options : OutputOptions
        Whether to print JSON or no text at all.
    context : typer.Context
        The command that runs; messages name its options.

    Attributes
    ----------
    result : dict
        Content of the JSON object, besides the files.
    files : list of str
        The files that were written.
    """

    def __init__(self, options: OutputOptions, context: typer.Context) -> None:
        self.as_json = options.as_json
        self.silent = options.quiet or options.as_json
        self.console = Console(quiet=self.silent, highlight=False, emoji=False)
        self.errors = Console(stderr=True, quiet=options.quiet, highlight=False, emoji=False)
        self.context = context
        self.result: dict[str, Any] = {}
        self.files: list[str] = []
        self._last_beat = time.monotonic()

    def print(self, text: str) -> None:
        """Print a line; markup in it is not interpreted."""
        self.console.print(_visible(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        text = name_options(text, option_names(self.context))
        self.errors.print(f"[yellow]warning:[/] {_visible(text)}", soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]], **look: Any) -> None:
        """Print a table; the arguments are those of :class:`pigmil.report.Table`."""
        self.console.print(Table(columns, rows, **look).rich())

    def add_file(self, path: Path, description: str) -> None:
        """Report a file that was written."""
        self.files.append(str(path))
        self.print(f"wrote {path}  ({description})")

    def print_json(self, content: dict[str, Any]) -> None:
        """Print the JSON object, if it was asked for."""
        if self.as_json:
            sys.stdout.write(json.dumps(to_json_safe(content), allow_nan=False) + "\n")

    @contextmanager
    def progress(self, task_name: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show a progress bar with the time left; yield a function of (done, total, step).

        A log file gets a line every few seconds instead, and one at the end.
        """
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        in_log = not self.silent and not self.errors.is_terminal
        state, ended, start = "", threading.Event(), time.monotonic()

        def beat() -> None:  # short tasks share the silence of those before
            while not ended.wait(max(0.0, self._last_beat + _BEAT - time.monotonic())):
                self._last_beat = time.monotonic()
                seconds = self._last_beat - start
                self.errors.print(escape(f"{task_name}: {seconds:.0f} s{state}"), soft_wrap=True)

        with Progress(
            *columns, console=self.errors, disable=self.silent or in_log, transient=True
        ) as bar:
            task = bar.add_task(escape(task_name), total=None)

            def report(done: int, total: int, step: str) -> None:
                nonlocal state
                state = f", {done} of {total} ({sanitize(step)})"
                bar.update(task, completed=done, total=total, description=escape(sanitize(step)))

            if in_log:
                threading.Thread(target=beat, daemon=True).start()
            try:
                yield report
            finally:
                ended.set()
        if in_log and state:
            self.errors.print(escape(task_name + state), soft_wrap=True)

    def fail(self, error: Exception, status: int, *, debug: bool) -> None:
        """Print an error and exit with a status."""
        if debug:
            self.errors.print_exception()
        parameter = getattr(error, "parameter", None)
        text = name_options(str(error), option_names(self.context), parameter)
        text = text or type(error).__name__
        if status == FAILED and not isinstance(error, CommandFailedError):
            text = f"{type(error).__name__}: {text} (--debug shows where)"
        self.print_json({"error": text, "status": status})
        errors = Console(stderr=True, highlight=False, emoji=False)
        errors.print(f"[bold red]error:[/] {_visible(text)}", soft_wrap=True)
        raise typer.Exit(status) from None


def name_options(message: str, options: Mapping[str, str], parameter: str | None = None) -> str:
    """Name the options of the command line in a message about parameters.

    Parameters
    ----------
    message : str
        Message of the library; it has parameters as ``name=`` or ``name=value``.
    options : mapping of str to str
        Option by parameter; ``--read name=`` for one that is passed on by name.
    parameter : str, optional
        The parameter of the error; its option is put in front if the message does not have it.

    Examples
    --------
    >>> names = {"info": "--info", "header": "--read header="}
    >>> name_options("Keep it with info=['a', 'b'] or pass header=False.", names)
    'Keep it with --info a --info b or pass --read header=False.'
    >>> name_options("There is no column 'c'.", names, "info")
    "--info: There is no column 'c'."
    """

    def option(match: re.Match[str]) -> str:
        flag, text = options.get(match[1]), match[2] or ""
        if flag is None:
            return match[0]
        if flag.endswith("="):  # passed on by name
            return flag + shlex.quote(text.strip("'\"") or "VALUE")
        if text in ("", "True", "[...]") or " " in flag:
            return flag
        value = ast.literal_eval(text)
        values = value if isinstance(value, list) else [value]
        return " ".join(f"{flag} {shlex.quote(str(one))}" for one in values)

    named = _PARAMETER.sub(option, message)
    flag = options.get(parameter or "")
    if flag is None or flag.rstrip("=") in named:
        return named
    return f"{flag.rstrip('=')}: {named}"


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn the errors of a command into one message and an exit status.

    The function gets an `Output` as its first argument, built from the `OutputOptions` that every
    command has. A parameter whose default is a data class stands for the fields of the class, each
    an option. The help of an option is the description in the section "Parameters" of the docstring
    of the function or of the data class.
    """
    text, help_texts = split_parameters(function.__doc__)
    signature = inspect.signature(function)
    parameters, option_classes = [], dict[str, Any]()
    for parameter in (*list(signature.parameters.values())[1:], _COMMON):
        default = parameter.default
        if not dataclasses.is_dataclass(default):
            parameters.append(_with_help(parameter, help_texts))
            continue
        option_classes[parameter.name] = default
        types = get_type_hints(type(default), include_extras=True)
        field_texts = split_parameters(default.__doc__)[1]
        for name, value in vars(default).items():
            field = parameter.replace(name=name, annotation=types[name], default=value)
            parameters.append(_with_help(field, field_texts))

    @functools.wraps(function)
    def guarded(context: typer.Context, **options: Any) -> None:
        for name, default in option_classes.items():
            fields = {field: options.pop(field) for field in vars(default)}
            options[name] = type(default)(**fields)
        common: OutputOptions = options.pop("common")
        output = Output(common, context)
        try:
            with _log_as_lines(output.errors, common.debug), _warnings_as_lines(output):
                function(output, **options)
            output.print_json({**output.result, "files": output.files})
            sys.stdout.flush()
        except KeyboardInterrupt:
            output.print_json({"error": "stopped", "status": INTERRUPTED})
            output.errors.print("stopped; finished work is kept, unfinished files were removed")
            raise typer.Exit(INTERRUPTED) from None
        except (BrokenPipeError, typer.Exit, typer.Abort):
            raise  # handled by the entry point
        except Exception as error:
            wrong_input = isinstance(error, _INPUT_ERRORS)
            output.fail(error, WRONG_INPUT if wrong_input else FAILED, debug=common.debug)

    # Typer builds the options from the signature, and passes the context.
    given = inspect.Parameter("context", _KEYWORD, annotation=typer.Context)
    parameters = [parameter.replace(kind=_KEYWORD) for parameter in (given, *parameters)]
    guarded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    guarded.__doc__ = unwrap_paragraphs(text)
    return guarded


def split_parameters(doc: str | None) -> tuple[str, dict[str, str]]:
    r"""Return a docstring without its section "Parameters", and the descriptions of that section.

    Examples
    --------
    >>> split_parameters("Add.\n\nParameters\n----------\nx : int\n    One\n    number.")
    ('Add.', {'x': 'One number.'})
    """
    text, _, rest = inspect.cleandoc(doc or "").partition("\n\nParameters\n----------\n")
    section, blank, after = rest.partition("\n\n")
    entries = re.findall(r"^(\w+).*\n((?:    .+\n?)+)", section, re.MULTILINE)
    return text + blank + after, {name: " ".join(lines.split()) for name, lines in entries}


def _with_help(parameter: inspect.Parameter, help_texts: Mapping[str, str]) -> inspect.Parameter:
    """Return a parameter whose option has a help text, and a name if it was declared without."""
    kind, declared = get_args(parameter.annotation)
    option = copy.copy(declared)
    option.help = option.help or help_texts.get(parameter.name)
    if isinstance(option, typer.models.OptionInfo) and option.default is ...:
        name = parameter.name.strip("_").replace("_", "-")
        flag = f"--{name}/--no-{name}" if parameter.default is True else f"--{name}"
        option.param_decls = (flag,)
    return parameter.replace(annotation=Annotated[kind, option])


def option_names(context: typer.Context) -> dict[str, str]:
    """Return the options of a command by parameter; those of reading may be passed on by name."""
    names: dict[str, str] = {}
    for parameter in context.command.params:
        flags = [flag for flag in parameter.opts if flag.startswith("--")]
        keys = (parameter.name, *(flag[2:].replace("-", "_") for flag in flags))
        names |= {str(key): flags[0] for key in keys if flags}
    if "read" in names:
        from pigmil.cli._inputs import reading_parameters

        names = {name: f"--read {name}=" for name in reading_parameters()} | names
        names["missing_values"] = "--impute median"
        if context.params.get("group"):
            names["bag_info"] = names["group"]
    return names


def unwrap_paragraphs(text: str | None) -> str:
    """Join the lines of each paragraph, so that help fills the terminal; examples stay."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        part if part.startswith(" ") else " ".join(part.split()) for part in paragraphs
    )


def command_line() -> str:
    """Return the command as typed, to be stored with its results."""
    return shlex.join(["pigmil", *sys.argv[1:]])


def _visible(text: str) -> str:
    """Return text without markup or control characters: ids of a file may contain both."""
    return escape("\n".join(sanitize(line, limit=len(line)) for line in text.split("\n")))


@contextmanager
def _warnings_as_lines(output: Output) -> Iterator[None]:
    """Print each distinct warning once, as one line."""
    seen: set[str] = set()

    def show(message: Any, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            output.warn(str(message))

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = show
        yield


@contextmanager
def _log_as_lines(console: Console, debug: bool) -> Iterator[None]:
    """Print what the library logs; afterwards its logger is as it was."""
    logger = logging.getLogger("pigmil")
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers = [RichHandler(console=console, show_time=False, show_path=False)]
    logger.setLevel(logging.INFO if debug else logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.handlers, logger.propagate = before[:2]
        logger.setLevel(before[2])


def check_targets(
    source: str | Sequence[str], targets: Mapping[str, tuple[Path | None, Sequence[str]]]
) -> None:
    """Raise an error for files that cannot be written or would overwrite the data.

    Parameters
    ----------
    source : str or sequence of str
        The data that the command reads.
    targets : mapping of str to (Path, sequence of str)
        Files by option, None if not requested, and their suffixes, all if there are none.
    """
    sources = [source] if isinstance(source, str) else source
    used = {Path(one).resolve(): "the data" for one in sources}
    for option, (path, suffixes) in targets.items():
        if path is None:
            continue
        reason = None
        if suffixes and path.suffix.lower() not in suffixes:
            reason = f"the suffix must be {', '.join(suffixes)}"
        elif path.is_dir():
            reason = "it is a folder"
        elif not path.absolute().parent.is_dir():
            reason = f"there is no folder '{path.parent}'"
        elif path.exists() and not path.is_file():
            reason = "it is not a regular file"
        elif path.resolve() in used:
            reason = f"it would overwrite {used[path.resolve()]}; choose another name"
        if reason is not None:
            raise ValueError(f"{option}: cannot write '{path}': {reason}.")
        used[path.resolve()] = option


def write_table(columns: dict[str, Any], path: Path) -> Path:
    """Write a table as .csv or .parquet.

    Text in .csv that a spreadsheet would run as a formula gets an apostrophe in front.

    Parameters
    ----------
    columns : dict of str to array
        Values by column name.
    path : Path
        The file; it is replaced only when the table is complete.
    """
    pa = import_optional("pyarrow", extra="io", purpose="Writing a table")
    as_text = path.suffix.lower() == ".csv"
    shown = escape_formula if as_text else lambda value: value
    table = pa.table({shown(name): _to_arrow(values, shown) for name, values in columns.items()})
    kind = "csv" if as_text else "parquet"
    writer = import_optional(f"pyarrow.{kind}", extra="io", purpose=f"Writing {kind}")
    with atomic_write(path) as temporary:
        (writer.write_csv if as_text else writer.write_table)(table, temporary)
    return path


def write_obs(columns: dict[str, Any], data: str, bags: Any, path: Path) -> Path:
    """Write a copy of an AnnData file with values of the instances as columns of ``obs``.

    Parameters
    ----------
    columns : dict of str to array
        Values of all instances by column name; those of numbers and of true and false.
    data : str
        The AnnData file that the bags were read from.
    bags : Bags
        With the names of the observations.
    path : Path
        The file.
    """
    import numpy as np

    anndata = import_optional("anndata", extra="anndata", purpose="Writing AnnData")
    names = bags.instance_info.get("obs_name")
    if names is None:
        raise ValueError(f"{path} can hold the scores of an AnnData file only (.h5ad).")
    table = anndata.read_h5ad(data)
    place = table.obs_names.get_indexer(names)
    for name, values in columns.items():
        column = np.full(table.n_obs, False if values.dtype == bool else np.nan)
        column[place] = values
        table.obs[f"pigmil_{name}"] = column
    with atomic_write(path) as temporary:
        table.write_h5ad(temporary)
    return path


def _to_arrow(values: Any, shown: Callable[[Any], Any]) -> Any:
    import numpy as np

    array = np.asarray(values)
    return [shown(str(value)) for value in array] if array.dtype.kind in "OU" else array
