"""Initialisation against hand-worked numbers and twins written straight from the definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pigmil import Bags
from pigmil.datasets import make_rhombus
from pigmil.distances import log_density
from pigmil.exemplars import KernelExemplars
from pigmil.graph import ClassSplit
from pigmil.graph.candidates import (
    COPY_PENALTY,
    copy_penalty,
    initial_pool,
    t_values,
    working_bags,
    working_score,
    working_sets,
)


@st.composite
def some_bags(draw, min_bags=2):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    width = draw(st.sampled_from([1, 2, 30]))
    sizes = draw(st.lists(st.integers(1, 5), min_size=min_bags, max_size=6))
    return Bags.from_list([rng.normal(size=(size, width)) for size in sizes])


@given(some_bags())
def test_the_share_of_bags_with_a_copy_comes_with_the_density(bags):
    queries = np.vstack([bags.instances, bags.instances[:2] + 0.3])
    copies = np.full(len(queries), np.nan)
    log_density(queries, bags, unit=1.5, copies=copies)
    expected = [np.mean([any((row == x).all() for row in bag) for bag in bags]) for x in queries]
    np.testing.assert_allclose(copies, expected)


def test_a_copy_is_penalised_by_where_it_occurs():
    # In one of two negative bags; in none, one, two of four other positive bags; and no copy.
    found = copy_penalty(np.array([0.5, 0.5, 0.5, 0.0]), np.array([0.0, 0.25, 0.5, 0.5]))
    assert found.tolist() == [COPY_PENALTY, COPY_PENALTY / 2, 0.0, 0.0]


def test_working_scores_by_hand():
    negative = Bags.from_list([np.array([[0.0], [3.0]]), np.array([[2.0]])])
    # KDE_min: the nearest negatives of the two bags are at distance 1 and 1.
    scores = working_score(np.array([[1.0]]), negative, None, gamma=1.0)
    assert scores[0] == pytest.approx(math.exp(-1))
    negative = Bags.from_list([np.array([[0.0]])])
    positive = Bags.from_list([np.array([[4.0]]), np.array([[5.0]])])
    x, own = np.array([[4.0]]), np.array([0])
    # n = -4, and of the other positive bag p = -1.
    supported = working_score(x, negative, positive, own_bag=own, gamma=1.0, margin=2.0)
    assert supported[0] == pytest.approx(-4)  # support p - n = 3 exceeds the margin
    wanting = working_score(x, negative, positive, own_bag=own, gamma=1.0, margin=3.5, penalty=10)
    assert wanting[0] == pytest.approx(-4 + 10 * 0.5)


def test_a_copy_of_a_negative_only_is_last_and_a_lone_positive_bag_has_no_ratio():
    negative = Bags.from_list([np.array([[0.0], [1.0]])])
    positive = Bags.from_list([np.array([[1.0], [5.0]])])
    scores = working_score(
        positive.instances, negative, positive, own_bag=np.zeros(2, dtype=int), gamma=1.0
    )
    np.testing.assert_allclose(scores, [COPY_PENALTY, -4.0])


@pytest.mark.parametrize(("size", "expected"), [(1, 1), (2, 1), (3, 2), (5, 2), (8, 4), (10, 4)])
def test_a_working_set_is_the_ceiling_of_forty_per_cent(size, expected):
    assert working_sets(np.arange(size, dtype=float), np.array([0, size])).sum() == expected


def test_ties_within_rounding_are_kept():
    def marked(*scores):
        return working_sets(np.array(scores), np.array([0, len(scores)]), fraction=0.1).tolist()

    assert marked(0.1 + 0.2, 0.3, 0.7) == [True, True, False]
    assert marked(-0.1 - 0.2, -0.3, 0.7) == [True, True, False]
    assert marked(0.0, -0.0, 1e-300) == [True, True, False]
    assert marked(1.0, 1.0 + 1e-6, 2.0) == [True, False, False]


@given(some_bags(), st.floats(0.05, 1.0))
def test_working_sets_are_the_lowest_scores_of_each_bag(bags, fraction):
    scores = bags.instances[:, 0]
    mask = working_sets(scores, bags.offsets, fraction=fraction)
    for start, end in zip(bags.offsets[:-1], bags.offsets[1:], strict=True):
        inside, part = scores[start:end], mask[start:end]
        count = max(1, math.ceil(fraction * (end - start) - 1e-9))
        assert set(inside[part]) == set(sorted(inside)[:count])


@given(some_bags(min_bags=3))
def test_t_values_agree_with_scipy(bags):
    scores = bags.instances[:, 0]
    members = working_sets(scores, bags.offsets, fraction=0.8)
    found = t_values(scores, members, bags.offsets)
    for number in range(len(bags)):
        mine = scores[members & (bags.bag_index == number)]
        rest = scores[members & (bags.bag_index != number)]
        expected = stats.ttest_1samp(mine, rest.mean()).statistic if len(mine) > 1 else 0
        assert found[number] == pytest.approx(expected, rel=1e-6)


def test_a_bag_without_variance_or_with_one_value_is_kept():
    scores = np.array([5.0, 5.0, 9.0, 0.0, 0.1])
    t = t_values(scores, np.ones(5, dtype=bool), np.array([0, 2, 3, 5]))
    assert t[0] == 0
    assert t[1] == 0
    assert t[2] < 0


def test_worse_bags_are_dropped_but_never_all():
    assert working_bags(np.array([1.5, 1.6, -3.0])).tolist() == [True, False, True]
    assert working_bags(np.array([2.0, 3.0])).tolist() == [True, True]


def test_the_first_pool_is_the_lowest_score_of_each_working_bag():
    scores = np.array([2.0, 1.0, 5.0, 4.0, 0.0])
    pool = initial_pool(scores, np.array([0, 2, 4, 5]), np.array([True, False, True]))
    assert pool.tolist() == [1, 4]


@given(some_bags(min_bags=2))
def test_kernel_exemplars_are_the_log_ratio(bags):
    queries = bags.instances[:4] + 0.25
    exemplars = KernelExemplars(bags.instances[:2] + 1.0, bags, gamma=1.5, unit=2.0)
    against = log_density(queries, bags, gamma=1.5, unit=2.0)
    distances = np.linalg.norm(exemplars.exemplars[:, None] - queries, axis=2)
    found = exemplars.confidence(queries)
    np.testing.assert_allclose(found, -1.5 * distances / 2.0 - against, atol=1e-4)


# Densities by class: those without a fold equal those measured on the other bags alone.


@pytest.fixture(scope="module")
def bags():
    return make_rhombus(random_state=0, n_positive_bags=6, n_negative_bags=7)


def split_of(bags, fold=None, screen=False):
    how = {"decays": (1.0, 5.0), "unit": 1.5, "two_sided": True}
    return ClassSplit.from_bags(bags, bags.y == 1, fold=fold, screen=screen, **how)


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("screen", [False, True])
def test_without_a_fold_the_densities_are_those_of_the_other_bags(bags, number, screen):
    # In data as small as these the screen measures all instances of positive bags exactly.
    fold = np.arange(bags.n_bags) % 3
    found = split_of(bags, fold, screen).without_fold(number)
    others = np.flatnonzero(fold != number)
    expected = split_of(bags[others])
    inside = np.isin(bags.bag_index, others)
    assert found.positive.n_bags == expected.positive.n_bags
    np.testing.assert_array_equal(np.flatnonzero(inside)[expected.rows], found.rows)
    np.testing.assert_allclose(
        found.log_negative_density[:, inside],
        expected.log_negative_density,
        rtol=1e-9,
        atol=1e-4 if screen else 0,  # at instances of negative bags in single precision
    )
    np.testing.assert_allclose(found.log_positive_density, expected.log_positive_density, rtol=1e-9)


def test_working_scores_from_the_split_are_those_of_the_function(bags):
    split = split_of(bags)
    positive, own = split.positive, split.positive.bag_index
    expected = working_score(
        positive.instances, split.negative, positive, own_bag=own, gamma=5.0, unit=1.5
    )
    np.testing.assert_allclose(split.working_scores(1), expected, rtol=1e-9)


def test_a_split_without_folds_says_so(bags):
    with pytest.raises(ValueError, match="has no folds; pass fold"):
        split_of(bags).without_fold(0)
