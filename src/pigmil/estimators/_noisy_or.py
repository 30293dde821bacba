"""The noisy-or model of DD and EM-DD: objective, gradient, starts and scores."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from pigmil._core.segments import segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit, squared_distances
from pigmil.estimators._linear import centre_and_spread, standardised
from pigmil.estimators._parameters import AT_LEAST_ONE, NOT_NEGATIVE, with_parameters
from pigmil.estimators.base import MaxInstanceClassifier

# An instance at the concept itself has probability 1, and a negative bag that holds it
# probability 0: log(0). Probabilities are kept this far from 1.
_NEAREST = -1e-10
# Below exp(-36) one minus a product of (1 - p) equals the sum of the p in double precision.
_TINY = -36.0
_BLOCK = 1 << 21  # distances held at a time: 16 MB


def log_membership(instances: Any, concept: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the log probability that each instance belongs to the concept.

    ``log Pr(t | x) = -sum over features of scale^2 (x - t)^2``.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features)
        Instances x.
    concept, scales : array of shape (n_features,)
        The point t and the scale of each feature.

    Returns
    -------
    array of shape (n_instances,), at most 0

    Examples
    --------
    >>> import numpy as np
    >>> log_membership(np.array([[1.0, 5.0]]), np.array([0.0, 3.0]), np.array([1.0, 0.5]))
    array([-2.])
    """
    difference = np.subtract(instances, concept, dtype=np.float64)
    difference *= scales
    return -np.einsum("ij,ij->i", difference, difference)


def bag_loss(
    exponents: FloatArray, offsets: IntArray, positive: BoolArray
) -> tuple[float, FloatArray]:
    """Return minus log diverse density, and its derivative by the exponent of each instance.

    A positive bag counts ``-log(1 - prod(1 - p))``, a negative bag ``-log prod(1 - p)`` with
    ``p = exp(exponent)``. Neither very small p nor p = 1 overflows.

    Parameters
    ----------
    exponents : array of shape (n_instances,)
        Log-probability of each instance.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Returns
    -------
    loss : float
    slope : array of shape (n_instances,)

    Examples
    --------
    >>> import numpy as np
    >>> half = np.log([0.5, 0.5])
    >>> loss, slope = bag_loss(half, np.array([0, 2]), np.array([True]))
    >>> bool(np.isclose(loss, -np.log(0.75)))
    True
    """
    e = np.minimum(exponents, _NEAREST)
    absent = _log_complement(e)
    odds = np.exp(e - absent)  # p / (1 - p)
    owner = segment_ids(offsets)
    none = segment_reduce(np.add, absent, offsets)
    log_any = _log_any(e, none, offsets)
    loss = -float(none[~positive].sum()) - float(log_any[positive].sum())
    # d log_any / d e_i = odds_i prod(1 - p) / (1 - prod(1 - p)), all in logarithms.
    pull = np.exp(e - absent + (none - log_any)[owner])
    slope = np.where(positive[owner], -pull, odds)
    slope[exponents > _NEAREST] = 0.0
    return loss, slope


def _log_complement(exponents: FloatArray) -> FloatArray:
    """Return ``log(1 - exp(e))`` accurately for all e < 0."""
    near = exponents > -0.5
    small = np.where(near, -1.0, exponents)
    large = np.where(near, exponents, -1.0)
    return np.where(near, np.log(-np.expm1(large)), np.log1p(-np.exp(small)))


def _log_any(exponents: FloatArray, none: FloatArray, offsets: IntArray) -> FloatArray:
    """Return ``log(1 - prod(1 - p))`` of every bag; ``none`` is the log of the product."""
    highest = np.maximum.reduceat(exponents, offsets[:-1], axis=-1)
    shifted = np.exp(exponents - np.repeat(highest, np.diff(offsets), axis=-1))
    log_sum = highest + np.log(np.add.reduceat(shifted, offsets[:-1], axis=-1))
    tiny = log_sum < _TINY
    return np.where(tiny, log_sum, _log_complement(np.where(tiny, -1.0, none)))


class NoisyOr:
    """Training bags prepared for fast evaluation of minus log diverse density.

    With the instances X and their squares side by side, all exponents are one product of a matrix
    with a vector, and the gradient is another. Values are centred first, so that nothing cancels.

    Parameters
    ----------
    instances : array of shape (n_instances, n_features)
        Instances of the bags.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Notes
    -----
    Memory: twice that of the instances.
    """

    def __init__(self, instances: Any, offsets: IntArray, positive: BoolArray) -> None:
        self.centre: FloatArray = np.mean(instances, axis=0, dtype=np.float64)
        centred = np.subtract(instances, self.centre, dtype=np.float64)
        self.columns = np.concatenate([centred, centred * centred], axis=1)
        self.offsets = offsets
        self.positive = positive

    def exponents(self, concept: FloatArray, scales: FloatArray) -> FloatArray:
        """Return the log-membership of every instance; the concept is relative to the centre."""
        weight = scales * scales
        linear = np.concatenate([2.0 * weight * concept, -weight])
        return self.columns @ linear - float(weight @ (concept * concept))

    def loss(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Return minus log diverse density and its gradient.

        Parameters
        ----------
        parameters : array of shape (2 n_features,)
            The concept relative to the centre, then the scales.

        Notes
        -----
        Cost: O(n_instances n_features).
        """
        concept, scales = np.split(parameters, 2)
        value, slope = bag_loss(self.exponents(concept, scales), self.offsets, self.positive)
        linear, squared = np.split(slope @ self.columns, 2)
        total = slope.sum()
        by_concept = 2.0 * scales * scales * (linear - total * concept)
        by_scale = -2.0 * scales * (squared - 2.0 * concept * linear + total * concept * concept)
        return value, np.concatenate([by_concept, by_scale])


@dataclass(frozen=True, slots=True)
class Concept:
    """A point of high diverse density.

    Attributes
    ----------
    point, scales : array of shape (n_features,)
        The point, and the scale of each feature.
    loss : float
        Minus log diverse density.
    converged : bool
        Whether the search converged before the maximum number of steps.
    n_iter : int
        Number of steps, at least 1.
    """

    point: FloatArray
    scales: FloatArray
    loss: float
    converged: bool
    n_iter: int


def climb(
    model: NoisyOr, point: FloatArray, scales: FloatArray, *, max_iter: int, tol: float
) -> Concept:
    """Climb to the nearest peak of diverse density by L-BFGS-B.

    Scales are bounded below by 0; only their squares are used.

    Parameters
    ----------
    model : NoisyOr
        The training bags.
    point, scales : array of shape (n_features,)
        Where to start.
    max_iter : int
        Largest number of steps.
    tol : float
        Stop when a step lowers minus log diverse density by less than this share.

    Notes
    -----
    Cost: O(n_instances n_features) per step.
    """
    n = len(point)
    result = minimize(
        model.loss,
        np.concatenate([point - model.centre, scales]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * n + [(0.0, None)] * n,
        options={"maxiter": max_iter, "maxfun": 3 * max_iter, "ftol": tol},
    )
    peak, peak_scales = np.split(np.asarray(result.x), 2)
    return Concept(
        peak + model.centre,
        peak_scales,
        float(result.fun),
        converged=result.status != 1,
        n_iter=max(1, int(result.nit)),
    )


def log_density_at(queries: Any, bags: Bags, positive: BoolArray, scale: float) -> FloatArray:
    """Return the log diverse density of every query as a concept, with one scale for all features.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Points at which the density is evaluated.
    bags : Bags
        Training bags.
    positive : array of bool of shape (n_bags,)
        Which of them are positive.
    scale : float
        The scale of every feature.

    Returns
    -------
    array of shape (n_queries,)

    Notes
    -----
    Cost: O(n_queries n_instances n_features), in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> bags = Bags.from_list([np.array([[0.0]]), np.array([[1.0]])])
    >>> value = log_density_at(np.array([[0.0]]), bags, np.array([True, False]), 1.0)
    >>> bool(np.isclose(value[0], np.log(1 - np.exp(-1)), rtol=1e-6))
    True
    """
    result = np.zeros(queries.shape[0])
    for marked, part in ((True, bags[positive]), (False, bags[~positive])):
        # Blocks of a few whole rows, so that no bag is split.
        for start in range(0, queries.shape[0], step := max(1, _BLOCK // part.n_instances)):
            rows = slice(start, start + step)
            squared = squared_distances(queries[rows], part.instances)
            e = np.minimum(-(scale**2) * squared, _NEAREST)
            none = np.add.reduceat(_log_complement(e), part.offsets[:-1], axis=1)
            log_bag = _log_any(e, none, part.offsets) if marked else none
            result[rows] += log_bag.sum(axis=1)
    return result


def pick_starts(
    bags: Bags, positive: BoolArray, densities: FloatArray, n_starts: int | None
) -> IntArray:
    """Return the flat indices of the instances to start from, spread over the positive bags.

    First the densest instance of every bag, the densest of these first, then the second of every
    bag, and so on: one large bag cannot provide all starts.

    Parameters
    ----------
    bags, positive
        Training bags.
    densities : array of shape (n_instances,)
        Log diverse density at each instance; only those of positive bags are read.
    n_starts : int or None
        Number of starts; None for all instances of these bags.
    """
    members = np.flatnonzero(positive[bags.bag_index])
    sizes = bags.sizes[positive]
    by_bag = np.lexsort((-densities[members], bags.bag_index[members]))
    rank = np.empty(len(members), dtype=np.int64)
    rank[by_bag] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return members[np.lexsort((-densities[members], rank))][:n_starts]


@with_parameters
class ConceptClassifier(MaxInstanceClassifier):
    """Base class of DD and EM-DD: search a concept, score instances by membership in it.

    A subclass implements ``_searcher``. The search sees instances of mean 0 and mean variance 1, so
    that offset and scale of the data do not matter.
    """

    n_starts: int | None = 10
    length_unit: str | float = "auto"
    max_iter: int = 100
    tol: float = 1e-2
    n_jobs: int | None = None
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_starts": [*AT_LEAST_ONE, None],
        "tol": NOT_NEGATIVE,
    }

    @abstractmethod
    def _searcher(self, bags: Bags, positive: BoolArray) -> Callable[..., Concept]:
        """Return the search from a given point and given scales."""

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        rng = check_random_state(self.random_state)
        self.length_unit_ = length_unit(bags.instances, self.length_unit, random_state=rng)
        centre, spread = centre_and_spread(bags.instances)
        moved = bags.with_instances(standardised(bags.instances, centre, spread))
        scale = spread / self.length_unit_
        densities = np.full(bags.n_instances, -np.inf)
        inside = np.flatnonzero(positive[bags.bag_index])
        densities[inside] = log_density_at(moved.instances[inside], moved, positive, scale)
        starts = pick_starts(bags, positive, densities, self.n_starts)
        scales = np.full(bags.n_features, scale)
        # One BLAS thread for any n_jobs: otherwise the last digits change.
        with threadpool_limits(limits=1, user_api="blas"):
            search = self._searcher(moved, positive)
            concepts: list[Concept] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(search)(point, scales) for point in moved.instances[starts]
            )
        self.losses_ = np.array([concept.loss for concept in concepts])
        best = concepts[int(self.losses_.argmin())]
        if not best.converged:
            warnings.warn(
                f"{self.card.name} stopped at max_iter={self.max_iter} from its best start; raise "
                "max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )
        self.loss_, self.n_iter_ = best.loss, best.n_iter
        self.concept_, self.scales_ = best.point * spread + centre, best.scales / spread
        self.threshold_ = 0.0
        self._set_threshold(bags, positive, self._score_by_concept(bags))

    def _score_by_concept(self, bags: Bags) -> FloatArray:
        """Return the log-membership in the concept, less the threshold."""
        return log_membership(bags.instances, self.concept_, self.scales_) - self.threshold_

    def _score_instances(self, bags: Bags) -> FloatArray:
        return self._score_by_concept(bags)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return segment_reduce(np.maximum, self._score_by_concept(bags), bags.offsets)
