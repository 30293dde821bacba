"""The linear walk of SoftPIGMIL over all instances of bags that are too many to work with.

Each round is one pass: a block of whole bags needs one direction per bag, and returns one place
per bag. So it runs alike on bags in memory and block by block on bags on disk.
"""

import itertools
from dataclasses import dataclass
from functools import partial

import numpy as np

from pigmil._core.segments import segment_ids
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._soft_steps import soft_pool
from pigmil.estimators._soft_views import fit_scale, whitening
from pigmil.scale import LazyBags, map_instances

_RIDGE = 0.5


@dataclass(frozen=True)
class Plane:
    """The whitened linear view of the instances: ``psi = x . axes - shift``.

    Parameters
    ----------
    axes : array of shape (n_features, n_directions)
    shift : array of shape (n_directions,)
    spread : array of shape (n_directions, n_directions)
        Covariance of the negatives in this view.
    """

    axes: FloatArray
    shift: FloatArray
    spread: FloatArray


def fit_plane(rows: FloatArray, negative: BoolArray) -> Plane:
    """Standardize and whiten the instances of a sample; ``negative`` marks certain negatives."""
    scale = fit_scale("standard", rows)
    scaled = scale.apply(rows)
    projection, shift = whitening(scaled, None, _RIDGE)
    negatives = scaled[negative] @ projection
    spread = np.atleast_2d(np.cov(negatives, rowvar=False, bias=True))
    axes = scale.factor[:, None] * projection
    return Plane(axes, shift + scale.center @ axes, spread)


def screen(
    bags: Bags | LazyBags, positive: BoolArray, plane: Plane, *, sharpness: float, n_rounds: int
) -> FloatArray:
    """Return the scores of all instances after some rounds of the walk in a plane.

    As :class:`~pigmil.estimators._soft_steps.WalkProblem`, but the standard deviation of the
    negatives' scores is that of the sample.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    positive : array of bool of shape (n_bags,)
        Which of them are positive.
    plane : Plane
        The view.
    sharpness : float
        Factor of the scores in the softmax that shares a place.
    n_rounds : int
        Number of updates of the pool; each takes one pass over the bags.
    """
    means = map_instances(_bag_means, bags) @ plane.axes - plane.shift
    places = means[positive]
    for number in range(n_rounds + 1):
        directions = directions_of_bags(places, means, np.diff(bags.offsets), positive)
        overall = directions[~positive].mean(axis=0)
        spread = float(np.sqrt(max(overall @ plane.spread @ overall, 0.0)))
        directions /= spread if spread > 1e-12 else 1.0
        coefs, intercepts = directions @ plane.axes.T, -directions @ plane.shift
        if number == n_rounds:
            break
        pooled = partial(_soft_places, sharpness=sharpness)
        places = map_instances(pooled, bags, coefs, intercepts, positive)[positive]
        places = places @ plane.axes - plane.shift
    return map_instances(_linear_scores, bags, coefs, intercepts)


def directions_of_bags(
    places: FloatArray, means: FloatArray, sizes: IntArray, positive: BoolArray
) -> FloatArray:
    """Return for each bag the mean place of the positive bags less the mean of the negatives.

    A bag counts neither itself among the places nor its instances among the negatives.

    Parameters
    ----------
    places : array of shape (n_positive_bags, n_directions)
        ``sum_j q_j psi_j`` of each positive bag.
    means : array of shape (n_bags, n_directions)
        Mean instance of each bag.
    sizes : array of int of shape (n_bags,)
        Numbers of instances.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Examples
    --------
    >>> import numpy as np
    >>> places, means = np.array([[2.0], [4.0]]), np.array([[1.0], [1.0], [-1.0], [-3.0]])
    >>> directions_of_bags(places, means, np.array([5, 5, 1, 1]), np.arange(4) < 2).ravel()
    array([6., 4., 6., 4.])
    """
    n_positive = len(places)
    towards = np.repeat(places.mean(axis=0, keepdims=True), len(positive), axis=0)
    towards[positive] = (places.sum(axis=0) - places) / max(n_positive - 1, 1)
    own = np.where(positive, 0, sizes)
    n_others = np.maximum(own.sum() - own, 1)[:, None]
    against = (own @ means - own[:, None] * means) / n_others
    return np.asarray(towards - against, dtype=np.float64)


def _bag_means(block: Bags) -> FloatArray:
    shares = 1.0 / np.repeat(block.sizes, block.sizes)
    return _weighted_sums(block, shares)


def _linear_scores(block: Bags, coefs: FloatArray, intercepts: FloatArray) -> FloatArray:
    rows = block.instances
    coefs = coefs.astype(rows.dtype)
    parts = [
        rows[start:stop] @ coef
        for (start, stop), coef in zip(itertools.pairwise(block.offsets), coefs, strict=True)
    ]
    scores = np.concatenate(parts).astype(np.float64)
    return np.asarray(scores + intercepts[segment_ids(block.offsets)], dtype=np.float64)


def _soft_places(
    block: Bags,
    coefs: FloatArray,
    intercepts: FloatArray,
    positive: BoolArray,
    *,
    sharpness: float,
) -> FloatArray:
    """Return the mean instance of each positive bag under the softmax of the scores, else 0."""
    places = np.zeros((block.n_bags, block.n_features))
    if positive.any():
        some = block[np.flatnonzero(positive)]
        scores = _linear_scores(some, coefs[positive], intercepts[positive])
        places[positive] = _weighted_sums(some, soft_pool(scores, some.offsets, sharpness))
    return places


def _weighted_sums(block: Bags, shares: FloatArray) -> FloatArray:
    rows = block.instances
    shares = shares.astype(rows.dtype)
    sums = [shares[a:b] @ rows[a:b] for a, b in itertools.pairwise(block.offsets)]
    return np.asarray(sums, dtype=np.float64)
