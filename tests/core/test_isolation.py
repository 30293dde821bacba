"""Calls in a child process: results, limits, deaths, and what is left of a killed parent."""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time

import cloudpickle
import numpy as np
import pytest

from pigmil._core import isolation
from pigmil._core.errors import BagFormatError
from pigmil._core.isolation import (
    Child,
    ChildCallError,
    ChildDeathError,
    ChildMemoryError,
    ChildTimeoutError,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # children cannot import tests
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


@pytest.fixture(scope="module")
def child():
    with Child(time_limit=60) as one:
        yield one


def echo(value):
    return value


def use_memory(mebibytes):
    return float(np.ones(mebibytes * 2**17).sum())


def spin(seconds):
    while True:
        pass


def die(name):
    if name == "null":
        ctypes.string_at(0)
    os.kill(os.getpid(), getattr(signal, name))


def fail():
    raise BagFormatError("bad.h5 is no file")


def total(pid, bags):
    return [pid and os.getpid(), float(bags.sum())]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "text", True, float("inf"), 10**30],
        {"a": [1, [2]], "b": {"c": None}, "array": "not one", "shape": 0},
        np.arange(6.0).reshape(2, 3),
        np.arange(6, dtype="float32").reshape(2, 3).T,
        np.array([["ab", "c"]]),
        np.array([b"ab", b""]),
        np.array(["2026-01-01", "NaT"], dtype="datetime64[D]"),
        np.array(["a", 1, None, 2.5], dtype=object),
        np.empty((0, 4)),
        np.zeros(3, dtype="U0"),
        np.array(7),
    ],
    ids=repr,
)
def test_results_come_back_as_they_are(child, value):
    found = child.call(echo, value)
    assert type(found) is type(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
        found.fill(found.dtype.type()) if found.dtype != object else None  # may be written to
    else:
        assert found == value


def test_errors_come_back_and_the_child_goes_on(child):
    pid = child.call(os.getpid)
    with pytest.raises(ChildCallError, match=r"BagFormatError: bad.h5 is no file \(fail, line"):
        child.call(fail)
    with pytest.raises(ChildCallError, match="a child process cannot return set"):
        child.call(echo, {1})
    with pytest.raises(TypeError, match="cannot pickle 'generator'"):
        child.call(echo, (n for n in range(3)))
    assert child.call(os.getpid) == pid


def test_printed_text_does_not_spoil_the_answer_which_is_no_pickle(child, monkeypatch):
    assert child.call(os.system, "echo hello") == 0
    monkeypatch.setattr(pickle, "loads", None)
    assert child.call(print, "hello") is None


@POSIX
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL", "null"])
def test_a_dead_child_fails_its_call_only(child, name):
    with pytest.raises(ChildDeathError, match=name.replace("null", "SIGSEGV")):
        child.call(die, name)
    assert child.call(echo, 1) == 1


@pytest.mark.parametrize(
    ("limit", "function", "message"),
    [
        ({"time_limit": 0.5}, time.sleep, r"longer than the time limit of 0\.5 s"),
        pytest.param({"cpu_limit": 1}, spin, "longer than 1 s of CPU time", marks=POSIX),
    ],
)
def test_limits_of_time(limit, function, message):
    child = Child(**limit)
    for _ in range(2):  # the second call starts another child
        with pytest.raises(ChildTimeoutError, match=message):
            child.call(function, 600)


@POSIX
@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_memory_limit(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)  # of other systems `ps` is asked
    child = Child(time_limit=120, memory_limit=100)
    assert child.call(use_memory, 8) == 8 * 2**17
    for mebibytes in (300, 10**9):  # the kernel refuses the second
        with pytest.raises(ChildMemoryError, match="more than the memory limit of 100 MiB"):
            child.call(hold_memory, mebibytes)
    assert child.call(use_memory, 8) == 8 * 2**17


def hold_memory(mebibytes):
    held = np.ones(mebibytes * 2**17)
    while held.any():
        pass


@POSIX
def test_what_does_not_count_as_memory_of_a_call():
    """Shared arguments; and BLAS, which may try for ever under a limit of the kernel."""
    shared = {"bags": ("data", np.ones(60 * 2**17))}
    with Child(time_limit=120, memory_limit=40, preload=["scipy.linalg"]) as child:
        for _ in range(2):
            assert child.call(total, 0, shared=shared)[1] == 60 * 2**17
        assert child.call(multiply, 200) == 200.0


def multiply(size):
    from scipy.linalg.blas import dgemm

    ones = np.ones((size, size))
    return float(dgemm(1.0, ones, ones)[0, 0])


@POSIX
def test_a_dead_child_whose_socket_is_held_open_is_not_waited_for():
    with pytest.raises(ChildDeathError, match="SIGKILL"):
        Child().call(fork_and_die)


def fork_and_die():
    if os.fork() == 0:  # it has the socket, as a worker of multiprocessing would
        time.sleep(15)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)


@POSIX
def test_a_child_that_does_not_read_a_large_request_is_not_waited_for():
    with Child(time_limit=1) as child:
        os.kill(child.call(os.getpid), signal.SIGSTOP)
        with pytest.raises(ChildTimeoutError, match="time limit of 1 s"):
            child.call(echo, b" " * 2**24)


def test_a_child_that_does_not_start(monkeypatch):
    monkeypatch.setattr(isolation, "_SECONDS_TO_START", 0.01)
    with pytest.raises(ChildDeathError, match=r"did not start: it took longer .* 0\.01 s"):
        Child().call(echo, 1)


@POSIX
def test_a_call_that_is_interrupted_leaves_no_answer_for_the_next(child, monkeypatch):
    looks = iter([0])  # the first is at the memory before the call

    def interrupt(_):
        for memory in looks:
            return memory
        raise KeyboardInterrupt

    child.call(echo, 0)
    monkeypatch.setattr(isolation, "_memory", interrupt)
    monkeypatch.setattr(child, "memory_limit", 1000)
    with pytest.raises(KeyboardInterrupt):
        child.call(time.sleep, 1)
    monkeypatch.undo()
    assert child.call(echo, "next") == "next"


def test_a_child_outlives_the_thread_of_its_first_call(child):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as threads:
        pid = threads.submit(child.call, os.getpid).result(120)
    for _ in range(3):
        assert child.call(os.getpid) == pid


def test_shared_arguments_are_sent_once():
    class Counted(np.ndarray):
        pickled = 0

        def __reduce__(self):
            Counted.pickled += 1
            return np.asarray(self).__reduce__()

    shared = {"bags": ("data", np.ones(4).view(Counted))}
    child = Child()
    assert child.call(total, 0, shared=shared) == [0, 4.0]
    assert child.call(total, 0, shared=shared) == [0, 4.0]
    assert Counted.pickled == 1
    child.close()
    assert child.call(total, 0, shared=shared) == [0, 4.0]
    assert Counted.pickled == 2


def test_killing_ends_a_call_of_another_thread_and_starts_no_other():
    from concurrent.futures import ThreadPoolExecutor

    child = Child()
    pid = child.call(os.getpid)
    with ThreadPoolExecutor(1) as threads:
        future = threads.submit(child.call, time.sleep, 600)
        while not future.running():
            pass
        child.kill()
        with pytest.raises(ChildDeathError):
            future.result()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ChildDeathError, match="was ended"):
        child.call(echo, 1)


def test_modules_are_imported_before_the_first_call():
    assert "wave" in Child(preload=["wave"]).call(echo_modules)
    with pytest.raises(ChildDeathError, match="did not start"):
        Child(preload=["no_such_module"]).call(echo, 1)


def echo_modules():
    return sorted(sys.modules)


PARENT = """
import ctypes, os, sys, time
from pigmil._core.isolation import Child

def sleep_in_c(seconds):
    ctypes.PyDLL(None).sleep(seconds)  # keeps the interpreter lock, as compiled code may

child = Child()
print(child.call(os.getpid), flush=True)
child.call(time.sleep if sys.argv[1] == "python" else sleep_in_c, 600)
"""


@POSIX
@pytest.mark.parametrize("busy_in", ["python", "compiled"])
def test_a_child_ends_with_a_parent_that_is_killed(busy_in, tmp_path):
    if busy_in == "compiled" and sys.platform != "linux":
        pytest.skip("only Linux can be asked to end it")
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script, busy_in],
        env=isolation.child_environment(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 60
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(pid)


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
