"""APR: an axis-parallel rectangle with an instance of every positive bag and few negatives."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from pigmil._core._sklearn_compat import Interval
from pigmil._core.segments import segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, NOT_NEGATIVE, Card, with_parameters
from pigmil.estimators.base import MaxInstanceClassifier

_BACKFIT_PASSES = 100
_BISECTIONS = 60


def grow_box(
    instances: FloatArray, offsets: IntArray, negatives: FloatArray, n_seeds: int = 1
) -> IntArray:
    """Choose one instance of every bag so that the box around them is small.

    Starts from the instance nearest to the middle of the minimax box (the least upper bound and
    the greatest lower bound of the bags) and adds, among the bags without an instance in the box,
    the instance that increases the sum of the sides least. After each addition the instances of
    all earlier bags are chosen again until nothing changes (back-fitting).

    Parameters
    ----------
    instances : array of shape (n_instances, n_features)
        Instances of the positive bags, in the features under consideration.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.
    negatives : array of shape (n_negatives, n_features)
        Instances of the negative bags.
    n_seeds : int, default=1
        Number of seeds, spread evenly over the instances from the nearest to the farthest from the
        middle. The box with fewest negatives is kept, and of several the smallest.

    Returns
    -------
    array of int of shape (n_bags,)
        Flat index of the chosen instance of each bag.

    Notes
    -----
    Cost: O(n_bags n_instances n_features) for the additions, and the same for each pass of
    back-fitting.

    Examples
    --------
    >>> import numpy as np
    >>> instances = np.array([[0.0], [9.0], [0.5], [8.0], [0.2]])
    >>> grow_box(instances, np.array([0, 2, 4, 5]), np.array([[5.0]]))
    array([0, 2, 4])
    """
    highest = segment_reduce(np.maximum, instances, offsets).min(axis=0)
    lowest = segment_reduce(np.minimum, instances, offsets).max(axis=0)
    away = instances - (highest + lowest) / 2
    nearest_first = np.argsort(np.einsum("ij,ij->i", away, away), kind="stable")
    seeds = np.linspace(0, len(instances) - 1, min(n_seeds, len(instances))).astype(np.int64)
    boxes = [_grow(instances, offsets, seed) for seed in nearest_first[seeds]]

    def cost(chosen: IntArray) -> tuple[int, float]:
        lower, upper = instances[chosen].min(axis=0), instances[chosen].max(axis=0)
        inside = ((negatives >= lower) & (negatives <= upper)).all(axis=1)
        return int(inside.sum()), float((upper - lower).sum())

    return min(boxes, key=cost)


def _grow(instances: FloatArray, offsets: IntArray, seed: int) -> IntArray:
    owner = segment_ids(offsets)
    chosen = np.full(len(offsets) - 1, -1)  # -1: no instance yet
    chosen[owner[seed]] = seed
    for count in range(2, len(chosen) + 1):
        box = instances[chosen[chosen >= 0]]
        added = _added_sizes(instances, box.min(axis=0), box.max(axis=0))
        added[chosen[owner] >= 0] = np.inf
        best = int(added.argmin())
        chosen[owner[best]] = best
        # With two instances there is nothing to gain: either may be the first.
        if count > 2:
            _backfit(instances, offsets, chosen)
    return chosen


def _backfit(instances: FloatArray, offsets: IntArray, chosen: IntArray) -> None:
    """Choose again in each bag until nothing changes; a strictly smaller box is needed."""
    low = high = None
    for _ in range(_BACKFIT_PASSES):
        before = chosen.copy()
        for bag in np.flatnonzero(chosen >= 0):
            if low is None or high is None:
                box = instances[chosen[chosen >= 0]]
                low, high = np.partition(box, 1, axis=0)[:2], -np.partition(-box, 1, axis=0)[:2]
            # Without the bag the bounds are the second values where its instance is the first.
            own = instances[chosen[bag]]
            lower: FloatArray = np.where(own > low[0], low[0], low[1])
            upper: FloatArray = np.where(own < high[0], high[0], high[1])
            added = _added_sizes(instances[offsets[bag] : offsets[bag + 1]], lower, upper)
            if added.min() < added[chosen[bag] - offsets[bag]]:
                chosen[bag] = offsets[bag] + added.argmin()
                low = high = None  # the next bag sees another box
        if np.array_equal(chosen, before):
            return


def _added_sizes(rows: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the increase of the sum of the sides if the box is extended to each row."""
    sizes: FloatArray = np.abs(rows - rows.clip(lower, upper)).sum(axis=1)
    return sizes


def discriminating_features(
    negatives: FloatArray, lower: FloatArray, upper: FloatArray, margin: float
) -> IntArray:
    """Choose greedily the features that exclude the negatives from a box.

    A feature counts for a negative that it excludes by more than ``margin``, or by more than any
    other feature does. The feature that counts for most negatives is taken, these negatives are
    removed, and the choice is repeated until no negative outside the box is left.

    Parameters
    ----------
    negatives : array of shape (n_negatives, n_features)
        Instances of the negative bags.
    lower, upper : array of shape (n_features,)
        The box.
    margin : float
        In units of the features.

    Returns
    -------
    array of int
        The chosen features in increasing order; empty if the box contains all negatives.

    Notes
    -----
    Cost: O(n_negatives n_features) for any number of chosen features.

    Examples
    --------
    >>> import numpy as np
    >>> negatives = np.array([[5.0, 0.0], [4.0, 3.0], [0.0, 0.2]])
    >>> discriminating_features(negatives, np.zeros(2), np.full(2, 0.1), margin=1.0)
    array([0, 1])
    """
    outside = np.maximum(lower - negatives, negatives - upper)
    farthest = outside.max(axis=1)
    counts_for = (outside > margin) | (outside == farthest[:, None])
    left = farthest > 0
    counts_for &= left[:, None]
    counts = counts_for.sum(axis=0)
    taken: list[int] = []
    while left.any():
        best = int(counts.argmax())
        taken.append(best)
        done = left & counts_for[:, best]
        counts = counts - counts_for[done].sum(axis=0)
        left &= ~done
    return np.sort(np.array(taken, dtype=np.int64))


def expand_bounds(
    covered: FloatArray, lower: FloatArray, upper: FloatArray, *, tau: float, epsilon: float
) -> tuple[FloatArray, FloatArray]:
    """Widen the bounds of each feature until a kernel density has mass ``epsilon`` outside.

    The density has a Gaussian kernel at each covered instance. Its width is chosen so that a
    kernel at the middle of the tight bounds has mass ``tau`` between them. Half of ``epsilon`` is
    left on each side. Bounds are never narrowed.

    Parameters
    ----------
    covered : array of shape (n_covered, n_features)
        Instances of positive bags inside the tight box.
    lower, upper : array of shape (n_features,)
        The tight bounds.
    tau, epsilon : float
        Both between 0 and 1.

    Returns
    -------
    lower, upper : array of shape (n_features,)

    Notes
    -----
    Cost: 60 bisections of O(n_covered n_features).

    Examples
    --------
    >>> import numpy as np
    >>> low, high = expand_bounds(
    ...     np.array([[0.0], [2.0]]), np.zeros(1), np.full(1, 2.0), tau=0.95, epsilon=0.05
    ... )
    >>> bool(np.isclose(high[0] - 2.0, -low[0])) and bool(high[0] > 2.0)
    True
    """
    width = (upper - lower) / (2 * ndtri((1 + tau) / 2))
    safe = np.where(width > 0, width, 1.0)
    # Farther than this from the outermost instance the mass is below epsilon / 2.
    reach = -ndtri(epsilon / 2) * width

    def search(inner: FloatArray, outer: FloatArray, sign: float) -> FloatArray:
        for _ in range(_BISECTIONS):
            middle = (inner + outer) / 2
            mass = ndtr(sign * (covered - middle) / safe).mean(axis=0)
            enough = mass > epsilon / 2
            inner, outer = np.where(enough, middle, inner), np.where(enough, outer, middle)
        return outer

    wide_upper = search(upper, upper + reach, 1.0)
    wide_lower = search(lower, lower - reach, -1.0)
    return np.minimum(lower, wide_lower), np.maximum(upper, wide_upper)


@with_parameters
class APR(MaxInstanceClassifier):
    """APR: axis-parallel rectangle by iterated discrimination.

    Implements the iterated-discrimination algorithm of Dietterich, Lathrop and Lozano-Perez: grow
    a tight box around one instance of every positive bag with back-fitting, choose the features
    that discriminate against the negatives, alternate the two until the features stop changing,
    and expand the bounds by kernel density estimation. A bag is positive if one of its instances
    lies inside.

    Departs from the paper: the margin of a strong exclusion, 1 Angstrom there, is ``margin`` in
    units of the (z-scored) features. If the box contains every negative, no feature discriminates
    and the current features are kept.

    Parameters
    ----------
    margin : float, default=1.0
        Distance from the box, in units of the features, beyond which a negative is strongly
        excluded.
    tau : float, default=0.999
        Mass between the tight bounds of a kernel at their middle: the nearer to 1, the narrower
        the kernel and the smaller the expansion.
    epsilon : float, default=0.01
        Mass of the density of each feature left outside the final bounds.
    n_seeds : int, default=1
        Boxes to grow in each round; 1 is the paper. A box is grown without looking at the
        negatives, so it may enclose a dense background that all bags share. With more seeds the
        box with fewest negatives is kept.
    {probability}
    {pos_label}

    Attributes
    ----------
    features_ : array of int
        The features of the box.
    lower_, upper_ : array of shape (n_kept_features,)
        Its final bounds.
    tight_lower_, tight_upper_ : array of shape (n_kept_features,)
        Its bounds before the expansion.
    n_iter_ : int
        Number of alternations.
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the instance of each positive training bag that lies deepest in the box.
    {instance_scores_}

    Notes
    -----
    The decision value of an instance is ``1 - max over features of |x - middle| / half width``:
    1 at the middle of the box, 0 on its surface, -1 at twice its size. A bag has the value of its
    best instance.

    Cost: an alternation takes O(n_positive_bags n_positive_instances n_features) for growing and
    O(n_negatives n_features) for discriminating.

    When to use: A concept that is a range of a few features, such as drug activity.

    Defaults: epsilon and tau are published; margin is one unit of a z-scored feature, and n_seeds
    the one seed of the paper. None was tuned.

    Below its published figures: Tiger: 56.6 in 5 x 10 folds, 3.2 below the printed 59.8. A box with
    an instance of every positive bag contains instances of most negative bags.

    References
    ----------
    Dietterich, Lathrop, Lozano-Perez: Solving the multiple instance problem with axis-parallel
    rectangles, Artificial Intelligence 89 (1997).

    Examples
    --------
    >>> from pigmil import APR
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> APR().fit(bags).score(bags, bags.y)
    1.0
    """

    margin: float = 1.0
    tau: float = 0.999
    epsilon: float = 0.01
    n_seeds: int = 1

    card = Card("APR", "Axis-parallel rectangle, iterated discrimination")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "margin": NOT_NEGATIVE,
        "tau": [Interval(Real, 0, 1, closed="neither")],
        "epsilon": [Interval(Real, 0, 1, closed="neither")],
        "n_seeds": AT_LEAST_ONE,
    }

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        positive_bags = bags[positive]
        instances = np.asarray(positive_bags.instances, dtype=np.float64)
        negatives = np.asarray(bags[~positive].instances, dtype=np.float64)
        self._alternate(instances, positive_bags.offsets, negatives)
        covered = instances[:, self.features_]
        within = (covered >= self.tight_lower_) & (covered <= self.tight_upper_)
        self.lower_, self.upper_ = expand_bounds(
            covered[within.all(axis=1)],
            self.tight_lower_,
            self.tight_upper_,
            tau=self.tau,
            epsilon=self.epsilon,
        )
        # Lower bound of the half width: a feature may have a single value in the box.
        largest = np.maximum(np.abs(self.lower_), np.abs(self.upper_))
        spread = np.concatenate([instances, negatives])[:, self.features_].std(axis=0)
        self._resolution = np.maximum(4 * np.spacing(largest), 1e-9 * spread)
        self._resolution[self._resolution < 1e-300] = 1e-9
        self._set_detection(bags, positive, self._score_instances(bags))

    def _alternate(self, instances: FloatArray, offsets: IntArray, negatives: FloatArray) -> None:
        """Grow and discriminate until the features stop changing."""
        features = np.arange(instances.shape[1])
        self.n_iter_ = 0
        # Every round drops some features, so the loop ends.
        while True:
            self.n_iter_ += 1
            chosen = grow_box(instances[:, features], offsets, negatives[:, features], self.n_seeds)
            box = instances[chosen][:, features]
            lower, upper = box.min(axis=0), box.max(axis=0)
            self.features_, self.tight_lower_, self.tight_upper_ = features, lower, upper
            kept = discriminating_features(negatives[:, features], lower, upper, self.margin)
            if len(kept) in (0, len(features)):
                return
            features = features[kept]

    def _score_instances(self, bags: Bags) -> FloatArray:
        middle = (self.lower_ + self.upper_) / 2
        # The surface belongs to the box, in spite of rounding.
        half = (self.upper_ - self.lower_) / 2 * (1 + 1e-9) + self._resolution
        values = np.asarray(bags.instances[:, self.features_], dtype=np.float64)
        return 1.0 - (np.abs(values - middle) / half).max(axis=1)
