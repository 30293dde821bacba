"""Compilation with numba: the decorator of every compiled kernel."""

import importlib
import logging
from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

_logger = logging.getLogger("pigmil")


def njit(function: _Function) -> _Function:
    """Compile a function of plain arrays and numbers, once for this installation.

    Serial, without the interpreter lock and kept on disk: threads belong outside the kernel, and
    a new process loads in a fraction of a second what the first one compiled in a few seconds.
    Import a module of kernels inside the function that needs it, so that ``import pigmil`` does
    not import numba.

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
        _save_if_possible(getattr(compiled, "_cache", None))
    except RuntimeError:  # no folder for the cache: a read-only home, or a function typed by hand
        compiled = numba.njit(nogil=True)(function)
    return compiled


def _save_if_possible(cache: Any) -> None:
    """Let kernels that cannot be written, on a full disk say, be compiled again next time."""
    save = getattr(cache, "save_overload", None)
    if save is None:  # without compilation
        return

    def save_or_log(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            _logger.warning("kernels cannot be kept in %s: %s", cache.cache_path, error)

    cache.save_overload = save_or_log
