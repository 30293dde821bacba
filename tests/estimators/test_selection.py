"""The folds a method chooses its settings on."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pigmil.estimators._selection import stratified_folds


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
