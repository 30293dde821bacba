"""A function guarded: errors become text, and a limit in time or memory ends it from outside."""

import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pigmil._core.children import child_environment

_MEBIBYTE = 2**20
_READY = b"+"
_STATM = Path("/proc/self/statm")


def check_limits(time_limit: float | None, memory_limit: float | None) -> None:
    """Refuse limits that cannot be kept, before any work is done."""
    for name, value in (("time_limit", time_limit), ("memory_limit", memory_limit)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be a positive number or None; got {value!r}.")
    if memory_limit is not None and not _STATM.exists():
        raise ValueError("memory_limit is known on Linux only; leave it out on this system.")


def run_guarded(
    function: Callable[..., dict[str, Any]],
    arguments: dict[str, Any],
    *,
    time_limit: float | None = None,
    memory_limit: float | None = None,
) -> tuple[dict[str, Any], str | None]:
    """Call a function; an error becomes its text.

    With a limit the call is made in a process of its own, which is killed when the time is over.
    That costs the start of a Python interpreter, which does not count against the limit.

    Parameters
    ----------
    function : callable
        Of a module that can be imported.
    arguments : dict
        Keyword arguments, picklable.
    time_limit : float, optional
        Seconds after which the call is ended.
    memory_limit : float, optional
        Mebibytes of address space beyond what the process has at the start; Linux only.

    Returns
    -------
    found : dict
        What the function returned; empty if it failed.
    error : str or None
        What it failed with.

    Examples
    --------
    >>> run_guarded(dict, {"accuracy": 1.0})
    ({'accuracy': 1.0}, None)
    >>> run_guarded(int, {"nonsense": "one"})[1].partition(":")[0]
    'TypeError'
    """
    if time_limit is None and memory_limit is None:
        return _attempt(function, arguments)
    # Not multiprocessing: that would run the caller's script anew where it has no main guard.
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", "from pigmil.evaluation.limits import _child; _child()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=child_environment(),
        bufsize=0,
    )
    try:
        assert process.stdout is not None
        if process.stdout.read(1) != _READY:
            return {}, f"ChildProcessError: its process did not start ({process.wait()})"
        call = pickle.dumps((function, arguments, memory_limit))
        answer, _ = process.communicate(call, timeout=time_limit)
    except subprocess.TimeoutExpired:
        return {}, f"TimeoutError: it took longer than time_limit={time_limit:g} s"
    finally:
        process.kill()
        process.communicate()
    if process.returncode:
        return {}, f"ChildProcessError: its process ended with {process.returncode}"
    found: tuple[dict[str, Any], str | None] = pickle.loads(answer)
    return found


def _child() -> None:
    """Answer one call: read it from standard input, write the outcome to standard output."""
    answer = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a method prints must not mix with the answer
    # What nearly every call needs, so that its import counts neither as time nor as memory.
    import pigmil.evaluation.cells  # noqa: F401
    from pigmil.estimators import all_estimators

    all_estimators()
    answer.write(_READY)
    function, arguments, memory_limit = pickle.loads(sys.stdin.buffer.read())
    if memory_limit is not None:
        import resource

        now = int(_STATM.read_text().split()[0]) * resource.getpagesize()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (now + int(memory_limit * _MEBIBYTE), hard))
    outcome = _attempt(function, arguments)
    if memory_limit is not None:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))  # room for the answer
        if "failed to map segment" in str(outcome[1]):  # a library that found no room to load
            outcome = {}, f"MemoryError: {outcome[1]}"
    answer.write(pickle.dumps(outcome))


def _attempt(
    function: Callable[..., dict[str, Any]], arguments: dict[str, Any]
) -> tuple[dict[str, Any], str | None]:
    try:
        return function(**arguments), None
    except Exception as error:  # a failing method must not end the comparison
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {}, f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
