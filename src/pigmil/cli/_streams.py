"""Standard output and error of the process: encodings that lack signs, closed and full streams."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
_ASCII = {"±": "+/-", "–": "-", "…": "...", "×": "x", "≤": "<=", "≥": ">="}


class OutputError(Exception):
    """Standard output cannot be written to."""


def prepare_streams() -> None:
    """Make standard streams usable in any locale, and refuse a closed standard output."""
    codecs.register_error("pigmil.ascii", _to_ascii)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - lives as long as the process
    if sys.stdout is None:
        raise OutputError("it is closed; redirect it to a file or to /dev/null")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="pigmil.ascii")


@contextmanager
def writing_output() -> Iterator[None]:
    """Raise `OutputError` for what goes wrong in writing to standard output."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(error.strerror or str(error)) from error


def discard_output() -> None:
    """Drop what standard output still holds, which Python would try to write at its end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _to_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    safe = "".join(_ASCII.get(sign) or ascii(sign)[1:-1] for sign in text)
    return safe, error.end
