"""Synthetic sets: BASIC, RHOMBUS and RING of the paper, and bags that test an assumption."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.utils import check_random_state

from pigmil._core.segments import offsets_of
from pigmil.bags import Bags

_MAX_DRAWS = 200
POSITIVE, NEGATIVE = 1, -1
NOISE_LEVELS = range(6)
Pair = tuple[float, float]
Points = NDArray[np.float64]
# Geometry of the three sets: fitted so that the baselines reproduce Table I of the paper.
BASIC_NEGATIVES: tuple[Pair, Pair] = ((0.0, 0.0), (1.0, 1.35))  # centre and half widths of a box
BASIC_IMPOSTORS: tuple[Pair, Pair] = ((0.9, 1.8), (0.15, 0.3))
BASIC_POSITIVES: tuple[Pair, Pair] = ((0.4, -1.85), (1.0, 0.16))  # means, standard deviations
RHOMBUS_POSITIVE_X, RHOMBUS_POSITIVE_STD = 1.1, (0.49, 0.33)  # left and right of the origin
RHOMBUS_NEGATIVE_Y, RHOMBUS_NEGATIVE_BOX = 0.73, (1.05, 0.78)  # above and below the origin
RING_POSITIVE_STD, RING_RADII = 0.25, (1.2, 3.0)
Group = tuple[int, float, float, int]  # number of instances, mean, standard deviation, label
POISON: Group = (1, -10.0, 0.1, 0)


@dataclass(frozen=True)
class Layout:
    """Numbers of bags and instances of a synthetic set, its noise and scaling."""

    n_positive_bags: int = 20
    n_negative_bags: int = 20
    positives_per_bag: int = 4
    negatives_per_bag: int = 4
    negative_bag_size: int = 8
    noise: int = 0
    noise_kind: str = "swap"
    scale: bool = True

    def __post_init__(self) -> None:
        for name in [field.name for field in fields(self)[:5]]:  # of bags and instances
            value, least = getattr(self, name), int(name != "negatives_per_bag")
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
        if not isinstance(self.noise, int | np.integer) or self.noise not in NOISE_LEVELS:
            raise ValueError(f"noise must be a level from 0 to 5; got {self.noise!r}.")
        if self.noise_kind not in ("swap", "labels"):
            raise ValueError(f"noise_kind must be 'swap' or 'labels'; got {self.noise_kind!r}.")

    @property
    def n_positives(self) -> int:
        """Number of positive instances before noise."""
        return self.n_positive_bags * self.positives_per_bag

    @property
    def n_impostors(self) -> int:
        """Number of negative instances inside positive bags."""
        return self.n_positive_bags * self.negatives_per_bag

    @property
    def n_negatives(self) -> int:
        """Number of instances of negative bags before noise."""
        return self.n_negative_bags * self.negative_bag_size


def make_basic(random_state: Any = None, **options: Any) -> Bags:
    """Draw BASIC: positives below a box of negatives, linearly separable.

    The negatives of positive bags form a separate, tight box above the others. It misleads methods
    that only look for instances far from negative bags.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed; the same seed gives the same bags.
    n_positive_bags, n_negative_bags : int, default=20
        Number of bags.
    positives_per_bag, negatives_per_bag : int, default=4
        Positive and negative instances of each positive bag.
    negative_bag_size : int, default=8
        Instances of each negative bag.
    noise : int from 0 to 5, default=0
        Level k relabels (k - 1) * 10 % of the positives and k * 10 % of the negatives.
    noise_kind : {"swap", "labels"}, default="swap"
        ``"swap"``: positives of positive bags become negatives and move to negative bags,
        instances of negative bags become positives and move to positive bags; the sizes of
        bags change. An instance gets the label of its new class, so negative bags have no positive
        labels. ``"labels"``: instances do not move, and only the labels of instances in positive
        bags are flipped; instances of negative bags stay negative, because a bag with a positive
        instance is positive.
    scale : bool, default=True
        Scale both features to zero mean and unit variance over all instances.

    Returns
    -------
    Bags
        Positive bags first; ``y`` and ``instance_labels`` are -1 and +1.

    Notes
    -----
    Departs from the paper: it does not print the geometry. The numbers were fitted so that the
    baselines reproduce its Table I. The draw is repeated until a line separates positives from
    negatives (before noise), which a linear program decides.
    Cost: linear in the instances, and one small linear program per draw.

    Examples
    --------
    >>> from pigmil.datasets import make_basic
    >>> make_basic(random_state=0)
    Bags(40 bags, 320 instances, 2 features, float64, labels -1: 20, 1: 20)
    """
    rng = check_random_state(random_state)
    layout = Layout(**options)
    for _ in range(_MAX_DRAWS):
        positives = rng.normal(*BASIC_POSITIVES, (layout.n_positives, 2))
        impostors = _box(*BASIC_IMPOSTORS, layout.n_impostors, rng)
        negatives = _box(*BASIC_NEGATIVES, layout.n_negatives, rng)
        if linearly_separable(positives, np.concatenate([impostors, negatives])):
            return assemble(positives, impostors, negatives, layout, rng)
    raise ValueError(f"No linearly separable set in {_MAX_DRAWS} draws; draw fewer instances.")


def make_rhombus(random_state: Any = None, *, impostors: str = "copies", **options: Any) -> Bags:
    """Draw RHOMBUS: positives left and right, negatives above and below.

    The side is drawn for each positive instance and for each negative bag.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed; the same seed gives the same bags.
    n_positive_bags, n_negative_bags, positives_per_bag, negatives_per_bag, negative_bag_size
        As in :func:`make_basic`.
    noise, noise_kind, scale
        As in :func:`make_basic`.
    impostors : {"copies", "fresh"}, default="copies"
        Negatives of positive bags: copies of instances of negative bags, drawn without
        replacement, as in the paper; or new points of the same boxes, the side drawn for each.
        A rule that ranks exact copies of negatives last solves ``"copies"`` trivially.

    Returns
    -------
    Bags
        Positive bags first; ``y`` and ``instance_labels`` are -1 and +1.

    Notes
    -----
    Departs from the paper: it does not print the geometry, see :func:`make_basic`.
    Cost: linear in the instances.

    Examples
    --------
    >>> from pigmil.datasets import make_rhombus
    >>> make_rhombus(random_state=0, negatives_per_bag=1).sizes[:3]
    array([5, 5, 5])
    """
    if impostors not in ("copies", "fresh"):
        raise ValueError(f"impostors must be 'copies' or 'fresh'; got {impostors!r}.")
    rng = check_random_state(random_state)
    layout = Layout(**options)
    positives = rng.normal(0.0, RHOMBUS_POSITIVE_STD, (layout.n_positives, 2))
    positives[:, 0] += RHOMBUS_POSITIVE_X * rng.choice([-1.0, 1.0], layout.n_positives)
    negatives = _box((0.0, 0.0), RHOMBUS_NEGATIVE_BOX, layout.n_negatives, rng)
    side = rng.choice([-1.0, 1.0], layout.n_negative_bags)
    negatives[:, 1] += RHOMBUS_NEGATIVE_Y * np.repeat(side, layout.negative_bag_size)
    if impostors == "copies":
        drawn = negatives[rng.choice(layout.n_negatives, layout.n_impostors, replace=False)]
    else:
        drawn = _box((0.0, 0.0), RHOMBUS_NEGATIVE_BOX, layout.n_impostors, rng)
        drawn[:, 1] += RHOMBUS_NEGATIVE_Y * rng.choice([-1.0, 1.0], layout.n_impostors)
    return assemble(positives, drawn, negatives, layout, rng)


def make_ring(random_state: Any = None, **options: Any) -> Bags:
    """Draw RING: positives at the origin inside a ring of negatives, uniform in its area.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed; the same seed gives the same bags.
    n_positive_bags, n_negative_bags, positives_per_bag, negatives_per_bag, negative_bag_size
        As in :func:`make_basic`.
    noise, noise_kind, scale
        As in :func:`make_basic`.

    Returns
    -------
    Bags
        Positive bags first; ``y`` and ``instance_labels`` are -1 and +1.

    Notes
    -----
    Departs from the paper: it does not print the geometry, see :func:`make_basic`.
    Cost: linear in the instances.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> int((bags.instance_labels == 1).sum())
    80
    """
    rng = check_random_state(random_state)
    layout = Layout(**options)
    positives = rng.normal(0.0, RING_POSITIVE_STD, (layout.n_positives, 2))
    impostors = _ring(*RING_RADII, layout.n_impostors, rng)
    negatives = _ring(*RING_RADII, layout.n_negatives, rng)
    return assemble(positives, impostors, negatives, layout, rng)


def linearly_separable(one: Points, other: Points) -> bool:
    """Return whether a line (a hyperplane) strictly separates two sets of points.

    A linear program decides whether ``w.x + b >= 1`` on one set and ``<= -1`` on the other is
    feasible.

    Examples
    --------
    >>> import numpy as np
    >>> linearly_separable(np.array([[0.0], [1.0]]), np.array([[2.0]]))
    True
    >>> linearly_separable(np.array([[0.0], [2.0]]), np.array([[1.0]]))
    False
    """
    signs = np.concatenate([-np.ones(len(one)), np.ones(len(other))])[:, None]
    points = np.concatenate([one, other])
    sides = signs * np.column_stack([points, np.ones(len(points))])
    nothing, least = np.zeros(sides.shape[1]), -np.ones(len(points))
    answer = linprog(nothing, A_ub=sides, b_ub=least, bounds=(None, None))
    return bool(answer.status == 0)


def _box(center: Pair, half_widths: Pair, n: int, rng: RandomState) -> Points:
    box: Points = np.asarray(center) + np.asarray(half_widths) * rng.uniform(-1, 1, (n, 2))
    return box


def _ring(inner: float, outer: float, n: int, rng: RandomState) -> Points:
    radius = np.sqrt(rng.uniform(inner**2, outer**2, n))
    angle = rng.uniform(0, 2 * np.pi, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def assemble(
    positives: Points, impostors: Points, negatives: Points, layout: Layout, rng: RandomState
) -> Bags:
    """Distribute points to bags, positive bags first, and apply noise and scaling.

    The instances of a bag are shuffled, so their order contains no information.
    """
    points = np.concatenate([positives, impostors, negatives])
    n_bags = layout.n_positive_bags + layout.n_negative_bags
    y = np.repeat([POSITIVE, NEGATIVE], [layout.n_positive_bags, layout.n_negative_bags])
    positive_bags, negative_bags = np.split(np.arange(n_bags), [layout.n_positive_bags])
    sizes = (layout.positives_per_bag, layout.negatives_per_bag, layout.negative_bag_size)
    owners = zip((positive_bags, positive_bags, negative_bags), sizes, strict=True)
    owner = np.concatenate([np.repeat(bags, size) for bags, size in owners])
    truth = np.where(np.arange(len(points)) < layout.n_positives, POSITIVE, NEGATIVE)
    if layout.noise:
        _add_noise(truth, owner, layout, rng)
    if layout.scale:
        points = (points - points.mean(axis=0)) / points.std(axis=0)
    order = np.lexsort((rng.permutation(len(points)), owner))
    return Bags(
        points[order],
        offsets_of(np.bincount(owner, minlength=n_bags)),
        y=y,
        instance_labels=truth[order],
        feature_names=[f"x{column}" for column in range(points.shape[1])],
    )


def _add_noise(truth: NDArray[Any], owner: NDArray[Any], layout: Layout, rng: RandomState) -> None:
    """Relabel instances; with ``"swap"`` move each to a bag of the other class, evenly."""
    level, n_positives = int(layout.noise), layout.n_positives
    to_negative = rng.choice(n_positives, round((level - 1) * n_positives / 10), replace=False)
    truth[to_negative] = NEGATIVE
    if layout.noise_kind == "labels":
        n_flipped = round(level * layout.n_impostors / 10)
        truth[n_positives + rng.choice(layout.n_impostors, n_flipped, replace=False)] = POSITIVE
        return
    # One instance of each negative bag stays, so that none becomes empty.
    within = np.argsort(rng.random_sample((layout.n_negative_bags, layout.negative_bag_size)), 1)
    start = layout.negative_bag_size * np.arange(layout.n_negative_bags)
    movable = n_positives + layout.n_impostors + (start[:, None] + within[:, 1:]).ravel()
    n_moved = round(level * layout.n_negatives / 10)
    if n_moved > len(movable):
        raise ValueError(f"noise={level} would empty negative bags; raise negative_bag_size.")
    to_positive = rng.choice(movable, n_moved, replace=False)
    truth[to_positive] = POSITIVE
    targets = _even_bags(len(to_negative), layout.n_negative_bags, rng)
    owner[to_negative] = layout.n_positive_bags + targets
    owner[to_positive] = _even_bags(len(to_positive), layout.n_positive_bags, rng)


def _even_bags(n: int, n_bags: int, rng: RandomState) -> NDArray[Any]:
    """Return the bag of each of n instances, spread as evenly as possible."""
    bags: NDArray[Any] = rng.permutation(n_bags)[np.arange(n) % n_bags]
    return bags


def make_assumption_bags(
    test: str,
    random_state: Any = None,
    *,
    n_train_bags: int = 200,
    n_test_bags: int = 200,
    n_features: int = 16,
) -> tuple[Bags, Bags]:
    """Draw the training and test bags of an algorithmic unit test of Raff and Holt.

    The test bags differ from the training bags in a way that does not matter to a model which
    keeps the assumption under test, and misleads one that does not. Each feature of an instance is
    drawn from the same normal distribution; half of the bags are positive. ``N(m, s)`` has mean
    ``m`` and standard deviation ``s``; all bags also hold background from N(0, 1).

    ``"single_concept"`` (Algorithm 1)
        Positive bags hold one to three instances from N(0, 3). In training every negative bag also
        holds an instance of poison, N(-10, 0.1); in the test every positive bag does. No instance
        makes a bag negative, so poison must not lower a score.
    ``"multi_concept"`` (Algorithm 2)
        Positive bags hold one to four instances of A = N(2, 0.1) and one to four of B = N(3, 0.1),
        negative bags a single one of A or of B. In training every negative and one in ten positive
        bags hold poison; in the test every positive bag does.
    ``"false_frequency"`` (Algorithm 3)
        Positive bags hold one instance of A = N(-2, 0.1) and one of B = N(2, 0.1), negative
        bags one of A or of B: in the test 35 to 39 of it. Both concepts make a bag positive, not
        how often one of them occurs.

    Departs from the paper: these are the distributions of the published code. There a coin decides
    between two kinds of positive instances in ``"single_concept"``, but always falls on the first.

    Parameters
    ----------
    test : {"single_concept", "multi_concept", "false_frequency"}
        Which test.
    random_state : int, RandomState or None
        Seed; the same seed gives the same bags.
    n_train_bags, n_test_bags : int, default=200
        Number of bags; half of them are positive.
    n_features : int, default=16
        Number of features.

    Returns
    -------
    train, test : Bags
        Negative bags first; ``y`` and ``instance_labels`` are 0 and 1. Concepts are positive
        instances in positive bags only.

    Notes
    -----
    Cost: linear in the instances.

    References
    ----------
    Raff, Holt: Reproducibility in Multiple Instance Learning: A Case For Algorithmic Unit Tests,
    NeurIPS 2023.

    Examples
    --------
    >>> from pigmil.datasets import make_assumption_bags
    >>> train, test = make_assumption_bags("single_concept", random_state=0)
    >>> test.n_bags, test.n_features
    (200, 16)
    """
    if test not in ASSUMPTION_TESTS:
        raise ValueError(f"Unknown test {test!r}; known tests: {', '.join(ASSUMPTION_TESTS)}.")
    rng = check_random_state(random_state)
    train = _draw(test, rng, n_train_bags, n_features, in_test=False)
    return train, _draw(test, rng, n_test_bags, n_features, in_test=True)


def _draw(test: str, rng: RandomState, n_bags: int, n_features: int, *, in_test: bool) -> Bags:
    y = (np.arange(n_bags) >= n_bags - n_bags // 2).astype(np.int64)
    parts, labels = list[NDArray[Any]](), list[NDArray[Any]]()
    for label in y:
        groups = _ASSUMPTIONS[test](rng, bool(label), in_test)
        parts.append(
            np.vstack([rng.normal(mean, std, (n, n_features)) for n, mean, std, _ in groups])
        )
        labels.append(np.concatenate([np.full(n, kind) for n, _, _, kind in groups]))
    return Bags.from_list(parts, y=y, instance_labels=labels)


def _single_concept(rng: RandomState, positive: bool, in_test: bool) -> list[Group]:
    groups = [POISON] if positive == in_test else []
    if positive:
        groups.append((rng.randint(1, 4), 0.0, 3.0, 1))
    return [*groups, (rng.randint(1, 5 if positive else 10), 0.0, 1.0, 0)]


def _multi_concept(rng: RandomState, positive: bool, in_test: bool) -> list[Group]:
    poisoned = positive == in_test or (positive and rng.randint(10) == 0)
    groups = [POISON] if poisoned else []
    if positive:
        groups += [(rng.randint(1, 5), mean, 0.1, 1) for mean in (2.0, 3.0)]
    else:
        groups.append((1, rng.choice([2.0, 3.0]), 0.1, 0))
    return [*groups, (rng.randint(1, 5), 0.0, 1.0, 0)]


def _false_frequency(rng: RandomState, positive: bool, in_test: bool) -> list[Group]:
    if positive:
        groups: list[Group] = [(1, mean, 0.1, 1) for mean in (-2.0, 2.0)]
    else:
        repeats = rng.randint(35, 40) if in_test else 1
        groups = [(repeats, rng.choice([-2.0, 2.0]), 0.1, 0)]
    return [*groups, (rng.randint(1, 10), 0.0, 1.0, 0)]


_ASSUMPTIONS = {
    "single_concept": _single_concept,
    "multi_concept": _multi_concept,
    "false_frequency": _false_frequency,
}
ASSUMPTION_TESTS = tuple(_ASSUMPTIONS)
