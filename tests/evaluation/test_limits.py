"""Limits really end a cell, from outside, and errors become text."""

import time

import pytest

from pigmil.evaluation.limits import check_limits, run_guarded


@pytest.fixture
def methods(fakes):
    import fake_methods

    return fake_methods


def test_an_error_becomes_its_text(methods):
    found, error = run_guarded(methods.sleep, {"minutes": 1})
    assert found == {}
    assert error.startswith("TypeError: sleep() got an unexpected keyword argument 'minutes' (")


def test_within_its_limits_a_call_returns(methods):
    outcome = run_guarded(methods.allocate, {"mebibytes": 8}, time_limit=60, memory_limit=500)
    assert outcome == ({"sum": 8.0 * 2**17}, None)


def test_the_time_limit_ends_a_call(methods):
    start = time.monotonic()
    found, error = run_guarded(methods.sleep, {"seconds": 600}, time_limit=0.2)
    assert (found, error) == ({}, "TimeoutError: it took longer than time_limit=0.2 s")
    assert time.monotonic() - start < 300


def test_the_memory_limit_ends_a_call(methods):
    found, error = run_guarded(methods.allocate, {"mebibytes": 900}, memory_limit=300)
    assert found == {}
    assert "MemoryError" in error
    assert run_guarded(methods.allocate, {"mebibytes": 900})[1] is None


def test_a_process_that_dies_is_told(methods):
    assert run_guarded(methods.die, {}, time_limit=60) == (
        {},
        "ChildProcessError: its process ended with -11",
    )


def test_what_a_method_prints_does_not_spoil_its_answer(methods):
    assert run_guarded(methods.chatter, {}, time_limit=60) == ({"said": 2}, None)


@pytest.mark.parametrize("limits", [(0, None), (None, -1.0), (float("nan"), None)])
def test_senseless_limits_are_refused(limits):
    with pytest.raises(ValueError, match="_limit must be a positive number or None"):
        check_limits(*limits)
