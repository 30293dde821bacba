"""Clustering MIL: the sweep against all radii, the sphere, and what it detects."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags, ClusteringMIL
from pigmil.estimators.clustering_mil import sweep_radii


def planted(seed, n_bags=30):
    rng = np.random.default_rng(seed)
    parts, truth = [], []
    for number in range(n_bags):
        part = rng.normal(size=(5, 2))
        labels = np.zeros(5, dtype=int)
        if number % 2:
            part[2] = rng.normal(6, 0.3, size=2)
            labels[2] = 1
        parts.append(part)
        truth.append(labels)
    return Bags.from_list(parts, y=np.arange(n_bags) % 2, instance_labels=truth)


@given(
    seed=st.integers(0, 10_000),
    values=st.sampled_from([3, 50]),
    weighted=st.booleans(),
)
def test_sweep_finds_the_best_of_all_radii(seed, values, weighted):
    rng = np.random.default_rng(seed)
    nearest = rng.integers(0, values, size=(3, 9)).astype(float)
    positive = np.arange(9) % 2 == 0
    weights = rng.random(9) + 0.1 if weighted else np.ones(9)
    radii, accuracies, gaps = sweep_radii(nearest, positive, weights)
    for row, radius, accuracy, gap in zip(nearest, radii, accuracies, gaps, strict=True):
        tried = [weights @ ((row <= limit) == positive) / weights.sum() for limit in np.unique(row)]
        assert accuracy == pytest.approx(max(tried))
        assert weights @ ((row < radius) == positive) / weights.sum() == pytest.approx(accuracy)
        assert radius not in row
        assert 0 <= gap <= 1


def test_sweep_by_hand():
    # Positives at 1 and 2, negatives at 4 and 10: radius 3, halfway; the gap is (4 - 2) / 4.
    radii, accuracies, gaps = sweep_radii(
        np.array([[4.0, 1.0, 10.0, 2.0]]), np.array([False, True, False, True]), np.ones(4)
    )
    assert (radii[0], accuracies[0], gaps[0]) == (3, 1, 0.5)
    # All bags inside is the best where the positives are farther out.
    radii, accuracies, gaps = sweep_radii(
        np.array([[1.0, 2.0, 2.0]]), np.array([False, True, True]), np.ones(3)
    )
    assert (radii[0], accuracies[0], gaps[0]) == (3, pytest.approx(2 / 3), 0)


def test_one_cluster_by_hand():
    # The only centre is the mean of all instances of positive bags, (9 + 10 + 11) / 3.
    bags = Bags.from_list([[[9.0]], [[10.0], [11.0]], [[0.0]], [[4.0]]], y=[1, 1, 0, 0])
    method = ClusteringMIL(n_clusters=1, random_state=0).fit(bags)
    assert method.center_ == pytest.approx([10])
    # Nearest distances 1, 0, 10, 6: between 1 and 6.
    assert method.radius_ == pytest.approx(3.5)
    assert method.training_accuracy_ == 1
    np.testing.assert_allclose(method.instance_scores_, np.array([2.5, 3.5, 2.5, -6.5, -2.5]) / 3.5)
    assert method.detected_instances_.tolist() == [0, 1]
    new = Bags.from_list([[[0.0], [13.4]], [[6.4]]])
    np.testing.assert_allclose(method.decision_function(new), [0.1 / 3.5, -0.1 / 3.5], atol=1e-12)
    assert method.predict(new).tolist() == [1, 0]


@pytest.mark.parametrize("n_clusters", [3, "auto"])
def test_planted_concept_is_found(n_clusters):
    bags, new = planted(0), planted(1)
    method = ClusteringMIL(n_clusters=n_clusters, random_state=0).fit(bags)
    assert bags.instance_labels[method.detected_instances_].all()
    np.testing.assert_allclose(method.center_, 6, atol=0.5)
    assert method.score(new, new.y) == 1


def test_the_same_seed_repeats_the_choice_and_one_positive_bag_takes_the_first_candidate():
    bags = planted(3)
    methods = [ClusteringMIL(random_state=1).fit(bags) for _ in range(2)]
    assert methods[0].n_clusters_ == methods[1].n_clusters_
    np.testing.assert_array_equal(methods[0].center_, methods[1].center_)
    assert ClusteringMIL(random_state=0).fit(bags[:4], [0, 1, 0, 0]).n_clusters_ == 2


def test_fewer_instances_than_clusters_and_copies_are_survived():
    bags = Bags.from_list([np.ones((3, 2)), np.ones((1, 2)), np.zeros((2, 2))], y=[1, 1, 0])
    method = ClusteringMIL(n_clusters=10, random_state=0).fit(bags)
    assert method.predict(bags).tolist() == [1, 1, 0]


def test_class_weight_changes_which_radius_is_best():
    # Equal weights stop after the first bag, heavy positives go on to the fourth.
    nearest = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    positive = np.array([True, False, False, True, False])
    light, heavy = (
        sweep_radii(nearest, positive, np.where(positive, w, 1.0))[0][0] for w in (1.0, 5.0)
    )
    assert (light, heavy) == (1.5, 4.5)


@pytest.mark.parametrize("exponent", [-80, 60])
def test_single_precision_is_clustered_in_units_of_the_data(exponent):
    """Squares of such values are 0 or infinite in single precision: k-means needs others."""
    bags = planted(0)
    # Classes that overlap, so that the sphere depends on where the centres are.
    bags = bags.with_instances((bags.instances * [[1, 0.25]]).astype(np.float32))
    scaled = bags.with_instances(bags.instances * np.float32(2.0**exponent))
    assert scaled.instances.dtype == np.float32
    expected = ClusteringMIL(random_state=0).fit(bags).decision_function(bags)
    found = ClusteringMIL(random_state=0).fit(scaled).decision_function(scaled)
    np.testing.assert_allclose(found, expected, atol=1e-9)
