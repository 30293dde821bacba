"""A sample of every fuzz script; `make fuzz` runs them whole."""

import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = {"fuzz_formats.py": 420, "fuzz_cohorts.py": 150}


def test_every_script_is_sampled():
    assert sorted(SAMPLES) == sorted(path.name for path in Path(__file__).parent.glob("fuzz_*.py"))


@pytest.mark.parametrize("script", SAMPLES)
def test_nothing_escapes_in_a_sample(script):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name(script)), "--targets", "mixed",
         "--inputs", str(SAMPLES[script])],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    inputs = [int(line.split("|")[2].replace(",", "")) for line in done.stdout.splitlines()[2:]]
    assert sum(inputs) == SAMPLES[script]
