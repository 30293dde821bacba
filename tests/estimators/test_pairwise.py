"""A grid searched on shared tables: the accuracies of fitting every setting anew."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold

from pigmil import Bags, CitationKNN, MIGraph, MiGraph, MIKernel, MInD
from pigmil.estimators._pairwise import grid_accuracies

# The unit of length is given, since a search takes it from all the bags.
SEARCHES = [
    (MIKernel(length_unit=2.0), {"C": (0.1, 10.0), "gamma": (0.01, 1.0)}),
    (MiGraph(length_unit=1.0, class_weight="balanced"), {"C": (1.0, 100.0), "gamma": (0.1, 2.0)}),
    (MIGraph(length_unit=1.0), {"edge_gamma": (0.5, 2.0), "C": (1.0,)}),
    (MInD(pos_label=0), {"dissimilarity": ("hausdorff", "min-min"), "C": (1.0, 100.0)}),
    (CitationKNN(), {"rank": (1, 2, None), "n_references": (1, 3), "n_citers": (0, 4)}),
]


def noisy_bags(seed=0, n_bags=30):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 6)), 3)) for _ in range(n_bags)]
    for part in parts[1::2]:
        part[0] += 1.0
    return Bags.from_list(parts, y=np.arange(n_bags) % 2)


@pytest.mark.parametrize(("method", "grid"), SEARCHES, ids=lambda x: str(x)[:24])
def test_shared_tables_give_the_accuracies_of_separate_fits(method, grid):
    bags = noisy_bags()
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(bags.y, bags.y))
    found = grid_accuracies(method, bags, bags.y, grid, splits)
    assert len(found) == len(ParameterGrid(grid))
    for setting, accuracy in found:
        fits = [
            clone(method).set_params(**setting).fit(bags[train]).score(bags[test], bags.y[test])
            for train, test in splits
        ]
        assert accuracy == pytest.approx(np.mean(fits)), setting


def test_the_order_of_settings_is_that_of_the_grid_and_the_method_is_left_alone():
    bags = noisy_bags()
    method = CitationKNN(n_citers=2)
    everything = np.arange(bags.n_bags)
    grid = {"n_references": (3, 1), "rank": (None, 1)}
    found = grid_accuracies(method, bags, bags.y, grid, [(everything, everything)])
    assert [setting for setting, _ in found] == [
        {"rank": None, "n_references": 3},
        {"rank": None, "n_references": 1},
        {"rank": 1, "n_references": 3},
        {"rank": 1, "n_references": 1},
    ]
    assert method.get_params() == CitationKNN(n_citers=2).get_params()
    assert not hasattr(method, "classes_")
