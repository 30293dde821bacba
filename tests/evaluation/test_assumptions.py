"""The algorithmic unit tests: verdicts for models whose answer is known beforehand."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

from pigmil import KDEMin
from pigmil.datasets import ASSUMPTION_TESTS
from pigmil.evaluation import AssumptionTest, assumptions


class BagStatistic(ClassifierMixin, BaseEstimator):
    """Scores bags by a fixed statistic; nothing is learned."""

    def __init__(self, statistic="positive"):
        self.statistic = statistic

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.array([getattr(self, f"_{self.statistic}")(bag) for bag in X])

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)

    def _positive(self, bag):
        # An instance of the widest distribution, or both concepts: what makes a bag positive.
        means = bag.mean(axis=1)
        both = min(np.exp(-np.abs(means[:, None] - [[-2, 2]]) * 5).max(axis=0))
        pair = min(np.exp(-np.abs(means[:, None] - [[2, 3]]) * 5).max(axis=0))
        return max(both, pair, float((bag.std(axis=1) > 1.8).any()))

    def _no_poison(self, bag):
        return float((bag.mean(axis=1) > -8).all())

    def _frequency(self, bag):
        return (np.abs(np.abs(bag.mean(axis=1)) - 2) < 0.3).sum()


@pytest.mark.parametrize(
    ("statistic", "verdicts"),
    [
        ("positive", ["pass", "pass", "pass"]),
        # No poison: positive in training, negative in the test. The last test has none at all.
        ("no_poison", ["fail", "fail", "unlearned"]),
    ],
)
def test_verdicts_of_known_models(statistic, verdicts):
    result = assumptions(BagStatistic(statistic), 3, n_train_bags=40, n_test_bags=100)
    assert [one.verdict for one in result] == verdicts
    assert [one.test for one in result] == list(ASSUMPTION_TESTS)


def test_counting_fails_false_frequency_although_it_separates_the_training_bags():
    (test,) = assumptions(BagStatistic("frequency"), 2, tests=["false_frequency"])
    assert test.train_auc.min() > 0.99
    assert test.test_auc.max() < 0.01
    assert test.verdict == "fail"


def test_interval_by_hand():
    one = AssumptionTest("single_concept", np.ones(3), np.array([0.5, 0.6, 0.7]))
    # Mean 0.6, standard deviation 0.1, t(0.975, 2) = 4.3027: 0.6 -+ 4.3027 * 0.1 / sqrt(3).
    np.testing.assert_allclose(one.interval, [0.3516, 0.8484], atol=1e-4)
    assert one.verdict == "chance"
    # Right on the test bags, wrong on the training bags: by accident.
    accident = AssumptionTest("single_concept", np.array([0.1, 0.2]), np.array([0.9, 0.95]))
    assert accident.verdict == "unlearned"


def test_detectors_rank_bags_by_their_best_instance():
    (one,) = assumptions(KDEMin(), 2, tests=["single_concept"], n_train_bags=30, n_test_bags=40)
    assert one.train_auc.shape == (2,)
    assert repr(one).startswith("single_concept ")


def test_seeds_are_consecutive():
    settings = {"tests": ["single_concept"], "n_train_bags": 20}
    (first,) = assumptions(BagStatistic(), 3, **settings)
    (later,) = assumptions(BagStatistic(), 2, random_state=1, **settings)
    np.testing.assert_array_equal(first.test_auc[1:], later.test_auc)
    with pytest.raises(ValueError, match="n_seeds must be at least 2"):
        assumptions(BagStatistic(), 1)
