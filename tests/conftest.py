"""Fixtures shared by all tests."""

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
# Kernels as plain Python are some hundred times slower: fewer examples show that they run.
hypothesis.settings.register_profile(
    "plain-python", deadline=None, derandomize=True, max_examples=3
)
plain = os.environ.get("NUMBA_DISABLE_JIT") == "1"
hypothesis.settings.load_profile("plain-python" if plain else "project")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests that need it are skipped, by name, without one."""
    folder = os.environ.get("PIGMIL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not here: set PIGMIL_DATA to a folder that holds them")
    return Path(folder)
