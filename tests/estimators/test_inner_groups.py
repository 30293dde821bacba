"""Bags of one group stay in one inner fold of the methods that choose by held-out bags."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from pigmil import SIL, Bags
from pigmil.estimators import _selection, all_estimators, get_estimator
from pigmil.estimators._selection import FOLD_GROUP, grouped_folds, inner_folds
from pigmil.evaluation._cells import Entry, compute_cell
from pigmil.evaluation._splits import bag_groups, bag_splits

pytestmark = pytest.mark.filterwarnings("ignore")


def patients(seed=0, n_patients=12, per_patient=3):
    """Return bags of patients of one label each, and the patient of each bag."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), per_patient)
    y = patient % 2
    parts = [rng.normal(label, 1.0, size=(3, 2)) for label in y]
    names = np.array([f"p{number}" for number in patient])
    return Bags.from_list(parts, y=y, bag_info={"patient": names})


def test_groups_are_dealt_by_hand():
    """Sizes 3, 2, 1, 1, 1, 1: the first two of a class to different folds, the rest to the least.

    Positive bags: a has 3, c and e one each; negative: b has 2, d and f one each. Two folds: a to
    the first; b to the second, which is empty; c (positive) to the second; d (negative) to the
    first, which has no negative bag; e to the second, with 1 of 5 positive bags against 3; f to the
    first, with 1 of 4 negative bags against 2.
    """
    groups = list("aaabbcdef")
    positive = np.array([True] * 3 + [False] * 2 + [True, False, True, False])
    folds = grouped_folds(positive, groups, 2, order=np.arange(9))
    held_out = ["".join(sorted({groups[at] for at in np.flatnonzero(fold)})) for fold in folds]
    assert held_out == ["adf", "bce"]


@pytest.mark.parametrize("seed", range(40))
def test_no_group_is_split_and_every_fold_has_both_classes(seed):
    rng = np.random.default_rng(seed)
    n_bags = int(rng.integers(4, 40))
    groups = rng.integers(0, int(rng.integers(2, 20)), size=n_bags)
    positive = rng.random(n_bags) < 0.5 if seed % 2 else groups % 2 == 0
    folds = grouped_folds(positive, groups, 5, order=rng.permutation(n_bags))
    if not folds:
        # There is one group that holds a whole class, or mixed groups that leave no choice.
        assert len(set(groups[positive])) < 2 or len(set(groups[~positive])) < 2 or seed % 2
        return
    assert 2 <= len(folds) <= 5
    np.testing.assert_array_equal(np.sum(folds, axis=0), 1)
    for fold in folds:
        assert not set(groups[fold]) & set(groups[~fold])
        assert set(positive[fold]) == {False, True}


def test_folds_of_groups_do_not_depend_on_the_order_of_bags():
    bags = patients()
    bags = bags.with_info(bag_info={FOLD_GROUP: bags.bag_info["patient"]})
    order = np.random.default_rng(1).permutation(bags.n_bags)
    first = np.array(inner_folds(bags, bags.y == 1))
    second = np.array(inner_folds(bags[order], bags.y[order] == 1))
    np.testing.assert_array_equal(first[:, order], second)
    assert len(first) == 5


def forbid_folds_of_bags(monkeypatch, seen):
    """Let folds that know no groups fail, and note how many others were made."""

    def noted(*arguments, **options):
        folds = grouped_folds(*arguments, **options)
        seen.append(len(folds))
        return folds

    def refused(*arguments, **options):
        raise AssertionError("folds that know no groups")

    monkeypatch.setattr(_selection, "stratified_folds", refused)
    monkeypatch.setattr(_selection, "grouped_folds", noted)


CHOOSING = ["PIGMIL", "SoftPIGMIL", "MILD", "mi-Sim", "Clustering MIL"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [card.name for card in all_estimators()])
def test_methods_fitted_by_compare_keep_groups(name, monkeypatch):
    """Every method, with its own choices, as ``compare(groups=...)`` fits it."""
    bags, seen = patients(), []
    forbid_folds_of_bags(monkeypatch, seen)
    groups = bag_groups(bags, "patient")
    split = next(iter(bag_splits(bags, repeats=1, folds=2, groups=groups)))
    compute_cell(bags, split, Entry(get_estimator(name)()), groups=groups, tune=False, seed=0)
    assert bool(seen) or name not in CHOOSING


def test_probabilities_do_not_learn_from_twins():
    """Three equal bags per patient and labels at random: nothing can be predicted."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 2))
    y = rng.permutation(np.repeat([0, 1], 15))
    parts = [values[[number]] for number in range(30) for _ in range(3)]
    bags = Bags.from_list(parts, y=np.repeat(y, 3))
    method = SIL(KNeighborsClassifier(1), probability=True)
    sure = method.fit(bags).predict_proba(bags).max(axis=1).mean()
    groups = np.repeat(np.arange(30), 3)
    method.fit(bags.with_info(bag_info={FOLD_GROUP: groups}))
    unsure = method.predict_proba(bags).max(axis=1).mean()
    assert sure > 0.9
    assert unsure < 0.7
