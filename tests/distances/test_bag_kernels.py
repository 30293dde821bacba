"""Set kernels and bag graphs against loops over instances and edges."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.distances import blockwise, gaussian_self_sums, gaussian_sums
from pigmil.distances.bag_kernels import affinity_weights, edge_maps, gaussian_factor


def draw_bags(seed, n_bags, n_features, largest=7):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    return Bags.from_list([np.round(2 * rng.normal(size=(n, n_features))) / 2 for n in sizes])


def naive_sum(one, two, gamma, w=None, v=None):
    w = np.ones(len(one)) if w is None else w
    v = np.ones(len(two)) if v is None else v
    return sum(
        w[a] * v[b] * np.exp(-gamma * ((one[a] - two[b]) ** 2).sum())
        for a in range(len(one))
        for b in range(len(two))
    )


@given(
    seed=st.integers(0, 10_000),
    n_features=st.sampled_from([1, 3, 30]),
    rows=st.sampled_from([2, 512]),
)
def test_weighted_sums_as_the_loop_whatever_the_blocks(seed, n_features, rows):
    one, two = draw_bags(seed, 4, n_features), draw_bags(seed + 1, 3, n_features)
    rng = np.random.default_rng(seed)
    w, v = rng.random(one.n_instances), rng.random(two.n_instances)
    parts = [np.split(x, b.offsets[1:-1]) for x, b in ((w, one), (v, two))]
    gamma = 1 / n_features
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_ROWS", rows)
        found = gaussian_sums(one, two, gamma=gamma, query_weights=w, reference_weights=v)
        itself = gaussian_sums(one, gamma=gamma, query_weights=w)
    expected = [
        [naive_sum(a, b, gamma, p, q) for b, q in zip(two, parts[1], strict=True)]
        for a, p in zip(one, parts[0], strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-9)
    expected = [
        [naive_sum(a, b, gamma, p, q) for b, q in zip(one, parts[0], strict=True)]
        for a, p in zip(one, parts[0], strict=True)
    ]
    np.testing.assert_allclose(itself, expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(itself, itself.T)


def test_by_hand():
    bags = Bags.from_list([np.array([[0.0], [1.0]]), np.array([[3.0]])])
    e = np.exp(-1.0)
    expected = [[2 + 2 * e, e**9 + e**4], [e**9 + e**4, 1]]
    np.testing.assert_allclose(gaussian_sums(bags), expected)
    np.testing.assert_allclose(gaussian_self_sums(bags), [2 + 2 * e, 1])


def test_sparse_is_dense():
    bags = draw_bags(5, 6, 9)
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    np.testing.assert_allclose(gaussian_sums(sparse), gaussian_sums(bags), rtol=1e-9)
    np.testing.assert_allclose(affinity_weights(sparse), affinity_weights(bags))


def naive_graph(bag):
    """Adjacency without loops, by the definition."""
    n = len(bag)
    distance = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in bag] for a in bag])
    if n == 1:
        return np.zeros((1, 1), dtype=bool), distance
    mean = sum(distance[a, b] for a, b in itertools.permutations(range(n), 2)) / (n * (n - 1))
    joined = (distance < mean * (1 - 1e-9)) & ~np.eye(n, dtype=bool)
    return joined, distance


@given(seed=st.integers(0, 10_000), n_features=st.sampled_from([1, 2, 30]))
def test_affinity_weights_as_the_loop(seed, n_features):
    bags = draw_bags(seed, 4, n_features)
    expected = [1 / (1 + row.sum()) for bag in bags for row in naive_graph(bag)[0]]
    np.testing.assert_allclose(affinity_weights(bags), expected)


def test_affinity_weights_by_hand_and_where_nothing_is_nearer_than_the_mean():
    # Distances 1, 9, 8: mean 6, so only the first two are joined.
    cluster = np.array([[0.0], [1.0], [9.0]])
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    bags = [np.pad(cluster, ((0, 0), (0, 1))), corners, np.ones((4, 2)), np.zeros((1, 2))]
    found = affinity_weights(Bags.from_list(bags))
    np.testing.assert_allclose(found, [0.5, 0.5, 1, 1, 1, 1, 1, 1, 1, 1, 1])


def naive_edges(bag):
    joined, distance = naive_graph(bag)
    n_edges = joined.sum() / 2
    threshold = distance.sum() / max(1, len(bag) * (len(bag) - 1)) * (1 - 1e-9)
    affinity = np.where(joined, 1 / np.maximum(distance, 1e-6 * threshold + 1e-300), 0)
    edges = []
    for u, v in itertools.combinations(range(len(bag)), 2):
        if joined[u, v]:
            ends = sorted(
                [(joined[z].sum() / n_edges, affinity[u, v] / affinity[z].sum()) for z in (u, v)],
                reverse=True,
            )
            edges.append([*ends[0], *ends[1]])
    return np.array(edges).reshape(-1, 4)


@given(
    seed=st.integers(0, 10_000),
    gamma=st.sampled_from([0.3, 1.0, 8.0]),
    rows=st.sampled_from([3, 512]),
)
def test_edge_kernel_as_the_double_loop_over_edges(seed, gamma, rows):
    bags = draw_bags(seed, 4, 2, largest=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_ROWS", rows)
        maps = edge_maps(bags, gaussian_factor(gamma))
    edges = [naive_edges(bag) for bag in bags]
    expected = [[naive_sum(a, b, gamma) for b in edges] for a in edges]
    np.testing.assert_allclose(maps @ maps.T, expected, rtol=1e-6, atol=1e-6)


def test_edge_kernel_by_hand():
    # One edge in a bag of three: both ends have degree 1 of 1 edge and all their affinity in it.
    one = np.array([[0.0], [1.0], [9.0]])
    # A path 0 - 1 - 2 and a far fourth: distances 1, 2, 1 are below the mean, so a triangle.
    two = np.array([[0.0], [1.0], [2.0], [30.0]])
    bags = Bags.from_list([one, two, np.zeros((1, 1))])
    maps = edge_maps(bags, gaussian_factor(1.0))
    found = maps @ maps.T
    assert found[0, 0] == pytest.approx(1)
    assert found[2].tolist() == [0, 0, 0]
    # Degrees 2/3; affinities 1, 1, 1/2; ends by share: 0 has (1, 1/2) -> 2/3, 1/3; 1 has 1/2, 1/2.
    d = 2 / 3
    triangle = np.array([[d, 2 / 3, d, 1 / 2], [d, 2 / 3, d, 1 / 2], [d, 1 / 3, d, 1 / 3]])
    expected = sum(np.exp(-((edge - 1) ** 2).sum()) for edge in triangle)
    assert found[0, 1] == pytest.approx(expected)


def test_factor_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="at most 100"):
        gaussian_factor(1e4)
