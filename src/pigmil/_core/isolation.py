"""Calls in a child process with limits of time and memory, and the import path of children.

A child imports nothing from the working folder: Python puts it first on the path of ``python -c``
and ``python -m``, where a file ``numpy.py`` beside the data would be run instead of numpy.
Therefore children start in safe-path mode (``-P`` and ``PYTHONSAFEPATH``, Python 3.11).

Requests are pickles of our own objects; answers are JSON and raw arrays, never pickles, because
what the child read may come from anywhere.
"""

import importlib
import json
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import PigmilError

try:
    import cloudpickle
except ImportError:  # part of joblib before 1.6
    from joblib.externals import cloudpickle

SAFE_PATH = "PYTHONSAFEPATH"
_ON = {SAFE_PATH: "1"}
_MEBIBYTE = 2**20
_READY = b"+"
_LENGTH = struct.Struct("!Q")
_SECONDS_BETWEEN_LOOKS = 0.2  # at the memory of a child, where the system has no limit of its own
_ARRAY_KINDS = "biufcSUMm"
_KERNEL_LIMITS_MEMORY = sys.platform == "linux"


class ChildError(PigmilError):
    """A call in a child process failed."""


class ChildCallError(ChildError):
    """The function raised an error in the child; the child goes on.

    Attributes
    ----------
    type_name, message, place : str
        The type and the text of the error, and the function and line that raised it.
    parameter : str or None
        The parameter that the error names.
    """

    def __init__(self, type_name: str, message: str, place: str, parameter: str | None) -> None:
        super().__init__(f"{type_name}: {message} ({place})")
        self.type_name, self.message, self.place = type_name, message, place
        self.parameter = parameter


class ChildDeathError(ChildError):
    """The child process ended in the middle of a call, for example in native code."""


class ChildTimeoutError(ChildError, TimeoutError):
    """A call took longer than its limit of wall or CPU time."""


class ChildMemoryError(ChildError, MemoryError):
    """A call needed more memory than its limit."""


class Child:
    """A child process that makes one call after another.

    It starts with the first call, is killed when a call exceeds a limit, is replaced by the next
    call when it has died, and ends with this process, also if that is killed. One call runs at a
    time; other threads wait.

    Limits hold for each call. On Linux the kernel limits the address space; on macOS the resident
    memory is looked at five times a second; on Windows there is no limit of memory, and the limit
    of CPU time is one of wall time.

    Parameters
    ----------
    time_limit, cpu_limit : float, optional
        Seconds of wall and of CPU time.
    memory_limit : float, optional
        Mebibytes that a call may add to those of the child.
    preload : sequence of str
        Modules to import before the first call, so that they count in no limit.

    Examples
    --------
    >>> with Child(time_limit=60) as child:
    ...     child.call(divmod, 7, 2)
    (3, 1)
    """

    def __init__(
        self,
        *,
        time_limit: float | None = None,
        cpu_limit: float | None = None,
        memory_limit: float | None = None,
        preload: Sequence[str] = (),
    ) -> None:
        self.time_limit, self.cpu_limit, self.memory_limit = time_limit, cpu_limit, memory_limit
        self.preload = tuple(preload)
        self._process: subprocess.Popen[bytes] | None = None
        self._held: set[str] = set()  # identifiers of the shared arguments that the child has
        self._ended = False
        self._calling, self._starting = threading.RLock(), threading.Lock()

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def call(
        self,
        function: Callable[..., Any],
        /,
        *arguments: Any,
        shared: Mapping[str, tuple[str, Any]] | None = None,
        **keywords: Any,
    ) -> Any:
        """Return ``function(*arguments, **keywords)``, computed in the child.

        Parameters
        ----------
        function : callable
            Its result consists of None, numbers, text, lists, tuples, dicts and arrays.
        *arguments, **keywords : object
            Its arguments.
        shared : mapping, optional
            Further keyword arguments that many calls have in common, such as the data: from name
            to a pair of identifier and value. Each is sent once.

        Raises
        ------
        ChildCallError, ChildDeathError, ChildTimeoutError, ChildMemoryError
            If there is no result.
        """
        shared = shared or {}
        with self._calling:
            process = self._start()
            new = {key: value for key, value in shared.values() if key not in self._held}
            names = {name: key for name, (key, _) in shared.items()}
            limits = (self.cpu_limit, self.memory_limit)
            request = cloudpickle.dumps((function, arguments, keywords, names, new, limits))
            answer, exceeded = self._exchange(process, request)
            if answer is None:
                self._discard(process)
                raise self._cause(process.returncode, exceeded)
            self._held |= set(new)
            if "error" not in answer:
                return answer["result"]
            if answer.pop("memory"):
                self._discard(process)  # whatever its libraries still hold
                raise ChildMemoryError(
                    f"it needed more than the memory limit of {self.memory_limit:g} MiB"
                    if self.memory_limit is not None
                    else answer["error"][1]
                )
            raise ChildCallError(*answer["error"])

    def kill(self) -> None:
        """End the process, also in the middle of a call of another thread, and start no other."""
        with self._starting:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and free what is left of it; the next call would start another."""
        if self._process is not None:
            self._discard(self._process)

    def _start(self) -> "subprocess.Popen[bytes]":
        """Return the running process, a new one if there is none."""
        with self._starting:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if self._ended:
                raise ChildDeathError("the child process was ended")
            self.close()
            self._held = set()
            # Not multiprocessing, which would import the caller's script anew.
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(os.getpid()), *self.preload],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
                bufsize=0,
            )
        if process.stdout is None or process.stdout.read(1) != _READY:
            self._discard(process)
            status = _death(process.returncode)
            raise ChildDeathError(f"the child process did not start: it {status}")
        return process

    def _exchange(
        self, process: "subprocess.Popen[bytes]", request: bytes
    ) -> tuple[dict[str, Any] | None, type[ChildError] | None]:
        """Send a request; return the answer, or None and the limit for which it was killed."""
        exceeded: list[type[ChildError]] = []
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=[process, exceeded, done], daemon=True)
        watch.start()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            _write(process.stdin, _LENGTH.pack(len(request)) + request)
            answer = _receive(process.stdout)
        except (OSError, ValueError):  # a broken pipe, or one closed by another thread
            answer = None
        finally:
            done.set()
        watch.join()
        return answer, next(iter(exceeded), None)

    def _watch(
        self,
        process: "subprocess.Popen[bytes]",
        exceeded: list[type[ChildError]],
        done: threading.Event,
    ) -> None:
        """Kill a process that exceeds the limits which the kernel does not enforce."""
        seconds = self.time_limit
        if sys.platform == "win32" and self.cpu_limit is not None:
            seconds = min(self.cpu_limit, seconds or self.cpu_limit)
        deadline = None if seconds is None else time.monotonic() + seconds
        looks = self.memory_limit is not None and not _KERNEL_LIMITS_MEMORY and os.name == "posix"
        most = _resident(process.pid) + (self.memory_limit or 0) * _MEBIBYTE if looks else 0
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            pause = min(_SECONDS_BETWEEN_LOOKS, left or _SECONDS_BETWEEN_LOOKS) if looks else left
            if done.wait(pause):
                return
            if deadline is not None and time.monotonic() >= deadline:
                exceeded.append(ChildTimeoutError)
            elif looks and _resident(process.pid) > most:
                exceeded.append(ChildMemoryError)
            if exceeded:
                process.kill()
                return

    def _cause(self, status: int, exceeded: type[ChildError] | None) -> ChildError:
        """Return the error for a process that ended in the middle of a call."""
        if exceeded is ChildTimeoutError:
            limit = self.time_limit or self.cpu_limit
            return ChildTimeoutError(f"it took longer than the time limit of {limit:g} s")
        if status == -getattr(signal, "SIGXCPU", 0) != 0:
            return ChildTimeoutError(f"it took longer than {self.cpu_limit:g} s of CPU time")
        memory = f"the memory limit of {self.memory_limit:g} MiB" if self.memory_limit else ""
        if exceeded is ChildMemoryError:
            return ChildMemoryError(f"it needed more than {memory}")
        hint = f"; {memory} may be too small" if memory else ""
        return ChildDeathError(f"the child process {_death(status)}{hint}")

    def _discard(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def _death(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name
    hint = ", often a sign of too little memory" if name == "SIGKILL" else ""
    return f"was killed ({name}{hint})"


def _resident(pid: int) -> int:
    """Return the bytes of memory that a process holds; 0 if it has ended."""
    found = subprocess.run(
        ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return int(found.stdout or 0) * 1024


def serve_calls(parent: int, preload: Sequence[str]) -> None:
    """Make the calls that arrive on standard input until it closes; the main loop of a child.

    When the parent ends, standard input closes and this process ends too, also in the middle of a
    call. Compiled code may keep the thread that watches the input from running; therefore Linux
    is asked to kill this process when the thread that started it ends.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it ended before it could be asked
            return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends children
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # text that a function prints must not mix with the answers
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=[requests], daemon=True).start()
    for name in preload:
        importlib.import_module(name)
    _write(answers, _READY)
    held: dict[str, Any] = {}
    while True:
        text, arrays = _answer(requests.get(), held)
        _write(answers, _LENGTH.pack(len(text)) + text)
        for array in arrays:
            if array.nbytes:
                _write(answers, array.reshape(-1).view(np.uint8))


def _read_requests(requests: "queue.SimpleQueue[bytes]") -> None:
    with suppress(EOFError):
        while True:
            (length,) = _LENGTH.unpack(_read(sys.stdin.buffer, _LENGTH.size))
            requests.put(bytes(_read(sys.stdin.buffer, length)))
    os._exit(0)


def _answer(request: bytes, held: dict[str, Any]) -> tuple[bytes, list[NDArray[Any]]]:
    """Make one call; return its result or error as JSON, and the arrays of the result."""
    arrays: list[NDArray[Any]] = []
    try:
        function, arguments, keywords, names, new, limits = pickle.loads(request)
        held |= new
        keywords |= {name: held[key] for name, key in names.items()}
        with _limited(*limits):
            result = function(*arguments, **keywords)
        return json.dumps({"result": _encode(result, arrays)}).encode(), arrays
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text, place = str(error), f"{frame.name}, line {frame.lineno}"
        # A library that found no room to load says so in its own words.
        memory = isinstance(error, MemoryError) or "failed to map segment" in text
        parameter = getattr(error, "parameter", None)
        error_parts = [type(error).__name__, text, place, parameter]
        return json.dumps({"error": error_parts, "memory": memory}).encode(), []


@contextmanager
def _limited(cpu_limit: float | None, memory_limit: float | None) -> Iterator[None]:
    """Limit the CPU time and, where the kernel does it, the memory of this process in a block."""
    if os.name != "posix":
        yield
        return
    import resource

    wanted: dict[int, float] = {}
    if cpu_limit is not None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        # Whole seconds; one more, for those that are only partly used.
        wanted[resource.RLIMIT_CPU] = usage.ru_utime + usage.ru_stime + cpu_limit + 1
    if memory_limit is not None and _KERNEL_LIMITS_MEMORY:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        wanted[resource.RLIMIT_AS] = pages * resource.getpagesize() + memory_limit * _MEBIBYTE
    before = {limit: resource.getrlimit(limit) for limit in wanted}
    try:
        for limit, value in wanted.items():
            resource.setrlimit(limit, (int(value), before[limit][1]))
        yield
    finally:
        for limit, pair in before.items():
            resource.setrlimit(limit, pair)


def _receive(pipe: IO[bytes]) -> dict[str, Any] | None:
    """Return the next answer; None at the end of the pipe."""
    try:
        (length,) = _LENGTH.unpack(_read(pipe, _LENGTH.size))
        answer: dict[str, Any] = json.loads(bytes(_read(pipe, length)))
        if "result" in answer:
            answer["result"] = _decode(answer["result"], pipe)
        return answer
    except EOFError:
        return None


def _encode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a value as JSON has it; its arrays are appended to a list."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_encode(item, arrays) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(item, arrays) for item in value]}
    if isinstance(value, dict):
        pairs = value.items()
        return {"dict": [[_encode(key, arrays), _encode(item, arrays)] for key, item in pairs]}
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype == object:
            items = [_encode(item, arrays) for item in array.reshape(-1).tolist()]
            return {"objects": items, "shape": array.shape}
        if array.dtype.kind in _ARRAY_KINDS:
            arrays.append(np.ascontiguousarray(array))
            return {"array": array.dtype.str, "shape": array.shape}
    raise TypeError(f"a child process cannot return {type(value).__name__}")


def _decode(value: Any, pipe: IO[bytes]) -> Any:
    """Return a value from JSON; its arrays follow in the pipe, in their order."""
    if isinstance(value, list):
        return [_decode(item, pipe) for item in value]
    if not isinstance(value, dict):
        return value
    if "tuple" in value:
        return tuple(_decode(item, pipe) for item in value["tuple"])
    if "dict" in value:
        return {_decode(key, pipe): _decode(item, pipe) for key, item in value["dict"]}
    if "objects" in value:
        array = np.empty(prod(value["shape"]), dtype=object)
        array[:] = [_decode(item, pipe) for item in value["objects"]]
        return array.reshape(value["shape"])
    dtype = np.dtype(value["array"])
    data = _read(pipe, prod(value["shape"]) * dtype.itemsize)
    return np.frombuffer(data, dtype=dtype).reshape(value["shape"])


def _write(pipe: IO[bytes], data: Any) -> None:
    rest = memoryview(data)
    while rest.nbytes:  # an unbuffered pipe may take a part only
        rest = rest[pipe.write(rest) :]


def _read(pipe: IO[bytes], length: int) -> memoryview:
    """Return so many bytes of a pipe, in memory that may be written to."""
    data = memoryview(np.empty(length, dtype=np.uint8).data)
    at = 0
    while at < length:
        n_bytes = pipe.readinto(data[at:])  # type: ignore[attr-defined]
        if not n_bytes:
            raise EOFError
        at += n_bytes
    return data


def import_path() -> list[str]:
    """Return where this process imports from, without the working folder.

    The folder of a script that lies in the working folder stays: its user runs code from there.
    """
    main = sys.modules.get("__main__")
    script = None if getattr(main, "__spec__", None) else getattr(main, "__file__", None)
    here = os.path.realpath(os.curdir)
    runs_here = script is not None and os.path.realpath(os.path.dirname(script) or ".") == here
    return [entry for entry in sys.path if entry and (runs_here or os.path.realpath(entry) != here)]


def safe_environment() -> dict[str, str]:
    """Return the environment of this process with safe-path mode switched on."""
    return {**os.environ, **_ON}


def child_environment() -> dict[str, str]:
    """Return the environment of a child that imports from the same places as this process."""
    return {**safe_environment(), "PYTHONPATH": os.pathsep.join(import_path())}


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


if __name__ == "__main__":
    serve_calls(int(sys.argv[1]), sys.argv[2:])
