"""Calls in a child process with limits of time and memory, and the import path of children.

A child imports nothing from the working folder: Python puts it first on the path of ``python -c``
and ``python -m``, where a file ``numpy.py`` beside the data would be run instead of numpy.
Therefore children start in safe-path mode (``-P`` and ``PYTHONSAFEPATH``, Python 3.11).

Requests are pickles of our own objects; answers are JSON and raw arrays, never pickles, because
what the child read may come from anywhere. Both go through a socket that is never waited for longer
than a moment: then the caller looks at the limits and at the process, so that it waits neither for
a child that has ended nor for one that does not read.
"""

import importlib
import json
import os
import pickle
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import PigmilError

try:
    import cloudpickle
except ImportError:  # part of joblib before 1.6
    from joblib.externals import cloudpickle

SAFE_PATH = "PYTHONSAFEPATH"
_MEBIBYTE = 2**20
_LENGTH = struct.Struct("!Q")
_SECONDS_TO_START = 300.0  # imports take a few; a busy machine may need a hundred times as long
_SECONDS_TO_END = 10.0  # of a process that was killed
_SECONDS_BETWEEN_LOOKS = 0.05  # at the memory of a child, which grows by about 1 GB in 0.5 s
_ARRAY = "\0array"  # a key that no other dictionary has


class ChildError(PigmilError):
    """A call in a child process failed."""


class ChildCallError(ChildError):
    """The function raised an error in the child; the child goes on.

    Attributes
    ----------
    type_name, message : str
        The type and the text of the error.
    """

    def __init__(self, type_name: str, message: str, place: str) -> None:
        super().__init__(f"{type_name}: {message} ({place})")
        self.type_name, self.message = type_name, message


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

    Limits hold for each call. This process looks at the memory of the child twenty times a second:
    a limit of the kernel is one of address space, and some libraries try for ever to allocate
    what it refuses (OpenBLAS). On Windows there is no limit of memory, and the limit of CPU time
    is one of wall time.

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
    ...     child.call(pow, 7, 2)
    49
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
        self._sockets: list[socket.socket] = []  # our end and that of the process
        self._held: set[str] = set()  # identifiers of the shared arguments that the child has
        self._ended = False
        self._calling, self._starting = threading.Lock(), threading.Lock()

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
            Its result consists of None, numbers, text, lists, dicts with text as keys, and arrays;
            tuples come back as lists.
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
            request = cloudpickle.dumps((function, arguments, keywords, names, new, self.cpu_limit))
            seconds, most_memory = self.time_limit, inf
            if os.name == "nt":
                seconds = min(self.cpu_limit or inf, seconds or inf)
            elif self.memory_limit is not None:
                # While it is unpickled, the child holds the request twice.
                most_memory = self.memory_limit * _MEBIBYTE + 2 * len(request)
                most_memory += _memory(process.pid)
            answer = self._exchange(process, request, seconds, most_memory)
            self._held |= set(new)
            if "result" in answer:
                return answer["result"]
            if answer["memory"]:
                self.close()  # whatever its libraries still hold
                raise self._memory_error(answer["error"][1])
            raise ChildCallError(*answer["error"])

    def kill(self) -> None:
        """End the process, also in the middle of a call of another thread, and start no other."""
        with self._starting:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process; the next call would start another."""
        for end in self._sockets:
            end.close()
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_END)

    def _start(self) -> "subprocess.Popen[bytes]":
        """Return the running process, a new one if there is none."""
        with self._starting:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if self._ended:
                raise ChildDeathError("the child process was ended")
            self.close()
            self._held = set()
            self._sockets = list(socket.socketpair())
            # Linux ends a child with the thread that started it, see :func:`serve_calls`; this
            # one lives as long as its executor.
            self._thread = ThreadPoolExecutor(1)
            process = self._thread.submit(_start_process, self._sockets[1]).result()
            self._process = process
        request = pickle.dumps((_import_all, [self.preload], {}, {}, {}, None))
        try:
            answer = self._exchange(process, request, _SECONDS_TO_START)
            if "error" in answer:
                self.close()
                raise ChildCallError(*answer["error"])
        except ChildError as error:
            raise ChildDeathError(f"the child process did not start: {error}") from error
        return process

    def _exchange(
        self,
        process: "subprocess.Popen[bytes]",
        request: bytes,
        seconds: float | None,
        most_memory: float = inf,
    ) -> dict[str, Any]:
        """Send a request and return the answer; end the process if there is none."""
        deadline = time.monotonic() + (inf if seconds is None else seconds)
        ours = self._sockets[0]
        ours.settimeout(_SECONDS_BETWEEN_LOOKS)

        def move(by: Callable[[memoryview], int], data: Any) -> None:
            """Send or receive all bytes of an array."""
            rest = memoryview(data)
            while rest.nbytes:
                try:
                    rest = rest[by(rest) :]
                except TimeoutError:
                    if most_memory < inf and _memory(process.pid) > most_memory:
                        raise self._memory_error("") from None
                    if process.poll() is not None:
                        raise EOFError from None
                if time.monotonic() > deadline:
                    raise ChildTimeoutError(f"it took longer than the time limit of {seconds:g} s")

        def receive(shape: Any, dtype: Any) -> NDArray[Any]:
            array = np.empty(shape, dtype)
            if array.nbytes:
                move(ours.recv_into, array.reshape(-1).view(np.uint8))
            return array

        try:
            move(ours.send, _LENGTH.pack(len(request)) + request)
            (length,) = _LENGTH.unpack(receive(_LENGTH.size, np.uint8).data)
            text = receive(length, np.uint8).tobytes()
            answer: dict[str, Any] = json.loads(text, object_hook=lambda v: _decode(v, receive))
            return answer
        except BaseException as error:
            self.close()  # after Ctrl-C too: the next call must not get this answer
            if isinstance(error, ChildError) or not isinstance(error, Exception):
                raise
        # Whatever else goes wrong in a socket or an answer, the process cannot be used any more.
        if process.returncode == -getattr(signal, "SIGXCPU", inf):
            raise ChildTimeoutError(f"it took longer than {self.cpu_limit:g} s of CPU time")
        raise ChildDeathError(f"the child process {_death(process.returncode)}")

    def _memory_error(self, message: str) -> ChildMemoryError:
        if self.memory_limit is not None:
            message = f"it needed more than the memory limit of {self.memory_limit:g} MiB"
        return ChildMemoryError(message)


def _start_process(theirs: socket.socket) -> "subprocess.Popen[bytes]":
    """Start a process that answers the calls that come through a socket."""
    # Not multiprocessing, which would import the caller's script anew.
    command = [sys.executable, "-P", "-m", __name__, str(os.getpid())]
    process = subprocess.Popen(
        command, env=child_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        stdin=subprocess.PIPE if sys.platform == "win32" else theirs.fileno(),
    )  # fmt: skip
    if sys.platform == "win32":
        with process.stdin:
            process.stdin.write(theirs.share(process.pid))
    return process


def _import_all(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def _death(status: int | None) -> str:
    if status is None or status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name
    hint = ", often a sign of too little memory" if name == "SIGKILL" else ""
    return f"was killed ({name}{hint})"


def _memory(pid: int) -> int:
    """Return the bytes of memory that a process holds; 0 if it has ended."""
    try:
        if sys.platform == "linux":
            # Without pages of files, which the kernel may drop.
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
            return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        return int(subprocess.check_output(command, timeout=_SECONDS_TO_END)) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def serve_calls(parent: int) -> None:
    """Make the calls that arrive on standard input, a socket; the main loop of a child.

    When the parent ends, the socket closes and this process ends too, also in the middle of a
    call. Compiled code may keep the thread that watches the socket from running; therefore Linux
    is asked to kill this process when the thread that started it ends.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it ended before it could be asked
            return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends children
    if sys.platform == "win32":
        channel = socket.fromshare(sys.stdin.buffer.read())
    else:
        channel = socket.socket(fileno=os.dup(0))
        os.dup2(2, 0)  # no function reads from it, and no process that a function starts has it
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=[channel, requests], daemon=True).start()
    held: dict[str, Any] = {}
    while True:
        text, arrays = _answer(requests.get(), held)
        channel.sendall(_LENGTH.pack(len(text)) + text)
        for array in arrays:
            channel.sendall(array.reshape(-1).view(np.uint8).data if array.nbytes else b"")


def _read_requests(channel: socket.socket, requests: "queue.SimpleQueue[bytes]") -> None:
    source = channel.makefile("rb")
    try:
        while True:
            (length,) = _LENGTH.unpack(source.read(_LENGTH.size))
            requests.put(source.read(length))
    finally:  # at the end of the input, or without memory for a request
        os._exit(0)


def _answer(request: bytes, held: dict[str, Any]) -> tuple[bytes, list[NDArray[Any]]]:
    """Make one call; return its result or error as JSON, and the arrays of the result."""
    arrays: list[NDArray[Any]] = []
    try:
        function, arguments, keywords, names, new, cpu_limit = pickle.loads(request)
        held |= new
        keywords |= {name: held[key] for name, key in names.items()}
        _limit_cpu_time(cpu_limit)
        answer = {"result": function(*arguments, **keywords)}
        return json.dumps(answer, default=lambda value: _encode(value, arrays)).encode(), arrays
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        parts = [type(error).__name__, str(error), f"{frame.name}, line {frame.lineno}"]
        answer = {"error": parts, "memory": isinstance(error, MemoryError)}
        return json.dumps(answer).encode(), []


def _limit_cpu_time(seconds: float | None) -> None:
    """Let the kernel end this process after so many more seconds of CPU time."""
    if os.name != "posix":
        return
    import resource

    most = hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if seconds is not None:
        # Whole seconds; one more, for those that are only partly used.
        most = int(time.process_time() + seconds + 1)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _encode(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return what stands for a value that JSON does not have; arrays are appended to a list."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return value.item()
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        held = {_ARRAY: array.dtype.str, "shape": array.shape}
        if array.dtype == object:
            return held | {"values": array.reshape(-1).tolist()}
        if array.dtype.kind in "biufcSUMm":
            arrays.append(array)
            return held
    raise TypeError(f"a child process cannot return {type(value).__name__}")


def _decode(value: dict[str, Any], receive: Callable[[Any, Any], NDArray[Any]]) -> Any:
    """Return a dictionary of JSON, or the array that it stands for; they arrive in their order."""
    if _ARRAY not in value:
        return value
    if "values" not in value:
        return receive(value["shape"], value[_ARRAY])
    array = np.empty(len(value["values"]), dtype=object)
    array[:] = value["values"]
    return array.reshape(value["shape"])


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
    return {**os.environ, SAFE_PATH: "1"}


def child_environment() -> dict[str, str]:
    """Return the environment of a child that imports from the same places as this process."""
    return {**safe_environment(), "PYTHONPATH": os.pathsep.join(import_path())}


if __name__ == "__main__":
    serve_calls(int(sys.argv[1]))
