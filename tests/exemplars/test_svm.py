"""Exemplar SVMs: hand-worked problems, LIBSVM as twin, certificates, degenerate data."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pigmil.exemplars import _model, exemplar_svms
from pigmil.exemplars._kernels import solve_box_qp


def libsvm(x, negatives, C):
    """The model as scikit-learn has it: one positive, weighing as much as all negatives."""
    model = SVC(kernel="linear", C=C, class_weight={1: len(negatives), -1: 1}, tol=1e-7)
    return model.fit(np.vstack([x[None], negatives]), [1] + [-1] * len(negatives))


def primal(x, negatives, C, weight, bias):
    """Objective of the weighted SVM as it is printed, with the bias in it."""
    loss = np.maximum(0, 1 + negatives @ weight + bias).sum()
    return weight @ weight / 2 + C * (loss + len(negatives) * max(0, 1 - x @ weight - bias))


def dual(x, negatives, multipliers):
    """Dual objective of the same problem, for multipliers of the negatives within [0, C]."""
    weight = multipliers @ (x - negatives)
    return 2 * multipliers.sum() - weight @ weight / 2


def draw(seed, kind, m, n, d):
    """Candidates and negatives of a given kind."""
    rng = np.random.default_rng(seed)
    negatives = rng.normal(size=(n, d))
    candidates = rng.normal(size=(m, d))
    if kind == "separable":
        candidates += 4 * np.sqrt(d)
    elif kind == "duplicates":
        negatives[n // 2 :] = negatives[: n - n // 2]
        candidates[0] = negatives[0]
    elif kind == "grid":  # many exact ties
        negatives, candidates = np.round(negatives), np.round(candidates)
    elif kind == "constant":
        negatives[:, 0] = candidates[:, 0] = 3.0
    return candidates, negatives


KINDS = ("separable", "overlapping", "duplicates", "grid", "constant")


@pytest.mark.parametrize(
    ("x", "negatives", "C", "weight", "bias"),
    [
        # Margins +1 and -1 lie on the two points.
        ([2.0], [[0.0]], 100.0, [1.0], -1.0),
        # The nearer negative alone counts.
        ([2.0], [[0.0], [-5.0]], 100.0, [1.0], -1.0),
        # Between two negatives the pulls cancel; any bias in [-1, 1] is best.
        ([0.0], [[1.0], [-1.0]], 1.0, [0.0], 0.0),
        # a = min(C, 2 / |z|^2) = 0.5 is at its bound: w = 0.5, bias anywhere in [-1, 0.5].
        ([1.0], [[0.0]], 0.5, [0.5], -0.25),
        # z = (0, 2) and (2, 0): w = a1 z1 + a2 z2 with w.z = 2, so w = (1, 1), b = 1 - w.x.
        ([2.0, 2.0], [[2.0, 0.0], [0.0, 2.0]], 100.0, [1.0, 1.0], -3.0),
        # A copy of the candidate costs 2C whatever w is, and changes nothing else.
        ([2.0], [[0.0], [2.0]], 100.0, [1.0], -1.0),
    ],
)
def test_worked_examples(x, negatives, C, weight, bias):
    svms = exemplar_svms([x], negatives, C=C)
    np.testing.assert_allclose(svms.weights, [weight], atol=1e-9)
    np.testing.assert_allclose(svms.intercepts, [bias], atol=1e-9)
    assert svms.duality_gap[0] <= 1e-9


@settings(max_examples=60)
@given(
    st.integers(0, 10_000),
    st.sampled_from(KINDS),
    st.integers(1, 3),
    st.integers(1, 400),
    st.integers(1, 8),
    st.sampled_from([0.01, 1.0, 10.0]),
)
# Working sets that overflow, which LIBSVM takes over.
@example(0, "overlapping", 3, 400, 2, 1.0)
@example(0, "duplicates", 3, 399, 1, 10.0)
def test_is_the_weighted_svc(seed, kind, m, n, d, C):
    candidates, negatives = draw(seed, kind, m, n, d)
    svms = exemplar_svms(candidates, negatives, C=C)
    for x, weight, bias, gap in zip(
        candidates, svms.weights, svms.intercepts, svms.duality_gap, strict=True
    ):
        reference = libsvm(x, negatives, C)
        expected = reference.coef_[0]
        assert np.linalg.norm(weight - expected) <= 1e-3 * np.linalg.norm(expected) + 1e-5
        # The certificate, against objectives that share no code with it.
        multipliers = np.zeros(n)
        chosen = reference.support_ > 0
        multipliers[reference.support_[chosen] - 1] = -reference.dual_coef_[0, chosen]
        reached = primal(x, negatives, C, weight, bias)
        bound = dual(x, negatives, np.clip(multipliers, 0, C))
        assert reached >= bound * (1 - 1e-9)
        best = primal(x, negatives, C, expected, reference.intercept_[0])
        assert reached - best <= gap * reached + 1e-9 * (1 + reached)
        assert gap <= 1e-4


def test_the_bias_puts_the_exemplar_on_its_margin():
    candidates, negatives = draw(0, "overlapping", 20, 300, 3)
    own = np.diagonal(exemplar_svms(candidates, negatives).confidence(candidates))
    np.testing.assert_allclose(own, 1.0, atol=1e-9)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("d", [3, 40])
def test_sparse_equals_dense(d, C):
    rng = np.random.default_rng(0)
    # Drawn by NumPy: sparse random arrays of SciPy differ between its versions.
    rows = np.where(rng.random((507, d)) < 0.3, rng.random((507, d)), 0.0)
    negatives, candidates = sp.csr_array(rows[:500]), sp.csr_array(rows[500:])
    sparse = exemplar_svms(candidates, negatives, C=C)
    dense = exemplar_svms(candidates.toarray(), negatives.toarray(), C=C, tol=1e-6)
    scale = np.abs(dense.weights).max()  # LIBSVM keeps products in single precision
    np.testing.assert_allclose(sparse.weights, dense.weights, atol=1e-4 * scale)
    np.testing.assert_allclose(sparse.intercepts, dense.intercepts, atol=1e-4 * scale)
    np.testing.assert_allclose(
        sparse.confidence(candidates), dense.confidence(candidates.toarray()), atol=1e-3 * scale
    )


def test_number_of_jobs_changes_nothing(monkeypatch):
    monkeypatch.setattr("pigmil.exemplars.svm._BLOCK_BYTES", 1)  # sixteen candidates a block
    candidates, negatives = draw(1, "overlapping", 50, 600, 20)
    one = exemplar_svms(candidates, negatives)
    two = exemplar_svms(candidates, negatives, n_jobs=2)
    np.testing.assert_array_equal(one.weights, two.weights)
    np.testing.assert_array_equal(one.intercepts, two.intercepts)


@pytest.mark.compiled
def test_blocks_and_memory_map_change_nothing(monkeypatch, tmp_path):
    candidates, negatives = draw(2, "overlapping", 10, 2000, 6)
    whole = exemplar_svms(candidates, negatives)
    np.save(tmp_path / "negatives.npy", negatives)
    monkeypatch.setattr(_model, "_BLOCK_ELEMENTS", 700)
    mapped = exemplar_svms(candidates, np.load(tmp_path / "negatives.npy", mmap_mode="r"))
    np.testing.assert_allclose(mapped.weights, whole.weights, rtol=1e-3, atol=1e-6)
    assert mapped.duality_gap.max() <= 1e-4


@pytest.mark.parametrize("scale", [1e-120, 1e-8, 1e8, 1e120])
def test_feature_scale_only_scales_the_weights(scale):
    candidates, negatives = draw(5, "overlapping", 5, 600, 30)
    plain = exemplar_svms(candidates, negatives, C=1.0)
    scaled = exemplar_svms(candidates * scale, negatives * scale, C=scale**-2)
    np.testing.assert_allclose(scaled.weights * scale, plain.weights, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(scaled.intercepts, plain.intercepts, rtol=1e-5, atol=1e-6)


def test_a_common_offset_costs_no_digits():
    candidates, negatives = draw(6, "overlapping", 5, 600, 30)
    shifted = exemplar_svms(candidates + 1e6, negatives + 1e6)
    plain = exemplar_svms(candidates, negatives)
    np.testing.assert_allclose(shifted.weights, plain.weights, rtol=1e-4, atol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("n", "C"), [(1, 1e-6), (1, 1.0), (1, 1e6), (5, 1e-6), (5, 1.0), (5, 1e6), (300, 1.0)]
)
def test_degenerate_data_stay_finite(n, C):
    rng = np.random.default_rng(0)
    same = np.ones((n, 3))
    features = np.array([1e-6, 1.0, 1e6])
    for candidates, negatives in (
        (same[:1], same),  # nothing but copies
        (2 * same[:1], same),
        (np.zeros((1, 3)), np.zeros((n, 3))),
        (rng.normal(size=(4, 3)) * features, rng.normal(size=(n, 3)) * features),
        (np.vstack([same[:1], 1e9 * same[:1]]), rng.normal(size=(n, 3))),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            svms = exemplar_svms(candidates, negatives, C=C)
        for values in (svms.weights, svms.intercepts, svms.duality_gap):
            assert np.isfinite(values).all()
        # Twelve digits between the features and C = 1e6 may cost the certificate, not silently.
        warned = [issubclass(warning.category, ConvergenceWarning) for warning in caught]
        assert warned == [True] * bool((svms.duality_gap > 1e-4).any())


def test_an_unreachable_tolerance_warns():
    candidates, negatives = draw(8, "overlapping", 40, 50, 3)
    with pytest.warns(ConvergenceWarning, match=r"of 40 exemplar SVMs ended .* tol=1e-30"):
        svms = exemplar_svms(candidates, negatives, tol=1e-30)
    assert svms.duality_gap.max() < 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [[1.0]], {}), "candidates have 2 features but negatives have 1"),
        (([[1.0]], [[np.nan]], {}), "negatives contains NaN"),
        (([[1.0]], [[0.0]], {"C": 0.0}), "C and tol must be positive; got C=0.0"),
        (([[1.0]], [[0.0]], {"tol": -1.0}), "tol=-1.0"),
    ],
)
def test_refusals(arguments, message):
    candidates, negatives, options = arguments
    with pytest.raises(ValueError, match=message):
        exemplar_svms(candidates, negatives, **options)


# The box QP against its optimality conditions, which share no code with it.


@pytest.mark.parametrize(
    ("gram", "linear", "upper", "expected"),
    [
        ([[2.0]], [2.0], 10.0, [1.0]),  # stationary inside
        ([[2.0]], [2.0], 0.5, [0.5]),  # at its upper bound
        ([[2.0]], [-1.0], 9.0, [0.0]),  # at its lower bound
        ([[0.0]], [2.0], 7.0, [7.0]),  # no curvature: up to the bound
        ([[2.0, 1.0], [1.0, 2.0]], [3.0, 3.0], 9.0, [1.0, 1.0]),
        ([[1.0, 2.0], [2.0, 5.0]], [2.0, 1.0], 9.0, [2.0, 0.0]),
    ],
)
def test_worked_box_problems(gram, linear, upper, expected):
    alpha = np.zeros(len(linear))
    assert solve_box_qp(np.array(gram), np.array(linear), upper, alpha, 1e-12)
    np.testing.assert_allclose(alpha, expected, atol=1e-12)


@given(
    st.integers(0, 10_000),
    st.integers(1, 40),
    st.integers(1, 12),
    st.floats(-3, 3),
    st.sampled_from(["plain", "duplicates", "zero row"]),
    st.booleans(),
)
def test_optimality_conditions(seed, n, rank, exponent, kind, warm):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, rank)) + rng.normal(size=rank)
    if kind == "duplicates":
        rows[n // 2 :] = rows[: n - n // 2]
    elif kind == "zero row":
        rows[0] = 0
    gram, upper = rows @ rows.T, 10.0**exponent
    alpha = rng.uniform(0, upper, n) if warm else np.zeros(n)
    assert solve_box_qp(gram, np.full(n, 2.0), upper, alpha, 1e-12)
    gradient = 2.0 - gram @ alpha
    # Rounding of the gradient itself grows with the terms it sums.
    slack = 1e-10 * (1 + np.abs(gram) @ alpha)
    assert ((alpha >= 0) & (alpha <= upper)).all()
    assert (gradient <= slack)[alpha < upper].all()
    assert (gradient >= -slack)[alpha > 0].all()
