"""Statistics of bags, and plain classifiers on them: rivals that belong in every comparison."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from pigmil._core.errors import BagsError
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags, as_bags, is_lazy
from pigmil.estimators._parameters import AT_LEAST_ONE, POSITIVE, Card, with_parameters
from pigmil.estimators.base import MILClassifier

_STATISTICS: dict[str, Callable[..., Any]] = {
    "mean": np.mean,
    "min": np.min,
    "max": np.max,
    "std": np.std,
}
_DIGITS = 9  # of standardised values: thresholds of trees must not depend on rounding
_MAX_ITER = 1_000_000  # libsvm may not terminate if equal bags have different labels


class BagStatistics(BaseEstimator):
    """Describe every bag by statistics of its features, one row per bag.

    After it, every scikit-learn classifier of tables works on bags.

    Parameters
    ----------
    statistics : sequence of {"mean", "min", "max", "std"}, default=("mean", "min", "max")
        Statistics of every feature over the instances of a bag.

    Attributes
    ----------
    n_features_in_ : int
        Number of features of an instance.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from pigmil import Bags, BagStatistics
    >>> bags = Bags.from_list([[[0.0], [2.0]], [[4.0]]], y=[0, 1])
    >>> BagStatistics().fit_transform(bags)
    array([[1., 0., 2.],
           [4., 4., 4.]])
    >>> make_pipeline(BagStatistics(), LogisticRegression()).fit(bags, bags.y).predict(bags)
    array([0, 1])
    """

    def __init__(self, statistics: Sequence[str] = ("mean", "min", "max")) -> None:
        self.statistics = statistics

    def fit(self, X: Any, y: Any = None) -> "BagStatistics":
        """Check the parameters and the bags; there is nothing to learn."""
        unknown = [name for name in self.statistics if name not in _STATISTICS]
        if unknown or not self.statistics:
            known = ", ".join(_STATISTICS)
            raise ValueError(f"statistics are some of {known}; got {self.statistics!r}.")
        self.n_features_in_ = int((X if is_lazy(X) else as_bags(X)).n_features)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
        """Return the statistics of the bags that it is fitted to."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any) -> FloatArray:
        """Return the statistics, of all features the first, then the second, and so on.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes, or bags on disk.

        Returns
        -------
        array of shape (n_bags, n_statistics * n_features)
        """
        if is_lazy(X):
            return np.vstack([self.transform(part.load(info=False)) for part in X.partitions()])
        bags = as_bags(X)
        if bags.n_features != self.n_features_in_:
            raise BagsError(
                f"Fitted on {self.n_features_in_} features; these bags have {bags.n_features}."
            )
        return bag_statistics(bags, self.statistics)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return a name per column, such as ``mean f0``."""
        names = input_features
        if names is None:
            names = [f"f{at}" for at in range(self.n_features_in_)]
        return np.array([f"{what} {name}" for what in self.statistics for name in names], object)


def bag_statistics(bags: Bags, statistics: Sequence[str]) -> FloatArray:
    """Return one row of statistics per bag."""
    tables = (bag.toarray() if bags.is_sparse else bag for bag in bags)
    rows = [[_STATISTICS[name](table, axis=0) for name in statistics] for table in tables]
    return np.array(rows, dtype=np.float64).reshape(bags.n_bags, len(statistics) * bags.n_features)


@with_parameters
class _StatisticsClassifier(MILClassifier):
    """A classifier of tables on the mean, the least and the greatest value of every feature."""

    _statistics = ("mean", "min", "max")

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        table = bag_statistics(bags, self._statistics)
        self.scaler_ = StandardScaler().fit(table)
        table = np.round(self.scaler_.transform(table), _DIGITS)
        order = np.lexsort((positive, *table.T))  # so that the order of the bags changes nothing
        self.classifier_ = self._new_classifier().fit(table[order], positive[order])

    @abstractmethod
    def _new_classifier(self) -> Any:
        """Return the classifier, not fitted."""

    def _score_bags(self, bags: Bags) -> FloatArray:
        table = np.round(self.scaler_.transform(bag_statistics(bags, self._statistics)), _DIGITS)
        return np.asarray(self.classifier_.decision_function(table), dtype=np.float64)


@with_parameters
class StatisticsSVC(_StatisticsClassifier):
    """Statistics SVC: an SVM on the mean, minimum and maximum of every feature in a bag.

    It knows nothing of instances, takes milliseconds, and classifies the bags of some benchmark
    sets better than methods made for them. A method for bags should be compared with it.

    Departs from the paper: there is none; mean, minimum and maximum are the statistics that
    Gartner et al. proposed (their min-max kernel), with the mean added.

    Parameters
    ----------
    C : float, default=10.0
        Cost of a violated margin.
    {probability}
    {pos_label}

    Attributes
    ----------
    scaler_, classifier_ : StandardScaler, SVC
        Fitted on one row per bag.

    Notes
    -----
    Cost: O(N d + B^2 d) in instances, features and bags.

    When to use: Beside any method that classifies bags, to see whether instances are needed.

    Defaults: C is that of MI-Kernel; the width is ``gamma="scale"`` of scikit-learn; not tuned.

    References
    ----------
    Gartner, Flach, Kowalczyk, Smola: Multi-Instance Kernels, ICML 2002.

    Examples
    --------
    >>> from pigmil import StatisticsSVC
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> StatisticsSVC().fit(bags).predict(bags).shape
    (40,)
    """

    C: float = 10.0

    card = Card(
        name="Statistics SVC",
        title="SVM on the mean, minimum and maximum of every feature",
        cost="O(N d + B^2 d)",
        grid={"C": (10.0, 1.0, 100.0)},
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {"C": POSITIVE}

    def _new_classifier(self) -> Any:
        return SVC(C=self.C, max_iter=_MAX_ITER)


@with_parameters
class StatisticsBoosting(_StatisticsClassifier):
    """Statistics boosting: gradient boosting on the mean, minimum and maximum of every feature.

    Like :class:`StatisticsSVC`, with trees: for many features of which few matter.

    Departs from the paper: there is none for bags; the boosting is scikit-learn's.

    Parameters
    ----------
    n_trees : int, default=100
        Number of trees of depth 3.
    random_state : int, RandomState or None, default=None
        Seed of the columns that are tried for a split.
    {probability}
    {pos_label}

    Attributes
    ----------
    scaler_, classifier_ : StandardScaler, GradientBoostingClassifier
        Fitted on one row per bag.

    Notes
    -----
    Cost: O(N d + T B d log B) in instances, features, bags and trees.

    When to use: Beside any method that classifies bags, to see whether instances are needed.

    Defaults: n_trees and all else are those of scikit-learn, with the square root of the number of
    columns tried per split; not tuned.

    References
    ----------
    Friedman: Greedy Function Approximation: A Gradient Boosting Machine, Annals of Statistics 2001.

    Examples
    --------
    >>> from pigmil import StatisticsBoosting
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> StatisticsBoosting(random_state=0).fit(bags).predict(bags).shape
    (40,)
    """

    n_trees: int = 100
    random_state: Any = None

    card = Card(
        name="Statistics boosting",
        title="Gradient boosting on the mean, minimum and maximum of every feature",
        cost="O(N d + T B d log B)",
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_trees": AT_LEAST_ONE,
        "random_state": ["random_state"],
    }

    def _new_classifier(self) -> Any:
        return GradientBoostingClassifier(
            n_estimators=self.n_trees, max_features="sqrt", random_state=self.random_state
        )
