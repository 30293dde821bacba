"""Where cells are computed: in this process, in worker processes that may die, or on a cluster.

Workers only compute. They return results to the process that started them, which alone writes the
store.
"""

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
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from joblib import effective_n_jobs

from pigmil._core.isolation import child_environment
from pigmil._core.optional import import_optional
from pigmil.scale import active_client, check_cluster

try:
    import cloudpickle
except ImportError:  # part of joblib before 1.6
    from joblib.externals import cloudpickle

_MEBIBYTE = 2**20
_READY = b"+"
_STATM = Path("/proc/self/statm")
_LENGTH = struct.Struct("!Q")
# Workers end with their parent, also while they import: the kernel is asked for it first (on Linux,
# PR_SET_PDEATHSIG), and a parent that is gone already is noticed by its process number.
_WORKER = """
import os, sys
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, 9)
    if os.getppid() != int(sys.argv[1]):
        sys.exit()
from pigmil.evaluation._executors import serve_calls
serve_calls()
"""


@dataclass(frozen=True)
class Call:
    """One function call for an executor.

    Attributes
    ----------
    key : str
        Returned with the outcome.
    function : callable
        Returns a dictionary.
    arguments : dict
        Keyword arguments of its own.
    shared : dict
        Keyword arguments that many calls have in common, such as the data: each is sent to a
        worker once. Keyed by argument name, with pairs of an identifier and the value.
    """

    key: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    shared: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Make the call."""
        return self.function(
            **self.arguments, **{name: value for name, (_, value) in self.shared.items()}
        )


@dataclass(frozen=True)
class Outcome:
    """Result of a call: what it returned, or the text of its error."""

    key: str
    result: dict[str, Any]
    error: str | None
    seconds: float


class Executor(Protocol):
    """Anything that computes calls: in this process, in worker processes, on a cluster."""

    def run(self, calls: Iterable[Call]) -> Generator[Outcome, None, None]:
        """Yield the outcome of every call, in the order in which they finish.

        ``calls`` is consumed in the thread of the caller, no faster than workers become free, so
        that other comparisons find unclaimed cells. Closing the generator ends all work.
        """
        ...


def make_executor(
    n_jobs: int | None, *, time_limit: float | None = None, memory_limit: float | None = None
) -> Executor:
    """Return an executor: worker processes if their number or a limit is given, else this process.

    If a ``dask.distributed`` client is active and no number is given, its cluster computes.

    Parameters
    ----------
    n_jobs : int, optional
        Number of worker processes, -1 for one per processor. Without it the number set by
        ``joblib.parallel_config`` is used, and with none of the two this process computes.
    time_limit : float, optional
        Seconds that a call may take.
    memory_limit : float, optional
        Mebibytes of address space that a call may add to those of its worker; Linux only.
    """
    for name, value in (("time_limit", time_limit), ("memory_limit", memory_limit)):
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be a positive number or None; got {value!r}.")
    if memory_limit is not None and not _STATM.exists():
        raise ValueError("memory_limit is available on Linux only; leave it out on this system.")
    client = active_client() if n_jobs is None else None
    if client is not None:
        if time_limit is not None or memory_limit is not None:
            raise ValueError(
                "time_limit and memory_limit are for worker processes of this machine; limit the "
                "workers of a cluster when they are started (dask worker --memory-limit)."
            )
        return ClusterExecutor(client)
    n_workers = effective_n_jobs(n_jobs)
    if n_jobs is None and n_workers == 1 and time_limit is None and memory_limit is None:
        return SerialExecutor()
    return ProcessExecutor(n_workers, time_limit=time_limit, memory_limit=memory_limit)


class SerialExecutor:
    """Compute calls one after the other in this process."""

    def run(self, calls: Iterable[Call]) -> Generator[Outcome, None, None]:
        """Yield the outcome of every call; see :class:`Executor`."""
        for call in calls:
            start = time.perf_counter()
            result, error = _attempt(call)
            yield Outcome(call.key, result, error, time.perf_counter() - start)


class ProcessExecutor:
    """Compute calls in worker processes.

    A worker that is killed, for example for lack of memory, fails its call only: the next
    call starts a new worker. Workers end with this process.

    Parameters
    ----------
    n_workers : int
        Number of workers.
    time_limit, memory_limit : float, optional
        As in :func:`make_executor`.
    """

    def __init__(
        self,
        n_workers: int,
        *,
        time_limit: float | None = None,
        memory_limit: float | None = None,
    ) -> None:
        self.n_workers = n_workers
        self.time_limit, self.memory_limit = time_limit, memory_limit

    def run(self, calls: Iterable[Call]) -> Generator[Outcome, None, None]:
        """Yield the outcome of every call; see :class:`Executor`."""
        remaining = iter(calls)
        workers = [_Worker(self.time_limit, self.memory_limit) for _ in range(self.n_workers)]
        idle = list(workers)
        running: dict[Future[Outcome], _Worker] = {}
        threads = ThreadPoolExecutor(self.n_workers)
        try:
            while True:
                while idle and (call := next(remaining, None)) is not None:
                    worker = idle.pop()
                    running[threads.submit(worker.compute, call)] = worker
                if not running:
                    return
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    idle.append(running.pop(future))
                    yield future.result()
        finally:
            for worker in workers:
                worker.kill()
            threads.shutdown()
            for worker in workers:
                worker.close()


class ClusterExecutor:
    """Compute calls on a ``dask.distributed`` cluster; this process alone writes the store.

    A call fails if its workers are killed repeatedly; the other calls continue.

    Parameters
    ----------
    client : distributed.Client
        Connected to the cluster.
    """

    def __init__(self, client: Any) -> None:
        check_cluster(client)
        self.client = client

    def run(self, calls: Iterable[Call]) -> Generator[Outcome, None, None]:
        """Yield the outcome of every call; see :class:`Executor`."""
        distributed = import_optional("distributed", extra="scale", purpose="Using a cluster")
        remaining = iter(calls)
        sent: dict[str, Any] = {}  # what many calls share, by identifier
        running: dict[Any, str] = {}
        try:
            while True:
                n_slots = max(1, sum(self.client.nthreads().values()))
                while len(running) < n_slots and (call := next(remaining, None)) is not None:
                    running[self._submit(call, sent)] = call.key
                if not running:
                    return
                distributed.wait(list(running), return_when="FIRST_COMPLETED")
                for future in [one for one in running if one.done()]:
                    key = running.pop(future)
                    if future.status == "finished":
                        yield Outcome(key, *future.result())
                    else:
                        problem = future.exception()
                        yield Outcome(key, {}, f"{type(problem).__name__}: {problem}", 0.0)
        finally:
            self.client.cancel(list(running))

    def _submit(self, call: Call, sent: dict[str, Any]) -> Any:
        for identifier, value in call.shared.values():
            if identifier not in sent:
                sent[identifier] = self.client.scatter(value, broadcast=True, hash=False)
        shared = {name: sent[identifier] for name, (identifier, _) in call.shared.items()}
        return self.client.submit(
            _compute_call, call.function, call.arguments, pure=False, key=None, **shared
        )


def _compute_call(
    function: Callable[..., dict[str, Any]], arguments: dict[str, Any], **shared: Any
) -> tuple[dict[str, Any], str | None, float]:
    """Make a call on a worker; return result, error and seconds."""
    start = time.perf_counter()
    result, error = _attempt(Call("", function, {**arguments, **shared}))
    return result, error, time.perf_counter() - start


class _Worker:
    """A worker process, seen from the process that started it."""

    def __init__(self, time_limit: float | None, memory_limit: float | None) -> None:
        self.time_limit, self.memory_limit = time_limit, memory_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._held: set[str] = set()  # identifiers of the shared arguments it has
        self._ended = False
        self._lock = threading.Lock()

    def compute(self, call: Call) -> Outcome:
        start = time.perf_counter()
        try:
            result, error = self._compute(call)
        except Exception as problem:  # arguments that cannot be sent, say
            result, error = {}, f"{type(problem).__name__}: {problem}"
        return Outcome(call.key, result, error, time.perf_counter() - start)

    def _compute(self, call: Call) -> tuple[dict[str, Any], str | None]:
        process = self._started()
        if process is None:
            return {}, "ChildProcessError: the worker process did not start"
        new = {
            identifier: value
            for identifier, value in call.shared.values()
            if identifier not in self._held
        }
        names = {name: identifier for name, (identifier, _) in call.shared.items()}
        message = cloudpickle.dumps((call.function, call.arguments, names, new, self.memory_limit))
        timed_out = threading.Event()
        timer = threading.Timer(self.time_limit or 0, self._kill_late, [process, timed_out])
        try:
            _send(process.stdin, message)
            if self.time_limit is not None:
                timer.start()
            answer = _receive(process.stdout)
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if answer is not None:
            self._held |= set(new)
            outcome: tuple[dict[str, Any], str | None] = pickle.loads(answer)
            if self.memory_limit is not None and outcome[1] is not None:
                self._discard(process)
            return outcome
        self._discard(process)
        if timed_out.is_set():
            return {}, f"TimeoutError: it took longer than time_limit={self.time_limit:g} s"
        return {}, f"ChildProcessError: the worker process {_cause_of_death(process.returncode)}"

    def _started(self) -> "subprocess.Popen[bytes] | None":
        """Return the running process, a new one if there is none."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._process
            if self._ended:
                return None
            self._held = set()
            # Not multiprocessing, which would import the caller's script anew. The working folder
            # is not on the path (-P): a numpy.py in the folder of the data must not be run.
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-c", _WORKER, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=child_environment(),
                bufsize=0,
            )  # fmt: skip
        assert process.stdout is not None
        if process.stdout.read(1) != _READY:
            self._discard(process)
            return None
        return process

    @staticmethod
    def _kill_late(process: "subprocess.Popen[bytes]", timed_out: threading.Event) -> None:
        timed_out.set()
        process.kill()

    @staticmethod
    def _discard(process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def kill(self) -> None:
        """End the process, also in the middle of a call, and start no other."""
        with self._lock:
            self._ended = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Free what is left of a killed process."""
        if self._process is not None:
            self._discard(self._process)


def serve_calls() -> None:
    """Compute the calls that arrive on standard input until it closes; the main loop of a worker.

    When the parent ends, standard input closes and this process ends too, also in the middle of a
    call, unless compiled code keeps the thread from running that watches the input; for that case
    the kernel was asked to end this process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which ends workers
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # text that a method prints must not mix with the answers
    messages: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_messages, args=[messages], daemon=True).start()
    # Imported now, so that it counts neither as time nor as memory of the first call.
    import pigmil.evaluation._cells  # noqa: F401
    from pigmil.estimators import all_estimators

    all_estimators()
    answers.write(_READY)
    held: dict[str, Any] = {}
    while True:
        _send(answers, pickle.dumps(_answer(messages.get(), held)))


def _read_messages(messages: "queue.SimpleQueue[bytes]") -> None:
    while (message := _receive(sys.stdin.buffer)) is not None:
        messages.put(message)
    os._exit(0)


def _answer(message: bytes, held: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    try:
        function, arguments, names, new, memory_limit = pickle.loads(message)
    except Exception as error:
        return {}, f"{type(error).__name__}: the call could not be read: {error}"
    held |= new
    call = Call("", function, arguments, {name: ("", held[key]) for name, key in names.items()})
    if memory_limit is None:
        return _attempt(call)
    import resource

    now = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + int(memory_limit * _MEBIBYTE), hard))
    result, problem = _attempt(call)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    if "failed to map segment" in str(problem):  # a library that found no room to load
        problem = f"MemoryError: {problem}"
    return result, problem


def _attempt(call: Call) -> tuple[dict[str, Any], str | None]:
    try:
        return call.run(), None
    except Exception as error:  # a failing method must not end the comparison
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return {}, f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno})"


def _send(pipe: Any, message: bytes) -> None:
    data = memoryview(_LENGTH.pack(len(message)) + message)
    while data:  # an unbuffered pipe may take a part only
        data = data[pipe.write(data) :]


def _receive(pipe: Any) -> bytes | None:
    """Return the next message; None at the end of the pipe."""
    parts: list[bytes] = []
    missing, length = _LENGTH.size, None
    while missing:
        part = pipe.read(missing)
        if not part:
            return None
        parts.append(part)
        missing -= len(part)
        if not missing and length is None:
            (length,) = _LENGTH.unpack(b"".join(parts))
            parts, missing = [], length
    return b"".join(parts)


def _cause_of_death(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name
    hint = ", often a sign of too little memory" if name == "SIGKILL" else ""
    return f"was killed ({name}{hint})"
