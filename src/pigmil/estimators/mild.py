"""MILD: find the instance of each positive bag that best separates bags by a radius around it."""

import itertools
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_argmax, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags, length_unit, nearest_in_bags
from pigmil.estimators._parameters import POSITIVE_OR_CV, Card, with_parameters
from pigmil.estimators._selection import inner_folds, min_error_threshold, select_by_cv
from pigmil.estimators._svm_solvers import fit_svm
from pigmil.estimators.base import MILClassifier

COSTS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.3, 1.0)
# With more bags the 40 SVMs of the choice take too long, and a large cost does little harm.
_MOST_BAGS = 2000


def best_precision(
    squared: NDArray[Any], positive: BoolArray
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Count the training bags that the best threshold of every instance labels correctly.

    A bag is called positive when its squared distance is at most the threshold. Thresholds are
    the finite distances themselves; the smallest of the best ones is returned.

    Parameters
    ----------
    squared : array of shape (n_rows, n_bags)
        Squared distance of each instance to the nearest instance of each bag.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Returns
    -------
    right : array of int of shape (n_rows,)
        Number of bags labelled correctly.
    threshold : array of shape (n_rows,)
        The squared distance used as threshold.

    Notes
    -----
    Cost: O(n_bags log n_bags) per instance.

    Examples
    --------
    >>> import numpy as np
    >>> right, threshold = best_precision(
    ...     np.array([[0.0, 1.0, 9.0, 4.0]]), np.array([True, True, False, False])
    ... )
    >>> int(right[0]), float(threshold[0])
    (4, 1.0)
    """
    order = np.argsort(squared, axis=1, kind="stable")
    distances = np.take_along_axis(squared, order, axis=1)
    signs = np.where(positive, 1, -1)
    right = np.cumsum(signs[order], axis=1) + int((~positive).sum())
    # A threshold includes all bags at its distance: only the last of equal ones counts.
    right[:, :-1][distances[:, :-1] == distances[:, 1:]] = -1
    right[np.isinf(distances)] = -1
    best = right.argmax(axis=1)
    rows = np.arange(len(squared))
    return right[rows, best], distances[rows, best]


@with_parameters
class MILD(MILClassifier):
    """MILD: disambiguation by empirical precision, then an SVM on instances or on bags.

    Implements Li and Yeung: for an instance x and a threshold, call a bag positive when its
    nearest instance is within the threshold of x; the empirical precision of x is the largest
    fraction of training bags labelled correctly, over all thresholds. The true positive of a
    positive bag is its instance of best empirical precision. At bag level every bag is described by
    its similarity to each true positive; at instance level the true positives are trained against
    all negative instances and the best instance decides for its bag.

    Departs from the paper: the bag of an instance is left out of its empirical precision, so that
    training and new instances are scored in the same way; of instances with equal precision the one
    with the smaller threshold is taken (the paper gives no rule); the kernel width is measured in a
    unit of length; the semi-supervised extension is left out; cost and width may be chosen by
    cross-validation over the training bags, which searches the true positives without the
    held-out bags.

    Parameters
    ----------
    level : {"bag", "instance"}, default="bag"
        Whether bags or instances are classified.
    C : float or "cv", default="cv"
        Cost of the hinge loss; ``"cv"`` chooses among 0.1, 1, 10 and 100 by the accuracy in
        stratified 5-fold cross-validation, on a tie the smallest.
    gamma : float or "cv", default="cv"
        Width of the similarity of bags, whose SVM is linear, and of the RBF kernel on instances,
        per squared unit of length; ``"cv"`` chooses 0.3 or 1 likewise.
    {length_unit}
    class_weight : None, "balanced" or dict, default="balanced"
        Cost factors of the classes. At instance level there are many negatives for each positive.
    {probability}
    {pos_label}

    Attributes
    ----------
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the true positive of each positive training bag.
    true_positives_ : array or CSR of shape (n_positive_bags, n_features)
        The true positives themselves.
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance. At bag level the empirical precision over the other bags,
        less a tie-break (smaller than the step of one bag) and ``precision_threshold_``; new
        instances are scored over all training bags. At instance level the value of the SVM.
    precision_threshold_ : float
        Empirical precision above which an instance is called positive: that with fewest errors
        when each training bag has the score of its best instance.
    svm_ : LinearSVM or KernelSVM
        The classifier.
    C_, gamma_ : float
        The cost and the width that were used.
    training_bags_ : Bags
        Kept to score new instances, with ``training_positive_``.
    {length_unit_}

    Notes
    -----
    The choice of cost and width matters most on few bags, which a large cost overfits. Bags are
    assigned to folds by their content, without randomness. If a class has only one bag, or if
    there are more than 2000 bags, "cv" means C 10 and gamma 1.

    Cost: O(n_instances (n_instances n_features + n_bags log n_bags)), in blocks, and an SVM of
    bags or of negative instances. The choice adds the distances to 5 times as many true positives
    and 40 SVMs.

    When to use: Positives that form one cluster which most positive bags share.

    Defaults: C and gamma are chosen by cross-validation over the training bags; that rule was
    compared with others on other splits of the benchmark sets.

    References
    ----------
    Li, Yeung: MILD: multiple-instance learning via disambiguation, IEEE Transactions on Knowledge
    and Data Engineering 22 (2010).

    Examples
    --------
    >>> from pigmil import MILD
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> MILD().fit(bags).score(bags, bags.y)
    1.0
    """

    level: str = "bag"
    C: float | str = "cv"
    gamma: float | str = "cv"
    length_unit: str | float = "auto"
    class_weight: Any = "balanced"

    _accepts_sparse = True
    card = Card("MILD", "Multiple-instance learning via disambiguation")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "level": [StrOptions({"bag", "instance"})],
        "C": POSITIVE_OR_CV,
        "gamma": POSITIVE_OR_CV,
    }

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        self.length_unit_ = length_unit(bags.instances, self.length_unit)
        self.training_bags_, self.training_positive_ = bags, positive
        choose = "cv" in (self.C, self.gamma) and bags.n_bags <= _MOST_BAGS
        folds = inner_folds(bags, positive) if choose else []
        everything = np.full(bags.n_bags, True)
        # One column for all bags, and one for the bags that each fold trains on.
        scores = self._precisions(
            bags.instances, [everything, *(~fold for fold in folds)], bags.bag_index
        )
        best = segment_argmax(scores[:, 0], bags.offsets)
        self.true_positives_ = bags.instances[best[positive]]
        self.precision_threshold_ = min_error_threshold(scores[best, 0], positive)
        self.C_, self.gamma_ = self._choose(bags, positive, folds, scores[:, 1:])
        rows, labels = self._training_rows(bags, positive, self.true_positives_, self.gamma_)
        self.svm_: Any = self._fit_svm(rows, labels, self.C_, self.gamma_)
        if self.level == "bag":
            self._set_detection(bags, positive, scores[:, 0] - self.precision_threshold_)
        else:
            self._set_detection(bags, positive, self._score_instances(bags))

    def _precisions(
        self, instances: Any, kept: list[BoolArray], owner: IntArray | None = None
    ) -> FloatArray:
        """Return the empirical precision over some training bags, one column per set of bags.

        ``owner`` is the training bag of each instance, which is left out. The precision is reduced
        by up to half the step of one bag for a large threshold.
        """
        scores = np.empty((instances.shape[0], len(kept)))
        for rows, squared in nearest_in_bags(instances, self.training_bags_):
            counts_own = np.zeros(len(squared), dtype=bool)
            if owner is not None:
                # At infinite distance the own bag is called negative for any threshold.
                squared[np.arange(len(squared)), owner[rows]] = np.inf
                counts_own = ~self.training_positive_[owner[rows]]
            for column, bags in enumerate(kept):
                right, threshold = best_precision(squared[:, bags], self.training_positive_[bags])
                wide = threshold / (threshold + self.length_unit_**2)
                is_own = np.zeros(len(squared), dtype=bool) if owner is None else bags[owner[rows]]
                n_bags = np.maximum(1, bags.sum() - is_own)
                scores[rows, column] = (right - (counts_own & is_own) - 0.5 * wide) / n_bags
        return scores

    def _choose(
        self, bags: Bags, positive: BoolArray, folds: list[BoolArray], scores: FloatArray
    ) -> tuple[float, float]:
        """Return the cost and the width with most held-out bags correct."""
        costs = COSTS if self.C == "cv" else (float(self.C),)
        widths = WIDTHS if self.gamma == "cv" else (float(self.gamma),)
        if not folds:
            return (10.0 if self.C == "cv" else costs[0], 1.0 if self.gamma == "cv" else widths[0])
        settings = list(itertools.product(costs, widths))
        fold_of = np.argmax(folds, axis=0)

        def score_held_out(train: IntArray, test: IntArray) -> list[FloatArray]:
            precision = scores[:, fold_of[test[0]]]
            best = segment_argmax(precision, bags.offsets)[train]
            prototypes = bags.instances[best[positive[train]]]
            held_out = bags[test]
            values = {}
            for width in widths:
                rows, labels = self._training_rows(bags[train], positive[train], prototypes, width)
                unseen = self._described(held_out, prototypes, width)
                for cost in costs:
                    svm = self._fit_svm(rows, labels, cost, width)
                    values[cost, width] = self._bag_values(svm, unseen, held_out)
            return [values[setting] for setting in settings]

        return settings[select_by_cv(score_held_out, positive, folds).index]

    def _training_rows(
        self, bags: Bags, positive: BoolArray, prototypes: Any, gamma: float
    ) -> tuple[Any, BoolArray]:
        if self.level == "bag":
            return self._described(bags, prototypes, gamma), positive
        parts = [prototypes, bags[~positive].instances]
        rows = sp.vstack(parts, format="csr") if bags.is_sparse else np.concatenate(parts)
        return rows, np.arange(rows.shape[0]) < parts[0].shape[0]

    def _described(self, bags: Bags, prototypes: Any, gamma: float) -> Any:
        """Return the rows the SVM sees: similarities of bags to the prototypes, or instances."""
        if self.level == "instance":
            return bags.instances
        return embed_bags(bags, prototypes, gamma / self.length_unit_**2)

    def _fit_svm(self, rows: Any, labels: BoolArray, C: float, gamma: float) -> Any:
        width = gamma / self.length_unit_**2 if self.level == "instance" else None
        return fit_svm(rows, labels, width, C=C, costs=self._class_costs(labels))

    def _bag_values(self, svm: Any, rows: Any, bags: Bags) -> FloatArray:
        values: FloatArray = svm.decide(rows)
        if self.level == "bag":
            return values
        return segment_reduce(np.maximum, values, bags.offsets)

    def _score_bags(self, bags: Bags) -> FloatArray:
        rows = self._described(bags, self.true_positives_, self.gamma_)
        return self._bag_values(self.svm_, rows, bags)

    def _score_instances(self, bags: Bags) -> FloatArray:
        if self.level == "instance":
            return self.svm_.decide(bags.instances)
        everything = np.full(self.training_bags_.n_bags, True)
        return self._precisions(bags.instances, [everything])[:, 0] - self.precision_threshold_
