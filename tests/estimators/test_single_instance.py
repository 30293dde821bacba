"""Single instance: perturbed bags against loops, and classifiers of every kind."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline

from pigmil import Bags, BagScaler, CitationKNN, MiGraph, MIKernel, MInD, SingleInstance
from pigmil.estimators import single_instance
from pigmil.estimators.base import decision_values


def planted_bags(seed=0, n_bags=20):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 6)), 2)) for _ in range(n_bags)]
    labels = [np.zeros(len(part), dtype=int) for part in parts]
    for part, truth in zip(parts[::2], labels[::2], strict=True):
        part[-1] += 6
        truth[-1] = 1
    return Bags.from_list(parts, y=(np.arange(n_bags) + 1) % 2, instance_labels=labels)


class SumClassifier(ClassifierMixin, BaseEstimator):
    """A bag is positive if its values sum to more than 10; nothing to learn."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.array([bag.sum() - 10 for bag in X])

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


class PredictOnly(SumClassifier):
    decision_function = property(doc="not there")

    def predict(self, X):
        return np.array([int(bag.sum() > 10) for bag in X])


class WithProbabilities(PredictOnly):
    def predict_proba(self, X):
        share = np.array([0.9 if bag.sum() > 10 else 0.0 for bag in X])
        return np.column_stack([1 - share, share])


BY_HAND = Bags.from_list(
    [[[1.0], [11.0]], [[12.0], [7.0], [-4.0]], [[1.0], [2.0]], [[3.0]]], y=[1, 1, 0, 0]
)


def test_keep_only_by_hand():
    model = SingleInstance(SumClassifier()).fit(BY_HAND)
    # Alone: -9, 1 | 2, -3, -14 | -9, -8 | -7. The bags sum to 12, 15, 3, 3: the first two are
    # positive. Best values 1, 2 against -8, -7 are separated half-way, at -3.
    assert model.threshold_ == -3.0
    expected = np.array([-9, 1, 2, -3, -14, -9, -8, -7]) + 3.0
    np.testing.assert_allclose(model.instance_scores_, expected)
    np.testing.assert_array_equal(model.detected_instances_, [1, 2])
    np.testing.assert_array_equal(model.predict(BY_HAND), [1, 1, 0, 0])


def test_leave_out_by_hand():
    model = SingleInstance(SumClassifier(), mode="leave_out").fit(BY_HAND)
    # The sum drops by the value itself; 3.0 is alone and keeps the value of its bag, 3 - 10.
    # Best values 11, 12 against 2, -7 are separated half-way, at 6.5.
    expected = np.array([1, 11, 12, 7, -4, 1, 2, -7]) - 6.5
    np.testing.assert_allclose(model.instance_scores_, expected)
    np.testing.assert_array_equal(model.detected_instances_, [1, 2])


@pytest.mark.parametrize("mode", ["keep_only", "leave_out"])
@pytest.mark.parametrize(
    "estimator",
    [
        CitationKNN(rank=None),
        MIKernel(),
        MiGraph(),
        MInD(),
        make_pipeline(BagScaler(), MInD()),
        SumClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_classifiers_of_bags_detect_the_planted_instances(estimator, mode):
    bags = planted_bags()
    model = SingleInstance(estimator, mode=mode).fit(bags)
    assert bags.instance_labels[model.detected_instances_].mean() >= 0.9
    new = planted_bags(seed=1)
    # Each score is a decision value of one perturbed bag, asked for by itself.
    values = []
    for bag in new:
        for position in range(len(bag)):
            whole = decision_values(model.estimator_, Bags.from_list([bag]))[0]
            alone = decision_values(model.estimator_, Bags.from_list([bag[[position]]]))[0]
            others = np.delete(bag, position, axis=0)
            if mode == "keep_only" or len(others) == 0:
                values.append(alone)
            else:
                values.append(
                    whole - decision_values(model.estimator_, Bags.from_list([others]))[0]
                )
    scores = model.decision_function_instances(new)
    np.testing.assert_allclose(scores, np.array(values) - model.threshold_, atol=1e-8)
    np.testing.assert_array_equal(
        model.decision_function(new), model.estimator_.decision_function(new)
    )


@pytest.mark.parametrize("mode", ["keep_only", "leave_out"])
def test_blocks_give_the_same_scores_in_calls_of_bounded_size(mode, monkeypatch):
    bags = planted_bags()
    model = SingleInstance(MInD(), mode=mode).fit(bags)
    expected = model.decision_function_instances(bags)
    asked = []
    score_bags = SingleInstance._score_bags
    monkeypatch.setattr(
        SingleInstance,
        "_score_bags",
        lambda self, part: asked.append(part) or score_bags(self, part),
    )
    monkeypatch.setattr(single_instance, "_BLOCK_ELEMENTS", 2 * 7)
    np.testing.assert_allclose(model.decision_function_instances(bags), expected, atol=1e-10)
    perturbed = [part.n_instances for part in asked[mode == "leave_out" :]]
    assert max(perturbed) <= 7
    assert len(perturbed) > 5


def test_probabilities_and_plain_predictions_are_scores_too():
    model = SingleInstance(WithProbabilities()).fit(BY_HAND)
    assert model.decision_function(BY_HAND)[0] == pytest.approx(np.log(9))
    assert np.isfinite(model.decision_function(BY_HAND)).all()
    model = SingleInstance(PredictOnly()).fit(BY_HAND)
    np.testing.assert_array_equal(model.decision_function(BY_HAND), [1, 1, -1, -1])
    np.testing.assert_array_equal(model.instance_scores_, [-1, 1, 1, -1, -1, -1, -1, -1])
