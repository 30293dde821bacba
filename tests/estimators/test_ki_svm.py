"""KI-SVM: the dual solver, the mixture, the cutting planes against all assignments at once."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from sklearn.exceptions import ConvergenceWarning

import pigmil.estimators._key_instances as key_module
import pigmil.estimators.ki_svm as ki_module
from pigmil import BagKISVM, Bags, InsKISVM
from pigmil.estimators._kernels import solve_nonnegative_qp
from pigmil.estimators._key_instances import Atoms, mix_kernels
from pigmil.estimators._svm_solvers import kernel_values
from tests.estimators.toy import toy_bags


def rows_of(bags, level, gamma):
    """Feature-space rows as weights over instances: candidates a positive bag, and negatives."""
    n = bags.n_instances
    spans = list(itertools.pairwise(bags.offsets))
    positive = [np.eye(n)[a:b] for (a, b), y in zip(spans, bags.y, strict=True) if y == 1]
    negative, shares = [], []
    for (a, b), y in zip(spans, bags.y, strict=True):
        if y == 0:
            block = np.eye(n)[a:b]
            negative.append(block.mean(axis=0, keepdims=True) if level == "bag" else block)
            shares += [1.0] if level == "bag" else [1.0 / (b - a)] * (b - a)
    return positive, np.vstack(negative), np.array(shares)


def whole_programme(bags, level, C, gamma):
    """All assignments and the means at once: min over mixtures of the dual's maximum."""
    positive, negative, shares = rows_of(bags, level, gamma)
    kernel = kernel_values(bags.instances, bags.instances, gamma) + 1.0
    sign = np.concatenate([np.ones(len(positive)), -np.ones(len(negative))])
    matrices = []
    for rows in [
        [block.mean(axis=0) for block in positive],
        *itertools.product(*positive),
    ]:
        W = np.vstack([*rows, negative])
        matrices.append(np.outer(sign, sign) * (W @ kernel @ W.T))
    ridge = 1.0 / (C * np.concatenate([np.ones(len(positive)), shares]))

    def dual(a):
        # max over a of sum a - (max over assignments of a Q a) / 2 - a D a / 2, as a minimum.
        values = np.array([a @ Q @ a for Q in matrices])
        return -(a.sum() - values.max() / 2 - a @ (ridge * a) / 2)

    # With an epigraph variable the maximum is smooth enough for a general solver.
    n = len(sign)
    start = np.append(np.full(n, 0.05), 10.0)
    found = minimize(
        lambda z: -(z[:n].sum() - z[n] - z[:n] @ (ridge * z[:n]) / 2),
        start,
        jac=lambda z: np.append(-1.0 + ridge * z[:n], 1.0),
        bounds=[(0, None)] * n + [(None, None)],
        constraints=[
            {
                "type": "ineq",
                "fun": lambda z, Q=Q: z[n] - z[:n] @ Q @ z[:n] / 2,
                "jac": lambda z, Q=Q: np.append(-Q @ z[:n], 1.0),
            }
            for Q in matrices
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-10},
    )
    return -dual(found.x[:n])  # a feasible dual value: a lower bound on the optimum


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_the_quadratic_programme_is_that_of_nnls(seed, n, dtype):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(n, n)) + 3 * np.eye(n)
    matrix = (factor.T @ factor + 0.1 * np.eye(n)).astype(dtype)
    # a M a / 2 - sum a is |L' a - L^-1 1|^2 / 2 up to a constant.
    lower = np.linalg.cholesky(matrix.astype(np.float64))
    expected, _ = nnls(lower.T, np.linalg.solve(lower, np.ones(n)))
    start = rng.uniform(size=n)
    found, gradient, violation = solve_nonnegative_qp(
        matrix, start, matrix.astype(np.float64) @ start - 1.0, 1e-9, 10**6
    )
    assert violation <= 1e-9
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(gradient, matrix.astype(np.float64) @ found - 1.0, atol=1e-8)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_too_few_steps_leave_a_violation_and_a_true_gradient(steps):
    matrix = np.array([[2.0, 1.0, 0.5], [1.0, 2.0, 1.0], [0.5, 1.0, 2.0]])
    found, gradient, violation = solve_nonnegative_qp(
        matrix, np.zeros(3), -np.ones(3), 1e-12, steps
    )
    assert violation > 1e-12
    assert np.count_nonzero(found) <= steps
    np.testing.assert_allclose(gradient, matrix @ found - 1.0, atol=1e-12)


def test_two_bags_by_hand():
    # Linear kernel plus 1 on x = 1 (positive) and x = -1 (negative), C = 1: rows (1, 1) and
    # -(-1, 1) = (1, -1) are orthogonal with squared norm 2, so a = 1 / (2 + 1) each,
    # w = (2/3, 0), intercept 0, objective (a + a) / 2 = 1/3.
    bags = Bags.from_list([np.array([[1.0]]), np.array([[-1.0]])], y=[1, 0])
    for method in (BagKISVM, InsKISVM):
        fitted = method(kernel="linear", C=1.0, tol=1e-5).fit(bags)
        np.testing.assert_allclose(fitted.instance_scores_, [2 / 3, -2 / 3], atol=1e-5)
        assert fitted.objectives_[-1] == pytest.approx(1 / 3, abs=1e-5)


@given(seed=st.integers(0, 10**6), n_matrices=st.integers(1, 4))
def test_the_mixture_is_the_best_on_a_grid(seed, n_matrices):
    rng = np.random.default_rng(seed)
    n_positive, n_negative = 3, 4
    points = rng.normal(size=(n_matrices, n_positive, 2))
    negatives = rng.normal(size=(n_negative, 2)) - 0.5
    ridge = rng.uniform(0.5, 2.0, size=n_positive + n_negative)
    among = np.array([p @ p.T + 1.0 for p in points])
    across = np.array([p @ negatives.T + 1.0 for p in points])
    fixed = negatives @ negatives.T + 1.0

    def whole(mixture):
        matrix = np.zeros((n_positive + n_negative,) * 2)
        matrix[:n_positive, :n_positive] = np.tensordot(mixture, among, axes=1)
        matrix[:n_positive, n_positive:] = -np.tensordot(mixture, across, axes=1)
        matrix[n_positive:, :n_positive] = matrix[:n_positive, n_positive:].T
        matrix[n_positive:, n_positive:] = fixed
        return matrix + np.diag(ridge)

    def optimum(mixture):
        lower = np.linalg.cholesky(whole(mixture))
        a, _ = nnls(lower.T, np.linalg.solve(lower, np.ones(len(ridge))))
        return a.sum() - a @ whole(mixture) @ a / 2

    start = np.full(n_matrices, 1.0 / n_matrices)
    _, mixture, objective, settled = mix_kernels(
        whole(start), list(among), list(across), ridge, start, np.zeros(len(ridge)), 1e-6
    )
    assert settled
    assert objective == pytest.approx(optimum(mixture), rel=1e-4)
    grid = rng.dirichlet(np.full(n_matrices, 0.5), size=100)
    assert objective <= min(optimum(trial) for trial in grid) * (1 + 1e-5) + 1e-9


@pytest.mark.parametrize(("method", "level"), [(BagKISVM, "bag"), (InsKISVM, "instance")])
@given(seed=st.integers(0, 300), C=st.sampled_from([0.5, 5.0]))
def test_cutting_planes_never_rise_and_reach_the_optimum_over_all_assignments(
    method, level, seed, C
):
    bags = toy_bags(seed, n_bags=6, largest=3)
    fitted = method(C=C, gamma=0.5, length_unit=1.0, tol=1e-4, max_iter=200).fit(bags)
    assert (np.diff(fitted.objectives_) <= 0).all()
    assert fitted.mixture_.sum() == pytest.approx(1.0)
    bound = whole_programme(bags, level, C, 0.5)
    assert fitted.objectives_[-1] >= bound * (1 - 1e-4)
    # The search for the most violated assignment is local: it may stop a little above.
    assert fitted.objectives_[-1] <= bound * 1.02 + 1e-6


@pytest.mark.parametrize("gamma", [None, 0.7])
@pytest.mark.parametrize("keep", [0, 10**6])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_kernel_of_combinations(gamma, keep, form, monkeypatch):
    monkeypatch.setattr(key_module, "_KEEP_VALUES", keep)
    monkeypatch.setattr(key_module, "_BLOCK_ROWS", 2)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 3))
    combination = np.array(
        [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0.5, 0.5, 0], [0, 0, 0, 0, 1.0]]
    )
    atoms = Atoms(form(X), sp.csr_array(combination), gamma)
    whole = combination @ (kernel_values(X, X, gamma) + 1.0) @ combination.T
    for wanted, others in (([2, 0], [0, 1, 2, 3]), ([3, 2], [1, 1]), ([1, 0], [0, 3, 1])):
        found = atoms.block(np.array(wanted), np.array(others))
        np.testing.assert_allclose(found, whole[wanted][:, others], atol=1e-12)


def test_a_restricted_problem_out_of_steps_warns(monkeypatch):
    monkeypatch.setattr(key_module, "_MAX_WEIGHT_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="ran out of steps"):
        BagKISVM(C=100.0).fit(toy_bags(7, n_bags=8, largest=3))


def test_too_few_assignments_warn():
    bags = toy_bags(7, n_bags=20, largest=5)
    assert BagKISVM(C=100.0).fit(bags).n_iter_ > 2
    with pytest.warns(ConvergenceWarning, match="max_iter=2 assignments"):
        BagKISVM(C=100.0, max_iter=2).fit(bags)


def test_many_negative_instances_are_thinned_at_equal_weight(monkeypatch):
    bags = toy_bags(2, n_bags=12, largest=6)
    negatives = np.flatnonzero(bags.y == 0)
    _, shares = InsKISVM()._negative_rows(bags, negatives)
    assert shares.sum() == pytest.approx(len(negatives))
    monkeypatch.setattr(ki_module, "_MOST_NEGATIVES", 8)
    rows, thinned = InsKISVM()._negative_rows(bags, negatives)
    assert rows.shape[0] <= 8
    assert thinned.sum() == pytest.approx(len(negatives), rel=0.3)
    monkeypatch.setattr(ki_module, "_MANY_INSTANCES", 10)
    monkeypatch.setattr(ki_module, "_FEWER_NEGATIVES", 4)
    assert InsKISVM()._negative_rows(bags, negatives)[0].shape[0] <= 4


@pytest.mark.parametrize("method", [BagKISVM, InsKISVM])
def test_at_least_five_rounds_however_small_the_gain(method):
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(6, 3)) for _ in range(20)]
    for part in parts[::2]:
        part[0] += 1.0
    bags = Bags.from_list(parts, y=[1, 0] * 10)
    # No gain reaches 90 %, so that the tolerance alone would stop after the second round.
    assert method(tol=0.9).fit(bags).n_iter_ == 5
    assert method(tol=1e-3).fit(bags).n_iter_ >= 5


@pytest.mark.parametrize("method", [BagKISVM, InsKISVM])
def test_the_exchange_does_not_depend_on_the_order_of_bags(method):
    """Positive instances among many others: the exchange has several optima to end in."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        parts = [rng.normal(size=(int(rng.integers(3, 10)), 5)) for _ in range(16)]
        for part in parts[1::2]:
            part[0, 0] += 1.0
        bags = Bags.from_list(parts, y=np.arange(16) % 2)
        expected = method().fit(bags).decision_function(bags)
        found = method().fit(bags[rng.permutation(16)]).decision_function(bags)
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.ptp(expected))
