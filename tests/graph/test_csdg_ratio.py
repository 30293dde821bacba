"""The two meanings of "the ratio of D to S + C", by hand."""

import numpy as np
import pytest

from pigmil.graph import edge_weights

S = np.array([[0.0, 0.5, 1.0], [0.5, 0.0, 0.0], [1.0, 0.0, 0.0]])
C = np.array([[0, 2, 1], [2, 0, 0], [1, 0, 0]])
D = np.array([-0.1, -0.2, -0.3])


def test_scaling_within_the_formula_scales_the_term_of_d():
    # Edges (0, 1) and (0, 2): S + C = 2.5 and 2; D = -0.2 and -0.3.
    fixed = {"alpha": 1.0, "beta": 2.0}
    weights = edge_weights(S, C, D, **fixed, discrimination_scale=3.0)
    assert weights[0, 1] == pytest.approx(2.5 - 2 * 3 * 0.2)
    assert weights[0, 2] == pytest.approx(2.0 - 2 * 3 * 0.3)
    assert np.array_equal(weights, edge_weights(S, C, 3 * D, **fixed))
    assert edge_weights(S, C, D, **fixed, discrimination_scale=0.0)[0, 1] == 2.5


def test_rescaling_brings_d_to_so_many_times_the_mean_of_s_and_c():
    # Mean of S + C is 2.25, mean of |D| 0.25: D is taken 9 k times, whatever beta says.
    for k in (0.0, 0.5, 1.0):
        for beta in ("log-ratio", 77.0):
            weights = edge_weights(S, C, D, alpha=1.0, beta=beta, discrimination_relative=k)
            assert weights[0, 1] == pytest.approx(max(0.0, 2.5 - 9 * k * 0.2))
            assert weights[0, 2] == pytest.approx(max(0.0, 2.0 - 9 * k * 0.3))


def test_copies_of_negatives_weigh_nothing_at_any_ratio():
    copies = np.array([-0.1, -np.inf, -0.3])
    for change in ({"discrimination_scale": 0.0}, {"discrimination_relative": 0.0}):
        weights = edge_weights(S, C, copies, **change)
        assert weights[0, 1] == 0.0
        assert weights[0, 2] > 0.0
