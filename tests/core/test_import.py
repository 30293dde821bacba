"""``import pigmil`` is light: nothing heavy comes along, and it costs little."""

import subprocess
import sys

import pytest

import pigmil

HEAVY = ("pandas", "polars", "pyarrow", "matplotlib", "numba", "h5py", "pooch", "plotly", "dask")


def run(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def loaded_after(*statements):
    """The heavy modules that are there after each statement, run one after the other."""
    print_loaded = f"print(' '.join(m for m in {HEAVY!r} if m in sys.modules) or '-')"
    lines = run("\n".join(["import sys", *[f"{line}\n{print_loaded}" for line in statements]]))
    return [set(line.split()) - {"-"} for line in lines.splitlines()]


def test_nothing_heavy_is_imported():
    # scikit-learn loads pandas itself where it is installed; nothing comes on top of that.
    alone, beside, container, metrics, synthetic = loaded_after(
        "import pigmil",
        "import sklearn",
        "pigmil.Bags, pigmil.OnInstances, pigmil.as_bags([[[1.0]]])",
        "import pigmil.metrics",
        "from pigmil.datasets import make_basic; make_basic(0)",
    )
    assert alone == set()
    assert container == metrics == synthetic == beside


def test_names_are_loaded_when_asked_for():
    assert pigmil.Bags.__module__ == "pigmil.bags._container"
    assert pigmil.datasets.make_ring
    assert {"Bags", "datasets", "read_bags"} <= set(dir(pigmil))
    with pytest.raises(AttributeError, match="module 'pigmil' has no attribute 'Bag'"):
        pigmil.Bag  # noqa: B018
