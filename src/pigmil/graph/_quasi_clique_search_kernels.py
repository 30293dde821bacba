"""Local search for large quasi-cliques through every edge of a middle-sized graph.

A search state is the triple (``inside``, ``degree``, [size, edges]): flags of the members (2 for
those that must stay), the number of members each vertex has an edge to, and two counters.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray
from pigmil.graph._quasi_clique_exact_kernels import offer

Flags = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int32]

LOOK_AHEAD = 3
SWAPS = 10
# Up to this size no edge is passed over, which takes about twice as long and misses far less.
THOROUGH_VERTICES = 60


@njit
def clear(inside: Flags, degree: Counts, state: IntArray) -> None:
    """Empty the set."""
    inside[:] = 0
    degree[:] = 0
    state[:] = 0


@njit
def add(
    adjacency: Flags, inside: Flags, degree: Counts, state: IntArray, v: int, flag: int
) -> None:
    """Take ``v`` into the set, with ``flag`` 2 if it must stay."""
    inside[v] = flag
    state[0] += 1
    state[1] += degree[v]
    for u in range(degree.shape[0]):
        degree[u] += adjacency[v, u]


@njit
def remove(adjacency: Flags, inside: Flags, degree: Counts, state: IntArray, v: int) -> None:
    """Take ``v`` out of the set."""
    inside[v] = 0
    state[0] -= 1
    state[1] -= degree[v]
    for u in range(degree.shape[0]):
        degree[u] -= adjacency[v, u]


@njit
def best_outside(inside: Flags, degree: Counts, worth: IntArray) -> int:
    """Return the outsider with most edges into the set, then most ``worth``, then least index."""
    best = -1
    for v in range(degree.shape[0]):
        if inside[v] == 0 and (
            best < 0
            or degree[v] > degree[best]
            or (degree[v] == degree[best] and worth[v] > worth[best])
        ):
            best = v
    return best


@njit
def worst_inside(inside: Flags, degree: Counts, worth: IntArray) -> int:
    """Return the removable member with fewest edges into the set, then least ``worth``."""
    worst = -1
    for v in range(degree.shape[0]):
        if inside[v] == 1 and (
            worst < 0
            or degree[v] < degree[worst]
            or (degree[v] == degree[worst] and worth[v] < worth[worst])
        ):
            worst = v
    return worst


@njit
def grow(
    adjacency: Flags,
    needed: IntArray,
    worth: IntArray,
    inside: Flags,
    degree: Counts,
    state: IntArray,
    trail: IntArray,
) -> None:
    """Add vertices as long as the set is a quasi-clique again after at most a few steps.

    The missing pairs allowed grow faster than one vertex may need, so a step that breaks the
    density can be corrected by the next one.
    """
    n = degree.shape[0]
    while state[0] < n:
        steps = 0
        while steps <= LOOK_AHEAD and state[0] < n:
            v = best_outside(inside, degree, worth)
            add(adjacency, inside, degree, state, v, 1)
            trail[steps] = v
            steps += 1
            if state[1] >= needed[state[0]]:
                break
        if state[1] < needed[state[0]]:
            while steps > 0:
                steps -= 1
                remove(adjacency, inside, degree, state, trail[steps])
            return


@njit
def trim(
    adjacency: Flags,
    needed: IntArray,
    worth: IntArray,
    inside: Flags,
    degree: Counts,
    state: IntArray,
) -> None:
    """Drop the worst members until the set is a quasi-clique."""
    while state[1] < needed[state[0]]:
        remove(adjacency, inside, degree, state, worst_inside(inside, degree, worth))


@njit
def swap(
    adjacency: Flags,
    needed: IntArray,
    worth: IntArray,
    inside: Flags,
    degree: Counts,
    state: IntArray,
    trail: IntArray,
    banned: Flags,
) -> None:
    """Exchange the worst member for the best outsider a few times, growing whenever possible."""
    n = degree.shape[0]
    banned[:] = 0
    for _ in range(SWAPS):
        out = worst_inside(inside, degree, worth)
        if out < 0 or state[0] == n:
            return
        into = -1
        reach = -1
        for v in range(n):
            if inside[v] == 0 and banned[v] == 0:
                links = degree[v] - adjacency[out, v]
                if links > reach or (links == reach and worth[v] > worth[into]):
                    into = v
                    reach = links
        if into < 0 or reach < degree[out]:
            return
        remove(adjacency, inside, degree, state, out)
        add(adjacency, inside, degree, state, into, 1)
        # A vertex that left stays out, or two equal ones would change places for ever.
        banned[out] = 1
        grow(adjacency, needed, worth, inside, degree, state, trail)


@njit
def list_members(inside: Flags, members: IntArray) -> int:
    """Write the members in index order and return their number."""
    size = 0
    for v in range(inside.shape[0]):
        if inside[v] != 0:
            members[size] = v
            size += 1
    return size


@njit
def rate(adjacency: Flags, degree: Counts, worth: IntArray) -> None:
    """Let ``worth`` count the edges to the common neighbours of a set of two."""
    worth[:] = 0
    for v in range(degree.shape[0]):
        if degree[v] == 2:
            for u in range(degree.shape[0]):
                worth[u] += adjacency[v, u]


@njit
def search_sizes(
    adjacency: Flags, needed: IntArray, sizes: IntArray, found: Flags, owner: IntArray, n_found: int
) -> int:
    """Raise ``sizes`` of every edge by local search; return the number of sets kept.

    First a set is grown from every vertex. Then every edge is grown on its own, and attached to
    the sets of its ends and to the largest of all. On larger graphs an edge is passed over once it
    reaches what its two ends have reached. Every set is shared with all its pairs.
    """
    n = adjacency.shape[0]
    thorough = n <= THOROUGH_VERTICES
    inside = np.zeros(n, dtype=np.int8)
    degree = np.zeros(n, dtype=np.int32)
    state = np.zeros(2, dtype=np.int64)
    trail = np.empty(LOOK_AHEAD + 1, dtype=np.int64)
    banned = np.empty(n, dtype=np.int8)
    members = np.empty(n, dtype=np.int64)
    total = np.zeros(n, dtype=np.int64)
    worth = np.zeros(n, dtype=np.int64)
    for v in range(n):
        for u in range(n):
            total[v] += adjacency[v, u]

    best_size = np.zeros(n, dtype=np.int64)
    best_set = np.zeros((n, n), dtype=np.int8)
    for v in range(n):
        if total[v] == 0:
            continue
        clear(inside, degree, state)
        add(adjacency, inside, degree, state, v, 2)
        grow(adjacency, needed, total, inside, degree, state, trail)
        swap(adjacency, needed, total, inside, degree, state, trail, banned)
        n_found = keep(inside, members, sizes, found, owner, n_found, best_size, best_set)

    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0:
                continue
            for route in range(4):
                if sizes[i, j] >= (n if thorough else min(best_size[i], best_size[j])):
                    break
                clear(inside, degree, state)
                add(adjacency, inside, degree, state, i, 2)
                add(adjacency, inside, degree, state, j, 2)
                if route == 0:
                    rate(adjacency, degree, worth)
                else:
                    source = i if route == 1 else j
                    if route == 3:
                        source = int(np.argmax(best_size))
                    for v in range(n):
                        if best_set[source, v] == 1 and inside[v] == 0:
                            add(adjacency, inside, degree, state, v, 1)
                    trim(adjacency, needed, worth, inside, degree, state)
                grow(adjacency, needed, worth, inside, degree, state, trail)
                swap(adjacency, needed, worth, inside, degree, state, trail, banned)
                n_found = keep(inside, members, sizes, found, owner, n_found, best_size, best_set)
    return n_found


@njit
def keep(
    inside: Flags,
    members: IntArray,
    sizes: IntArray,
    found: Flags,
    owner: IntArray,
    n_found: int,
    best_size: IntArray,
    best_set: Flags,
) -> int:
    """Share the set with its pairs and remember it for the vertices that have no larger one."""
    size = list_members(inside, members)
    n_found = offer(members, size, sizes, found, owner, n_found)
    for a in range(size):
        v = members[a]
        if size > best_size[v]:
            best_size[v] = size
            best_set[v, :] = 0
            for b in range(size):
                best_set[v, members[b]] = 1
    return n_found
