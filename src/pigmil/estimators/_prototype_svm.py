"""Classify bags by their similarity to prototypes: embedding, linear SVM, calibration."""

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
# With more bags greater costs, which take long, are tried only until the accuracy falls.
_MANY_BAGS = 300

Split = tuple[IntArray, IntArray]  # bags to train on, and bags to test


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
    prototypes: IntArray,
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
    prototypes : array of int of shape (n_prototypes,)
        Flat indices of the instances that span the embedding. Those of held-out bags are left out
        of a fold: a bag is more similar to its own instances than an unseen bag can be.
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
    base = embed_bags(bags, bags.instances[prototypes], decays[0] / unit**2)
    trials = {}
    for value in decays:
        columns, centre, scale = _scaled(base ** (value / decays[0]), scaled)
        grams = _fold_grams(columns, bags.bag_index[prototypes], folds, scaled)
        if best_scores is not None:
            column, *_ = _scaled(best_scores[:, None])
            grams = [gram + column @ column.T for gram in grams]
        most = 0
        for c in cs:
            trials[value, c] = _held_out(grams, positive, folds, c, costs)
            n_right = int(((trials[value, c] > 0) == positive).sum())
            if n_right < most and len(positive) > _MANY_BAGS:
                break
            most = max(most, n_right)

    # The first of the best: the smaller decay, the smaller cost.
    settings = sorted(trials)
    selection = choose_setting(np.array([trials[setting] for setting in settings]), positive)
    best_decay, best_c = settings[selection.index]
    columns, centre, scale = _scaled(base ** (best_decay / decays[0]), scaled)
    gram = columns @ columns.T
    if best_scores is not None:
        column, *others = _scaled(best_scores[:, None])
        gram += column @ column.T
        columns = np.hstack([columns, column])
        centre, scale = np.append(centre, others[0]), np.append(scale, others[1])
    signed, intercept = fit_gram_svm(centred(gram), positive, C=best_c, costs=costs)
    weights = columns.T @ signed
    svm = LinearSVM(weights, intercept - float(weights @ columns.mean(axis=0)), np.abs(signed))
    return PrototypeSVM(
        bags.instances[prototypes],
        best_decay,
        unit,
        best_c,
        best_scores is not None,
        centre,
        scale,
        svm,
        logistic_slope(selection.values, positive),
    )


def _scaled(columns: FloatArray, scaled: bool = True) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return columns of mean 0 and equal spread; the squares of a bag add to 1 on average.

    Also return what was subtracted from them and what they were divided by, 0 and 1 if they are
    not to be scaled. Columns that are equal up to rounding become 0.
    """
    n_columns = columns.shape[1]
    if not scaled:
        return columns, np.zeros(n_columns), np.ones(n_columns)
    centre, spread = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(spread <= 1e-9, np.inf, spread * np.sqrt(n_columns))
    return (columns - centre) / scale, centre, scale


def _fold_grams(
    columns: FloatArray, prototype_bag: IntArray, folds: list[Split], scaled: bool
) -> list[FloatArray]:
    """Return, per fold, the inner products in the similarities to prototypes of other folds.

    Where a fold holds all prototypes, its inner products are in all of them. Every similarity
    enters one product only: those of a fold are subtracted from the sum over all.
    """
    total, n_columns = columns @ columns.T, columns.shape[1]
    grams = []
    for _, test in folds:
        inside = np.isin(prototype_bag, test)
        n_kept = n_columns - int(inside.sum())
        gram = total if n_kept == 0 else total - columns[:, inside] @ columns[:, inside].T
        # Scaled similarities are divided by the root of the number of columns.
        grams.append(gram * (n_columns / (n_kept or n_columns)) if scaled else gram)
    return grams


def _held_out(
    grams: list[FloatArray],
    positive: BoolArray,
    folds: list[Split],
    C: float,
    costs: tuple[float, float],
) -> FloatArray:
    """Return the decision value of every bag by an SVM trained without it."""
    decisions = np.empty(len(positive))
    for gram, (train, test) in zip(grams, folds, strict=True):
        signed, intercept = fit_gram_svm(
            gram[np.ix_(train, train)], positive[train], C=C, costs=costs
        )
        decisions[test] = gram[np.ix_(test, train)] @ signed + intercept
    return decisions
