"""The committee of SoftPIGMIL: models fitted on views, and their weighted sum."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.segments import offsets_of, segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._soft_forest import Forest
from pigmil.estimators._soft_predictor import Predictor
from pigmil.estimators._soft_steps import (
    Direction,
    WalkProblem,
    fit_noisy_or,
    walk,
)
from pigmil.estimators._soft_views import Scale, View, squared_distances

WIDE = 1024  # features from which instances stay sparse, and ranks and rotations are left out
_BLOCK_ROWS = 4096
_TOLERANCE = 1e-3  # of the shares of a pool
_NOISY_OR_STEPS = 20


@dataclass(frozen=True)
class ModelSettings:
    """Parameters of :class:`SoftPIGMIL` that its models share."""

    sharpness: float
    max_iter: int
    ridge: float


@dataclass(frozen=True)
class Fit:
    """One model on one view.

    Parameters
    ----------
    kind : {"walk", "noisy_or", "screening"}
    scores, held_out : array of shape (n_instances,)
        Scores of the model of all bags, and of the models without the fold of each bag.
    direction : Direction
        The model of all bags.
    apart : list of Direction
        The models without each fold,
    inner : list of arrays
        and their scores of the instances they were fitted on.
    traced : array of int
        The instances of which ``rounds`` holds shares and scores.
    rounds : list of (pool, scores)
        See :func:`~pigmil.estimators._soft_steps.walk`.
    """

    kind: str
    scores: FloatArray
    held_out: FloatArray
    direction: Direction
    apart: list[Direction]
    inner: list[NDArray[np.float32]]
    traced: IntArray
    rounds: list[tuple[FloatArray, FloatArray]]


def fit_model(
    kind: str,
    psi: NDArray[Any],
    offsets: IntArray,
    positive: BoolArray,
    folds: list[BoolArray],
    settings: ModelSettings,
) -> Fit:
    """Fit one model on all bags, and without each fold of bags to score that fold.

    Parameters
    ----------
    kind : {"walk", "noisy_or"}
    psi : array of shape (n_instances, n_directions)
        Whitened instances.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    folds : list of arrays of bool of shape (n_bags,)
        Which bags are held out together.
    settings : ModelSettings
    """
    scores, direction, traced, rounds = _fit_direction(kind, psi, offsets, positive, settings)
    held_out, apart, inner = np.full(len(psi), np.nan), [], []
    for fold in folds:
        kept = segment_gather(offsets, np.flatnonzero(~fold))
        away = segment_gather(offsets, np.flatnonzero(fold))
        starts = offsets_of(np.diff(offsets)[~fold])
        seen, along, _, _ = _fit_direction(kind, psi[kept], starts, positive[~fold], settings)
        held_out[away] = along.scores(psi[away])
        apart.append(along)
        inner.append(seen.astype(np.float32))
    return Fit(kind, scores, held_out, direction, apart, inner, traced, rounds)


def _fit_direction(
    kind: str,
    psi: NDArray[Any],
    offsets: IntArray,
    positive: BoolArray,
    settings: ModelSettings,
) -> tuple[FloatArray, Direction, IntArray, list[tuple[FloatArray, FloatArray]]]:
    if kind == "noisy_or":
        direction = fit_noisy_or(
            psi, offsets, positive, ridge=settings.ridge, max_iter=_NOISY_OR_STEPS
        )
        return direction.scores(psi), direction, np.zeros(0, dtype=np.int64), []
    problem = WalkProblem(psi, offsets, positive)
    scores, direction, rounds = walk(
        problem, sharpness=settings.sharpness, max_iter=settings.max_iter, tol=_TOLERANCE
    )
    return scores, direction, problem.traced, rounds


@dataclass(frozen=True)
class ModelTrace:
    """How one model of :class:`SoftPIGMIL` came about.

    Parameters
    ----------
    scale, width, kind
        Its scale, the width of its kernel (None: linear), and ``"walk"``, ``"noisy_or"`` or
        ``"screening"``.
    auc : float
        Area under the ROC curve of the best instance scores of bags held out.
    stability : float
        Overlap of its pool with that of the models that were fitted without the bag.
    weight : float
        Share in the final score.
    instances : array of int
        Flat positions of the instances with shares in the pool of a walk: those of positive bags.
        Empty for other models.
    pools, scores : array of shape (n_rounds, n_instances)
        For every round the shares of these instances in the places of their bags, and the scores
        that followed; the next shares are the softmax of them.
    """

    scale: str
    width: float | None
    kind: str
    auc: float
    stability: float
    weight: float
    instances: IntArray
    pools: NDArray[np.float32]
    scores: NDArray[np.float32]


@dataclass(frozen=True)
class Committee:
    """The linear scores of all views that count, and a forest.

    Parameters
    ----------
    scales, landmarks : lists
        Each scale, and the landmarks on it.
    views, coefs : lists
        Each view, and the coefficients of its directions.
    intercept : float
        Added to the sum.
    forest : Forest or None
        Trees on standardized features,
    forest_scale : Scale or None
        the scale that does so,
    forest_gain : float
        and what the log-odds of the trees are multiplied by.
    """

    scales: list[Scale]
    landmarks: list[Any]
    views: list[View]
    coefs: list[FloatArray]
    intercept: float
    forest: Forest | None = None
    forest_scale: Scale | None = None
    forest_gain: float = 0.0

    def scores(self, instances: Any) -> FloatArray:
        """Return the score of every instance, in blocks of rows."""
        pairs = list(zip(self.views, self.coefs, strict=True))
        total = np.full(instances.shape[0], self.intercept)
        if instances.shape[1] <= WIDE:
            total += self._predictor.scores(instances)
            pairs = [
                (view, coef) for view, coef in pairs if self.scales[view.scale].has_more_columns
            ]
        if pairs or self.forest is not None:
            parts = [self._block(rows, pairs) for rows in row_blocks(instances)]
            total += np.concatenate(parts)
        return total

    @cached_property
    def _predictor(self) -> Predictor:
        pairs = zip(self.views, self.coefs, strict=True)
        plain = [pair for pair in pairs if not self.scales[pair[0].scale].has_more_columns]
        views, coefs = [view for view, _ in plain], [coef for _, coef in plain]
        return Predictor(self.scales, self.landmarks, views, coefs)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the compiled predictor."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _block(self, rows: Any, pairs: list[tuple[View, FloatArray]]) -> FloatArray:
        """Return what some views and the forest add to the scores of a block."""
        total = np.zeros(rows.shape[0])
        for number, (scale, landmarks) in enumerate(zip(self.scales, self.landmarks, strict=True)):
            mine = [(view, coef) for view, coef in pairs if view.scale == number]
            if not mine:
                continue
            scaled = scale.apply(rows)
            squared = None
            if any(view.width is not None for view, _ in mine):
                squared = squared_distances(scaled, landmarks)
            for view, coef in mine:
                features = view.features(scaled, landmarks, squared)
                weights = (view.projection @ coef).astype(features.dtype)
                total += features @ weights - view.shift @ coef
        if self.forest is not None and self.forest_scale is not None:
            total += self.forest_gain * self.forest.log_odds(self.forest_scale.apply(rows))
        return total


@dataclass(frozen=True)
class Models:
    """All models fitted on some instances.

    Parameters
    ----------
    scales, landmarks : lists
        Each scale, and the landmarks on it.
    fits : list of (View, Fit)
        Each model and its view.
    aucs, stabilities, weights : array of shape (n_models,)
        Held-out AUC (one half if no bag could be held out), stability and weight of each.
    """

    scales: list[Scale]
    landmarks: list[Any]
    fits: list[tuple[View, Fit]]
    aucs: FloatArray
    stabilities: FloatArray
    weights: FloatArray

    def scores(self, without_fold: int | None = None) -> FloatArray:
        """Return the weighted scores of the instances that the models were fitted on."""
        parts = [
            fit.scores if without_fold is None else fit.inner[without_fold] for _, fit in self.fits
        ]
        return np.asarray(self.weights @ np.array(parts), dtype=np.float64)

    def held_out(self) -> FloatArray:
        """Return the weighted scores of all instances by models without the fold of their bag.

        They are those of :meth:`scores` if there are no folds.
        """
        parts = [fit.held_out if fit.apart else fit.scores for _, fit in self.fits]
        return np.asarray(self.weights @ np.array(parts), dtype=np.float64)

    def committee(self, without_fold: int | None = None) -> Committee:
        """Add up the models of each view that have weight, those without a fold if one is given."""
        coefs: dict[int, FloatArray] = {}
        views: dict[int, View] = {}
        intercept = 0.0
        for (view, fit), weight in zip(self.fits, self.weights, strict=True):
            if weight > 0:
                direction = fit.direction if without_fold is None else fit.apart[without_fold]
                share = weight / direction.spread
                views[id(view)] = view
                coef = share * direction.coef.astype(np.float64)
                coefs[id(view)] = coefs.get(id(view), 0.0) + coef
                intercept -= share * direction.center
        parts = list(views.values()), list(coefs.values())
        return Committee(self.scales, self.landmarks, *parts, intercept)

    def scorer_apart(self, n_folds: int) -> Callable[[Bags, IntArray], FloatArray]:
        """Return a function of a block of bags and the fold of each.

        It scores the instances of each bag by the models that were fitted without its fold, or by
        all models if there are no folds.
        """
        committees = [self.committee(fold) for fold in range(n_folds)] or [self.committee()]

        def score(block: Bags, number: IntArray) -> FloatArray:
            scores = np.empty(block.n_instances)
            for fold in np.unique(number):
                rows = segment_gather(block.offsets, np.flatnonzero(number == fold))
                scores[rows] = committees[fold].scores(block.instances[rows])
            return scores

        return score

    def trace(self, chosen: IntArray) -> list[ModelTrace]:
        """Return how the models came about; ``chosen`` are the flat positions of the instances."""
        judged = zip(self.fits, self.aucs, self.stabilities, self.weights, strict=True)
        return [
            ModelTrace(
                scale=self.scales[view.scale].kind,
                width=view.width,
                kind=fit.kind,
                auc=float(auc),
                stability=float(stability),
                weight=float(weight),
                instances=chosen[fit.traced],
                pools=_stacked([pool for pool, _ in fit.rounds], len(fit.traced)),
                scores=_stacked([scores for _, scores in fit.rounds], len(fit.traced)),
            )
            for (view, fit), auc, stability, weight in judged
        ]


def _stacked(rounds: list[FloatArray], n_instances: int) -> NDArray[np.float32]:
    return np.array(rounds, dtype=np.float32).reshape(len(rounds), n_instances)


def row_blocks(instances: Any) -> Iterator[Any]:
    """Yield blocks of instances, dense ones unless they have very many features."""
    wide = instances.shape[1] > WIDE
    for start in range(0, instances.shape[0], _BLOCK_ROWS):
        rows = instances[start : start + _BLOCK_ROWS]
        yield rows if wide else dense_rows(rows)


def dense_rows(rows: Any) -> Any:
    """Return sparse instances as an array, and arrays as they are."""
    return rows.toarray() if sp.issparse(rows) else rows
