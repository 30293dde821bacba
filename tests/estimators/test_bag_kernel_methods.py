"""MI-Kernel, miGraph and MIGraph: the matrix each SVM is given, and what it does with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from pigmil import Bags, MIGraph, MiGraph, MIKernel
from pigmil.datasets import make_basic
from pigmil.distances import length_unit
from pigmil.distances.bag_kernels import affinity_weights, edge_maps, gaussian_factor

FACTOR = gaussian_factor(1.0)  # of the default edge_gamma
ALL = [
    MIKernel(),
    MIKernel(normalization=None, C=1.0),
    MiGraph(),
    MIGraph(),
]


def draw_bags(seed, n_bags=8, n_features=3):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 5)), n_features)) for _ in range(n_bags)]
    return Bags.from_list(parts, y=np.arange(n_bags) % 2)


def gauss(one, two, rate):
    return sum(np.exp(-rate * ((a - b) ** 2).sum()) for a in one for b in two)


def twin(method, bags, one, two):
    """Kernel of two bags, by the equation of the method."""
    unit = length_unit(bags.instances)
    rate = method.gamma / unit**2
    if isinstance(method, MIKernel):
        value = gauss(one, two, rate)
        if method.normalization is None:
            return value
        return value / np.sqrt(gauss(one, one, rate) * gauss(two, two, rate))
    if isinstance(method, MiGraph):
        w, v = (affinity_weights(Bags.from_list([bag])) for bag in (one, two))
        value = sum(
            w[i] * v[j] * np.exp(-rate * ((a - b) ** 2).sum())
            for i, a in enumerate(one)
            for j, b in enumerate(two)
        )
        return value / (w.sum() * v.sum())
    maps = edge_maps(Bags.from_list([one, two]), FACTOR)
    edges = maps @ maps.T
    nodes = np.array([[gauss(a, b, rate) for b in (one, two)] for a in (one, two)])
    both = nodes + edges
    return both[0, 1] / np.sqrt(both[0, 0] * both[1, 1])


def name(method):
    return repr(method)


@pytest.mark.parametrize("method", ALL, ids=name)
@settings(max_examples=6)
@given(seed=st.integers(0, 1000))
def test_decisions_are_those_of_an_svm_on_the_equation(method, seed):
    bags, new = draw_bags(seed), draw_bags(seed + 1, 4)
    gram = np.array([[twin(method, bags, a, b) for b in bags] for a in bags])
    cross = np.array([[twin(method, bags, a, b) for b in bags] for a in new])
    plain = SVC(kernel="precomputed", C=method.C, tol=1e-3).fit(gram, bags.y)
    fitted = method.fit(bags)
    np.testing.assert_allclose(
        fitted.decision_function(new), plain.decision_function(cross), rtol=1e-3, atol=3e-3
    )


@pytest.mark.parametrize("method", ALL, ids=name)
def test_normalised_kernels_are_one_on_the_diagonal_and_positive_definite(method):
    bags = draw_bags(3, 12)
    method.fit(bags)
    gram = method._tables(bags, None)
    np.testing.assert_allclose(gram, gram.T, atol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-8
    feature_space = getattr(method, "normalization", "feature-space") == "feature-space"
    if feature_space and not isinstance(method, MiGraph):
        np.testing.assert_allclose(np.diagonal(gram), 1)
    apart = method._tables(bags, bags)
    np.testing.assert_allclose(apart, gram, atol=1e-9)


def test_set_kernel_by_hand():
    # Unit 1: {0, 1} and {1}: sums 2 + 2/e, 1 + 1/e and 1.
    bags = Bags.from_list([np.array([[0.0], [1.0]]), np.array([[1.0]])], y=[0, 1])
    method = MIKernel(length_unit=1.0).fit(bags)
    e = np.exp(-1)
    expected = (1 + e) / np.sqrt(2 + 2 * e)
    assert method._tables(bags, None)[0, 1] == pytest.approx(expected)


def test_migraph_by_hand():
    # {0, 1, 9} has weights 1/2, 1/2, 1; against {0}: (1/2 + 1/2 e^-1 + e^-81) / 2.
    bags = Bags.from_list([np.array([[0.0], [1.0], [9.0]]), np.array([[0.0]])], y=[0, 1])
    method = MiGraph(length_unit=1.0).fit(bags)
    found = method._tables(bags, None)[0, 1]
    assert found == pytest.approx((0.5 + 0.5 * np.exp(-1)) / 2)


def test_only_support_bags_are_kept():
    bags = make_basic(random_state=1)
    method = MiGraph().fit(bags)
    assert len(method.training_bags_) == len(method.support_) < len(bags)
    assert method.training_bags_.equals(bags[method.support_])
