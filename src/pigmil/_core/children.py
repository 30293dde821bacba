"""Environment of child processes: they import nothing from the working folder.

Python puts the working folder first on the path of ``python -c`` and ``python -m``, where a file
``numpy.py`` in the folder of the data would be run instead of numpy. Therefore children are
started in safe-path mode (``-P`` and ``PYTHONSAFEPATH``, Python 3.11).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SAFE_PATH = "PYTHONSAFEPATH"
_ON = {SAFE_PATH: "1"}


def import_path() -> list[str]:
    """Return where this process imports from, without the working folder.

    The folder of a script that lies in the working folder stays: its user runs code from there.
    """
    main = sys.modules.get("__main__")
    script = None if getattr(main, "__spec__", None) else getattr(main, "__file__", None)
    here = os.path.realpath(os.curdir)
    runs_here = script is not None and os.path.realpath(os.path.dirname(script) or ".") == here
    return [entry for entry in sys.path if entry and (runs_here or os.path.realpath(entry) != here)]


def child_environment() -> dict[str, str]:
    """Return the environment of a child that imports from the same places as this process."""
    return {**safe_environment(), "PYTHONPATH": os.pathsep.join(import_path())}


def safe_environment() -> dict[str, str]:
    """Return the environment of this process with safe-path mode switched on."""
    return {**os.environ, **_ON}


@contextmanager
def safe_children() -> Iterator[None]:
    """Switch safe-path mode on for processes that libraries start, as dask starts workers."""
    before = os.environ.get(SAFE_PATH)
    os.environ.update(_ON)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


def leave_working_folder() -> None:
    """Stop importing from the working folder in this process; for programs started by ``-m``."""
    if not sys.flags.safe_path:
        sys.path[:] = import_path()
