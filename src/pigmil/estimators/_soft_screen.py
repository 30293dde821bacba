"""The linear contrast of SoftPIGMIL over all instances of bags that are too many to work with.

Each round is one pass: a block of whole bags needs some directions per bag, and returns a place
and a best score per bag for each. So it runs on bags in memory and, block by block, on bags on
disk. A contrast is a walk in which negative bags have a pool as well: what the softmax does to
every bag cancels, and what is left is particular to positive bags. It runs in one linear view, for
all bags and without each fold of bags at the same time.
"""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import segment_ids
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._soft_committee import Fit
from pigmil.estimators._soft_steps import Direction
from pigmil.estimators._soft_views import Scale, View, fit_scale, whitening
from pigmil.estimators._soft_weights import bag_auc
from pigmil.scale import HeldBlocks, LazyBags, map_instances

_RIDGE = 0.5
_SAME_DIRECTION = 0.99  # cosine from which a walk has arrived


@dataclass(frozen=True)
class Plane:
    """The whitened linear view of the instances: ``psi = x . axes - shift``.

    Parameters
    ----------
    scale : Scale
        Standardizes the features.
    view : View
        Whitens them.
    axes : array of shape (n_features, n_directions)
    shift : array of shape (n_directions,)
    center : array of shape (n_directions,)
        Mean of the negatives in this view.
    spread : array of shape (n_directions, n_directions)
        Covariance of the negatives in this view.
    """

    scale: Scale
    view: View
    axes: FloatArray
    shift: FloatArray
    center: FloatArray
    spread: FloatArray


def fit_plane(rows: FloatArray, negative: BoolArray) -> Plane:
    """Standardize and whiten the instances of a sample; ``negative`` marks certain negatives."""
    scale = fit_scale("standard", rows)
    scaled = scale.apply(rows)
    projection, shift = whitening(scaled, None, _RIDGE)
    negatives = scaled[negative] @ projection - shift
    spread = np.atleast_2d(np.cov(negatives, rowvar=False, bias=True))
    axes = scale.factor[:, None] * projection
    view = View(0, None, 0.0, False, projection, shift)
    return Plane(scale, view, axes, shift + scale.center @ axes, negatives.mean(axis=0), spread)


@dataclass(frozen=True)
class Screening:
    """Linear scores by a contrast in a plane, over all bags and without each fold.

    Parameters
    ----------
    plane : Plane
    coefs : array of shape (n_bags, 1 + n_folds, n_features)
        Along which the instances of each bag score, by the walk over all bags and by those
        without each fold. No bag has a part in its own direction.
    intercepts : array of shape (n_bags, 1 + n_folds)
        Added to these scores.
    directions : list of Direction
        The walks as linear scores of other instances.
    """

    plane: Plane
    coefs: FloatArray
    intercepts: FloatArray
    directions: list[Direction]

    def scores(self, rows: NDArray[Any], offsets: IntArray) -> NDArray[np.float32]:
        """Return the scores of instances by all walks; ``offsets`` are those of their bags."""
        return scores_along(rows, offsets, self.coefs, self.intercepts)

    def as_fit(self, rows: NDArray[Any], offsets: IntArray, folds: list[BoolArray]) -> Fit:
        """Return the screening as a model of some instances of each bag."""
        scores, owner = self.scores(rows, offsets), segment_ids(offsets)
        held_out = scores[:, 0]
        if folds:
            held_out = scores[np.arange(len(owner)), 1 + np.argmax(folds, axis=0)[owner]]
        return Fit(
            kind="screening",
            scores=scores[:, 0].astype(np.float64),
            held_out=held_out.astype(np.float64),
            direction=self.directions[0],
            apart=self.directions[1:],
            inner=[scores[~fold[owner], 1 + number] for number, fold in enumerate(folds)],
            traced=np.zeros(0, dtype=np.int64),
            rounds=[],
        )


def screen(
    bags: Bags | LazyBags,
    positive: BoolArray,
    plane: Plane,
    folds: list[BoolArray],
    *,
    n_rounds: int,
    blocks: LazyBags | HeldBlocks | None = None,
) -> Screening:
    """Find linear scores of the instances by a contrast in a plane, also without each fold.

    In each round the direction of a bag is the mean place of the other positive bags less that of
    the other negative bags (:func:`directions_of_bags`). Its instances score along it, in standard
    deviations of the negatives of the sample, and the softmax of the scores gives its new place.
    Of all rounds that one counts in which the best scores of bags have the greatest area under the
    ROC curve.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    positive : array of bool of shape (n_bags,)
        Which of them are positive.
    plane : Plane
        The view.
    folds : list of arrays of bool of shape (n_bags,)
        Bags to leave out together.
    n_rounds : int
        Most rounds; each takes one pass over the bags. Fewer if all directions stay the same.
    blocks : HeldBlocks or LazyBags, optional
        Result of :func:`pigmil.scale.hold_blocks` for these bags, to avoid reading them again.
    """
    taking_part = [np.ones(len(positive), dtype=bool), *(~fold for fold in folds)]
    means = map_instances(_bag_means, bags, blocks=blocks)
    places = np.repeat((means @ plane.axes - plane.shift)[:, None, :], len(taking_part), axis=1)
    best_auc = np.full(len(taking_part), -1.0)
    before: list[FloatArray] = []
    towards, chosen = np.zeros(places.shape), np.zeros(places.shape)
    directions = [Direction(np.zeros(plane.axes.shape[1]), 0.0, 1.0) for _ in taking_part]
    for _ in range(n_rounds):
        now = []
        for number, part in enumerate(taking_part):
            towards[:, number], overall = directions_of_bags(places[:, number], positive, part)
            spread = float(np.sqrt(max(float(overall @ plane.spread @ overall), 0.0)))
            now.append(Direction(overall, float(overall @ plane.center), max(spread, 1e-12)))
        # Where blocks are, directions are mapped to features and places back: it is shared work.
        function = partial(_best_and_place, plane.axes, plane.shift, now)
        table = map_instances(function, bags, towards, blocks=blocks)
        for number, part in enumerate(taking_part):
            auc = bag_auc(table[part, number, 0], positive[part])
            if auc > best_auc[number]:
                best_auc[number], directions[number] = auc, now[number]
                chosen[:, number] = towards[:, number]
        overalls = [direction.coef for direction in now]
        if before and all(map(_same_direction, overalls, before)):
            break
        before = overalls
        places = table[:, :, 1:]
    return Screening(plane, *_lines(plane.axes, plane.shift, directions, chosen), directions)


def directions_of_bags(
    places: FloatArray, positive: BoolArray, taking_part: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return for each bag the mean place of the positive bags less that of the negative bags.

    A bag does not count itself.

    Parameters
    ----------
    places : array of shape (n_bags, n_directions)
        ``sum_j q_j psi_j`` of each bag.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    taking_part : array of bool of shape (n_bags,)
        Which bags count at all.

    Returns
    -------
    directions : array of shape (n_bags, n_directions)
    overall : array of shape (n_directions,)
        The same for an instance of no bag that takes part.

    Examples
    --------
    >>> import numpy as np
    >>> places = np.array([[2.0], [4.0], [-1.0], [-3.0], [99.0]])
    >>> positive = np.array([True, True, False, False, True])
    >>> directions, overall = directions_of_bags(places, positive, np.arange(5) < 4)
    >>> directions.ravel(), overall
    (array([6., 4., 6., 4., 5.]), array([5.]))
    """
    sides, overall = [], []
    for side in (positive & taking_part, ~positive & taking_part):
        total, number = places[side].sum(axis=0), int(side.sum())
        others = (total - places) / max(number - 1, 1)
        overall.append(total / number)
        sides.append(np.where(side[:, None], others, overall[-1]))
    return np.asarray(sides[0] - sides[1], dtype=np.float64), overall[0] - overall[1]


def _same_direction(first: FloatArray, second: FloatArray) -> bool:
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) >= _SAME_DIRECTION * lengths


def _bag_means(block: Bags) -> FloatArray:
    rows = block.instances
    means = [rows[a:b].mean(axis=0) for a, b in itertools.pairwise(block.offsets)]
    return np.asarray(means, dtype=np.float64)


def scores_along(
    rows: NDArray[Any], offsets: IntArray, coefs: FloatArray, intercepts: FloatArray
) -> NDArray[np.float32]:
    """Return the scores of each instance along the directions of its bag."""
    coefs = coefs.astype(rows.dtype)
    parts = [
        rows[start:stop] @ each.T
        for (start, stop), each in zip(itertools.pairwise(offsets), coefs, strict=True)
    ]
    scores = np.concatenate(parts) + intercepts[segment_ids(offsets)]
    return np.asarray(scores, dtype=np.float32)


def _lines(
    axes: FloatArray, shift: FloatArray, directions: list[Direction], towards: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients of the features and intercepts of scores along directions in a plane.

    ``towards`` holds one direction per bag and walk, ``directions`` the center and the spread of
    each walk.
    """
    n_bags, n_walks, n_axes = towards.shape
    spreads = np.array([direction.spread for direction in directions])
    centers = np.array([direction.center for direction in directions])
    coefs = (towards.reshape(-1, n_axes) @ axes.T).reshape(n_bags, n_walks, len(axes))
    return coefs / spreads[:, None], -(towards @ shift + centers) / spreads


def _best_and_place(
    axes: FloatArray,
    shift: FloatArray,
    directions: list[Direction],
    block: Bags,
    towards: FloatArray,
) -> FloatArray:
    """Return the best score of each bag, and its place: its mean under the softmax of the scores.

    Both for every walk; places are in the plane.
    """
    rows, best_scores, means = block.instances, [], []
    lines = _lines(axes, shift, directions, towards)
    scores = scores_along(rows, block.offsets, *lines)
    for start, stop in itertools.pairwise(block.offsets):
        part = scores[start:stop].T
        best = part.max(axis=1, keepdims=True)
        shares = np.exp(part - best)
        shares /= shares.sum(axis=1, keepdims=True)
        best_scores.append(best)
        means.append(shares.astype(rows.dtype) @ rows[start:stop])
    places = np.concatenate(means).astype(np.float64) @ axes - shift
    best_column = np.concatenate(best_scores).astype(np.float64)
    return np.hstack([best_column, places]).reshape(len(towards), len(directions), -1)
