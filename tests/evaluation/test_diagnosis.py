"""Diagnosis of a fit: its figures by hand and by slow twins, its verdicts on known cases."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from pigmil import MISVM, PIGMIL, Bags, BagScaler, SoftPIGMIL, diagnose, load_model, save_model
from pigmil._core.errors import ChanceWarning
from pigmil.datasets import make_basic, make_ring
from pigmil.evaluation._diagnosis import auc_by_unit, judge, pick_stability


class FirstFeature(BaseEstimator):
    """A method that learns nothing: the score is the first feature."""

    def fit(self, bags, y=None):
        self.fitted_ = True
        return self

    def decision_function_instances(self, bags):
        return bags.instances[:, 0]


def draw_bags(seed=0, n_bags=60, shift=6.0, y=None):
    """Bags of five normal instances with two features; the first of a positive bag is moved."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_bags, 5, 2))
    y = np.arange(n_bags) % 2 if y is None else y
    values[y == 1, 0, 0] += shift
    return Bags.from_list(list(values), y=y)


def test_stability_by_hand():
    # First bag: each pick beats one of the two others by the other scores. Second: the same pick.
    first, second = np.array([1.0, 2.0, 3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0, 0.0, 5.0])
    stability, same, by_chance = pick_stability(
        first, second, np.array([0, 3, 5]), np.array([True, True])
    )
    assert stability == 2 * (0.5 + 1.0) / 2 - 1
    assert same == 0.5
    assert_allclose(by_chance, (1 / 3 + 1 / 2) / 2)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=6),
        min_size=1,
        max_size=5,
    )
)
def test_stability_equals_its_slow_twin(bags):
    shares = []
    for bag in bags:
        for mine, other in ((0, 1), (1, 0)):
            scores = [pair[mine] for pair in bag]
            pick = scores.index(max(scores))
            points = [
                1.0 if pair[other] < bag[pick][other] else 0.5 * (pair[other] == bag[pick][other])
                for place, pair in enumerate(bag)
                if place != pick
            ]
            shares.append(sum(points) / len(points))
    flat = np.array([pair for bag in bags for pair in bag], dtype=float)
    offsets = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])])
    stability, _, _ = pick_stability(flat[:, 0], flat[:, 1], offsets, np.ones(len(bags), bool))
    assert_allclose(stability, 2 * sum(shares) / len(shares) - 1, atol=1e-12)


def test_stability_needs_bags_of_several_instances():
    scores = np.array([1.0, 2.0])
    assert np.isnan(pick_stability(scores, scores, np.array([0, 1, 2]), np.ones(2, bool))).all()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 3)), min_size=4, max_size=9)
)
def test_area_and_its_parts_equal_their_slow_twins(bags):
    values, positive, units = (np.array(part) for part in zip(*bags, strict=True))
    if positive.all() or not positive.any():
        return
    # The area of every pair, and how far the mean over the pairs of a bag is from that of all.
    pairs = [[(p > n) + 0.5 * (p == n) for n in values[~positive]] for p in values[positive]]
    area = np.mean(pairs)
    away = np.empty(len(values))
    away[positive] = (np.mean(pairs, axis=1) - area) / positive.sum()
    away[~positive] = (np.mean(pairs, axis=0) - area) / (~positive).sum()
    parts = [away[units == unit].sum() for unit in range(units.max() + 1)]
    auc, found = auc_by_unit(values.astype(float), positive, units)
    assert_allclose(auc, area)
    assert_allclose(found, parts, atol=1e-12)


def test_interval_covers_the_true_area():
    """The best of five normal values, one of them shifted by 2, against the best of five others."""
    draws = np.random.default_rng(1).normal(size=(2, 200_000, 5))
    draws[1, :, 0] += 2.0
    ordinary, shifted = draws.max(axis=2)
    area = np.mean(shifted > ordinary)
    covered = []
    for seed in range(60):
        low, high = diagnose(FirstFeature(), draw_bags(seed, shift=2.0)).auc_interval
        covered.append(low <= area <= high)
    assert 0.85 <= np.mean(covered) <= 1.0


def test_interval_of_few_groups_is_wider_than_that_of_many_bags():
    """Ten groups of six equal bags hold as much information as ten bags."""
    ten = draw_bags(3, n_bags=10, shift=1.5)
    order = np.repeat(np.arange(10), 6)
    bags = Bags.from_list([ten.instances[5 * bag : 5 * bag + 5] for bag in order], y=ten.y[order])
    alone = diagnose(FirstFeature(), bags).auc_interval
    grouped = diagnose(FirstFeature(), bags, groups=order).auc_interval
    assert grouped[1] - grouped[0] > 1.5 * (alone[1] - alone[0]) > 0


CASES = [
    # auc, low, least, lead, stability, alarms -> verdict, confidence
    ((1.0, 0.95, 0.7), {}, "good", 1.0),
    ((1.0, 0.95, 0.7), {"stability": 1.0, "lead": 9.0}, "good", 1.0),
    ((1.0, 0.95, 0.7), {"lead": 0.0}, "good", 0.75),
    ((0.9, 0.8, 0.7), {}, "good", 0.8),
    ((0.9, 0.79, 0.7), {}, "weak", 0.4),
    ((0.82, 0.81, 0.7), {"lead": 0.0}, "weak", 0.48),
    ((1.0, 0.95, 0.7), {"n_alarms": 1}, "weak", 0.5),
    ((1.0, 0.95, 0.7), {"n_alarms": 3}, "weak", 0.5),
    ((1.0, 0.95, 0.7), {"stability": 0.4}, "weak", 0.5),
    ((1.0, 0.76, 1.01), {}, "weak", 0.5),
    ((0.7, 0.3, 1.01), {}, "weak", 0.2),
    ((0.4, 0.1, 1.01), {}, "nothing found", 0.0),
    ((0.69, 0.6, 0.7), {}, "nothing found", 0.0),
    ((0.8, 0.5, 0.7), {"n_alarms": 1}, "nothing found", 0.0),
    ((0.2, 0.1, 0.7), {}, "nothing found", 0.0),
]


@pytest.mark.parametrize(("areas", "more", "verdict", "confidence"), CASES)
def test_table_of_verdicts(areas, more, verdict, confidence):
    word, number, reasons = judge(*areas, **more)
    assert (word, number) == (verdict, pytest.approx(confidence))
    assert reasons


@settings(max_examples=300, deadline=None)
@given(
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0.5, 1.5),
    st.floats(-9, 9) | st.just(np.nan),
    st.floats(-1, 1) | st.just(np.nan),
    st.integers(0, 3),
)
def test_words_and_number_never_contradict(auc, gap, least, lead, stability, n_alarms):
    low = auc * gap
    word, number, reasons = judge(
        auc, low, least, lead=lead, stability=stability, n_alarms=n_alarms
    )
    assert word == ("nothing found" if number == 0 else "good" if number > 0.5 else "weak")
    assert 0 <= number <= 1
    assert reasons
    assert not (n_alarms and word == "good")


def test_clear_case_is_good():
    diagnosis = diagnose(FirstFeature(), draw_bags(shift=8.0))
    assert (diagnosis.verdict, diagnosis.alarms) == ("good", ())
    assert diagnosis.auc == 1.0
    assert diagnosis.stability == 1.0


def test_noise_is_called_nothing_and_rarely_anything_else():
    verdicts = [
        diagnose(FirstFeature(), draw_bags(seed, n_bags=40, shift=0.0)).verdict
        for seed in range(40)
    ]
    assert verdicts.count("nothing found") >= 38
    diagnosis = diagnose(FirstFeature(), draw_bags(1, shift=0.0))
    assert diagnosis.confidence == 0.0
    assert "nothing found" in str(diagnosis)
    assert "Do not rely on any of the scores" in str(diagnosis)


def test_weak_signal_is_weak():
    diagnosis = diagnose(FirstFeature(), draw_bags(shift=1.5))
    assert diagnosis.verdict == "weak"
    assert 0 < diagnosis.confidence <= 0.5
    assert "explain only part of the labels" in str(diagnosis)


def test_picks_that_change_without_the_bag_are_weak():
    class BySize(FirstFeature):
        """Rank the other instances by the number of bags seen in fit."""

        def fit(self, bags, y=None):
            self.sign_ = 1 if bags.n_bags == 60 else -1
            return self

        def decision_function_instances(self, bags):
            first, second = bags.instances.T
            return np.maximum(first, 3) + 10 * (self.sign_ * second > 1.0)

    diagnosis = diagnose(BySize(), draw_bags(n_bags=60))
    assert diagnosis.stability < 0.5
    assert diagnosis.verdict != "good"


def test_label_of_the_whole_bag_raises_an_alarm():
    """Every instance of a positive bag is moved a little: no single one is the cause."""
    bags = draw_bags(n_bags=200, shift=0.0)
    values = bags.instances + 1.0 * np.repeat(bags.y, bags.sizes)[:, None]
    diagnosis = diagnose(FirstFeature(), bags.with_instances(values))
    assert any("whole bags" in alarm for alarm in diagnosis.alarms)
    assert diagnosis.bag_summary_auc > diagnosis.auc
    assert diagnosis.verdict == "weak"
    assert not diagnose(FirstFeature(), draw_bags()).alarms


def test_something_that_comes_along_raises_an_alarm():
    """All other instances of positive bags are moved along a feature that the score ignores."""
    bags = draw_bags(n_bags=100, shift=4.0)
    values = bags.instances.copy()
    values[:, 1] += 2.0 * np.repeat(bags.y, bags.sizes) * (np.arange(len(values)) % 5 > 0)
    diagnosis = diagnose(FirstFeature(), bags.with_instances(values))
    assert any("something else comes with the positive ones" in text for text in diagnosis.alarms)
    assert diagnosis.verdict == "weak"
    assert not diagnose(FirstFeature(), bags).alarms


def test_differences_inside_their_error_raise_no_alarm():
    """The second feature says a little more than the score, which is the first."""
    better = 0
    for seed in range(40):
        bags = draw_bags(seed, shift=2.5)
        diagnosis = diagnose(FirstFeature(), bags)
        better += diagnosis.bag_summary_auc > diagnosis.auc
        assert not diagnosis.alarms
    assert better >= 3  # which the rule would otherwise take for alarms


def test_impostors_that_come_with_the_positives_raise_an_alarm():
    diagnosis = diagnose(SoftPIGMIL(), make_basic(random_state=0))
    assert diagnosis.verdict == "weak"
    assert any("cannot decide between the two groups" in alarm for alarm in diagnosis.alarms)
    assert diagnosis.confidence <= 0.5


def test_wrong_labels_raise_an_alarm_that_lists_the_bags():
    bags = draw_bags(n_bags=200, shift=9.0)
    y = bags.y.copy()
    wrong = np.flatnonzero(y == 1)[:20]
    y[wrong] = 0
    diagnosis = diagnose(FirstFeature(), bags, y)
    assert any("labels may be wrong" in alarm for alarm in diagnosis.alarms)
    assert len(diagnosis.suspects) > 2
    assert set(diagnosis.suspects) <= {str(bags.ids[bag]) for bag in wrong}


def test_a_fitted_model_is_judged_by_what_it_held_out(tmp_path):
    bags = make_ring(random_state=1)
    model = make_pipeline(BagScaler(), SoftPIGMIL()).fit(bags, bags.y)
    diagnosis = diagnose(model)
    assert diagnosis.verdict == "good"
    assert diagnosis.auc == pytest.approx(model[-1].held_out_auc_)
    assert diagnosis.stability > 0.9
    assert diagnose(model, bags) == diagnosis
    loaded = load_model(save_model(model, tmp_path / "model.skops"))
    assert str(diagnose(loaded)) == str(diagnosis)
    walk = PIGMIL(random_state=0).fit(bags)
    assert diagnose(walk).auc == walk.held_out_auc_ > 0.9
    assert diagnose(walk).verdict == "good"
    with pytest.raises(ValueError, match="MISVM keeps no scores of bags held out"):
        diagnose(MISVM().fit(bags))


@pytest.mark.parametrize("method", [SoftPIGMIL(), PIGMIL(random_state=0)])
def test_a_fit_no_better_than_chance_warns(method):
    with pytest.warns(ChanceWarning, match="found nothing: ranked by their best instance"):
        method.fit(draw_bags(1, shift=0.0))
    assert diagnose(method).verdict == "nothing found"


def test_text_fits_a_screen_and_dict_is_plain():
    diagnosis = diagnose(make_pipeline(BagScaler(), MISVM()), make_ring(random_state=1))
    assert len(str(diagnosis).splitlines()) <= 24
    assert "AUC 1.00 (95 % interval" in str(diagnosis)
    plain = diagnosis.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["rival_auc"] is None
    assert repr(diagnosis).startswith("Diagnosis(MISVM: 'good', confidence=")


@pytest.mark.parametrize("grouped", [False, True])
def test_order_of_bags_changes_nothing(grouped):
    bags = draw_bags(shift=2.0)
    groups = np.arange(60) // 2
    order = np.random.default_rng(1).permutation(60)
    first = diagnose(FirstFeature(), bags, groups=groups if grouped else None)
    second = diagnose(FirstFeature(), bags[order], groups=groups[order] if grouped else None)
    assert_allclose(first.auc, second.auc)
    assert_allclose(first.stability, second.stability)
    assert first.verdict == second.verdict
