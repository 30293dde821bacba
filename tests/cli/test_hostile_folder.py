"""Modules lying in the working folder are never imported, in no process that a command starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pigmil._core import isolation
from pigmil.datasets import _loading as loading

# Imported early by a worker, by the process that enforces limits, or by a fit.
HOSTILE = ("numpy", "joblib", "scipy", "sklearn", "numba", "pandas", "pickle", "pip", "queue")
SHADOW = """
import os
open(os.path.join({folder!r}, "ran-{name}"), "w").close()
raise SystemExit(3)
"""
COLUMNS = ("--bag", "molecule", "--label", "active", "--info", "note")
LABELLED = (*COLUMNS, "--positive", "yes")
COMMANDS = {
    "detect": ("detect", "data.csv", *LABELLED, "--method", "KDEMin", "-o", "out.csv"),
    "compare": (
        "compare", "data.csv", *LABELLED, "--methods", "MILES", "--folds", "2",
        "--repeats", "1", "--no-tune", "--jobs", "2", "--set", "time_limit=100",
    ),
}  # fmt: skip


def plant(folder, names=HOSTILE):
    for name in names:
        (folder / f"{name}.py").write_text(SHADOW.format(folder=str(folder), name=name))


def ran(folder):
    return sorted(path.name for path in folder.glob("ran-*"))


# The first is how the installed command starts: its own folder is first on the path.
COMMAND, MODULE = ("-P", "-c", "from pigmil.cli import main; main()"), ("-m", "pigmil.cli")


@pytest.mark.parametrize(("command", "start"), [("detect", MODULE), ("compare", COMMAND)])
def test_commands_run_nothing_of_the_folder(command, start, folder, table):
    table.rename(folder / "data.csv")
    plant(folder)
    environment = {name: value for name, value in os.environ.items() if name != isolation.SAFE_PATH}
    found = subprocess.run(
        [sys.executable, *start, *COMMANDS[command]],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran(folder) == []
    assert found.returncode == 0, found.stderr


def test_the_planted_modules_would_run(folder):
    plant(folder)
    subprocess.run([sys.executable, "-c", "import joblib"], cwd=folder, check=False)
    assert ran(folder) == ["ran-joblib"]


def test_pip_runs_nothing_of_the_folder(folder, tmp_path, monkeypatch):
    plant(folder, ("pip", "requests", "ssl"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(loading.DataSetError, match="pip could not download"):
        loading._pip_download(tmp_path)
    assert ran(folder) == []


def test_the_folder_of_a_script_stays_on_the_path(folder, monkeypatch):
    main = sys.modules["__main__"]
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    monkeypatch.setattr(main, "__file__", str(folder / "script.py"), raising=False)
    assert str(folder) in isolation.import_path()
    monkeypatch.setattr(main, "__file__", str(Path(sys.prefix) / "bin" / "pigmil"))
    assert str(folder) not in isolation.import_path()
    assert "" not in isolation.import_path()
