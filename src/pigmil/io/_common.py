"""Shared by readers and writers: clear errors, lines of text, atomic writing, memory checks."""

import contextlib
import gzip
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from pigmil._core.errors import BagFormatError, BagsError, MissingDependencyError
from pigmil._core.files import atomic_write_all
from pigmil._core.memory import available_memory
from pigmil._core.text import listed as listed

Column = str | int | bool | None
_MAX_ROW, _MAX_LINES = 1 << 24, 20_000_000  # characters of a row, and lines, of a packed table
MAX_LINE = 1 << 28  # characters in one line: a line this long is no line of a text format


class BagFileNotFoundError(BagFormatError, FileNotFoundError):
    """There is no file where bags were to be read."""

    __str__ = Exception.__str__


@dataclass(frozen=True)
class Request:
    """The options of ``read_bags`` that every format shares."""

    bag: Column = None
    label: Column = None
    instance_label: Column = None
    info: tuple[str | int, ...] = ()
    ids: type | None = None
    labels: type | str | Mapping[Any, Any] | None = None
    dtype: Any = None
    bag_info: tuple[str | int, ...] = ()
    missing: str = "raise"
    memory_map: bool | str | os.PathLike[str] | None = None


def raise_format_error(path: Path, problem: str, *, where: str = "", hint: str = "") -> NoReturn:
    """Raise the error of a file: which file, where in it, what is wrong, how to fix it."""
    location = f"{path}, {where}" if where else str(path)
    raise BagFormatError(f"{location}: {problem}" + (f" {hint}" if hint else ""))


@contextlib.contextmanager
def parsing(path: Path, what: str, *, hint: str = "") -> Iterator[None]:
    """Turn any error of a parser on a damaged file into one readable error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (BagFormatError, MissingDependencyError):
        raise
    except BagsError as error:
        raise BagFormatError(f"{path}: {error}") from error
    except Exception as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        hint = hint or "The file may be damaged, cut short or of another format."
        raise BagFormatError(f"{path}: cannot be read as {what} ({detail}). {hint}") from error


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the name of the file to errors about its bags."""
    try:
        yield
    except BagFormatError:
        raise
    except BagsError as error:
        raise BagFormatError(f"{path}: {error}") from error


def check_readable(path: Path, *, folder: bool = False) -> None:
    """Raise a clear error unless the path is a file that can be opened and is not empty."""
    try:
        if path.is_dir():
            if not folder:
                raise_format_error(
                    path, "is a folder; give the file in it, or a folder of .h5 files."
                )
            return
        if not path.exists():
            raise BagFileNotFoundError(
                f"{path}: there is no such file (working folder: {Path.cwd()})."
            )
        if not path.is_file():
            raise_format_error(path, "is not a regular file.")
        with path.open("rb") as file:
            if not file.read(1):
                raise_format_error(path, "is empty.", hint="Download or write it again.")
    except BagFormatError:
        raise
    except (OSError, ValueError) as error:
        detail = getattr(error, "strerror", None) or error
        raise_format_error(path, f"cannot be opened ({detail}).")


def read_lines(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield line number (from 1) and text without its end, for all lines, blank ones included."""
    with path.open("rb") as file:
        start = file.read(4)
    if encoding == "utf-8" and start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise_format_error(
            path, "is encoded as UTF-16.", where="line 1", hint="Pass encoding='utf-16'."
        )
    number = 0
    try:
        with path.open(encoding=_without_mark(encoding)) as file:
            while line := file.readline(MAX_LINE):
                number += 1
                if len(line) >= MAX_LINE:
                    raise_format_error(
                        path, "is too long for a line of text.", where=f"line {number}"
                    )
                if "\0" in line:
                    raise_format_error(
                        path,
                        "contains a zero byte, so it is not a text file.",
                        where=f"line {number}",
                        hint="Name its format with format=.",
                    )
                yield number, line.rstrip("\r\n")
    except UnicodeError as error:
        raise_format_error(
            path,
            f"is not valid {encoding} ({error}).",
            where=f"line {number + 1} or after",
            hint="Save it as UTF-8 or name its encoding, for example encoding='latin-1'.",
        )
    except LookupError:
        raise_format_error(path, f"encoding={encoding!r} is not known to Python.")


def _without_mark(encoding: str) -> str:
    """Return the encoding that skips a byte order mark at the start, if there is one."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def bounded_lines(path: Path, text: IO[str]) -> Iterator[str]:
    """Yield the lines of a table; raise an error if a line is too long or there are too many."""
    number = 0
    while line := text.readline(_MAX_ROW):
        number += 1
        if len(line) >= _MAX_ROW:
            raise_format_error(path, "is too long for a row.", where=f"line {number}")
        if number > _MAX_LINES:
            raise_format_error(path, "has too many lines for a table of bags.")
        yield line


def find_column(
    path: Path, columns: list[str], asked: Column, role: str, defaults: Iterable[str] = ()
) -> int | None:
    """Return the position of the column for a role, asked for by name, position or default name.

    None if there is no such column, or if ``asked`` is ``False``.
    """
    if asked is False:
        return None
    if asked is None:
        return next((columns.index(name) for name in defaults if name in columns), None)
    if isinstance(asked, int) and not isinstance(asked, bool):
        if -len(columns) <= asked < len(columns):
            return asked % len(columns)
    elif asked in columns:
        return columns.index(str(asked))
    raise_format_error(
        path, f"has no column for {role}={asked!r}; its columns are {listed(columns)}."
    )


def find_info(path: Path, columns: list[str], request: Request) -> tuple[list[int], list[int]]:
    """Return the positions of the info columns of instances and of bags."""
    info, bag_info = (
        [find_column(path, columns, name, role) or 0 for name in names]
        for role, names in (("info", request.info), ("bag_info", request.bag_info))
    )
    return info, bag_info


@contextlib.contextmanager
def writing(*paths: Path) -> Iterator[list[Path]]:
    """Write files atomically, and turn errors of the format's library into a readable one."""
    try:
        with atomic_write_all(paths) as temporaries:
            yield temporaries
    except (BagFormatError, MissingDependencyError, OSError):
        raise
    except Exception as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise BagFormatError(f"{paths[-1]}: cannot be written ({detail}).") from error


def check_memory(path: Path, n_bytes: float, *, mappable: bool = False) -> None:
    """Raise an error if reading needs more memory than is available.

    Parameters
    ----------
    path : Path
        The file, for the message.
    n_bytes : float
        The expected peak: everything that will be allocated from here on and held at once.
    mappable : bool
        Whether the format can be read with ``memory_map``, for the message.
    """
    available = available_memory()
    if available is not None and n_bytes > available:
        hint = (
            "Pass memory_map='some/path.npy' to keep it on disk."
            if mappable
            else "If it is not damaged, read it on a larger machine or convert it to parquet."
        )
        raise_format_error(
            path,
            f"needs {n_bytes / 1e9:,.1f} GB of memory to be read, and {available / 1e9:,.1f} GB "
            "are available.",
            hint=hint,
        )


def check_disk(path: Path, folder: Path, n_bytes: int) -> None:
    """Raise an error if a disk has too little space."""
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise_format_error(
            path,
            f"needs {n_bytes / 1e9:,.1f} GB of disk space, and {folder} has {free / 1e9:,.1f} GB "
            "free.",
            hint="Pass memory_map= a path on another disk.",
        )


def is_gzip(path: Path) -> bool:
    """Return whether a file begins as gzip does."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, gzipped or not; bytes that are no text become lone surrogates."""
    opener: Any = gzip.open if is_gzip(path) else open
    name = _without_mark(encoding)
    return opener(path, "rt", encoding=name, errors="surrogateescape", newline="")
