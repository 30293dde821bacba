"""Bags classified by their similarity to prototypes: embedding, linear SVM, calibration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.model_selection import StratifiedKFold

from pigmil._core.model_parts import model_part
from pigmil._core.segments import segment_argmin
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags, nearest_in_bags
from pigmil.estimators._svm_solvers import LinearSVM, centred, fit_gram_svm

COSTS = (1.0, 10.0, 100.0, 1000.0)
DECAYS = (0.1, 0.3, 1.0, 3.0, 10.0)
_INNER_FOLDS = 5
_BLOCK_COLUMNS = 1024


@model_part
@dataclass(frozen=True)
class BagSVM:
    """A linear SVM on the embedding of bags by prototypes (Eqs. 8 to 10 of the PIGMIL paper).

    Attributes
    ----------
    prototypes : array or CSR of shape (n_prototypes, n_features)
        Instances that span the embedding.
    decay : float
        Kernel width, per squared unit of length.
    unit : float
        Unit of length.
    C : float
        Cost of the SVM.
    uses_score : bool
        Whether the best instance score is a column.
    centre, scale : array of shape (n_columns,)
        What the columns are reduced by and divided by before the SVM; 0 and 1 if they are left
        as they are. Columns are the similarities and, if it is used, the best instance score.
    svm : LinearSVM
        The fitted SVM.
    slope : float
        ``P(positive) = 1 / (1 + exp(-slope * decision))``, fitted on held-out decisions.
    """

    prototypes: Any
    decay: float
    unit: float
    C: float
    uses_score: bool
    centre: FloatArray
    scale: FloatArray
    svm: LinearSVM
    slope: float

    def embed(self, bags: Bags, best_scores: FloatArray | None = None) -> FloatArray:
        """Similarity of every bag to every prototype and its best score, scaled as in training."""
        embedded = embed_bags(bags, self.prototypes, self.decay / self.unit**2)
        if self.uses_score:
            embedded = np.column_stack([embedded, np.asarray(best_scores)])
        embedded -= self.centre
        embedded /= self.scale
        return embedded

    def decide(self, bags: Bags, best_scores: FloatArray | None = None) -> FloatArray:
        """Decision value of every bag."""
        return self.svm.decide(self.embed(bags, best_scores))


def fit_bag_svm(
    bags: Bags,
    positive: BoolArray,
    prototypes: Any,
    *,
    C: float | str,
    decay: float | str,
    unit: float,
    scaled: bool,
    best_scores: FloatArray,
    score_column: bool | str,
    costs: tuple[float, float],
    random_state: Any,
) -> BagSVM:
    """Embed the bags, choose what is asked to be chosen, and train.

    Parameters
    ----------
    bags : Bags
        Training bags.
    positive : array of bool of shape (n_bags,)
        Their classes.
    prototypes : array or CSR of shape (n_prototypes, n_features)
        Instances that span the embedding.
    C, decay : float or "cv"
        Cost and kernel width; ``"cv"`` chooses by stratified cross-validation over the training
        bags, the decay among ``DECAYS`` and C among ``COSTS``. Prototypes stay as they are inside
        it. Ties go to the smaller decay, then to the smaller cost.
    unit : float
        Unit of length.
    scaled : bool
        Bring every similarity to mean 0 and the same spread over the training bags, all together
        to unit length, so that a prototype far from most bags counts as much as a near one.
    best_scores : array of shape (n_bags,)
        Score of the best instance of every bag, a column beside the similarities that weighs as
        much as all of them together.
    score_column : bool or "cv"
        Whether that column is used; ``"cv"`` chooses it likewise.
    costs : (float, float)
        Factors on C of the negative and the positive class.
    random_state : int, RandomState instance or None
        For the folds.

    Returns
    -------
    BagSVM
    """
    decays = DECAYS if decay == "cv" else (float(decay),)
    cs = COSTS if C == "cv" else (float(C),)
    folds = _folds(positive, random_state)
    # One pass over the data: another width is a power of the same similarities.
    base = embed_bags(bags, prototypes, decays[0] / unit**2)
    columns: list[FloatArray | None] = [None, best_scores]
    if score_column != "cv":
        columns = [best_scores if score_column else None]
    best: tuple[float, float, float, Any, FloatArray] = (-1.0, 0.0, 0.0, None, np.empty(0))
    for column in columns:
        for value in decays:
            gram = _scaled_gram(base, value / decays[0], scaled, column)
            for c in cs:
                held_out = _held_out(gram, positive, folds, c, costs)
                right = float(((held_out > 0) == positive).mean())
                if right > best[0]:
                    best = (right, value, c, column, held_out)
    _, best_decay, best_c, column, held_out = best
    power = best_decay / decays[0]
    gram = _scaled_gram(base, power, scaled, column)
    signed, intercept = fit_gram_svm(centred(gram), positive, C=best_c, costs=costs)
    # Weights of the columns from those of the bags, the columns again in blocks.
    parts = [
        (block.T @ signed, block.mean(axis=0), centre, scale)
        for block, centre, scale in _scaled_blocks(base, power, scaled, column)
    ]
    weights, means, centre, scale = map(np.concatenate, zip(*parts, strict=True))
    svm = LinearSVM(weights, intercept - float(weights @ means), np.abs(signed))
    slope = _slope(held_out, positive)
    uses_score = column is not None
    return BagSVM(prototypes, best_decay, unit, best_c, uses_score, centre, scale, svm, slope)


def _scaled_blocks(
    base: FloatArray, power: float, scaled: bool, best_scores: FloatArray | None
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Columns at another width, centred and scaled, with what they were reduced and divided by.

    In blocks, the best scores last: all columns together may be the largest array of a whole fit.
    """
    n_columns = base.shape[1]
    for start in range(0, n_columns, _BLOCK_COLUMNS):
        block = base[:, start : start + _BLOCK_COLUMNS] ** power
        centre, scale = np.zeros(block.shape[1]), np.ones(block.shape[1])
        if scaled:
            centre, scale = block.mean(axis=0), _spread(block) * np.sqrt(n_columns)
            block -= centre
            block /= scale
        yield block, centre, scale
    if best_scores is not None:
        column = best_scores[:, None]
        centre, scale = column.mean(axis=0), _spread(column)
        yield (column - centre) / scale, centre, scale


def _scaled_gram(
    base: FloatArray, power: float, scaled: bool, best_scores: FloatArray | None
) -> FloatArray:
    """Inner products of the bags in those columns."""
    gram = np.zeros((base.shape[0], base.shape[0]))
    for block, *_ in _scaled_blocks(base, power, scaled, best_scores):
        gram += block @ block.T
    return gram


def _spread(values: FloatArray) -> Any:
    """Standard deviation; infinite where values are all the same, whatever their rounding."""
    spread = np.asarray(values.std(axis=0))
    return np.where(spread <= 1e-9, np.inf, spread)


def hard_negatives(bags: Bags, positive: BoolArray, pool: Any) -> IntArray:
    """Flat index of the instance of each negative bag that is nearest to the pool.

    Parameters
    ----------
    bags : Bags
        Training bags.
    positive : array of bool of shape (n_bags,)
        Their classes.
    pool : array or CSR of shape (n_pool, n_features)
        Instances of the pool.

    Returns
    -------
    array of int of shape (n_negative_bags,)
    """
    target = Bags(pool, [0, pool.shape[0]], check_finite=False)
    squared = np.empty(bags.n_instances)
    for rows, block in nearest_in_bags(bags.instances, target):
        squared[rows] = block[:, 0]
    return segment_argmin(squared, bags.offsets)[~positive]


def _folds(positive: BoolArray, random_state: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    smallest = int(min(positive.sum(), (~positive).sum()))
    if smallest < 2:
        everything = np.arange(len(positive))
        return [(everything, everything)]  # too few bags to hold any out
    splitter = StratifiedKFold(min(_INNER_FOLDS, smallest), shuffle=True, random_state=random_state)
    return list(splitter.split(positive, positive))


def _held_out(
    gram: FloatArray,
    positive: BoolArray,
    folds: list[tuple[NDArray[Any], NDArray[Any]]],
    C: float,
    costs: tuple[float, float],
) -> FloatArray:
    """Decision value of every bag by an SVM that has not seen it."""
    decisions = np.empty(len(positive))
    for train, test in folds:
        signed, intercept = fit_gram_svm(
            gram[np.ix_(train, train)], positive[train], C=C, costs=costs
        )
        decisions[test] = gram[np.ix_(test, train)] @ signed + intercept
    return decisions


def _slope(decisions: FloatArray, positive: BoolArray) -> float:
    """Platt scaling without offset, so that probability 1/2 and decision 0 are the same bag."""
    sign = np.where(positive, 1.0, -1.0)
    scale = float(np.abs(decisions).max(initial=0.0)) or 1.0

    def loss(log_slope: float) -> float:
        return float(np.logaddexp(0.0, -np.exp(log_slope) * sign * decisions / scale).sum())

    found = minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded")
    return float(np.exp(found.x)) / scale
