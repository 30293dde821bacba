"""Fits on bags on disk: the same model as in memory, on every engine."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from pigmil import SIL, BagScaler, MaxPoolingLR, SoftPIGMIL
from pigmil.estimators import get_estimator

MODELS = {
    "SoftPIGMIL": SoftPIGMIL(random_state=0, n_landmarks=20),
    "SoftPIGMIL of a sample": SoftPIGMIL(random_state=0, n_landmarks=20, max_instances=120),
    "SoftPIGMIL by embedding": SoftPIGMIL(random_state=0, n_landmarks=20, bag_rule="embedding"),
    "MaxPoolingLR": MaxPoolingLR(tol=1e-8),
    "SIL": SIL(LogisticRegression(tol=1e-9, max_iter=1000)),
    "KDEMin": get_estimator("KDEMin")(),
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
    from sklearn.base import clone

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
    monkeypatch.setattr("pigmil.scale._lazy.LazyBags.partitions", partitions)
    # Single precision: the last digits of a matrix product depend on the shape of a block.
    assert_same_model(fit(), expected, lazy, tolerance=1e-5)


@pytest.mark.parametrize("name", ["SoftPIGMIL of a sample", "MaxPoolingLR"])
def test_a_fit_on_a_cluster_is_that_in_this_process(name, lazy, cluster):
    from sklearn.base import clone

    distributed = pytest.importorskip("distributed")
    expected = clone(MODELS[name]).fit(lazy)
    with distributed.Client(cluster):
        model = clone(MODELS[name]).fit(lazy)
    assert_same_model(model, expected, lazy, tolerance=1e-6)


def test_cross_validation_of_a_pipeline_works_by_index(lazy):
    model = make_pipeline(BagScaler(), MaxPoolingLR())
    scores = cross_val_score(model, lazy, lazy.y, cv=2, error_score="raise")
    np.testing.assert_allclose(scores, cross_val_score(model, lazy.load(), lazy.y, cv=2))


def test_probabilities_are_calibrated_on_disk_too(lazy):
    bags = lazy.load()
    expected = MaxPoolingLR(probability=True, tol=1e-8).fit(bags)
    model = MaxPoolingLR(probability=True, tol=1e-8).fit(lazy)
    np.testing.assert_allclose(
        model.predict_proba(lazy), expected.predict_proba(bags), rtol=1e-4, atol=1e-6
    )


def test_other_classifiers_of_instances_need_memory(lazy):
    for classifier in (RandomForestClassifier(), LogisticRegression(class_weight="balanced")):
        with pytest.raises(TypeError, match="on bags on disk it takes LogisticRegression with C"):
            SIL(classifier).fit(lazy)
