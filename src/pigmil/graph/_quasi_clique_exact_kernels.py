"""Exact branch and bound for the largest quasi-clique through given vertices.

A set of ``k`` vertices is a quasi-clique when at most ``budget[k]`` of its pairs lack an edge.
Counting missing pairs turns the density condition into a budget that only grows with ``k``.

Vertex sets that the bound handles are bit masks in one 64-bit integer, so at most
`MAX_EXACT_VERTICES` vertices are possible.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray

Flags = npt.NDArray[np.int8]

MAX_EXACT_VERTICES = 62


@njit
def apart_masks(adjacency: Flags) -> IntArray:
    """Return for every vertex the bit mask of the other vertices it has no edge to."""
    n = adjacency.shape[0]
    masks = np.zeros(n, dtype=np.int64)
    for i in range(n):
        mask = 0
        for j in range(n):
            if i != j and adjacency[i, j] == 0:
                mask |= 1 << j
        masks[i] = mask
    return masks


@njit
def rank_candidates(
    apart: IntArray,
    budget: IntArray,
    gaps: IntArray,
    candidates: IntArray,
    count: int,
    size: int,
    missing: int,
    lower: int,
    scratch: tuple[IntArray, IntArray, IntArray, IntArray, IntArray],
) -> int:
    """Sort candidates by their least cost and say which of them must be branched on.

    Candidates are packed greedily into classes of pairwise non-adjacent vertices. Whoever takes
    ``r`` vertices of one class pays ``0 + 1 + ... + (r - 1)`` missing pairs inside it besides each
    vertex's own gap to the chosen set, so the sorted costs bound every extension from below.
    A prefix of the sorted list keeps its costs, because inside a class costs increase strictly.

    Returns the length of the longest prefix that cannot beat ``lower`` on its own: every better
    set holds a candidate behind it. ``count`` means that there is no better set.
    """
    by_gap, class_mask, class_size, cost, bins = scratch
    for g in range(size + 2):
        bins[g] = 0
    for k in range(count):
        bins[gaps[candidates[k]] + 1] += 1
    for g in range(size + 1):
        bins[g + 1] += bins[g]
    for k in range(count):
        v = candidates[k]
        by_gap[bins[gaps[v]]] = v
        bins[gaps[v]] += 1

    n_classes = 0
    top = 0
    for k in range(count):
        v = by_gap[k]
        c = 0
        while c < n_classes and (apart[v] & class_mask[c]) != class_mask[c]:
            c += 1
        if c == n_classes:
            class_mask[c] = 0
            class_size[c] = 0
            n_classes += 1
        cost[k] = gaps[v] + class_size[c]
        class_mask[c] |= 1 << v
        class_size[c] += 1
        top = max(top, cost[k])

    for g in range(top + 2):
        bins[g] = 0
    for k in range(count):
        bins[cost[k] + 1] += 1
    for g in range(top + 1):
        bins[g + 1] += bins[g]
    for k in range(count):
        candidates[bins[cost[k]]] = by_gap[k]
        bins[cost[k]] += 1

    # bins[g] is now the number of candidates of cost <= g.
    total = missing
    k = 0
    for g in range(top + 1):
        while k < bins[g]:
            total += g
            k += 1
            if size + k > lower and total <= budget[size + k]:
                return k - 1
    return count


@njit
def largest_extension(
    adjacency: Flags,
    apart: IntArray,
    budget: IntArray,
    fixed: IntArray,
    lower: int,
    upper: int,
    best: IntArray,
) -> int:
    """Find the largest quasi-clique that holds all vertices of ``fixed``.

    Only sets larger than ``lower`` are looked for, and the search ends at size ``upper``. The
    members go to ``best``; the return value is their number, or ``lower`` if none is larger.
    """
    n = adjacency.shape[0]
    n_fixed = fixed.shape[0]
    depths = n - n_fixed + 1
    candidates = np.empty((depths, n), dtype=np.int64)
    gaps = np.zeros((depths, n), dtype=np.int64)
    missing = np.zeros(depths, dtype=np.int64)
    pointer = np.zeros(depths, dtype=np.int64)
    stop = np.zeros(depths, dtype=np.int64)
    chosen = np.empty(n, dtype=np.int64)
    scratch = (
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(n, dtype=np.int64),
        np.empty(2 * n + 3, dtype=np.int64),
    )

    taken = 0
    for a in range(n_fixed):
        chosen[a] = fixed[a]
        taken |= 1 << fixed[a]
        for b in range(a):
            missing[0] += 1 - adjacency[fixed[a], fixed[b]]
        for v in range(n):
            gaps[0, v] += 1 - adjacency[fixed[a], v]
    if n_fixed > lower and missing[0] <= budget[n_fixed]:
        lower = n_fixed
        for a in range(n_fixed):
            best[a] = fixed[a]
    if lower >= upper:
        return lower
    count = 0
    for v in range(n):
        if not (taken >> v) & 1:
            candidates[0, count] = v
            count += 1
    stop[0] = rank_candidates(
        apart, budget, gaps[0], candidates[0], count, n_fixed, missing[0], lower, scratch
    )
    pointer[0] = count - 1

    depth = 0
    while depth >= 0:
        here = pointer[depth]
        if here < stop[depth]:
            depth -= 1
            continue
        pointer[depth] = here - 1
        v = candidates[depth, here]
        size = n_fixed + depth + 1
        chosen[size - 1] = v
        cost = missing[depth] + gaps[depth, v]
        if size > lower and cost <= budget[size]:
            lower = size
            for a in range(size):
                best[a] = chosen[a]
            if lower >= upper:
                return lower
        room = budget[min(upper, size + here)]
        if size + here <= lower or cost > room:
            continue
        below = depth + 1
        count = 0
        for k in range(here):
            u = candidates[depth, k]
            gap = gaps[depth, u] + 1 - adjacency[v, u]
            if cost + gap <= room:
                gaps[below, u] = gap
                candidates[below, count] = u
                count += 1
        prefix = rank_candidates(
            apart, budget, gaps[below], candidates[below], count, size, cost, lower, scratch
        )
        if prefix < count:
            missing[below] = cost
            stop[below] = prefix
            pointer[below] = count - 1
            depth = below
    return lower
