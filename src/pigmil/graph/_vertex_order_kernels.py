"""Number the vertices of a graph by what the graph looks like around them."""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray

ROUNDS = 4


@njit
def dense_ranks(values: IntArray, ranks: IntArray) -> int:
    """Write the rank of every value among the distinct ones to ``ranks``; return their number."""
    order = np.argsort(values)
    rank = -1
    for k in range(values.shape[0]):
        if k == 0 or values[order[k]] != values[order[k - 1]]:
            rank += 1
        ranks[order[k]] = rank
    return rank + 1


@njit
def refined_order(edges: npt.NDArray[np.int8]) -> IntArray:
    """Order the vertices by decreasing degree, refined by the degrees of their neighbours.

    The order depends on the graph only, except among vertices that a few rounds of colour
    refinement cannot distinguish.
    """
    n = edges.shape[0]
    colour = np.zeros(n, dtype=np.int64)
    around = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for j in range(n):
            around[i] += edges[i, j]
    n_colours = dense_ranks(around, colour)
    ranks = np.zeros(n, dtype=np.int64)
    for _ in range(ROUNDS):
        if n_colours == n:
            break
        # A mark per colour: sums of marks are equal where the neighbours have the same colours.
        for i in range(n):
            around[i] = 0
            for j in range(n):
                if edges[i, j] != 0:
                    around[i] += (colour[j] + 1) * 0x9E3779B97F % 2**40
        dense_ranks(around, ranks)
        for i in range(n):
            around[i] = colour[i] * n + ranks[i]
        before = n_colours
        n_colours = dense_ranks(around, colour)
        if n_colours == before:
            break
    # By decreasing colour, the first of equal ones first.
    order = np.empty(n, dtype=np.int64)
    n_placed = 0
    for wanted in range(n_colours - 1, -1, -1):
        for i in range(n):
            if colour[i] == wanted:
                order[n_placed] = i
                n_placed += 1
    return order
