"""The bag embedding against the loop of its equation."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.distances import blockwise, embed_bags


def draw_bags(seed, n_features):
    rng = np.random.default_rng(seed)
    return Bags.from_list(
        [rng.normal(size=(int(rng.integers(1, 8)), n_features)) for _ in range(6)]
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


def test_sparse_is_dense():
    bags = draw_bags(1, 12)
    instances = np.where(np.abs(bags.instances) < 1, 0, bags.instances)
    dense, sparse = bags.with_instances(instances), bags.with_instances(sp.csr_array(instances))
    expected = embed_bags(dense, instances[:4], 0.1)
    np.testing.assert_allclose(embed_bags(sparse, instances[:4], 0.1), expected, rtol=1e-9)
    np.testing.assert_allclose(
        embed_bags(sparse, sp.csr_array(instances[:4]), 0.1), expected, rtol=1e-9
    )
