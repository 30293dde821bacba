"""The KDE family against the sums of its definition."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.distances import blockwise
from pigmil.distances.similarity import log_density

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


def test_by_hand():
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
def test_sparse_is_dense(reduction):
    bags = draw_bags(3, 12)
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    np.testing.assert_allclose(
        log_density(sparse.instances, sparse, reduction=reduction),
        log_density(bags.instances, bags, reduction=reduction),
        atol=1e-6,
    )
