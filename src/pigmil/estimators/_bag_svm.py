"""Bags classified by their similarity to prototypes: embedding, linear SVM, calibration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.model_selection import StratifiedKFold

from pigmil._core.segments import IntArray, segment_argmin
from pigmil.bags import Bags
from pigmil.distances import nearest_in_bags
from pigmil.embedding import embed_bags
from pigmil.estimators._linear_svm import LinearSVM, fit_gram_svm, fit_linear_svm
from pigmil.estimators.base import BoolArray, FloatArray

COSTS = (1.0, 10.0, 100.0, 1000.0)
DECAYS = (0.1, 0.3, 1.0, 3.0, 10.0)
_INNER_FOLDS = 5


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
        return (embedded - self.centre) / self.scale

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
            embedded, *_ = _scaled(base, value / decays[0], scaled, column)
            gram = embedded @ embedded.T
            for c in cs:
                held_out = _held_out(gram, positive, folds, c, costs)
                right = float(((held_out > 0) == positive).mean())
                if right > best[0]:
                    best = (right, value, c, column, held_out)
    _, best_decay, best_c, column, held_out = best
    embedded, centre, scale = _scaled(base, best_decay / decays[0], scaled, column)
    svm = fit_linear_svm(embedded, positive, C=best_c, costs=costs)
    slope = _slope(held_out, positive)
    uses_score = column is not None
    return BagSVM(prototypes, best_decay, unit, best_c, uses_score, centre, scale, svm, slope)


def _scaled(
    base: FloatArray, power: float, scaled: bool, best_scores: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Columns at another width, centred and scaled, with what they were reduced by."""
    n_bags, columns = base.shape
    # One array, filled and scaled in place: it may be the largest of the whole fit.
    embedded = np.empty((n_bags, columns + (best_scores is not None)))
    similarities = embedded[:, :columns]
    np.power(base, power, out=similarities)
    centre, scale = np.zeros(columns), np.ones(columns)
    if scaled:
        centre, scale = similarities.mean(axis=0), _spread(similarities) * np.sqrt(columns)
    if best_scores is not None:
        embedded[:, -1] = best_scores
        centre = np.append(centre, best_scores.mean())
        scale = np.append(scale, _spread(best_scores))
    embedded -= centre
    embedded /= scale
    return embedded, centre, scale


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
