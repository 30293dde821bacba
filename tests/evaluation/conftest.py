"""Bags and methods for the tests of the comparison."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from pigmil import Bags
from pigmil.estimators import registry

HELPERS = Path(__file__).parent / "helpers"
collect_ignore = ["helpers"]  # run by the tests, and no tests themselves


@pytest.fixture
def bags():
    """Twelve negative and twelve positive bags of three instances, well apart."""
    rng = np.random.RandomState(7)
    y = np.repeat([0, 1], 12)
    return Bags.from_list([rng.normal(2 * label, 1, (3, 2)) for label in y], y=y)


@pytest.fixture
def fakes(monkeypatch, tmp_path):
    """The methods of ``fake_methods``, known to the registry; returns the log of ``Counting``."""
    monkeypatch.syspath_prepend(str(HELPERS))
    import fake_methods

    methods = dict(registry.METHODS)
    fake_methods.register(methods)
    monkeypatch.setattr(registry, "METHODS", methods)
    log = tmp_path / "fits.log"
    monkeypatch.setenv("FAKE_LOG", str(log))
    return log


@pytest.fixture
def start(tmp_path, bags):
    """Start ``run_compare.py`` in a separate process, where it waits for a line of input."""
    data = tmp_path / "data.npz"
    np.savez(data, instances=bags.instances, offsets=bags.offsets, y=bags.y)
    started = []

    def start(store, *, jobs=0, **environment):
        process = subprocess.Popen(
            [sys.executable, str(HELPERS / "run_compare.py"), str(store), str(data), str(jobs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        # However it hangs, the test fails after two minutes: reading its output then ends.
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        started.append((process, watchdog))
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process, watchdog in started:
        watchdog.cancel()
        process.kill()
        process.communicate(timeout=60)
