"""The door to numba: compiled once, absent under NUMBA_DISABLE_JIT."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from some_kernels import square, cube
print(square(3.0) + cube(2.0))
"""
KERNELS = """
from pigmil._core.jit import njit

@njit
def square(x):
    return x * x

@njit
def cube(x):
    return x * x * x
"""


@pytest.fixture
def run(tmp_path):
    """Run a small program that imports kernels, in a separate process."""
    (tmp_path / "some_kernels.py").write_text(KERNELS)

    def once(**environment):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            env={
                **os.environ,
                "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                "NUMBA_DISABLE_JIT": "0",
                **environment,
            },
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == ["17.0"]
        return done.stderr

    return once


def test_a_cache_that_cannot_be_written_is_named(run, tmp_path):
    """As on a full disk: the kernel runs, and a warning has the folder."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, tempfile\n"
        "from numba.core import caching\n"
        "def full(*arguments):\n    raise OSError(28, 'No space left on device')\n"
        "caching.IndexDataCacheFile.save = full\n"
    )
    said = run(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert f"kernels cannot be kept in {tmp_path / 'cache'}" in said
    assert "No space left on device" in said
