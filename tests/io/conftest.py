"""Bags that every format can hold, and how each format is asked to write and read them."""

import gc
from pathlib import Path

import numpy as np
import pytest

from pigmil import Bags, write_bags
from pigmil.io import formats

READ_OPTIONS = {"sparse_mil": {"n_features": 3}, "svmlight": {"n_features": 3}}


@pytest.fixture(scope="session")
def plain_bags() -> Bags:
    """Three labelled bags with whole numbers as ids: nothing that any format must refuse."""
    rng = np.random.default_rng(0)
    instances = rng.normal(size=(6, 3)).round(3)
    return Bags(instances, [0, 2, 5, 6], ids=[4, 7, 1], y=[1, 0, 1])


@pytest.fixture(scope="session", params=sorted(formats()))
def format_name(request) -> str:
    """Each format in turn."""
    return request.param


@pytest.fixture
def written(format_name, plain_bags, tmp_path) -> Path:
    """A good file of the format."""
    path = tmp_path / f"good{formats()[format_name].suffixes[0]}"
    write_bags(plain_bags, path, format=format_name)
    return path


@pytest.fixture
def read_options(format_name) -> dict:
    """Options the reader needs because the format does not hold them."""
    return READ_OPTIONS.get(format_name, {})


@pytest.fixture
def peak_of():
    """Return a function that runs another one and returns the most memory it took, in bytes."""
    status, reset = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        reset.write_text("5")
    except OSError:
        pytest.skip("the peak of memory cannot be measured here")

    def kilobytes(name):
        line = next(line for line in status.read_text().splitlines() if line.startswith(name))
        return int(line.split()[1])

    def measure(function) -> int:
        gc.collect()
        reset.write_text("5")  # the highest mark becomes what is held now
        before = kilobytes("VmRSS")
        function()
        return 1024 * (kilobytes("VmHWM") - before)

    return measure
