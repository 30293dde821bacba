"""Fixtures shared by all tests."""

import os
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.load_profile("project")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets; tests that need it are skipped, by name, without one."""
    folder = os.environ.get("PIGMIL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not here: set PIGMIL_DATA to a folder that holds them")
    return Path(folder)
