"""mi-SVM and MI-SVM: the plain loop as twin, the fixed point, the working set, hand-worked bags."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import pigmil.estimators._instance_svm as kernel_module
from pigmil import MISVM, Bags, MiSVM
from pigmil.estimators._instance_svm import InstanceSVM, SharedSlackSVM
from pigmil.estimators._svm_solvers import kernel_scores, kernel_values
from tests.estimators.toy import toy_bags


def parts_of(values, bags):
    return np.split(values, bags.offsets[1:-1])


def plain_mi_svm(bags, C, gamma):
    """Relabel by sign, keep the best of an all-negative bag, with scikit-learn's SVC."""
    inside = np.repeat(bags.y == 1, bags.sizes)
    labels = inside.copy()
    for _ in range(50):
        svc = SVC(C=C, gamma=gamma, tol=1e-6).fit(bags.instances, labels)
        scores = svc.decision_function(bags.instances)
        new = []
        for part, positive in zip(parts_of(scores, bags), bags.y == 1, strict=True):
            picked = part > 0
            if not picked.any():
                picked[np.argmax(part)] = True
            new.append(picked & positive)
        new = np.concatenate(new)
        if (new == labels).all():
            return scores
        labels = new
    return None


def shared_slack_dual(K, sign, group, C):
    """Solve the dual with one cap per group by a general-purpose solver."""
    from scipy.optimize import minimize

    Q = sign[:, None] * K * sign
    sums = np.array([group == g for g in np.unique(group)]).astype(float)
    result = minimize(
        lambda a: 0.5 * a @ Q @ a - a.sum(),
        np.zeros(len(sign)),
        jac=lambda a: Q @ a - 1,
        bounds=[(0, None)] * len(sign),
        constraints=[
            {"type": "eq", "fun": lambda a: a @ sign, "jac": lambda a: sign},
            {"type": "ineq", "fun": lambda a: C - sums @ a, "jac": lambda a: -sums},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return result.x, -result.fun


@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.2, 1.0, 20.0]))
def test_shared_slack_is_the_optimum_of_the_programme(seed, C):
    bags = toy_bags(seed, n_bags=8)
    positive = bags.y == 1
    signs = np.where(positive[bags.bag_index], 0, -1).astype(np.int8)
    signs[bags.offsets[1:][positive] - 1] = 1
    svm = SharedSlackSVM(bags.instances, bags.bag_index, gamma=0.5, C=C, tol=1e-7)
    scores = svm.fit(signs)
    rows = np.flatnonzero(signs)
    K = kernel_values(bags.instances[rows], bags.instances[rows], 0.5)
    _, value = shared_slack_dual(K, signs[rows].astype(float), bags.bag_index[rows], C)
    # The primal value at our solution meets the dual value of the other solver.
    hinge = np.maximum(0, 1 - signs * scores)
    slacks = [hinge[(bags.bag_index == b) & (signs != 0)].max() for b in range(8)]
    weights = svm.signed[rows]
    primal = 0.5 * weights @ K @ weights + C * np.sum(slacks)
    assert primal == pytest.approx(value, rel=1e-4, abs=1e-5)
    assert svm.objective(scores, signs, (1.0, 1.0)) == pytest.approx(primal)


def test_a_large_negative_bag_counts_once():
    # Two copies of the positive instance, in one negative bag or in two.
    instances = np.array([[0.0], [0.0], [0.0], [-4.0], [4.0]])
    signs = np.array([1, -1, -1, -1, 1], dtype=np.int8)
    # At C = 1 the slope is 1/4 and margins at -4 and 4 hold for every intercept up to 0 in size.
    # At 0 one slack faces one, which leaves f(0) = 0; where two face one, f(0) falls to -1.
    shared = SharedSlackSVM(instances, np.array([0, 1, 1, 2, 3]), gamma=None, C=1.0, tol=1e-8)
    assert shared.fit(signs)[0] == pytest.approx(0.0, abs=1e-6)
    single = SharedSlackSVM(instances, np.array([0, 1, 2, 3, 4]), gamma=None, C=1.0, tol=1e-8)
    assert single.fit(signs)[0] == pytest.approx(-1.0, abs=1e-6)


@given(seed=st.integers(0, 10**6), C=st.sampled_from([0.5, 5.0]))
def test_the_plain_loop_ends_at_the_same_scores(seed, C):
    bags = toy_bags(seed)
    expected = plain_mi_svm(bags, C, 0.5)
    fitted = MiSVM(C=C, gamma=0.5, length_unit=1.0, tol=1e-6).fit(bags)
    if expected is not None:
        np.testing.assert_allclose(fitted.instance_scores_, expected, atol=1e-3)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@given(seed=st.integers(0, 10**6))
def test_mi_svm_ends_at_a_fixed_point_and_never_rises(kernel, seed):
    bags = toy_bags(seed)
    method = MiSVM(kernel=kernel, C=1.0, tol=1e-5).fit(bags)
    scores = method.decision_function_instances(bags)
    np.testing.assert_allclose(scores, method.instance_scores_, atol=1e-8)
    imputed = (scores > 0) & np.repeat(bags.y == 1, bags.sizes)
    imputed[method.detected_instances_] = True
    np.testing.assert_array_equal(imputed, method.imputed_positive_)
    for part, y in zip(parts_of(method.imputed_positive_, bags), bags.y, strict=True):
        assert part.any() == (y == 1)
    slack = 1e-4 * np.abs(method.objectives_[:-1])
    assert (np.diff(method.objectives_) <= slack).all()


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@given(seed=st.integers(0, 10**6))
def test_mi_svm_of_bags_never_rises(kernel, seed):
    bags = toy_bags(seed)
    method = MISVM(kernel=kernel, C=1.0, tol=1e-5).fit(bags)
    # The means of the start are no instances, so only later steps are bound not to rise.
    later = method.objectives_[1:]
    assert (np.diff(later) <= 1e-4 * np.abs(later[:-1])).all()


def test_linear_bags_by_hand():
    # Witness 4 against -1 and 0: the margin lies between 0 and 4, so f(x) = x / 2 - 1.
    bags = Bags.from_list([np.array([[-1.0], [4.0]]), np.array([[0.0], [-1.0]])], y=[1, 0])
    for method in (MISVM(kernel="linear"), MiSVM(kernel="linear")):
        method.set_params(C=100.0, tol=1e-8).fit(bags)
        np.testing.assert_allclose(method.instance_scores_, [-1.5, 1.0, -1.0, -1.5], atol=1e-5)
        np.testing.assert_allclose(method.decision_function(bags), [1.0, -1.0], atol=1e-5)
        assert method.detected_instances_.tolist() == [1]


def test_class_weight_moves_the_threshold_to_the_costly_side():
    bags = toy_bags(3, shift=1.0)
    plain = MISVM(C=0.1).fit(bags).decision_function(bags)
    costly = MISVM(C=0.1, class_weight={1: 50.0}).fit(bags).decision_function(bags)
    assert (costly > plain).all()


def test_too_few_rounds_warn():
    bags = toy_bags(2)
    method = MISVM(C=1.0)
    assert method.fit(bags).n_iter_ > 1
    with pytest.warns(ConvergenceWarning, match="max_iter=1 rounds"):
        method.set_params(max_iter=1).fit(bags)


def test_a_circle_is_broken_at_its_best_round():
    class Scripted(InstanceSVM):
        """An SVM whose scores depend on the round: labels go a, b, a, b, ..."""

        def fit(self, signs, costs):
            return np.array([-1.0, 1.0]) if signs[0] > 0 else np.array([1.0, -1.0])

        def objective(self, scores, signs, costs):
            return 5.0 if signs[0] > 0 else 3.0

    def impute(scores):
        return np.sign(scores).astype(np.int8)

    model, svm = MiSVM(), Scripted(np.zeros((2, 1)), gamma=None, C=1.0)
    with pytest.warns(ConvergenceWarning, match="cycle of 2 rounds"):
        _, signs = model._alternate(svm, np.array([1, -1], dtype=np.int8), impute, (1.0, 1.0))
    assert signs.tolist() == [-1, 1]
    assert model.objectives_.tolist() == [5.0, 3.0]


@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([None, 0.4]))
def test_the_working_set_gives_the_solution_of_all_instances(seed, gamma):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3))
    signs = np.where(X[:, 0] + rng.normal(size=60) > 0, 1, -1).astype(np.int8)
    signs[rng.choice(60, 10, replace=False)] = 0
    signs[:2] = [1, -1]
    before = kernel_module._START_ROWS
    kernel_module._START_ROWS = 4
    try:
        svm = InstanceSVM(X, gamma=gamma, C=1.0, tol=1e-5)
        svm.fit(-signs, (1.0, 1.0))  # a training with other labels must leave no trace
        scores = svm.fit(signs, (1.0, 2.0))
    finally:
        kernel_module._START_ROWS = before
    used = signs != 0
    svc = SVC(
        kernel="linear" if gamma is None else "rbf",
        gamma=gamma or 1.0,
        class_weight={1: 2.0},
        tol=1e-6,
    ).fit(X[used], signs[used])
    np.testing.assert_allclose(scores, svc.decision_function(X), atol=2e-3)
    assert (svm.signed[~used] == 0).all()


@pytest.mark.parametrize("method", [MiSVM, MISVM])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_computed_again_give_the_same_model(method, kernel, form, monkeypatch):
    bags = toy_bags(5, n_bags=24)
    bags = bags.with_instances(form(bags.instances))
    kept = method(kernel=kernel, C=1.0, tol=1e-4).fit(bags)
    monkeypatch.setattr(kernel_module, "_KEEP_INSTANCES", 1)
    again = method(kernel=kernel, C=1.0, tol=1e-4).fit(bags)
    np.testing.assert_allclose(again.instance_scores_, kept.instance_scores_, atol=5e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_too_many_instances_some_of_each_class_are_trained_on(monkeypatch):
    bags = toy_bags(6, n_bags=80)
    monkeypatch.setattr(kernel_module, "_KEEP_INSTANCES", 1)
    monkeypatch.setattr(kernel_module, "_MOST_OF_A_CLASS", 60)
    for method in (MiSVM(C=1.0), MISVM(C=1.0)):
        method.fit(bags)
        assert len(method.dual_coef_) <= 120
        assert method.score(bags, bags.y) > 0.8


def test_scores_of_any_support_are_the_kernel_sum():
    rng = np.random.default_rng(0)
    X, support, signed = rng.normal(size=(7, 3)), rng.normal(size=(4, 3)), rng.normal(size=4)
    expected = [
        sum(s * np.exp(-0.3 * ((x - v) ** 2).sum()) for s, v in zip(signed, support, strict=True))
        for x in X
    ]
    found = kernel_scores(X, support, signed, 0.5, 0.3)
    np.testing.assert_allclose(found, np.array(expected) + 0.5, atol=1e-12)
    linear = kernel_scores(sp.csr_array(X), sp.csr_array(support), signed, 0.5, None)
    np.testing.assert_allclose(linear, X @ (support.T @ signed) + 0.5, atol=1e-12)
