"""Killed, shared and resumed comparisons: no finished cell is lost or computed again."""

import json
import os
import signal
import threading
from collections import Counter
from pathlib import Path

import joblib
import pytest

from pigmil.evaluation import Results, compare
from pigmil.evaluation._store import Store

TIMES = {"fit_seconds", "predict_seconds", "peak_mb"}


def measured(rows):
    """Everything in a row that does not depend on when and how fast it was computed."""
    names = ("repeat", "fold", "status")
    return [
        [row[name] for name in names]
        + [(key, str(value)) for key, value in sorted(row["metrics"].items()) if key not in TIMES]
        for row in rows
    ]


def run(bags, store, **changes):
    settings = {"repeats": 2, "folds": 4, "store": store, **changes}
    return compare(["Counting"], {"data": bags}, **settings)


def fits(log):
    """Number of fits on each training set."""
    return Counter(line.split()[1] for line in log.read_text().splitlines())


def wait_until(condition, minutes=1):
    for _ in range(6000 * minutes):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"it did not happen within {minutes} minutes")


def has_ended(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def blocked(fakes, start, tmp_path):
    """Start a comparison that blocks in its n-th fit; return its process and the blocked pid."""

    def start_blocked(jobs, at):
        marker = Path(f"{fakes}.blocked")
        process = start(
            tmp_path / "r.sqlite", jobs=jobs, FAKE_LOG=str(fakes), FAKE_BLOCK_AT=str(at)
        )
        process.stdin.write("go\n")
        process.stdin.flush()
        wait_until(lambda: marker.exists() and marker.read_text())
        return process, int(marker.read_text())

    return start_blocked


@pytest.mark.parametrize("jobs", [0, 2])
def test_killed_comparison_goes_on_where_it_was(blocked, fakes, bags, tmp_path, jobs):
    process, _ = blocked(jobs, at=4)
    workers = {int(line.split()[0]) for line in fakes.read_text().splitlines()}
    process.send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) == -signal.SIGKILL
    wait_until(lambda: all(map(has_ended, workers)))

    begun = fits(fakes)
    with Store(tmp_path / "r.sqlite", read_only=True) as store:
        n_finished = len(store.rows())
    resumed = run(bags, tmp_path / "r.sqlite")
    after = fits(fakes)
    # The finished cells were not fitted again; those in which it was killed were.
    assert n_finished >= 3 - jobs
    assert len(after) == 8
    assert sum((after - begun).values()) == 8 - n_finished
    assert measured(resumed.rows) == measured(run(bags, tmp_path / "whole.sqlite").rows)
    assert measured(Results.from_store(tmp_path / "r.sqlite").rows) == measured(resumed.rows)


def test_killed_worker_is_a_failed_cell(blocked, fakes, start, bags, tmp_path):
    process, worker = blocked(2, at=3)
    assert worker != process.pid
    os.kill(worker, signal.SIGKILL)
    output, _ = process.communicate()
    assert process.returncode == 0
    assert Counter(json.loads(output.splitlines()[-1])) == {"done": 7, "failed": 1}
    results = Results.from_store(tmp_path / "r.sqlite")
    assert "the child process was killed (SIGKILL" in results.failures[0]["error"]

    # A cell that runs out of memory every time must not block the rest: it is not tried again ...
    assert len(run(bags, tmp_path / "r.sqlite").failures) == 1
    assert sum(fits(fakes).values()) == 8
    # ... unless that is asked for.
    again = run(bags, tmp_path / "r.sqlite", retry_failed=True)
    assert sum(fits(fakes).values()) == 9
    assert measured(again.rows) == measured(run(bags, tmp_path / "whole.sqlite").rows)


def test_finished_cells_are_not_computed_again(fakes, bags, tmp_path):
    run(bags, tmp_path / "r.sqlite", repeats=1)
    assert len(run(bags, tmp_path / "r.sqlite", repeats=2).rows) == 8
    assert list(fits(fakes).values()) == [1] * 8
    steps = []
    assert len(run(bags, tmp_path / "r.sqlite", callback=steps.append).rows) == 8
    assert list(fits(fakes).values()) == [1] * 8
    assert steps == []


def test_two_comparisons_share_the_work(fakes, start, tmp_path):
    store = tmp_path / "results.sqlite"
    # Each waits in its first fit until the other is at work too.
    pair = [start(store, jobs=0, FAKE_LOG=str(fakes), FAKE_MEET="2") for _ in range(2)]
    for process in pair:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate()[0].splitlines()[-1] for process in pair]

    assert [process.returncode for process in pair] == [0, 0]
    # Both return all results, including those of the other.
    assert [json.loads(end) for end in ends] == [["done"] * 8] * 2
    done = fits(fakes)
    assert len(done) == 8
    assert sum(done.values()) < 16  # the first cell is computed by both, few others are
    with Store(store, read_only=True) as finished:
        assert len(finished.rows()) == 8


def test_stopped_comparison_keeps_what_it_finished(fakes, bags, tmp_path):
    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(bags, tmp_path / "r.sqlite", callback=stop)
    with Store(tmp_path / "r.sqlite") as store:
        assert len(store.rows()) == 2
    assert len(run(bags, tmp_path / "r.sqlite").rows) == 8
    assert list(fits(fakes).values()) == [1] * 8


def test_workers_give_the_same_results(bags, tmp_path):
    settings = {"repeats": 2, "folds": 2, "tune": False}
    methods = ["PIGMIL", "Citation-kNN"]
    alone = compare(methods, bags, store=tmp_path / "alone.sqlite", **settings)
    with joblib.parallel_config(n_jobs=2):
        both = compare(methods, bags, store=tmp_path / "both.sqlite", **settings)
    assert alone.failures == both.failures == []
    assert measured(both.rows) == measured(alone.rows)
