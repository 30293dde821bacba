"""What every command shares: options, output for people and machines, errors, progress."""

import functools
import inspect
import json
import logging
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

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
from pigmil._core.json import to_json_safe
from pigmil.cli import INTERRUPTED

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text.", show_default=False)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", show_default=False)
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks and log messages.", show_default=False)
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything that is random.")]
JobsOption = Annotated[int, typer.Option("--jobs", "-j", help="Parallel workers.", min=1)]

DONE, FAILED, WRONG_INPUT = 0, 1, 2
# Mistakes of the caller: their messages are written to be read.
_INPUT_ERRORS = (PigmilError, ValueError, TypeError, OSError)


class CommandFailedError(Exception):
    """The work was done as asked and came to nothing; exit status 1."""


class Output:
    """Where a command speaks to: text on a terminal, or one JSON object at its end.

    Parameters
    ----------
    as_json : bool
        One JSON object on standard output; text goes nowhere.
    quiet : bool
        No text.
    """

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self.as_json = as_json
        self.silent = quiet or as_json
        self.console = Console(quiet=self.silent, highlight=False, emoji=False)
        self.errors = Console(stderr=True, quiet=quiet, highlight=False, emoji=False)
        self.result: dict[str, Any] = {}
        self.files: list[str] = []

    def say(self, text: str) -> None:
        """Print a line; what looks like markup is shown as it is."""
        self.console.print(escape(text), soft_wrap=True)

    def warn(self, text: str) -> None:
        """Print a line on standard error."""
        self.errors.print(f"[yellow]warning:[/] {escape(text)}", soft_wrap=True)

    def table(
        self,
        columns: Sequence[str],
        rows: Sequence[Sequence[Any]],
        *,
        title: str | None = None,
        left: Sequence[int] = (0,),
    ) -> None:
        """Print a table of plain values; columns are set right unless they are in ``left``."""
        drawn = Table(title=None if title is None else escape(title), title_justify="left")
        for number, column in enumerate(columns):
            drawn.add_column(escape(column), justify="left" if number in left else "right")
        for row in rows:
            drawn.add_row(*(escape(_visible(value)) for value in row))
        self.console.print(drawn)

    def wrote(self, path: Path, what: str) -> None:
        """Note a file that was written, to be named at the end."""
        self.files.append(str(path))
        self.say(f"wrote {path}  ({what})")

    def finish(self) -> None:
        """End the command: for machines, print the object."""
        if self.as_json:
            _print_json({**self.result, "files": self.files})

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show a bar with the time left; the caller reports (done, total, what)."""
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
            task = bar.add_task(escape(what), total=None)
            told = 0

            def report(done: int, total: int, now: str) -> None:
                nonlocal told
                bar.update(task, completed=done, total=total, description=escape(now))
                tenth = 10 * done // max(total, 1)
                if not terminal and not self.silent and tenth > told:
                    told = tenth  # a log gets a line now and then in place of a bar
                    self.errors.print(escape(f"{what}: {done} of {total} ({now})"), soft_wrap=True)

            yield report


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn errors of a command into one message and an exit status.

    The function takes ``output`` as its first argument, made from the options ``as_json`` and
    ``quiet`` of the command; it must declare those options and ``debug``.
    """

    @functools.wraps(function)
    def guarded(*args: Any, **options: Any) -> None:
        output = Output(as_json=options["as_json"], quiet=options["quiet"])
        debug = options["debug"]
        _configure_logging(output.errors, debug)
        try:
            with _warnings_as_lines(output):
                function(output, *args, **options)
            output.finish()
            sys.stdout.flush()
        except KeyboardInterrupt:
            if output.as_json:
                _print_json({"error": "stopped", "status": INTERRUPTED})
            output.errors.print("stopped; nothing is half-written, finished work is kept")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            # The reader has gone (`| head`); Python would complain once more at its end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except _INPUT_ERRORS as error:
            _fail(output, error, debug, WRONG_INPUT)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            _fail(output, error, debug, FAILED)

    # typer reads the signature: all but the first argument.
    signature = functools.partial(function, None)
    guarded.__signature__ = inspect.signature(signature)  # type: ignore[attr-defined]
    guarded.__doc__ = flowing(function.__doc__)
    return guarded


def flowing(text: str | None) -> str:
    """Help with each paragraph on one line, so that it fills any terminal; examples stay."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        part if part.startswith(" ") else " ".join(part.split()) for part in paragraphs
    )


def command_line() -> str:
    """What the user typed, to be kept with what came of it."""
    return shlex.join(["pigmil", *sys.argv[1:]])


def _print_json(content: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(to_json_safe(content), allow_nan=False) + "\n")


def _visible(value: Any) -> str:
    """A name on one line of a terminal, without the codes that would steer it."""
    from pigmil.report.text import sanitize

    return sanitize(value)


def _fail(output: Output, error: Exception, debug: bool, status: int) -> None:
    if debug:
        output.errors.print_exception()
    text = str(error) or type(error).__name__
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
    """Show warnings as lines for a reader, each text once."""
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
