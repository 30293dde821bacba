"""How many files a reader of one fit, or of one command, has to open."""

import sys
import threading
from pathlib import Path

import pytest

import pigmil
from pigmil.datasets import make_basic

ROOT = Path(pigmil.__file__).parent
_IS_FUNCTION = 0x1  # CO_OPTIMIZED: set for functions, not for class bodies and modules


def files_walked(call):
    """Return the files of the library in which a function runs while ``call`` runs."""
    names = set()

    def profile(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_flags & _IS_FUNCTION and code.co_filename.endswith(".py"):
            names.add(code.co_filename)

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(
        Path(name).relative_to(ROOT).as_posix() for name in names if Path(name).is_relative_to(ROOT)
    )


def test_functions_are_counted_and_class_bodies_are_not():
    assert files_walked(lambda: None) == []
    assert files_walked(lambda: make_basic(random_state=0).n_bags)[0].startswith("_core/")


def test_a_fit_of_pigmil_stays_in_few_files():
    bags = make_basic(random_state=0)
    model = pigmil.PIGMIL(random_state=0).fit(bags)  # the first fit also imports and compiles
    walked = files_walked(lambda: model.fit(bags))
    assert len(walked) <= 15, walked


def test_detect_stays_in_few_files(tmp_path, monkeypatch):
    pytest.importorskip("typer")
    from typer.testing import CliRunner

    from pigmil.cli._app import app

    monkeypatch.chdir(tmp_path)
    pigmil.write_bags(make_basic(random_state=0), tmp_path / "basic.csv")
    arguments = ["detect", "basic.csv", "--method", "PIGMIL"]
    results = [CliRunner().invoke(app, arguments)]  # the first run also imports and compiles
    walked = files_walked(lambda: results.append(CliRunner().invoke(app, arguments)))
    assert results[1].exit_code == 0, results[1].output
    assert len(walked) <= 45, walked
