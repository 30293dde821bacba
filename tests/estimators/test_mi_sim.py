"""mi-Sim: candidates, ranking from the shared graph pieces, and the final SVM."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from pigmil import Bags, MiSim
from pigmil._core.segments import quota
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.distances import length_unit
from pigmil.distances.similarity import log_density
from pigmil.estimators import mi_sim
from pigmil.estimators._selection import (
    content_order,
    min_error_threshold,
    one_se_threshold,
    stratified_folds,
)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(1, 60))
def test_bound_is_met_as_closely_as_possible(sizes, bound):
    level = quota(np.array(sizes), bound)
    assert np.minimum(sizes, level).sum() <= max(bound, len(sizes))
    if level < max(sizes):
        assert np.minimum(sizes, level + 1).sum() > bound


@pytest.mark.slow
def test_the_least_dense_instances_of_each_bag_are_candidates():
    bags = make_basic(0)
    model = MiSim(max_candidates=60).fit(bags)
    positive = bags.y == 1
    density = log_density(bags.instances, bags[~positive], unit=1.0)
    for bag in np.flatnonzero(positive):
        start, end = bags.offsets[bag], bags.offsets[bag + 1]
        expected = start + np.argsort(density[start:end])[:3]
        inside = model.candidates_[(model.candidates_ >= start) & (model.candidates_ < end)]
        assert set(inside) == set(expected)
    assert model.ranking_scores_.shape == model.candidates_.shape


def slow_ranks(confidences, i):
    others = [j for j in range(len(confidences)) if j != i and confidences[i, j] > 0]
    return {j: 1 + sum(confidences[i, k] > confidences[i, j] for k in others) for j in others}


def test_ranking_by_the_definitions_on_a_small_set():
    """Exemplar SVMs by libsvm, ranks, quasi-cliques by enumeration, and the walk, in loops."""
    rng = np.random.default_rng(4)
    negatives = rng.normal(size=(12, 2))
    parts = [rng.normal(2.0, 0.7, size=(2, 2)) for _ in range(3)]
    bags = Bags.from_list([*parts, negatives[:6], negatives[6:]], y=[1, 1, 1, 0, 0])
    model = MiSim().fit(bags)
    spread = np.sqrt(bags.instances.var(axis=0).mean())
    x = (np.concatenate(parts) - bags.instances.mean(axis=0)) / spread
    negatives = (negatives - bags.instances.mean(axis=0)) / spread
    m = len(x)
    confidences, own = np.empty((m, m)), np.empty(m)
    for i in range(m):
        svm = SVC(kernel="linear", class_weight={1: 12, 0: 1}, tol=1e-8)
        svm.fit(np.concatenate([x[i : i + 1], negatives]), [1] + [0] * 12)
        confidences[i] = svm.decision_function(x)
        own[i] = confidences[i, i] / np.linalg.norm(svm.coef_)
    ranks = [slow_ranks(confidences, i) for i in range(m)]
    alike = np.array(
        [
            [1 / (ranks[i][j] * ranks[j][i]) if j in ranks[i] and i in ranks[j] else 0.0
             for j in range(m)]
            for i in range(m)
        ]
    )  # fmt: skip
    sizes = np.zeros((m, m))
    for subset in range(1, 2**m):
        members = [v for v in range(m) if subset >> v & 1]
        k = len(members)
        edges = sum(alike[a, b] > 0 for a in members for b in members if a < b)
        if k > 1 and edges >= (9 * k * (k - 1) // 2) // 10:
            for a in members:
                for b in members:
                    sizes[a, b] = max(sizes[a, b], k)
    weights = alike * sizes
    totals = weights.sum(axis=1, keepdims=True)
    weights = weights / np.where(totals > 0, totals, 1.0)
    scores = np.ones(m)
    for _ in range(11):
        scores = 0.2 * own + 0.8 * weights @ scores
    np.testing.assert_allclose(model.ranking_scores_, scores, rtol=5e-3)


def test_top_of_each_bag_trains_the_svm():
    bags = make_ring(0)
    positive = bags.y == 1
    model = MiSim(C=0.1, kernel="linear").fit(bags)
    top = []
    for bag in np.flatnonzero(positive):
        start, end = bags.offsets[bag], bags.offsets[bag + 1]
        ranking = model.ranking_scores_[np.searchsorted(model.candidates_, range(start, end))]
        top.append(start + np.argmax(ranking))
    rows = np.concatenate([bags.instances[top], bags[~positive].instances])
    rows = (rows - bags.instances.mean(axis=0)) / np.sqrt(bags.instances.var(axis=0).mean())
    svm = SVC(kernel="linear", C=0.1, class_weight="balanced", tol=1e-6)
    svm.fit(rows, np.arange(len(rows)) < len(top))
    np.testing.assert_allclose(model.svm_.weights, svm.coef_[0], atol=2e-3)
    values = model.decision_function_instances(bags)
    expected = [part.max() for part in np.split(values, bags.offsets[1:-1])]
    np.testing.assert_allclose(model.decision_function(bags), expected)


def slow_held_out(model, bags, kernel, C, gamma):
    """Value of each bag by an SVM of the ranked instances and negatives of the other folds."""
    positive = bags.y == 1
    moved = (bags.instances - bags.instances.mean(axis=0)) / model.spread_
    bags = bags.with_instances(moved)
    owners = bags.bag_index[model.ranked_instances_]
    values = np.empty(bags.n_bags)
    for fold in stratified_folds(positive, order=content_order(bags)):
        top = [i for i, b in zip(model.ranked_instances_, owners, strict=True) if not fold[b]]
        negatives = [bags[b] for b in np.flatnonzero(~positive & ~fold)]
        rows = np.concatenate([bags.instances[top], *negatives])
        width = gamma / length_unit(bags.instances) ** 2
        svm = SVC(kernel=kernel, C=C, gamma=width, class_weight="balanced")
        svm.fit(rows, np.arange(len(rows)) < len(top))
        for b in np.flatnonzero(fold):
            values[b] = svm.decision_function(bags[b]).max()
    return values


@pytest.mark.parametrize("make", [make_basic, make_rhombus])
def test_setting_and_threshold_are_those_with_fewest_errors_on_held_out_bags(make):
    bags = make(1)
    positive = bags.y == 1
    model = MiSim().fit(bags)
    cuts, errors = {}, {}
    for setting in (
        ("linear", 0.01, 0.3),
        ("linear", 0.1, 0.3),
        ("rbf", 10.0, 0.3),
        ("rbf", 10.0, 1.0),
    ):
        values = slow_held_out(model, bags, *setting)
        cuts[setting] = one_se_threshold(values, positive)
        errors[setting] = ((values > cuts[setting]) != positive).sum()
    chosen = (model.kernel_, model.C_, model.gamma_)
    assert chosen == min(errors, key=errors.get)
    assert model.threshold_ == pytest.approx(cuts[chosen], abs=5e-3)
    fixed = MiSim(kernel=chosen[0], C=chosen[1], gamma=chosen[2]).fit(bags)
    np.testing.assert_array_equal(fixed.decision_function(bags), model.decision_function(bags))


def test_many_negatives_or_one_bag_of_a_class_leave_nothing_to_hold_out(monkeypatch):
    bags = make_basic(1)
    one = bags[[0, *np.flatnonzero(bags.y != 1)]] if bags.y[0] == 1 else None
    assert one is not None
    monkeypatch.setattr(mi_sim, "_MOST_HELD_OUT", 10)
    for part in (bags, one):
        model = MiSim().fit(part)
        assert (model.kernel_, model.C_) == ("linear", 0.01)
        raw = model.decision_function(part) + model.threshold_
        assert model.threshold_ == pytest.approx(min_error_threshold(raw, part.y == 1))


@given(st.integers(0, 10**6), st.floats(0.2, 5.0))
def test_threshold_other_than_zero_needs_a_gain_above_one_standard_error(seed, weight):
    rng = np.random.default_rng(seed)
    positive = rng.random(int(rng.integers(4, 30))) < 0.5
    values = rng.normal(size=len(positive)) + positive + rng.normal()
    cut = one_se_threshold(values, positive, costs=(1.0, weight))
    best = min_error_threshold(values, positive, costs=(1.0, weight))
    gain, spread = 0.0, 0.0
    for value, is_positive in zip(values, positive, strict=True):
        cost = weight if is_positive else 1.0
        if (value > best) != (value > 0):
            gain += cost if (value > best) == is_positive else -cost
            spread += cost**2
    assert cut == (best if gain > spread**0.5 else 0.0)
