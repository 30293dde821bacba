"""SoftPIGMIL on more instances than its models are fitted on, in memory or on disk.

Models are fitted on a working set: some instances of each bag, the best by two rankings and a
random sample. The first ranking is a linear contrast over all instances; the second is that of a
first fit on the best of the contrast. A bag needs only its own scores and random numbers, and a
block holds whole bags: so the choice is made where the block is read.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from pigmil._core.segments import quota, segment_gather, segment_ids, segment_lowest
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._soft_models import (
    Model,
    Scale,
    Settings,
    WorkingSet,
    committee_scores,
    dense,
    fit_family,
    fit_scale,
    log_odds,
    whitening,
)
from pigmil.graph.scoring import bag_auc
from pigmil.scale import LazyBags, hold_blocks, map_blocks, map_instances


def choose_working_set(
    bags: Bags | LazyBags,
    positive: BoolArray,
    folds: list[BoolArray],
    settings: Settings,
    *,
    random_state: Any,
    n_jobs: int | None,
) -> tuple[WorkingSet, Callable[[WorkingSet, Scale], Model] | None]:
    """Return the instances worth working with, and the contrast as one more model of them.

    The contrast needs dense instances that are not very wide; it is no model if it could not be
    judged by bags held out.
    """
    most = max(settings.least_per_bag, quota(bags.sizes, settings.max_instances))
    seeds = check_random_state(random_state).randint(2**31 - 1, size=bags.n_bags)
    blocks = hold_blocks(bags) if isinstance(bags, LazyBags) else None  # for all passes below

    def working_set(rank: Callable[..., Sequence[FloatArray]], *per_bag: Any) -> WorkingSet:
        positions, rows = choose_instances(bags, rank, most, seeds, *per_bag, blocks=blocks)
        offsets = np.searchsorted(positions, bags.offsets).astype(np.int64)
        rows = dense(rows) if bags.n_features <= settings.wide else rows
        return WorkingSet(rows, positions, offsets, positive, folds)

    fold = fold_of_bags(positive, folds)
    work = working_set(partial(_rankings, None), fold)  # random samples
    lines: tuple[FloatArray, ...] = ()
    model = None
    if not bags.is_sparse and bags.n_features <= settings.contrast_features:
        few = bags.n_bags * bags.n_features <= settings.contrast_places
        search = partial(contrast, bags, work, folds if few else [], settings, blocks=blocks)
        found = search()
        if found.auc < settings.clear_contrast:
            other = search(within=True)
            found = max(found, other, key=lambda each: each.auc)
        lines = (found.coefs[:, :1], found.intercepts[:, :1])
        work = working_set(partial(_rankings, None), fold, *lines)
        model = found.as_model if few else None
    more = None if model is None else partial(model, work)
    first = fit_family(work, ("standard",), settings, more=more, n_jobs=n_jobs)
    work = working_set(partial(_rankings, first.committee()), fold, *lines)
    return work, model


def fold_of_bags(positive: BoolArray, folds: list[BoolArray]) -> IntArray:
    """Return the fold of each bag, -1 if there are none."""
    return np.argmax(folds, axis=0) if folds else np.full(len(positive), -1)


def _rankings(
    committee: tuple[list[Any], FloatArray] | None, block: Bags, fold: IntArray, *lines: FloatArray
) -> list[FloatArray]:
    """Score the instances of a block along the lines of their bags, and by other bags' models."""
    rankings = []
    if lines:
        rankings.append(scores_along(block.instances, block.offsets, *lines)[:, 0])
    if committee is not None:
        scores = committee_scores(*committee, block.instances)
        rankings.append(scores[np.arange(len(scores)), 1 + fold[segment_ids(block.offsets)]])
    return rankings


def score_block(
    committee: tuple[list[Any], FloatArray],
    forests: list[list[Any]],
    shares: tuple[float, FloatArray],
    block: Bags,
    fold: IntArray,
) -> FloatArray:
    """Return two scores of each instance of a block: by all bags, and by those of other folds.

    The forest is that of the other folds in both. ``shares`` are the factors of the committee and
    of the forests of each pool.
    """
    scores = committee_scores(*committee, block.instances)
    own = 1 + fold[segment_ids(block.offsets)]
    pair = shares[0] * np.column_stack([scores[:, 0], scores[np.arange(len(own)), own]])
    for number in np.unique(fold) if forests else ():
        rows = segment_gather(block.offsets, np.flatnonzero(fold == number))
        scaled = committee[0][0].scale.apply(dense(block.instances[rows]))
        for of_pool, gain in zip(forests, shares[1], strict=True):
            pair[rows] += gain * log_odds([of_pool[number]], scaled)[:, None]
    return pair


# --- some instances of each bag


def choose_instances(
    bags: Bags | LazyBags,
    rank: Callable[..., Sequence[FloatArray]],
    most: int,
    seeds: IntArray,
    *per_bag: NDArray[Any],
    blocks: Any = None,
) -> tuple[IntArray, Any]:
    """Choose ``most`` instances of each bag: the best by some rankings, and random ones.

    With k rankings each gives ``most / (k + 1)`` instances of a bag, rounded up.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    rank : callable
        Takes a block of bags and the entries of its bags in ``per_bag``; returns some scores of
        its instances, none for a random choice.
    most : int
        Largest number of instances of a bag; smaller bags are taken whole.
    seeds : array of int of shape (n_bags,)
        Seeds of the random numbers of each bag: the choice does not depend on how bags are cut
        into blocks.
    *per_bag : arrays
        With one entry per bag.
    blocks : LazyBags or blocks, optional
        Result of :func:`pigmil.scale.hold_blocks` for these bags.

    Returns
    -------
    positions : array of int
        Flat positions in ascending order.
    rows : array or CSR
        These instances.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[3.0], [9.0], [1.0]]), np.array([[5.0]])])
    >>> chosen, rows = choose_instances(
    ...     bags, lambda block: [block.instances[:, 0]], 1, np.array([0, 1])
    ... )
    >>> chosen, rows.ravel()
    (array([1, 3]), array([9., 5.]))
    """
    function = partial(_choose_in_block, rank, most)
    if not isinstance(bags, LazyBags):
        return function(bags, seeds, *per_bag)
    cuts = np.cumsum([part.n_bags for part in bags.partitions()])[:-1]
    arguments = [np.split(values, cuts) for values in (seeds, *per_bag)]
    parts = list(map_blocks(function, blocks or bags, *arguments))
    starts = bags.offsets[np.append(0, cuts)]
    positions = [inside + start for (inside, _), start in zip(parts, starts, strict=True)]
    rows = [rows for _, rows in parts]
    joined = sp.vstack(rows, format="csr") if bags.is_sparse else np.concatenate(rows)
    return np.concatenate(positions), joined


def _choose_in_block(
    rank: Callable[..., Sequence[FloatArray]],
    most: int,
    block: Bags,
    seeds: IntArray,
    *per_bag: NDArray[Any],
) -> tuple[IntArray, Any]:
    pairs = zip(seeds, block.sizes, strict=True)
    draws = np.concatenate([np.random.RandomState(seed).uniform(size=size) for seed, size in pairs])
    taken = np.zeros(block.n_instances, dtype=bool)
    rankings = rank(block, *per_bag)
    for scores in rankings:
        taken |= segment_lowest(-scores, block.offsets, -(-most // (len(rankings) + 1)))
    # Those taken come first, then random ones, until the bag has enough.
    filled = segment_lowest(np.where(taken, draws - 2.0, draws), block.offsets, most)
    positions = np.flatnonzero(filled).astype(np.int64)
    return positions, block.instances[positions]


# --- the contrast


@dataclass(frozen=True)
class Contrast:
    """Linear scores of instances, by all bags and without each fold.

    Parameters
    ----------
    coefs : array of shape (n_bags, n_fits, n_features)
        The score of an instance x of bag b is ``x . coefs[b] + intercepts[b]``. No bag has a part
        in its own coefficients.
    intercepts : array of shape (n_bags, n_fits)
    overall : array of shape (n_fits, n_features)
        The score of an instance of no training bag,
    constant : array of shape (n_fits,)
        and its intercept.
    auc : float
        Area under the ROC curve of the best scores of bags, in the fit to all bags.
    """

    coefs: FloatArray
    intercepts: FloatArray
    overall: FloatArray
    constant: FloatArray
    auc: float

    def as_model(self, work: WorkingSet, scale: Scale) -> Model:
        """Return the contrast as a linear model on the standard scale."""
        scores = scores_along(work.rows, work.offsets, self.coefs, self.intercepts)
        kept = scale.factor > 0
        weights = np.where(kept, self.overall, 0.0) / np.where(kept, scale.factor, 1.0)
        constant = self.constant + np.where(kept, self.overall, 0.0) @ scale.center
        return Model("contrast", 0, None, None, scores, weights.T, constant)


def contrast(
    bags: Bags | LazyBags,
    work: WorkingSet,
    folds: list[BoolArray],
    settings: Settings,
    *,
    within: bool = False,
    blocks: Any = None,
) -> Contrast:
    """Find linear scores of all instances: a walk in which negative bags have a pool as well.

    In each round the direction of a bag is the mean place of the other positive bags less that of
    the other negative bags. Its instances score along it in the metric of exemplar LDA, in
    standard deviations of the negatives of a sample, and the softmax of the scores gives its new
    place. What the softmax does to every bag cancels, and what is left is particular to positive
    bags. Of all rounds that one counts in which the best scores of bags have the greatest area
    under the ROC curve.

    A stain or a scanner shifts whole bags, and may hide the difference of their means. With
    ``within``, instances are seen from the mean of their bag, and some rounds come first in which
    the scores themselves are the weights. These are steps of a power iteration towards the
    direction along which instances of positive bags vary more than those of negative bags: a
    share of instances far along one direction adds the share times the square of the shift. The
    third moment decides on the sign, as these instances lie on one side.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags; each round is one pass over them.
    work : WorkingSet
        A random sample of their instances, for the metric.
    folds : list of arrays of bool of shape (n_bags,)
        Bags to leave out together.
    settings : Settings
    within : bool, default=False
        Whether what shifts whole bags has no part in the search.
    blocks : LazyBags or blocks, optional
        Result of :func:`pigmil.scale.hold_blocks` for these bags.
    """
    scale = fit_scale("standard", work.rows, settings)
    projection, _ = whitening(scale.apply(work.rows), None, settings)
    axes = scale.factor[:, None] * projection
    metric = axes @ axes.T  # (n_features, n_features)
    negatives = work.rows[~work.inside].astype(np.float64)
    center = negatives.mean(axis=0)
    covariance = np.atleast_2d(np.cov(negatives, rowvar=False, bias=True))
    used = [np.ones(bags.n_bags, dtype=bool), *(~fold for fold in folds)]
    n_fits = len(used)
    means_of_bags = map_instances(_bag_means, bags, blocks=blocks)
    # Mean of each bag under its pool, one per fit: (n_bags, n_fits, n_features).
    places = np.repeat(means_of_bags[:, None], n_fits, axis=1)
    best_auc = np.full(n_fits, -1.0)
    coefs, chosen = np.empty_like(places), np.empty_like(places)
    overall, before = np.zeros((n_fits, bags.n_features)), np.zeros((n_fits, bags.n_features))
    for step in range(-settings.power_rounds if within else 0, settings.contrast_rounds):
        means, lines = np.empty_like(before), np.empty_like(before)
        for fit, part in enumerate(used):
            towards, means[fit] = directions_of_bags(places[:, fit], work.positive, part)
            lines[fit] = means[fit] @ metric
            spread = np.sqrt(max(float(lines[fit] @ covariance @ lines[fit]), 1e-24))
            lines[fit] /= spread
            coefs[:, fit] = towards @ metric / spread
        intercepts = -(coefs @ center)
        if within:
            intercepts = -np.einsum("bfd,bd->bf", coefs, means_of_bags)
        summary = partial(_summary_and_place, step < 0)
        table = map_instances(summary, bags, coefs, intercepts, blocks=blocks)
        if step < 0:
            for fit, part in enumerate(used):
                _, third = directions_of_bags(table[:, fit, :1], work.positive, part)
                places[:, fit] = table[:, fit, 1:] * (1.0 if third[0] >= 0 else -1.0)
            continue
        for fit, part in enumerate(used):
            auc = bag_auc(table[part, fit, 0], work.positive[part])
            if auc > best_auc[fit]:
                best_auc[fit], overall[fit], chosen[:, fit] = auc, lines[fit], coefs[:, fit]
        if (_cosines(means, before, metric) >= settings.same_direction).all():
            break
        before, places = means, table[:, :, 1:]
        if within:
            places = places - means_of_bags[:, None]
    constants = -(chosen @ center), overall, -(overall @ center)
    return Contrast(chosen, *constants, float(best_auc[0]))


def directions_of_bags(
    places: FloatArray, positive: BoolArray, taking_part: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return for each bag the mean place of the positive bags less that of the negative bags.

    A bag does not count itself. The second result is that of an instance of no bag that takes
    part.

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


def _cosines(first: FloatArray, second: FloatArray, metric: FloatArray) -> FloatArray:
    """Return the cosine of each row of one array with that of another, in a metric."""
    product, *squares = (
        np.einsum("ij,ij->i", a @ metric, b)
        for a, b in ((first, second), (first, first), (second, second))
    )
    return np.asarray(product / np.maximum(np.sqrt(squares[0] * squares[1]), 1e-300))


def _bag_means(block: Bags) -> FloatArray:
    rows = block.instances
    means = [rows[a:b].mean(axis=0) for a, b in itertools.pairwise(block.offsets)]
    return np.asarray(means, dtype=np.float64)


def scores_along(
    rows: NDArray[Any], offsets: IntArray, coefs: FloatArray, intercepts: FloatArray
) -> FloatArray:
    """Return the scores of each instance along the lines of its bag: (n_instances, n_fits)."""
    coefs = coefs.astype(rows.dtype)
    parts = [
        rows[start:stop] @ each.T
        for (start, stop), each in zip(itertools.pairwise(offsets), coefs, strict=True)
    ]
    return np.asarray(np.concatenate(parts) + intercepts[segment_ids(offsets)], dtype=np.float64)


def _summary_and_place(
    linear: bool, block: Bags, coefs: FloatArray, intercepts: FloatArray
) -> FloatArray:
    """Return the best score of each bag, and its mean under the softmax of the scores.

    Of shape (n_bags, n_fits, 1 + n_features). If ``linear``, the scores themselves are the weights,
    and their third moment stands in place of the best one.
    """
    rows = block.instances
    scores = scores_along(rows, block.offsets, coefs, intercepts)
    found = np.empty((len(coefs), coefs.shape[1], 1 + coefs.shape[2]))
    for bag, (start, stop) in enumerate(itertools.pairwise(block.offsets)):
        part = scores[start:stop].T
        found[bag, :, 0] = (part**3).mean(axis=1) if linear else part.max(axis=1)
        shares = part / part.shape[1]
        if not linear:
            shares = np.exp(part - found[bag, :, :1])
            shares /= shares.sum(axis=1, keepdims=True)
        found[bag, :, 1:] = shares.astype(rows.dtype) @ rows[start:stop]
    return found
