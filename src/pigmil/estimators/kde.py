"""KDE, KDE_min and KDE_max: detect instances of positive bags where negatives are rare."""

from typing import Any, ClassVar

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances import length_unit, log_density
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators.base import AcceptsWeights
from pigmil.scale import LazyBags, map_instances


@with_parameters
class _KernelDensity(AcceptsWeights):
    """Score instances by minus the log density of negative bags; subclasses set ``_reduction``."""

    gamma: float = 1.0
    length_unit: str | float = "auto"
    pos_label: Any = None

    _accepts_sparse = True
    _fits_lazy_bags = True
    _reduction: ClassVar[str]

    def _fit(
        self, bags: Bags | LazyBags, positive: BoolArray, weights: FloatArray | None = None
    ) -> None:
        by_instance = None if weights is None else np.repeat(weights, bags.sizes)
        self.length_unit_ = length_unit(bags, self.length_unit, weights=by_instance)
        self.__dict__.pop("negative_weights_", None)
        if weights is not None:
            self.negative_weights_ = weights[~positive]
        negative = bags[~positive]
        self.negative_bags_ = negative.load() if isinstance(negative, LazyBags) else negative
        scores = map_instances(self._score_instances, bags)
        self._set_detection(bags, positive, scores)

    def _score_instances(self, bags: Bags) -> FloatArray:
        return -log_density(
            bags.instances,
            self.negative_bags_,
            gamma=self.gamma,
            unit=self.length_unit_,
            reduction=self._reduction,
            weights=getattr(self, "negative_weights_", None),
        )


class KDEMin(_KernelDensity):
    """KDE_min: detect the instance of each positive bag that is farthest from negative bags.

    Implements Definition 2 (Eq. 1): ``f(x) = 1/N- sum over negative bags of
    exp(-gamma |x - nearest instance of the bag|)``; the detected instance of a positive bag has
    the lowest ``f``. This method detects instances and does not classify bags.

    Departs from the paper: the minimum is taken over distances, not over exponentials as printed
    (otherwise the results of Table I cannot be reproduced); lengths are measured in
    ``length_unit`` (1.0 as in the paper); scores are ``-log f``, which has the reverse order of
    ``f`` and cannot underflow.

    Parameters
    ----------
    gamma : float, default=1.0
        Decay per unit of length.
    {length_unit}
    {pos_label}

    Attributes
    ----------
    {detected_instances_}
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance, higher is more likely positive.
    {length_unit_}
    negative_bags_ : Bags
        The negative training bags.
    negative_weights_ : array of shape (n_negative_bags,)
        Their weights, if some were given.

    Notes
    -----
    Cost: O(n_instances n_negative_instances n_features), in blocks.

    When to use: The starting point of PIGMIL: positives far from every negative bag.

    Defaults: gamma is 1, in units of length_unit; the paper prints none.

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple
    Instance Learning, 2016.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.kde import KDEMin
    >>> bags = make_ring(random_state=0)
    >>> len(KDEMin().fit(bags).detected_instances_)
    20
    """

    _reduction = "nearest"
    card = Card("KDE_min", "Kernel density of the nearest instance of each negative bag")


class KDE(_KernelDensity):
    """KDE: detect the instance of each positive bag where negative instances are least dense.

    Implements footnote 1: like :class:`KDEMin`, which documents parameters and attributes, but
    with the sum of ``exp(-gamma |x - x_ji|)`` over all instances of a negative bag.

    Notes
    -----
    Cost: as :class:`KDEMin`.

    When to use: A quick first result if negatives do not surround the positives.

    Defaults: gamma is 1, in units of length_unit; the paper prints none.

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple
    Instance Learning, 2016.
    """

    _reduction = "sum"
    card = Card("KDE", "Kernel density of all negative instances")


class KDEMax(_KernelDensity):
    """KDE_max: like :class:`KDEMin`, but with the farthest instance of each negative bag.

    Implements footnote 2; the maximum is taken over distances, as in :class:`KDEMin`.

    Notes
    -----
    Cost: as :class:`KDEMin`.

    When to use: Only if positives lie outside the convex hull of the negatives.

    Defaults: gamma is 1, in units of length_unit; the paper prints none.

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple
    Instance Learning, 2016.
    """

    _reduction = "farthest"
    card = Card("KDE_max", "Kernel density of the farthest instance of each negative bag")
