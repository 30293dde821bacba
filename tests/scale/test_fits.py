"""Fits on bags on disk: the same model as in memory, on every engine."""

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from pigmil import MMIL, PIGMIL, BagScaler, MaxPoolingLR, SoftPIGMIL
from pigmil.estimators import get_estimator
from pigmil.scale import hold_blocks

MODELS = {
    "SoftPIGMIL": SoftPIGMIL(random_state=0, n_landmarks=20),
    "SoftPIGMIL of a sample": SoftPIGMIL(random_state=0, n_landmarks=20, max_instances=120),
    "MaxPoolingLR": MaxPoolingLR(tol=1e-8),
    "MMIL": MMIL(),
    "KDE": get_estimator("KDE")(),
    "KDE by median": get_estimator("KDE")(length_unit="median"),
    "KDEMin": get_estimator("KDEMin")(),
    "KDEMax": get_estimator("KDEMax")(),
    "PIGMIL": PIGMIL(random_state=0),
}


def assert_same_model(model, expected, bags, *, tolerance):
    np.testing.assert_allclose(
        model.instance_scores_, expected.instance_scores_, rtol=tolerance, atol=tolerance
    )
    assert np.array_equal(model.detected_instances_, expected.detected_instances_)
    np.testing.assert_allclose(
        model.decision_function_instances(bags),
        expected.decision_function_instances(bags),
        rtol=tolerance,
        atol=tolerance,
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_on_disk_is_that_in_memory(name, lazy):
    bags = lazy.load()
    expected = clone(MODELS[name]).fit(bags)
    model = clone(MODELS[name]).fit(lazy)
    assert_same_model(model, expected, bags, tolerance=1e-5)


@pytest.mark.parametrize("n_bags", [1, 7, 30])
def test_the_size_of_blocks_does_not_change_soft_pigmil(n_bags, lazy, monkeypatch):
    def partitions(bags, max_bytes=None):
        starts = range(0, len(bags), n_bags)
        return [bags._take(np.arange(at, min(at + n_bags, len(bags)))) for at in starts]

    def fit():
        return SoftPIGMIL(random_state=0, n_landmarks=20, max_instances=120).fit(lazy)

    expected = fit()
    monkeypatch.setattr("pigmil.bags._lazy.LazyBags.partitions", partitions)
    # Single precision: the last digits of a matrix product depend on the shape of a block.
    assert_same_model(fit(), expected, lazy, tolerance=1e-5)


ON_ENGINES = ["SoftPIGMIL of a sample", "MaxPoolingLR", "KDE", "KDEMin", "KDEMax"]


@pytest.fixture(scope="module")
def one_worker():
    """Return a cluster of one worker, a thread of this process."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as running:
        yield running


@pytest.mark.parametrize("name", ON_ENGINES)
def test_a_fit_is_the_same_on_every_engine(name, lazy, cluster, one_worker):
    """Behind a scaler, which fits block by block in this process."""
    distributed = pytest.importorskip("distributed")

    def fit():
        return make_pipeline(BagScaler(), clone(MODELS[name])).fit(lazy)

    with joblib.parallel_config("threading", n_jobs=1):
        expected = fit()
    found = []
    with joblib.parallel_config("threading", n_jobs=3):
        found.append(fit())
    for running in (one_worker, cluster):
        with distributed.Client(running):
            found.append(fit())
    scaled = expected[0].transform(lazy)
    for model in found:
        for part in ("mean_", "scale_"):
            known = getattr(expected[0].transformer_, part)
            np.testing.assert_allclose(getattr(model[0].transformer_, part), known, rtol=1e-12)
        assert_same_model(model[-1], expected[-1], scaled, tolerance=1e-6)


def test_holding_blocks_in_memory_changes_nothing(lazy, monkeypatch):
    model = MODELS["MaxPoolingLR"]
    held = clone(model).fit(lazy)
    assert isinstance(hold_blocks(lazy), list)
    monkeypatch.setattr("pigmil.scale._engine.available_memory", lambda: 4 * lazy.nbytes - 1)
    assert hold_blocks(lazy) is lazy
    assert np.array_equal(clone(model).fit(lazy).instance_scores_, held.instance_scores_)


def test_pigmil_works_with_some_instances_of_each_bag_on_disk(lazy, cluster, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("pigmil.estimators._pigmil_data._MOST_IN_MEMORY", 180)
    monkeypatch.setattr("pigmil.estimators._pigmil_data._LEAST_PER_BAG", 4)
    model = PIGMIL(random_state=0).fit(lazy)
    positive = np.flatnonzero(lazy.y == 1)
    place = model.detected_instances_ - lazy.offsets[lazy.bag_index[model.detected_instances_]]
    assert (place < 2).mean() >= 0.9  # the first two instances of a positive bag are positive
    assert set(lazy.bag_index[model.pool_]) <= set(positive)
    assert model.instance_scores_.shape == (lazy.n_instances,)
    assert model.negative_bags_.n_instances < lazy[lazy.y == 0].n_instances
    unseen = model.decision_function_instances(lazy)
    assert np.corrcoef(unseen, model.instance_scores_)[0, 1] > 0.9
    with distributed.Client(cluster):
        again = PIGMIL(random_state=0).fit(lazy)
    assert_same_model(again, model, lazy, tolerance=1e-6)


def test_probabilities_are_calibrated_on_disk_too(lazy):
    bags = lazy.load()
    expected = MaxPoolingLR(probability=True, tol=1e-8).fit(bags)
    model = MaxPoolingLR(probability=True, tol=1e-8).fit(lazy)
    np.testing.assert_allclose(
        model.predict_proba(lazy), expected.predict_proba(bags), rtol=1e-4, atol=1e-6
    )
