"""Methods that only need tables of bags by bags, and a fast grid search for them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators.base import MILClassifier

Scorer = Callable[[FloatArray], FloatArray]


class PairwiseBagClassifier(MILClassifier):
    """Base class of the methods that only need tables of bags by bags.

    A subclass implements ``_pairwise_tables`` and ``_fit_pairwise`` and lists in
    ``_pairwise_parameters`` the parameters that the tables depend on: settings that differ only
    in other parameters share their tables.
    """

    _pairwise_parameters: ClassVar[frozenset[str]]

    @abstractmethod
    def _pairwise_tables(self, bags: Bags) -> FloatArray:
        """Return the tables of the training bags, of shape (..., n_bags, n_bags)."""

    @abstractmethod
    def _fit_pairwise(self, tables: FloatArray, positive: BoolArray) -> Scorer:
        """Fit on the tables of some bags.

        Returns the function from the tables of any bags (rows) with these (columns) to the
        decision values of the rows.
        """


def grid_accuracies(
    method: PairwiseBagClassifier,
    bags: Bags,
    y: Any,
    grid: Mapping[str, Sequence[Any]],
    splits: Iterable[tuple[IntArray, IntArray]],
) -> list[tuple[dict[str, Any], float]]:
    """Return the mean accuracy of every setting of a grid, computing each table only once.

    Parameters
    ----------
    method : PairwiseBagClassifier
        The method, not fitted; it is not changed.
    bags : Bags
        All bags; units of length are computed from all of them.
    y : array of shape (n_bags,)
        Their labels.
    grid : mapping of str to sequence
        Values of each parameter.
    splits : iterable of (array of int, array of int)
        Training and test bags.

    Returns
    -------
    list of (dict, float)
        Settings in the order of :class:`~sklearn.model_selection.ParameterGrid` over the
        parameters of the tables, then over the others, each with its accuracy.

    Notes
    -----
    Cost: the tables of all bags once per value they depend on, instead of once per value and
    split, and a fit on them per setting and split.
    """
    of_tables = {key: values for key, values in grid.items() if key in method._pairwise_parameters}
    others = {key: values for key, values in grid.items() if key not in of_tables}
    splits = list(splits)
    accuracies = []
    for shared in ParameterGrid(of_tables):
        one = clone(method).set_params(**shared)
        positive = one._check_y(y, bags) == one.positive_label_
        tables = one._pairwise_tables(bags)
        for rest in ParameterGrid(others):
            one.set_params(**rest)
            scores = [_split_accuracy(one, tables, positive, *split) for split in splits]
            accuracies.append(({**shared, **rest}, float(np.mean(scores))))
    return accuracies


def _split_accuracy(
    method: PairwiseBagClassifier,
    tables: FloatArray,
    positive: BoolArray,
    train: IntArray,
    test: IntArray,
) -> float:
    score = method._fit_pairwise(tables[..., train[:, None], train], positive[train])
    called = score(tables[..., test[:, None], train]) > 0
    return float(np.mean(called == positive[test]))
