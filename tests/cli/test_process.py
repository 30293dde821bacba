"""Real processes: interrupts, broken pipes, completion."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pigmil.evaluation._results import Results

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and shells of POSIX")
CALL = (sys.executable, "-m", "pigmil.cli")

# The command with one function replaced by one that waits until it is stopped.
SCRIPT = """
import sys, time
from pathlib import Path
from pigmil.cli import main

def wait():
    open("fitting", "w").close()
    while True:
        time.sleep(0.01)

{patch}
sys.argv = ["pigmil", *sys.argv[1:]]
main()
"""

STUCK = """
import pigmil.estimators.kde as kde
kde._KernelDensity._fit = lambda self, bags, positive: wait()
"""

# The second cell of a comparison computes until it is stopped.
SECOND = """
import pigmil.evaluation._runner as runner
compute = runner.compute_cell

def first_only(**arguments):
    if Path("once").exists():
        wait()
    open("once", "w").close()
    return compute(**arguments)

runner.compute_cell = first_only
"""


@pytest.fixture
def bags(folder):
    lines = ["bag,label,a,b"]
    lines += [f"b{bag},{bag % 2},{row},{bag * row % 7}" for bag in range(6) for row in range(3)]
    path = folder / "bags.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def _stopped(patch, folder, how, *arguments):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(patch=patch), *arguments],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not Path(folder, "fitting").exists():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < end, "it never began"
            time.sleep(0.02)
        process.send_signal(how)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_in_a_fit_leaves_nothing(folder, bags, how):
    status, out, err = _stopped(STUCK, folder, how, "detect", "bags.csv", "-m", "KDE")
    assert status == 130
    assert out == ""
    assert "stopped" in err
    assert "Traceback" not in err
    assert {path.name for path in folder.iterdir()} == {"bags.csv", "fitting"}


def test_a_stopped_comparison_keeps_its_cells_and_goes_on(folder, bags, pigmil):
    call = ("compare", "bags.csv", "-m", "MI-Kernel", "--repeats", "1", "--folds", "3", "--no-tune",
            "--set", "rivals=false")  # fmt: skip
    status, _, err = _stopped(SECOND, folder, signal.SIGINT, *call)
    assert status == 130
    assert "Traceback" not in err
    before = Results.from_store(folder / "pigmil-results.sqlite").rows
    assert len(before) == 1
    assert pigmil(*call).status == 0
    after = Results.from_store(folder / "pigmil-results.sqlite").rows
    assert len(after) == 3
    assert before[0] in after  # with the time it ended: it was not computed again


def _shell(command, folder, **settings):
    """Run a shell line in which ``pigmil`` is the command; give status, output and errors."""
    line = f'pigmil() {{ "{sys.executable}" -m pigmil.cli "$@"; }}; set -o pipefail; {command}'
    done = subprocess.run(
        ["bash", "-c", line], cwd=folder, env={**os.environ, **settings},
        capture_output=True, text=True, encoding="utf-8", check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("command", ["methods", "--help"])
def test_a_pipe_closed_by_its_reader_is_silent(folder, command):
    status, out, err = _shell(f"pigmil {command} | (exec <&-; sleep 0)", folder)
    assert (status, out, err) == (1, "", "")


def test_ids_that_the_locale_does_not_have(folder):
    """The table of instances is printed after the work is done."""
    rows = [f"é±{bag},{bag % 2},{bag * row % 5}.{bag}" for bag in range(8) for row in range(3)]
    (folder / "ids.csv").write_text("bag,label,x\n" + "\n".join(rows) + "\n", encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    status, out, err = _shell("pigmil detect ids.csv --method KDEMin", folder, **ascii_only)
    assert (status, "Traceback" in err) == (0, False)
    assert r"\xe9\xb17" in out
    out.encode("ascii")


def test_home_that_cannot_be_written(folder, bags):
    nowhere = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere"}
    status, _, err = _shell("pigmil detect bags.csv -m KDE --no-report", folder, **nowhere)
    assert (status, "Traceback" in err) == (0, False)
    assert (folder / "bags-instances.csv").exists()


def test_help_does_not_wait_for_heavy_imports(folder):
    script = (
        "import sys\nsys.argv = ['pigmil', '--help']\nfrom pigmil.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'sklearn', 'numba', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "    print('HEAVY', sorted(heavy))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "HEAVY []" in found.stdout
