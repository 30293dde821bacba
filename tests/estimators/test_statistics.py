"""Statistics of bags, and the plain classifiers on them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pigmil import Bags, BagStatistics, StatisticsBoosting, StatisticsSVC
from pigmil._core.errors import BagsError

BAGS = Bags.from_list([[[0.0, 1.0], [2.0, 5.0]], [[4.0, -1.0]]], y=[0, 1])


def test_statistics_by_hand():
    table = BagStatistics(("max", "mean", "min", "std")).fit_transform(BAGS)
    assert table.tolist() == [[2, 5, 1, 3, 0, 1, 1, 2], [4, -1, 4, -1, 4, -1, 0, 0]]
    sparse = BAGS.with_instances(sp.csr_array(BAGS.instances))
    assert np.array_equal(BagStatistics(("max", "mean", "min", "std")).fit_transform(sparse), table)
    names = BagStatistics(("max", "min")).fit(BAGS).get_feature_names_out()
    assert names.tolist() == ["max f0", "max f1", "min f0", "min f1"]


def test_wrong_statistics_and_features_are_refused():
    with pytest.raises(ValueError, match="mean, min, max, std; got"):
        BagStatistics(("median",)).fit(BAGS)
    with pytest.raises(BagsError, match="Fitted on 2 features; these bags have 1"):
        BagStatistics().fit(BAGS).transform([np.zeros((1, 1))])


@pytest.mark.parametrize(
    ("method", "plain"),
    [
        (StatisticsSVC(C=3.0), SVC(C=3.0)),
        (
            StatisticsBoosting(n_trees=5, random_state=0),
            GradientBoostingClassifier(n_estimators=5, max_features="sqrt", random_state=0),
        ),
    ],
)
def test_methods_are_scikit_learn_on_a_table(method, plain):
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(size, 3)) for size in (2, 3, 4, 5) * 5])
    y = np.tile([0, 1], 10)
    table = [[*bag.mean(axis=0), *bag.min(axis=0), *bag.max(axis=0)] for bag in bags]
    expected = make_pipeline(StandardScaler(), plain).fit(table, y).decision_function(table)
    found = method.fit(bags, y).decision_function(bags)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # of libsvm
