"""Base of the classifiers whose instance score is linear in the features."""

import numpy as np

from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.estimators._logistic import StandardisedBlocks
from pigmil.estimators._selection import min_error_threshold
from pigmil.estimators._standardise import linear_scores
from pigmil.estimators.base import AcceptsWeights, MaxInstanceClassifier
from pigmil.scale import LazyBags


class LinearScores(AcceptsWeights, MaxInstanceClassifier):
    """Score instances by ``coef_ . (x - centre_) / spread_ + intercept_``; the best decides."""

    _accepts_sparse = True

    def _set_linear(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        blocks: StandardisedBlocks,
        linear: tuple[FloatArray, float],
        costs: tuple[float, float] = (1.0, 1.0),
        weights: FloatArray | None = None,
    ) -> None:
        """Set the fitted attributes; move the intercept so that 0 separates the best scores."""
        self.centre_, self.spread_ = blocks.centre, blocks.spread
        self.coef_, intercept = linear
        scores = blocks.scores(self.coef_, intercept)
        best = segment_reduce(np.maximum, scores, bags.offsets)
        self.threshold_ = min_error_threshold(best, positive, costs=costs, weights=weights)
        self.intercept_ = intercept - self.threshold_
        self._set_detection(bags, positive, scores - self.threshold_)

    def _score_instances(self, bags: Bags) -> FloatArray:
        return linear_scores(
            bags.instances, self.centre_, self.spread_, self.coef_, self.intercept_
        )
