"""Exemplar SVMs of sparse candidates, from the dot products of the negatives."""

import numpy as np

from pigmil._core.typing import FloatArray
from pigmil.exemplars._shared_negatives import SharedNegatives

ADDED = 32
MAX_ROUNDS = 200


def solve_through_products(
    points: FloatArray, negatives: SharedNegatives, upper: float, tol: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return weights, relative gaps and lowest scores of a block of candidates.

    For sparse negatives whose dot products fit in memory (`SharedNegatives.products`): differences
    of sparse rows are dense, but their dot products are cheap. The gap is computed from the
    weights themselves, not from the products that the solver used.
    """
    from pigmil.exemplars._gram_kernels import solve_by_gram

    products = negatives.products
    assert products is not None
    along = negatives.score_all(points)
    norms = np.einsum("ij,ij->i", points, points)
    alpha = np.zeros_like(along)
    for i, norm in enumerate(norms):
        solve_by_gram(products, along[i], norm, upper, tol, ADDED, MAX_ROUNDS, alpha[i])
    weights = alpha.sum(axis=1)[:, None] * points - negatives.combine(alpha)
    scores = negatives.score_all(weights)
    gradient = 2.0 - np.einsum("ij,ij->i", weights, points)[:, None] + scores
    half = 0.5 * np.einsum("ij,ij->i", weights, weights)
    dual = 2.0 * alpha.sum(axis=1) - half
    excess = half + upper * np.maximum(gradient, 0.0).sum(axis=1) - dual
    gaps = np.full(len(points), np.inf)
    np.divide(np.maximum(excess, 0.0), dual, out=gaps, where=dual > 0.0)
    return weights, gaps, scores.min(axis=1)
