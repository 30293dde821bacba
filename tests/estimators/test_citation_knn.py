"""Citation-kNN: votes by hand and by the definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags, CitationKNN


def line(*positions, y=None):
    return Bags.from_list([np.array([[float(p)]]) for p in positions], y=y)


def hausdorff(one, two, rank):
    near = [
        sorted(min(np.linalg.norm(x - z) for z in b) for x in a)
        for a, b in ((one, two), (two, one))
    ]
    return max(part[(len(part) if rank is None else min(rank, len(part))) - 1] for part in near)


def naive_votes(training, positive, bag, n_references, n_citers, rank):
    """Votes by walking through neighbour lists; only for data without equal distances."""
    distances = [hausdorff(bag, other, rank) for other in training]
    voters = list(np.argsort(distances)[:n_references])
    for citer, distance in enumerate(distances):
        others = [
            hausdorff(training[citer], other, rank)
            for position, other in enumerate(training)
            if position != citer
        ]
        place = 1 + sum(other < distance for other in others)
        if place <= n_citers:
            voters.append(citer)
    votes = positive[voters]
    return votes.sum(), (~votes).sum()


@given(
    seed=st.integers(0, 10_000),
    n_references=st.integers(1, 4),
    n_citers=st.integers(0, 6),
    rank=st.sampled_from([1, 2, None]),
)
def test_votes_as_the_definition(seed, n_references, n_citers, rank):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 5)), 2)) for _ in range(12)]
    positive = np.arange(8) % 2 == 1
    method = CitationKNN(n_references=n_references, n_citers=n_citers, rank=rank)
    method.fit(Bags.from_list(parts[:8]), positive)
    found = method.decision_function(Bags.from_list(parts[8:]))
    for bag, value in zip(parts[8:], found, strict=True):
        yes, no = naive_votes(parts[:8], positive, bag, n_references, n_citers, rank)
        assert value == pytest.approx((yes - no - 0.5) / (yes + no))
        assert (value > 0) == (yes > no)


def test_by_hand():
    # A new bag at 2.4: references 2 (-) and 3 (+). Citers with C = 1: bag 2 has its nearest at
    # distance 1, the new bag is nearer, so it cites; so does 3 (nearest 2 at 1 > 0.6); 0 has 2 at
    # distance 2 < 2.4, so it does not; 9 has 3 at 6 < 6.6 and does not.
    training = line(0, 2, 3, 9, y=[0, 0, 1, 1])
    method = CitationKNN(n_references=2, n_citers=1).fit(training)
    # Two votes each side: a tie is negative.
    assert method.decision_function(line(2.4)) == pytest.approx([-0.5 / 4])
    assert method.predict(line(2.4)).tolist() == [0]
    # At 8: references 9 and 3, both positive; citers 9 (6 > 1) only: three votes to none.
    assert method.decision_function(line(8)) == pytest.approx([2.5 / 3])


def test_more_citers_than_bags_makes_every_bag_cite():
    training = line(0, 1, 5, y=[0, 0, 1])
    method = CitationKNN(n_references=1, n_citers=3).fit(training)
    # One reference (5, positive) and three citers (two negative): a tie.
    assert method.decision_function(line(6)) == pytest.approx([-0.5 / 4])


def test_shared_instances_are_distinguished_by_the_mean_nearest_distance():
    # Every bag holds the origin, so all minimal distances are zero.
    bags = [np.array([[0.0], [p]]) for p in (5.0, 5.1, -5.0, -5.1)]
    training = Bags.from_list(bags, y=[1, 1, 0, 0])
    method = CitationKNN(n_references=2, n_citers=1).fit(training)
    new = Bags.from_list([np.array([[0.0], [4.9]]), np.array([[0.0], [-4.9]])])
    assert method.predict(new).tolist() == [1, 0]


@pytest.mark.parametrize("rank", [1, None])
def test_constant_features_and_one_positive_bag(rank):
    bags = Bags.from_list([np.ones((2, 3))] * 4)
    method = CitationKNN(rank=rank).fit(bags, [0, 0, 0, 1])
    assert method.predict(bags).tolist() == [0, 0, 0, 0]
