"""Compiled kernels of the graph: the largest quasi-clique through every edge.

An ``adjacency`` is an array of int8 of shape (n, n), 1 where two vertices have an edge, with an
empty diagonal. ``sizes`` (n, n) holds the size of the largest quasi-clique found for every pair.
``needed[k]`` is the number of edges that k vertices need to be a quasi-clique, and
``allowed[k]`` the number of their pairs that may lack one.

The searches are loops because every step depends on the one before it. Everything that is one
operation on whole arrays stands in NumPy outside.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import IntArray

Flags = npt.NDArray[np.int8]

MAX_EXACT_VERTICES = 62  # a set of vertices is a bit mask in one 64-bit integer
REFINEMENT_ROUNDS = 4
LOOK_AHEAD = 3
SWAPS = 10
# Up to this size local search passes over no edge, which takes about twice as long and misses far
# less. From the second size on a search for every edge takes too long, and cores take its place.
THOROUGH_VERTICES = 60
SEARCH_VERTICES = 120


# --- The order of the vertices -------------------------------------------------------------------


@njit
def dense_ranks(values: IntArray) -> IntArray:
    """Return the rank of every value among the distinct ones."""
    return np.searchsorted(np.unique(values), values)


@njit
def refined_order(adjacency: Flags) -> IntArray:
    """Order the vertices by decreasing degree, refined by the degrees of their neighbours.

    The order depends on the graph only, except among vertices that a few rounds of colour
    refinement cannot distinguish.
    """
    n = adjacency.shape[0]
    around = np.zeros(n, dtype=np.int64)  # degree of each vertex, then the marks around it
    for i in range(n):
        around[i] = adjacency[i].sum()
    colour = dense_ranks(around)  # vertices of one colour are not distinguished so far
    for _ in range(min(n, REFINEMENT_ROUNDS)):
        # A mark per colour: sums of marks are equal where the neighbours have the same colours.
        marks = (colour + 1) * 0x9E3779B97F % 2**40
        for i in range(n):
            around[i] = (adjacency[i] * marks).sum()
        refined = dense_ranks(colour * n + dense_ranks(around))
        if refined.max() == colour.max():
            break
        colour = refined
    return np.argsort(-colour, kind="mergesort")  # stable: the first of equal ones first


# --- Exact: branch and bound ---------------------------------------------------------------------
# A set of k vertices is a quasi-clique when at most ``allowed[k]`` of its pairs lack an edge.
# Counting missing pairs turns the density condition into a budget that only grows with k.


class ExactGraph(NamedTuple):
    """A graph of at most 62 vertices; sets of vertices are bit masks."""

    adjacency: Flags  # (n, n)
    unconnected: IntArray  # (n,) mask of the other vertices that a vertex has no edge to
    allowed: IntArray  # (n + 1,) pairs of a quasi-clique of each size that may lack an edge


@njit
def exact_graph(adjacency: Flags, allowed: IntArray) -> ExactGraph:
    """Return the graph with its masks."""
    n = adjacency.shape[0]
    unconnected = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for j in range(n):
            if i != j and adjacency[i, j] == 0:
                unconnected[i] |= 1 << j
    return ExactGraph(adjacency, unconnected, allowed)


@njit
def counting_sort(
    items: IntArray, keys: IntArray, count: int, bins: IntArray, ordered: IntArray
) -> None:
    """Write the first ``count`` items by increasing key; ``bins[g]`` counts the keys up to g.

    Keys are small numbers, so that this is faster than a sort by comparisons.
    """
    top = 0
    for k in range(count):
        top = max(top, keys[k])
    bins[: top + 2] = 0
    for k in range(count):
        bins[keys[k] + 1] += 1
    for g in range(top + 1):
        bins[g + 1] += bins[g]
    for k in range(count):
        ordered[bins[keys[k]]] = items[k]
        bins[keys[k]] += 1


@njit
def rank_candidates(
    graph: ExactGraph,
    gaps: IntArray,
    candidates: IntArray,
    count: int,
    size: int,
    missing: int,
    lower: int,
    scratch: IntArray,
) -> int:
    """Sort candidates by their least cost and return how many need not be branched on.

    ``gaps[v]`` (n,) is the number of chosen vertices that v has no edge to, ``size`` the number of
    chosen vertices and ``missing`` that of their missing pairs. ``scratch`` (5, 2 n + 3) is
    allocated once, because this is the innermost step of the search.

    Candidates are packed greedily into classes of pairwise non-adjacent vertices. Whoever takes
    ``r`` vertices of one class pays ``0 + 1 + ... + (r - 1)`` missing pairs inside it besides each
    vertex's own gap to the chosen set, so the sorted costs bound every extension from below.
    A prefix of the sorted list keeps its costs, because inside a class costs increase strictly.

    Returns the length of the longest prefix that cannot beat ``lower`` on its own: every better
    set holds a candidate behind it. ``count`` means that there is no better set.
    """
    by_gap, class_mask, class_size, cost, bins = scratch
    for k in range(count):
        cost[k] = gaps[candidates[k]]
    counting_sort(candidates, cost, count, bins, by_gap)
    n_classes = 0
    for k in range(count):
        v = by_gap[k]
        c = 0  # the first class that v has no edge into
        while c < n_classes and (graph.unconnected[v] & class_mask[c]) != class_mask[c]:
            c += 1
        if c == n_classes:
            class_mask[c] = class_size[c] = 0
            n_classes += 1
        cost[k] = gaps[v] + class_size[c]
        class_mask[c] |= 1 << v
        class_size[c] += 1
    counting_sort(by_gap, cost, count, bins, candidates)
    total = missing  # pairs that the k cheapest candidates add, at the least
    k = g = 0
    while k < count:
        while k >= bins[g]:
            g += 1
        total += g
        k += 1
        if size + k > lower and total <= graph.allowed[size + k]:
            return k - 1
    return count


@njit
def largest_extension(graph: ExactGraph, fixed: IntArray, lower: int, upper: int) -> int:
    """Return the mask of the largest quasi-clique that holds all vertices of ``fixed``.

    Only sets larger than ``lower`` are looked for, and the search ends at size ``upper``; 0 if
    there is none. The search is a loop over depths instead of a recursion, which compiled code
    cannot keep on disk.
    """
    adjacency, _, allowed = graph
    n = adjacency.shape[0]
    n_fixed = fixed.shape[0]
    depths = n - n_fixed + 1
    # Row by row for every depth: the candidates left, their gaps, what the chosen ones miss, the
    # candidate to branch on next, and the first that need not be.
    candidates = np.empty((depths, n), dtype=np.int64)
    gaps = np.zeros((depths, n), dtype=np.int64)
    missing = np.zeros(depths, dtype=np.int64)
    pointer = np.zeros(depths, dtype=np.int64)
    stop = np.zeros(depths, dtype=np.int64)
    chosen = np.zeros(depths, dtype=np.int64)  # mask of the vertices chosen
    scratch = np.empty((5, 2 * n + 3), dtype=np.int64)

    for a in range(n_fixed):
        chosen[0] |= 1 << fixed[a]
        for b in range(a):
            missing[0] += 1 - adjacency[fixed[a], fixed[b]]
        for v in range(n):
            gaps[0, v] += 1 - adjacency[fixed[a], v]
    best = 0
    if n_fixed > lower and missing[0] <= allowed[n_fixed]:
        lower = n_fixed
        best = chosen[0]
    if lower >= upper:
        return best
    count = 0
    for v in range(n):
        if not (chosen[0] >> v) & 1:
            candidates[0, count] = v
            count += 1
    stop[0] = rank_candidates(
        graph, gaps[0], candidates[0], count, n_fixed, missing[0], lower, scratch
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
        taken = chosen[depth] | (1 << v)
        cost = missing[depth] + gaps[depth, v]
        if size > lower and cost <= allowed[size]:
            lower = size
            best = taken
            if lower >= upper:
                return best
        room = allowed[min(upper, size + here)]
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
            graph, gaps[below], candidates[below], count, size, cost, lower, scratch
        )
        if prefix < count:
            chosen[below] = taken
            missing[below] = cost
            stop[below] = prefix
            pointer[below] = count - 1
            depth = below
    return best


# --- Exact: one vertex after another -------------------------------------------------------------
# A quasi-clique without the changed vertex stays one, and no new one appears among the others. So
# only sets that hold the vertex are looked for, and substitutes for those sets that held it before.
# ``sets`` (n, n) holds for every edge the mask of a set that has its size.


@njit
def count_bits(mask: int) -> int:
    """Return the number of members of a set."""
    count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count


@njit
def is_quasi_clique(graph: ExactGraph, mask: int) -> bool:
    """Return whether few enough pairs of a set lack an edge."""
    missing = 0
    for v in range(graph.unconnected.shape[0]):
        if (mask >> v) & 1:
            missing += count_bits(mask & graph.unconnected[v])
    return missing <= 2 * graph.allowed[count_bits(mask)]


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
    graph: ExactGraph, fixed: IntArray, lower: int, upper: int, sizes: IntArray, sets: IntArray
) -> int:
    """Share the largest quasi-clique through ``fixed`` if it exceeds ``lower``; return its size."""
    if lower >= upper:
        return lower
    mask = largest_extension(graph, fixed, lower, upper)
    if mask == 0:
        return lower
    share(mask, sizes, sets)
    return count_bits(mask)


@njit
def changed_sizes(
    adjacency: Flags, allowed: IntArray, vertex: int, before: IntArray, sets_before: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the sizes of all edges, and their sets, after the edges of ``vertex`` changed.

    ``before`` and ``sets_before`` are those of the graph before the change, and exact.
    """
    n = adjacency.shape[0]
    graph = exact_graph(adjacency, allowed)
    sizes = np.zeros((n, n), dtype=np.int64)
    sets = np.zeros((n, n), dtype=np.int64)  # masks
    own = 1 << vertex
    # Sets without the vertex are as they were.
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
                if is_quasi_clique(graph, mask):
                    share(mask, sizes, sets)
                elif is_quasi_clique(graph, mask & ~own):
                    share(mask & ~own, sizes, sets)

    # No set through the vertex and another one is larger than ``reach`` of the other.
    ceiling = extend(graph, np.array([vertex]), max(1, sizes[vertex].max()), n, sizes, sets)
    reach = np.full(n, ceiling)  # (n,) vertices without an edge to it keep the ceiling
    for j in range(n):
        if adjacency[vertex, j] != 0:
            pair = np.array([vertex, j])
            reach[j] = extend(graph, pair, sizes[vertex, j], ceiling, sizes, sets)
    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0 or i == vertex or j == vertex:
                continue
            upper = min(reach[i], reach[j])
            fixed = np.array([i, j, vertex])
            if sets_before[i, j] & own != 0:  # its set is lost: look for any other
                upper = max(before[i, j], upper)
                fixed = fixed[:2]
            extend(graph, fixed, sizes[i, j], upper, sizes, sets)
    return np.where(adjacency != 0, sizes, 0), np.where(adjacency != 0, sets, 0)


@njit
def exact_sizes(adjacency: Flags, allowed: IntArray) -> tuple[IntArray, IntArray]:
    """Return the consistency of every edge of a graph, and its set, vertex after vertex."""
    n = adjacency.shape[0]
    sizes = np.zeros((n, n), dtype=np.int64)
    sets = np.zeros((n, n), dtype=np.int64)
    seen = np.zeros((n, n), dtype=np.int8)  # the edges among the vertices so far
    order = refined_order(adjacency)
    for k in range(n):
        v = order[k]
        for u in order[:k]:
            seen[v, u] = seen[u, v] = adjacency[v, u]
        sizes, sets = changed_sizes(seen, allowed, v, sizes, sets)
    return sizes, sets


# --- Search: local search, and nested cores on large graphs --------------------------------------


class Group(NamedTuple):
    """A set of vertices while it is searched."""

    inside: Flags  # (n,) 1 for a member, 2 for one that must stay, 0 for the others
    degree: IntArray  # (n,) number of members each vertex has an edge to
    counts: IntArray  # (2,) number of members, and of edges among them


@njit
def new_group(adjacency: Flags, members: IntArray) -> Group:
    """Return a set of vertices that must stay."""
    n = adjacency.shape[0]
    counts = np.zeros(2, dtype=np.int64)
    group = Group(np.zeros(n, dtype=np.int8), np.zeros(n, dtype=np.int64), counts)
    for v in members:
        change(adjacency, group, v, 2)
    return group


@njit
def change(adjacency: Flags, group: Group, v: int, flag: int) -> None:
    """Take ``v`` into the set, with ``flag`` 2 if it must stay, or out of it with 0."""
    inside, degree, counts = group
    sign = 1 if flag > 0 else -1
    inside[v] = flag
    counts[0] += sign
    counts[1] += sign * degree[v]
    for u in range(degree.shape[0]):
        degree[u] += sign * adjacency[v, u]


@njit
def best_vertex(group: Group, priority: IntArray, flag: int, sign: int) -> int:
    """Return the vertex of this flag with most edges into the set, then highest ``priority``.

    With ``sign`` -1 it is the one with fewest edges, then lowest priority. Among equals the first
    one; -1 if there is none.
    """
    inside, degree, _ = group
    best = -1
    for v in range(degree.shape[0]):
        if inside[v] == flag and (
            best < 0
            or sign * degree[v] > sign * degree[best]
            or (degree[v] == degree[best] and sign * priority[v] > sign * priority[best])
        ):
            best = v
    return best


@njit
def grow(adjacency: Flags, needed: IntArray, priority: IntArray, group: Group) -> None:
    """Add vertices as long as the set is a quasi-clique again after at most a few steps.

    The missing pairs allowed grow faster than one vertex may need, so a step that breaks the
    density can be corrected by the next one.
    """
    counts = group.counts
    n = adjacency.shape[0]
    trail = np.empty(LOOK_AHEAD + 1, dtype=np.int64)  # vertices added since the last quasi-clique
    while counts[0] < n:
        steps = 0
        while steps <= LOOK_AHEAD and counts[0] < n:
            trail[steps] = best_vertex(group, priority, 0, 1)
            change(adjacency, group, trail[steps], 1)
            steps += 1
            if counts[1] >= needed[counts[0]]:
                break
        if counts[1] < needed[counts[0]]:
            for v in trail[:steps]:
                change(adjacency, group, v, 0)
            return


@njit
def swap(adjacency: Flags, needed: IntArray, priority: IntArray, group: Group) -> None:
    """Exchange the worst member for the best outsider a few times, growing whenever possible."""
    inside, degree, counts = group
    n = degree.shape[0]
    # A vertex that left stays out, or two equal ones would change places for ever.
    banned = np.zeros(n, dtype=np.int8)
    for _ in range(SWAPS):
        out = best_vertex(group, priority, 1, -1)
        if out < 0 or counts[0] == n:
            return
        into = -1
        reach = -1
        for v in range(n):
            if inside[v] == 0 and banned[v] == 0:
                links = degree[v] - adjacency[out, v]
                if links > reach or (links == reach and priority[v] > priority[into]):
                    into = v
                    reach = links
        if into < 0 or reach < degree[out]:
            return
        change(adjacency, group, out, 0)
        change(adjacency, group, into, 1)
        banned[out] = 1
        grow(adjacency, needed, priority, group)


@njit
def record(group: Group, sizes: IntArray, best_size: IntArray, best_set: Flags) -> None:
    """Share the set with its pairs, and with the vertices that have no larger one."""
    members = np.flatnonzero(group.inside)
    size = members.size
    for i in members:
        for j in members:
            sizes[i, j] = max(sizes[i, j], size)
        if size > best_size[i]:
            best_size[i] = size
            best_set[i] = group.inside


@njit
def local_search(adjacency: Flags, needed: IntArray, sizes: IntArray) -> None:
    """Raise ``sizes`` of every edge by local search.

    First a set is grown from every vertex. Then every edge is grown on its own, and attached to
    the sets of its ends and to the largest of all. On larger graphs an edge is passed over once it
    reaches what its two ends have reached. Every set is shared with all its pairs.
    """
    n = adjacency.shape[0]
    best_size = np.zeros(n, dtype=np.int64)  # size of the largest set found for a vertex
    best_set = np.zeros((n, n), dtype=np.int8)  # flags of that set
    total = np.zeros(n, dtype=np.int64)
    for v in range(n):
        total[v] = adjacency[v].sum()
    for v in range(n):
        if total[v] > 0:
            group = new_group(adjacency, np.array([v]))
            grow(adjacency, needed, total, group)
            swap(adjacency, needed, total, group)
            record(group, sizes, best_size, best_set)
    priority = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for j in range(i):
            if adjacency[i, j] == 0:
                continue
            for route in range(4):
                enough = n if n <= THOROUGH_VERTICES else min(best_size[i], best_size[j])
                if sizes[i, j] >= enough:
                    break
                group = new_group(adjacency, np.array([i, j]))
                if route == 0:
                    # Prefer vertices with edges to the common neighbours of the two ends.
                    priority[:] = 0
                    for v in range(n):
                        if group.degree[v] == 2:
                            priority += adjacency[v]
                else:
                    source = int(np.argmax(best_size))
                    if route < 3:
                        source = i if route == 1 else j
                    for v in range(n):
                        if best_set[source, v] != 0 and group.inside[v] == 0:
                            change(adjacency, group, v, 1)
                    while group.counts[1] < needed[group.counts[0]]:
                        change(adjacency, group, best_vertex(group, priority, 1, -1), 0)
                grow(adjacency, needed, priority, group)
                swap(adjacency, needed, priority, group)
                record(group, sizes, best_size, best_set)


@njit
def peel(adjacency: Flags, inside: Flags) -> IntArray:
    """Return the flagged vertices, the densest core first.

    Peeling off the vertex of least degree again and again leaves a chain of nested cores: every
    beginning of the result is one.
    """
    n = adjacency.shape[0]
    members = np.flatnonzero(inside)
    degree = np.zeros(n, dtype=np.int64)  # edges to the vertices still inside
    for v in members:
        degree += adjacency[v]
    order = np.empty(members.size, dtype=np.int64)
    # A loop, because every vertex that leaves changes the degrees of the others.
    for k in range(members.size - 1, -1, -1):
        worst = -1
        for v in members:
            # Later vertices have fewer edges in all, so they go first among equals.
            if inside[v] != 0 and (worst < 0 or degree[v] <= degree[worst]):
                worst = int(v)
        inside[worst] = 0
        order[k] = worst
        degree -= adjacency[worst]
    return order


@njit
def attach(adjacency: Flags, needed: IntArray, order: IntArray, sizes: IntArray) -> None:
    """Attach every edge to the largest core of one chain that carries both its ends.

    For a fixed edge the attached set shrinks with the core, so the first core that fits, from
    the largest down, is the best one of this chain.
    """
    n = adjacency.shape[0]
    count = order.size
    place = np.full(n, n + 1, dtype=np.int64)  # size of the first core that holds a vertex
    place[order] = np.arange(1, count + 1)
    reach = np.zeros((n, count + 1), dtype=np.int32)  # edges of a vertex into the core of a size
    for v in range(n):
        for k in range(count):
            reach[v, k + 1] = reach[v, k] + adjacency[v, order[k]]
    edges = np.zeros(count + 1, dtype=np.int64)  # among the vertices of the core of each size
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
            outer = i if place[i] > place[j] else j
            r = largest
            while r + 2 > sizes[i, j]:
                size = r
                links = edges[r]
                if r < min(place[i], place[j]):
                    size = r + 2
                    links += reach[i, r] + reach[j, r] + 1
                elif r < place[outer]:
                    size = r + 1
                    links += reach[outer, r]
                if size <= sizes[i, j]:
                    break
                if size <= n and links >= needed[size]:
                    sizes[i, j] = sizes[j, i] = size
                    break
                r -= 1


@njit
def nested_cores(adjacency: Flags, needed: IntArray, sizes: IntArray) -> None:
    """Raise ``sizes`` of every edge by attaching it to the cores of some chains.

    One chain knows one dense region only, so further chains start from the neighbourhoods of those
    vertices whose edges fall farthest short of what their degree would allow. More chains miss
    less; their number falls with the size to bound the cost of one graph.
    """
    n = adjacency.shape[0]
    used = np.zeros(n, dtype=np.int8)  # vertices that a chain has started from
    inside = np.ones(n, dtype=np.int8)
    for _ in range(max(12, min(48, 12_000 // n))):
        attach(adjacency, needed, peel(adjacency, inside), sizes)
        seed = -1
        widest = 0
        for v in range(n):
            shortfall = adjacency[v].sum() + 1 - sizes[v].max()
            if used[v] == 0 and shortfall > widest:
                widest = shortfall
                seed = v
        if seed < 0:
            return
        used[seed] = 1
        inside[:] = adjacency[seed]
        inside[seed] = 1


@njit
def search_sizes(adjacency: Flags, needed: IntArray) -> IntArray:
    """Return the sizes that a search finds for all edges.

    The vertices are numbered by the graph around them, so that their order changes nothing.
    """
    n = adjacency.shape[0]
    order = refined_order(adjacency)
    renumbered = np.ascontiguousarray(adjacency[order][:, order])
    sizes = np.zeros((n, n), dtype=np.int64)
    if n <= SEARCH_VERTICES:
        local_search(renumbered, needed, sizes)
    else:
        nested_cores(renumbered, needed, sizes)
    place = np.argsort(order)
    return np.where(adjacency != 0, sizes[place][:, place], 0)
