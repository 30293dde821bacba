"""Calls of instances: p-values and levels by hand, by slow twins, and on noise."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from pigmil import (
    MISVM,
    Bags,
    BagScaler,
    SoftPIGMIL,
    load_model,
    save_model,
    scan_bags,
    select_instances,
    write_bags,
)
from pigmil.datasets import make_ring
from pigmil.estimators.base import BaseMIL
from pigmil.evaluation._selection import (
    conformal_p_values,
    design_effect,
    refit_folds,
    standardized_scores,
)


class FirstFeature(BaseEstimator):
    """A method that learns nothing: the score is the first feature, scaled and shifted."""

    def __init__(self, slope=1.0, shift=0.0, pos_label=None):
        self.slope, self.shift, self.pos_label = slope, shift, pos_label

    def fit(self, bags, y=None):
        self.fitted_ = True
        return self

    def decision_function_instances(self, bags):
        return self.slope * bags.instances[:, 0] + self.shift


@pytest.fixture
def no_summaries(monkeypatch):
    """Leave out the regressions on whole bags, which the calls do not use."""
    for name in ("summary_scores", "scores_of_others"):
        path = f"pigmil.evaluation._selection.{name}"
        monkeypatch.setattr(path, lambda bags, *_: np.full(bags.n_bags, np.nan))


def draw_bags(rng, n_bags=30, size=6, bag_spread=0.0, y=None):
    values = rng.normal(size=(n_bags, size, 1)) + bag_spread * rng.normal(size=(n_bags, 1, 1))
    y = np.arange(n_bags) % 2 if y is None else y
    return Bags.from_list(list(values), y=y)


def test_p_values_by_hand_with_one_negative_per_bag():
    # No negative reaches the score: (1 - p)^n = 1/4. All but one of n do: p^n = 3/4.
    two, four = np.array([1.0, 2.0]), np.array([5.0, 1.0, 3.0, 2.0])
    assert_allclose(
        conformal_p_values(np.array([3.0, 1.5, 1.0]), two, np.arange(2)), [1 / 2, 0.75**0.5, 1.0]
    )
    assert_allclose(
        conformal_p_values(np.array([6.0, 1.5, 0.0]), four, np.arange(4)),
        [1 - 0.5**0.5, 0.75**0.25, 1.0],
    )
    # A negative with an equal score reaches it.
    assert_allclose(
        conformal_p_values(np.array([2.0]), two, np.arange(2)),
        conformal_p_values(np.array([1.5]), two, np.arange(2)),
    )


def test_design_effect_by_hand():
    # Twenty negatives in five bags of four; the two highest (a tenth) share a bag.
    negatives = np.zeros(20)
    negatives[:2] = 1.0
    units = np.repeat(np.arange(5), 4)
    # Means 1/2, 0, 0, 0, 0 about 1/10: between = 4 (0.16 + 4 * 0.01) / 4 = 0.2; within bags
    # 4 * 0.25 / 15 = 1/15; correlation (0.2 - 1/15) / (0.2 + 3/15) = 1/3; effect 1 + 3 / 3.
    assert_allclose(design_effect(negatives, units), 2.0)
    # One in each of two bags: less alike than independent ones, so no effect.
    apart = np.zeros(20)
    apart[[0, 4]] = 1.0
    assert design_effect(apart, units) == 1.0
    # Of 2,000 the 40 highest count, spread evenly here; the next 160 all come from one bag.
    many = np.zeros((4, 500))
    many[0, :200], many[:, :10] = 1.0, 2.0
    assert design_effect(many.ravel(), np.repeat(np.arange(4), 500)) == 1.0
    # Of 500 the 20 highest, here from one of two bags, and half of that bag would be the tenth.
    some = np.zeros((2, 250))
    some[0, :20] = 2.0
    some[1, :30] = 1.0
    assert design_effect(some.ravel(), np.repeat(np.arange(2), 250)) > 10


def slow_design_effect(negatives, units):
    """Analysis of variance of membership in the highest tenth, bag by bag."""
    bags, n = [np.flatnonzero(units == bag) for bag in set(units.tolist())], len(negatives)
    if not 1 < len(bags) < n:
        return 1.0
    top = (negatives >= sorted(negatives, reverse=True)[max(1, round(0.1 * n)) - 1]).astype(float)
    between = sum(len(bag) * (top[bag].mean() - top.mean()) ** 2 for bag in bags) / (len(bags) - 1)
    within = sum(len(bag) * top[bag].var() for bag in bags) / (n - len(bags))
    squared = sum(len(bag) ** 2 for bag in bags)
    total = between + ((n - squared / n) / (len(bags) - 1) - 1) * within
    rho = min(1.0, max(0.0, (between - within) / total)) if total > 0 else 0.0
    return 1 + (squared / n - 1) * rho


def share_below(p, score, negatives, units):
    """Integrate the density of the beta distribution up to a p-value: 3/4 by its definition."""
    n, k = len(negatives), sum(negatives >= score)
    delta = slow_design_effect(negatives, units)
    a, b = k / delta + 1, (n - k) / delta
    # With s = (1 - t)^b the integrand has no pole where b < 1.
    total, _ = quad(lambda s: (1 - s ** (1 / b)) ** (a - 1) / b, (1 - p) ** b, 1, epsabs=1e-12)
    return total * math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), min_size=1, max_size=40),
    st.lists(st.integers(-1, 13), min_size=1, max_size=5),
)
def test_p_values_by_integration(negatives, scores):
    values = np.array([value for value, _ in negatives], dtype=float)
    units = np.array([unit for _, unit in negatives])
    scores = np.array(scores, dtype=float)
    for score, p in zip(scores, conformal_p_values(scores, values, units), strict=True):
        if (values >= score).all():
            assert p == 1.0
        else:
            assert_allclose(share_below(p, score, values, units), 0.75, rtol=1e-6)


def step_up(p_values, level):
    """Benjamini and Hochberg's procedure: call the k smallest, for the greatest k that allows."""
    m = len(p_values)
    greatest = 0
    for k in range(1, m + 1):
        if sorted(p_values)[k - 1] <= level * k / m:
            greatest = k
    cut = sorted(p_values)[greatest - 1] if greatest else -1.0
    return [p <= cut for p in p_values]


@pytest.mark.parametrize("fdr", [0.05, 0.1, 0.3, 0.6])
def test_calls_equal_the_step_up_procedure(fdr):
    rng = np.random.default_rng(3)
    bags = draw_bags(rng, n_bags=80, size=5)
    values = bags.instances.copy()
    witness = bags.offsets[:-1][bags.y == 1]
    values[witness, 0] += 3.5
    selection = select_instances(FirstFeature(), bags.with_instances(values), fdr=fdr)
    assert_array_equal(selection.is_called, step_up(selection.p_values.tolist(), fdr))
    assert 0 < selection.is_called.sum() < len(selection.instances)
    assert np.isin(selection.called, witness).mean() > 0.9 * (1 - fdr)


def test_scores_are_in_standard_deviations_from_the_mean_of_all():
    # Mean 4; deviations -3, -1, 4; variance 26/3.
    scores = np.array([1.0, 3.0, 8.0, np.nan])
    spread = np.sqrt(26 / 3)
    assert_allclose(standardized_scores(scores), [-3 / spread, -1 / spread, 4 / spread, -np.inf])
    assert_allclose(standardized_scores(np.ones(3)), np.zeros(3))
    assert_array_equal(standardized_scores(np.array([np.nan])), [-np.inf])


def test_every_bag_is_held_out_of_its_model():
    class Remember(FirstFeature):
        def fit(self, bags, y=None):
            self.seen_ = set(bags.ids.tolist())
            return super().fit(bags)

        def decision_function_instances(self, bags):
            assert not self.seen_ & set(bags.ids.tolist())
            assert len(self.seen_) + bags.n_bags == 30
            return super().decision_function_instances(bags)

    bags = draw_bags(np.random.default_rng(0))
    held_out = refit_folds(Remember(), bags, bags.y, cv=3)
    assert_array_equal(np.bincount(held_out.fold), [10, 10, 10])
    assert np.isfinite(held_out.scores).all()


def test_bags_of_a_group_share_a_fold_and_are_one_unit():
    groups = np.repeat(np.arange(10), 3)
    bags = draw_bags(np.random.default_rng(0))
    held_out = refit_folds(FirstFeature(), bags, bags.y, groups=groups)
    assert all(len(set(held_out.fold[groups == group])) == 1 for group in range(10))
    assert_array_equal(held_out.units, groups)


def test_order_of_bags_changes_nothing():
    bags = make_ring(random_state=3)
    order = np.random.default_rng(1).permutation(bags.n_bags)
    first, second = select_instances(MISVM(), bags), select_instances(MISVM(), bags[order])
    place = {(bag, row): i for i, (bag, row) in enumerate(_keys(first, bags))}
    same = [place[key] for key in _keys(second, bags[order])]
    assert_allclose(second.p_values, first.p_values[same])
    assert first.is_called.any()
    assert_array_equal(second.is_called, first.is_called[same])


def _keys(selection, bags):
    return [(bags.ids[bags.bag_index[i]], tuple(bags.instances[i])) for i in selection.instances]


def test_slope_and_shift_of_the_scores_change_nothing():
    bags = draw_bags(np.random.default_rng(5))
    plain = select_instances(FirstFeature(), bags)
    scaled = select_instances(FirstFeature(slope=7.5, shift=-100.0), bags)
    assert_allclose(scaled.p_values, plain.p_values)


@pytest.mark.parametrize("bag_spread", [0.0, 1.0])
def test_on_noise_calls_keep_the_level(bag_spread, no_summaries):
    """All calls are false here, so that the share of draws with a call is the false share."""
    rng = np.random.default_rng(0)
    y = np.arange(210) < 10
    any_call = []
    for _ in range(150):
        bags = draw_bags(rng, n_bags=210, size=3, bag_spread=bag_spread, y=y)
        any_call.append(len(select_instances(FirstFeature(), bags).called) > 0)
    assert np.mean(any_call) <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 150)
    assert np.mean(any_call) > 0.01  # the level is not kept by calling nothing


@pytest.mark.parametrize("bag_spread", [0.0, 0.7])
def test_with_positives_calls_keep_the_level(bag_spread, no_summaries):
    """One instance of each positive bag is shifted; all others are alike in both classes."""
    rng = np.random.default_rng(1)
    false, power = [], []
    for _ in range(80):
        bags = draw_bags(rng, n_bags=80, size=6, bag_spread=bag_spread)
        values = bags.instances.copy()
        witness = bags.offsets[:-1][bags.y == 1]
        values[witness, 0] += 4.0
        called = select_instances(FirstFeature(), bags.with_instances(values)).called
        right = np.isin(called, witness).sum()
        false.append((len(called) - right) / max(1, len(called)))
        power.append(right / len(witness))
    assert np.mean(false) <= 0.1
    assert np.mean(power) > 0.3
    assert np.mean(np.array(false) <= 0.12) > 0.8  # not only on average


def test_works_through_a_pipeline_and_for_the_chosen_class():
    bags = make_ring(random_state=0)
    y = np.where(bags.y == 1, "active", "idle")
    model = make_pipeline(BagScaler(), MISVM(pos_label="active"))
    selection = select_instances(model, bags, y)
    assert selection.diagnosis.method == "MISVM"
    assert_array_equal(np.unique(bags.bag_index[selection.instances]), np.flatnonzero(bags.y == 1))
    assert (bags.instance_labels[selection.called] == 1).mean() > 0.8


def test_instances_without_a_score_are_never_called():
    rng = np.random.default_rng(3)
    bags = draw_bags(rng, n_bags=40)
    values = bags.instances.copy()
    values[bags.offsets[:-1][bags.y == 1], 0] += 9.0
    unscored = bags.offsets[:-1][bags.y == 1][:3]

    class Gaps(FirstFeature):
        def decision_function_instances(self, bags):
            scores = super().decision_function_instances(bags)
            return np.where(np.isin(scores, values[unscored, 0]), np.nan, scores)

    selection = select_instances(Gaps(), bags.with_instances(values))
    assert len(selection.called) >= 17
    assert not np.isin(unscored, selection.called).any()
    assert (selection.p_values[np.isin(selection.instances, unscored)] == 1.0).all()


def test_result_lists_calls_bags_and_reasons_for_doubt():
    bags = make_ring(random_state=1)
    selection = select_instances(MISVM(), bags)
    frame = selection.to_frame()
    assert list(frame) == ["instance", "bag", "score", "p_value", "adjusted", "called"]
    assert_array_equal(frame["instance"][frame["called"]], selection.called)
    assert len(selection.bags_without_call) == 20 - len(np.unique(frame["bag"][frame["called"]]))
    text = repr(selection)
    assert text.startswith("MISVM: good, confidence")
    assert f"{len(selection.called)} instances of 160 called positive" in text
    assert "at most 10 % of them false" in text
    assert "<table" in selection._repr_html_()
    with pytest.raises(AttributeError):
        selection.fdr = 0.2


def test_where_nothing_is_called_the_smallest_level_is_named():
    """Four negative bags whose instances are all alike count as four negatives."""
    values = [np.full((5, 1), float(number)) for number in range(8)]
    bags = Bags.from_list(values, y=np.arange(8) >= 4)
    nothing = select_instances(FirstFeature(), bags, cv=2)
    assert len(nothing.called) == 0
    assert len(nothing.bags_without_call) == 4
    level = float(re.search("calls an instance is ([0-9.]+):", repr(nothing))[1])
    assert 0.1 < level < 1
    assert len(select_instances(FirstFeature(), bags, cv=2, fdr=level).called) > 0
    assert len(select_instances(FirstFeature(), bags, cv=2, fdr=level - 0.002).called) == 0
    assert "20 instances of 4 negative bags calibrate" in repr(nothing)


def planted(seed, n_bags=40, size=12, shift=5.0):
    """Bags with four shifted instances in every second one."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_bags, size, 3))
    values[1::2, :4, 0] += shift
    labels = np.zeros((n_bags, size), dtype=int)
    labels[1::2, :4] = 1
    return Bags.from_list(
        list(values), y=np.arange(n_bags) % 2, instance_labels=labels.ravel(),
        ids=[f"{seed}-{number}" for number in range(n_bags)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    bags = planted(0)
    return make_pipeline(BagScaler(), SoftPIGMIL()).fit(bags, bags.y)


def never_fit(*args):
    raise AssertionError("A fitted model was fitted again.")


def test_a_fitted_model_is_not_fitted_again(fitted, monkeypatch, tmp_path):
    bags, new = planted(0), planted(1)
    again = select_instances(make_pipeline(BagScaler(), SoftPIGMIL()), bags)
    monkeypatch.setattr(BaseMIL, "_fit_checked", never_fit)
    own = select_instances(fitted, bags)
    assert_allclose(own.p_values, again.p_values)
    assert_array_equal(np.unique(bags.bag_index[own.instances]), np.arange(1, 40, 2))
    other = select_instances(fitted, new)
    assert_array_equal(other.instances, np.arange(new.n_instances))  # labels are not used
    for selection, truth in ((own, bags.instance_labels), (other, new.instance_labels)):
        assert truth[selection.called].mean() >= 0.85
        assert truth[selection.called].sum() >= 0.9 * truth.sum()
        assert selection.diagnosis.verdict == "good"
    loaded = load_model(save_model(fitted, tmp_path / "model.skops"))
    assert_array_equal(select_instances(loaded, new).called, other.called)
    assert_array_equal(select_instances(loaded, bags).called, own.called)
    with pytest.raises(ValueError, match="The folds of a fitted model are those of its fit"):
        select_instances(fitted, bags, groups=np.arange(40))
    with pytest.raises(ValueError, match="These bags had other labels"):
        select_instances(fitted, bags, 1 - bags.y)


def test_training_bags_are_recognised_in_any_order_and_company(fitted):
    bags, new = planted(0), planted(1)
    some = np.array([5, 2, 7, 9])
    mixed = Bags.from_list([*bags[some], *new[:3]])
    selection = select_instances(fitted, mixed)
    own = select_instances(fitted, bags)
    score = dict(zip(own.instances.tolist(), own.scores.tolist(), strict=True))
    rows = np.concatenate([np.arange(12 * bag, 12 * bag + 12) for bag in (5, 7, 9)])
    assert_allclose(selection.scores[:36], [score[row] for row in rows])
    # Bag 2 is known to be negative; of the new ones nothing is known.
    assert_array_equal(np.unique(mixed.bag_index[selection.instances]), [0, 2, 3, 4, 5, 6])
    expected = select_instances(fitted, new[:3])
    assert_allclose(selection.scores[36:], expected.scores)


def small_blocks(bags, max_bytes=None):
    return [bags._take(np.arange(start, start + 10)) for start in range(0, len(bags), 10)]


def test_selection_is_the_same_on_disk(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("pigmil.bags._lazy.LazyBags.partitions", small_blocks)
    bags, new = planted(0), planted(1)
    for name, part in (("own", bags), ("new", new)):
        write_bags(part, tmp_path / f"{name}.h5")
        lazy = scan_bags(tmp_path / f"{name}.h5")
        found, expected = select_instances(fitted, lazy), select_instances(fitted, part)
        assert_array_equal(found.called, expected.called)
    model = SoftPIGMIL(max_instances=200, random_state=0)
    lazy = scan_bags(tmp_path / "own.h5")
    found = select_instances(model, lazy).called
    assert bags.instance_labels[found].mean() >= 0.85
    assert len(found) >= 60


def test_calls_on_new_bags_keep_the_level():
    """Conformal validity: all bags of each draw are new."""
    false, power = [], []
    for seed in range(10):
        model = SoftPIGMIL().fit(planted(100 + seed, shift=3.5))
        new = planted(200 + seed, shift=3.5)
        called = new.instance_labels[select_instances(model, new).called]
        false.append(1 - called.mean() if len(called) else 0.0)
        power.append(called.sum() / new.instance_labels.sum())
    assert np.mean(false) <= 0.1
    assert np.mean(power) > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fdr": 0.0}, "fdr must lie between 0 and 1"),
        ({"cv": 1}, "the number of folds is 1"),
        ({"y": None}, "The labels of the bags are needed"),
        ({"y": [1, 0]}, "One label per bag"),
        ({"y": np.arange(30) % 3}, "two classes"),
        ({"y": np.arange(30) == 0}, "1 positive and 29 negative"),
    ],
)
def test_what_cannot_work_is_an_error(settings, message):
    bags = draw_bags(np.random.default_rng(0))
    bags = Bags.from_list(list(bags)) if settings.get("y", 0) is None else bags
    with pytest.raises(ValueError, match=message):
        select_instances(FirstFeature(), bags, **settings)


def test_unknown_positive_label_is_an_error():
    bags = draw_bags(np.random.default_rng(0))
    with pytest.raises(ValueError, match="pos_label=7 is not among"):
        select_instances(FirstFeature(pos_label=7), bags)
