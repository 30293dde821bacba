"""Exemplar discriminants against their formulas, term by term."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import LedoitWolf

from pigmil.exemplars import _model
from pigmil.exemplars.lda import exemplar_lda


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
    # Negatives (±1, 0), (0, ±2): variances 1/2 and 2. For x = (1, 2): Σ^-1 x = (2, 1), and
    # 2 * (2, 1) / ((2, 1).(1, 2)) = (1, 1/2), bias -1. Half shrinkage: variances 7/8 and 13/8.
    negatives = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [0.0, -2.0]])
    lda = exemplar_lda([[1.0, 2.0]], negatives, shrinkage=1e-12)
    np.testing.assert_allclose(lda.weights, [[1.0, 0.5]])
    np.testing.assert_allclose(lda.intercepts, [-1.0])
    half = exemplar_lda([[1.0, 0.0]], negatives, shrinkage=0.5)
    np.testing.assert_allclose(half.weights, [[2.0, 0.0]])
    expected = formula(np.array([[1.0, 2.0]]), negatives, negatives, np.diag([7 / 8, 13 / 8]))
    lda = exemplar_lda([[1.0, 2.0]], negatives, shrinkage=0.5)
    np.testing.assert_allclose(lda.confidence(negatives), expected)


@given(st.integers(0, 1000), st.integers(3, 40), st.integers(2, 6))
def test_automatic_shrinkage_is_ledoit_and_wolf(seed, n, d):
    candidates, negatives = draw(seed, 3, n, d)
    expected = formula(candidates, negatives, candidates, LedoitWolf().fit(negatives).covariance_)
    np.testing.assert_allclose(
        exemplar_lda(candidates, negatives).confidence(candidates), expected, rtol=1e-6, atol=1e-7
    )


def test_blocks_sparse_and_single_precision_change_nothing(monkeypatch):
    candidates, negatives = draw(0, 4, 300, 5)
    instances = candidates + 0.5
    lda = exemplar_lda(candidates, negatives).confidence(instances)
    for name, value in (("_FAST_BYTES", 0), ("_BLOCK_ELEMENTS", 70)):
        monkeypatch.setattr(_model, name, value)
    for kind, atol in ((np.array, 1e-9), (sp.csr_matrix, 1e-9), (np.float32, 1e-4)):
        left, right = kind(candidates), kind(negatives)
        np.testing.assert_allclose(
            exemplar_lda(left, right).confidence(kind(instances)), lda, atol=atol
        )


@pytest.mark.parametrize("n", [1, 4])
def test_coinciding_negatives_give_the_nearest_mean(n):
    lda = exemplar_lda([[3.0, 0.0], [1.0, 0.0]], np.tile([1.0, 0.0], (n, 1)))
    np.testing.assert_allclose(lda.confidence([[3.0, 7.0], [2.0, 1.0]])[0], [1.0, 0.0], atol=1e-12)
    # The second candidate lies on the mean: it is sure of nothing.
    np.testing.assert_array_equal(lda.confidence([[3.0, 7.0]])[1], [0.0])
