"""Suggestions of instances to look at: by hand, and over rounds of marks."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from pigmil import Bags, SoftPIGMIL, suggest_instances
from pigmil.datasets import make_ring


class FirstFeature(BaseEstimator):
    """A fitted method whose score is the first feature."""

    def fit(self, bags, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function_instances(self, bags):
        values = bags.instances[:, [0]]
        return np.asarray(values.toarray() if sp.issparse(values) else values).ravel()


@pytest.fixture
def bags():
    """Two positive bags on a line, and a negative one."""
    values = [[5.0, 4.9, 0.0], [4.8, 3.0], [9.0, 9.0]]
    return Bags.from_list([np.array(part)[:, None] for part in values], y=[1, 1, 0])


def test_rule_by_hand(bags):
    # Of 5, 4.9, 0 and 4.8, 3 the ranks are 1, 0.8, 0.2 and 0.6, 0.4. Pairs of opposite places by
    # score are 5, 1.9 and 0 apart, each but the last twice: the typical distance is 1.9.
    # After 5 (bag 0) the values are 0.8 * (0.1 / 1.9) / 2, 0.2 / 2, 0.6 * 0.2 / 1.9, 0.4 * 1: 3 is
    # next. Then 4.9: 0.8 * 0.1 / 1.9 / 2 = 0.021, 0: 0.1, 4.8: 0.6 * 0.2 / 1.9 / 2 = 0.032.
    assert suggest_instances(FirstFeature(), bags, n=3).tolist() == [0, 4, 2]
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    assert suggest_instances(FirstFeature(), sparse, n=3).tolist() == [0, 4, 2]
    unlabelled = Bags.from_list(list(bags))
    assert suggest_instances(FirstFeature(), unlabelled, n=1).tolist() == [5]


def test_marked_instances_are_not_suggested_and_count_as_known(bags):
    marked = bags.with_marks({"bag": [0, 1], "instance": [0, 1], "positive": ["yes", "no"]})
    assert suggest_instances(FirstFeature(), marked, n=9).tolist()[0] == 2
    assert sorted(suggest_instances(FirstFeature(), marked, n=9)) == [1, 2, 3]
    everything = np.where(bags.y[bags.bag_index] == 1, 1.0, np.nan)
    assert len(suggest_instances(FirstFeature(), bags.with_marks(everything), n=3)) == 0
    with pytest.raises(ValueError, match="n must be 1 or more; got 0"):
        suggest_instances(FirstFeature(), bags, n=0)


def test_rounds_of_marks_reach_every_positive_bag():
    bags = make_ring(random_state=0)
    marks = np.full(bags.n_instances, np.nan)
    marked = bags
    for _ in range(2):
        rows = suggest_instances(SoftPIGMIL().fit(marked), marked, n=10)
        assert np.isnan(marks[rows]).all()
        marks[rows] = bags.instance_labels[rows] == 1
        marked = bags.with_marks(marks)
    assert len(np.unique(bags.bag_index[~np.isnan(marks)])) == 20
