"""Squared distances in blocks against the obvious loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from pigmil import Bags
from pigmil.distances import blockwise, nearest_in_bags, squared_distance_blocks


def naive(queries, references):
    return np.array([[((q - r) ** 2).sum() for r in references] for q in queries])


def assemble(queries, references, block_values=1 << 21, **options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_VALUES", block_values)
        return filled(queries, references, **options)


def filled(queries, references, **options):
    found = np.full((queries.shape[0], references.shape[0]), np.nan)
    for rows, columns, block in squared_distance_blocks(queries, references, **options):
        assert np.isnan(found[rows, columns]).all(), "a pair was yielded twice"
        found[rows, columns] = block
    return found


@given(
    seed=st.integers(0, 1000),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    n_features=st.sampled_from([1, 2, 23, 24, 60]),
    block_values=st.sampled_from([1, 7, 64, 1 << 22]),
)
def test_all_pairs_as_the_loop_whatever_the_blocks(seed, sizes, n_features, block_values):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(sizes[0], n_features))
    references = np.vstack([rng.normal(size=(sizes[1], n_features)), queries[:1]])
    found = assemble(queries, references, block_values=block_values)
    expected = naive(queries, references)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)
    assert found[0, -1] == 0


@pytest.mark.parametrize("n_features", [3, 64])
def test_copies_are_at_distance_exactly_zero_and_no_distance_is_negative(n_features):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(300, n_features)) * 1e3 + 7e3
    both = np.vstack([points, points[:100]])
    found = assemble(both, both)
    same = (both[:, None, :5] == both[None, :, :5]).all(axis=2)
    assert (found[same] == 0).all()
    assert (found[~same] > 0).all()


@pytest.mark.parametrize("n_features", [3, 64])
def test_near_pairs_far_from_the_origin_keep_their_digits(n_features):
    rng = np.random.default_rng(1)
    near = 1e6 + rng.normal(size=(50, n_features)) * 1e-3
    far = -1e6 + rng.normal(size=(50, n_features)) * 1e-3
    points = np.vstack([near, far])
    expected = cdist(points, points, "sqeuclidean")
    np.testing.assert_allclose(assemble(points, points), expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_scales_that_single_precision_cannot_square(scale):
    points = np.random.default_rng(2).normal(size=(20, 30)) * scale
    expected = naive(points / scale, points / scale)
    np.testing.assert_allclose(assemble(points, points) / scale**2, expected, rtol=1e-9)


def test_double_precision_on_request():
    points = np.random.default_rng(3).normal(size=(40, 50))
    blocks = list(squared_distance_blocks(points, points, double=True))
    assert {block.dtype for _, _, block in blocks} == {np.dtype(np.float64)}
    expected = naive(points, points)
    np.testing.assert_allclose(assemble(points, points, double=True), expected, rtol=1e-12)
    singles = {block.dtype for _, _, block in squared_distance_blocks(points, points)}
    assert singles == {np.dtype(np.float32)}


@given(seed=st.integers(0, 1000), density=st.sampled_from([0.0, 0.05, 0.5]))
def test_sparse_is_dense(seed, density):
    rng = np.random.default_rng(seed)
    dense = sp.random_array((25, 40), density=density, random_state=rng, format="csr")
    matrix = sp.csr_array(dense)
    expected = naive(dense.toarray(), dense.toarray())
    np.testing.assert_allclose(assemble(matrix, matrix), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(assemble(matrix, dense.toarray()), expected, rtol=1e-9, atol=1e-12)


def test_memory_mapped_references(tmp_path):
    values = np.random.default_rng(4).normal(size=(500, 32)).astype(np.float32)
    np.save(tmp_path / "values.npy", values)
    mapped = np.load(tmp_path / "values.npy", mmap_mode="r")
    expected = cdist(values[:30], values, "sqeuclidean")
    found = assemble(mapped[:30], mapped, block_values=2000)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)


@given(
    seed=st.integers(0, 1000),
    n_features=st.sampled_from([2, 30]),
    block_values=st.sampled_from([3, 17, 1 << 22]),
    farthest=st.booleans(),
)
def test_nearest_in_bags_as_the_loop_also_where_blocks_cut_bags(
    seed, n_features, block_values, farthest
):
    rng = np.random.default_rng(seed)
    bags = Bags.from_list(
        [rng.normal(size=(int(rng.integers(1, 9)), n_features)) for _ in range(5)]
    )
    queries = np.vstack([rng.normal(size=(4, n_features)), bags.instances[:2]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockwise, "_BLOCK_VALUES", block_values)
        blocks = list(nearest_in_bags(queries, bags, farthest=farthest))
    found = np.concatenate([block for _, block in blocks])
    best = max if farthest else min
    expected = np.array(
        [[best(((q - x) ** 2).sum() for x in bag) for bag in bags] for q in queries]
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-12)
