"""Distances between bags against loops over instances."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.distances import BAG_DISTANCES, bag_distances


def draw_bags(seed, n_bags, n_features, largest=7):
    """Bags on a coarse grid, so that bags share instances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, largest + 1, size=n_bags)
    return Bags.from_list([np.round(2 * rng.normal(size=(n, n_features))) / 2 for n in sizes])


def near(x, bag):
    return min(np.sqrt(((x - other) ** 2).sum()) for other in bag)


def naive(kind, one, two, rank):
    forward = sorted(near(x, two) for x in one)
    backward = sorted(near(x, one) for x in two)
    if kind == "hausdorff":
        return max(forward[-1], backward[-1])
    if kind == "ranked":
        return max(
            forward[min(rank, len(one)) - 1],
            backward[min(rank, len(two)) - 1],
        )
    reduce = {"min": min, "mean": np.mean, "max": max}[
        kind.removeprefix("symmetric ")[:-4].strip("-")
    ]
    if kind.startswith("symmetric"):
        return (reduce(forward) + reduce(backward)) / 2
    return reduce(forward)


@pytest.mark.parametrize("kind", BAG_DISTANCES)
@given(seed=st.integers(0, 10_000), n_features=st.sampled_from([1, 3, 30]), rank=st.integers(1, 4))
def test_every_distance_as_the_loop(kind, seed, n_features, rank):
    queries, references = draw_bags(seed, 4, n_features), draw_bags(seed + 1, 5, n_features)
    expected = [[naive(kind, a, b, rank) for b in references] for a in queries]
    found = bag_distances(queries, references, kind, rank=rank)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    itself = bag_distances(queries, None, kind, rank=rank)
    expected = [[naive(kind, a, b, rank) for b in queries] for a in queries]
    np.testing.assert_allclose(itself, expected, rtol=1e-5, atol=1e-6)


def test_by_hand():
    # Nearest distances: from {0, 4} to {1}: 1, 3; back: 1.
    bags = Bags.from_list([np.array([[0.0], [4.0]]), np.array([[1.0]])])
    expected = {
        "hausdorff": [3, 3],
        "ranked": [1, 1],
        "min-min": [1, 1],
        "mean-min": [2, 1],
        "max-min": [3, 1],
        "symmetric mean-min": [1.5, 1.5],
        "symmetric max-min": [2, 2],
    }
    assert set(expected) == set(BAG_DISTANCES)
    for kind, (there, back) in expected.items():
        found = bag_distances(bags, None, kind)
        assert found[0, 1] == pytest.approx(there), kind
        assert found[1, 0] == pytest.approx(back), kind
    assert bag_distances(bags, None, "ranked", rank=2)[0, 1] == pytest.approx(3)


@pytest.mark.parametrize("kind", BAG_DISTANCES)
def test_sparse_is_dense(kind):
    bags = draw_bags(5, 6, 8)
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    np.testing.assert_allclose(
        bag_distances(sparse, None, kind), bag_distances(bags, None, kind), atol=1e-7
    )


def test_double_precision_does_not_depend_on_the_company():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(3, 50)) for _ in range(12)])
    together = bag_distances(bags, bags, double=True)
    alone = np.vstack([bag_distances(bags[i : i + 1], bags, double=True) for i in range(12)])
    np.testing.assert_allclose(alone, together, rtol=1e-12, atol=1e-12)


def test_unknown_kind_is_refused_in_words():
    with pytest.raises(ValueError, match=r"hausdorff, ranked, .*got 'max'"):
        bag_distances(draw_bags(0, 2, 2), kind="max")
