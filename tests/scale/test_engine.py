"""The engine: the same result in threads, with joblib and on a cluster."""

import functools
import operator
import os
import signal

import joblib
import numpy as np
import pytest
from sklearn.decomposition import PCA, IncrementalPCA

from pigmil import BagScaler, OnInstances, all_estimators, scan_bags
from pigmil._core import __version__
from pigmil._core.errors import BagFormatError
from pigmil.estimators import get_estimator
from pigmil.scale import (
    ClusterError,
    LazyBags,
    _engine,
    column_moments,
    hold_blocks,
    map_blocks,
    map_calls,
    map_reduce,
    predict_to_parquet,
    take_rows,
)
from pigmil.scale._engine import check_cluster

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def block_sum(block):
    return float(block.instances.sum(dtype=np.float64))


def ids_of(block, more):
    return [*block.ids.tolist(), more]


def test_blocks_come_in_order_with_their_arguments(lazy):
    parts = lazy.partitions()
    results = list(map_blocks(ids_of, lazy, range(len(parts))))
    expected = [[*part.ids.tolist(), at] for at, part in enumerate(parts)]
    assert len(parts) == 8
    assert results == expected


def test_reduction_pairs_neighbours_in_order(lazy):
    joined = map_reduce(lazy, lambda block: str(block.ids[0])[3:], lambda a, b: f"({a} {b})")
    assert joined == "(((00 04) (08 12)) ((16 20) (24 28)))"
    three = map_reduce(lazy[:12], lambda block: str(block.ids[0])[3:], lambda a, b: f"({a} {b})")
    assert three == "((00 04) 08)"
    with pytest.raises(ValueError, match="There are no bags"):
        map_reduce(lazy[[]], block_sum, operator.add)


def test_moments_equal_those_of_all_instances(lazy):
    rows = lazy.load().instances.astype(np.float64)
    mean, variance = column_moments(lazy)
    np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(variance, rows.var(axis=0), rtol=1e-12)


def test_chosen_rows_are_those_of_all_instances(lazy):
    rows = lazy.load().instances
    chosen = np.array([0, 1, 5, 77, 78, len(rows) - 1])
    assert np.array_equal(take_rows(lazy, chosen), rows[chosen])
    assert np.array_equal(take_rows(lazy.load(), chosen), rows[chosen])


def test_engines_agree_to_the_last_bit(lazy, cluster):
    distributed = pytest.importorskip("distributed")
    here = map_reduce(lazy, block_sum, operator.add)
    with joblib.parallel_config("threading", n_jobs=3):
        assert map_reduce(lazy, block_sum, operator.add) == here
    with distributed.Client(cluster):
        assert map_reduce(lazy, block_sum, operator.add) == here
    assert here == pytest.approx(lazy.load().instances.sum(dtype=np.float64), rel=1e-12)


def worker_of(block):
    from distributed import get_worker

    return get_worker().address


def test_work_is_done_on_the_cluster_of_the_active_client(lazy, client):
    assert len(set(map_blocks(worker_of, lazy))) == 2


def kill_once(block, marker):
    """End the worker process in the first call of all."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block_sum(block)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_changes_nothing(lazy, client, tmp_path):
    expected = list(map_blocks(block_sum, lazy))
    held = hold_blocks(lazy)
    assert list(map_blocks(block_sum, held)) == expected
    marker = str(tmp_path / "killed")
    assert list(map_blocks(kill_once, held, [marker] * len(expected))) == expected
    assert os.path.exists(marker)
    client.wait_for_workers(2, timeout=30)


def test_calls_are_made_on_the_cluster_in_order(client):
    assert list(map_calls(divmod, [(7, 2), (9, 4)])) == [(3, 1), (2, 1)]
    assert len(set(map_calls(worker_of, [(at,) for at in range(20)]))) == 2


def worker_with(load, at):
    return worker_of(load)


def test_few_calls_of_a_large_function_are_dealt_to_all_workers(client):
    """The worker that is sent the function first does not keep all calls."""
    client.wait_for_workers(2, timeout=60)
    function = functools.partial(worker_with, np.zeros(5_000_000))
    for _ in range(3):
        assert len(set(map_calls(function, [(at,) for at in range(3)]))) == 2


@pytest.mark.filterwarnings("ignore")
def test_a_lost_scheduler_is_an_error_that_says_what_to_do(lazy):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as running,
        distributed.Client(running),
    ):
        results = map_blocks(block_sum, lazy)
        next(results)
        running.close()
        with pytest.raises(ClusterError, match=r"was lost after .* A fit starts again"):
            list(results)


def test_an_error_on_a_worker_names_the_file(folder, client, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    gone = scan_bags(tmp_path / "a.npy")
    (tmp_path / "a.npy").unlink()
    with pytest.raises(BagFormatError, match=r"a.npy: cannot be opened on host .* Every worker"):
        map_reduce(gone, block_sum, operator.add)


def test_clusters_without_workers_are_refused():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as empty,
        distributed.Client(empty) as client,
        pytest.raises(ClusterError, match="no workers; start some with: dask worker"),
    ):
        check_cluster(client)


class FakeClient:
    """A client whose workers report given versions."""

    def __init__(self, versions):
        self.versions, self.id = versions, str(versions)

    def nthreads(self):
        return dict.fromkeys(self.versions, 1)

    def run(self, function):
        assert function() == __version__  # what a healthy worker would answer
        return self.versions


@pytest.mark.parametrize("version", [None, "0.0.9"])
def test_workers_with_another_pigmil_are_refused(version):
    message = f"1 of 2 workers do not have this version of pigmil: tcp://b has {version or 'none'}"
    with pytest.raises(ClusterError, match=message):
        check_cluster(FakeClient({"tcp://a": __version__, "tcp://b": version}))


def test_tasks_hold_paths_and_never_values(folder, tmp_path, monkeypatch):
    """A whole fit sends and receives some vectors per bag, and no block."""
    import cloudpickle

    rng = np.random.default_rng(0)
    for at in range(8):
        values = rng.normal(size=(5_000, 16))
        values[:50] += 3.0 * (at % 2)
        np.save(tmp_path / f"b{at}.npy", values)
    lazy = scan_bags(tmp_path, labels={f"b{at}": at % 2 for at in range(8)})
    sent = []

    def record(function, tasks):
        sent.extend(len(cloudpickle.dumps(task)) for task in tasks)
        return here(function, tasks)

    here = _engine._map_here
    monkeypatch.setattr(_engine, "_map_here", record)
    cut = LazyBags.partitions
    monkeypatch.setattr(LazyBags, "partitions", lambda bags: cut(bags, 1 << 20))  # 1 bag each
    monkeypatch.setattr("pigmil.scale._engine.available_memory", lambda: 1)  # nothing is held
    get_estimator("SoftPIGMIL")(max_instances=200, random_state=0).fit(lazy)
    assert len(sent) >= 60
    assert max(sent) < 10_000 < lazy[:1].nbytes / 50


def test_scaler_and_partial_transformers_fit_block_by_block(lazy):
    bags = lazy.load()
    scaler, expected = BagScaler().fit(lazy), BagScaler().fit(bags)
    np.testing.assert_allclose(scaler.transformer_.mean_, expected.transformer_.mean_, rtol=1e-6)
    np.testing.assert_allclose(scaler.transformer_.scale_, expected.transformer_.scale_, rtol=1e-6)
    scaled = scaler.transform(lazy)
    np.testing.assert_allclose(
        scaled.load().instances, expected.transform(bags).instances, rtol=1e-5, atol=1e-6
    )
    reduced = OnInstances(IncrementalPCA(2)).fit_transform(scaled)
    assert reduced.n_features == 2
    assert reduced[3:5].load().n_features == 2
    with pytest.raises(TypeError, match="PCA has no partial_fit, which fitting on bags on disk"):
        OnInstances(PCA(2)).fit(lazy)


@pytest.mark.parametrize("card", all_estimators(), ids=lambda card: card.name)
def test_every_method_predicts_on_lazy_bags(card, lazy, tmp_path):
    """Scores and labels are those of the bags in memory, also in files written in two calls."""
    bags = lazy.load()
    model = get_estimator(card.name)()
    if "random_state" in model.get_params():
        model.set_params(random_state=0)
    model.fit(bags)
    if card.detects:
        np.testing.assert_allclose(
            model.decision_function_instances(lazy),
            model.decision_function_instances(bags),
            rtol=1e-5,
            atol=1e-6,
        )
    if card.classifies:
        scores = model.decision_function(bags)
        np.testing.assert_allclose(model.decision_function(lazy), scores, rtol=1e-5, atol=1e-6)
        clear = np.abs(scores) > 1e-5
        assert np.array_equal(model.predict(lazy)[clear], model.predict(bags)[clear])
    files = predict_to_parquet(model, lazy, tmp_path / "scores")
    files[3].unlink()
    kept = files[0].stat().st_mtime_ns
    assert predict_to_parquet(model, lazy, tmp_path / "scores") == files
    assert files[0].stat().st_mtime_ns == kept
    table = pd.concat([pd.read_parquet(file) for file in files], ignore_index=True)
    if card.detects:
        assert len(table) == bags.n_instances
        expected = model.decision_function_instances(bags)
        np.testing.assert_allclose(table["score"], expected, rtol=1e-5, atol=1e-6)
        table = table.groupby("bag", sort=False).first().reset_index()
    assert table["bag"].tolist() == bags.ids.tolist()
    if card.classifies:
        np.testing.assert_allclose(table["bag_score"], scores, rtol=1e-5, atol=1e-6)
        assert np.array_equal(table["predicted"][clear], model.predict(bags)[clear])


def test_a_method_that_needs_memory_says_what_to_do(lazy):
    with pytest.raises(TypeError, match=r"MILES fits on instances in memory only. Call .load\(\)"):
        get_estimator("MILES")().fit(lazy)
