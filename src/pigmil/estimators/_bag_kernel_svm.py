"""Base class of MI-Kernel, miGraph and MIGraph: an SVM on a kernel between bags."""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from pigmil._core.segments import segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.estimators._pairwise import PairwiseBagClassifier, Scorer
from pigmil.estimators._svm_solvers import class_costs, fit_gram_svm
from pigmil.estimators.base import AcceptsWeights


class BagKernelSVM(AcceptsWeights, PairwiseBagClassifier):
    """SVM on a precomputed matrix of bags by bags.

    A subclass has the parameters ``C``, ``class_weight`` and ``length_unit`` and implements
    ``_describe`` and ``_gram``. Only the support bags and their descriptions are kept: a prediction
    computes the kernel with these bags only.
    """

    C: float
    class_weight: Any
    length_unit: str | float

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

    def _add_left_out(self, bags: Bags, kept: IntArray) -> None:
        super()._add_left_out(bags, kept)
        for model in getattr(self, "estimators_", [self]):
            model.support_ = kept[model.support_]

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
            costs=class_costs(
                self.class_weight, positive, self.classes_, self.positive_label_, weights
            ),
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
