"""The unit of length by its two rules."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil.distances import length_unit


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


def test_sparse_is_dense():
    dense = sp.random_array((60, 8), density=0.3, rng=np.random.default_rng(2), format="csr")
    for rule in ("auto", "median"):
        assert length_unit(dense, rule) == pytest.approx(length_unit(dense.toarray(), rule))


@pytest.mark.parametrize("rule", ["auto", "median"])
def test_equal_instances_have_unit_one_and_one_instance_too(rule):
    assert length_unit(np.full((5, 3), 2.5), rule) == 1
    assert length_unit(np.ones((1, 3)), rule) == 1
