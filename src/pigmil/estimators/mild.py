"""MILD: the instance of a positive bag that alone, with a radius, tells bags apart best."""

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC

from pigmil._core import state
from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_argmax, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags, length_unit, nearest_in_bags
from pigmil.estimators._parameters import CLASS_WEIGHT, LENGTH_UNIT, POS_LABEL, POSITIVE_OR_CV
from pigmil.estimators._selection import stratified_folds
from pigmil.estimators._svm_solvers import LinearSVM, class_costs, fit_linear_svm, for_libsvm
from pigmil.estimators.base import MILClassifier, bags_state
from pigmil.estimators.card import Card

COSTS = (0.1, 1.0, 10.0, 100.0)
WIDTHS = (0.3, 1.0)
# Forty SVMs of more bags than that take too long, and a large cost learns few bags by heart, not
# many.
_MOST_BAGS = 2000


def best_precision(
    squared: NDArray[Any], positive: BoolArray
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Most training bags that one threshold gets right, for every instance, in one sorted sweep.

    A bag is called positive when its squared distance is at most the threshold. Thresholds are
    the distances themselves; the smallest of the best ones is returned.

    Parameters
    ----------
    squared : array of shape (n_rows, n_bags)
        Squared distance of each instance to the nearest instance of each bag.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Returns
    -------
    right : array of int of shape (n_rows,)
        Number of bags labelled right.
    threshold : array of shape (n_rows,)
        The squared distance that does it.

    Notes
    -----
    Cost: O(n_bags log n_bags) an instance.

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
    # A threshold takes in all bags at its distance: only the last of equal ones counts.
    right[:, :-1][distances[:, :-1] == distances[:, 1:]] = -1
    best = right.argmax(axis=1)
    rows = np.arange(len(squared))
    return right[rows, best], distances[rows, best]


class MILD(MILClassifier):
    """MILD: disambiguation by empirical precision, then an SVM on instances or on bags.

    Implements Li and Yeung: for an instance x and a threshold, call a bag positive when its
    nearest instance is within the threshold of x; the empirical precision of x is the largest
    fraction of training bags labelled right, over all thresholds. The true positive of a positive
    bag is its instance of best empirical precision. At bag level every bag is described by its
    similarity to each true positive; at instance level the true positives are trained against
    all negative instances and a bag is worth its best instance.

    Departs from the paper: among instances of equal precision the one with the smaller threshold
    is taken, which does not depend on the order of the instances (the paper names no rule);
    the kernel width follows from a unit of length; the semi-supervised extension is left out;
    cost and width may be chosen by cross-validation over the training bags, in which the true
    positives are found again without the bags held out.

    Parameters
    ----------
    level : {"bag", "instance"}, default="bag"
        Which representation is classified.
    kernel : {"linear", "rbf"}, default="linear"
        Kernel of the SVM.
    C : float or "cv", default="cv"
        Cost of the hinge loss; ``"cv"`` takes that of 0.1, 1, 10 and 100 with most bags right in
        stratified 5-fold cross-validation, on a tie the smallest.
    gamma : float or "cv", default="cv"
        Width of the similarity of bags and of the RBF kernel on instances, per squared unit of
        length; ``"cv"`` chooses 0.3 or 1 likewise.
    length_unit : {"auto", "median"} or float, default="auto"
        See :func:`pigmil.distances.length_unit`.
    class_weight : None, "balanced" or dict, default="balanced"
        Cost factors of the classes. At instance level there are many negatives to a positive.
    pos_label : label, optional
        The positive class; the greater label if not given.

    Attributes
    ----------
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the true positive of each positive training bag.
    true_positives_ : array or CSR of shape (n_positive_bags, n_features)
        Those instances.
    instance_scores_ : array of shape (n_instances,)
        Empirical precision of each instance of the positive training bags, less the tie-break
        (below the step of one bag); NaN in negative bags.
    svm_ : LinearSVM or SVC
        The classifier.
    C_, gamma_ : float
        The cost and the width that were used.
    training_bags_ : Bags
        Kept to judge new instances, with ``training_positive_``.
    length_unit_ : float
        The unit that was used.

    Notes
    -----
    The choice of cost and width matters most on few bags: a large cost learns them by heart. Bags
    are dealt to the folds in their order, so that nothing is random; where a class has one bag
    only, or where there are more than 2000 bags, C is 10 and gamma 1.

    Cost: O(n_positive_instances (n_instances n_features + n_bags log n_bags)), in blocks, and an
    SVM of bags or of negative instances. The choice computes no distances between instances
    again but those to 5 times as many true positives; it adds 40 SVMs.

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

    _accepts_sparse = True
    card = Card(
        name="MILD",
        title="Multiple-instance learning via disambiguation",
        paper="Li, Yeung: MILD: multiple-instance learning via disambiguation, IEEE TKDE",
        year=2010,
        detects=True,
        classifies=True,
        cost="O(N+ (N d + B log B)), and some SVMs of bags",
        when_to_use="Positives that form one cluster which most positive bags share.",
    )

    _state: ClassVar[dict[str, state.Field]] = {
        "length_unit_": state.Number(positive=True),
        "training_bags_": bags_state("bags"),
        "training_positive_": state.Flags(shape=("bags",)),
        "true_positives_": state.Floats(shape=("positive bags", "features"), sparse=True),
        "C_": state.Number(positive=True),
        "gamma_": state.Number(positive=True),
        "svm_": state.Part(classes=(LinearSVM, SVC)),
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "level": [StrOptions({"bag", "instance"})],
        "kernel": [StrOptions({"linear", "rbf"})],
        "C": POSITIVE_OR_CV,
        "gamma": POSITIVE_OR_CV,
        "length_unit": LENGTH_UNIT,
        "class_weight": CLASS_WEIGHT,
        "pos_label": POS_LABEL,
    }

    def __init__(
        self,
        *,
        level: str = "bag",
        kernel: str = "linear",
        C: float | str = "cv",
        gamma: float | str = "cv",
        length_unit: str | float = "auto",
        class_weight: Any = "balanced",
        pos_label: Any = None,
    ) -> None:
        self.level = level
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.length_unit = length_unit
        self.class_weight = class_weight
        self.pos_label = pos_label

    def _check_state(self, sizes: state.Sizes) -> None:
        super()._check_state(sizes)
        columns = sizes["positive bags" if self.level == "bag" else "features"]
        svm: Any = self.svm_
        linear = isinstance(svm, LinearSVM)
        if linear != (self.kernel == "linear") or columns != (
            len(svm.weights) if linear else svm.n_features_in_
        ):
            raise state.StateError(f"svm_ is not an SVM on {columns} columns")

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        self.length_unit_ = length_unit(bags.instances, self.length_unit)
        self.training_bags_, self.training_positive_ = bags, positive
        choose = "cv" in (self.C, self.gamma) and bags.n_bags <= _MOST_BAGS
        folds = stratified_folds(positive) if choose else []
        inside = np.flatnonzero(positive[bags.bag_index])
        # One column for all bags, and one for the bags that each fold keeps.
        scores = np.full((bags.n_instances, 1 + len(folds)), np.nan)
        scores[inside] = self._precisions(
            bags.instances[inside], [np.full(bags.n_bags, True), *(~fold for fold in folds)]
        )
        self._set_detection(bags, positive, scores[:, 0])
        self.true_positives_ = bags.instances[self.detected_instances_]
        self.C_, self.gamma_ = self._choose(bags, positive, folds, scores[:, 1:])
        rows, labels = self._training_rows(bags, positive, self.true_positives_, self.gamma_)
        self.svm_: Any = self._fit_svm(rows, labels, self.C_, self.gamma_)

    def _precisions(self, instances: Any, kept: list[BoolArray]) -> FloatArray:
        """Empirical precision over some of the training bags, a column for each choice of bags.

        Reduced by up to half the step of one bag for a large threshold.
        """
        scores = np.empty((instances.shape[0], len(kept)))
        for rows, squared in nearest_in_bags(instances, self.training_bags_):
            for column, bags in enumerate(kept):
                right, threshold = best_precision(squared[:, bags], self.training_positive_[bags])
                wide = threshold / (threshold + self.length_unit_**2)
                scores[rows, column] = (right - 0.5 * wide) / bags.sum()
        return scores

    def _choose(
        self, bags: Bags, positive: BoolArray, folds: list[BoolArray], scores: FloatArray
    ) -> tuple[float, float]:
        """Cost and width with most bags right when held out; the first of equal ones."""
        costs = COSTS if self.C == "cv" else (float(self.C),)
        widths = WIDTHS if self.gamma == "cv" else (float(self.gamma),)
        if not folds:
            return (
                10.0 if self.C == "cv" else costs[0],
                1.0 if self.gamma == "cv" else widths[0],
            )
        right = np.zeros((len(costs), len(widths)))
        for fold, precision in zip(folds, scores.T, strict=True):
            kept = positive & ~fold
            prototypes = bags.instances[segment_argmax(precision, bags.offsets)[kept]]
            train, held_out = bags[~fold], bags[fold]
            for j, width in enumerate(widths):
                rows, labels = self._training_rows(train, positive[~fold], prototypes, width)
                unseen = self._described(held_out, prototypes, width)
                for i, cost in enumerate(costs):
                    svm = self._fit_svm(rows, labels, cost, width)
                    called = self._values(svm, unseen, held_out) > 0
                    right[i, j] += (called == positive[fold]).sum()
        best = np.unravel_index(right.argmax(), right.shape)
        return costs[best[0]], widths[best[1]]

    def _training_rows(
        self, bags: Bags, positive: BoolArray, prototypes: Any, gamma: float
    ) -> tuple[Any, BoolArray]:
        if self.level == "bag":
            return self._described(bags, prototypes, gamma), positive
        parts = [prototypes, bags[~positive].instances]
        rows = sp.vstack(parts, format="csr") if bags.is_sparse else np.concatenate(parts)
        return rows, np.arange(rows.shape[0]) < parts[0].shape[0]

    def _described(self, bags: Bags, prototypes: Any, gamma: float) -> Any:
        """What the SVM sees of bags: their similarities to the prototypes, or their instances."""
        if self.level == "instance":
            return bags.instances
        return embed_bags(bags, prototypes, gamma / self.length_unit_**2)

    def _fit_svm(self, rows: Any, labels: BoolArray, C: float, gamma: float) -> Any:
        costs = class_costs(self.class_weight, labels, self.classes_, self.positive_label_)
        if self.kernel == "linear":
            return fit_linear_svm(rows, labels, C=C, costs=costs)
        # The embedding has its own scale; instances are measured in the unit of length.
        width = "scale" if self.level == "bag" else gamma / self.length_unit_**2
        weights = {False: costs[0], True: costs[1]}
        return SVC(C=C, gamma=width, class_weight=weights).fit(for_libsvm(rows), labels)

    def _values(self, svm: Any, rows: Any, bags: Bags) -> FloatArray:
        """Decision value of every bag."""
        if self.kernel == "linear":
            values = svm.decide(rows)
        else:
            values = np.asarray(svm.decision_function(for_libsvm(rows)))
        if self.level == "bag":
            return values
        return segment_reduce(np.maximum, values, bags.offsets)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._values(
            self.svm_, self._described(bags, self.true_positives_, self.gamma_), bags
        )

    def _score_instances(self, bags: Bags) -> FloatArray:
        everything = np.full(self.training_bags_.n_bags, True)
        return self._precisions(bags.instances, [everything])[:, 0]
