"""Methods that only need tables of bags by bags: SVMs on kernels, and a fast grid search."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from pigmil._core.segments import segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.estimators._parameters import with_parameters
from pigmil.estimators._svm_solvers import fit_gram_svm
from pigmil.estimators.base import AcceptsWeights, MILClassifier

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


@with_parameters
class BagKernelSVM(AcceptsWeights, PairwiseBagClassifier):
    """SVM on a precomputed matrix of bags by bags.

    A subclass implements ``_describe`` and ``_gram``. Only the support bags and their descriptions
    are kept: a prediction computes the kernel with these bags only.
    """

    C: float = 10.0
    gamma: float = 1.0
    length_unit: str | float = "auto"
    class_weight: Any = None

    _accepts_sparse = True
    # Whether ``_describe`` gives one row per bag, or one per instance.
    _describes_bags: ClassVar[bool] = True

    @abstractmethod
    def _describe(self, bags: Bags) -> FloatArray:
        """Return what the kernel needs to know of each single bag (or instance)."""

    @abstractmethod
    def _gram(
        self, queries: Bags, described: FloatArray, references: Bags | None, known: FloatArray
    ) -> FloatArray:
        """Return the kernel of queries with references, or of queries if there are none.

        ``described`` and ``known`` are the results of ``_describe`` for queries and references.
        """

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        described, gram = self._described_gram(bags, weights)
        signed, self.intercept_ = self._solve(gram, positive, weights)
        self.support_ = np.flatnonzero(signed)
        self.dual_coef_ = signed[self.support_]
        self.support_bags_: Bags = bags[self.support_]
        rows = (
            self.support_ if self._describes_bags else segment_gather(bags.offsets, self.support_)
        )
        self.support_description_ = described[rows]

    def _renumber(self, bags: Bags, kept: IntArray, rows: IntArray) -> None:
        self.support_ = kept[self.support_]

    def _described_gram(
        self, bags: Bags, weights: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        own = None if weights is None else np.repeat(weights, bags.sizes)
        self.length_unit_ = length_unit(bags.instances, self.length_unit, weights=own)
        described = self._describe(bags)
        return described, self._gram(bags, described, None, described)

    def _solve(
        self, gram: FloatArray, positive: BoolArray, weights: FloatArray | None = None
    ) -> tuple[FloatArray, float]:
        """Return the signed dual variable of every bag, and the intercept."""
        # If all bags are similar, kernel values differ in their last digits, which libsvm's single
        # precision would lose. Centring the kernel in feature space changes only the intercept,
        # because the dual coefficients sum to zero.
        means = gram.mean(axis=0)
        signed, intercept = fit_gram_svm(
            gram - means[:, None] - means + means.mean(),
            positive,
            C=self.C,
            costs=self._class_costs(positive, weights),
            weights=weights,
        )
        return signed, intercept - float(signed @ means)

    def _pairwise_tables(self, bags: Bags) -> FloatArray:
        return self._described_gram(bags)[1]

    def _fit_pairwise(self, tables: FloatArray, positive: BoolArray) -> Scorer:
        signed, intercept = self._solve(tables, positive)
        return lambda rows: rows @ signed + intercept

    def _score_bags(self, bags: Bags) -> FloatArray:
        described = self._describe(bags)
        gram = self._gram(bags, described, self.support_bags_, self.support_description_)
        return gram @ self.dual_coef_ + self.intercept_


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
