"""Try all candidates in the place of a vertex: consistency, weights and walk of every pool.

A try changes the edges of one vertex. Pools with the same edges share their consistency, which is
remembered; the weights of the pairs without the vertex are computed once for all of them.
"""

import math

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray
from pigmil.graph._quasi_clique_update_kernels import changed_sizes, fast_sizes

EPSILON = 2.0**-52
# Veltkamp's constant splits a double into two halves whose products are exact.
SPLITTER = 2.0**27 + 1.0

# alpha and beta (NaN for the log-ratio), whether alpha multiplies the similarity, whether an edge
# takes the larger discrimination of its ends, and the factor on the discrimination.
WeightRule = tuple[float, float, bool, bool, float]

Flags = npt.NDArray[np.int8]
# Keys and consistencies of the graphs seen last, and the number seen.
Memory = tuple[IntArray, npt.NDArray[np.int64], IntArray]


@njit
def edge_weight(s: float, c: float, d_i: float, d_j: float, rule: WeightRule) -> float:
    """Return ``max(0, S + alpha * C + beta * D)`` of one edge; see `pigmil.graph.edge_weights`."""
    alpha, beta, on_similarity, larger, scale = rule
    d = max(d_i, d_j) if larger else min(d_i, d_j)
    if d == -np.inf:
        return 0.0
    d *= scale
    a = max(10.0, math.log(c / s)) if math.isnan(alpha) else alpha
    weight = a * s + c if on_similarity else s + a * c
    if d < 0.0:
        b = max(10.0, math.log((a * s + c) / -d)) if math.isnan(beta) else beta
        weight = max(0.0, weight + b * d)
    return weight


@njit
def walk(
    first: IntArray,
    columns: IntArray,
    steps: FloatArray,
    restart: FloatArray,
    start: FloatArray,
    n_products: int,
) -> FloatArray:
    """Return the scores after ``n_products`` products (Alg. 1), in double precision."""
    n = restart.shape[0]
    scores = start.copy()
    following = np.empty(n)
    for _ in range(n_products):
        for i in range(n):
            total = 0.0
            for e in range(first[i], first[i + 1]):
                total += steps[e] * scores[columns[e]]
            following[i] = restart[i] + total
        scores, following = following, scores
    return scores


@njit
def add_product(high: float, low: float, x: float, y: float, y_low: float) -> tuple[float, float]:
    """Return ``(high + low) + x * (y + y_low)`` as an unevaluated sum of two doubles."""
    product = x * y
    t = SPLITTER * x
    x_upper = t - (t - x)
    x_lower = x - x_upper
    t = SPLITTER * y
    y_upper = t - (t - y)
    y_lower = y - y_upper
    error = x_lower * y_lower - (
        ((product - x_upper * y_upper) - x_lower * y_upper) - x_upper * y_lower
    )
    total = high + product
    t = total - high
    lost = (high - (total - t)) + (product - t)
    return total, low + (lost + (error + x * y_low))


@njit
def precise_walk(
    first: IntArray,
    columns: IntArray,
    steps: FloatArray,
    restart: FloatArray,
    start: FloatArray,
    n_products: int,
) -> tuple[FloatArray, FloatArray]:
    """Return the scores of `walk` to about 30 digits, as sums of two doubles."""
    n = restart.shape[0]
    scores = start.copy()
    rest = np.zeros(n)
    following = np.empty(n)
    following_rest = np.empty(n)
    for _ in range(n_products):
        for i in range(n):
            high = restart[i]
            low = 0.0
            for e in range(first[i], first[i + 1]):
                j = columns[e]
                high, low = add_product(high, low, steps[e], scores[j], rest[j])
            following[i] = high + low
            following_rest[i] = low - (following[i] - high)
        scores, following = following, scores
        rest, following_rest = following_rest, rest
    return scores, rest


@njit
def score_replacements(
    pool: IntArray,
    vertex: int,
    candidates: IntArray,
    similarity: FloatArray,
    discrimination: FloatArray,
    self_confidence: FloatArray,
    sizes: IntArray,
    rule: WeightRule,
    damping: float,
    start: FloatArray,
    n_products: int,
    sum_edges: bool,
    objectives: FloatArray,
    scores: FloatArray,
) -> None:
    """Score the pools that have one of the candidates in the place of a vertex.

    ``sizes`` holds the consistency of every edge, the same for all candidates. Row k of
    ``objectives`` receives the objective of the pool with candidate k and a bound on its rounding
    error. With room in ``scores`` its rows receive, for the last pool, the two doubles of every
    ranking score and a bound on their error.
    """
    n = pool.shape[0]
    first = np.zeros(n + 1, dtype=np.int64)
    for i in range(n):
        first[i + 1] = first[i]
        for j in range(n):
            if sizes[i, j] > 0:
                first[i + 1] += 1
    n_entries = first[n]
    columns = np.empty(n_entries, dtype=np.int64)
    weights = np.empty(n_entries)
    steps = np.empty(n_entries)
    mirror = np.empty(first[vertex + 1] - first[vertex], dtype=np.int64)
    largest_other = 0.0
    n_mirror = 0
    for i in range(n):
        e = first[i]
        for j in range(n):
            if sizes[i, j] == 0:
                continue
            columns[e] = j
            if j == vertex:
                mirror[n_mirror] = e
                n_mirror += 1
            elif i != vertex:
                a = pool[i]
                b = pool[j]
                weights[e] = edge_weight(
                    similarity[a, b], sizes[i, j], discrimination[a], discrimination[b], rule
                )
                largest_other = max(largest_other, weights[e])
            e += 1

    restart = np.empty(n)
    signed = False
    for i in range(n):
        restart[i] = (1 - damping) * self_confidence[pool[i]]
        signed = signed or start[i] < 0 or (i != vertex and restart[i] < 0)
    for k in range(candidates.shape[0]):
        x = candidates[k]
        restart[vertex] = (1 - damping) * self_confidence[x]
        largest = largest_other
        for m in range(mirror.shape[0]):
            e = first[vertex] + m
            b = pool[columns[e]]
            weights[e] = edge_weight(
                similarity[x, b],
                sizes[vertex, columns[e]],
                discrimination[x],
                discrimination[b],
                rule,
            )
            weights[mirror[m]] = weights[e]
            largest = max(largest, weights[e])
        divisor = largest if largest > 0.0 else 1.0
        for e in range(n_entries):
            steps[e] = damping * (weights[e] / divisor)

        values = walk(first, columns, steps, restart, start, n_products)
        magnitudes = values
        if signed or restart[vertex] < 0:
            magnitudes = walk(first, columns, steps, np.abs(restart), np.abs(start), n_products)
        roundings = n_products * (n + 4) * EPSILON
        if scores.shape[0] > 0:
            scores[0], scores[1] = precise_walk(first, columns, steps, restart, start, n_products)
            scores[2] = magnitudes * (8.0 * EPSILON * roundings)
        if sum_edges:
            # Every edge is there twice, and halving is exact.
            objectives[k, 0] = 0.5 * weights.sum()
            objectives[k, 1] = objectives[k, 0] * n_entries * EPSILON
        else:
            objectives[k, 0] = values.sum()
            objectives[k, 1] = magnitudes.sum() * (roundings + n * EPSILON)


@njit
def graph_key(edges: Flags) -> int:
    """Return a number that graphs with different edges rarely share."""
    n = edges.shape[0]
    key = 0
    for i in range(n):
        for j in range(i):
            if edges[i, j] != 0:
                mark = (i * n + j + 1) * 0x9E3779B1 % 2**31
                key += mark * mark >> 22
    return key


@njit
def same_edges(sizes: IntArray, edges: Flags) -> bool:
    """Whether the consistencies are those of this graph: every edge has one."""
    n = edges.shape[0]
    for i in range(n):
        for j in range(i):
            if (sizes[i, j] > 0) != (edges[i, j] != 0):
                return False
    return True


@njit
def sizes_of(
    edges: Flags,
    vertex: int,
    sizes: IntArray,
    sets: IntArray | None,
    limits: IntArray,
    n_chains: int | None,
    memory: Memory,
) -> IntArray:
    """Return the consistency of a graph that differs from the present one at a vertex.

    ``sizes`` and ``sets`` are those of the present graph. Either the consistency is exact, and
    ``limits`` are the pairs of a quasi-clique of each size that may lack an edge, or it comes from
    `fast_sizes`, and ``limits`` are the edges needed. ``n_chains`` is None in the first case and
    ``sets`` in the second: the compiler leaves out what a None switches off.
    """
    if same_edges(sizes, edges):
        return sizes
    keys, kept, n_seen = memory
    key = graph_key(edges)
    for k in range(min(n_seen[0], keys.shape[0])):
        if keys[k] == key and same_edges(kept[k], edges):
            return kept[k]
    if n_chains is not None:
        found = fast_sizes(edges, limits, n_chains)
    if sets is not None:
        found, _ = changed_sizes(edges, limits, vertex, sizes, sets)
    place = n_seen[0] % keys.shape[0]  # that of the graph seen first
    keys[place] = key
    kept[place] = found
    n_seen[0] += 1
    return found


@njit
def try_candidates(
    pool: IntArray,
    vertex: int,
    tried: IntArray,
    similarity: FloatArray,
    discrimination: FloatArray,
    self_confidence: FloatArray,
    present: Flags,
    sizes: IntArray,
    sets: IntArray | None,
    limits: IntArray,
    n_chains: int | None,
    memory: Memory,
    rule: WeightRule,
    damping: float,
    start: FloatArray,
    n_products: int,
    sum_edges: bool,
    scores: FloatArray,
) -> FloatArray:
    """Return the objective of the pool with each candidate in the place of a vertex.

    With a bound on its rounding error beside it. ``present`` holds the edges of the pool; see
    `sizes_of` and, for ``scores``, `score_replacements`.
    """
    n = pool.shape[0]
    n_tried = tried.shape[0]
    objectives = np.empty((n_tried, 2))
    edges = present.copy()
    done = np.zeros(n_tried, dtype=np.bool_)
    same = np.empty(n_tried, dtype=np.int64)
    for k in range(n_tried):
        if done[k]:
            continue
        for i in range(n):
            joined = i != vertex and similarity[tried[k], pool[i]] > 0
            edges[vertex, i] = edges[i, vertex] = joined
        count = 0
        for m in range(k, n_tried):
            equal = not done[m]
            i = 0
            while equal and i < n:
                joined = i != vertex and similarity[tried[m], pool[i]] > 0
                equal = joined == (edges[vertex, i] != 0)
                i += 1
            if equal:
                done[m] = True
                same[count] = m
                count += 1
        group = same[:count]
        values = np.empty((count, 2))
        score_replacements(
            pool,
            vertex,
            tried[group],
            similarity,
            discrimination,
            self_confidence,
            sizes_of(edges, vertex, sizes, sets, limits, n_chains, memory),
            rule,
            damping,
            start,
            n_products,
            sum_edges,
            values,
            scores,
        )
        objectives[group] = values
    return objectives
