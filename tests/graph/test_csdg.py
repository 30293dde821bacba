"""Edge weights and normalisation: hand-worked values, loop twin, every reading."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pigmil.graph import (
    build_csdg,
    consistency,
    edge_weights,
    normalise_weights,
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
    st.sampled_from(["min", "max"]),
)
@settings(max_examples=150)
def test_equals_the_definition(loop_weights, problem, alpha, beta, alpha_on, pair):
    s, d = problem
    c = consistency(s)
    weights = edge_weights(
        s, c, d, alpha=alpha, beta=beta, alpha_on=alpha_on, discrimination_pair=pair
    )
    np.testing.assert_allclose(
        weights, loop_weights(s, c, d, alpha, beta, alpha_on, pair), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_array_equal(weights, weights.T)


def test_worked_example():
    # S = 1/4, C = 3: log(12) < 10, so alpha = beta = 10: 1/4 + 30 - 10 * 0.5 = 25.25.
    s, c, d = [[0, 0.25], [0.25, 0]], [[0, 3], [3, 0]], [-0.5, -0.1]
    assert edge_weights(s, c, d)[0, 1] == pytest.approx(25.25)
    assert edge_weights(s, c, d, discrimination_pair="max")[0, 1] == pytest.approx(29.25)
    # Eq. (2): 10 * 1/4 + 3 - 5 = 0.5.
    assert edge_weights(s, c, d, alpha_on="similarity")[0, 1] == pytest.approx(0.5)
    assert edge_weights(s, c, d, alpha=1, beta=2)[0, 1] == pytest.approx(2.25)


@pytest.mark.parametrize("how", ["max", "row", "symmetric", "spectral", "sum"])
def test_normalisations(how):
    weights = np.array([[0.0, 2.0, 0, 0], [2.0, 0.0, 6.0, 0], [0, 6.0, 0, 0], [0, 0, 0, 0]])
    found = normalise_weights(weights, how)
    if how == "max":
        expected = weights / 6
    elif how == "row":
        expected = weights / np.array([[2.0], [8.0], [6.0], [1.0]])
    elif how == "symmetric":
        expected = np.zeros((4, 4))
        expected[0, 1] = expected[1, 0] = 2 / 4
        expected[1, 2] = expected[2, 1] = 6 / math.sqrt(48)
    elif how == "spectral":
        expected = weights / math.sqrt(40)  # a path: the radius is the root of 2^2 + 6^2
    else:
        expected = weights / 16
    np.testing.assert_allclose(found, expected)
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
    with pytest.raises(ValueError, match=r"one of .*'max'.* got 'mean'"):
        normalise_weights(np.zeros((2, 2)), "mean")
