"""Diagnosis of a fit: its figures by hand and by slow twins, its verdicts on known cases."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from pigmil import (
    MISVM,
    Bags,
    BagScaler,
    MaxPoolingLR,
    SoftPIGMIL,
    diagnose,
    select_instances,
)
from pigmil.datasets import make_basic, make_ring
from pigmil.evaluation._diagnosis import pick_stability


class FirstFeature(BaseEstimator):
    """A method that learns nothing: the score is the first feature."""

    def __init__(self, rival=None):
        self.rival = rival

    def fit(self, bags, y=None):
        self.fitted_ = True
        if self.rival is not None:
            self.rival_auc_ = self.rival
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


def test_stability_of_random_scores_is_about_zero():
    rng = np.random.default_rng(0)
    offsets = np.arange(0, 4001, 5)
    stability, same, by_chance = pick_stability(
        rng.normal(size=4000), rng.normal(size=4000), offsets, np.ones(800, bool)
    )
    assert abs(stability) < 0.1
    assert abs(same - by_chance) < 0.05
    assert by_chance == 0.2


def test_stability_needs_bags_of_several_instances():
    scores = np.array([1.0, 2.0])
    assert np.isnan(pick_stability(scores, scores, np.array([0, 1, 2]), np.ones(2, bool))).all()


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


def test_clear_case_is_good():
    diagnosis = diagnose(FirstFeature(), draw_bags(shift=8.0))
    assert (diagnosis.verdict, diagnosis.alarms) == ("good", ())
    assert diagnosis.auc == 1.0
    assert diagnosis.stability == 1.0
    assert diagnosis.confidence == 1.0
    assert diagnosis.share_without_call == 0.0


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
    assert 0 < diagnosis.confidence < 1
    assert "explain only part of the labels" in str(diagnosis)


def test_confidence_follows_the_ranking_of_bags_and_an_alarm_halves_it():
    # The method learns nothing, and the standardization of folds hardly changes the order.
    bags = draw_bags(shift=2.5)
    best = bags.instances[:, 0].reshape(60, 5).max(axis=1)
    area = np.mean(best[bags.y == 1][:, None] > best[bags.y == 0])
    assert 0.7 < area < 1
    diagnosis = diagnose(FirstFeature(), bags)
    assert abs(diagnosis.auc - area) < 0.05
    assert_allclose(diagnosis.confidence, 2 * diagnosis.auc - 1)
    alarmed = diagnose(FirstFeature(rival=0.99), bags)
    assert len(alarmed.alarms) == 1
    assert_allclose(alarmed.confidence, diagnosis.auc - 0.5)


def test_picks_that_change_between_halves_are_weak():
    class ByHalf(FirstFeature):
        """Rank the other instances by the bags seen in fit."""

        def fit(self, bags, y=None):
            self.sign_ = 1 if bags.n_bags < 40 and 0 in bags.ids else -1
            return super().fit(bags)

        def decision_function_instances(self, bags):
            first, second = bags.instances.T
            return np.maximum(first, 3) + 10 * (self.sign_ * second > 1.0)

    diagnosis = diagnose(ByHalf(), draw_bags(n_bags=60))
    assert diagnosis.stability < 0.5
    assert diagnosis.verdict != "good"


def test_label_of_the_whole_bag_raises_an_alarm():
    """Every instance of a positive bag is moved a little: no single one is the cause."""
    bags = draw_bags(shift=0.0)
    values = bags.instances + 1.5 * np.repeat(bags.y, bags.sizes)[:, None]
    diagnosis = diagnose(FirstFeature(), bags.with_instances(values))
    assert any("whole bags" in alarm for alarm in diagnosis.alarms)
    assert diagnosis.bag_summary_auc > diagnosis.auc
    assert diagnosis.verdict == "weak"
    assert not diagnose(FirstFeature(), draw_bags()).alarms


def test_two_groups_that_explain_the_labels_raise_an_alarm():
    diagnosis = diagnose(FirstFeature(rival=0.99), draw_bags())
    assert diagnosis.rival_auc == 0.99
    assert any("cannot decide between the two groups" in alarm for alarm in diagnosis.alarms)
    assert not diagnose(FirstFeature(rival=0.8), draw_bags()).alarms


@pytest.mark.parametrize("method", [SoftPIGMIL(), MaxPoolingLR()])
def test_impostors_that_come_with_the_positives_raise_an_alarm(method):
    diagnosis = diagnose(method, make_basic(random_state=0))
    assert diagnosis.verdict == "weak"
    assert diagnosis.alarms
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


def test_few_bags_have_no_stability():
    diagnosis = diagnose(FirstFeature(), draw_bags(n_bags=6))
    assert np.isnan(diagnosis.stability)
    assert "too few bags" in str(diagnosis)


@pytest.mark.parametrize(("n_bags", "verdict"), [(8, "weak"), (10, "nothing found")])
def test_what_no_test_could_find_is_not_called_nothing(n_bags, verdict):
    """A perfect ranking of 4 + 4 bags has p = 1/70 > 0.01, of 5 + 5 bags p = 1/252."""
    diagnosis = diagnose(FirstFeature(), draw_bags(2, n_bags=n_bags, shift=0.0))
    assert diagnosis.auc_p_value > 0.01
    assert diagnosis.verdict == verdict
    assert ("even a perfect ranking" in str(diagnosis)) == (verdict == "weak")


def test_text_fits_a_screen_and_dict_is_plain():
    bags = make_ring(random_state=1)
    diagnosis = diagnose(make_pipeline(BagScaler(), MISVM()), bags)
    assert len(str(diagnosis).splitlines()) <= 24
    assert "AUC 1.00 (95 % interval" in str(diagnosis)
    assert "false discovery rate of 10 %" in str(diagnosis)
    plain = diagnosis.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["n_called"] == len(diagnosis.selection.called)
    assert plain["rival_auc"] is None
    assert repr(diagnosis).startswith("Diagnosis('good', confidence=")


def test_a_selection_saves_its_fits():
    class Count(FirstFeature):
        fits = 0

        def fit(self, bags, y=None):
            Count.fits += 1
            return super().fit(bags)

    bags = draw_bags()
    selection = select_instances(Count(), bags, fdr=0.2)
    assert Count.fits == 5
    diagnosis = diagnose(Count(), bags, selection=selection)
    assert Count.fits == 7
    assert diagnosis.selection is selection
    assert diagnosis.to_dict()["fdr"] == 0.2


@pytest.mark.parametrize("grouped", [False, True])
def test_order_of_bags_changes_nothing(grouped):
    bags = draw_bags(shift=2.0)
    groups = np.arange(60) // 2
    order = np.random.default_rng(1).permutation(60)
    first = diagnose(FirstFeature(), bags, groups=groups if grouped else None)
    second = diagnose(FirstFeature(), bags[order], groups=groups[order] if grouped else None)
    assert first.auc == second.auc
    assert_allclose(first.stability, second.stability)
    assert first.verdict == second.verdict
