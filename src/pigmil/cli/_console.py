"""Parts that all commands share: options, output as text or JSON, errors, progress."""

import dataclasses
import functools
import inspect
import json
import logging
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from pigmil._core.errors import PigmilError
from pigmil._core.text import sanitize, to_json_safe
from pigmil.cli._hints import as_options
from pigmil.cli._streams import FAILED, INTERRUPTED, WRONG_INPUT, OutputError, writing_output

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text.", show_default=False)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", show_default=False)
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks and log messages.", show_default=False)
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed for everything random.")]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", help="Parallel workers.", min=1)]

# Errors in what the user passed; their messages are shown without a traceback.
_INPUT_ERRORS = (PigmilError, ValueError, TypeError, OSError)


class CommandFailedError(Exception):
    """The command ran as asked but produced no result; exit status 1."""


class Output:
    """Output of a command: text on a terminal, or one JSON object at the end.

    Parameters
    ----------
    as_json : bool
        Print one JSON object on standard output and no text.
    quiet : bool
        Print no text.

    Attributes
    ----------
    result : dict
        Content of the JSON object, besides the files.
    files : list of str
        The files that were written.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.silent = quiet or as_json
        self.console = Console(quiet=self.silent, highlight=False, emoji=False)
        self.errors = Console(stderr=True, quiet=quiet, highlight=False, emoji=False)
        self.result: dict[str, Any] = {}
        self.files: list[str] = []

    def print(self, text: str) -> None:
        """Print a line; markup in it is not interpreted."""
        with writing_output():
            self.console.print(escape(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a warning on standard error."""
        self.errors.print(f"[yellow]warning:[/] {escape(as_options(text))}", soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        title: str | None = None,
        left: Sequence[int] = (0,),
    ) -> None:
        """Print a table; columns are aligned right unless they are in ``left``."""
        table = Table(title=None if title is None else escape(title), title_justify="left")
        for number, column in enumerate(columns):
            table.add_column(escape(column), justify="left" if number in left else "right")
        for row in rows:
            table.add_row(*(escape(sanitize(value)) for value in row))
        with writing_output():
            self.console.print(table)

    def add_file(self, path: Path, description: str) -> None:
        """Report a file that was written."""
        self.files.append(str(path))
        self.print(f"wrote {path}  ({description})")

    def finish(self) -> None:
        """Print the JSON object, if it was asked for, and flush."""
        if self.as_json:
            _print_json({**self.result, "files": self.files})
        with writing_output():
            sys.stdout.flush()

    @contextmanager
    def progress(self, task_name: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show a progress bar with the time left; yield a function of (done, total, step)."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        terminal = self.errors.is_terminal
        with Progress(
            *columns, console=self.errors, disable=self.silent or not terminal, transient=True
        ) as bar:
            task = bar.add_task(escape(task_name), total=None)
            last_tenth = 0

            def report(done: int, total: int, step: str) -> None:
                nonlocal last_tenth
                bar.update(task, completed=done, total=total, description=escape(step))
                tenth = 10 * done // max(total, 1)
                if not terminal and not self.silent and tenth > last_tenth:
                    last_tenth = tenth  # a log file gets at most ten lines instead of a bar
                    line = f"{task_name}: {done} of {total} ({step})"
                    self.errors.print(escape(line), soft_wrap=True)

            yield report


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn the errors of a command into one message and an exit status.

    The function gets an `Output` as its first argument, built from the options ``as_json`` and
    ``quiet``; it must declare these options and ``debug``. A parameter whose default is a data
    class stands for the fields of the class, each an option.
    """
    signature = inspect.signature(functools.partial(function, None))
    parameters, groups = _expand_option_classes(signature)

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> None:
        output = Output(as_json=options["as_json"], quiet=options["quiet"])
        debug = options["debug"]
        _configure_logging(output.errors, debug)
        for name, group in groups.items():
            fields = [field.name for field in dataclasses.fields(group)]
            options[name] = group(**{field: options.pop(field) for field in fields})
        try:
            with _warnings_as_lines(output):
                function(output, *args, **options)
            output.finish()
        except KeyboardInterrupt:
            if output.as_json:
                _print_json({"error": "stopped", "status": INTERRUPTED})
            output.errors.print("stopped; finished work is kept, unfinished files were removed")
            raise typer.Exit(INTERRUPTED) from None
        except (BrokenPipeError, OutputError):
            raise  # handled by the entry point
        except _INPUT_ERRORS as error:
            _fail(output, error, debug, WRONG_INPUT)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            _fail(output, error, debug, FAILED)

    # Typer builds the options from the signature, which lacks the first argument.
    guarded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {one.name: one.annotation for one in parameters}
    guarded.__doc__ = unwrap_paragraphs(function.__doc__)
    return guarded


def _expand_option_classes(
    signature: inspect.Signature,
) -> tuple[list[inspect.Parameter], dict[str, Any]]:
    """Return the parameters with fields instead of data classes, and the classes by parameter."""
    parameters, classes = [], {}
    for name, parameter in signature.parameters.items():
        if not dataclasses.is_dataclass(parameter.default):
            parameters.append(parameter)
            continue
        kind: Any = type(parameter.default)
        classes[name] = kind
        types = get_type_hints(kind, include_extras=True)
        parameters += [
            parameter.replace(name=one.name, annotation=types[one.name], default=one.default)
            for one in dataclasses.fields(kind)
        ]
    return parameters, classes


def unwrap_paragraphs(text: str | None) -> str:
    """Join the lines of each paragraph, so that help fills the terminal; examples stay."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        part if part.startswith(" ") else " ".join(part.split()) for part in paragraphs
    )


def command_line() -> str:
    """Return the command as typed, to be stored with its results."""
    return shlex.join(["pigmil", *sys.argv[1:]])


def _print_json(content: dict[str, Any]) -> None:
    with writing_output():
        sys.stdout.write(json.dumps(to_json_safe(content), allow_nan=False) + "\n")


def _fail(output: Output, error: Exception, debug: bool, status: int) -> None:
    if debug:
        output.errors.print_exception()
    text = as_options(str(error)) or type(error).__name__
    if status == FAILED and not isinstance(error, CommandFailedError):
        text = f"{type(error).__name__}: {text} (--debug shows where)"
    if output.as_json:
        _print_json({"error": text, "status": status})
    Console(stderr=True, highlight=False, emoji=False).print(
        f"[bold red]error:[/] {escape(text)}", soft_wrap=True
    )
    raise typer.Exit(status) from None


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
            warnings.showwarning = show
        yield


def _configure_logging(console: Console, debug: bool) -> None:
    logger = logging.getLogger("pigmil")
    logger.handlers = [RichHandler(console=console, show_time=False, show_path=False)]
    logger.setLevel(logging.INFO if debug else logging.WARNING)
    logger.propagate = False
