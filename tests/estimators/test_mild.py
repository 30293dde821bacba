"""MILD: empirical precision against all thresholds, detection and both representations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil import MILD, Bags
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators import mild
from pigmil.estimators._selection import content_order, stratified_folds
from pigmil.estimators.mild import COSTS, WIDTHS, best_precision


def slow_precision(x, parts, positive):
    """Try every distance as a threshold; bags counted one by one."""
    distances = [min(((a - x) ** 2).sum() for a in part) for part in parts]
    best = (-1, np.inf)
    for threshold in sorted(distances):
        right = sum((d <= threshold) == p for d, p in zip(distances, positive, strict=True))
        if right > best[0]:
            best = (right, threshold)
    return best


@given(st.integers(0, 10**6))
def test_sweep_is_the_best_of_all_thresholds(seed):
    rng = np.random.default_rng(seed)
    parts = [
        rng.integers(-2, 3, size=(int(rng.integers(1, 4)), 2)).astype(float)
        for _ in range(int(rng.integers(2, 9)))
    ]
    positive = rng.random(len(parts)) < 0.5
    x = rng.integers(-2, 3, size=2).astype(float)
    squared = np.array([[min(((a - x) ** 2).sum() for a in part) for part in parts]])
    right, threshold = best_precision(squared, positive)
    assert (right[0], threshold[0]) == slow_precision(x, parts, positive)


def test_precision_by_hand():
    # From 0: positive bags at 0 and 1, negatives at 2 and 3: radius 1 gets all four right.
    parts = [np.array([[0.0], [9.0]]), np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0]])]
    model = MILD().fit(Bags.from_list(parts, y=[1, 1, 0, 0]))
    assert model.detected_instances_.tolist() == [0, 2]
    precision = model.instance_scores_ + model.precision_threshold_
    # Its own bag left out, 0 gets the three others right at squared distance 1.
    unit = model.length_unit_**2
    assert precision[0] == pytest.approx((3 - 0.5 / (1 + unit)) / 3)
    # 9 gets one of three right at squared distance 36; 2 (in a negative bag) gets both positives
    # right at squared distance 4, where the other negative bag counts as positive.
    assert precision[1] == pytest.approx((1 - 0.5 * 36 / (36 + unit)) / 3)
    assert precision[3] == pytest.approx((2 - 0.5 * 4 / (4 + unit)) / 3)
    # New instances are scored over all four bags.
    new = model.decision_function_instances([[[0.0], [9.0]]]) + model.precision_threshold_
    assert new[0] == pytest.approx((4 - 0.5 / (1 + unit)) / 4)
    assert new[1] == pytest.approx(3 / 4)


def test_of_equal_precision_the_tighter_one_is_taken_in_any_order():
    near, far = [0.0, 0.0], [10.0, 0.0]
    other = np.array([[0.5, 0.0], [13.0, 0.0]])
    negative = np.array([[100.0, 100.0]])
    for first in ([near, far], [far, near]):
        bags = Bags.from_list([np.array(first), other, negative], y=[1, 1, 0])
        model = MILD().fit(bags)
        assert bags.instances[model.detected_instances_[0]].tolist() == near


def test_detection_is_that_of_table_one():
    share = {
        make.__name__: np.mean(
            [
                (bags.instance_labels[MILD().fit(bags).detected_instances_] == 1).mean()
                for bags in map(make, range(10))
            ]
        )
        for make in (make_basic, make_rhombus, make_ring)
    }
    # The paper prints 0, 95 and 100 %.
    assert share["make_basic"] < 0.1
    assert 0.85 < share["make_rhombus"] <= 1.0
    assert share["make_ring"] > 0.99


def test_instance_level_is_the_best_instance_under_the_svm():
    bags = make_rhombus(0)
    model = MILD(level="instance").fit(bags)
    values = model.svm_.decide(bags.instances)
    expected = [part.max() for part in np.split(values, bags.offsets[1:-1])]
    np.testing.assert_allclose(model.decision_function(bags), expected)


def test_bag_level_is_a_plane_over_the_similarity_to_each_true_positive():
    bags = make_ring(3)
    model = MILD(gamma=2.0).fit(bags)
    rate = 2.0 / model.length_unit_**2
    by_hand = np.array(
        [
            [max(np.exp(-rate * ((x - p) ** 2).sum()) for x in bag) for p in model.true_positives_]
            for bag in bags
        ]
    )
    expected = by_hand @ model.svm_.weights + model.svm_.intercept
    np.testing.assert_allclose(model.decision_function(bags), expected, rtol=1e-9)


def noisy(seed, n_bags=24):
    """Bags with a weak concept, so that settings differ in what they get right."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(3, 2)) for _ in range(n_bags)]
    for part in parts[::2]:
        part[0] += 1.2
    return Bags.from_list(parts, y=np.arange(n_bags) % 2 == 0)


@pytest.mark.parametrize("level", ["bag", "instance"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chosen_setting_is_that_of_refitting_without_each_fold(seed, level):
    bags = noisy(seed)
    positive = bags.y == 1
    model = MILD(level=level).fit(bags)
    right = {}
    for C in COSTS:
        for gamma in WIDTHS:
            right[C, gamma] = 0
            for fold in stratified_folds(positive, order=content_order(bags)):
                # A whole fit on the other bags; only the unit of length is that of all bags.
                part = MILD(level=level, C=C, gamma=gamma, length_unit=model.length_unit_)
                part.fit(bags[~fold])
                right[C, gamma] += (part.predict(bags[fold]) == bags.y[fold]).sum()
    assert len(set(right.values())) > 1
    assert (model.C_, model.gamma_) == max(right, key=right.get)


def test_what_is_given_is_not_chosen():
    model = MILD(C=3.0).fit(noisy(0))
    assert model.C_ == 3.0
    assert model.gamma_ in WIDTHS
    model = MILD(gamma=0.7).fit(noisy(0))
    assert model.C_ in COSTS
    assert model.gamma_ == 0.7


def test_nothing_is_chosen_on_one_bag_of_a_class_or_many_bags(monkeypatch):
    two = MILD().fit(Bags.from_list([np.zeros((1, 2)), np.ones((1, 2))], y=[1, 0]))
    assert (two.C_, two.gamma_) == (10.0, 1.0)
    monkeypatch.setattr(mild, "_MOST_BAGS", 23)
    model = MILD().fit(noisy(0))
    assert (model.C_, model.gamma_) == (10.0, 1.0)
    monkeypatch.setattr(mild, "_MOST_BAGS", 24)
    chosen = MILD().fit(noisy(0))
    assert (chosen.C_, chosen.gamma_) != (10.0, 1.0)
