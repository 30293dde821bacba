"""KDE, KDE_min and KDE_max: the instance of a positive bag where negatives are least dense."""

from typing import Any, ClassVar

from pigmil._core import state
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.distances.density import log_density
from pigmil.estimators._parameters import LENGTH_UNIT, POS_LABEL, POSITIVE
from pigmil.estimators.base import BaseMIL, bags_state
from pigmil.estimators.card import Card
from pigmil.scale import LazyBags, map_instances

_PAPER = (
    "Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple "
    "Instance Learning"
)
_COST = "O(N_query N_negative d)"


class _KernelDensity(BaseMIL):
    """A detector by the density of negative bags; the subclass says how a bag is reduced."""

    _accepts_sparse = True
    _fits_lazy_bags = True
    _reduction: ClassVar[str]

    _state: ClassVar[dict[str, state.Field]] = {
        "length_unit_": state.Number(positive=True),
        "negative_bags_": bags_state("negative bags"),
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "gamma": POSITIVE,
        "length_unit": LENGTH_UNIT,
        "pos_label": POS_LABEL,
    }

    def __init__(
        self, *, gamma: float = 1.0, length_unit: str | float = "auto", pos_label: Any = None
    ) -> None:
        self.gamma = gamma
        self.length_unit = length_unit
        self.pos_label = pos_label

    def _fit(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        self.length_unit_ = length_unit(bags, self.length_unit)
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
        )


class KDEMin(_KernelDensity):
    """KDE_min: detect in each positive bag the instance farthest from all negative bags.

    Implements Definition 2 (Eq. 1): ``f(x) = 1/N- sum over negative bags of
    exp(-gamma |x - nearest instance of the bag|)``; the detected instance of a positive bag has
    the lowest ``f``. A pure detector: it labels no bags.

    Departs from the paper: min is over distances, not over exponentials as printed (only then
    do the figures of Table I come out); lengths are measured in ``length_unit`` (1.0 is the
    paper); scores are ``-log f``, which orders instances alike and cannot underflow.

    Parameters
    ----------
    gamma : float, default=1.0
        Decay per unit of length.
    length_unit : {"auto", "median"} or float, default="auto"
        See :func:`pigmil.distances.length_unit`.
    pos_label : label, optional
        The positive class; the greater label if not given.

    Attributes
    ----------
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the detected instance of each positive training bag.
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance, higher is more likely positive.
    length_unit_ : float
        The unit that was used.
    negative_bags_ : Bags
        The negative training bags, which are all the model keeps.

    Notes
    -----
    Cost: O(n_instances n_negative_instances n_features), in blocks.

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple
    Instance Learning.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.kde import KDEMin
    >>> bags = make_ring(random_state=0)
    >>> len(KDEMin().fit(bags).detected_instances_)
    20
    """

    _reduction = "nearest"
    card = Card(
        name="KDE_min",
        title="Kernel density of the nearest instance of each negative bag",
        paper=_PAPER,
        year=2016,
        detects=True,
        classifies=False,
        cost=_COST,
        when_to_use="The starting point of PIGMIL: positives far from every negative bag.",
    )


class KDE(_KernelDensity):
    """KDE: detect in each positive bag the instance where negatives are least dense.

    Implements footnote 1: as :class:`KDEMin`, which documents parameters and attributes, with
    the sum of ``exp(-gamma |x - x_ji|)`` over all instances of a negative bag.
    """

    _reduction = "sum"
    card = Card(
        name="KDE",
        title="Kernel density of all negative instances",
        paper=_PAPER,
        year=2016,
        detects=True,
        classifies=False,
        cost=_COST,
        when_to_use="A quick first look where negatives do not surround the positives.",
    )


class KDEMax(_KernelDensity):
    """KDE_max: as :class:`KDEMin`, by the farthest instance of each negative bag.

    Implements footnote 2, with the same reading: max is over distances.
    """

    _reduction = "farthest"
    card = Card(
        name="KDE_max",
        title="Kernel density of the farthest instance of each negative bag",
        paper=_PAPER,
        year=2016,
        detects=True,
        classifies=False,
        cost=_COST,
        when_to_use="Positives outside the hull of the negatives, never inside it.",
    )
