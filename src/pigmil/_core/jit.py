"""Compilation with numba: the decorator of every compiled kernel."""

import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["njit"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_logger = logging.getLogger("pigmil")
_announced = False


def njit(function: _Function) -> _Function:
    """Compile a function of plain arrays and numbers, once for this installation.

    Serial, without the interpreter lock and kept on disk: threads belong outside the kernel, and
    a new process loads in a fraction of a second what the first one compiled. Import a module of
    kernels inside the function that needs it, so that ``import pigmil`` does not import numba.

    Parameters
    ----------
    function : callable
        The kernel. It must also run as plain Python (``NUMBA_DISABLE_JIT=1``).

    Returns
    -------
    callable
        The compiled kernel; under ``NUMBA_DISABLE_JIT=1`` the function itself.

    Examples
    --------
    >>> from pigmil._core.jit import njit
    >>> def double(x):
    ...     return 2 * x
    >>> njit(double)(21)
    42
    """
    numba = importlib.import_module("numba")
    try:
        compiled: _Function = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder for the cache: a read-only home, or a function typed by hand
        compiled = numba.njit(nogil=True)(function)
    if compiled is not function and not _is_on_disk(compiled, function):
        _announce_once()
    return compiled


def _is_on_disk(compiled: Any, function: Callable[..., Any]) -> bool:
    """Return whether an earlier process has left kernels of this module in the cache folder."""
    folder = compiled.stats.cache_path
    if folder is None:
        return False
    module = function.__module__.rpartition(".")[2]
    return any(Path(folder).glob(f"{module}.*.nbi"))


def _announce_once() -> None:
    """Log once why the first run is slow."""
    global _announced
    if not _announced:
        _announced = True
        _logger.warning("compiling kernels once for this installation, a few seconds")
