"""Instance transformers on bags, and scikit-learn's own checks on the wrappers."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pigmil import Bags, BagScaler, OnInstances
from pigmil._core.errors import BagsError


@parametrize_with_checks([OnInstances(StandardScaler()), OnInstances(MaxAbsScaler()), BagScaler()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def bags():
    return Bags.from_list(
        [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]], y=[0, 1], ids=["a", "b"], feature_names=["p", "q"]
    )


def test_scaling_by_hand(bags):
    # both features: mean 2 and 3, variance 8/3
    z = 2 / np.sqrt(8 / 3)
    for scaler in (BagScaler(), OnInstances(StandardScaler())):
        scaled = scaler.fit_transform(bags)
        np.testing.assert_allclose(scaled.instances, [[-z, -z], [0, 0], [z, z]])
        assert scaled.ids.tolist() == ["a", "b"]
        assert scaled.y.tolist() == [0, 1]
        assert scaled.feature_names == ("p", "q")
        assert scaled.sizes.tolist() == [2, 1]


def test_parts_of_the_scaling_can_be_left_out(bags):
    assert BagScaler(with_std=False).fit_transform(bags).instances[0].tolist() == [-2.0, -2.0]
    scaled = BagScaler(with_mean=False).fit_transform(bags)
    np.testing.assert_allclose(scaled.instances[1], np.array([2, 3]) / np.sqrt(8 / 3))


def test_labels_reach_the_transformer_once_an_instance():
    bags = Bags.from_list([[[0.0, 5.0], [1.0, 5.1]], [[0.0, 9.0], [1.0, 9.1]]], y=["n", "p"])
    for given in (None, ["n", "p"]):
        chosen = OnInstances(SelectKBest(k=1)).fit(bags, given).transform(bags)
        assert chosen.instances.ravel().tolist() == [5.0, 5.1, 9.0, 9.1]


def test_names_follow_the_transformer(bags):
    assert OnInstances(PCA(1)).fit_transform(bags).feature_names == ("pca0",)
    nameless = OnInstances(FunctionTransformer(np.abs)).fit_transform(bags)
    assert nameless.feature_names is None
    assert OnInstances(PCA(1)).fit(bags).get_feature_names_out().tolist() == ["pca0"]


def test_everything_that_holds_bags(bags):
    scaler = BagScaler().fit(bags)
    expected = scaler.transform(bags)
    lists = scaler.transform([bag.tolist() for bag in bags])
    assert isinstance(lists, Bags)
    np.testing.assert_array_equal(lists.instances, expected.instances)
    assert isinstance(scaler.transform(np.ones((2, 3, 2))), Bags)
    small = bags.with_instances(bags.instances.astype(np.float32))
    assert scaler.transform(small).dtype == np.float32
    long = pd.DataFrame({"bag": ["a", "a", "b"], "p": [0, 2, 4], "q": [1, 3, 5]})
    np.testing.assert_array_equal(scaler.transform(long).instances, expected.instances)


def test_names_of_an_earlier_table_are_forgotten(bags):
    scaler = BagScaler().fit(pd.DataFrame({"p": [1.0, 2.0], "q": [1.0, 3.0]}))
    assert scaler.feature_names_in_.tolist() == ["p", "q"]
    scaler.fit(bags)
    assert not hasattr(scaler, "feature_names_in_")
    with pytest.raises(NotFittedError):
        BagScaler().transform(bags)


def test_bags_stay_bags_where_scikit_learn_returns_frames(bags):
    with config_context(transform_output="pandas"):
        assert isinstance(BagScaler().fit_transform(bags), Bags)


def test_refused(bags):
    with pytest.raises(BagsError, match=r"Bag 0 \('a'\), instance 0: feature 0 is nan"):
        OnInstances(FunctionTransformer(lambda x: x * np.nan)).fit_transform(bags)
    with pytest.raises(BagsError, match="There are 1 rows; expected one per instance"):
        OnInstances(FunctionTransformer(lambda x: x[:1])).fit_transform(bags)
    with pytest.raises(ValueError, match="with_mean"):
        BagScaler(with_mean="yes").fit(bags)
    with pytest.raises(ValueError, match="3 features"):
        BagScaler().fit(bags).transform(np.ones((2, 2, 3)))


def test_sparse_instances_are_scaled_and_not_centred_by_default():
    table = np.array([[0.0, 2.0], [0.0, 4.0], [3.0, 0.0]])
    bags = Bags.from_list([sp.csr_array(table[:2]), sp.csr_array(table[2:])])
    scaled = BagScaler().fit_transform(bags)
    assert scaled.is_sparse
    np.testing.assert_allclose(scaled.instances.toarray(), table / table.std(axis=0))
    with pytest.raises(ValueError, match="Cannot center sparse"):
        BagScaler(with_mean=True).fit(bags)
