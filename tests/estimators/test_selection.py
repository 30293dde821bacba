"""Folds over the training bags and the choice of a setting on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil.estimators._selection import select_by_cv, stratified_folds


@given(st.lists(st.booleans(), min_size=2, max_size=40), st.integers(2, 7))
def test_every_bag_is_held_out_once_and_classes_are_spread(labels, n_folds):
    positive = np.array(labels)
    folds = stratified_folds(positive, n_folds)
    smallest = min(positive.sum(), (~positive).sum())
    assert len(folds) == (min(n_folds, smallest) if smallest >= 2 else 0)
    if folds:
        np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
        for members in (positive, ~positive):
            counts = [(fold & members).sum() for fold in folds]
            assert max(counts) - min(counts) <= 1
            assert min(counts) >= 1


def test_bags_are_dealt_out_in_turn():
    folds = stratified_folds(np.array([1, 1, 0, 1, 0, 0, 1], dtype=bool), 2)
    # Positives 0, 1, 3, 6 and negatives 2, 4, 5 go to the first and the second fold in turn.
    assert [np.flatnonzero(fold).tolist() for fold in folds] == [[0, 2, 3, 5], [1, 4, 6]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("one_se", [False, True])
def test_first_setting_of_the_best_or_within_one_standard_error(seed, one_se):
    rng = np.random.default_rng(seed)
    positive = np.arange(30) % 2 == 1
    is_correct = rng.random((4, 30)) < np.array([0.5, 0.7, 0.8, 0.8])[:, None]
    values = np.where(is_correct == positive, 1.0, -1.0)
    folds = stratified_folds(positive)
    chosen = select_by_cv(lambda _, test: values[:, test], positive, folds, one_se=one_se)
    totals = is_correct.sum(axis=1)
    share = totals.max() / 30
    needed = totals.max() - (np.sqrt(30 * share * (1 - share)) if one_se else 0)
    assert chosen.index == next(i for i, total in enumerate(totals) if total >= needed)
    np.testing.assert_array_equal(chosen.values, values[chosen.index])


def test_training_bags_are_those_not_held_out_and_costs_count():
    positive = np.array([True, False, True, False, False])
    seen = []

    def score(train, test):
        seen.append((set(train.tolist()), set(test.tolist())))
        # One setting calls every bag positive, the other every bag negative.
        return [np.ones(len(test)), -np.ones(len(test))]

    folds = stratified_folds(positive)
    assert select_by_cv(score, positive, folds).index == 1
    assert select_by_cv(score, positive, folds, costs=(1.0, 2.0)).index == 0
    assert all(train | test == set(range(5)) and not train & test for train, test in seen)


def test_each_setting_may_have_its_own_threshold():
    positive = np.array([False, True] * 4)
    values = np.array([np.where(positive, 5.0, 3.0), np.where(positive, 1.0, 2.0)])
    chosen = select_by_cv(
        lambda _, test: values[:, test], positive, stratified_folds(positive), choose_threshold=True
    )
    assert (chosen.index, chosen.threshold) == (0, 4.0)
