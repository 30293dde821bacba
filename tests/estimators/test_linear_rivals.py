"""SIL, Max-pooling LR and MMIL against worked examples and slow versions of their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from pigmil import MMIL, SIL, Bags, MaxPoolingLR
from pigmil.estimators import _linear
from pigmil.estimators._linear import (
    Block,
    StandardisedBlocks,
    instance_loss,
    pooled_loss,
    pooled_scores,
    standardised_pieces,
)
from pigmil.estimators.mmil import posterior


def draw_bags(seed, n_bags=30, d=3, shift=3.0):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 7)), d)) for _ in range(n_bags)]
    for part in parts[::2]:
        part[0] += shift
    return Bags.from_list(parts, y=(np.arange(n_bags) + 1) % 2)


def slow_pooled_loss(coef, intercept, parts, targets, weights, sharpness):
    """Sum over bags of the logistic loss of log-mean-exp, in plain Python."""
    total = 0.0
    for part, target, weight in zip(parts, targets, weights, strict=True):
        powers = [
            math.exp(sharpness * (sum(a * b for a, b in zip(coef, x, strict=True)) + intercept))
            for x in part
        ]
        score = math.log(sum(powers) / len(powers)) / sharpness
        probability = 1 / (1 + math.exp(-score))
        total -= weight * math.log(probability if target else 1 - probability)
    return total


@settings(max_examples=25)
@given(st.integers(0, 1000), st.sampled_from([0.3, 1.0, 5.0]))
def test_pooled_loss_and_gradient_equal_the_definition(seed, sharpness):
    rng = np.random.default_rng(seed)
    bags = draw_bags(seed, n_bags=5)
    block = Block(bags.instances, bags.offsets, slice(0, 5), slice(0, bags.n_instances))
    targets, weights = (bags.y == 1).astype(float), rng.uniform(0.5, 2, size=5)
    point = rng.normal(size=4)

    def slow(p):
        return slow_pooled_loss(p[:-1], p[-1], list(bags), targets, weights, sharpness)

    value, *gradient = pooled_loss(block, point, targets, weights, sharpness)
    assert value == pytest.approx(slow(point), rel=1e-9)
    np.testing.assert_allclose(gradient, approx_fprime(point, slow, 1e-7), atol=1e-4)


def test_pooling_lies_between_mean_and_maximum_and_does_not_overflow():
    scores, offsets = np.array([1.0, 3.0, 1e4]), np.array([0, 2, 3])
    assert pooled_scores(scores, offsets, 1e-6)[0] == pytest.approx(2.0, abs=1e-4)
    assert pooled_scores(scores, offsets, 1e3)[0] == pytest.approx(3.0, abs=1e-2)
    assert pooled_scores(scores, offsets, 50.0)[1] == 1e4


def test_instance_loss_of_hard_labels_is_that_of_logistic_regression():
    bags = draw_bags(3)
    model = MMIL(positive_share=0.5, C=0.7)
    blocks = StandardisedBlocks(bags)
    labels = (bags.y[bags.bag_index] == 1).astype(float)
    weights = np.ones(bags.n_instances)
    *coef, intercept = model._maximise(blocks, labels, weights, np.zeros(4))
    instances = (bags.instances - blocks.centre) / blocks.spread
    reference = LogisticRegression(C=0.7, tol=1e-10, max_iter=10_000).fit(instances, labels)
    np.testing.assert_allclose(coef, reference.coef_[0], atol=1e-3)
    assert intercept == pytest.approx(reference.intercept_[0], abs=1e-3)
    (block,) = standardised_pieces(bags, blocks.centre, blocks.spread)
    value, *_, by_intercept = instance_loss(block, np.zeros(4), labels, weights)
    assert value == pytest.approx(bags.n_instances * math.log(2))
    assert by_intercept == pytest.approx(bags.n_instances / 2 - labels.sum())


def test_large_data_are_standardised_block_by_block_with_the_same_result(monkeypatch):
    bags = draw_bags(5)
    kept = MaxPoolingLR().fit(bags)
    monkeypatch.setattr(_linear, "_KEPT_ELEMENTS", 0)
    monkeypatch.setattr(_linear, "_PIECE_ELEMENTS", 12)
    blocks = StandardisedBlocks(bags)
    assert blocks._kept is None
    pieces = standardised_pieces(bags, blocks.centre, blocks.spread)
    sizes = [block.instances.shape[0] for block in pieces]
    assert len(sizes) > 5
    assert sum(sizes) == bags.n_instances
    in_blocks = MaxPoolingLR().fit(bags)
    np.testing.assert_allclose(in_blocks.instance_scores_, kept.instance_scores_, atol=1e-4)


@pytest.mark.parametrize("method", [MaxPoolingLR(), MMIL(), SIL()])
def test_adding_an_instance_never_lowers_the_score_of_a_bag(method):
    bags = draw_bags(7)
    method.fit(bags)
    extra = np.random.default_rng(0).normal(size=(1, 3)) * 3
    longer = Bags.from_list([np.vstack([bag, extra]) for bag in bags])
    assert (method.decision_function(longer) >= method.decision_function(bags) - 1e-12).all()


def test_max_pooling_reaches_a_stationary_point():
    bags = draw_bags(11)
    model = MaxPoolingLR(C=0.5, sharpness=2.0, tol=1e-8, max_iter=5000).fit(bags)
    blocks = StandardisedBlocks(bags)
    parts = [(bag - model.centre_) / model.spread_ for bag in bags]
    targets = (bags.y == 1).astype(float)

    def objective(p):
        return p[:-1] @ p[:-1] / 2 + 0.5 * slow_pooled_loss(
            p[:-1], p[-1], parts, targets, np.ones(len(bags)), 2.0
        )

    point = np.append(model.coef_, model.intercept_ + model.threshold_)
    assert np.abs(approx_fprime(point, objective, 1e-6)).max() < 1e-3
    assert blocks.spread == model.spread_


def test_posterior_by_hand():
    # Half of the instances are in positive bags, half of those are positive: of 8 instances 2 are
    # positive, 2 negative in positive bags, 4 negative in negative bags. An instance that is as
    # likely positive as negative among all (score 0): negatives in positive bags are 2 of 6.
    assert posterior(np.array([0.0]), 0.5, 0.5)[0] == pytest.approx(1 / (1 + 2 / 6))


def test_mmil_finds_the_share_of_positives():
    rng = np.random.default_rng(0)
    parts, y = [], []
    for number in range(60):
        part = rng.normal(size=(20, 2))
        if number % 2:
            part[:6] += 4.0
        parts.append(part)
        y.append(number % 2)
    model = MMIL(C=100.0).fit(Bags.from_list(parts, y=y))
    assert model.positive_share_ == pytest.approx(0.3, abs=0.03)
    bags = Bags.from_list(parts, y=y)
    planted = np.tile(np.arange(20) < 6, 60) & (bags.y[bags.bag_index] == 1)
    assert ((model.instance_probabilities_ > 0.5) == planted).mean() > 0.99


def test_a_fixed_share_is_kept_and_rounds_are_bounded():
    bags = draw_bags(1)
    with pytest.warns(ConvergenceWarning, match="MMIL did not converge in 1 rounds"):
        model = MMIL(positive_share=0.25, max_iter=1).fit(bags)
    assert model.positive_share_ == 0.25
    assert model.n_iter_ == 1


def test_sil_takes_classifiers_with_probabilities_only():
    bags = draw_bags(2)
    forest = RandomForestClassifier(10, random_state=0)
    model = SIL(forest).fit(bags)
    assert not hasattr(forest, "estimators_")  # the parameter is cloned, not fitted
    instances = (bags.instances - model.centre_) / model.spread_
    share = model.estimator_.predict_proba(instances)[:, 1]
    order = np.argsort(share, kind="stable")
    assert (np.diff(model.instance_scores_[order]) >= 0).all()
    assert np.isfinite(model.instance_scores_).all()


def test_sil_is_the_classifier_on_bag_labels():
    bags = draw_bags(4)
    model = SIL().fit(bags)
    instances = (bags.instances - model.centre_) / model.spread_
    reference = LogisticRegression(max_iter=1000).fit(instances, bags.y[bags.bag_index])
    np.testing.assert_allclose(
        model.instance_scores_ + model.threshold_, reference.decision_function(instances)
    )
