"""Single instance: score instances by what a bag classifier says when one is kept or left out."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from pigmil._core._sklearn_compat import HasMethods, StrOptions
from pigmil._core.segments import offsets_of, segment_blocks
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators.base import AcceptsWeights, MILClassifier, decision_values
from pigmil.estimators.mi_kernel import MIKernel

_BLOCK_ELEMENTS = 2**22  # values in the perturbed bags of one call: 32 MiB in double precision


@with_parameters
class SingleInstance(AcceptsWeights, MILClassifier):
    """Single instance: make any bag classifier score instances, by perturbing its bags.

    The classifier is asked about bags from which instances were taken away. With
    ``mode="keep_only"`` the score of an instance is the decision value of a bag that holds it
    alone; with ``mode="leave_out"`` it is by how much the decision value of its bag drops when the
    instance is left out. Bags are classified by the classifier as it is.

    Departs from the paper: from both scores the threshold is subtracted at which "the best
    instance of the bag is above 0" agrees most often with what the classifier says of the training
    bags. An instance that is alone in its bag cannot be left out and keeps the decision value of
    the bag.

    Parameters
    ----------
    estimator : classifier, optional
        Any classifier of bags: its ``fit`` and ``predict`` take :class:`~pigmil.Bags`. It is
        fitted on the labels 0 and 1, the latter for the positive class. Its
        ``decision_function`` is used, or the logit of its ``predict_proba``, or else the labels it
        predicts. :class:`~pigmil.MIKernel` if not given.
    mode : {"keep_only", "leave_out"}, default="keep_only"
        Keep one instance of a bag, or leave one out. Where several instances of a bag are
        positive, none is missed when it is left out; where only all instances together make a bag
        positive, none is enough alone.
    {probability}
    {pos_label}

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier of bags.
    threshold_ : float
        What is subtracted from the scores of instances.
    {detected_instances_}
    {instance_scores_}

    Notes
    -----
    Cost: that of the classifier, and a prediction for as many bags as there are instances. They
    hold one instance each (keep only) or all of their bag but one (leave out: the sum of the
    squared sizes of the bags); memory is bounded by a block of them, or by the largest bag.

    When to use: To ask a bag classifier you trust which instances made it decide.

    Defaults: Nothing was tuned; the classifier has its own defaults.

    References
    ----------
    Early, Evers, Ramchurn: Model Agnostic Interpretability for Multiple Instance Learning, ICLR
    2022.

    Examples
    --------
    >>> from pigmil import CitationKNN
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.single_instance import SingleInstance
    >>> bags = make_ring(random_state=0)
    >>> model = SingleInstance(CitationKNN(rank=None), mode="leave_out").fit(bags)
    >>> len(model.detected_instances_)
    20
    """

    estimator: Any = field(default=None, kw_only=False)
    mode: str = "keep_only"

    _accepts_sparse = True
    card = Card("Single instance", "Perturbation of a bag classifier")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "mode": [StrOptions({"keep_only", "leave_out"})],
    }

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        chosen = MIKernel() if self.estimator is None else self.estimator
        passed_on = {} if weights is None else {"sample_weight": weights}
        self.estimator_ = clone(chosen).fit(bags, positive.astype(np.int64), **passed_on)
        self.threshold_ = 0.0
        called = self._score_bags(bags) > 0
        scores = self._score_instances(bags)
        self._set_threshold(bags, positive, scores, called, weights=weights)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return decision_values(self.estimator_, bags)

    def _score_instances(self, bags: Bags) -> FloatArray:
        if self.mode == "keep_only":
            return self._perturbed_scores(bags, np.arange(bags.n_instances)) - self.threshold_
        scores = self._score_bags(bags)[bags.bag_index]
        several = np.flatnonzero(bags.sizes[bags.bag_index] > 1)
        scores[several] -= self._perturbed_scores(bags, several)
        return scores - self.threshold_

    def _perturbed_scores(self, bags: Bags, instances: IntArray) -> FloatArray:
        """Return the decision value of the perturbed bag of each of some instances."""
        if self.mode == "keep_only":
            perturb, sizes = keep_only, np.ones_like(instances)
        else:
            perturb, sizes = leave_out, bags.sizes[bags.bag_index[instances]] - 1
        blocks = segment_blocks(offsets_of(sizes), max(1, _BLOCK_ELEMENTS // bags.n_features))
        scores = [self._score_bags(perturb(bags, instances[slice(*block)])) for block in blocks]
        return np.concatenate([np.empty(0), *scores])


def keep_only(bags: Bags, instances: IntArray) -> Bags:
    """Return one bag per given instance, which holds it alone.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0]]])
    >>> keep_only(bags, np.array([1, 3])).instances.ravel()
    array([2., 4.])
    """
    return Bags(
        bags.instances[instances],
        np.arange(len(instances) + 1),
        feature_names=bags.feature_names,
        check_finite=False,
    )


def leave_out(bags: Bags, instances: IntArray) -> Bags:
    """Return one bag per given instance, which holds all others of its bag.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0], [5.0]]])
    >>> [bag.ravel().tolist() for bag in leave_out(bags, np.array([1, 3]))]
    [[1.0, 3.0], [5.0]]
    """
    owners = bags.bag_index[instances]
    sizes = bags.sizes[owners] - 1
    offsets = offsets_of(sizes)
    # Count through each bag from its first row, and skip the instance.
    rows = np.arange(offsets[-1]) + np.repeat(bags.offsets[owners] - offsets[:-1], sizes)
    rows += rows >= np.repeat(instances, sizes)
    return Bags(bags.instances[rows], offsets, feature_names=bags.feature_names, check_finite=False)
