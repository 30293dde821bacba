"""Methods that see bags only through tables of bags by bags, and the quick search this allows."""

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


class BagTables(MILClassifier):
    """A method whose every step needs no more of the bags than one or a few tables of bags by bags.

    A subclass writes ``_training_tables`` and ``_learn`` and names in ``_table_parameters`` what
    the tables depend on: settings that differ in other parameters share their tables.
    """

    _table_parameters: ClassVar[frozenset[str]]

    @abstractmethod
    def _training_tables(self, bags: Bags) -> FloatArray:
        """Tables of the training bags with each other, of shape (..., n_bags, n_bags)."""

    @abstractmethod
    def _learn(self, tables: FloatArray, positive: BoolArray) -> Scorer:
        """Learn from the tables of some bags.

        Gives the function from the tables of any bags (rows) with these (columns) to the decision
        values of the rows.
        """


def grid_accuracies(
    method: BagTables,
    bags: Bags,
    y: Any,
    grid: Mapping[str, Sequence[Any]],
    splits: Iterable[tuple[IntArray, IntArray]],
) -> list[tuple[dict[str, Any], float]]:
    """Mean accuracy of every setting of a grid over splits of the bags, each table made once.

    Parameters
    ----------
    method : BagTables
        The method, not fitted; it is not changed.
    bags : Bags
        All the bags; units of length are taken from all of them.
    y : array of shape (n_bags,)
        Their labels.
    grid : mapping of str to sequence
        Values of each parameter.
    splits : iterable of (array of int, array of int)
        Bags to learn from and bags to be judged on.

    Returns
    -------
    list of (dict, float)
        Settings in the order of :class:`~sklearn.model_selection.ParameterGrid` over the
        parameters of the tables, then over the others, each with its accuracy.

    Notes
    -----
    Cost: the tables of all bags once for every value they depend on, where a search that fits
    anew makes them for every value and split; then what is learnt from them.
    """
    of_tables = {key: values for key, values in grid.items() if key in method._table_parameters}
    others = {key: values for key, values in grid.items() if key not in of_tables}
    splits = list(splits)
    found = []
    for shared in ParameterGrid(of_tables):
        one = clone(method).set_params(**shared)
        positive = one._check_y(y, bags) == one._positive_label()
        tables = one._training_tables(bags)
        for rest in ParameterGrid(others):
            one.set_params(**rest)
            right = [_share_right(one, tables, positive, *split) for split in splits]
            found.append(({**shared, **rest}, float(np.mean(right))))
    return found


def _share_right(
    method: BagTables, tables: FloatArray, positive: BoolArray, train: IntArray, test: IntArray
) -> float:
    score = method._learn(tables[..., train[:, None], train], positive[train])
    called = score(tables[..., test[:, None], train]) > 0
    return float(np.mean(called == positive[test]))
