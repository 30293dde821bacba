"""Consistency: exhaustive twin, certificates, agreement of the fast routes with the exact one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pigmil.graph._kernels import (
    changed_sizes,
    exact_sizes,
    local_search,
    nested_cores,
)
from pigmil.graph.edges import consistency, edges_needed, is_exact, missing_allowed


def random_graph(n, share, rng):
    upper = np.triu(rng.random((n, n)) < share, 1)
    return (upper | upper.T).astype(np.int8)


def block_graph(n, n_blocks, inside, outside, rng):
    block = rng.integers(n_blocks, size=n)
    return random_graph(n, np.where(block[:, None] == block, inside, outside), rng)


def geometric_graph(n, radius, rng):
    points = rng.normal(size=(n, 3))
    near = np.linalg.norm(points[:, None] - points, axis=2) < radius
    return (near & ~np.eye(n, dtype=bool)).astype(np.int8)


def searched(search, adjacency, density):
    """Sizes by one of the two searches, regardless of the size of the graph."""
    sizes = np.zeros(adjacency.shape, dtype=np.int64)
    search(adjacency, edges_needed(len(adjacency), density), sizes)
    return np.where(adjacency > 0, sizes, 0)


@st.composite
def graphs(draw):
    n = draw(st.sampled_from([0, 1, 2, 3, 5, 7, 8, 9, 10]))
    kind = draw(st.sampled_from(["random", "block", "empty", "complete"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "empty":
        return np.zeros((n, n), dtype=np.int8)
    if kind == "complete":
        return np.ones((n, n), dtype=np.int8) - np.eye(n, dtype=np.int8)
    if kind == "block":
        return block_graph(n, 2, draw(st.sampled_from([0.7, 0.9, 1.0])), 0.2, rng)
    return random_graph(n, draw(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.8, 0.9])), rng)


densities = st.sampled_from([0.3, 0.5, 0.75, 0.9, 1.0])


@given(graphs(), densities)
@settings(max_examples=80)
def test_exact_equals_exhaustive_search(exhaustive, adjacency, density):
    np.testing.assert_array_equal(
        consistency(adjacency, density=density, exact=True), exhaustive(adjacency, density)
    )


def with_other_edges(adjacency, vertex, share, rng):
    """Return the graph in which the edges of one vertex are drawn anew."""
    changed = adjacency.copy()
    changed[vertex] = changed[:, vertex] = rng.random(len(adjacency)) < share
    changed[vertex, vertex] = 0
    return changed


@pytest.mark.compiled
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_sizes_after_changes_of_a_vertex_equal_those_from_scratch(share):
    rng = np.random.default_rng(8)
    allowed = missing_allowed(edges_needed(26, 0.9))
    adjacency = block_graph(26, 3, 0.9, share, rng)
    sizes, sets = exact_sizes(adjacency, allowed)
    for vertex in rng.integers(26, size=30).tolist():
        adjacency = with_other_edges(adjacency, vertex, rng.choice([share, 0.5]), rng)
        sizes, sets = changed_sizes(adjacency, allowed, vertex, sizes, sets)
        np.testing.assert_array_equal(sizes, exact_sizes(adjacency, allowed)[0])
    for i, j in np.argwhere(adjacency):
        members = np.flatnonzero(sets[i, j] >> np.arange(26) & 1)
        assert {i, j} <= set(members)
        assert len(members) == sizes[i, j]
        missing = len(members) * (len(members) - 1) - adjacency[np.ix_(members, members)].sum()
        assert missing <= 2 * allowed[len(members)]


@pytest.mark.slow
@given(graphs(), densities, st.sampled_from([local_search, nested_cores]))
@settings(max_examples=80)
def test_searches_never_exceed_exhaustive_search(exhaustive, adjacency, density, search):
    if not len(adjacency):
        return
    sizes = searched(search, adjacency, density)
    assert np.all(sizes <= exhaustive(adjacency, density))
    np.testing.assert_array_equal(sizes > 0, adjacency > 0)
    assert np.all(sizes[adjacency > 0] >= 2)


def test_worked_example():
    # A complete graph on 0-4 with one edge taken out still has floor(0.9 * 10) = 9 edges.
    adjacency = np.ones((6, 6), dtype=int)
    adjacency[0, 1] = adjacency[1, 0] = 0
    adjacency[5, :] = adjacency[:, 5] = 0
    adjacency[5, 4] = adjacency[4, 5] = 1
    sizes = consistency(adjacency)
    assert sizes[0, 1] == 0
    assert sizes[0, 2] == sizes[2, 3] == sizes[1, 4] == 5
    # {4, 5, x}: two edges are enough for three vertices; with one more, 5 of 6 would be needed.
    assert sizes[4, 5] == 3


@pytest.mark.slow
def test_far_pair_joins_a_large_core():
    # K_40 has 780 edges. With a separate edge: 781 >= floor(0.9 * 861) = 774.
    adjacency = np.zeros((42, 42), dtype=int)
    adjacency[:40, :40] = 1
    adjacency[40, 41] = adjacency[41, 40] = 1
    for exact in (True, False):
        assert consistency(adjacency, exact=exact)[40, 41] == 42


@pytest.mark.compiled
def test_search_nearly_equals_exact():
    rng = np.random.default_rng(7)
    graphs_ = [random_graph(n, p, rng) for n in (20, 30, 40) for p in (0.2, 0.5)]
    graphs_ += [random_graph(n, p, rng) for n in (20,) for p in (0.7, 0.85)]
    graphs_ += [block_graph(n, k, 0.85, 0.1, rng) for n in (20, 30, 40) for k in (2, 4)]
    graphs_ += [geometric_graph(n, r, rng) for n in (20, 30, 40) for r in (1.2, 1.8)]
    found, exact = [], []
    for adjacency in graphs_:
        edge = adjacency > 0
        found.append(consistency(adjacency, exact=False)[edge])
        exact.append(consistency(adjacency, exact=True)[edge])
        assert np.all(found[-1] <= exact[-1])
        assert np.mean(found[-1] == exact[-1]) >= 0.95
        cores = searched(nested_cores, adjacency, 0.9)[edge]
        assert np.all(cores <= exact[-1])
        assert cores.sum() >= 0.9 * exact[-1].sum()
    short = np.concatenate(exact) - np.concatenate(found)
    assert np.mean(short == 0) >= 0.99
    assert short.sum() / np.concatenate(exact).sum() <= 0.002


@pytest.mark.compiled
@pytest.mark.parametrize("n", [60, 160])
def test_fast_sizes_follow_vertices_that_refinement_distinguishes(n):
    rng = np.random.default_rng(3)
    adjacency = random_graph(n, 0.5, rng)
    order = rng.permutation(n)
    np.testing.assert_array_equal(
        consistency(adjacency[np.ix_(order, order)], exact=False),
        consistency(adjacency, exact=False)[np.ix_(order, order)],
    )


def test_edges_needed_reads_the_density_as_written():
    # In floating point 0.29 * 100 < 29, which would allow one edge too few for some sizes.
    for density in (0.07, 0.29, 0.57, 0.9, 1.0):
        expected = [round(density * 100) * (k * (k - 1) // 2) // 100 for k in range(60)]
        assert edges_needed(59, density).tolist() == expected


def test_small_or_sparse_graphs_are_solved_exactly():
    dense, sparse = (random_graph(51, share, np.random.default_rng(0)) for share in (0.9, 0.3))
    assert [is_exact(dense[:n, :n], None) for n in (30, 31)] == [True, False]
    assert [is_exact(sparse[:n, :n], None) for n in (50, 51)] == [True, False]
    assert [is_exact(dense[:45, :45], exact) for exact in (True, False)] == [True, False]


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"square, got an array of shape \(2, 3\)"):
        consistency(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"only one of \(0, 1\) and \(1, 0\)"):
        consistency([[0, 1], [0, 0]])
    with pytest.raises(ValueError, match=r"density must lie in \(0, 1\], got 0"):
        consistency(np.zeros((2, 2)), density=0)
    with pytest.raises(ValueError, match="limited to 62 vertices, got 70; use exact=None"):
        consistency(np.zeros((70, 70)), exact=True)
