"""Base of the classifiers whose instance score is linear in the features."""

from typing import Any, ClassVar

import numpy as np

from pigmil._core import state
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.estimators._logistic import StandardisedBlocks
from pigmil.estimators._selection import min_error_threshold
from pigmil.estimators._standardise import standardised
from pigmil.estimators.base import MaxInstanceClassifier
from pigmil.scale import LazyBags


class LinearScores(MaxInstanceClassifier):
    """Score instances by ``coef_ . (x - centre_) / spread_ + intercept_``; the best decides."""

    _accepts_sparse = True

    _state: ClassVar[dict[str, state.Field]] = {
        "centre_": state.Floats(shape=("features",)),
        "spread_": state.Number(positive=True),
        "coef_": state.Floats(shape=("features",)),
        "threshold_": state.Number(),
        "intercept_": state.Number(floating=True),
        "n_iter_": state.Number(integer=True),
    }

    def _set_linear(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        blocks: StandardisedBlocks,
        weights: tuple[FloatArray, float],
        costs: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """Set the fitted attributes; move the intercept so that 0 separates the best scores."""
        self.centre_, self.spread_ = blocks.centre, blocks.spread
        self.coef_, intercept = weights
        scores = blocks.scores(self.coef_, intercept)
        best = segment_reduce(np.maximum, scores, bags.offsets)
        self.threshold_ = min_error_threshold(best, positive, costs=costs)
        self.intercept_ = intercept - self.threshold_
        self._set_detection(bags, positive, scores - self.threshold_)

    def _score_instances(self, bags: Bags) -> FloatArray:
        instances: Any = standardised(bags.instances, self.centre_, self.spread_)
        return np.asarray(instances @ self.coef_ + self.intercept_, dtype=np.float64)
