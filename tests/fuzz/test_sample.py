"""A sample of the mutated files; `make fuzz` reads more."""

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_nothing_escapes_in_a_sample():
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("fuzz_files.py"), "--inputs", "8"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^\| \S+ \| 8 \|", done.stdout, re.MULTILINE)) == 15
