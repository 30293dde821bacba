"""Slow, obvious twins of the graph pieces, written straight from the paper."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest


@pytest.fixture(scope="session")
def exhaustive():
    """Consistency by trying every vertex set."""

    def largest_sizes(adjacency, density):
        n = len(adjacency)
        best = np.zeros((n, n), dtype=int)
        for size in range(2, n + 1):
            needed = Fraction(str(density)) * (size * (size - 1) // 2) // 1
            for chosen in combinations(range(n), size):
                pairs = [(i, j) for i, j in combinations(chosen, 2) if adjacency[i, j] > 0]
                if len(pairs) >= needed:
                    for i, j in pairs:
                        best[i, j] = best[j, i] = size
        return best

    return largest_sizes


@pytest.fixture(scope="session")
def loop_weights():
    """Weights of the CSDG, edge by edge."""

    def weigh(s, c, d, alpha="log-ratio", beta="log-ratio", alpha_on="consistency"):
        m = len(d)
        weights = np.zeros((m, m))
        for i in range(m):
            for j in range(m):
                if i == j or not s[i, j] > 0:
                    continue
                d_pair = min(d[i], d[j])
                if d_pair == -math.inf:
                    continue
                a = max(10, math.log(c[i, j] / s[i, j])) if alpha == "log-ratio" else alpha
                if d_pair == 0:
                    term = 0.0
                elif beta == "log-ratio":
                    term = max(10, math.log((a * s[i, j] + c[i, j]) / abs(d_pair))) * d_pair
                else:
                    term = beta * d_pair
                if alpha_on == "consistency":
                    weights[i, j] = max(0, s[i, j] + a * c[i, j] + term)
                else:
                    weights[i, j] = max(0, a * s[i, j] + c[i, j] + term)
        return weights

    return weigh


@pytest.fixture(scope="session")
def loop_scores():
    """Algorithm 1."""

    def walk(weights, confidence, damping=0.8, max_iter=10, start=None):
        m = len(confidence)
        scores = [1.0] * m if start is None else list(start)
        n = 0
        while n <= max_iter:
            scores = [
                (1 - damping) * confidence[i]
                + damping * sum(weights[i][j] * scores[j] for j in range(m))
                for i in range(m)
            ]
            n += 1
        return scores

    return walk
