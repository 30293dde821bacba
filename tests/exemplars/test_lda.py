"""Exemplar discriminants against their formulas, term by term."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf

from pigmil.exemplars.closed_form import exemplar_lda


def draw(seed, m, n, d):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, d)) + 1, rng.normal(size=(n, d)) * np.arange(1, d + 1) + 5


def formula(candidates, negatives, instances, covariance):
    """Confidence of the discriminant: 1 at the candidate, -1 at the mean of the negatives."""
    mean = negatives.mean(axis=0)
    confidence = np.empty((len(candidates), len(instances)))
    for i, x in enumerate(candidates):
        direction = np.linalg.solve(covariance, x - mean)
        for j, y in enumerate(instances):
            confidence[i, j] = 2 * direction @ (y - mean) / (direction @ (x - mean)) - 1
    return confidence


def test_worked_discriminant():
    # On a line: negatives 0 and 2 have mean 1, the candidate 3 is two above it, so w = 1, b = -2.
    lda = exemplar_lda([[3.0]], [[0.0], [2.0]])
    np.testing.assert_allclose(lda.weights, [[1.0]])
    np.testing.assert_allclose(lda.intercepts, [-2.0])
    # Negatives (±1, 0), (0, ±1): no direction is preferred. For x = (1, 2), w = 2 x / |x|^2.
    negatives = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    lda = exemplar_lda([[1.0, 2.0]], negatives)
    np.testing.assert_allclose(lda.weights, [[0.4, 0.8]])
    np.testing.assert_allclose(lda.intercepts, [-1.0])


@given(st.integers(0, 1000), st.integers(3, 40), st.integers(2, 6))
def test_automatic_shrinkage_is_ledoit_and_wolf(seed, n, d):
    candidates, negatives = draw(seed, 3, n, d)
    expected = formula(candidates, negatives, candidates, LedoitWolf().fit(negatives).covariance_)
    np.testing.assert_allclose(
        exemplar_lda(candidates, negatives).confidence(candidates), expected, rtol=1e-6, atol=1e-7
    )


@pytest.mark.parametrize("kind", [sp.csr_matrix, np.float32])
def test_sparse_and_single_precision_change_nothing(kind):
    candidates, negatives = draw(0, 4, 300, 5)
    instances = candidates + 0.5
    expected = exemplar_lda(candidates, negatives).confidence(instances)
    found = exemplar_lda(kind(candidates), kind(negatives)).confidence(kind(instances))
    np.testing.assert_allclose(found, expected, atol=1e-4)


@pytest.mark.parametrize("n", [1, 4])
def test_coinciding_negatives_give_the_nearest_mean(n):
    lda = exemplar_lda([[3.0, 0.0], [1.0, 0.0]], np.tile([1.0, 0.0], (n, 1)))
    np.testing.assert_allclose(lda.confidence([[3.0, 7.0], [2.0, 1.0]])[0], [1.0, 0.0], atol=1e-12)
    # The second candidate lies on the mean: it is sure of nothing.
    np.testing.assert_array_equal(lda.confidence([[3.0, 7.0]])[1], [0.0])
