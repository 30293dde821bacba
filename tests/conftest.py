"""Fixtures shared by all tests."""

import os
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest

# Files that need an extra; without it, as in `make test-fast`, they are not collected.
NEEDED = {
    "cloudpickle": ("core/test_isolation.py",),
    "matplotlib": ("core/test_full_disk.py",),
    "pandas": ("bags/test_transform.py",),
    "polars": ("bags/test_convert.py", "bags/test_info.py"),
    "skops": ("estimators/test_persistence.py", "estimators/test_model_attacks.py"),
}
collect_ignore = [
    name for package, names in NEEDED.items() if find_spec(package) is None for name in names
]

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
