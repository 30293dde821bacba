"""Build bags from drawn points: sizes, label noise, scaling."""

from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import offsets_of
from pigmil.bags import Bags

Points = NDArray[np.float64]
POSITIVE, NEGATIVE = 1, -1
NOISE_LEVELS = range(6)


class LayoutOptions(TypedDict, total=False):
    """The parameters that all synthetic sets share."""

    n_positive_bags: int
    n_negative_bags: int
    positives_per_bag: int
    negatives_per_bag: int
    negative_bag_size: int
    noise: int
    noise_kind: str
    scale: bool


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
        for name, least in (
            ("n_positive_bags", 1),
            ("n_negative_bags", 1),
            ("positives_per_bag", 1),
            ("negatives_per_bag", 0),
            ("negative_bag_size", 1),
        ):
            value = getattr(self, name)
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


def assemble(
    positives: Points,
    impostors: Points,
    negatives: Points,
    layout: Layout,
    rng: np.random.RandomState,
) -> Bags:
    """Distribute points to bags, positive bags first, and apply noise and scaling.

    The instances of a bag are shuffled, so their order contains no information.
    """
    points = np.concatenate([positives, impostors, negatives])
    truth = np.full(len(points), NEGATIVE)
    truth[: layout.n_positives] = POSITIVE
    positive_bags = np.arange(layout.n_positive_bags)
    negative_bags = layout.n_positive_bags + np.arange(layout.n_negative_bags)
    owner = np.concatenate(
        [
            np.repeat(positive_bags, layout.positives_per_bag),
            np.repeat(positive_bags, layout.negatives_per_bag),
            np.repeat(negative_bags, layout.negative_bag_size),
        ]
    )
    if layout.noise and layout.noise_kind == "labels":
        truth = _flip_labels(truth, layout, rng)
    elif layout.noise:
        truth, owner = _swap_classes(truth, owner, layout, rng)
    if layout.scale:
        points = (points - points.mean(axis=0)) / points.std(axis=0)
    order = np.lexsort((rng.permutation(len(points)), owner))
    n_bags = layout.n_positive_bags + layout.n_negative_bags
    y = np.full(n_bags, NEGATIVE)
    y[: layout.n_positive_bags] = POSITIVE
    return Bags(
        points[order],
        offsets_of(np.bincount(owner, minlength=n_bags)),
        y=y,
        instance_labels=truth[order],
        feature_names=[f"x{column}" for column in range(points.shape[1])],
    )


def _share(tenths: int, n: int) -> int:
    return round(tenths * n / 10)


def _flip_labels(truth: NDArray[Any], layout: Layout, rng: np.random.RandomState) -> NDArray[Any]:
    """Flip labels of instances of positive bags; no instance moves."""
    level, n_positives = int(layout.noise), layout.n_positives
    to_negative = rng.choice(n_positives, _share(level - 1, n_positives), replace=False)
    to_positive = rng.choice(layout.n_impostors, _share(level, layout.n_impostors), replace=False)
    truth = truth.copy()
    truth[to_negative] = NEGATIVE
    truth[n_positives + to_positive] = POSITIVE
    return truth


def _swap_classes(
    truth: NDArray[Any], owner: NDArray[Any], layout: Layout, rng: np.random.RandomState
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Relabel instances and move each to a bag of the other class, evenly."""
    level, n_positives = int(layout.noise), layout.n_positives
    first_negative = n_positives + layout.n_impostors
    to_negative = rng.choice(n_positives, _share(level - 1, n_positives), replace=False)
    # One instance of each negative bag stays, so that none becomes empty.
    within = np.argsort(rng.random_sample((layout.n_negative_bags, layout.negative_bag_size)), 1)
    start = first_negative + layout.negative_bag_size * np.arange(layout.n_negative_bags)
    movable = (start[:, None] + within[:, 1:]).ravel()
    n_moved = _share(level, layout.n_negatives)
    if n_moved > len(movable):
        raise ValueError(
            f"noise={level} moves {n_moved} of {layout.n_negatives} instances out of negative bags "
            f"of {layout.negative_bag_size}, which would empty some; use a larger "
            "negative_bag_size or noise_kind='labels'."
        )
    to_positive = rng.choice(movable, n_moved, replace=False)
    truth, owner = truth.copy(), owner.copy()
    truth[to_negative], truth[to_positive] = NEGATIVE, POSITIVE
    owner[to_negative] = layout.n_positive_bags + _even_bags(
        len(to_negative), layout.n_negative_bags, rng
    )
    owner[to_positive] = _even_bags(len(to_positive), layout.n_positive_bags, rng)
    _check_not_empty(owner, layout)
    return truth, owner


def _even_bags(n: int, n_bags: int, rng: np.random.RandomState) -> NDArray[Any]:
    """Return the bag of each of n instances, spread as evenly as possible."""
    bags: NDArray[Any] = rng.permutation(n_bags)[np.arange(n) % n_bags]
    return bags


def _check_not_empty(owner: NDArray[Any], layout: Layout) -> None:
    sizes = np.bincount(owner, minlength=layout.n_positive_bags)
    if (sizes[: layout.n_positive_bags] == 0).any():
        raise ValueError(
            f"noise={layout.noise} leaves a positive bag without instances; use a larger "
            "positives_per_bag or negatives_per_bag, or noise_kind='labels'."
        )
