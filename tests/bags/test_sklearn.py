"""Bags in the tools of the installed scikit-learn, also in those that convert them to arrays."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_validate,
    learning_curve,
    train_test_split,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from pigmil import MISVM, SIL, Bags, BagScaler, MIKernel, as_bags
from pigmil._core.errors import BagsError

MODEL = make_pipeline(BagScaler(), MIKernel())


def random_bags(n_bags=24, n_classes=2, *, sizes=(1, 5)):
    rng = np.random.RandomState(0)
    y = np.arange(n_bags) % n_classes
    parts = [rng.normal(3.0 * label, 1.0, (rng.randint(*sizes), 2)) for label in y]
    labels = [np.full(len(part), label) for part, label in zip(parts, y, strict=True)]
    ids = [f"bag {at}" for at in range(n_bags)]
    return Bags.from_list(parts, y=y, ids=ids, instance_labels=labels)


@pytest.fixture(params=["dense", "sparse"])
def bags(request):
    bags = random_bags()
    sparse = request.param == "sparse"
    return bags.with_instances(sp.csr_array(bags.instances)) if sparse else bags


def test_train_test_split(bags):
    train, test, y_train, y_test = train_test_split(
        bags, bags.y, test_size=6, stratify=bags.y, random_state=0
    )
    assert (len(train), len(test)) == (18, 6)
    assert train.y.tolist() == y_train.tolist()
    assert test.y.tolist() == y_test.tolist()
    assert sorted([*train.ids, *test.ids]) == sorted(bags.ids)
    for name, bag in zip(test.ids, test, strict=True):
        assert abs(bag - bags[name]).max() == 0.0


def test_folds_are_fitted_on_training_bags_only(bags):
    assert (cross_val_predict(MODEL, bags, bags.y, cv=3) == bags.y).mean() > 0.9
    result = cross_validate(
        MODEL, bags, bags.y, cv=4, scoring=["accuracy", "roc_auc"], return_estimator=True,
        return_indices=True,
    )  # fmt: skip
    assert result["test_accuracy"].mean() > 0.9
    for model, train in zip(result["estimator"], result["indices"]["train"], strict=True):
        seen = bags[train].instances.toarray() if bags.is_sparse else bags[train].instances
        np.testing.assert_allclose(model[0].transformer_.scale_, np.std(seen, axis=0))


@pytest.mark.slow
def test_grid_search_in_two_processes(bags):
    grid = {"bagscaler__with_std": [True, False]}
    search = GridSearchCV(MODEL, grid, cv=2, n_jobs=2).fit(bags, bags.y)
    assert search.best_score_ > 0.9
    assert search.predict(bags).shape == (24,)


@pytest.mark.parametrize("ensemble", [True, False])
def test_calibration(bags, ensemble):
    model = CalibratedClassifierCV(MODEL, cv=3, ensemble=ensemble).fit(bags, bags.y)
    chances = model.predict_proba(bags)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (chances.argmax(axis=1) == bags.y).mean() > 0.9


def test_one_against_the_rest():
    """The labels of the two-class problems contradict those of instances."""
    bags = random_bags(30, 3)
    model = OneVsRestClassifier(MODEL).fit(bags, bags.y)
    assert len(model.estimators_) == 3
    assert (model.predict(bags) == bags.y).mean() > 0.6


@pytest.mark.parametrize("sizes", [(1, 5), (3, 4)], ids=["ragged", "equal"])
def test_array_of_bags(sizes):
    bags = random_bags(sizes=sizes)
    array = np.asarray(bags)
    assert array.shape == bags.shape
    assert array.dtype == object
    for row, bag in zip(array, bags, strict=True):
        for column, values in enumerate(row):
            np.testing.assert_array_equal(values, bag[:, column])
    np.testing.assert_array_equal(as_bags(array).instances, bags.instances)
    assert type(as_bags(array).instances) is np.ndarray
    with pytest.raises(ValueError, match="sequence"):
        np.asarray(bags, dtype=np.float64)
    with pytest.raises(TypeError, match=r"Sparse bags cannot become an array.* with bags\.with_"):
        np.asarray(bags.with_instances(sp.csr_array(bags.instances)))


@pytest.mark.parametrize("sizes", [(1, 5), (3, 4)], ids=["ragged", "equal"])
@pytest.mark.parametrize(
    ("model", "n_classes"),
    [
        (BaggingClassifier(MIKernel(), 3, random_state=0), 2),
        (BaggingClassifier(MIKernel(), 3, max_features=0.5, random_state=0), 2),
        (OneVsOneClassifier(make_pipeline(BagScaler(), MIKernel())), 3),
    ],
)
def test_ensembles(sizes, model, n_classes):
    bags = random_bags(30, n_classes, sizes=sizes)
    model = clone(model).fit(bags, bags.y)
    assert len(model.estimators_) == 3
    assert (model.predict(bags) == bags.y).mean() > 0.9


def first_feature_counts(model, bags):
    result = permutation_importance(model.fit(bags, bags.y), bags, bags.y, random_state=0)
    return result.importances_mean[0] > result.importances_mean[1] + 0.1


def first_feature_is_selected(model, bags):
    selector = SequentialFeatureSelector(model, n_features_to_select=1, cv=3)
    reduced = selector.fit_transform(bags, bags.y)
    expected = bags.with_instances(bags.instances[:, :1])
    np.testing.assert_array_equal(as_bags(reduced).instances, expected.instances)
    return model.fit(reduced, bags.y).score(reduced, bags.y) > 0.9


TOOLS = {
    "learning curve": lambda model, bags: (
        learning_curve(model, bags, bags.y, cv=3, train_sizes=[0.5, 1.0])[2][-1].mean() > 0.8
    ),
    "validation curve": lambda model, bags: (
        validation_curve(
            model, bags, bags.y, param_name="pos_label", param_range=[None, 1], cv=3
        )[1].mean() > 0.8
    ),
    "boosting": lambda model, bags: (
        AdaBoostClassifier(model, n_estimators=3, random_state=0)
        .fit(bags, bags.y).score(bags, bags.y) > 0.9
    ),
    "permutation importance": first_feature_counts,
    "feature selection": first_feature_is_selected,
}  # fmt: skip


@pytest.mark.parametrize("sizes", [(1, 5), (3, 4)], ids=["ragged", "equal"])
@pytest.mark.parametrize("model", [MISVM(), SIL()], ids=repr)
@pytest.mark.parametrize("tool", TOOLS)
def test_tools(tool, model, sizes):
    """The second feature is noise."""
    bags = random_bags(sizes=sizes)
    noise = np.random.RandomState(1).normal(size=(bags.n_instances, 1))
    assert TOOLS[tool](model, bags.with_instances(np.hstack([bags.instances[:, :1], noise])))


def test_missing_values_are_found_where_scikit_learn_looks_for_them():
    bags = Bags(np.array([[0.0], [np.nan]] * 4), np.arange(9), y=[0, 1] * 4, missing="keep")
    with pytest.raises(ValueError, match="contains NaN"):
        AdaBoostClassifier(MISVM()).fit(bags, bags.y)


@pytest.mark.parametrize("n_features", [2, 3])
def test_an_exchanged_feature_takes_the_size_of_its_new_bag(n_features):
    """[a, b] and [c, d, e]: the first bag gets c, d; the second a, b and a again."""
    first, second = np.arange(2.0), np.arange(10.0, 13.0)
    bags = Bags.from_list([np.column_stack([part] * n_features) for part in (first, second)])
    array = np.asarray(bags)
    array[:, 1] = pickle.loads(pickle.dumps(array[[1, 0], 1]))
    mixed = as_bags(array)
    assert type(mixed.instances) is np.ndarray
    np.testing.assert_array_equal(mixed[0][:, :2], [[0, 10], [1, 11]])
    np.testing.assert_array_equal(mixed[1][:, :2], [[10, 0], [11, 1], [12, 0]])


def test_arrays_of_a_user_need_one_size_per_bag():
    array = np.empty((1, 2), dtype=object)
    array[0, 0], array[0, 1] = np.zeros(2), np.zeros(3)
    with pytest.raises(BagsError, match="Bag 0 has features of 2 and of 3 instances"):
        as_bags(array)
