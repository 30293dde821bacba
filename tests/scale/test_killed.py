"""Processes killed in the middle of fits and predictions on a cluster."""

import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest

from pigmil import MaxPoolingLR, SoftPIGMIL
from pigmil.scale import predict_to_parquet

distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the connections that break


def kill_at(client, name, number, marker):
    """Let one worker end itself by SIGKILL in its call ``number`` of a function of the engine.

    The process that its nanny starts in its place is not changed.
    """

    def arm():
        import os
        import signal

        from pigmil.scale import _engine

        run, calls = getattr(_engine, name), []

        def counted(*arguments):
            calls.append(None)
            if len(calls) == number:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
            return run(*arguments)

        setattr(_engine, name, counted)

    client.wait_for_workers(2, timeout=60)
    client.run(arm, workers=[sorted(client.nthreads())[0]])


def test_a_worker_killed_in_a_fit_changes_nothing(lazy, cluster, tmp_path):
    def fit():
        return SoftPIGMIL(random_state=0, n_landmarks=20, max_instances=120).fit(lazy)

    expected = fit()
    # In a pass over the blocks while instances are screened, and while models are fitted.
    for name, number in (("_run_task", 5), ("_run_call", 1)):
        with distributed.Client(cluster) as client:
            kill_at(client, name, number, str(tmp_path / name))
            model = fit()
        assert (tmp_path / name).exists()
        assert np.array_equal(model.detected_instances_, expected.detected_instances_)
        for found, known in (
            (model.instance_scores_, expected.instance_scores_),
            (model.decision_function(lazy), expected.decision_function(lazy)),
        ):
            np.testing.assert_allclose(found, known, rtol=1e-6, atol=1e-6)


def test_a_worker_killed_while_it_writes_changes_nothing(lazy, client, tmp_path):
    model = MaxPoolingLR().fit(lazy.load())
    kill_at(client, "_run_task", 1, str(tmp_path / "killed"))
    files = predict_to_parquet(model, lazy, tmp_path / "scores")
    assert (tmp_path / "killed").exists()
    table = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    expected = model.decision_function_instances(lazy.load())
    np.testing.assert_allclose(table["score"], expected, rtol=1e-5, atol=1e-6)
    assert sorted(tmp_path.glob("scores/*")) == [*files]


DRIVER = """
import os, pickle, signal, sys
from distributed import Client
from pigmil.scale import _engine, predict_to_parquet
job, address = sys.argv[1:]
model, lazy, folder = pickle.load(open(job, "rb"))
type(lazy).partitions = lambda bags, max_bytes=0: [bags[at : at + 4] for at in range(0, 30, 4)]
results, seen = _engine.map_on_cluster, []

def killed(*arguments):
    for result in results(*arguments):
        seen.append(None)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        yield result

_engine.map_on_cluster = killed
with Client(address):
    model.fit(lazy) if folder is None else predict_to_parquet(model, lazy, folder)
"""


def run_and_kill(job, address, *arguments):
    job.write_bytes(pickle.dumps(arguments))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(job), address],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == -signal.SIGKILL


def test_after_the_driver_was_killed_a_prediction_goes_on(lazy, cluster, tmp_path):
    model = MaxPoolingLR().fit(lazy.load())
    run_and_kill(tmp_path / "job", cluster.scheduler_address, model, lazy, tmp_path / "scores")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "scores").glob("part-*")}
    assert len(before) >= 2
    with distributed.Client(cluster):
        files = predict_to_parquet(model, lazy, tmp_path / "scores")
    assert {file: file.stat().st_mtime_ns for file in before} == before
    table = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    expected = model.decision_function_instances(lazy.load())
    np.testing.assert_allclose(table["score"], expected, rtol=1e-5, atol=1e-6)


def test_after_the_driver_was_killed_the_same_fit_starts_anew(lazy, cluster, tmp_path):
    """The cluster is free of the fit that was killed."""
    run_and_kill(tmp_path / "job", cluster.scheduler_address, MaxPoolingLR(), lazy, None)
    expected = MaxPoolingLR().fit(lazy)
    with distributed.Client(cluster) as client:
        model = MaxPoolingLR().fit(lazy)
        waiting = client.processing()
    assert not any(waiting.values())
    np.testing.assert_allclose(
        model.instance_scores_, expected.instance_scores_, rtol=1e-6, atol=1e-6
    )
