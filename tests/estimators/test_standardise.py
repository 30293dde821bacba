"""Standardisation: constant features change no method, in memory, sparse, weighted or on disk."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import DD, EMDD, MMIL, SIL, Bags, ClusteringMIL, MaxPoolingLR, MiSim
from pigmil.estimators._linear import centre_and_spread


def bags_of(constant=None, n_bags=12):
    rng = np.random.default_rng(0)
    parts = [rng.normal([3.0, 0.0, -1.0], [2.0, 1.0, 0.5], size=(4, 3)) for _ in range(n_bags)]
    for part in parts[::2]:
        part[0] += 2.0
    if constant is not None:
        parts = [np.hstack([part, np.full((len(part), 20), constant)]) for part in parts]
    return Bags.from_list(parts, y=np.arange(n_bags) % 2 == 0)


@pytest.mark.parametrize("method", [MMIL, MiSim, MaxPoolingLR, SIL, DD, EMDD, ClusteringMIL])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_features_change_nothing(method):
    seeded = {"random_state": 0} if "random_state" in method().get_params() else {}
    bags, more = bags_of(), bags_of(constant=7.3)
    expected = method(**seeded).fit(bags).decision_function(bags)
    found = method(**seeded).fit(more).decision_function(more)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.ptp(expected))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 1.0, 4.0])])
def test_the_spread_is_that_of_the_features_that_vary(form, weights):
    rows = np.array([[1.0, 0.1, 4.0], [3.0, 0.1, 4.0], [5.0, 0.1, 1.0], [3.0, 0.1, 3.0]])
    centre, spread = centre_and_spread(form(rows), weights)
    copies = np.repeat(rows, (1, 1, 1, 1) if weights is None else (1, 2, 1, 4), axis=0)
    assert spread == pytest.approx(np.sqrt(copies.var(axis=0)[[0, 2]].mean()))
    np.testing.assert_allclose(centre, 0.0 if form is sp.csr_array else copies.mean(axis=0))
    assert centre_and_spread(form(np.ones((3, 2))))[1] == 1.0
