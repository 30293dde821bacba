"""The box QP against its optimality conditions, which share no code with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil.exemplars._kernels import solve_box_qp


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
def test_worked_examples(gram, linear, upper, expected):
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
