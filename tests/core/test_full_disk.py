"""Every writer on a full disk: an error that says so, the old file whole, nothing left behind."""

import os
import subprocess

import numpy as np
import pytest
from matplotlib.figure import Figure

from pigmil import MILES, Bags, KDEMin, StoreError, save_model, scan_bags, write_bags
from pigmil.cli._console import write_table
from pigmil.evaluation import compare
from pigmil.evaluation._store import Cell, Store
from pigmil.io import formats
from pigmil.report import detection_summary, plot_heatmap, write_geojson, write_report
from pigmil.report._figures import write_figure
from pigmil.scale import predict_to_parquet

KIB = 48  # of the disk
NOISE = np.random.default_rng(0).normal(size=20_000)


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """A very small disk of its own."""
    folder = tmp_path_factory.mktemp("disk")
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    command = ["mount", "-t", "tmpfs", "-o", f"size={KIB}k", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(disk, room, *names):
    """Empty the disk, write old files, then fill it up to some bytes."""
    for path in disk.iterdir():
        path.unlink()
    for name in names:
        (disk / name).write_bytes(b"old")
    filler = bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize - room)
    (disk / "filler").write_bytes(filler)
    return filler


@pytest.fixture(scope="module")
def large():
    rng = np.random.default_rng(0)
    return Bags.from_flat(rng.normal(size=(2000, 8)), np.repeat(np.arange(100), 20), y=[0, 1] * 50)


@pytest.fixture(scope="module")
def model(large):
    return MILES().fit(large[:40])


@pytest.fixture(scope="module")
def results(large, tmp_path_factory):
    store = tmp_path_factory.mktemp("results") / "r.sqlite"
    return compare(["MILES"], {"x": large[:20]}, repeats=1, folds=2, store=store)


@pytest.fixture(scope="module")
def summary(model, large):
    return detection_summary(model, large[:40], source="x")


@pytest.fixture(scope="module")
def slides():
    """Bags whose instances have coordinates."""
    rng = np.random.default_rng(0)
    coords = np.tile(np.array([[x, y] for x in range(30) for y in range(20)]), (2, 1)) * 256
    return Bags(
        rng.normal(size=(1200, 4)), [0, 600, 1200], y=[0, 1], instance_info={"coords": coords}
    )


FORMATS = {entry.suffixes[0]: name for name, entry in formats().items() if entry.write}
SCORES = np.linspace(0, 1, 1200)
# From the name of a file to the fixture with what is written, and its writer.
WRITERS = {
    "model.skops": ("model", save_model),
    "tiles.geojson": (
        "slides", lambda bags, path: write_geojson(bags, SCORES, 0, path, tile_size=256)
    ),
    "comparison.html": ("results", write_report),
    **{f"bags{suffix}": ("large", write_bags) for suffix in FORMATS},
    **{f"table{suffix}": ("slides", lambda _, path: write_table({"value": NOISE}, path))
       for suffix in (".csv", ".parquet")},
    **{f"report{suffix}": ("summary", write_report) for suffix in (".html", ".md")},
    **{f"results{suffix}": ("results", lambda results, path: results.export(path))
       for suffix in (".md", ".tex", ".csv", ".json")},
    **{f"map{suffix}": ("slides", lambda bags, path: write_figure(
        plot_heatmap(bags, SCORES, 0, ax=Figure().subplots()).figure, path, dpi=150))
       for suffix in (".png", ".svg", ".pdf")},
}  # fmt: skip


# numpy before 2.0 leaves an archive open that it could not write.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <function ZipFile.__del__")
@pytest.mark.parametrize("name", WRITERS)
def test_writers(name, request, disk):
    """A writer fails and leaves the disk as it was."""
    fixture, write = WRITERS[name]
    held = request.getfixturevalue(fixture)
    filler = fill(disk, (32 << 10) if name.startswith("bags") else 0, name)
    with pytest.raises(OSError, match=r"(?i)no space left"):
        write(held, disk / name)
    left = {path.name: path.read_bytes() for path in disk.iterdir()}
    assert left == {name: b"old", "filler": filler}


def test_streamed_scores(large, tmp_path, disk):
    write_bags(large, tmp_path / "bags.parquet")
    lazy = scan_bags(tmp_path / "bags.parquet")
    model = KDEMin().fit(large[:20])
    fill(disk, 16 << 10)
    with pytest.raises(OSError, match=r"(?i)no space left"):
        predict_to_parquet(model, lazy, disk)
    assert {path.name for path in disk.iterdir()} == {"filler"}


def test_a_store_that_grows(tmp_path, disk):
    """Keep what was saved before the disk was full; go on when there is room."""
    for path in disk.iterdir():
        path.unlink()
    path = tmp_path / "results.sqlite"
    Store(path).close()
    subprocess.run(["mount", "-o", "remount,size=256k", str(disk)], check=True)
    try:
        (disk / "results.sqlite").write_bytes(path.read_bytes())
        with Store(disk / "results.sqlite") as store:
            with pytest.raises(StoreError, match="disk is full"):
                _finish_many(store)
            saved = len(store.rows())
            assert saved > 3
        with Store(disk / "results.sqlite", read_only=True) as store:
            assert len(store.rows()) == saved
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        with Store(disk / "results.sqlite") as store:
            store.add(_cell(saved), {"accuracy": 0.5})
            assert len(store.rows()) == saved + 1
    finally:
        for left in disk.iterdir():
            left.unlink()
        subprocess.run(["mount", "-o", f"remount,size={KIB}k", str(disk)], check=True)


def _finish_many(store):
    for fold in range(2000):
        store.add(_cell(fold), {"accuracy": 0.5, "warnings": ["x" * 500]})


def _cell(fold):
    return Cell("x", "abc", "KDE", "pigmil.KDE", "{}", "{}", 0, fold, "0")
