"""Killed, shared and resumed: no finished cell is lost, none is computed twice."""

import json
import signal
from collections import Counter

import joblib
import pytest

from pigmil.evaluation import Results, compare
from pigmil.evaluation.store import Store

TIMES = {"fit_seconds", "predict_seconds", "peak_mb"}


def measured(rows):
    """What a row says beside when and how fast it was computed."""
    return [
        (
            row["repeat"],
            row["fold"],
            row["status"],
            {key: str(value) for key, value in row["metrics"].items() if key not in TIMES},
        )
        for row in rows
    ]


def run(bags, store, **changes):
    settings = {"repeats": 2, "folds": 4, "store": store, **changes}
    return compare(["Counting"], {"data": bags}, **settings)


def fits(log):
    """How often each training set was fitted."""
    return Counter(line.split()[1] for line in log.read_text().splitlines())


def test_a_killed_comparison_goes_on_where_it_was(fakes, start, bags, tmp_path):
    store = tmp_path / "results.sqlite"
    process = start(store, FAKE_LOG=str(fakes), FAKE_BLOCK_AT="4")
    process.stdin.write("go\n")
    process.stdin.flush()
    heard = [process.stdout.readline() for _ in range(4)]
    assert heard == ["done 1 of 8\n", "done 2 of 8\n", "done 3 of 8\n", "blocked\n"]
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL

    begun = fits(fakes)
    with Store(store, read_only=True) as kept:
        assert len(kept.rows()) == 3
    resumed = run(bags, store)
    after = fits(fakes)

    # The three finished cells were not fitted again; the one it was killed in was.
    assert sum(begun.values()) == 4
    assert sorted(after.values()) == [1] * 7 + [2]
    assert sum((after - begun).values()) == 5
    assert measured(resumed.rows) == measured(run(bags, tmp_path / "whole.sqlite").rows)
    assert measured(Results.from_store(store).rows) == measured(resumed.rows)


def test_a_finished_comparison_computes_nothing(fakes, bags, tmp_path):
    run(bags, tmp_path / "r.sqlite")
    before = fakes.read_text()
    told = []
    again = run(bags, tmp_path / "r.sqlite", callback=told.append)
    assert fakes.read_text() == before
    assert told == []
    assert len(again.rows) == 8


def test_more_repeats_keep_the_earlier_ones(fakes, bags, tmp_path):
    run(bags, tmp_path / "r.sqlite", repeats=1)
    run(bags, tmp_path / "r.sqlite", repeats=2)
    assert list(fits(fakes).values()) == [1] * 8


def test_two_processes_share_the_work(fakes, start, tmp_path):
    store = tmp_path / "results.sqlite"
    # Each waits in its first fit until the other is at work too.
    pair = [start(store, FAKE_LOG=str(fakes), FAKE_MEET="2") for _ in range(2)]
    for process in pair:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [process.communicate()[0].splitlines()[-1] for process in pair]

    assert [process.returncode for process in pair] == [0, 0]
    # Both return all results, those of the other too.
    assert [json.loads(end) for end in ends] == [["done"] * 8] * 2
    assert list(fits(fakes).values()) == [1] * 8
    assert len({line.split()[0] for line in fakes.read_text().splitlines()}) == 2


def test_a_stopped_comparison_gives_its_cells_back(fakes, bags, tmp_path):
    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(bags, tmp_path / "r.sqlite", callback=stop)
    with Store(tmp_path / "r.sqlite") as store:
        assert len(store.finished()) == 2
        assert store._read("SELECT * FROM claims") == []


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_any_backend_gives_the_same_results(backend, bags, tmp_path):
    settings = {"repeats": 2, "folds": 2, "tune": False}
    methods = ["PIGMIL", "Citation-kNN"]
    alone = compare(methods, bags, store=tmp_path / "alone.sqlite", **settings)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        both = compare(methods, bags, store=tmp_path / "both.sqlite", **settings)
    assert alone.failures == both.failures == []
    assert measured(both.rows) == measured(alone.rows)
