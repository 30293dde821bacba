"""Densities, the embedding of bags and the unit of length against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.distances import blockwise, embed_bags, length_unit, log_density

REDUCTIONS = {"nearest": max, "farthest": min, "sum": sum}


def draw_bags(seed, n_features):
    rng = np.random.default_rng(seed)
    return Bags.from_list(
        [rng.normal(size=(int(rng.integers(1, 8)), n_features)) for _ in range(5)]
    )


def naive(query, bags, rate, reduction):
    # The nearest instance has the largest exponential, the farthest the smallest.
    reduce = REDUCTIONS[reduction]
    parts = [
        reduce([np.exp(-rate * np.sqrt(((query - x) ** 2).sum())) for x in bag]) for bag in bags
    ]
    return np.mean(parts)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@given(
    seed=st.integers(0, 10_000),
    n_features=st.sampled_from([2, 40]),
    rows=st.sampled_from([2, 512]),
)
def test_every_density_as_the_loop(reduction, seed, n_features, rows):
    bags = draw_bags(seed, n_features)
    queries = np.vstack([np.zeros((1, n_features)), bags.instances[:3]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_ROWS", rows)
        found = log_density(queries, bags, gamma=0.7, unit=2.0, reduction=reduction)
    expected = [np.log(naive(query, bags, 0.35, reduction)) for query in queries]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_densities_by_hand():
    bags = Bags.from_list([np.array([[0.0], [3.0]]), np.array([[1.0]])])
    e = np.exp(-1.0)
    origin = np.array([[0.0]])
    assert np.exp(log_density(origin, bags))[0] == pytest.approx((1 + e) / 2)
    farthest = np.exp(log_density(origin, bags, reduction="farthest"))[0]
    assert farthest == pytest.approx((e**3 + e) / 2)
    total = np.exp(log_density(origin, bags, reduction="sum"))[0]
    assert total == pytest.approx((1 + e**3 + e) / 2)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_far_queries_keep_their_order_where_the_density_underflows(reduction):
    bags = Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))])
    queries = np.array([[1e4], [2e4], [3e4]])
    found = log_density(queries, bags, reduction=reduction)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.diff(found), -1e4, rtol=1e-6)


def test_own_bag_is_left_out():
    bags = Bags.from_list([np.array([[0.0]]), np.array([[2.0]]), np.array([[5.0]])])
    queries = np.array([[0.0], [0.0]])
    found = np.exp(log_density(queries, bags, own_bag=np.array([0, -1])))
    assert found[0] == pytest.approx((np.exp(-2) + np.exp(-5)) / 2)
    assert found[1] == pytest.approx((1 + np.exp(-2) + np.exp(-5)) / 3)
    alone = log_density(queries[:1], bags[:1], own_bag=np.array([0]))
    assert alone[0] == -np.inf


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_densities_of_sparse_instances(reduction):
    bags = draw_bags(3, 12)
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    np.testing.assert_allclose(
        log_density(sparse.instances, sparse, reduction=reduction),
        log_density(bags.instances, bags, reduction=reduction),
        atol=1e-6,
    )


@given(
    seed=st.integers(0, 10_000),
    n_features=st.sampled_from([1, 3, 40]),
    rows=st.sampled_from([2, 512]),
)
def test_every_entry_is_the_similarity_of_the_nearest_instance(seed, n_features, rows):
    bags = draw_bags(seed, n_features)
    prototypes = np.vstack([bags.instances[:2], np.full((1, n_features), 0.5)])
    gamma = 0.5 / n_features
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_ROWS", rows)
        found = embed_bags(bags, prototypes, gamma)
    expected = [
        [max(np.exp(-gamma * ((x - p) ** 2).sum()) for x in bag) for p in prototypes]
        for bag in bags
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_embedding_of_sparse_instances():
    bags = draw_bags(1, 12)
    instances = np.where(np.abs(bags.instances) < 1, 0, bags.instances)
    dense, sparse = bags.with_instances(instances), bags.with_instances(sp.csr_array(instances))
    expected = embed_bags(dense, instances[:4], 0.1)
    np.testing.assert_allclose(embed_bags(sparse, instances[:4], 0.1), expected, rtol=1e-9)
    np.testing.assert_allclose(
        embed_bags(sparse, sp.csr_array(instances[:4]), 0.1), expected, rtol=1e-9
    )


def test_automatic_unit_is_the_root_of_half_the_total_variance():
    # Variances 4 and 9 over two points each: unit^2 = 13 / 2.
    points = np.array([[2.0, 3.0], [-2.0, -3.0]])
    assert length_unit(points) == pytest.approx(np.sqrt(6.5))


def test_median_unit_by_hand_and_by_sample():
    # Distances 1, 3 and 4: the median is 3.
    assert length_unit(np.array([[0.0], [1.0], [4.0]]), "median") == pytest.approx(3)
    points = np.random.default_rng(1).normal(size=(3000, 5))
    sampled = length_unit(points, "median", random_state=0)
    assert sampled == length_unit(points, "median", random_state=0)
    # The distance of two standard normals in five dimensions is sqrt(2) times a chi(5).
    assert sampled == pytest.approx(np.sqrt(2 * 4.3515), rel=0.02)


def test_unit_of_sparse_instances():
    rng = np.random.default_rng(2)
    dense = sp.random_array((60, 8), density=0.3, random_state=rng, format="csr")
    for rule in ("auto", "median"):
        assert length_unit(dense, rule) == pytest.approx(length_unit(dense.toarray(), rule))


@pytest.mark.parametrize("rule", ["auto", "median"])
def test_equal_instances_have_unit_one_and_one_instance_too(rule):
    assert length_unit(np.full((5, 3), 2.5), rule) == 1
    assert length_unit(np.ones((1, 3)), rule) == 1
