"""Local search for large quasi-cliques through every edge of a middle-sized graph.

A search state is the triple (``inside``, ``degree``, [size, edges]): flags of the members (2 for
those that must stay), the number of members each vertex has an edge to, and two counters.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray

Flags = npt.NDArray[np.int8]
Counts = npt.NDArray[np.int32]
State = tuple[Flags, Counts, IntArray]
Graph = tuple[Flags, IntArray]  # adjacency, and the edges needed by each size

LOOK_AHEAD = 3
SWAPS = 10
# Up to this size no edge is passed over, which takes about twice as long and misses far less.
THOROUGH_VERTICES = 60


@njit
def clear(state: State) -> None:
    """Empty the set."""
    inside, degree, counts = state
    inside[:] = 0
    degree[:] = 0
    counts[:] = 0


@njit
def add(adjacency: Flags, state: State, v: int, flag: int) -> None:
    """Take ``v`` into the set, with ``flag`` 2 if it must stay, or out of it with 0."""
    inside, degree, counts = state
    change = 1 if flag > 0 else -1
    inside[v] = flag
    counts[0] += change
    counts[1] += change * degree[v]
    for u in range(degree.shape[0]):
        degree[u] += change * adjacency[v, u]


@njit
def best_vertex(state: State, worth: IntArray, flag: int, sign: int) -> int:
    """Return the vertex of this flag with most edges into the set, then most ``worth``.

    With ``sign`` -1 it is the one with fewest edges, then least worth. Among equals the first
    one; -1 if there is none.
    """
    inside, degree, _ = state
    best = -1
    for v in range(degree.shape[0]):
        if inside[v] == flag and (
            best < 0
            or sign * degree[v] > sign * degree[best]
            or (degree[v] == degree[best] and sign * worth[v] > sign * worth[best])
        ):
            best = v
    return best


@njit
def grow(graph: Graph, worth: IntArray, state: State, trail: IntArray) -> None:
    """Add vertices as long as the set is a quasi-clique again after at most a few steps.

    The missing pairs allowed grow faster than one vertex may need, so a step that breaks the
    density can be corrected by the next one.
    """
    adjacency, needed = graph
    counts = state[2]
    n = adjacency.shape[0]
    while counts[0] < n:
        steps = 0
        while steps <= LOOK_AHEAD and counts[0] < n:
            v = best_vertex(state, worth, 0, 1)
            add(adjacency, state, v, 1)
            trail[steps] = v
            steps += 1
            if counts[1] >= needed[counts[0]]:
                break
        if counts[1] < needed[counts[0]]:
            while steps > 0:
                steps -= 1
                add(adjacency, state, trail[steps], 0)
            return


@njit
def trim(graph: Graph, worth: IntArray, state: State) -> None:
    """Drop the worst members until the set is a quasi-clique."""
    adjacency, needed = graph
    counts = state[2]
    while counts[1] < needed[counts[0]]:
        add(adjacency, state, best_vertex(state, worth, 1, -1), 0)


@njit
def swap(graph: Graph, worth: IntArray, state: State, trail: IntArray, banned: Flags) -> None:
    """Exchange the worst member for the best outsider a few times, growing whenever possible."""
    adjacency, _ = graph
    inside, degree, counts = state
    n = degree.shape[0]
    banned[:] = 0
    for _ in range(SWAPS):
        out = best_vertex(state, worth, 1, -1)
        if out < 0 or counts[0] == n:
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
        add(adjacency, state, out, 0)
        add(adjacency, state, into, 1)
        # A vertex that left stays out, or two equal ones would change places for ever.
        banned[out] = 1
        grow(graph, worth, state, trail)


@njit
def rate(adjacency: Flags, degree: Counts, worth: IntArray) -> None:
    """Let ``worth`` count the edges to the common neighbours of a set of two."""
    worth[:] = 0
    for v in range(degree.shape[0]):
        if degree[v] == 2:
            for u in range(degree.shape[0]):
                worth[u] += adjacency[v, u]


@njit
def offer(
    members: IntArray, size: int, sizes: IntArray, found: Flags, owner: IntArray, n_found: int
) -> int:
    """Share one quasi-clique with all its pairs; return the number of sets kept so far.

    ``sizes`` holds the largest size seen for every pair. With room in ``found`` the set itself is
    kept for the pairs it improves, so that every size can be certified.
    """
    keep = found.shape[0] > 0
    improved = False
    for a in range(size):
        i = members[a]
        for b in range(a):
            j = members[b]
            if sizes[i, j] < size:
                sizes[i, j] = size
                sizes[j, i] = size
                improved = True
                if keep:
                    owner[i, j] = n_found
                    owner[j, i] = n_found
    if improved and keep:
        for a in range(size):
            found[n_found, members[a]] = 1
        n_found += 1
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
    size = 0
    for v in range(inside.shape[0]):
        if inside[v] != 0:
            members[size] = v
            size += 1
    n_found = offer(members, size, sizes, found, owner, n_found)
    for a in range(size):
        v = members[a]
        if size > best_size[v]:
            best_size[v] = size
            best_set[v, :] = 0
            for b in range(size):
                best_set[v, members[b]] = 1
    return n_found


@njit
def search_sizes(
    adjacency: Flags, needed: IntArray, sizes: IntArray, found: Flags, owner: IntArray
) -> None:
    """Raise ``sizes`` of every edge by local search.

    First a set is grown from every vertex. Then every edge is grown on its own, and attached to
    the sets of its ends and to the largest of all. On larger graphs an edge is passed over once it
    reaches what its two ends have reached. Every set is shared with all its pairs.
    """
    n = adjacency.shape[0]
    thorough = n <= THOROUGH_VERTICES
    graph = (adjacency, needed)
    inside = np.zeros(n, dtype=np.int8)
    degree = np.zeros(n, dtype=np.int32)
    state = (inside, degree, np.zeros(2, dtype=np.int64))
    trail = np.empty(LOOK_AHEAD + 1, dtype=np.int64)
    banned = np.empty(n, dtype=np.int8)
    members = np.empty(n, dtype=np.int64)
    total = np.zeros(n, dtype=np.int64)
    worth = np.zeros(n, dtype=np.int64)
    for v in range(n):
        for u in range(n):
            total[v] += adjacency[v, u]

    n_found = 0
    best_size = np.zeros(n, dtype=np.int64)
    best_set = np.zeros((n, n), dtype=np.int8)
    for v in range(n):
        if total[v] == 0:
            continue
        clear(state)
        add(adjacency, state, v, 2)
        grow(graph, total, state, trail)
        swap(graph, total, state, trail, banned)
        n_found = keep(inside, members, sizes, found, owner, n_found, best_size, best_set)

    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0:
                continue
            for route in range(4):
                if sizes[i, j] >= (n if thorough else min(best_size[i], best_size[j])):
                    break
                clear(state)
                add(adjacency, state, i, 2)
                add(adjacency, state, j, 2)
                if route == 0:
                    rate(adjacency, degree, worth)
                else:
                    source = i if route == 1 else j
                    if route == 3:
                        source = int(np.argmax(best_size))
                    for v in range(n):
                        if best_set[source, v] == 1 and inside[v] == 0:
                            add(adjacency, state, v, 1)
                    trim(graph, worth, state)
                grow(graph, worth, state, trail)
                swap(graph, worth, state, trail, banned)
                n_found = keep(inside, members, sizes, found, owner, n_found, best_size, best_set)
