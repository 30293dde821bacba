"""Nested cores: quasi-cliques through every edge of a large graph in a few passes.

Peeling off the vertex of least degree again and again leaves a chain of nested cores, densest
last. Each edge is attached to the largest core that stays a quasi-clique with both its ends. One
chain knows one dense region only, so further chains start from the neighbourhoods of those
vertices whose edges fall farthest short of what their degree would allow.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray

Flags = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int32]


@njit
def peel(adjacency: Flags, inside: Flags, order: IntArray, degree: Counts) -> int:
    """Write the flagged vertices to ``order``, the densest core first; return their number."""
    n = adjacency.shape[0]
    count = 0
    degree[:] = 0
    for v in range(n):
        if inside[v] != 0:
            count += 1
            for u in range(n):
                degree[u] += adjacency[v, u]
    for k in range(count - 1, -1, -1):
        worst = -1
        for v in range(n):
            # Later vertices have fewer edges in all, so they go first among equals.
            if inside[v] != 0 and (worst < 0 or degree[v] <= degree[worst]):
                worst = v
        inside[worst] = 0
        order[k] = worst
        for u in range(n):
            degree[u] -= adjacency[worst, u]
    return count


@njit
def attach(
    adjacency: Flags,
    needed: IntArray,
    order: IntArray,
    count: int,
    sizes: IntArray,
    chain: int,
    chain_of: IntArray,
    core_of: IntArray,
) -> None:
    """Attach every edge to the largest core of one chain that carries both its ends.

    For a fixed edge the attached set shrinks with the core, so the first core that fits, from
    the largest down, is the best one of this chain.
    """
    n = adjacency.shape[0]
    keep = chain_of.shape[0] > 0
    edges = np.zeros(count + 1, dtype=np.int64)
    place = np.full(n, n + 1, dtype=np.int64)
    reach = np.zeros((n, count + 1), dtype=np.int32)
    for k in range(count):
        place[order[k]] = k + 1
    for v in range(n):
        for k in range(count):
            reach[v, k + 1] = reach[v, k] + adjacency[v, order[k]]
    for k in range(count):
        edges[k + 1] = edges[k] + reach[order[k], k]
    largest = 0
    for r in range(1, count + 1):
        # Both ends outside can bring at most 2 r + 1 edges.
        if (
            edges[r] >= needed[r]
            or (r < n and edges[r] + r >= needed[r + 1])
            or (r + 1 < n and edges[r] + 2 * r + 1 >= needed[r + 2])
        ):
            largest = r

    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0:
                continue
            first = min(place[i], place[j])
            last = max(place[i], place[j])
            outer = i if place[i] > place[j] else j
            known = sizes[i, j]
            best = known
            r = largest
            while r + 2 > known:
                if r >= last:
                    size = r
                    links = edges[r]
                elif r >= first:
                    size = r + 1
                    links = edges[r] + reach[outer, r]
                else:
                    size = r + 2
                    links = edges[r] + reach[i, r] + reach[j, r] + 1
                if size <= known:
                    break
                if size <= n and links >= needed[size]:
                    best = size
                    break
                r -= 1
            if best > known:
                sizes[i, j] = best
                sizes[j, i] = best
                if keep:
                    chain_of[i, j] = chain
                    core_of[i, j] = r
                    chain_of[j, i] = chain
                    core_of[j, i] = r


@njit
def core_sizes(
    adjacency: Flags,
    needed: IntArray,
    sizes: IntArray,
    n_chains: int,
    orders: IntArray,
    chain_of: IntArray,
    core_of: IntArray,
) -> None:
    """Raise ``sizes`` of every edge by attaching it to the cores of ``n_chains`` chains.

    With room in ``orders`` every chain is kept there, and ``chain_of``, ``core_of`` say for each
    edge which core of which chain, joined with its two ends, has the size reported.
    """
    n = adjacency.shape[0]
    inside = np.empty(n, dtype=np.int8)
    order = np.empty(n, dtype=np.int64)
    degree = np.empty(n, dtype=np.int32)
    total = np.zeros(n, dtype=np.int64)
    used = np.zeros(n, dtype=np.int8)
    for v in range(n):
        for u in range(n):
            total[v] += adjacency[v, u]
    inside[:] = 1
    for chain in range(n_chains):
        count = peel(adjacency, inside, order, degree)
        attach(adjacency, needed, order, count, sizes, chain, chain_of, core_of)
        if orders.shape[0] > 0:
            orders[chain, :count] = order[:count]
        seed = -1
        widest = 0
        for v in range(n):
            if used[v] == 0:
                reached = 0
                for u in range(n):
                    reached = max(reached, sizes[v, u])
                if total[v] + 1 - reached > widest:
                    widest = total[v] + 1 - reached
                    seed = v
        if seed < 0:
            return
        used[seed] = 1
        for u in range(n):
            inside[u] = adjacency[seed, u]
        inside[seed] = 1
