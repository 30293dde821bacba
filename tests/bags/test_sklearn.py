"""Bags in the tools of the installed scikit-learn, with the smallest bag classifier there is."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_validate,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample, shuffle
from sklearn.utils.validation import check_is_fitted

from pigmil import Bags, OnInstances, as_bags


class NearestMean(ClassifierMixin, BaseEstimator):
    """A bag is as positive as its mean is near the mean of positive bags, to the power given."""

    def __init__(self, power=1.0):
        self.power = power

    def fit(self, X, y):
        bags, y = as_bags(X), np.asarray(y)
        self.classes_ = np.unique(y)
        self.instances_seen_ = bags.n_instances
        means = self._means(bags)
        self.means_ = np.array([means[y == label].mean(axis=0) for label in self.classes_])
        return self

    def decision_function(self, X):
        check_is_fitted(self)
        gaps = np.linalg.norm(self._means(as_bags(X))[:, None] - self.means_, axis=2) ** self.power
        return gaps[:, 0] - gaps[:, 1]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    @staticmethod
    def _means(bags):
        return np.array([np.asarray(bag.mean(axis=0)).ravel() for bag in bags])


def make(n_bags=24, n_classes=2, *, sparse=False, seed=0):
    rng = np.random.RandomState(seed)
    y = np.arange(n_bags) % n_classes
    listed = [rng.normal(3.0 * label, 1.0, (rng.randint(1, 5), 2)) for label in y]
    bags = Bags.from_list(
        listed,
        y=y,
        ids=[f"bag {i}" for i in range(n_bags)],
        instance_labels=[np.full(len(bag), label) for bag, label in zip(listed, y, strict=True)],
    )
    return bags.with_instances(sp.csr_array(bags.instances)) if sparse else bags


@pytest.fixture(params=["dense", "sparse"])
def bags(request):
    return make(sparse=request.param == "sparse")


def test_train_test_split(bags):
    train, test, y_train, y_test = train_test_split(
        bags, bags.y, test_size=6, stratify=bags.y, random_state=0
    )
    assert isinstance(train, Bags)
    assert len(train) == 18
    assert len(test) == 6
    assert train.y.tolist() == y_train.tolist()
    assert test.y.tolist() == y_test.tolist()
    assert sorted([*train.ids, *test.ids]) == sorted(bags.ids)
    names = bags.ids.tolist()
    for name, bag in zip(test.ids, test, strict=True):
        expected = bags[names.index(name)]
        assert abs(bag - expected).max() == 0.0


def test_cross_validation_fits_on_training_bags_only(bags):
    result = cross_validate(
        NearestMean(),
        bags,
        bags.y,
        cv=4,
        scoring=["accuracy", "roc_auc"],
        return_estimator=True,
        return_indices=True,
    )
    assert (result["test_accuracy"] > 0.9).all()
    assert (cross_val_predict(NearestMean(), bags, bags.y, cv=3) == bags.y).mean() > 0.9
    for model, train in zip(result["estimator"], result["indices"]["train"], strict=True):
        assert model.instances_seen_ == bags[train].n_instances


def test_shuffle_and_resample(bags):
    mixed, y = shuffle(bags, bags.y, random_state=0)
    assert mixed.y.tolist() == y.tolist()
    again, y = resample(bags, bags.y, n_samples=40, random_state=0)
    assert len(again) == 40
    assert as_bags(again, y=y).y.tolist() == y.tolist()


def test_grid_search_in_two_processes(bags):
    search = GridSearchCV(NearestMean(), {"power": [0.5, 1.0]}, cv=2, n_jobs=2)
    search.fit(bags, bags.y)
    assert search.best_score_ > 0.9
    assert search.predict(bags).shape == (24,)


def test_pipeline_scales_training_instances(bags):
    pipe = Pipeline(
        [("scale", OnInstances(StandardScaler(with_mean=False))), ("model", NearestMean())]
    )
    search = GridSearchCV(
        pipe, {"model__power": [1.0], "scale__transformer__with_std": [True]}, cv=2
    )
    search.fit(bags, bags.y)
    assert search.best_score_ > 0.9
    half = clone(pipe).fit(bags[:12], bags.y[:12])
    first = bags[:12].instances
    first = first.toarray() if bags.is_sparse else first
    np.testing.assert_allclose(half["scale"].transformer_.scale_, np.std(first, axis=0))


@pytest.mark.parametrize("ensemble", [True, False])
def test_calibration(bags, ensemble):
    model = CalibratedClassifierCV(NearestMean(), cv=3, ensemble=ensemble).fit(bags, bags.y)
    chances = model.predict_proba(bags)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (chances.argmax(axis=1) == bags.y).mean() > 0.9


def test_one_against_the_rest():
    bags = make(n_bags=30, n_classes=3)

    class Relabelling(NearestMean):
        def fit(self, X, y):
            return super().fit(as_bags(X, y=y), y)  # contradicts instance labels

    model = OneVsRestClassifier(Relabelling()).fit(bags, bags.y)
    assert len(model.estimators_) == 3
    assert model.predict(bags).shape == (30,)
    assert (model.predict(bags) == bags.y).mean() > 0.6
