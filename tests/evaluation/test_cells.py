"""What is measured in a cell, by hand."""

import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import LeaveOneOut
from sklearn.pipeline import Pipeline

from pigmil import Bags, CitationKNN
from pigmil.bags import BagScaler
from pigmil.evaluation.cells import compute_cell, recorded_warnings
from pigmil.evaluation.protocol import TableSearch, protocol_estimator
from pigmil.evaluation.splits import Split


def cell(bags, method, train, test, **changes):
    split = Split(0, 0, np.asarray(train), np.asarray(test))
    settings = {"parameters": {}, "tune": False, "seed": 0, **changes}
    return compute_cell(bags, split, method, **settings)


@pytest.fixture
def line():
    """Bags on a line: positives at 1, 2, 3, negatives at -1, -2, -3, and two misplaced ones."""
    values = [1.0, 2.0, 3.0, -1.0, -2.0, -3.0, 1.5, -1.5, 2.5, -2.5]
    y = np.array([1, 1, 1, 0, 0, 0, 1, 0, 0, 1])  # the last two lie on the wrong side
    return Bags.from_list([np.array([[value]]) for value in values], y=y)


def test_bag_metrics_by_hand(fakes, line):
    found = cell(line, "Mean rule", range(6), range(6, 10))
    assert found["accuracy"] == 0.5
    assert found["balanced_accuracy"] == 0.5
    assert found["f1"] == 0.5
    # Scores order the test bags 2.5, 1.5, -1.5, -2.5 and truth is 0, 1, 0, 1: one pair of four.
    assert found["auc"] == 0.25
    assert found["fit_seconds"] >= 0
    assert found["peak_mb"] > 10 or np.isnan(found["peak_mb"])


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


def test_a_fold_of_one_class_has_no_auc(fakes, line):
    found = cell(line, "Mean rule", range(6), [6])
    assert found["accuracy"] == 1.0
    assert np.isnan(found["auc"])
    assert np.isnan(found["balanced_accuracy"])


@pytest.fixture
def known():
    """Positive bags hold a positive instance, detected or not by its first feature."""
    rows = [[3, 1], [2, 5], [4, 1], [0, 1], [1, 0], [5, 4], [2, 9], [1, 1]]
    labels = ["yes", "no", "no", "no", "no", "no", "yes", "no"]
    bag = [0, 0, 1, 1, 2, 2, 3, 3]
    # Bags 0 and 3 are positive; of bag 3 the positive instance comes first by the feature.
    order = np.array([0, 1, 2, 3, 4, 5, 6, 7])
    return Bags.from_flat(
        np.array(rows, dtype=float)[order],
        np.array(bag),
        y=np.array([1, 0, 0, 1]),
        instance_labels=np.array(labels, dtype=object),
    )


def test_instance_metrics_by_hand(fakes, known):
    found = cell(known, "First feature", [0, 1], [2, 3])
    assert found["detection_accuracy"] == 1.0
    assert found["top1"] == 1.0
    assert found["instance_auc"] == 1.0
    assert found["instance_ap"] == 1.0


def test_a_fold_without_positive_instances_has_no_instance_metrics(fakes, known):
    # In bag 2 "no" is the only label: it must not be taken for the positive one.
    found = cell(known, "First feature", [0, 1, 3], [2])
    assert np.isnan(found["top1"])
    assert np.isnan(found["instance_auc"])
    assert found["detection_accuracy"] == 1.0


def test_detectors_that_do_not_classify_have_no_bag_metrics(bags):
    found = cell(bags, "KDE_min", range(0, 24, 2), range(1, 24, 2))
    assert "accuracy" not in found
    assert "fit_seconds" in found


def test_scaling_is_fitted_inside_the_fold(fakes, line):
    far = line.with_instances(np.vstack([line.instances[:9], [[1e9]]]))
    near = cell(line, "Mean rule", range(6), range(6, 9))
    away = cell(far, "Mean rule", range(6), range(6, 9))
    assert (near["accuracy"], near["auc"]) == (away["accuracy"], away["auc"])


def test_sparse_bags_are_scaled_but_not_centred():
    rng = np.random.default_rng(0)
    parts = [sp.csr_array(rng.random((2, 4)) + 5.0 * (number % 2)) for number in range(8)]
    bags = Bags.from_list(parts, y=np.arange(8) % 2)
    split = Split(0, 0, np.arange(6), np.arange(6, 8))
    found = compute_cell(bags, split, "MILES", {}, tune=False, seed=0)
    assert found["accuracy"] == 1.0


def test_tuning_sees_training_bags_only(fakes, bags):
    estimator = protocol_estimator("Tuned", tune=True).fit(bags, bags.y)
    assert estimator.best_params_ == {"method__shift": 0.0}
    assert cell(bags, "Tuned", range(0, 24, 2), range(1, 24, 2), tune=True)["accuracy"] > 0.8
    fixed = protocol_estimator("Tuned", tune=True, shift=100.0)
    assert not hasattr(fixed, "cv")  # a parameter that is given is not searched


def test_a_grid_of_one_value_is_taken_without_a_search():
    assert CitationKNN.card.grid == {"rank": (None,)}
    fixed = protocol_estimator("Citation-kNN")
    assert isinstance(fixed, Pipeline)
    assert fixed[-1].rank is None
    assert protocol_estimator("Citation-kNN", rank=2)[-1].rank == 2
    assert protocol_estimator("Citation-kNN", tune=False)[-1].rank == 1


def test_a_search_on_tables_takes_the_first_of_the_best():
    # Of bags of one instance all ranks are the same distance.
    points = [*range(8), *range(100, 108)]
    bags = Bags.from_list([[[float(point)]] for point in points], y=np.repeat([0, 1], 8))
    pipeline = Pipeline([("scale", BagScaler()), ("method", CitationKNN())])
    for ranks in ((2, 1, None), (None, 2)):
        search = TableSearch(pipeline, {"rank": ranks}, LeaveOneOut()).fit(bags, bags.y)
        assert search.best_params_ == {"method__rank": ranks[0]}
        assert search.score(bags, bags.y) == 1.0


def test_a_search_on_tables_takes_the_best():
    # Two crowds on a line, one bag in each mislabelled: it misleads those it is nearest to, but
    # not three nearest bags.
    points = np.array([0.0, 1.0, 2.1, 3.3, 4.6, 100.0, 101.0, 102.1, 103.3, 104.6])
    bags = Bags.from_list([[[point]] for point in points], y=[0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
    pipeline = Pipeline([("scale", BagScaler()), ("method", CitationKNN(n_citers=0))])
    grid = {"n_references": (1, 3)}
    leave_one_out = TableSearch(pipeline, grid, LeaveOneOut()).fit(bags, bags.y)
    right = {
        size: sum(
            clone(pipeline)
            .set_params(method__n_references=size)
            .fit(bags[train], bags.y[train])
            .score(bags[test], bags.y[test])
            for train, test in LeaveOneOut().split(points)
        )
        for size in (1, 3)
    }
    assert right[1] != right[3]
    assert leave_one_out.best_params_ == {"method__n_references": max(right, key=right.get)}


def test_inner_folds_shrink_with_the_smallest_class(fakes, bags):
    # Three positive training bags cannot be dealt into five folds, one cannot into two.
    for n_positive in (3, 1):
        train = [*range(12), *range(12, 12 + n_positive)]
        found = cell(bags, "Tuned", train, range(16, 24), tune=True)
        assert not any("least populated" in text for text in found["warnings"])


def test_warnings_are_kept_with_the_cell(fakes, line):
    found = cell(line, "Warning", range(6), range(6, 10))
    assert found["warnings"] == ["ConvergenceWarning: seen 6 bags"]


def test_threads_keep_their_warnings_apart():
    before = list(warnings.filters)
    barrier = threading.Barrier(4)
    heard = {}

    def work(number):
        with recorded_warnings() as told:
            for _ in range(20):
                barrier.wait()
                warnings.warn(f"of {number}", UserWarning, stacklevel=1)
        heard[number] = set(told)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == {number: {f"UserWarning: of {number}"} for number in range(4)}
    assert list(warnings.filters) == before
