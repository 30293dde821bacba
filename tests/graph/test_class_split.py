"""Densities by class: those without a fold equal those measured on the other bags alone."""

import numpy as np
import pytest

from pigmil.datasets import make_rhombus
from pigmil.graph import ClassSplit, working_score


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
    for literal in (False, True):
        for kind in ("supported", "density_ratio"):
            expected = working_score(
                split.positive.instances,
                split.negative,
                split.positive,
                kind=kind,
                own_bag=split.positive.bag_index,
                gamma=5.0,
                unit=1.5,
                literal=literal,
            )
            found = split.working_scores(1, kind=kind, literal=literal)
            np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_split_without_folds_says_so(bags):
    with pytest.raises(ValueError, match="has no folds; pass fold"):
        split_of(bags).without_fold(0)
