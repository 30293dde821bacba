"""The noisy-or model, DD and EM-DD."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import check_grad
from sklearn.exceptions import ConvergenceWarning

from pigmil import DD, EMDD, Bags
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators._noisy_or import (
    NoisyOr,
    bag_loss,
    climb,
    log_density_at,
    log_membership,
    pick_starts,
)
from pigmil.estimators._selection import min_error_threshold
from pigmil.estimators.diverse_density import alternate


def plain_loss(parts, positive, concept, scales):
    """Product of probabilities, word by word; only for values far from 0 and 1."""
    density = 1.0
    for part, is_positive in zip(parts, positive, strict=True):
        nobody = 1.0
        for x in part:
            p = np.exp(-((scales * (x - concept)) ** 2).sum())
            nobody *= 1 - p
        density *= (1 - nobody) if is_positive else nobody
    return -np.log(density)


def draw(seed, n_bags=5, width=3):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 5)), width)) for _ in range(n_bags)]
    positive = np.arange(n_bags) % 2 == 0
    return Bags.from_list(parts), parts, positive, rng


@given(st.integers(0, 10**6))
def test_loss_is_the_product_of_probabilities(seed):
    bags, parts, positive, rng = draw(seed)
    concept, scales = rng.normal(size=3), rng.uniform(0.1, 1.0, size=3)
    model = NoisyOr(bags.instances, bags.offsets, positive)
    value, _ = model.loss(np.concatenate([concept - model.centre, scales]))
    assert value == pytest.approx(plain_loss(parts, positive, concept, scales), rel=1e-8)


@given(st.integers(0, 10**6), st.sampled_from([0.3, 1.0, 4.0]))
def test_gradient_agrees_with_finite_differences(seed, size):
    bags, _, positive, rng = draw(seed)
    model = NoisyOr(bags.instances, bags.offsets, positive)
    at = np.concatenate([rng.normal(size=3), size * rng.uniform(0.2, 1.0, size=3)])
    gradient = model.loss(at)[1]
    error = check_grad(lambda v: model.loss(v)[0], lambda v: model.loss(v)[1], at)
    assert error <= 1e-5 * max(1.0, np.linalg.norm(gradient))


def test_loss_of_one_positive_bag_by_hand():
    # p = 1/2 twice: 1 - (1/2)^2 = 3/4. Slope of -log(3/4): -odds * none / any = -1 * (1/4) / (3/4).
    loss, slope = bag_loss(np.log([0.5, 0.5]), np.array([0, 2]), np.array([True]))
    assert loss == pytest.approx(-np.log(0.75))
    np.testing.assert_allclose(slope, [-1 / 3, -1 / 3])
    loss, slope = bag_loss(np.log([0.5, 0.2]), np.array([0, 2]), np.array([False]))
    assert loss == pytest.approx(-np.log(0.5 * 0.8))
    np.testing.assert_allclose(slope, [1.0, 0.25])


def test_probabilities_of_zero_and_one_stay_finite():
    for positive in (True, False):
        for e in ([0.0, 0.0], [-1e5, -2e5], [0.0, -1e5], [-35.999, -36.001]):
            loss, slope = bag_loss(np.array(e), np.array([0, 2]), np.array([positive]))
            assert np.isfinite(loss)
            assert np.isfinite(slope).all()
    # Far from everything the positive bag counts the exponent of its nearest instance.
    assert bag_loss(np.array([-1e5, -2e5]), np.array([0, 2]), np.array([True]))[0] == 1e5


def test_the_two_ways_to_a_positive_bag_meet():
    below, above = (
        bag_loss(np.array([e, e - 1]), np.array([0, 2]), np.array([True]))[0]
        for e in (-36.4, -36.3)
    )
    assert below - above == pytest.approx(0.1, abs=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([2, 30]))
def test_density_at_instances_is_the_loss_of_the_model_there(seed, width):
    bags, _, positive, rng = draw(seed, width=width)
    queries = np.concatenate([rng.normal(size=(2, width)), bags.instances[:1]])
    scale = 0.7 / np.sqrt(width)
    scales = np.full(width, scale)
    exponents = [log_membership(bags.instances, q, scales) for q in queries]
    expected = [-bag_loss(e, bags.offsets, positive)[0] for e in exponents]
    np.testing.assert_allclose(
        log_density_at(queries, bags, positive, scale), expected, rtol=2e-4, atol=1e-4
    )


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=12))
def test_cut_makes_as_few_errors_as_any(pairs):
    values = np.array([float(v) for v, _ in pairs])
    positive = np.array([p for _, p in pairs])
    candidates = np.arange(-4.5, 4.0, 0.5)
    fewest = min(((values > c) != positive).sum() for c in candidates)
    assert ((values > min_error_threshold(values, positive)) != positive).sum() == fewest


def test_climb_reaches_a_stationary_point():
    bags = make_ring(0, n_positive_bags=6, n_negative_bags=6)
    positive = bags.y == 1
    model = NoisyOr(bags.instances, bags.offsets, positive)
    found = climb(model, np.zeros(2), np.ones(2), max_iter=500, tol=1e-14)
    gradient = model.loss(np.concatenate([found.point - model.centre, found.scales]))[1]
    assert np.abs(gradient).max() < 1e-3
    assert found.loss < model.loss(np.concatenate([-model.centre, np.ones(2)]))[0]


def test_starts_are_the_densest_instances_of_each_bag_in_turn():
    bags = Bags.from_list([np.zeros((2, 1)), np.ones((3, 1)), np.ones((1, 1))])
    positive = np.array([True, True, False])
    densities = np.array([-3.0, -1.0, -2.0, -5.0, -4.0, np.nan])
    every = pick_starts(bags, positive, densities, None)
    # The best of each bag (-1 and -2), then the second of each (-3 and -4), then the third.
    assert every.tolist() == [1, 2, 0, 4, 3]
    assert pick_starts(bags, positive, densities, 2).tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", [DD, EMDD])
def test_the_same_model_for_any_number_of_jobs(method):
    bags = make_rhombus(1)
    one, two = (method(n_jobs=n, n_starts=4).fit(bags) for n in (1, 2))
    np.testing.assert_array_equal(one.concept_, two.concept_)
    np.testing.assert_array_equal(one.losses_, two.losses_)


def test_dd_detects_by_density_as_in_table_one():
    share = {}
    for make in (make_basic, make_rhombus, make_ring):
        hits = []
        for seed in range(6):
            bags = make(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model = DD(n_starts=1, max_iter=5, score_by="density").fit(bags)
            hits.append((bags.instance_labels[model.detected_instances_] == 1).mean())
        share[make.__name__] = np.mean(hits)
    # The paper prints 30, 95 and 95 %.
    assert share["make_basic"] < 0.7
    assert share["make_rhombus"] > 0.9
    assert share["make_ring"] > 0.9


def test_dd_finds_the_feature_that_matters():
    rng = np.random.default_rng(5)
    parts, y = [], []
    for i in range(30):
        part = rng.uniform(-3, 3, size=(4, 2))
        part[:, 0] = rng.uniform(1, 3, size=4)
        if i % 2:
            part[0, 0] = rng.normal(0.0, 0.1)
        parts.append(part)
        y.append(i % 2)
    bags = Bags.from_list(parts, y=y)
    model = DD(max_iter=300).fit(bags)
    assert model.scales_[0] > 5 * model.scales_[1]
    assert abs(model.concept_[0]) < 0.3
    assert (bags.offsets[:-1][bags.y == 1] == model.detected_instances_).mean() >= 0.9
    assert model.score(bags, bags.y) >= 0.95


def test_a_search_cut_short_warns():
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        DD(max_iter=1, tol=0.0).fit(make_rhombus(0))


def test_em_dd_keeps_the_best_concept_and_stops_when_the_loss_rises():
    for seed in range(4):
        bags = make_rhombus(seed)
        positive = bags.y == 1
        start = bags.instances[int(bags.offsets[:-1][positive][0])]
        concept, losses = alternate(bags, positive, start, np.ones(2), max_iter=20, tol=1e-6)
        assert concept.loss == min(losses)
        assert all(a > b for a, b in itertools.pairwise(losses[:-1]))
        # The loss is that of the instances the concept itself finds most likely.
        by_hand = 0.0
        for part, is_positive in zip(bags, positive, strict=True):
            e = log_membership(part, concept.point, concept.scales).max()
            by_hand += -e if is_positive else -np.log1p(-np.exp(e))
        assert concept.loss == pytest.approx(by_hand, rel=1e-6)


def test_em_dd_by_hand_with_bags_of_one_instance():
    # One positive at 0 and one negative at 3: the concept sits on the positive at scale 1 and
    # only moves away from the negative; the loss is that of plain logistic distances.
    bags = Bags.from_list([np.array([[0.0]]), np.array([[3.0]])], y=[1, 0])
    model = EMDD(length_unit=1.0).fit(bags)
    assert model.loss_ <= -np.log1p(-np.exp(-9.0)) + 1e-9
    assert model.predict(bags).tolist() == [1, 0]
