"""MILES: the linear programme and its optimality conditions, the embedding, the contributions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

import pigmil.estimators.miles as miles_module
from pigmil import MILES, Bags
from pigmil.estimators.miles import fit_l1_svm
from tests.estimators.toy import toy_bags


def whole_programme(X, positive, costs):
    """The textbook programme on all columns at once: w+, w-, b+, b-, slacks."""
    n, p = X.shape
    sign = np.where(positive, 1.0, -1.0)
    signed = sign[:, None] * X
    A = -np.hstack([signed, -signed, sign[:, None], -sign[:, None], np.eye(n)])
    c = np.concatenate([np.ones(2 * p), [0.0, 0.0], costs])
    found = linprog(c, A_ub=A, b_ub=-np.ones(n), method="highs-ipm")
    assert found.status == 0
    return found.fun


def assert_optimal(X, positive, costs, model):
    """Primal and dual feasible, complementary, and no gap between them."""
    sign = np.where(positive, 1.0, -1.0)
    margins = sign * (X @ model.weights + model.intercept)
    slack = np.maximum(0.0, 1.0 - margins)
    prices = (model.alphas * sign) @ X
    assert (model.alphas >= -1e-9).all()
    assert (model.alphas <= costs + 1e-7).all()
    assert model.alphas @ sign == pytest.approx(0.0, abs=1e-6)
    assert np.abs(prices).max() <= 1 + 1e-5
    kept = np.abs(model.weights) > 1e-7
    np.testing.assert_allclose(prices[kept], np.sign(model.weights[kept]), atol=1e-5)
    assert np.abs(model.alphas[margins > 1 + 1e-6]).max(initial=0.0) <= 1e-6
    np.testing.assert_allclose(model.alphas[slack > 1e-6], costs[slack > 1e-6], atol=1e-6)
    primal = np.abs(model.weights).sum() + costs @ slack
    assert primal == pytest.approx(model.alphas.sum(), rel=1e-5, abs=1e-6)
    assert primal == pytest.approx(model.objective, rel=1e-6, abs=1e-9)


def test_one_column_by_hand():
    # y (w x + b) >= 1 at x = 0 (negative) and x = 4 (positive) with the least |w|: w = 1/2, b = -1.
    model = fit_l1_svm(np.array([[0.0], [4.0]]), np.array([False, True]), np.full(2, 9.0))
    np.testing.assert_allclose(model.weights, [0.5])
    assert model.intercept == pytest.approx(-1.0)
    assert model.objective == pytest.approx(0.5)
    np.testing.assert_allclose(model.alphas, [0.25, 0.25])


def test_a_cost_too_low_keeps_no_column():
    # Moving both slacks from 1 to 0 saves 0.2 and costs |w| = 0.5.
    model = fit_l1_svm(np.array([[0.0], [4.0]]), np.array([False, True]), np.full(2, 0.1))
    np.testing.assert_array_equal(model.weights, [0.0])
    assert model.objective == pytest.approx(0.2)


@given(
    seed=st.integers(0, 10**6),
    C=st.sampled_from([0.05, 0.5, 3.0, 50.0]),
    few=st.sampled_from([1, 3, 64]),
)
def test_few_columns_give_the_optimum_of_all(seed, C, few):
    rng = np.random.default_rng(seed)
    positive = np.arange(10) % 3 == 0
    X = np.exp(-rng.exponential(size=(10, 25)))
    X[:, 7] = X[:, 3]  # ties between columns
    X[4] = X[6]  # and between rows
    costs = C * np.where(positive, 2.0, 1.0)
    before = miles_module._FEW_COLUMNS
    miles_module._FEW_COLUMNS = few
    try:
        model = fit_l1_svm(X, positive, costs)
    finally:
        miles_module._FEW_COLUMNS = before
    assert_optimal(X, positive, costs, model)
    assert model.objective == pytest.approx(whole_programme(X, positive, costs), rel=1e-5)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e5])
def test_ties_everywhere_give_the_optimum(C):
    # Every row and every column occurs several times, with few different values.
    rng = np.random.default_rng(0)
    X = np.tile(rng.integers(0, 3, size=(8, 6)) / 2.0, (3, 2))
    positive = np.arange(24) % 3 == 0
    costs = np.full(24, C)
    model = fit_l1_svm(X, positive, costs)
    assert_optimal(X, positive, costs, model)
    assert model.objective == pytest.approx(whole_programme(X, positive, costs), rel=1e-6)


@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.5, 3.0]))
def test_tables_made_anew_change_nothing(seed, C):
    rng = np.random.default_rng(seed)
    positive = np.arange(15) % 2 == 0
    X = np.exp(-rng.exponential(size=(15, 30)))
    costs = np.full(15, C)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(miles_module, "_MAX_PIVOTS", 2)
        model = fit_l1_svm(X, positive, costs)
    assert_optimal(X, positive, costs, model)
    assert model.objective == pytest.approx(whole_programme(X, positive, costs), rel=1e-6)


def test_too_few_rounds_warn(monkeypatch):
    rng = np.random.default_rng(0)
    X, positive = rng.uniform(size=(20, 40)), np.arange(20) % 2 == 0
    monkeypatch.setattr(miles_module, "_FEW_COLUMNS", 1)
    monkeypatch.setattr(miles_module, "_MAX_ROUNDS", 3)
    with pytest.warns(ConvergenceWarning, match="not optimal after 3 rounds"):
        model = fit_l1_svm(X, positive, np.full(20, 10.0))
    assert 1 <= np.count_nonzero(model.weights) <= 3


def test_costs_that_are_none_are_an_error():
    rng = np.random.default_rng(1)
    X, positive = rng.uniform(size=(12, 20)), np.arange(12) % 2 == 0
    with pytest.raises(RuntimeError, match=r"\(12 rows, 20 columns\) was not solved"):
        fit_l1_svm(X, positive, np.full(12, -1.0))  # alpha between 0 and -1


def test_the_fitted_model_is_the_optimum_over_all_instances():
    bags = toy_bags(0, 14, largest=4, shift=3.0, place=0)
    method = MILES(gamma=0.7, C=3.0, length_unit=1.0, class_weight={0: 0.5}).fit(bags)
    X = np.array(
        [
            [np.exp(-0.7 * ((bag - x) ** 2).sum(axis=1).min()) for x in bags.instances]
            for bag in bags
        ]
    )
    costs = np.where(bags.y == 1, 3.0, 1.5)
    assert method.objective_ == pytest.approx(whole_programme(X, bags.y == 1, costs), rel=1e-6)
    np.testing.assert_allclose(
        method.decision_function(bags),
        X[:, method.prototype_instances_] @ method.coef_ + method.intercept_,
        atol=1e-10,
    )


def test_contributions_by_hand():
    bags = Bags.from_list([np.array([[0.0], [0.0], [2.0]]), np.array([[1.0]])], y=[1, 0])
    method = MILES(gamma=1.0, length_unit=1.0).fit(bags)
    method.prototypes_ = np.array([[0.0], [3.0]])
    method.coef_ = np.array([4.0, -1.0])
    method.intercept_ = 0.3
    # Prototype 0: both copies at distance 0 share 4; prototype 3: the instance at 2, -exp(-1).
    # In the second bag one instance answers both: 4 exp(-1) - exp(-4).
    # The intercept is shared by the three instances of the first bag.
    expected = [2.1, 2.1, 0.1 - np.exp(-1), 0.3 + 4 * np.exp(-1) - np.exp(-4)]
    np.testing.assert_allclose(method.decision_function_instances(bags), expected, atol=1e-12)


@given(seed=st.integers(0, 10**6), chunk=st.sampled_from([1, 5, 8192]))
def test_contributions_add_up_to_the_decision_value(seed, chunk):
    bags = toy_bags(seed, 14, largest=4, shift=3.0, place=0)
    method = MILES().fit(bags)
    before = miles_module._CHUNK_INSTANCES
    miles_module._CHUNK_INSTANCES = chunk
    try:
        scores = method.decision_function_instances(bags)
    finally:
        miles_module._CHUNK_INSTANCES = before
    similarity = np.exp(
        -method.decay_ * ((bags.instances[:, None] - method.prototypes_[None]) ** 2).sum(axis=2)
    )
    for start, end, value in zip(
        bags.offsets[:-1], bags.offsets[1:], method.decision_function(bags), strict=True
    ):
        part = similarity[start:end]
        takes_part = (
            (part == part.max(axis=0)).any(axis=1) if part.size else np.full(end - start, True)
        )
        assert scores[start:end][takes_part].sum() == pytest.approx(value, abs=1e-9)


def test_without_prototypes_the_intercept_is_shared():
    constant = Bags.from_list([np.zeros((2, 3))] * 4, y=[0, 1, 0, 1])
    method = MILES().fit(constant)
    assert method.coef_.size == 0
    np.testing.assert_array_equal(method.instance_scores_, method.intercept_ / 2)
