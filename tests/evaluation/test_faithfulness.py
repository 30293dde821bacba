"""Faithfulness curves against a worked example and a loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import make_pipeline

from pigmil import MILD, Bags, BagScaler
from pigmil.datasets import make_ring
from pigmil.evaluation import faithfulness


class SumClassifier(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.array([bag.sum() for bag in X])

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


BAGS = Bags.from_list([[[1.0], [5.0], [2.0]], [[-4.0], [3.0]], [[4.0]]], y=[1, 0, 1])
SUMS = SumClassifier().fit(BAGS, BAGS.y)


def test_curves_and_areas_by_hand():
    # The second bag sums to -1 and takes no part. Of the first, with one step, 5 and 2 go first
    # or 1 and 2; the third has one instance, which stays.
    curves = faithfulness(SUMS, BAGS, BAGS.instances.ravel(), n_steps=1, n_random=2, random_state=0)
    assert curves.n_bags == 2
    np.testing.assert_allclose(curves.removed, [0, 1])
    np.testing.assert_allclose(curves.most_first, [(8 + 4) / 2, (1 + 4) / 2])
    np.testing.assert_allclose(curves.least_first, [(8 + 4) / 2, (5 + 4) / 2])
    assert set(curves.random[:, 1]) <= {(left + 4) / 2 for left in (1, 2, 5)}
    areas = curves.areas()
    assert areas["most_first"] == pytest.approx(3.5 / 2)
    assert areas["least_first"] == pytest.approx(1.5 / 2)
    assert areas["symmetric_gain"] == pytest.approx(1.0)
    assert areas["gain"] == pytest.approx(areas["most_first"] - areas["random"])
    # Scores upside down exchange the curves.
    upside_down = faithfulness(SUMS, BAGS, -BAGS.instances.ravel(), n_steps=1)
    assert upside_down.areas()["symmetric_gain"] == pytest.approx(-1.0)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_curves_equal_a_loop(seed, n_steps):
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(0.1, 2, size=(int(rng.integers(1, 7)), 2)) for _ in range(4)]
    scores = [rng.permutation(len(part)).astype(float) for part in parts]
    bags = Bags.from_list(parts, y=[0, 1, 0, 1])
    curves = faithfulness(SUMS, bags, np.concatenate(scores), n_steps=n_steps)
    for values, sign in ((curves.most_first, 1), (curves.least_first, -1)):
        for step in range(n_steps + 1):
            sums = []
            for part, score in zip(parts, scores, strict=True):
                ranked = sorted(range(len(part)), key=lambda i, s=score: -sign * s[i])
                count = int((step / n_steps) * (len(part) - 1) + 0.5)
                sums.append(sum(part[i].sum() for i in ranked[count:]))
            assert values[step] == pytest.approx(np.mean(sums))


def test_scores_of_the_estimator_itself_and_of_another_label():
    bags = make_ring(random_state=0)
    model = make_pipeline(BagScaler(), MILD()).fit(bags, bags.y)
    curves = faithfulness(model, bags, random_state=0)
    assert curves.areas()["gain"] > 0
    # With pos_label the sign of decision_function turns over, the curves do not.
    words = np.where(bags.y == 1, "active", "inert")
    turned = make_pipeline(BagScaler(), MILD(pos_label="active")).fit(bags, words)
    again = faithfulness(turned, bags, random_state=0)
    np.testing.assert_allclose(again.most_first, curves.most_first, atol=1e-8)
    np.testing.assert_array_equal(
        faithfulness(model, bags, random_state=3).random,
        faithfulness(model, bags, random_state=3).random,
    )


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match=r"shape \(2,\); expected one per instance, \(6,\)"):
        faithfulness(SUMS, BAGS, [1.0, 2.0])
    with pytest.raises(ValueError, match="n_steps and n_random must be 1 or more; got 0 and 5"):
        faithfulness(SUMS, BAGS, np.zeros(6), n_steps=0)
    with pytest.raises(ValueError, match="none of the bags positive"):
        faithfulness(SUMS, BAGS[1:2], np.zeros(2))

    class OnlyLabels(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def predict(self, X):
            return np.ones(len(X), dtype=int)

    with pytest.raises(TypeError, match="neither decision_function nor predict_proba"):
        faithfulness(OnlyLabels(), BAGS, np.zeros(6))
