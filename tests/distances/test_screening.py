"""Screened densities: exact where they claim to be, close elsewhere, rare instances not lost."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pigmil import PIGMIL, Bags
from pigmil.datasets import make_ring
from pigmil.distances import (
    class_log_densities,
    representative_rows,
    screening,
    similarity,
    worth_screening,
)


def draw_bags(rng, n_bags, size, n_features=3):
    return Bags.from_list([rng.normal(size=(size, n_features)) for _ in range(n_bags)])


def loop_density(query, bags, rate):
    """The definition: mean over bags of the kernel of the nearest instance."""
    kernels = [max(np.exp(-rate * np.linalg.norm(query - x)) for x in bag) for bag in bags]
    return np.log(np.mean(kernels))


def loop_densities(bags, is_positive, rate):
    """Densities of both classes at every instance, its own bag left out."""
    negative, positive = [], []
    for own, bag in enumerate(bags):
        others = {
            side: [np.asarray(b) for k, b in enumerate(bags) if k != own and is_positive[k] == side]
            for side in (True, False)
        }
        for query in np.asarray(bag):
            negative.append(loop_density(query, others[False], rate))
            if is_positive[own]:
                positive.append(loop_density(query, others[True], rate))
    return np.array(negative), np.array(positive)


@pytest.fixture
def coarse(monkeypatch):
    """Settings under which small bags are screened."""
    monkeypatch.setattr(screening, "_CELL_SIZE", 16)
    monkeypatch.setattr(screening, "_CELLS_SEARCHED", 4)
    monkeypatch.setattr(screening, "_REPRESENTATIVES", (1, 2))
    monkeypatch.setattr(screening, "_PROMISING", (1, 8))


@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 6))
def test_small_data_are_measured_exactly(seed, n_bags, size):
    rng = np.random.default_rng(seed)
    bags = draw_bags(rng, 2 * n_bags, size)
    is_positive = rng.permutation(2 * n_bags) < n_bags
    found = class_log_densities(bags, is_positive, gammas=(0.7, 2.0), unit=0.5)
    for row, rate in enumerate((1.4, 4.0)):
        negative, positive = loop_densities(bags, is_positive, rate)
        np.testing.assert_allclose(found.log_negative[row], negative, atol=1e-5)
        np.testing.assert_allclose(found.log_positive[row], positive, atol=1e-5)
    assert found.exact.all()


@pytest.mark.usefixtures("coarse")
def test_promising_instances_are_exact_and_the_rest_close():
    rng = np.random.default_rng(0)
    bags = draw_bags(rng, 8, 40)
    is_positive = np.arange(8) < 4
    found = class_log_densities(bags, is_positive, gammas=(1.0,))
    negative, positive = loop_densities(bags, is_positive, 1.0)
    exact = np.append(found.exact, np.zeros(160, dtype=bool))
    assert 4 * 4 <= exact.sum() <= 4 * 8
    np.testing.assert_allclose(found.log_negative[0][exact], negative[exact], rtol=1e-12)
    np.testing.assert_allclose(found.log_positive[0][found.exact], positive[found.exact])
    rest = ~exact
    assert np.corrcoef(found.log_negative[0][rest], negative[rest])[0, 1] > 0.9
    # Estimates are too low before they are raised, all by the same amount.
    difference = found.log_negative[0][rest] - negative[rest]
    assert np.mean(difference >= 0) > 0.8
    assert difference.max() < 0.5


@pytest.mark.usefixtures("coarse")
def test_sums_by_fold_add_up_to_the_densities():
    rng = np.random.default_rng(3)
    bags = draw_bags(rng, 8, 40)
    is_positive, fold = np.arange(8) < 4, np.arange(8) % 2
    found = class_log_densities(bags, is_positive, gammas=(1.0, 3.0), fold=fold)
    plain = class_log_densities(bags, is_positive, gammas=(1.0, 3.0))
    others = np.where(is_positive, 4, 3)[bags.bag_index]  # negative bags that are not one's own
    whole = np.logaddexp.reduce(found.negative_sums, axis=1) - np.log(others)
    np.testing.assert_allclose(whole, plain.log_negative, atol=1e-5)
    whole = np.logaddexp.reduce(found.positive_sums, axis=1) - np.log(3)
    np.testing.assert_allclose(whole, plain.log_positive, atol=1e-5)
    np.testing.assert_allclose(found.log_positive, plain.log_positive, atol=1e-5)
    # Exact sums over the bags of one fold alone.
    k = np.flatnonzero(found.exact)[0]
    other = [np.asarray(bags[b]) for b in range(4) if b != k // 40 and fold[b] == 1]
    expected = loop_density(bags.instances[k], other, 3.0) + np.log(len(other))
    assert found.positive_sums[1, 1, k] == pytest.approx(expected)


@pytest.mark.usefixtures("coarse")
def test_one_positive_instance_per_bag_is_not_lost():
    # The positive instances are no outliers: only their resemblance gives them away.
    rng = np.random.default_rng(1)
    instances = rng.normal(size=(12, 60, 8))
    centre = np.full(8, 0.7)
    instances[:6, 17] = centre + 0.05 * rng.normal(size=(6, 8))
    bags = Bags.from_list(list(instances))
    found = class_log_densities(bags, np.arange(12) < 6, gammas=(2.0,))
    assert found.exact.reshape(6, 60)[:, 17].all()
    assert found.exact.sum() <= 6 * 8
    ratio = (found.log_positive[0] - found.log_negative[0][:360]).reshape(6, 60)
    np.testing.assert_array_equal(ratio.argmax(axis=1), 17)


def test_every_cluster_is_represented_whatever_the_order():
    rng = np.random.default_rng(2)
    points = np.repeat(np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 20.0]]), 30, axis=0)
    points += 0.1 * rng.normal(size=points.shape)
    order = rng.permutation(90)
    rows = representative_rows(Bags.from_list([points]), 3)
    assert (rows // 30).tolist() == [0, 1, 2]
    moved = representative_rows(Bags.from_list([points[order]]), 3)
    assert sorted(order[moved]) == rows.tolist()
    both = Bags.from_list([points, points[:2]])  # a small bag is represented by all it has
    assert representative_rows(both, 3).tolist() == [*rows, 90, 91]


def test_only_large_dense_data_in_large_bags_are_worth_it(monkeypatch):
    monkeypatch.setattr(similarity, "_WORTH_PRODUCTS", 100 * 50 * 3)
    is_positive = np.array([True, False])
    large = Bags.from_list([np.zeros((50, 3)), np.zeros((50, 3))])
    assert worth_screening(large, is_positive)
    assert not worth_screening(large.with_instances(sp.csr_array(large.instances)), is_positive)
    narrow = Bags.from_list([np.zeros((10, 3))] * 20)
    assert not worth_screening(narrow, np.arange(20) < 5)


def test_screening_is_off_for_small_data_and_can_be_forced(monkeypatch):
    bags = make_ring(random_state=0)
    quick = {"random_state": 0, "C": 1.0, "embedding_decay": 1.0}
    never = PIGMIL(**quick).fit(bags)
    coarse = {"_REPRESENTATIVES": (1, 2), "_PROMISING": (1, 2)}
    for name, value in (coarse | {"_CELL_SIZE": 16, "_CELLS_SEARCHED": 2}).items():
        monkeypatch.setattr(screening, name, value)
    forced = PIGMIL(density_screen=True, **quick).fit(bags)
    assert np.any(forced.instance_scores_ != never.instance_scores_)
    assert np.all(bags.instance_labels[forced.detected_instances_] == 1)
