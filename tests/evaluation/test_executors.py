"""Worker processes: limits, deaths, and the data they are sent."""

import os
import time

import pytest

from pigmil.evaluation._executors import Call, ProcessExecutor, SerialExecutor, make_executor


@pytest.fixture
def methods(fakes):
    import fake_methods

    return fake_methods


def run_one(function, arguments, **limits):
    (outcome,) = ProcessExecutor(1, **limits).run([Call("key", function, arguments)])
    assert outcome.key == "key"
    return outcome.result, outcome.error


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(1)])
def test_error_becomes_text(methods, executor):
    calls = [Call("a", methods.sleep, {"minutes": 1}), Call("b", methods.sleep, {"seconds": 0})]
    first, second = executor.run(calls)
    assert first.result == {}
    assert first.error.startswith("TypeError: sleep() got an unexpected keyword argument 'minutes'")
    assert (second.key, second.result, second.error) == ("b", {"slept": 0}, None)


def test_within_limits(methods):
    outcome = run_one(methods.allocate, {"mebibytes": 8}, time_limit=60, memory_limit=500)
    assert outcome == ({"sum": 8.0 * 2**17}, None)


def test_time_limit(methods):
    start = time.monotonic()
    result, error = run_one(methods.sleep, {"seconds": 600}, time_limit=0.2)
    assert (result, error) == ({}, "TimeoutError: it took longer than time_limit=0.2 s")
    assert time.monotonic() - start < 300


def test_memory_limit(methods):
    result, error = run_one(methods.allocate, {"mebibytes": 900}, memory_limit=300)
    assert result == {}
    assert "MemoryError" in error


def test_killed_worker_fails_its_call_only(methods):
    calls = [
        Call("a", methods.sleep, {"seconds": 0}),
        Call("b", methods.die, {"signal": "SIGSEGV"}),
        Call("c", methods.die, {"signal": "SIGKILL"}),
        Call("d", methods.sleep, {"seconds": 0}),
    ]
    outcomes = {outcome.key: outcome.error for outcome in ProcessExecutor(1).run(calls)}
    assert outcomes == {
        "a": None,
        "b": "ChildProcessError: the worker process was killed (SIGSEGV)",
        "c": "ChildProcessError: the worker process was killed (SIGKILL, often a sign of too "
        "little memory)",
        "d": None,
    }


def test_printed_text_does_not_spoil_the_answer(methods):
    assert run_one(methods.chatter, {}) == ({"said": 2}, None)


def test_shared_arguments_are_sent_once(methods):
    shared = {"value": ("data", methods.CountedPickle())}
    calls = [Call(str(number), methods.which_process, {}, shared) for number in range(4)]
    outcomes = list(ProcessExecutor(2).run(calls))
    assert [outcome.error for outcome in outcomes] == [None] * 4
    n_workers = len({outcome.result["pid"] for outcome in outcomes})
    assert methods.CountedPickle.pickled == n_workers <= 2
    # A new worker after a death is sent the data again.
    calls.insert(1, Call("dead", methods.die, {"signal": "SIGKILL"}))
    errors = [outcome.error for outcome in ProcessExecutor(1).run(calls)]
    assert [error is None for error in errors] == [True, False, True, True, True]


def test_functions_of_a_script_can_be_called():
    # As typed into a notebook: no module holds it.
    scope = {}
    exec("def double(x):\n    return {'twice': 2 * x}", {"__name__": "__main__"}, scope)
    assert run_one(scope["double"], {"x": 3}) == ({"twice": 6}, None)


def test_arguments_that_cannot_be_sent(methods):
    result, error = run_one(methods.sleep, {"seconds": (n for n in range(3))})
    assert result == {}
    assert "cannot pickle 'generator'" in error


def test_closing_ends_the_workers(methods):
    calls = [Call("a", methods.which_process, {"value": 0})]
    calls += [Call("b", methods.sleep, {"seconds": 600})] * 2
    outcomes = ProcessExecutor(1).run(calls)
    pid = next(outcomes).result["pid"]
    os.kill(pid, 0)
    outcomes.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("limits", [(0, None), (None, -1.0), (float("nan"), None)])
def test_impossible_limits(limits):
    with pytest.raises(ValueError, match="_limit must be a positive number or None"):
        make_executor(None, time_limit=limits[0], memory_limit=limits[1])


def test_choice_of_executor():
    assert isinstance(make_executor(None), SerialExecutor)
    assert isinstance(make_executor(None, time_limit=1), ProcessExecutor)
    assert make_executor(2).n_workers == 2
