"""Bags on disk, the same in memory, and one cluster of two worker processes."""

import numpy as np
import pytest

from pigmil import scan_bags


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Thirty bags of NumPy files; positive ones hold instances around (3, 3, 0, 0)."""
    rng = np.random.default_rng(0)
    target = tmp_path_factory.mktemp("cohort")
    for part in ("features", "labels"):
        (target / part).mkdir()
    for at in range(30):
        values = rng.normal(size=(rng.integers(4, 12), 4)).astype("float32")
        if at % 2:
            values[:2] += np.array([3.0, 3.0, 0.0, 0.0], dtype="float32")
        np.save(target / "features" / f"bag{at:02d}.npy", values)
        np.save(target / "labels" / f"bag{at:02d}.npy", np.array(at % 2))
    return target


@pytest.fixture
def lazy(folder, monkeypatch):
    """Return lazy bags that are cut into many small blocks."""
    monkeypatch.setattr("pigmil.bags._lazy.LazyBags.partitions", _small_partitions)
    return scan_bags(folder)


def _small_partitions(bags, max_bytes=None):
    starts = range(0, len(bags), 4)
    return [bags._take(np.arange(start, min(start + 4, len(bags)))) for start in starts]


@pytest.fixture(scope="session")
def cluster():
    """Return a cluster of two processes, each of which a nanny starts anew if it dies."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as running:
        yield running


@pytest.fixture
def client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as connected:
        yield connected
