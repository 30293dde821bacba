"""MILIS: the initial prototypes, the moves, the falling objective, the pruning."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pigmil import MILIS, Bags
from pigmil.distances import embed_bags
from pigmil.estimators import milis
from pigmil.estimators.milis import _initial_prototypes, _move
from tests.estimators.toy import toy_bags


def hinge_loss(values, positive, costs):
    margins = np.where(positive, values, -values)
    return (np.where(positive, costs[1], costs[0]) * np.maximum(0, 1 - margins)).sum()


def test_initial_prototypes_by_hand():
    # Negatives lie at 0, 0, 1 and 9: density is highest at 0 and lowest far away from them.
    bags = Bags.from_list(
        [np.array([[0.5], [30.0], [9.5]]), np.array([[9.0], [0.0]]), np.array([[1.0], [0.0]])],
        y=[1, 0, 0],
    )
    assert _initial_prototypes(bags, bags.y == 1, 1.0).tolist() == [1, 4, 6]


def test_far_instances_do_not_underflow():
    bags = Bags.from_list([np.array([[1e3], [2e3]]), np.array([[0.0], [1.0]])], y=[1, 0])
    assert _initial_prototypes(bags, bags.y == 1, 1.0)[0] == 1


@given(seed=st.integers(0, 10**6))
def test_a_move_takes_the_best_instance_of_each_bag_in_turn(seed):
    bags = toy_bags(seed, n_bags=8)
    positive, costs = bags.y == 1, (1.0, 2.0)
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=8) * (rng.uniform(size=8) > 0.2)
    similarity = embed_bags(bags, bags.instances, 0.5)
    chosen = bags.offsets[:-1].copy()
    values = similarity[:, chosen] @ weights - 0.1
    moved, new_values = _move(bags.offsets, similarity, chosen, weights, values, positive, costs)
    expected = chosen.copy()
    for bag in range(8):
        tries = []
        for candidate in range(bags.offsets[bag], bags.offsets[bag + 1]):
            trial = expected.copy()
            trial[bag] = candidate
            tries.append(hinge_loss(similarity[:, trial] @ weights - 0.1, positive, costs))
        best = int(np.argmin(tries))
        if tries[best] < tries[expected[bag] - bags.offsets[bag]] - 1e-8:
            expected[bag] = bags.offsets[bag] + best
    assert moved.tolist() == expected.tolist()
    np.testing.assert_allclose(new_values, similarity[:, moved] @ weights - 0.1, atol=1e-10)


@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.3, 3.0, 100.0]))
def test_the_objective_never_rises(seed, C):
    method = MILIS(C=C, gamma=1.0).fit(toy_bags(seed, shift=1.0))
    assert (np.diff(method.objectives_) <= 0).all()
    assert method.n_iter_ == len(method.objectives_)


def test_the_alternation_ends_where_no_move_helps(monkeypatch):
    bags = wide_bags()
    monkeypatch.setattr(milis, "_LEAST_SHARE", 0.0)
    method = MILIS(C=3.0, gamma=0.1, tol=1e-6).fit(bags)
    similarity = embed_bags(bags, bags.instances, method.decay_)
    chosen = method.bag_prototypes_
    # Weights belong to the prototypes in the order in which bags were visited.
    weights = np.zeros(bags.n_bags)
    weights[bags.bag_index[method.prototype_instances_]] = method.coef_
    values = similarity[:, chosen] @ weights + method.intercept_
    again, _ = _move(bags.offsets, similarity, chosen, weights, values, bags.y == 1, (1.0, 1.0))
    np.testing.assert_array_equal(again, chosen)


def test_the_svm_is_that_of_scikit_learn_on_the_kept_prototypes():
    bags = toy_bags(1)
    method = MILIS(C=2.0, gamma=0.5, length_unit=1.0, tol=1e-6).fit(bags)
    X = np.array(
        [
            [np.exp(-0.5 * ((bag - p) ** 2).sum(axis=1).min()) for p in method.prototypes_]
            for bag in bags
        ]
    )
    svc = SVC(kernel="linear", C=2.0, tol=1e-6).fit(X, bags.y)
    np.testing.assert_allclose(method.decision_function(bags), svc.decision_function(X), atol=1e-3)


def test_pruning_drops_light_prototypes(monkeypatch):
    bags = toy_bags(1)
    monkeypatch.setattr(milis, "_LEAST_SHARE", 0.0)
    everything = MILIS().fit(bags)
    monkeypatch.setattr(milis, "_LEAST_SHARE", 0.5)
    pruned = MILIS().fit(bags)
    assert len(everything.coef_) == bags.n_bags
    heavy = np.abs(everything.coef_) >= 0.5 * np.abs(everything.coef_).max()
    np.testing.assert_array_equal(
        pruned.prototype_instances_, everything.prototype_instances_[heavy]
    )
    np.testing.assert_array_equal(pruned.bag_prototypes_, everything.bag_prototypes_)


def wide_bags():
    """Many features: prototypes move in several rounds."""
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(6, 20)) for _ in range(30)]
    for number in range(0, 30, 2):
        parts[number][-1] += 0.5
    return Bags.from_list(parts, y=[1, 0] * 15)


def test_several_rounds_lower_the_objective_and_too_few_warn():
    bags = wide_bags()
    method = MILIS(C=3.0, gamma=0.1).fit(bags)
    assert method.n_iter_ > 2
    assert method.objectives_[-1] < method.objectives_[0] - 0.01
    with pytest.warns(ConvergenceWarning, match="max_iter=2 trainings"):
        MILIS(C=3.0, gamma=0.1, max_iter=2).fit(bags)
