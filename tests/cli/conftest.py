"""A folder to work in, a small table of bags, and a way to run commands."""

import csv
import json
from dataclasses import dataclass

import numpy as np
import pytest
from typer.testing import CliRunner

from pigmil.cli._app import app


@dataclass
class Ran:
    """Exit status and what was printed."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        (line,) = self.out.splitlines()
        return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table(folder):
    """24 molecules of five rows; the third row of an active one is what makes it so."""
    rng = np.random.RandomState(0)
    path = folder / "molecules.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["molecule", "active", "mass", "charge", "note"])
        for bag in range(24):
            for row in range(5):
                values = rng.normal(size=2) + (5 if bag % 2 and row == 2 else 0)
                label = "yes" if bag % 2 else "no"
                writer.writerow([f"m{bag}", label, *values.round(4), f"row {row}"])
    return path


@pytest.fixture
def rows_of(folder):
    """Return the rows of a table in the folder as dictionaries of text."""

    def rows_of(name):
        with (folder / name).open(newline="") as file:
            return list(csv.DictReader(file))

    return rows_of


@pytest.fixture
def pigmil(folder):
    def run(*arguments):
        found = CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
        return Ran(found.exit_code, found.stdout, found.stderr)

    return run
