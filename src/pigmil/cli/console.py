"""What every command shares: options, output for people and machines, errors, progress."""

import functools
import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from pigmil._core.errors import PigmilError

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

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
# Mistakes of the caller: their messages are written to be read.
_INPUT_ERRORS = (PigmilError, ValueError, TypeError, OSError)


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
        self.console = Console(quiet=quiet or as_json, highlight=False)
        self.errors = Console(stderr=True, quiet=quiet, highlight=False)
        self.result: dict[str, Any] = {}
        self.files: list[str] = []

    def say(self, text: str) -> None:
        """Print a line; what looks like markup is shown as it is."""
        self.console.print(escape(text), soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, title: str | None = None
    ) -> None:
        """Print a table of plain values."""
        drawn = Table(title=None if title is None else escape(title), title_justify="left")
        for number, column in enumerate(columns):
            drawn.add_column(escape(column), justify="left" if number == 0 else "right")
        for row in rows:
            drawn.add_row(*(escape(str(value)) for value in row))
        self.console.print(drawn)

    def wrote(self, path: Path, what: str) -> None:
        """Note a file that was written, to be named at the end."""
        self.files.append(str(path))
        self.say(f"wrote {path}  ({what})")

    def finish(self) -> None:
        """End the command: for machines, print the object."""
        if self.as_json:
            sys.stdout.write(json.dumps({**self.result, "files": self.files}, default=_plain))
            sys.stdout.write("\n")

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show a bar with the time left; the caller reports (done, total, what)."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=self.errors, disable=self.as_json) as bar:
            task = bar.add_task(escape(what), total=None)

            def report(done: int, total: int, now: str) -> None:
                bar.update(task, completed=done, total=total, description=escape(now))

            yield report


def _plain(value: Any) -> Any:
    """JSON form of numpy values and paths."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


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
            function(output, *args, **options)
        except KeyboardInterrupt:
            output.errors.print("stopped; finished work is kept")
            raise typer.Exit(INTERRUPTED) from None
        except _INPUT_ERRORS as error:
            _fail(output, error, debug, WRONG_INPUT)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            _fail(output, error, debug, FAILED)
        output.finish()

    # typer reads the signature: all but the first argument.
    signature = functools.partial(function, None)
    guarded.__signature__ = inspect.signature(signature)  # type: ignore[attr-defined]
    return guarded


def _fail(output: Output, error: Exception, debug: bool, status: int) -> None:
    if debug:
        output.errors.print_exception()
    text = str(error) or type(error).__name__
    if status == FAILED:
        text = f"{type(error).__name__}: {text} (--debug shows where)"
    if output.as_json:
        sys.stdout.write(json.dumps({"error": text, "status": status}) + "\n")
    Console(stderr=True, highlight=False).print(
        f"[bold red]error:[/] {escape(text)}", soft_wrap=True
    )
    raise typer.Exit(status) from None


def _configure_logging(console: Console, debug: bool) -> None:
    logger = logging.getLogger("pigmil")
    logger.handlers = [RichHandler(console=console, show_time=False, show_path=False)]
    logger.setLevel(logging.INFO if debug else logging.WARNING)
    logger.propagate = False
