"""Exact consistency, one vertex after another, reusing what the change of a vertex leaves.

A quasi-clique without the changed vertex stays one, and no new one appears among the others. So
only sets that hold the vertex are looked for, and substitutes for those sets that held it before.
Every edge has the set that certifies its size, as a bit mask.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray
from pigmil.graph._quasi_clique_core_kernels import core_sizes
from pigmil.graph._quasi_clique_exact_kernels import apart_masks, largest_extension
from pigmil.graph._quasi_clique_search_kernels import search_sizes
from pigmil.graph._vertex_order_kernels import refined_order

Flags = npt.NDArray[np.int8]


@njit
def count_bits(mask: int) -> int:
    """Return the number of members of a set."""
    count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count


@njit
def is_quasi_clique(mask: int, apart: IntArray, budget: IntArray) -> bool:
    """Whether few enough pairs of a set lack an edge."""
    missing = 0
    for v in range(apart.shape[0]):
        if (mask >> v) & 1:
            missing += count_bits(mask & apart[v])
    return missing <= 2 * budget[count_bits(mask)]


@njit
def share(mask: int, sizes: IntArray, sets: IntArray) -> None:
    """Give a quasi-clique to all its pairs that have no set of the same size."""
    size = count_bits(mask)
    for i in range(sizes.shape[0]):
        if (mask >> i) & 1:
            for j in range(i):
                if (mask >> j) & 1 and sizes[i, j] < size:
                    sizes[i, j] = sizes[j, i] = size
                    sets[i, j] = sets[j, i] = mask


@njit
def extend(
    adjacency: Flags,
    apart: IntArray,
    budget: IntArray,
    fixed: IntArray,
    lower: int,
    upper: int,
    sizes: IntArray,
    sets: IntArray,
) -> int:
    """Share the largest quasi-clique through ``fixed`` if it exceeds ``lower``; return its size."""
    if lower >= upper:
        return lower
    members = np.empty(adjacency.shape[0], dtype=np.int64)
    size = largest_extension(adjacency, apart, budget, fixed, lower, upper, members)
    if size > lower:
        mask = 0
        for k in range(size):
            mask |= 1 << members[k]
        share(mask, sizes, sets)
    return size


@njit
def changed_sizes(
    adjacency: Flags, budget: IntArray, vertex: int, before: IntArray, sets_before: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the sizes of all edges, and their sets, after the edges of ``vertex`` changed.

    ``before`` and ``sets_before`` are those of the graph before the change, and exact.
    """
    n = adjacency.shape[0]
    apart = apart_masks(adjacency)
    sizes = np.zeros((n, n), dtype=np.int64)
    sets = np.zeros((n, n), dtype=np.int64)
    own = 1 << vertex
    for i in range(n):
        for j in range(n):
            others = i != vertex and j != vertex and adjacency[i, j] != 0
            if others and sets_before[i, j] & own == 0:
                sizes[i, j] = before[i, j]
                sets[i, j] = sets_before[i, j]
    # A set that held the vertex may still be one, with it or without it.
    for i in range(n):
        for j in range(i):
            mask = sets_before[i, j]
            if mask & own != 0 and sizes[i, j] < before[i, j] - 1:
                if is_quasi_clique(mask, apart, budget):
                    share(mask, sizes, sets)
                elif is_quasi_clique(mask & ~own, apart, budget):
                    share(mask & ~own, sizes, sets)

    # No set through the vertex and another one is larger than ``reach`` of the other.
    one = np.array([vertex])
    ceiling = extend(adjacency, apart, budget, one, max(1, sizes[vertex].max()), n, sizes, sets)
    reach = np.full(n, ceiling)
    two = np.array([vertex, vertex])
    for j in range(n):
        if adjacency[vertex, j] != 0:
            two[1] = j
            reach[j] = extend(adjacency, apart, budget, two, sizes[vertex, j], ceiling, sizes, sets)
    three = np.array([vertex, vertex, vertex])
    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0 or i == vertex or j == vertex:
                continue
            two[0] = three[0] = i
            two[1] = three[1] = j
            upper = min(reach[i], reach[j])
            if sets_before[i, j] & own == 0:
                extend(adjacency, apart, budget, three, sizes[i, j], upper, sizes, sets)
            else:
                upper = max(before[i, j], upper)
                extend(adjacency, apart, budget, two, sizes[i, j], upper, sizes, sets)
    for i in range(n):
        for j in range(n):
            if adjacency[i, j] == 0:
                sizes[i, j] = sets[i, j] = 0
    return sizes, sets


@njit
def exact_sizes(adjacency: Flags, budget: IntArray) -> tuple[IntArray, IntArray]:
    """Return the consistency of every edge of a graph, and its set, vertex after vertex."""
    n = adjacency.shape[0]
    sizes = np.zeros((n, n), dtype=np.int64)
    sets = np.zeros((n, n), dtype=np.int64)
    part = np.zeros((n, n), dtype=np.int8)
    order = refined_order(adjacency)
    for k in range(n):
        v = order[k]
        for m in range(k):
            u = order[m]
            part[v, u] = part[u, v] = adjacency[v, u]
        sizes, sets = changed_sizes(part, budget, v, sizes, sets)
    return sizes, sets


@njit
def fast_sizes(adjacency: Flags, needed: IntArray, n_chains: int) -> IntArray:
    """Return the sizes of all edges by nested cores, or by local search if there is no chain.

    The vertices are numbered by the graph around them, so that their order changes nothing.
    """
    n = adjacency.shape[0]
    order = refined_order(adjacency)
    inner = np.empty((n, n), dtype=np.int8)
    for i in range(n):
        for j in range(n):
            inner[i, j] = adjacency[order[i], order[j]]
    sizes = np.zeros((n, n), dtype=np.int64)
    nothing = np.empty((0, 0), dtype=np.int64)
    if n_chains > 0:
        core_sizes(inner, needed, sizes, n_chains, nothing, nothing, nothing)
    else:
        search_sizes(inner, needed, sizes, np.empty((0, n), dtype=np.int8), nothing)
    result = np.zeros((n, n), dtype=np.int64)
    for i in range(n):
        for j in range(n):
            if inner[i, j] != 0:
                result[order[i], order[j]] = sizes[i, j]
    return result
