"""Methods that only need tables of bags by bags: SVMs on kernels, and a fast grid search."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.estimators._parameters import with_parameters
from pigmil.estimators._svm_solvers import fit_gram_svm
from pigmil.estimators.base import AcceptsWeights, MILClassifier

# Parameters that change nothing in a table: settings that differ only in these share one.
_AFTER_TABLES = {"C", "class_weight", "classifier", "n_references", "n_citers"}


class PairwiseBagClassifier(MILClassifier):
    """Base class of the methods that only need tables of bags by bags.

    A subclass implements the three hooks below. A table may have further axes before the two of
    the bags.
    """

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        self.training_bags_ = bags
        self._fit_tables(self._tables(bags, None, weights), positive, weights)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._score_tables(self._tables(bags, self.training_bags_))

    @abstractmethod
    def _tables(
        self, queries: Bags, references: Bags | None, weights: FloatArray | None = None
    ) -> FloatArray:
        """Return the tables of bags (rows) by references (columns).

        Without references the bags are those of the training, with their weights if there are
        some; a unit that all later tables use is then set.
        """

    @abstractmethod
    def _fit_tables(
        self, tables: FloatArray, positive: BoolArray, weights: FloatArray | None = None
    ) -> None:
        """Fit on the tables of the training bags by themselves."""

    @abstractmethod
    def _score_tables(self, tables: FloatArray) -> FloatArray:
        """Return the decision values of bags from their tables with the training bags."""


@with_parameters
class BagKernelSVM(PairwiseBagClassifier, AcceptsWeights):
    """SVM on a precomputed matrix of bags by bags.

    A subclass implements ``_describe`` and ``_gram``. Only the support bags are kept: a prediction
    computes the kernel with these bags only.
    """

    C: float = 10.0
    gamma: float = 1.0
    length_unit: str | float = "auto"
    class_weight: Any = None

    _accepts_sparse = True

    @property
    def _rate(self) -> float:
        """Decay of the Gaussian between instances, per squared distance."""
        return self.gamma / self.length_unit_**2

    @abstractmethod
    def _describe(self, bags: Bags) -> FloatArray:
        """Return what the kernel needs to know of each single bag or instance."""

    @abstractmethod
    def _gram(
        self, queries: Bags, references: Bags | None, left: FloatArray, right: FloatArray
    ) -> FloatArray:
        """Return the kernel of queries with references, or of queries if there are none.

        ``left`` and ``right`` are the results of ``_describe`` for rows and columns.
        """

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        super()._fit(bags, positive, weights)
        self.support_: IntArray = np.flatnonzero(self.dual_coef_)
        self.dual_coef_: FloatArray = self.dual_coef_[self.support_]
        self.training_bags_: Bags = bags[self.support_]

    def _renumber(self, bags: Bags, kept: IntArray, rows: IntArray) -> None:
        self.support_ = kept[self.support_]

    def _tables(
        self, queries: Bags, references: Bags | None, weights: FloatArray | None = None
    ) -> FloatArray:
        if references is None:
            own = None if weights is None else np.repeat(weights, queries.sizes)
            self.length_unit_ = length_unit(queries.instances, self.length_unit, weights=own)
        left = self._describe(queries)
        right = left if references is None else self._describe(references)
        return self._gram(queries, references, left, right)

    def _fit_tables(
        self, tables: FloatArray, positive: BoolArray, weights: FloatArray | None = None
    ) -> None:
        # If all bags are similar, kernel values differ in their last digits, which libsvm's single
        # precision would lose. Centring the kernel in feature space changes only the intercept,
        # because the dual coefficients sum to zero.
        means = tables.mean(axis=0)
        self.dual_coef_, intercept = fit_gram_svm(
            tables - means[:, None] - means + means.mean(),
            positive,
            C=self.C,
            costs=self._class_costs(positive, weights),
            weights=weights,
        )
        self.intercept_ = intercept - float(self.dual_coef_ @ means)

    def _score_tables(self, tables: FloatArray) -> FloatArray:
        return tables @ self.dual_coef_ + self.intercept_


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
    of_tables = {key: values for key, values in grid.items() if key not in _AFTER_TABLES}
    others = {key: values for key, values in grid.items() if key in _AFTER_TABLES}
    splits = list(splits)
    accuracies = []
    for shared in ParameterGrid(of_tables):
        model = clone(method).set_params(**shared)
        positive = model._check_y(y, bags) == model.positive_label_
        tables = model._tables(bags, None)
        for rest in ParameterGrid(others):
            model.set_params(**rest)
            right = []
            for train, test in splits:
                model._fit_tables(tables[..., train[:, None], train], positive[train])
                scores = model._score_tables(tables[..., test[:, None], train])
                right.append(np.mean((scores > 0) == positive[test]))
            accuracies.append(({**shared, **rest}, float(np.mean(right))))
    return accuracies
