"""The SVM helper against hand-worked answers, a certificate of duality and its own other path."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import pigmil.estimators._svm_solvers as module
from pigmil.estimators._svm_solvers import class_costs, fit_gram_svm, fit_linear_svm


def problem(seed, n_rows=12, n_columns=3):
    rng = np.random.default_rng(seed)
    positive = np.arange(n_rows) % 2 == 0
    X = rng.normal(size=(n_rows, n_columns)) + 0.7 * positive[:, None]
    return X, positive


def test_two_points_by_hand():
    # Points at 0 and 4: the margin planes pass through them, so w = 1/2, b = -1, alpha = w / 4.
    model = fit_linear_svm(np.array([[0.0], [4.0]]), np.array([False, True]), C=10.0)
    np.testing.assert_allclose(model.weights, [0.5], atol=1e-6)
    assert model.intercept == pytest.approx(-1.0, abs=1e-6)
    np.testing.assert_allclose(model.alphas, [0.125, 0.125], atol=1e-6)


@given(
    seed=st.integers(0, 10**6),
    C=st.sampled_from([0.1, 1.0, 10.0]),
    costs=st.sampled_from([(1.0, 1.0), (0.5, 2.0)]),
)
def test_primal_and_dual_meet(seed, C, costs):
    X, positive = problem(seed)
    model = fit_linear_svm(X, positive, C=C, costs=costs, tol=1e-5)
    sign, bound = np.where(positive, 1.0, -1.0), C * np.where(positive, costs[1], costs[0])
    assert ((model.alphas >= 0) & (model.alphas <= bound * (1 + 1e-12))).all()
    assert model.alphas @ sign == pytest.approx(0.0, abs=1e-9 * C)
    np.testing.assert_allclose((model.alphas * sign) @ X, model.weights, atol=1e-9 * C)
    # A feasible dual point bounds the optimum from below, a primal one from above.
    squared_norm = model.weights @ model.weights
    primal = squared_norm / 2 + bound @ np.maximum(0.0, 1.0 - sign * model.decide(X))
    gap = primal - (model.alphas.sum() - squared_norm / 2)
    assert -1e-9 * primal <= gap <= 1e-5 * bound.sum()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_gram_and_rows_agree_dense_and_sparse(form, monkeypatch):
    X, positive = problem(3, n_rows=40, n_columns=5)
    X[np.abs(X) < 0.4] = 0.0
    by_gram = fit_linear_svm(form(X), positive, costs=(1.0, 3.0), tol=1e-6)
    monkeypatch.setattr(module, "_GRAM_ROWS", 0)
    by_rows = fit_linear_svm(form(X), positive, costs=(1.0, 3.0), tol=1e-6)
    np.testing.assert_allclose(by_gram.weights, by_rows.weights, atol=1e-4)
    assert by_gram.intercept == pytest.approx(by_rows.intercept, abs=1e-4)
    np.testing.assert_allclose(by_gram.alphas.sum(), by_rows.alphas.sum(), rtol=1e-4)


def test_dual_conditions_of_the_gram_form():
    X, positive = problem(5, n_rows=30)
    gram = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))
    signed, intercept = fit_gram_svm(gram, positive, C=2.0, costs=(1.0, 0.5), tol=1e-6)
    sign = np.where(positive, 1.0, -1.0)
    alphas, bound = signed * sign, np.where(positive, 1.0, 2.0)
    margins = sign * (gram @ signed + intercept)
    assert signed.sum() == pytest.approx(0.0, abs=1e-10)
    assert ((alphas >= 0) & (alphas <= bound + 1e-12)).all()
    inside = (alphas > 1e-9) & (alphas < bound - 1e-9)
    assert inside.any()
    np.testing.assert_allclose(margins[inside], 1.0, atol=1e-5)
    assert (margins[alphas <= 1e-9] >= 1 - 1e-5).all()
    assert (margins[alphas >= bound - 1e-9] <= 1 + 1e-5).all()


def test_too_few_steps_are_reported(monkeypatch):
    X, positive = problem(5, n_rows=30)
    monkeypatch.setattr(module, "_MAX_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 steps"):
        fit_gram_svm(X @ X.T, positive)


def test_costs_follow_the_labels_of_the_user():
    positive = np.array([True, False, False])
    assert class_costs(None, positive) == (1.0, 1.0)
    assert class_costs("balanced", positive) == (0.75, 1.5)
    words = np.array(["active", "inert"])
    assert class_costs({"active": 3.0}, positive, words, "active") == (1.0, 3.0)
    assert class_costs({"inert": 5.0}, positive, words, "active") == (5.0, 1.0)


def test_a_large_common_part_does_not_slow_or_spoil_the_solution():
    # libsvm keeps the Gram matrix in single precision: uncentred, 1e4 + small would be lost.
    X, positive = problem(11, n_rows=60, n_columns=4)
    near = fit_linear_svm(0.1 * X, positive, C=50.0)
    for form in (np.asarray, sp.csr_array):
        far = fit_linear_svm(form(0.1 * X + 100.0), positive, C=50.0)
        np.testing.assert_allclose(far.weights, near.weights, atol=2e-2)
        np.testing.assert_allclose(far.decide(0.1 * X + 100.0), near.decide(0.1 * X), atol=5e-3)
