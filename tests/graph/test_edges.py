"""Similarity and discrimination: hand-worked values, twins from the definitions, invariances."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pigmil.graph import (
    confidence_ranks,
    discrimination,
    influence,
    self_confidence,
    similarity,
)

# A few values only, so that ties and zeros are common.
square = st.integers(1, 9).flatmap(
    lambda m: arrays(np.float64, (m, m), elements=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0]))
)


def loop_similarity(confidences):
    """The definition, pair by pair."""
    m = len(confidences)

    def order(i, j):
        others = [k for k in range(m) if k != i and confidences[i][k] > 0]
        return 1 + sum(confidences[i][k] > confidences[i][j] for k in others)

    values = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            if i != j and confidences[i][j] > 0 and confidences[j][i] > 0:
                values[i, j] = 1 / (order(i, j) * order(j, i))
    return values


def test_worked_example():
    # Classifier 0 puts instance 2 first and 1 second; 1 knows only 0; 2 knows 1, then 0.
    confidences = [[5.0, 0.1, 0.9], [2.0, -1.0, 0.0], [0.3, 0.4, 7.0]]
    np.testing.assert_array_equal(confidence_ranks(confidences), [[0, 2, 1], [1, 0, 0], [2, 1, 0]])
    # (0, 1): 1 / (2 * 1); (0, 2): 1 / (1 * 2); (1, 2): classifier 1 is not confident in 2.
    np.testing.assert_allclose(similarity(confidences), [[0, 0.5, 0.5], [0.5, 0, 0], [0.5, 0, 0]])
    np.testing.assert_allclose(self_confidence(confidences), [5.0, -1.0, 7.0], rtol=1e-9)


def test_ties_share_the_best_rank():
    confidences = np.full((4, 4), -1.0)
    confidences[0] = [9.0, 2.0, 2.0, 1.0]
    np.testing.assert_array_equal(confidence_ranks(confidences)[0], [0, 1, 1, 3])


@given(square)
def test_equals_the_definition(confidences):
    np.testing.assert_allclose(similarity(confidences), loop_similarity(confidences))


def test_missing_and_infinite_confidences():
    confidences = np.array([[1.0, np.nan, np.inf], [1.0, 1.0, 1.0], [0.5, -np.inf, 1.0]])
    np.testing.assert_array_equal(confidence_ranks(confidences), [[0, 0, 1], [1, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 1)])
def test_only_square_matrices(shape):
    with pytest.raises(ValueError, match="Expected a square matrix of confidences"):
        similarity(np.zeros(shape))


distances = st.floats(1e-6, 50.0)
rates = st.floats(0.1, 5.0)


def plain_influence(delta, gamma_far, gamma_near):
    """Eq. (6) as printed."""
    if delta >= 1:
        return -math.exp(-gamma_far * (delta - 1))
    if delta > 0:
        return gamma_near * math.log(delta) - 1
    return -math.inf


def test_worked_values():
    values = influence([0.0, math.exp(-2), 1.0, 3.0], gamma_far=0.5, gamma_near=3.0)
    np.testing.assert_allclose(values, [-math.inf, -7.0, -1.0, -math.exp(-1)])


@given(st.lists(st.one_of(st.just(0.0), distances)), rates, rates)
def test_equals_the_printed_equation(deltas, gamma_far, gamma_near):
    np.testing.assert_allclose(
        influence(deltas, gamma_far, gamma_near),
        [plain_influence(x, gamma_far, gamma_near) for x in deltas],
        rtol=1e-12,
    )


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_discrimination_is_the_mean_over_all_negatives(make):
    rng = np.random.default_rng(0)
    x, negatives = rng.normal(size=(5, 3)), rng.normal(size=(7, 3))
    expected = [
        sum(plain_influence(math.dist(a, b) / 1.5, 2.0, 0.5) for b in negatives) / 7 / 4 for a in x
    ]
    found = discrimination(
        make(x), make(negatives), unit=1.5, gamma_far=2.0, gamma_near=0.5, scale=4.0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_discrimination_by_hand():
    # Distances 1 and 3 from the first instance; the second is a copy of a negative.
    found = discrimination(np.array([[1.0], [4.0]]), np.array([[0.0], [4.0]]))
    np.testing.assert_allclose(found, [(-1.0 - math.exp(-2.0)) / 2, -np.inf])


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"must not be negative, got -1\.0"):
        influence([1.0, -1.0])
    with pytest.raises(ValueError, match="needs at least one negative instance"):
        discrimination(np.zeros((1, 2)), np.empty((0, 2)))
