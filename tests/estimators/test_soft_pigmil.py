"""SoftPIGMIL: every step by hand and against a plain loop, then what the estimator promises."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize
from scipy.stats import norm

from pigmil import Bags, SoftPIGMIL
from pigmil._core.segments import quota
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators._soft_forest import Forest, fit_forest, fit_forest_apart
from pigmil.estimators._soft_rivals import gap, robust_spread
from pigmil.estimators._soft_screen import (
    directions_of_bags,
    fit_plane,
    screen,
)
from pigmil.estimators._soft_steps import (
    WalkProblem,
    bag_sums,
    fit_noisy_or,
    noisy_or_loss,
    soft_pool,
    standardized,
    walk,
)
from pigmil.estimators._soft_views import (
    bin_limits,
    evenly_spaced,
    fit_scale,
    landmark_positions,
    rank_table,
    squared_distances,
    whitening,
)
from pigmil.estimators._soft_weights import (
    auc_standard_error,
    bag_auc,
    copy_penalty,
    fit_sigmoid,
    model_weights,
    pool_overlap,
)
from pigmil.estimators._soft_working_set import working_positions
from pigmil.metrics import detection_accuracy


@st.composite
def problems(draw):
    """Return rows, offsets and labels of two to five bags with both classes."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    positive = np.arange(len(sizes)) % 2 == draw(st.integers(0, 1))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return rng.normal(size=(offsets[-1], 3)), offsets, positive, rng


# --- scales and views


def test_standard_scale_by_hand_ignores_a_constant_feature():
    scale = fit_scale("standard", np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(scale.apply(np.array([[5.0, 9.0]])), [[3.0, 0.0]])


def test_raw_scale_only_centres():
    scale = fit_scale("raw", np.array([[1.0], [3.0]]))
    np.testing.assert_allclose(scale.apply(np.array([[5.0]])), [[3.0]])


def test_whitened_scale_gives_equal_variances_up_to_its_ridge():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3)) @ np.array([[1.0, 0.9, 0.0], [0.0, 0.2, 0.0], [0.0, 0.0, 5.0]])
    found = fit_scale("whitened", rows).apply(rows)
    correlation = np.corrcoef(rows.T)
    variances = np.linalg.eigvalsh(correlation)
    expected = variances / (variances + 0.1 * variances.mean())
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.diag(expected), atol=1e-10)


def test_ranks_by_hand():
    values, scores = rank_table(np.array([4.0, 1.0, 4.0, 9.0]))
    assert len(values) == len(scores) == 256
    np.testing.assert_allclose(values[:4], [1.0, 4.0, 9.0, 9.0])
    np.testing.assert_allclose(scores[:3], norm.ppf([1 / 8, 4 / 8, 7 / 8]), atol=1e-12)


@pytest.mark.parametrize("kind", ["raw", "standard", "whitened"])
def test_single_precision_differs_by_rounding_only(kind):
    rows = 1000.0 + np.random.default_rng(7).normal(size=(60, 3))
    double = fit_scale(kind, rows).apply(rows)
    single = fit_scale(kind, rows, single=True).apply(rows)
    assert (double.dtype, single.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_rank_scale_does_not_see_a_monotone_change_of_a_feature():
    column = np.random.default_rng(1).permutation(np.linspace(-2.0, 2.0, 50))[:, None]
    plain = fit_scale("rank", column).apply(column)
    bent = fit_scale("rank", np.exp(column)).apply(np.exp(column))
    np.testing.assert_allclose(bent, plain, atol=1e-9)


def test_squares_by_hand():
    """Standardized -1 and 1, 1 and -1 have equal squares; 0, 0, 3 standardize to a, a, -2a."""
    rows = np.array([[0.0], [0.0], [3.0]])
    scale = fit_scale("squares", rows)
    a = np.sqrt(0.5)
    np.testing.assert_allclose(scale.apply(rows), [[-a, -a], [-a, -a], [2 * a, 2 * a]])
    assert scale.n_columns == 2
    rows = np.random.default_rng(8).normal(size=(50, 3))
    plain = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    both = np.column_stack([plain, plain**2])
    expected = (both - both.mean(axis=0)) / both.std(axis=0)
    np.testing.assert_allclose(fit_scale("squares", rows).apply(rows), expected, atol=1e-12)


def test_bins_by_hand():
    """Two values of the first feature have one limit; the second one is constant."""
    scale = fit_scale("bins", np.array([[1.0, 5.0], [3.0, 5.0], [3.0, 5.0]]))
    found = scale.apply(np.array([[1.9, 0.0], [2.0, 9.0], [-1e9, 5.0]]))
    np.testing.assert_array_equal(found, [[1, 0, 1], [0, 1, 1], [1, 0, 1]])
    assert scale.n_columns == 3


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60))
@settings(max_examples=50, deadline=None)
def test_limits_of_bins_against_counting(values):
    found = bin_limits(np.array(values, dtype=float))
    distinct = sorted(set(values))
    expected = []
    for low, high in itertools.pairwise(distinct):
        below = sum(value <= low for value in values)
        before = sum(value < low for value in values)
        octile = any(before < k * len(values) / 8 <= below for k in range(1, 8))
        if len(distinct) <= 8 or octile:
            expected.append((low + high) / 2)
    np.testing.assert_allclose(found, expected)


def test_landmarks_are_spread_over_each_class():
    positive = np.array([True] * 5 + [False] * 3)
    rows = np.arange(8.0)[:, None]
    assert landmark_positions(rows, positive, 3).tolist() == [0, 2, 4, 5, 6, 7]
    mixed = np.array([4, 7, 0, 2, 6, 1, 5, 3])  # the same instances in another order
    found = mixed[landmark_positions(rows[mixed], positive[mixed], 3)]
    assert sorted(found.tolist()) == [0, 2, 4, 5, 6, 7]
    assert evenly_spaced(5, 2).tolist() == [0, 4]


def test_order_of_bags_and_instances_where_not_all_are_landmarks():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(12, 4)) for _ in range(40)]
    for part in parts[1::2]:
        part[0] += 2.0
    bags = Bags.from_list(parts, y=np.arange(40) % 2)
    order = rng.permutation(40)
    mixed = Bags.from_list([rng.permutation(parts[bag]) for bag in order], y=bags.y[order])
    landmarks = [
        np.sort(SoftPIGMIL().fit(each).committee_.landmarks[0], axis=0) for each in (bags, mixed)
    ]
    np.testing.assert_allclose(*landmarks, atol=1e-9)
    expected, found = (SoftPIGMIL().fit(each).decision_function(bags) for each in (bags, mixed))
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.ptp(expected))


def test_forest_of_bags_in_which_thousands_of_instances_share_a_place():
    """A share of 1/3000 is rounded to 0, but a bag keeps its best instances."""
    rows = np.repeat([0.0, 1.0], 3000)[:, None]
    pool, offsets = np.full(6000, 1 / 3000), np.array([0, 3000, 6000])
    forest = fit_forest(rows, pool, offsets, np.array([False, True]))
    low, high = forest.log_odds(np.array([[0.0], [1.0]]))
    assert low < 0 < high


def test_squared_distances_of_sparse_and_dense_rows():
    rng = np.random.default_rng(2)
    rows, marks = rng.normal(size=(4, 3)), rng.normal(size=(2, 3))
    expected = [[((row - mark) ** 2).sum() for mark in marks] for row in rows]
    np.testing.assert_allclose(squared_distances(rows, marks), expected)
    np.testing.assert_allclose(
        squared_distances(sp.csr_matrix(rows), sp.csr_matrix(marks)), expected
    )


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_products_of_whitened_rows_are_exemplar_lda(seed):
    """psi_i . psi_j = (x_i - m)' (C + rho tr(C)/d I)^-1 (x_j - m)."""
    rows = np.random.default_rng(seed).normal(size=(12, 3))
    projection, shift = whitening(rows, None, 0.5)
    psi = rows @ projection - shift
    covariance = np.cov(rows.T, bias=True)
    inverse = np.linalg.inv(covariance + 0.5 * np.trace(covariance) / 3 * np.eye(3))
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(psi @ psi.T, centred @ inverse @ centred.T, atol=1e-8)


def test_whitening_of_a_kernel_is_that_of_its_feature_space():
    """With all rows as landmarks and a linear kernel, Nystroem is the linear map itself."""
    rows = np.random.default_rng(3).normal(size=(8, 2))
    gram = rows @ rows.T
    projection, shift = whitening(gram, gram, 0.5)
    psi = gram @ projection - shift
    direct, offset = whitening(rows, None, 0.5)
    plain = rows @ direct - offset
    np.testing.assert_allclose(psi @ psi.T, plain @ plain.T, atol=1e-8)


def test_whitening_of_equal_rows_gives_zeros():
    projection, shift = whitening(np.ones((4, 2)), None, 0.5)
    np.testing.assert_array_equal(np.ones((4, 2)) @ projection - shift, np.zeros((4, 1)))


# --- pool and walk


def test_soft_pool_by_hand():
    pool = soft_pool(np.array([1.0, 1.0, 0.0, np.log(4.0) / 2]), np.array([0, 2, 4]), 2.0)
    np.testing.assert_allclose(pool, [0.5, 0.5, 0.2, 0.8])


def test_bag_sums_by_hand():
    rows = np.array([[1.0, 0.0], [3.0, 1.0], [2.0, 2.0]], dtype=np.float32)
    found = bag_sums(np.array([0.5, 1.0, 2.0]), rows, np.array([0, 2, 3]))
    np.testing.assert_array_equal(found, [[3.5, 1.0], [4.0, 4.0]])
    assert found.dtype == np.float32


def test_walk_scores_by_hand():
    """Two positive bags {1, 3} and {2}, two negative bags {0} and {-1}, one direction.

    With pool (1/4, 3/4 | 1): places 2.5 and 2. Scores before standardizing: of the first bag
    x (2 - (-0.5)), of the second x (2.5 + 0.5), of the negatives x (2.25 - mean of the other).
    """
    psi = np.array([[1.0], [3.0], [2.0], [0.0], [-1.0]])
    offsets = np.array([0, 2, 3, 4, 5])
    problem = WalkProblem(psi, offsets, np.array([True, True, False, False]))
    scores, direction = problem.score(np.array([0.25, 0.75, 1.0, 1.0, 1.0]))
    raw = np.array([2.5, 7.5, 6.0, 0.0, -2.25])
    np.testing.assert_allclose(scores, (raw + 1.125) / 1.125)
    np.testing.assert_allclose(direction.coef, [2.75])
    assert (direction.center, direction.spread) == (-1.125, 1.125)


def slow_walk_scores(psi, offsets, positive, pool):
    """Score every instance by plain loops over all pairs."""
    owner = [bag for bag in range(len(positive)) for _ in range(offsets[bag], offsets[bag + 1])]
    raw = []
    for i in range(len(psi)):
        towards = []
        for bag in np.flatnonzero(positive):
            if bag != owner[i]:
                members = range(offsets[bag], offsets[bag + 1])
                towards.append(sum(pool[j] * (psi[i] @ psi[j]) for j in members))
        against = [
            psi[i] @ psi[j]
            for j in range(len(psi))
            if not positive[owner[j]] and owner[j] != owner[i]
        ]
        raw.append((np.mean(towards) if towards else 0.0) - (np.mean(against) if against else 0.0))
    raw = np.array(raw)
    negatives = raw[[not positive[bag] for bag in owner]]
    spread = max(negatives.std(), raw.std() / 100)
    spread = spread if spread > 1e-12 else 1.0
    return (raw - negatives.mean()) / spread


@given(problems())
@settings(max_examples=40, deadline=None)
def test_walk_scores_against_loops(problem):
    psi, offsets, positive, rng = problem
    pool = soft_pool(rng.normal(size=len(psi)), offsets, 1.0)
    scores, _ = WalkProblem(psi, offsets, positive).score(pool)
    np.testing.assert_allclose(scores, slow_walk_scores(psi, offsets, positive, pool), atol=1e-6)


@given(problems())
@settings(max_examples=20, deadline=None)
def test_rounds_of_a_walk_replay(problem):
    psi, offsets, positive, _ = problem
    walked = WalkProblem(psi, offsets, positive)
    scores, direction, rounds = walk(walked, sharpness=3.0, max_iter=6, tol=1e-3)
    assert 1 <= len(rounds) <= 6
    pool = np.ones(len(psi)) / np.repeat(np.diff(offsets), np.diff(offsets))
    for kept, kept_scores in rounds:
        np.testing.assert_allclose(kept, pool[walked.traced])
        again = slow_walk_scores(psi, offsets, positive, pool)
        np.testing.assert_allclose(kept_scores, again[walked.traced], atol=1e-5)
        pool = soft_pool(again, offsets, 3.0)
    np.testing.assert_allclose(scores, again, atol=1e-5)
    assert direction.scores(psi).shape == scores.shape


def test_standardized_keeps_a_spread_where_negatives_are_equal():
    certain = np.array([True, True, False])
    found = standardized(np.ones(1), np.array([2.0, 2.0, 5.0]), certain)
    assert found.spread == pytest.approx(0.01 * np.sqrt(2.0))
    assert standardized(np.ones(1), np.full(3, 2.0), certain).spread == 1.0


# --- noisy-or


def test_noisy_or_by_hand():
    """A positive bag of two instances with p = 1/2: p_b = 3/4. A negative one with p = 1/2."""
    psi, offsets = np.zeros((3, 1)), np.array([0, 2, 3])
    loss, gradient = noisy_or_loss(np.zeros(2), psi, offsets, np.array([True, False]), 0.0)
    assert loss == pytest.approx(-0.5 * np.log(0.75) - 0.5 * np.log(0.5))
    # d/dc of -log(1 - (1 - p)^2) is -2 p (1 - p)^2 / (3/4), of -log(1 - p) it is p
    np.testing.assert_allclose(gradient, [0.0, 0.5 * (-2 * 0.5 * 0.25 / 0.75) + 0.5 * 0.5])


@given(problems())
@settings(max_examples=40, deadline=None)
def test_noisy_or_against_products(problem):
    psi, offsets, positive, rng = problem
    parameters = rng.normal(size=4)

    def slow(values):
        chance = 1 / (1 + np.exp(-(psi @ values[:-1] + values[-1])))
        sides = {True: [], False: []}
        for bag, label in enumerate(positive):
            none = np.prod(1 - chance[offsets[bag] : offsets[bag + 1]])
            sides[bool(label)].append(-np.log(1 - none if label else none))
        return (np.mean(sides[True]) + np.mean(sides[False])) / 2 + 0.05 * (values[:-1] ** 2).sum()

    loss, gradient = noisy_or_loss(parameters, psi, offsets, positive, 0.1)
    assert loss == pytest.approx(slow(parameters))
    np.testing.assert_allclose(gradient, approx_fprime(parameters, slow, 1e-7), atol=1e-5)


def test_noisy_or_stays_finite_far_out():
    psi, offsets = np.array([[1.0], [1.0]]), np.array([0, 1, 2])
    for size in (1e4, -1e4):
        loss, gradient = noisy_or_loss(
            np.array([size, 0.0]), psi, offsets, np.array([True, False]), 0.0
        )
        assert np.isfinite(loss)
        assert np.isfinite(gradient).all()


def test_fitted_noisy_or_prefers_the_instance_that_negatives_lack():
    psi = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.1]])
    offsets = np.array([0, 2, 4, 5, 6])
    direction = fit_noisy_or(
        psi, offsets, np.array([True, True, False, False]), ridge=0.01, max_iter=50
    )
    scores = direction.scores(psi)
    assert scores[1] > scores[0]
    assert scores[3] > scores[2]


# --- weights, calibration, working set


@given(problems())
@settings(max_examples=30, deadline=None)
def test_bag_auc_against_pairs(problem):
    _, _, positive, rng = problem
    values = rng.integers(0, 3, size=len(positive)).astype(float)
    pairs = [
        (values[i] > values[j]) + 0.5 * (values[i] == values[j])
        for i in np.flatnonzero(positive)
        for j in np.flatnonzero(~positive)
    ]
    assert bag_auc(values, positive) == pytest.approx(np.mean(pairs))


def test_standard_error_by_hand():
    """Two bags of each class, area 1: drawn to (2 + 1/2) / 3 = 5/6, q1 = 5/7, q2 = 25/33."""
    a, q1, q2 = 5 / 6, 5 / 7, 25 / 33
    expected = np.sqrt((a * (1 - a) + (q1 - a * a) + (q2 - a * a)) / 4)
    assert auc_standard_error(1.0, 2, 2) == pytest.approx(expected)
    assert auc_standard_error(0.8, 200, 300) < auc_standard_error(0.8, 20, 30)


def test_standard_error_against_simulation():
    """Hanley and McNeil assume exponential values: their AUC is 1 / (1 + ratio of the means)."""
    rng = np.random.default_rng(0)
    positive = np.arange(100) < 40
    areas = []
    for _ in range(2000):
        values = rng.exponential(np.where(positive, 4.0, 1.0))
        areas.append(bag_auc(values, positive))
    assert np.std(areas) == pytest.approx(auc_standard_error(0.8, 40, 60), rel=0.1)


def test_weights_by_hand():
    positive = np.arange(80) < 40
    step = np.hypot(0.5 * auc_standard_error(0.9, 40, 40), 0.005)
    aucs = np.array([0.9, 0.9 - step, 0.2])
    found = model_weights(aucs, np.ones(3), positive, 0.5)
    np.testing.assert_allclose(found, np.array([1.0, np.exp(-1.0), 0.0]) / (1 + np.exp(-1.0)))
    found = model_weights(aucs, np.array([0.5, 1.0, 1.0]), positive, 0.5)
    np.testing.assert_allclose(found, np.array([1 / 4, np.exp(-1.0), 0]) / (1 / 4 + np.exp(-1.0)))


def test_models_without_any_stability_still_have_weights():
    found = model_weights(np.array([0.9, 0.9]), np.zeros(2), np.arange(80) < 40, 0.5)
    np.testing.assert_allclose(found, [0.5, 0.5])


def test_overlap_by_hand():
    """Shares 1/4, 3/4 against 1/2, 1/2 overlap by 3/4, equal ones by 1; one bag is negative."""
    scores = np.log([1.0, 3.0, 1.0, 2.0, 9.0, 1.0])
    held_out = np.log([5.0, 5.0, 3.0, 6.0, 1.0, 9.0])
    offsets, positive = np.array([0, 2, 4, 6]), np.array([True, True, False])
    assert pool_overlap(scores, held_out, offsets, positive, 1.0) == pytest.approx(0.875)


@given(problems(), st.floats(0.1, 4.0))
@settings(max_examples=30, deadline=None)
def test_overlap_against_loops(problem, sharpness):
    rows, offsets, positive, rng = problem
    first, second = rng.normal(size=(2, len(rows)))
    parts = []
    for bag in np.flatnonzero(positive):
        members = range(offsets[bag], offsets[bag + 1])
        totals = [sum(np.exp(sharpness * v[i]) for i in members) for v in (first, second)]
        shares = [
            [np.exp(sharpness * v[i]) / total for i in members]
            for v, total in zip((first, second), totals, strict=True)
        ]
        parts.append(sum(min(pair) for pair in zip(*shares, strict=True)))
    found = pool_overlap(first, second, offsets, positive, sharpness)
    assert found == pytest.approx(np.mean(parts))


def test_sigmoid_against_a_general_optimizer():
    rng = np.random.default_rng(5)
    positive = np.arange(60) % 3 == 0
    values = rng.normal(size=60) + 1.5 * positive
    targets = np.where(positive, 21 / 22, 1 / 42)

    def loss(parameters):
        margins = parameters[0] * values + parameters[1]
        return (np.logaddexp(0, margins) - targets * margins).sum()

    expected = minimize(loss, np.zeros(2), tol=1e-10).x
    np.testing.assert_allclose(fit_sigmoid(values, positive), expected, atol=1e-4)


def test_sigmoid_never_falls():
    slope, intercept = fit_sigmoid(np.array([3.0, 2.0, 1.0, 0.0]), np.array([0, 0, 1, 1]) == 1)
    assert slope > 0
    assert intercept == pytest.approx(-slope * 1.5, abs=1e-9)
    assert fit_sigmoid(np.ones(4), np.array([1, 0, 1, 0]) == 1)[0] > 0


def test_copies_of_negatives_by_hand():
    """Of four negatives two are equal and in different bags: c = 1/2. One positive is a copy."""
    rows = np.array([[7.0], [5.0], [7.0], [1.0], [7.0], [2.0]])
    offsets, positive = np.array([0, 2, 4, 6]), np.array([True, False, False])
    expected = [np.log(2.0), 0, 0, 0, 0, 0]
    np.testing.assert_allclose(copy_penalty(rows, offsets, positive), expected)
    np.testing.assert_allclose(copy_penalty(sp.csr_matrix(rows), offsets, positive), expected)


def test_a_copy_within_one_negative_bag_is_no_repetition():
    rows = np.array([[0.0], [0.0], [-0.0]])
    penalty = copy_penalty(rows, np.array([0, 1, 3]), np.array([True, False]))
    np.testing.assert_allclose(penalty, [np.log(2.0), 0.0, 0.0])


def test_robust_spread_by_hand():
    rows = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]])
    assert robust_spread(rows) == pytest.approx(1.0 + 4.0)


def test_quota_by_hand():
    assert quota(np.array([1, 4, 9]), 9) == 4
    assert quota(np.array([5, 5]), 1) == 1
    assert quota(np.array([5, 5]), 100) == 5


@given(problems(), st.integers(1, 5), st.integers(0, 2))
@settings(max_examples=30, deadline=None)
def test_working_positions_against_a_loop(problem, most, n_rankings):
    _, offsets, _, rng = problem
    rankings = [rng.normal(size=offsets[-1]) for _ in range(n_rankings)]
    order = rng.uniform(size=offsets[-1])
    expected = []
    for begin, end in itertools.pairwise(offsets):
        best = set()
        for scores in rankings:
            by_score = sorted(range(begin, end), key=lambda i, scores=scores: -scores[i])
            best |= set(by_score[: int(np.ceil(most / (n_rankings + 1)))])
        best = set(sorted(best, key=lambda i: -order[i])[:most])
        rest = sorted(set(range(begin, end)) - best, key=lambda i: -order[i])
        expected += [*best, *rest[: most - len(best)]]
    assert working_positions(rankings, offsets, most, order).tolist() == sorted(expected)


# --- the contrast over many instances


def test_directions_of_bags_by_hand():
    """Places 1 and 3 against 4 and 8; the last bag takes no part."""
    places = np.array([[1.0], [3.0], [4.0], [8.0], [50.0]])
    positive = np.array([True, True, False, False, False])
    found, overall = directions_of_bags(places, positive, np.arange(5) < 4)
    np.testing.assert_allclose(found.ravel(), [3 - 6, 1 - 6, 2 - 8, 2 - 4, 2 - 6])
    np.testing.assert_allclose(overall, [2 - 6])


@given(problems(), st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_screening_against_loops(problem, n_rounds):
    """All rounds by plain loops; the best one by the AUC of bag maxima, first come first served."""
    rows, offsets, positive, _ = problem
    bags = Bags.from_list(np.split(rows, offsets[1:-1]))
    owner = np.repeat(np.arange(len(positive)), np.diff(offsets))
    plane = fit_plane(rows, ~positive[owner])
    found = screen(bags, positive, plane, [], n_rounds=n_rounds)

    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    covariance = np.cov(scaled.T, bias=True)
    metric = np.linalg.inv(covariance + 0.5 * np.trace(covariance) / 3 * np.eye(3))
    negatives = scaled[~positive[owner]]
    pool = np.concatenate([np.full(size, 1 / size) for size in np.diff(offsets)])
    rounds, before = [], None
    for _ in range(n_rounds):
        places = np.array([pool[owner == b] @ scaled[owner == b] for b in range(len(positive))])

        def mean_place(label, without, places=places):
            others = [b for b in np.flatnonzero(positive == label) if b != without]
            return places[others].mean(axis=0) if others else np.zeros(3)

        overall = mean_place(True, None) - mean_place(False, None)
        values = negatives @ metric @ overall
        spread = max(values.std(), 1e-12)
        scores = np.zeros(len(rows))
        for bag in range(len(positive)):
            direction = mean_place(True, bag) - mean_place(False, bag)
            scores[owner == bag] = scaled[owner == bag] @ metric @ direction
        scores = (scores - values.mean()) / spread
        best = np.maximum.reduceat(scores, offsets[:-1])
        rounds.append((bag_auc(best, positive), scores))
        root = np.linalg.cholesky(metric).T @ overall
        limit = np.inf if before is None else 0.99 * np.linalg.norm(root) * np.linalg.norm(before)
        if before is not None and root @ before >= limit:
            break
        before = root
        raised = np.exp(scores - best[owner])
        pool = raised / np.bincount(owner, raised)[owner]
    expected = max(rounds, key=lambda pair: pair[0])[1]
    np.testing.assert_allclose(found.scores(rows, offsets)[:, 0], expected, rtol=1e-4, atol=1e-4)


def test_screening_without_a_fold_does_not_see_it():
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=(5, 2)) for _ in range(8)]
    positive = np.arange(8) % 2 == 0
    fold = np.arange(8) < 2
    plane = fit_plane(np.concatenate(parts), np.repeat(~positive, 5))
    first = screen(Bags.from_list(parts), positive, plane, [fold], n_rounds=3)
    changed = [100.0 + part if held else part for part, held in zip(parts, fold, strict=True)]
    second = screen(Bags.from_list(changed), positive, plane, [fold], n_rounds=3)
    rows, offsets = np.concatenate(parts), np.arange(0, 41, 5)
    one, two = first.scores(rows, offsets), second.scores(rows, offsets)
    np.testing.assert_array_equal(one[10:, 1], two[10:, 1])
    np.testing.assert_array_equal(first.directions[1].coef, second.directions[1].coef)
    assert not np.array_equal(one[10:, 0], two[10:, 0])
    held_out = first.as_fit(rows, offsets, [fold]).held_out
    np.testing.assert_allclose(held_out[:10], one[:10, 1])


def test_a_rare_concept_reaches_the_working_set():
    """One instance in 200 is positive, and a random sample of a bag rarely has one."""
    rng = np.random.default_rng(0)
    rows, concept = rng.normal(size=(40, 200, 8)), rng.normal(size=8)
    rows[::2, 0] += 6.0 * concept / np.linalg.norm(concept)
    bags = Bags.from_list(list(rows), y=[1, 0] * 20)
    model = SoftPIGMIL(max_instances=400, random_state=0).fit(bags)
    assert (model.detected_instances_ % 200 == 0).mean() >= 0.9


def test_a_weak_concept_in_large_bags_is_found():
    """Two in 100 instances are shifted by 3.4 standard deviations along one of 60 features."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 300, 60)).astype(np.float32)
    rows[::2, :6, 7] += 3.4
    bags = Bags.from_list(list(rows), y=[1, 0] * 30)
    model = SoftPIGMIL(max_instances=1200, n_landmarks=20, random_state=0).fit(bags)
    assert (model.detected_instances_ % 300 < 6).mean() >= 0.9
    assert model.held_out_auc_ >= 0.9


# --- forest


def stump():
    """One tree: feature 1 at most 0.5 goes left (value 0.25), others right (value 1)."""
    return Forest(
        roots=np.array([0]),
        feature=np.array([1, 0, 0]),
        threshold=np.array([0.5, 0.0, 0.0]),
        left=np.array([1, 1, 2]),
        right=np.array([2, 1, 2]),
        value=np.array([0.5, 0.25, 1.0]),
    )


def test_log_odds_of_a_tree_by_hand():
    found = stump().log_odds(np.array([[9.0, 0.5], [0.0, 0.6]]))
    np.testing.assert_allclose(found, np.log([0.27 / 0.77, 1.02 / 0.02]))


def test_forest_is_that_of_the_library_it_was_fitted_with(monkeypatch):
    """Leaf shares against ``predict_proba`` of the trees themselves."""
    kept = []
    from pigmil.estimators import _soft_forest

    class Spied(_soft_forest.ExtraTreesClassifier):
        def fit(self, *arguments, **options):
            kept.append(self)
            return super().fit(*arguments, **options)

    monkeypatch.setattr(_soft_forest, "ExtraTreesClassifier", Spied)
    rng = np.random.default_rng(0)
    rows, offsets = rng.normal(size=(60, 3)), np.arange(0, 61, 5)
    positive = np.arange(12) % 2 == 0
    pool = soft_pool(rows[:, 0] * 4, offsets, 1.0)
    forest = fit_forest(rows, pool, offsets, positive)
    share = kept[0].predict_proba(rows.astype(np.float32))[:, 1]
    np.testing.assert_allclose(forest.log_odds(rows), np.log((share + 0.02) / (1.02 - share)))
    shuffled = np.concatenate([rng.permutation(np.arange(at, at + 5)) for at in offsets[:-1]])
    again = fit_forest(rows[shuffled], pool[shuffled], offsets, positive)
    np.testing.assert_array_equal(again.log_odds(rows), forest.log_odds(rows))


def test_a_forest_without_a_fold_does_not_see_it():
    rng = np.random.default_rng(1)
    rows, offsets = rng.normal(size=(40, 2)), np.arange(0, 41, 5)
    positive, fold = np.arange(8) % 2 == 0, np.arange(8) < 2
    scores = rows[:, 0].copy()
    _, first = fit_forest_apart(rows, scores, [scores[10:], scores[:10]], offsets, positive,
                                [fold, ~fold], 3.0)  # fmt: skip
    changed = rows.copy()
    changed[:10] *= -1
    _, second = fit_forest_apart(changed, scores, [scores[10:], scores[:10]], offsets, positive,
                                 [fold, ~fold], 3.0)  # fmt: skip
    alone = fit_forest(rows[10:], soft_pool(scores[10:] / scores[10:][~np.repeat(positive, 5)[10:]]
                       .std(), offsets[:-2], 3.0), offsets[:-2], positive[2:])  # fmt: skip
    np.testing.assert_array_equal(first[:10], alone.log_odds(rows[:10]))
    np.testing.assert_array_equal(second[:10], alone.log_odds(changed[:10]))


# --- the estimator


@pytest.fixture(scope="module")
def ring():
    return make_ring(random_state=0)


@pytest.fixture(scope="module")
def fitted(ring):
    return SoftPIGMIL().fit(ring)


def test_detects_the_ring(ring, fitted):
    assert detection_accuracy(fitted.detected_instances_, ring.instance_labels) == 1.0
    assert fitted.held_out_auc_ > 0.95
    assert np.isfinite(fitted.instance_scores_).all()
    best = np.maximum.reduceat(fitted.instance_scores_, ring.offsets[:-1])
    np.testing.assert_array_equal(
        fitted.instance_scores_[fitted.detected_instances_], best[ring.y == 1]
    )


def test_the_tight_group_of_two_that_explain_the_labels_is_left_out(fitted):
    bags = make_basic(random_state=3)
    model = SoftPIGMIL().fit(bags)
    assert model.rival_auc_ >= 0.97
    assert detection_accuracy(model.detected_instances_, bags.instance_labels) >= 0.95
    assert not fitted.rival_auc_ >= 0.9


@given(seed=st.integers(0, 10_000), scale=st.floats(0.01, 100.0))
@settings(max_examples=15, deadline=None)
def test_adding_an_instance_never_lowers_a_bag(fitted, ring, seed, scale):
    rng = np.random.default_rng(seed)
    bag = ring[int(rng.integers(len(ring)))]
    larger = np.concatenate([bag, scale * rng.normal(size=(1, 2))])
    before, after = fitted.decision_function(Bags.from_list([bag, larger]))
    assert after >= before - 1e-9
    chances = fitted.predict_proba(Bags.from_list([bag, larger]))[:, 1]
    assert chances[1] >= chances[0] - 1e-9


def test_probabilities_are_the_sigmoid_of_the_best_instance(fitted, ring):
    best = np.maximum.reduceat(fitted.decision_function_instances(ring), ring.offsets[:-1])
    np.testing.assert_allclose(fitted.decision_function(ring), best)
    np.testing.assert_allclose(fitted.predict_proba(ring)[:, 1], 1 / (1 + np.exp(-best)))
    np.testing.assert_array_equal(fitted.predict(ring) == 1, best > 0)


def test_trace_replays_the_pools(fitted, ring):
    inside = np.flatnonzero(np.repeat(ring.y == 1, ring.sizes))
    starts = np.concatenate([[0], np.cumsum(ring.sizes[ring.y == 1])])
    weights = [model.weight for model in fitted.trace_]
    assert sum(weights) == pytest.approx(1.0)
    walks = [model for model in fitted.trace_ if model.kind == "walk"]
    assert {model.kind for model in fitted.trace_} == {"walk", "noisy_or"}
    for model in walks:
        np.testing.assert_array_equal(model.instances, inside)
        np.testing.assert_allclose(np.add.reduceat(model.pools[0], starts[:-1]), 1.0, atol=1e-5)
        for scores, pool in zip(model.scores[:-1], model.pools[1:], strict=True):
            raised = [np.exp(3.0 * (part - part.max())) for part in np.split(scores, starts[1:-1])]
            expected = np.concatenate([part / part.sum() for part in raised])
            np.testing.assert_allclose(pool, expected, atol=1e-4)


def test_threads_do_not_change_the_result(fitted, ring):
    again = SoftPIGMIL(n_jobs=2).fit(ring)
    np.testing.assert_array_equal(again.instance_scores_, fitted.instance_scores_)


def test_sparse_bags_score_as_dense_ones():
    rng = np.random.default_rng(0)
    parts = [rng.poisson(0.4, size=(4, 30)).astype(float) for _ in range(16)]
    for part in parts[::2]:
        part[0, :5] += 3.0
    y = [1, 0] * 8
    dense = Bags.from_list(parts, y=y)
    sparse = dense.with_instances(sp.csr_matrix(dense.instances))
    model, other = SoftPIGMIL().fit(dense), SoftPIGMIL().fit(sparse)
    np.testing.assert_allclose(other.instance_scores_, model.instance_scores_, atol=1e-6)
    np.testing.assert_allclose(
        other.decision_function(sparse), model.decision_function(dense), atol=1e-6
    )
    assert (model.detected_instances_ % 4 == 0).all()


def test_wide_sparse_bags_are_never_made_dense_by_rank_or_rotation():
    rng = np.random.default_rng(0)
    parts = [np.zeros((3, 1100)) for _ in range(12)]
    for number, part in enumerate(parts):
        part[np.arange(3), rng.integers(20, 1100, size=3)] = 1.0
        if number % 2 == 0:
            part[1, :10] = 1.0
    dense = Bags.from_list(parts, y=[1, 0] * 6)
    model = SoftPIGMIL().fit(dense.with_instances(sp.csr_matrix(dense.instances)))
    assert {trace.scale for trace in model.trace_} <= {"raw", "standard"}
    assert (model.detected_instances_ % 3 == 1).all()
    np.testing.assert_allclose(
        SoftPIGMIL().fit(dense).instance_scores_, model.instance_scores_, atol=1e-3
    )


def test_many_instances_are_fitted_on_a_working_set():
    bags = make_rhombus(random_state=0)
    model = SoftPIGMIL(max_instances=160, random_state=0).fit(bags)
    assert len(model.trace_[0].instances) == 20 * 6  # never less than six of each bag
    assert len(model.instance_scores_) == bags.n_instances
    assert detection_accuracy(model.detected_instances_, bags.instance_labels) >= 0.9


def test_embedding_classifies_what_no_single_instance_can():
    """A bag is positive if it holds both of two kinds; each alone occurs in negative bags."""
    rng = np.random.default_rng(0)
    first, second = np.array([3.0, 0.0]), np.array([0.0, 3.0])
    parts, y = [], []
    for number in range(90):
        kinds = [[first, second], [first, first], [second, second]][number % 3]
        parts.append(np.array(kinds) + rng.normal(0, 0.3, size=(2, 2)))
        y.append(int(number % 3 == 0))
    train, test = Bags.from_list(parts[:60], y=y[:60]), Bags.from_list(parts[60:])
    embedding = SoftPIGMIL(bag_rule="embedding").fit(train)
    assert (embedding.predict(test) == y[60:]).mean() >= 0.9
    assert (SoftPIGMIL().fit(train).predict(test) == y[60:]).mean() < 0.9
    assert embedding.predict_proba(test).shape == (30, 2)


def single_concept(rng, n_bags, *, train):
    """Bags of the single-concept test of Raff and Holt (2023).

    Positive bags hold instances around (2, ..., 2). In training negative bags hold a marker
    around (-10, ..., -10), and in the test positive ones do.
    """
    parts, y = [], []
    for number in range(n_bags):
        label = number % 2
        rows = [rng.normal(size=(int(rng.integers(3, 10)), 8))]
        if label:
            rows.append(rng.normal(2.0, 0.1, size=(int(rng.integers(1, 4)), 8)))
        if bool(label) != train:
            rows.append(rng.normal(-10.0, 0.1, size=(1, 8)))
        parts.append(np.concatenate(rows))
        y.append(label)
    return Bags.from_list(parts, y=y)


def test_passes_the_single_concept_test():
    rng = np.random.default_rng(0)
    model = SoftPIGMIL().fit(single_concept(rng, 80, train=True))
    test = single_concept(rng, 80, train=False)
    assert bag_auc(model.decision_function(test), test.y == 1) >= 0.97


def test_one_bag_of_a_class_leaves_nothing_to_hold_out():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(3, 2)) for _ in range(5)], y=[1, 0, 0, 0, 0])
    model = SoftPIGMIL().fit(bags)
    assert np.isnan(model.held_out_auc_)
    assert np.isfinite(model.decision_function(bags)).all()


def test_the_gap_of_groups_by_hand():
    # Along the first feature: means of even rows 1 and 7, of odd rows 3 and 7; negatives spread 2.
    first = np.array([[0.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    second = np.array([[7.0, 5.0], [7.0, 5.0]])
    negatives = np.array([[-2.0, 0.0], [2.0, 9.0]])
    assert gap(first, second, negatives) == pytest.approx(6 * 4 / (2 * 6))


def test_many_positives_of_one_kind_are_no_rivals():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(60, 8)) for _ in range(24)]
    for part in parts[::2]:
        part[:15, 0] += 5.0
    model = SoftPIGMIL().fit(Bags.from_list(parts, y=[1, 0] * 12))
    assert (model.detected_instances_ % 60 < 15).all()
    assert np.isnan(model.rival_auc_)
