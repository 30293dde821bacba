"""MILES: embed bags by similarities to all training instances; a 1-norm SVM keeps few."""

from typing import Any, ClassVar

import numpy as np

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import offsets_of, segment_gather, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags, length_unit
from pigmil.estimators._instance_embedding import embed_by_instances
from pigmil.estimators._l1_svm import fit_l1_svm
from pigmil.estimators._parameters import with_parameters
from pigmil.estimators._svm_solvers import (
    kernel_scores,
    kernel_values,
)
from pigmil.estimators.base import AcceptsWeights, MILClassifier
from pigmil.estimators.card import Card

_CHUNK_INSTANCES = 8192


@with_parameters
class MILES(AcceptsWeights, MILClassifier):
    """MILES: multiple-instance learning via embedded instance selection.

    Implements the instance-based embedding, the 1-norm SVM and the instance classification of
    the paper. A bag is embedded by its largest similarity
    ``exp(-gamma |x - x^k|^2)`` to each training instance ``x^k``; a 1-norm SVM, solved exactly
    as a linear programme, keeps few of them.

    Departs from the paper: the intercept is shared among the instances of a bag, so that 0
    separates; widths are measured in ``length_unit``,
    ``gamma = 1 / sigma^2``; the two constants lambda and mu of the programme become ``C`` and
    ``class_weight``, with ``lambda = 1 / C``; they have defaults instead of a search.

    Parameters
    ----------
    C : float, default=2.0
        Cost of the hinge loss of a bag against the 1-norm of the weights.
    gamma : float, default=0.3
        Decay of the similarity per squared unit of length.
    {length_unit}
    score_by : {"contribution", "alone"}, default="contribution"
        How instances are scored. ``"contribution"``, as published: each kept ``x^k`` adds
        ``w_k s(x^k, x) / m_k`` to the ``m_k`` instances of the bag nearest to it, and the intercept
        is shared equally by the instances that are nearest to some ``x^k``, so that their scores
        add up to the decision value of the bag. The score of an instance depends on its bag.
        ``"alone"``: the decision value of a bag that holds only the instance; it fails where
        instances far from all kept ``x^k`` make bags positive.
    class_weight : "balanced", dict or None, default=None
        Factors on ``C``.
    {probability}
    {pos_label}

    Attributes
    ----------
    prototypes_ : array or CSR of shape (n_prototypes, n_features)
        The training instances with a weight other than 0.
    prototype_instances_ : array of int of shape (n_prototypes,)
        Their flat indices.
    coef_ : array of shape (n_prototypes,)
        Their weights.
    {intercept_}
    dual_coef_ : array of shape (n_bags,)
        Dual variables of the training bags, which prove the optimum.
    objective_ : float
        ``sum of |w| + C sum of hinge losses``.
    decay_ : float
        ``gamma / unit^2``.
    {detected_instances_}
    {instance_scores_}
    n_iter_ : int
        Rounds of column generation.

    Notes
    -----
    Cost: O(n_instances^2 n_features) for the embedding, in blocks; O(n_bags n_instances) memory
    for it, in single precision above 2^25 values; the programme holds few columns at a time.

    References
    ----------
    Chen, Bi, Wang: MILES: Multiple-Instance Learning via Embedded Instance Selection. IEEE
    TPAMI 28(12), 2006.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.miles import MILES
    >>> bags = make_ring(random_state=0)
    >>> len(MILES().fit(bags).detected_instances_)
    20
    """

    C: float = 2.0
    gamma: float = 0.3
    length_unit: str | float = "auto"
    score_by: str = "contribution"
    class_weight: Any = None

    _accepts_sparse = True
    card = Card(
        name="MILES",
        title="Multiple-instance learning via embedded instance selection",
        paper=(
            "Chen, Bi, Wang: MILES: Multiple-Instance Learning via Embedded Instance Selection, "
            "IEEE TPAMI 28(12)"
        ),
        year=2006,
        default_chosen="C and gamma were picked while looking at the first split of the "
        "benchmark sets, so its figures there are slightly optimistic; score_by "
        "is published.",
        detects=True,
        classifies=True,
        cost="O(N^2 d + LP of B rows)",
        when_to_use="A strong default for bags of any kind. The score of an instance is its share "
        "in the decision on its bag, as published, and so depends on the bag.",
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "score_by": [StrOptions({"alone", "contribution"})],
    }

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        own = None if weights is None else np.repeat(weights, bags.sizes)
        self.decay_ = self.gamma / length_unit(bags.instances, self.length_unit, weights=own) ** 2
        costs = self._class_costs(positive, weights)
        row_costs = self.C * np.where(positive, *costs[::-1])
        model = fit_l1_svm(
            embed_by_instances(bags, self.decay_),
            positive,
            row_costs if weights is None else row_costs * weights,
        )
        self.prototype_instances_ = np.flatnonzero(model.weights)
        self.prototypes_ = bags.instances[self.prototype_instances_]
        self.coef_ = model.weights[self.prototype_instances_]
        self.intercept_ = model.intercept
        self.dual_coef_ = model.alphas
        self.objective_ = model.objective
        self.n_iter_ = model.n_rounds
        self._set_detection(bags, positive, self._score_instances(bags))

    def _add_left_out(self, bags: Bags, kept: IntArray) -> None:
        super()._add_left_out(bags, kept)
        if hasattr(self, "estimators_"):
            return
        rows = segment_gather(bags.offsets, kept)
        self.prototype_instances_ = rows[self.prototype_instances_]
        dual, self.dual_coef_ = self.dual_coef_, np.zeros(bags.n_bags)
        self.dual_coef_[kept] = dual

    def _score_bags(self, bags: Bags) -> FloatArray:
        return embed_bags(bags, self.prototypes_, self.decay_) @ self.coef_ + self.intercept_

    def _score_instances(self, bags: Bags) -> FloatArray:
        if self.score_by == "alone":
            if self.coef_.size == 0:
                return np.full(bags.n_instances, self.intercept_)
            return kernel_scores(
                bags.instances, self.prototypes_, self.coef_, self.intercept_, self.decay_
            )
        ends = np.flatnonzero(np.diff(bags.offsets[1:] // _CHUNK_INSTANCES, append=np.inf)) + 1
        starts = np.concatenate([[0], ends[:-1]])
        parts = [
            self._contributions(bags[first:last]) for first, last in zip(starts, ends, strict=True)
        ]
        return np.concatenate(parts)

    def _contributions(self, bags: Bags) -> FloatArray:
        """Split the decision value of every bag among its instances."""
        offsets = offsets_of(bags.sizes)
        if self.coef_.size == 0:
            return np.repeat(self.intercept_ / bags.sizes, bags.sizes)
        similarity = kernel_values(bags.instances, self.prototypes_, self.decay_)
        best = np.repeat(segment_reduce(np.maximum, similarity, offsets), bags.sizes, axis=0)
        nearest = (similarity == best).astype(np.float64)
        shares = nearest / np.repeat(segment_reduce(np.add, nearest, offsets), bags.sizes, axis=0)
        takes_part = nearest.any(axis=1).astype(np.float64)
        n_taking_part = np.repeat(segment_reduce(np.add, takes_part, offsets), bags.sizes)
        return (shares * similarity) @ self.coef_ + self.intercept_ / n_taking_part
