"""Clustering MIL: one sphere around a cluster of instances from positive bags."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_gather, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import squared_distance_blocks
from pigmil.estimators._linear import centre_and_spread, standardised
from pigmil.estimators._parameters import AT_LEAST_ONE, Card, with_parameters
from pigmil.estimators._selection import inner_folds, instance_keys, select_by_cv
from pigmil.estimators._svm_solvers import with_short_indices
from pigmil.estimators.base import MaxInstanceClassifier

_CANDIDATES = (2, 5, 10, 20, 40)


@with_parameters
class ClusteringMIL(MaxInstanceClassifier):
    """Clustering MIL: a bag is positive iff an instance falls into a sphere around a cluster.

    The instances of the positive bags are clustered; around every cluster centre the radius is
    swept over all distances of training bags, and the centre and radius with the best accuracy
    on the training bags are kept.

    Departs from the paper and from its authors' toolbox: clusters come from k-means (theirs:
    k-centres); centre and radius are chosen by training accuracy (theirs: the centre by the AUC of
    its distances); instances are scored by ``1 - distance / radius`` (theirs: a logistic function
    of the distance); of centres with the same accuracy the one with the widest gap around its
    radius, relative to the radius, is kept, and the radius is the middle of that gap. The number
    of clusters may be chosen by cross-validation with the rule of one standard error, because
    with many centres some sphere fits the training bags by chance.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters; "auto" takes the smallest of 2, 5, 10, 20 and 40 whose accuracy in
        stratified 5-fold cross-validation over the training bags is within one standard error of
        the best.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in the accuracy.
    random_state : int, RandomState instance or None, default=None
        For k-means.
    {probability}
    {pos_label}

    Attributes
    ----------
    center_ : array of shape (n_features,)
        Centre of the sphere.
    radius_ : float
        Its radius.
    n_clusters_ : int
        The number of clusters asked for.
    training_accuracy_ : float
        Accuracy of the sphere on the training bags, weighted by ``class_weight``.
    {detected_instances_}
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance: 1 at the centre of the sphere, 0 on its surface.

    Notes
    -----
    Cost: O(i k N+ d + k (N d + B log B)) in i k-means iterations, k clusters, instances (N+ in
    positive bags), features and bags; the choice of k repeats it folds times.

    When to use: One compact concept that every positive bag shares; a very simple model.

    Defaults: n_clusters is chosen by cross-validation over the training bags; that rule was
    compared with others on other splits of the benchmark sets.

    References
    ----------
    Tax, Hendriks, Valstar, Pantic: The Detection of Concept Frames Using Clustering
    Multi-Instance Learning, ICPR 2010.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.clustering_mil import ClusteringMIL
    >>> bags = make_ring(random_state=0)
    >>> len(ClusteringMIL(n_clusters=5, random_state=0).fit(bags).detected_instances_)
    20
    """

    n_clusters: int | str = "auto"
    class_weight: Any = None
    random_state: Any = None

    _accepts_sparse = True
    card = Card("Clustering MIL", "Sphere around a cluster of positive instances")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [*AT_LEAST_ONE, StrOptions({"auto"})],
    }

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        costs = self._class_costs(positive)
        self.n_clusters_ = self._choose_n_clusters(bags, positive, costs, seed)
        self.center_, self.radius_, self.training_accuracy_ = self._best_sphere(
            bags, positive, costs, self.n_clusters_, seed
        )
        self._set_detection(bags, positive, self._score_instances(bags))

    def _choose_n_clusters(
        self, bags: Bags, positive: BoolArray, costs: tuple[float, float], seed: int
    ) -> int:
        if self.n_clusters != "auto":
            return int(self.n_clusters)
        folds = inner_folds(bags, positive)
        if not folds:
            return _CANDIDATES[0]

        def score_held_out(train: IntArray, test: IntArray) -> list[FloatArray]:
            spheres = [
                self._best_sphere(bags[train], positive[train], costs, n_clusters, seed)
                for n_clusters in _CANDIDATES
            ]
            held_out = bags[test]
            return [
                segment_reduce(np.maximum, _depths(held_out, center, radius), held_out.offsets)
                for center, radius, _ in spheres
            ]

        chosen = select_by_cv(score_held_out, positive, folds, costs=costs, one_se=True)
        return _CANDIDATES[chosen.index]

    def _best_sphere(
        self,
        bags: Bags,
        positive: BoolArray,
        costs: tuple[float, float],
        n_clusters: int,
        seed: int,
    ) -> tuple[FloatArray, float, float]:
        """Return centre, radius and training accuracy of the best sphere."""
        rows = segment_gather(bags.offsets, np.flatnonzero(positive))
        centers = _cluster_centers(bags.instances[rows], n_clusters, seed)
        nearest = segment_reduce(np.minimum, _distances(bags, centers), bags.offsets).T
        weights = np.where(positive, costs[1], costs[0])
        radii, accuracies, gaps = sweep_radii(nearest, positive, weights)
        best = np.lexsort((-np.round(gaps, 9), -np.round(accuracies, 12)))[0]
        return centers[best], float(radii[best]), float(accuracies[best])

    def _score_instances(self, bags: Bags) -> FloatArray:
        return _depths(bags, self.center_, self.radius_)


def sweep_radii(
    nearest: FloatArray, positive: BoolArray, weights: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Find the best radius around every centre in one sorted sweep over all radii.

    Parameters
    ----------
    nearest : array of shape (n_centers, n_bags)
        Distance of each centre to the nearest instance of each bag.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    weights : array of shape (n_bags,)
        Weight of each bag.

    Returns
    -------
    radii, accuracies, gaps : array of shape (n_centers,)
        The radius, half-way between the farthest bag inside and the nearest outside; the weighted
        accuracy; the width of that gap over its upper end, 0 if all bags are inside.
    """
    order = np.argsort(nearest, axis=1, kind="stable")
    inner = np.take_along_axis(nearest, order, axis=1)
    outer = np.hstack([inner[:, 1:], np.full((len(inner), 1), np.inf)])
    # Moving a bag inside gains its weight if it is positive and loses it if it is negative.
    gains = np.cumsum(np.where(positive, weights, -weights)[order], axis=1)
    accuracies = (weights[~positive].sum() + gains) / weights.sum()
    # Between bags at the same distance there is no radius.
    accuracies[inner == outer] = -np.inf
    widths = np.where(np.isinf(outer), 0.0, 1 - inner / np.maximum(outer, np.finfo(float).tiny))
    best = np.lexsort((-widths, -np.round(accuracies, 12)), axis=1)[:, :1]
    inside, outside, accuracy, gap = (
        np.take_along_axis(values, best, axis=1)[:, 0]
        for values in (inner, outer, accuracies, widths)
    )
    # With every bag inside, half as far again as the farthest.
    everything = np.where(inside > 0, 1.5 * inside, 1.0)
    radii = np.where(np.isinf(outside), everything, (inside + outside) / 2)
    return radii, accuracy, gap


def _cluster_centers(instances: Any, n_clusters: int, seed: int) -> FloatArray:
    """Return k-means centres that depend neither on the order nor on the scale of the instances."""
    centre, spread = centre_and_spread(instances)
    moved = standardised(instances, centre, spread)[np.argsort(instance_keys(instances))]
    model = KMeans(min(n_clusters, moved.shape[0]), n_init=1, random_state=seed)
    with warnings.catch_warnings():
        # Fewer distinct instances than clusters: some centres coincide, which does no harm.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(with_short_indices(moved))
    return np.asarray(model.cluster_centers_, dtype=np.float64) * spread + centre


def _depths(bags: Bags, center: FloatArray, radius: float) -> FloatArray:
    """Return ``1 - distance / radius`` for every instance."""
    return 1.0 - _distances(bags, center[None, :])[:, 0] / radius


def _distances(bags: Bags, centers: FloatArray) -> FloatArray:
    """Return the distance of every instance to every centre."""
    distances = np.empty((bags.n_instances, len(centers)))
    for rows, columns, squared in squared_distance_blocks(bags.instances, centers):
        distances[rows, columns] = np.sqrt(squared)
    return distances
