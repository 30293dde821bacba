"""MInD: the representation, and classifiers on top of it."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from pigmil import Bags, MInD
from pigmil.distances import BAG_DISTANCES


class NearestMean(ClassifierMixin, BaseEstimator):
    """A classifier that predicts and gives no scores."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        distances = ((X[:, None] - self.means_) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]


def bags_of(seed, n_bags=16):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 6)), 2)) for _ in range(n_bags)]
    for part in parts[1::2]:
        part[0] += 6
    return Bags.from_list(parts, y=np.arange(n_bags) % 2)


def hausdorff(one, two):
    there = max(min(np.linalg.norm(a - b) for b in two) for a in one)
    back = max(min(np.linalg.norm(a - b) for a in one) for b in two)
    return max(there, back)


def test_a_linear_svm_on_the_dissimilarities():
    bags, new = bags_of(0), bags_of(1)
    table = np.array([[hausdorff(a, b) for b in bags] for a in bags])
    length = np.sqrt(np.mean([row @ row for row in table]))
    plain = SVC(kernel="linear", C=0.5).fit(table / length, bags.y)
    rows = np.array([[hausdorff(a, b) for b in bags] for a in new]) / length
    method = MInD(C=0.5).fit(bags)
    np.testing.assert_allclose(
        method.decision_function(new), plain.decision_function(rows), atol=1e-6
    )
    assert method.scale_ == pytest.approx(length)


@pytest.mark.parametrize("dissimilarity", BAG_DISTANCES)
def test_every_dissimilarity_learns(dissimilarity):
    method = MInD(dissimilarity=dissimilarity, rank=2).fit(bags_of(4, 40))
    new = bags_of(5, 40)
    # The smallest distance sees the shared background only.
    assert method.score(new, new.y) >= (0.5 if dissimilarity == "min-min" else 0.8)


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        RandomForestClassifier(20, random_state=0),
        KNeighborsClassifier(3),
        NearestMean(),
    ],
)
def test_any_classifier_decides(classifier):
    bags, new = bags_of(6, 40), bags_of(7, 40)
    method = MInD(classifier=classifier).fit(bags)
    table = np.array([[hausdorff(a, b) for b in bags] for a in bags])
    length = np.sqrt((table**2).sum(axis=1).mean())
    rows = np.array([[hausdorff(a, b) for b in bags] for a in new]) / length
    expected = method.classifier_.predict(rows)
    agreement = (method.predict(new) == expected).mean()
    assert agreement >= 0.95
    assert not hasattr(classifier, "classes_"), "the user's classifier was fitted, not a clone"
