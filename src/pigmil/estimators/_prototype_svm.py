"""Classify bags by their similarity to prototypes: embedding, linear SVM, calibration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags
from pigmil.estimators._selection import choose_setting, inner_splits, logistic_slope
from pigmil.estimators._svm_solvers import LinearSVM, centred, fit_gram_svm

COSTS = (1.0, 10.0, 100.0, 1000.0)
DECAYS = (0.1, 0.3, 1.0, 3.0, 10.0)
_BLOCK_COLUMNS = 1024
# With more bags greater costs, which take long, are tried only until the accuracy falls.
_MANY_BAGS = 300


@dataclass(frozen=True)
class PrototypeSVM:
    """A linear SVM on the embedding of bags by prototypes (Eqs. 9 to 11 of the PIGMIL paper).

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
        Whether the best instance score of a bag is a column beside its similarities.
    centre, scale : array of shape (n_columns,)
        Subtracted from the columns, and divisors of the columns, before the SVM; 0 and 1 for
        similarities that are not scaled. The score is the last column.
    svm : LinearSVM
        The fitted SVM.
    slope : float
        ``P(positive) = 1 / (1 + exp(-slope * decision))``, fitted on held-out decisions.
    inner_accuracy : float
        Share of held-out training bags that were classified correctly.
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
    inner_accuracy: float

    def embed(self, bags: Bags, best_scores: FloatArray | None) -> FloatArray:
        """Return the columns of every bag: similarities and best score, scaled as in training."""
        embedded = embed_bags(bags, self.prototypes, self.decay / self.unit**2)
        if best_scores is not None:
            embedded = np.column_stack([embedded, best_scores])
        embedded -= self.centre
        embedded /= self.scale
        return embedded

    def decide(self, bags: Bags, best_scores: FloatArray | None) -> FloatArray:
        """Return the decision value of every bag."""
        return self.svm.decide(self.embed(bags, best_scores))


def fit_prototype_svm(
    bags: Bags,
    positive: BoolArray,
    prototypes: Any,
    prototype_bag: IntArray,
    *,
    C: float | str,
    decay: float | str,
    unit: float,
    scaled: bool,
    best_scores: FloatArray | None,
    costs: tuple[float, float],
) -> PrototypeSVM:
    """Embed the bags, choose width and cost where asked, and train the SVM.

    Parameters
    ----------
    bags : Bags
        Training bags.
    positive : array of bool of shape (n_bags,)
        Their classes.
    prototypes : array or CSR of shape (n_prototypes, n_features)
        Instances that span the embedding.
    prototype_bag : array of int of shape (n_prototypes,)
        Training bag each comes from. Prototypes of held-out bags are left out of a fold: a bag is
        more similar to its own instances than an unseen bag can be.
    C, decay : float or "cv"
        Cost and kernel width; ``"cv"`` chooses by stratified cross-validation over the training
        bags, the decay among ``DECAYS`` and C among ``COSTS``. Ties go to the smaller decay, then
        to the smaller cost. With more than 300 bags greater costs are tried until the accuracy
        falls.
    unit : float
        Unit of length.
    scaled : bool
        Centre every similarity and give it the same spread over the training bags, so that a
        prototype far from most bags counts as much as a near one.
    best_scores : array of shape (n_bags,), optional
        Score of the best instance of every bag: one more column, with the weight of all
        similarities together.
    costs : (float, float)
        Factors on C of the negative and the positive class.

    Returns
    -------
    PrototypeSVM
    """
    decays = DECAYS if decay == "cv" else (float(decay),)
    cs = COSTS if C == "cv" else (float(C),)
    folds = inner_splits(bags, positive)
    # One pass over the data: another width is a power of the same similarities.
    base = embed_bags(bags, prototypes, decays[0] / unit**2)
    trials = {}
    for value in decays:
        grams = _fold_grams(base, prototype_bag, folds, value / decays[0], scaled)
        if best_scores is not None:
            grams = [gram + _score_gram(best_scores) for gram in grams]
        bounded, most = True, 0
        for c in cs:
            # Where no multiplier reaches its bound, a greater cost changes nothing.
            if bounded:
                decisions, bounded = _held_out(grams, positive, folds, c, costs)
            trials[value, c] = decisions
            n_right = int(((decisions > 0) == positive).sum())
            if n_right < most and len(positive) > _MANY_BAGS:
                break
            most = max(most, n_right)

    # The first of the best: the smaller decay, the smaller cost.
    settings = sorted(trials)
    selection = choose_setting(np.array([trials[setting] for setting in settings]), positive)
    best_decay, best_c = settings[selection.index]
    accuracy = float(selection.correct[selection.index] / len(positive))
    power = best_decay / decays[0]
    gram = _scaled_gram(base, power, scaled)
    if best_scores is not None:
        gram += _score_gram(best_scores)
    signed, intercept = fit_gram_svm(centred(gram), positive, C=best_c, costs=costs)
    # The weights of the columns from those of the bags, again in blocks of columns.
    blocks = [
        (block.T @ signed, block.mean(axis=0), centre, scale)
        for block, centre, scale in _scaled_blocks(base, power, scaled, best_scores)
    ]
    weights, means, centre, scale = map(np.concatenate, zip(*blocks, strict=True))
    svm = LinearSVM(weights, intercept - float(weights @ means), np.abs(signed))
    slope = logistic_slope(selection.values, positive)
    columns = best_scores is not None, centre, scale
    return PrototypeSVM(prototypes, best_decay, unit, best_c, *columns, svm, slope, accuracy)


def _scaled_blocks(
    base: FloatArray, power: float, scaled: bool, best_scores: FloatArray | None = None
) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
    """Yield the columns at another width, scaled, with their centres and scales.

    In blocks, the best scores last: all columns together may be the largest array of a fit.
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
        yield _scaled_scores(best_scores)


def _scaled_gram(base: FloatArray, power: float, scaled: bool) -> FloatArray:
    """Return the inner products of the bags in the similarities."""
    gram = np.zeros((base.shape[0], base.shape[0]))
    for block, *_ in _scaled_blocks(base, power, scaled):
        gram += block @ block.T
    return gram


def _fold_grams(
    base: FloatArray,
    prototype_bag: IntArray,
    folds: list[tuple[IntArray, IntArray]],
    power: float,
    scaled: bool,
) -> list[FloatArray]:
    """Return, per fold, the inner products in the similarities to prototypes of other folds.

    Where a fold holds all prototypes, its inner products are in all of them. Every similarity
    enters one product only: those of a fold are subtracted from the sum over all.
    """
    parts, counts = [], []
    for _, test in folds:
        inside = np.isin(prototype_bag, test)
        counts.append(int(inside.sum()))
        # Scaled similarities are divided by the root of the number of columns.
        factor = counts[-1] if scaled else 1
        parts.append(factor * _scaled_gram(base[:, inside], power, scaled))
    total, n_columns = np.sum(parts, axis=0), base.shape[1]
    grams = []
    for part, count in zip(parts, counts, strict=True):
        kept = total - part if count < n_columns else total
        n_kept = n_columns - count or n_columns
        grams.append(kept / n_kept if scaled else kept)
    return grams


def _score_gram(best_scores: FloatArray) -> FloatArray:
    """Return the inner products of the bags in the column of best scores."""
    column, _, _ = _scaled_scores(best_scores)
    gram: FloatArray = column @ column.T
    return gram


def _scaled_scores(best_scores: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    column = best_scores[:, None]
    centre, scale = column.mean(axis=0), _spread(column)
    return (column - centre) / scale, centre, scale


def _spread(values: FloatArray) -> Any:
    """Return the standard deviations; infinite where values are equal up to rounding."""
    spread = np.asarray(values.std(axis=0))
    return np.where(spread <= 1e-9, np.inf, spread)


def _held_out(
    grams: list[FloatArray],
    positive: BoolArray,
    folds: list[tuple[IntArray, IntArray]],
    C: float,
    costs: tuple[float, float],
) -> tuple[FloatArray, bool]:
    """Return the decision value of every bag by an SVM trained without it.

    Also return whether any multiplier of these SVMs reaches its bound.
    """
    decisions = np.empty(len(positive))
    bounds = (1 - 1e-9) * C * np.where(positive, costs[1], costs[0])
    bounded = False
    for gram, (train, test) in zip(grams, folds, strict=True):
        signed, intercept = fit_gram_svm(
            gram[np.ix_(train, train)], positive[train], C=C, costs=costs
        )
        decisions[test] = gram[np.ix_(test, train)] @ signed + intercept
        bounded = bounded or bool(np.any(np.abs(signed) >= bounds[train]))
    return decisions, bounded
