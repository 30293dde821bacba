"""The walk: hand-worked products, loop twin, closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil.graph import fixed_point, ranking_scores


def random_problem(seed, m):
    rng = np.random.default_rng(seed)
    weights = rng.random((m, m)) * (rng.random((m, m)) < 0.6)
    weights = (weights + weights.T) / 2
    np.fill_diagonal(weights, 0)
    return weights, rng.normal(size=m), rng.random(m)


def test_worked_example():
    # d = 0.8, restart 0.2 * (5, 0): (1 + .8, .8) = (1.8, .8), then (1 + .64, 1.44).
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(ranking_scores(swap, [5.0, 0.0], max_iter=0), [1.8, 0.8])
    np.testing.assert_allclose(ranking_scores(swap, [5.0, 0.0], max_iter=1), [1.64, 1.44])


@given(st.integers(0, 10_000), st.integers(1, 12), st.floats(0, 1), st.integers(0, 12))
def test_equals_the_printed_loop(loop_scores, seed, m, damping, max_iter):
    weights, confidence, start = random_problem(seed, m)
    np.testing.assert_allclose(
        ranking_scores(weights, confidence, damping=damping, max_iter=max_iter, start=start),
        loop_scores(weights, confidence, damping, max_iter, start),
        rtol=1e-10,
        atol=1e-12,
    )


@given(st.integers(0, 10_000), st.integers(1, 12))
def test_converges_to_the_closed_form(seed, m):
    weights, confidence, start = random_problem(seed, m)
    radius = np.abs(np.linalg.eigvalsh(weights)).max()
    weights = weights / radius if radius > 0 else weights
    limit = fixed_point(weights, confidence)
    np.testing.assert_allclose(
        0.2 * confidence + 0.8 * weights @ limit, limit, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        ranking_scores(weights, confidence, max_iter=200, start=start), limit, atol=1e-9
    )


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"each of the 3 values .* got shape \(2, 2\)"):
        ranking_scores(np.zeros((2, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="'ones' or an array of scores, got 'zeros'"):
        ranking_scores(np.zeros((2, 2)), np.zeros(2), start="zeros")
    with pytest.raises(ValueError, match=r"start must have shape \(2,\), got \(3,\)"):
        ranking_scores(np.zeros((2, 2)), np.zeros(2), start=np.ones(3))
    with pytest.raises(ValueError, match=r"spectral radius of damping \* weights is 1\.6"):
        fixed_point(np.array([[0.0, 2.0], [2.0, 0.0]]), [1.0, 1.0])
