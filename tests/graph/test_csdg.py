"""Edge weights, their normalisation and the walk: hand-worked values, loop twins, closed form."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pigmil.graph import (
    build_csdg,
    consistency,
    edge_weights,
    normalise_weights,
    ranking_scores,
)


@st.composite
def problems(draw):
    m = draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    s = np.exp(-rng.exponential(draw(st.sampled_from([1.0, 10.0])), size=(m, m)))
    s = np.triu(s * (rng.random((m, m)) < draw(st.floats(0, 1))), 1)
    d = -np.exp(rng.normal(size=m) * draw(st.sampled_from([1.0, 8.0])))
    d[rng.random(m) < 0.15] = -np.inf
    d[rng.random(m) < 0.1] = 0.0
    return s + s.T, d


@given(
    problems(),
    st.sampled_from(["log-ratio", 1.0, 0.0]),
    st.sampled_from(["log-ratio", 1.0, 0.0]),
    st.sampled_from(["consistency", "similarity"]),
)
@settings(max_examples=150)
def test_equals_the_definition(loop_weights, problem, alpha, beta, alpha_on):
    s, d = problem
    c = consistency(s)
    weights = edge_weights(s, c, d, alpha=alpha, beta=beta, alpha_on=alpha_on)
    expected = loop_weights(s, c, d, alpha, beta, alpha_on)
    np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(weights, weights.T)


def test_worked_example():
    # S = 1/4, C = 3: log(12) < 10, so alpha = beta = 10: 1/4 + 30 - 10 * 0.5 = 25.25.
    s, c, d = [[0, 0.25], [0.25, 0]], [[0, 3], [3, 0]], [-0.5, -0.1]
    assert edge_weights(s, c, d)[0, 1] == pytest.approx(25.25)
    # Eq. (2): 10 * 1/4 + 3 - 5 = 0.5.
    assert edge_weights(s, c, d, alpha_on="similarity")[0, 1] == pytest.approx(0.5)
    assert edge_weights(s, c, d, alpha=1, beta=2)[0, 1] == pytest.approx(2.25)


def test_normalisations():
    weights = np.array([[0.0, 2.0, 0, 0], [2.0, 0.0, 6.0, 0], [0, 6.0, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_allclose(normalise_weights(weights), weights / 6)
    by_row = weights / np.array([[2.0], [8.0], [6.0], [1.0]])
    np.testing.assert_allclose(normalise_weights(weights, "row"), by_row)
    for how in ("max", "row"):
        np.testing.assert_array_equal(normalise_weights(np.zeros((3, 3)), how), np.zeros((3, 3)))
        assert normalise_weights(np.zeros((0, 0)), how).shape == (0, 0)


def test_graph_of_some_candidates():
    s = np.zeros((5, 5))
    s[1, 3] = s[3, 1] = s[3, 4] = s[4, 3] = 1.0
    np.fill_diagonal(s, 1.0)  # a self-similarity must not become a loop
    d = [-9.0, -0.5, -9.0, -0.1, -0.2]
    csdg = build_csdg([4, 1, 3], s, d, [9.0, 1.0, 9.0, 2.0, 3.0])
    np.testing.assert_array_equal(csdg.vertices, [4, 1, 3])
    np.testing.assert_array_equal(csdg.consistency, [[0, 0, 3], [0, 0, 3], [3, 3, 0]])
    np.testing.assert_array_equal(csdg.discrimination, [-0.2, -0.5, -0.1])
    # 1 + 10 * 3 - 10 * 0.2 = 29 and 31 - 5 = 26; normalised by 29.
    np.testing.assert_allclose(csdg.weights, [[0, 0, 29], [0, 0, 26], [29, 26, 0]])
    a, b, r = 0.8, 0.8 * 26 / 29, np.ones(3)
    for _ in range(11):
        r = np.array([0.6 + a * r[2], 0.2 + b * r[2], 0.4 + a * r[0] + b * r[1]])
    np.testing.assert_allclose(csdg.scores, r)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"got shapes \(2, 2\) and \(3, 3\)"):
        edge_weights(np.zeros((2, 2)), np.zeros((3, 3)), [-1.0, -1.0])
    with pytest.raises(ValueError, match="at most 0 and no NaN"):
        edge_weights(np.zeros((2, 2)), np.zeros((2, 2)), [-1.0, 1.0])


# The two meanings of "the ratio of D to S + C".
S = np.array([[0.0, 0.5, 1.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0]])
C = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
D = np.array([-0.1, -0.2, -0.3])


def test_scaling_within_the_formula_scales_the_term_of_d():
    # Edges (0, 1) and (0, 2): S + C = 2.5 and 2; D = -0.2 and -0.3.
    fixed = {"alpha": 1.0, "beta": 2.0}
    weights = edge_weights(S, C, D, **fixed, discrimination_scale=3.0)
    assert weights[0, 1] == pytest.approx(2.5 - 2 * 3 * 0.2)
    assert weights[0, 2] == pytest.approx(2.0 - 2 * 3 * 0.3)
    assert np.array_equal(weights, edge_weights(S, C, 3 * D, **fixed))
    assert edge_weights(S, C, D, **fixed, discrimination_scale=0.0)[0, 1] == 2.5


def test_rescaling_brings_d_to_so_many_times_the_mean_of_s_and_c():
    # Mean of S + C is 2.25, mean of |D| 0.25: D is taken 9 k times, whatever beta says.
    for k in (0.0, 0.5, 1.0):
        for beta in ("log-ratio", 77.0):
            weights = edge_weights(S, C, D, alpha=1.0, beta=beta, discrimination_relative=k)
            assert weights[0, 1] == pytest.approx(max(0.0, 2.5 - 9 * k * 0.2))
            assert weights[0, 2] == pytest.approx(max(0.0, 2.0 - 9 * k * 0.3))


def test_copies_of_negatives_weigh_nothing_at_any_ratio():
    copies = np.array([-0.1, -np.inf, -0.3])
    for change in ({"discrimination_scale": 0.0}, {"discrimination_relative": 0.0}):
        weights = edge_weights(S, C, copies, **change)
        assert weights[0, 1] == 0.0
        assert weights[0, 2] > 0.0


def random_walk(seed, m):
    rng = np.random.default_rng(seed)
    weights = rng.random((m, m)) * (rng.random((m, m)) < 0.6)
    weights = (weights + weights.T) / 2
    np.fill_diagonal(weights, 0)
    return weights, rng.normal(size=m), rng.random(m)


def test_worked_walk():
    # d = 0.8, restart 0.2 * (5, 0): (1 + .8, .8) = (1.8, .8), then (1 + .64, 1.44).
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(ranking_scores(swap, [5.0, 0.0], max_iter=0), [1.8, 0.8])
    np.testing.assert_allclose(ranking_scores(swap, [5.0, 0.0], max_iter=1), [1.64, 1.44])


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0, 1), st.integers(0, 12))
def test_equals_the_printed_loop(loop_scores, seed, m, damping, max_iter):
    weights, confidence, start = random_walk(seed, m)
    np.testing.assert_allclose(
        ranking_scores(weights, confidence, damping=damping, max_iter=max_iter, start=start),
        loop_scores(weights, confidence, damping, max_iter, start),
        rtol=1e-10,
        atol=1e-12,
    )


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_converges_to_the_closed_form(seed, m):
    weights, confidence, start = random_walk(seed, m)
    radius = np.abs(np.linalg.eigvalsh(weights)).max()
    weights = weights / radius if radius > 0 else weights
    limit = np.linalg.solve(np.eye(m) - 0.8 * weights, 0.2 * confidence)
    found = ranking_scores(weights, confidence, max_iter=200, start=start)
    np.testing.assert_allclose(found, limit, atol=1e-9)


def test_a_random_start_is_drawn_at_every_call():
    weights, confidence, _ = random_walk(0, 5)
    drawn, again = np.random.RandomState(1), np.random.RandomState(1)
    for _ in range(2):
        found = ranking_scores(weights, confidence, start=drawn)
        expected = ranking_scores(weights, confidence, start=again.uniform(size=5))
        np.testing.assert_array_equal(found, expected)


def test_errors_of_the_walk_say_what_to_do():
    with pytest.raises(ValueError, match=r"each of the 3 values .* got shape \(2, 2\)"):
        ranking_scores(np.zeros((2, 2)), np.zeros(3))
    with pytest.raises(ValueError, match=r"start must have shape \(2,\), got \(3,\)"):
        ranking_scores(np.zeros((2, 2)), np.zeros(2), start=np.ones(3))
