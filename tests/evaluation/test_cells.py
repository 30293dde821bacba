"""Measurements of a cell, by hand."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline

from pigmil import MILES, Bags, CitationKNN
from pigmil._core.errors import BagsError
from pigmil.bags import BagScaler
from pigmil.estimators import get_estimator
from pigmil.evaluation import compare
from pigmil.evaluation._cells import (
    Entry,
    _prepare,
    choose_on_tables,
    compute_cell,
    protocol_estimator,
)
from pigmil.evaluation._splits import Split, inner_splits
from pigmil.evaluation._statistics import bootstrap_interval


def cell(bags, method, train, test, **changes):
    split = Split(0, 0, np.asarray(train), np.asarray(test))
    parameters = changes.pop("parameters", {})
    entry = Entry(get_estimator(method)(**parameters), protocol=True, fixed=tuple(parameters))
    return compute_cell(bags, split, entry, **{"tune": False, "seed": 0, **changes})


@pytest.fixture
def line():
    """Bags on a line: positives at 1, 2, 3, negatives at -1, -2, -3, and two misplaced ones."""
    values = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 1.5, -1.5, 2.5, -2.5]
    y = np.array([1, 1, 1, 0, 0, 0, 1, 0, 0, 1])  # the last two lie on the wrong side
    return Bags.from_list([np.array([[value]]) for value in values], y=y)


def test_bag_metrics_by_hand(fakes, line):
    measured = cell(line, "Mean rule", range(6), range(6, 10))
    assert [measured[name] for name in ("accuracy", "balanced_accuracy", "f1")] == [0.5] * 3
    # Scores order the test bags 2.5, 1.5, -1.5, -2.5 and truth is 0, 1, 0, 1: one pair of four.
    assert measured["auc"] == 0.25
    assert measured["fit_seconds"] >= 0
    assert measured["peak_mb"] > 10 or np.isnan(measured["peak_mb"])
    one_class = cell(line, "Mean rule", range(6), [6])
    assert one_class["accuracy"] == 1.0
    assert np.isnan([one_class["auc"], one_class["balanced_accuracy"]]).all()


@pytest.mark.parametrize("method", ["APR", "MILES"])
def test_metrics_do_not_depend_on_which_label_codes_the_positive_class(method):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(3, 2)) for _ in range(12)]
    for part in parts[::2]:
        part[0] += 6
    y = np.arange(12) % 2 == 0
    bags = Bags.from_list(parts, y=y.astype(int))
    named = Bags(bags.instances, bags.offsets, y=np.where(y, "active", "inert"))
    expected = cell(bags, method, range(8), range(8, 12))
    measured = cell(named, method, range(8), range(8, 12), parameters={"pos_label": "active"})
    for name in ("accuracy", "balanced_accuracy", "f1", "auc"):
        assert measured[name] == pytest.approx(expected[name], nan_ok=False)


def test_instance_metrics_are_those_of_the_positive_class(bags):
    zeros = np.zeros(bags.n_instances, dtype=int)
    marked = Bags(bags.instances, bags.offsets, y=bags.y, instance_labels=zeros)
    split = {"train": range(0, 24, 2), "test": range(1, 24, 2)}
    measured = cell(marked, "KDE_min", *split.values(), parameters={"pos_label": 0})
    # Every instance of the bags of class 0 is labelled 0, so every detection is a hit.
    assert measured["detection_accuracy"] == 1
    assert measured["top1"] == 1


def test_instance_metrics_by_hand(fakes):
    rows = [[3, 1], [2, 5], [4, 1], [0, 1], [1, 0], [5, 4], [2, 9], [1, 1]]
    labels = np.array(["yes", "no", "no", "no", "no", "no", "yes", "no"], dtype=object)
    # Bags 0 and 3 are positive; the positive instance of each comes first by the feature.
    known = Bags(np.array(rows, float), [0, 2, 4, 6, 8], y=[1, 0, 0, 1], instance_labels=labels)
    measured = cell(known, "First feature", [0, 1], [2, 3])
    names = ("detection_accuracy", "top1", "instance_auc", "instance_ap")
    assert [measured[name] for name in names] == [1.0] * 4
    # In bag 2 "no" is the only label: it must not be taken for the positive one.
    measured = cell(known, "First feature", [0, 1, 3], [2])
    assert np.isnan([measured["top1"], measured["instance_auc"]]).all()
    assert measured["detection_accuracy"] == 1.0


def test_detectors_that_do_not_classify_have_no_bag_metrics(bags):
    measured = cell(bags, "KDE_min", range(0, 24, 2), range(1, 24, 2))
    assert "accuracy" not in measured
    assert "fit_seconds" in measured


def test_scaling_is_fitted_inside_the_fold(fakes, line):
    far = line.with_instances(np.vstack([line.instances[:9], [[1e9]]]))
    near = cell(line, "Mean rule", range(6), range(6, 9))
    away = cell(far, "Mean rule", range(6), range(6, 9))
    assert (near["accuracy"], near["auc"]) == (away["accuracy"], away["auc"])


def test_sparse_bags_are_scaled_but_not_centred():
    rng = np.random.default_rng(0)
    parts = [sp.csr_array(rng.random((2, 4)) + 5.0 * (number % 2)) for number in range(8)]
    bags = Bags.from_list(parts, y=np.arange(8) % 2)
    assert cell(bags, "MILES", range(6), range(6, 8))["accuracy"] == 1.0


def test_tuning(fakes, bags):
    tuned = get_estimator("Tuned")
    estimator = protocol_estimator(tuned(), bags).fit(bags, bags.y)
    assert estimator.best_params_ == {"method__shift": 0.0}
    assert cell(bags, "Tuned", range(0, 24, 2), range(1, 24, 2), tune=True)["accuracy"] > 0.8
    fixed = protocol_estimator(tuned(shift=100.0), bags, fixed=["shift"])
    assert isinstance(fixed, Pipeline)  # a parameter that is given is not searched


def test_a_grid_of_one_value_is_used_without_a_search(bags):
    assert CitationKNN.card.grid == {"rank": (None,)}
    single = protocol_estimator(CitationKNN(), bags)
    assert isinstance(single, Pipeline)
    assert single[-1].rank is None
    assert protocol_estimator(CitationKNN(rank=2), bags, fixed=["rank"])[-1].rank == 2
    assert protocol_estimator(CitationKNN(), bags, tune=False)[-1].rank == 1


def test_inner_folds_keep_groups_together(fakes, bags):
    groups = np.repeat(np.arange(8), 3)
    search = protocol_estimator(get_estimator("Tuned")(), bags, groups=groups)
    assert len(search.cv) == 4  # as many folds as a class has groups
    for train, test in search.cv:
        assert not set(groups[train]) & set(groups[test])
    assert inner_splits([0, 0, 1, 1], groups=[0, 0, 1, 2]) == []


def test_inner_folds_of_a_search_given_by_the_user(fakes, bags):
    groups = np.repeat(np.arange(8), 3)
    tuned = get_estimator("Tuned")
    search = GridSearchCV(tuned(), {"shift": [0.0, 100.0]}, cv=2)
    inside = make_pipeline(BagScaler(), GridSearchCV(tuned(), {}, cv=2))
    for given in (search, CalibratedClassifierCV(tuned(), cv=2), inside):
        estimator = _prepare(Entry(given), bags, groups, True, 3)
        folds = estimator[-1].cv if given is inside else estimator.cv
        assert len(folds) == 2
        for train, test in folds:
            assert not set(groups[train]) & set(groups[test])
        assert sorted(np.concatenate([test for _, test in folds])) == list(range(24))
    one_group = np.where(bags.y == 1, 0, np.arange(24))
    with pytest.raises(BagsError, match="GridSearchCV needs inner folds"):
        _prepare(Entry(search), bags, one_group, True, 3)
    split = Split(0, 0, np.arange(24), np.arange(24))
    ignoring = GridSearchCV(tuned(), {"shift": [0.0]}, cv=StratifiedKFold(2))
    for given, expected in ((search, []), (ignoring, ["UserWarning: The groups parameter"])):
        measured = compute_cell(bags, split, Entry(given), groups=groups, tune=True, seed=0)
        assert [text[:33] for text in measured["warnings"]] == expected
    assert search.cv == 2  # the caller's object is not changed


class Columns(ClassifierMixin, BaseEstimator):
    """Scores of three classes: the first three features of the first instance."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.array([bag[0, :3] for bag in X])

    def predict(self, X):
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]


def test_three_classes_by_hand():
    """Six test bags; one bag of class a scores higher for b, all others are right.

    Accuracy 5/6; recalls 1/2, 1, 1. Precisions 1, 2/3, 1: F1 2/3, 4/5, 1. Areas: a 5/8, as the
    second bag is below two of the four others and equal to two; b 7/8, for one pair of eight is in
    the wrong order; c 1.
    """
    scores = [[3, 0, 0], [0, 5, 0], [0.5, 2, 0], [0, 6, 0], [0.5, 0, 4], [0, 0, 5.0]]
    bags = Bags.from_list([np.array([row], dtype=float) for row in scores], y=list("aabbcc"))
    split = Split(0, 0, np.arange(6), np.arange(6))
    measured = compute_cell(bags, split, Entry(Columns()), tune=False, seed=0)
    assert measured["accuracy"] == pytest.approx(5 / 6)
    assert measured["balanced_accuracy"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert measured["f1"] == pytest.approx((2 / 3 + 4 / 5 + 1) / 3)
    area = np.mean([(4 + 2 / 2) / 8, (3 + 4) / 8, 1.0])
    assert measured["auc"] == pytest.approx(area)
    assert measured["bags"]["positive"] == [0, 0, 1, 1, 2, 2]
    assert measured["bags"]["called"] == [0, 1, 1, 1, 2, 2]
    low, high = bootstrap_interval([measured["bags"]], "accuracy")
    assert low < 5 / 6 < high == 1.0
    low, high = bootstrap_interval([measured["bags"]], "auc")
    assert low < area < high


def test_more_classes_than_two_are_compared(bags, tmp_path):
    """Three classes on a line: every classifier of the library, by name and as an estimator."""
    rng = np.random.default_rng(0)
    y = np.repeat(["low", "middle", "up"], 8)
    parts = [rng.normal(5 * (at // 8), 0.5, size=(3, 2)) for at in range(24)]
    three = Bags.from_list(parts, y=y)
    methods = {"Citation-kNN": "Citation-kNN", "pipeline": make_pipeline(BagScaler(), MILES())}
    results = compare(methods, {"line": three}, repeats=1, folds=2, store=tmp_path / "store.sqlite")
    assert not results.failures
    assert results.table().loc["line"].min() > 90
    assert np.isfinite(results.intervals("auc")[["mean", "low", "high"]].to_numpy()).all()


class Probabilities(ClassifierMixin, BaseEstimator):
    """An estimator of another library: probabilities, a threshold of its own, no decision."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.seed_ = self.random_state
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-np.array([bag.mean() for bag in X])))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(self.predict_proba(X)[:, 1] > 0.9).astype(int)]


def test_any_estimator_is_measured_as_it_is(line):
    split = Split(0, 0, np.arange(6), np.arange(6, 10))
    measured = compute_cell(line, split, Entry(Probabilities()), tune=True, seed=0)
    # Means 1.5, -1.5, 2.5, -2.5 with truth 1, 0, 0, 1; only 2.5 has a probability above 0.9.
    assert measured["accuracy"] == 0.25
    assert measured["auc"] == 0.25
    assert measured["bags"]["called"] == [0, 0, 1, 0]
    assert measured["bags"]["group"] == [6, 7, 8, 9]
    estimator = _prepare(Entry(make_pipeline(BagScaler(), Probabilities())), line, None, True, 7)
    assert estimator[-1].random_state == 7


def search_on_tables(points, y, grid, **parameters):
    """Search by tables and by scikit-learn, on bags of one instance on a line."""
    bags = Bags.from_list([[[float(point)]] for point in points], y=y)
    pipeline = Pipeline([("scale", BagScaler()), ("method", CitationKNN(**parameters))])
    folds = list(LeaveOneOut().split(bags.y))
    slow = GridSearchCV(pipeline, {f"method__{key}": grid[key] for key in grid}, cv=folds)
    return choose_on_tables(pipeline, bags, grid, folds), slow.fit(bags, bags.y)


@pytest.mark.parametrize("ranks", [(2, 1, None), (None, 2)])
def test_a_search_on_tables_takes_the_first_of_the_best(ranks):
    # Of bags of one instance all ranks are the same distance.
    points = [*range(8), *range(100, 108)]
    chosen, _ = search_on_tables(points, np.repeat([0, 1], 8), {"rank": ranks})
    assert chosen[-1].rank == ranks[0]


def test_a_search_on_tables_takes_the_best():
    # Two crowds on a line, one bag in each mislabelled: it misleads those it is nearest to, but
    # not three nearest bags.
    points = [0.0, 1.0, 2.1, 3.3, 4.6, 100.0, 101.0, 102.1, 103.3, 104.6]
    y = [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]
    chosen, slow = search_on_tables(points, y, {"n_references": (1, 3)}, n_citers=0)
    first, second = slow.cv_results_["mean_test_score"]
    assert first != second
    assert chosen[-1].n_references == slow.best_params_["method__n_references"]


def test_inner_folds_shrink_with_the_smallest_class(fakes, bags):
    # Three positive training bags cannot be dealt into five folds, one cannot into two.
    for n_positive in (3, 1):
        train = [*range(12), *range(12, 12 + n_positive)]
        measured = cell(bags, "Tuned", train, range(16, 24), tune=True)
        assert not any("least populated" in text for text in measured["warnings"])


def test_warnings_are_kept_with_the_cell(fakes, line):
    before = list(warnings.filters)
    measured = cell(line, "Warning", range(6), range(6, 10))
    assert measured["warnings"] == ["ConvergenceWarning: seen 6 bags"]
    assert list(warnings.filters) == before
