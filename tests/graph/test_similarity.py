"""Ranks and similarity: hand-worked orders, double-loop twin, invariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pigmil.graph import confidence_ranks, self_confidence, similarity

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


@given(square, st.randoms(use_true_random=False))
def test_order_of_instances_changes_nothing(confidences, random):
    order = list(range(len(confidences)))
    random.shuffle(order)
    expected = similarity(confidences)[np.ix_(order, order)]
    np.testing.assert_array_equal(similarity(confidences[np.ix_(order, order)]), expected)


def test_missing_and_infinite_confidences():
    confidences = np.array([[1.0, np.nan, np.inf], [1.0, 1.0, 1.0], [0.5, -np.inf, 1.0]])
    np.testing.assert_array_equal(confidence_ranks(confidences), [[0, 0, 1], [1, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 1)])
def test_only_square_matrices(shape):
    with pytest.raises(ValueError, match="Expected a square matrix of confidences"):
        similarity(np.zeros(shape))
