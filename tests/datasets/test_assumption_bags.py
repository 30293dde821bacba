"""The bags of the algorithmic unit tests hold what their definition says."""

import numpy as np
import pytest

from pigmil.datasets import ASSUMPTION_TESTS, make_assumption_bags


def near(bag, mean, std):
    """Which instances have a mean over features within six standard errors of a distribution's."""
    return np.abs(bag.mean(axis=1) - mean) < 6 * std / np.sqrt(bag.shape[1])


def split(bags):
    return [[bag for bag, label in zip(bags, bags.y, strict=True) if label == k] for k in (0, 1)]


@pytest.mark.parametrize("test", ASSUMPTION_TESTS)
def test_bags_are_reproducible_and_balanced(test):
    draws = [make_assumption_bags(test, 3, n_train_bags=11, n_test_bags=6) for _ in range(2)]
    for first, second in zip(*draws, strict=True):
        assert first.equals(second)
    train, tested = draws[0]
    assert train.y.tolist() == [0] * 6 + [1] * 5
    assert tested.y.tolist() == [0] * 3 + [1] * 3
    assert not train[:6].equals(make_assumption_bags(test, 4, n_train_bags=11)[0][:6])
    for bags in draws[0]:
        in_bag = np.maximum.reduceat(bags.instance_labels, bags.offsets[:-1])
        np.testing.assert_array_equal(in_bag, bags.y)


def test_single_concept_moves_poison_from_negative_to_positive_bags():
    train, test = make_assumption_bags("single_concept", 0, n_features=400)
    for bags, poisoned in ((train, 0), (test, 1)):
        for label, group in enumerate(split(bags)):
            assert {int(near(bag, -10, 0.1).sum()) for bag in group} == {int(label == poisoned)}
            wide = [(bag.std(axis=1) > 2).sum() for bag in group]
            assert set(map(int, wide)) == ({1, 2, 3} if label else {0})
            background = [(np.abs(bag.std(axis=1) - 1) < 0.5).sum() for bag in group]
            assert (min(background), max(background)) == (1, 4 if label else 9)


def test_multi_concept_has_both_concepts_in_positive_bags_only():
    train, test = make_assumption_bags("multi_concept", 0, n_features=400)
    for bags in (train, test):
        negative, positive = split(bags)
        counts = [[int(near(bag, mean, 0.1).sum()) for mean in (2, 3)] for bag in negative]
        assert sorted(map(tuple, {tuple(count) for count in counts})) == [(0, 1), (1, 0)]
        for mean in (2, 3):
            assert {int(near(bag, mean, 0.1).sum()) for bag in positive} == {1, 2, 3, 4}
    poison = [[near(bag, -10, 0.1).sum() for bag in group] for group in split(train)]
    assert min(poison[0]) == 1
    assert 0.02 <= np.mean(poison[1]) <= 0.25
    poison = [[near(bag, -10, 0.1).sum() for bag in group] for group in split(test)]
    assert max(poison[0]) == 0
    assert min(poison[1]) == 1


def test_false_frequency_repeats_one_concept_in_negative_test_bags():
    train, test = make_assumption_bags("false_frequency", 0, n_features=400)
    for bags, repeats in ((train, {1}), (test, set(range(35, 40)))):
        negative, positive = split(bags)
        for bag in positive:
            assert [int(near(bag, mean, 0.1).sum()) for mean in (-2, 2)] == [1, 1]
        counts = [sorted(int(near(bag, mean, 0.1).sum()) for mean in (-2, 2)) for bag in negative]
        assert {few for few, _ in counts} == {0}
        assert {many for _, many in counts} == repeats
