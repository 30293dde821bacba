"""What PIGMIL does around Algorithm 3: densities, fitted attributes, and bags on disk.

Bags on disk are reduced to instances that densities choose, block by block.
"""

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pigmil._core.segments import offsets_of, segment_argmax, segment_lowest, segment_reduce
from pigmil._core.typing import BoolArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit, log_density, representative_rows, worth_screening
from pigmil.estimators._selection import inner_folds, min_error_threshold, warn_of_chance
from pigmil.graph import (
    ClassSplit,
    Initialisation,
    Trace,
    UpdateResult,
    WorkingBags,
    held_out_areas,
    score_by_pool,
)
from pigmil.scale import LazyBags, map_blocks, map_instances

if TYPE_CHECKING:
    from pigmil.estimators.pigmil import PIGMIL

DECAYS = (1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
_DEFAULT_DECAY = 8.0  # preferred among decays that the bags do not distinguish
_MOST_IN_MEMORY = 15_000  # instances of bags on disk to fit on
_REPRESENTATIVES = 2048  # of all bags together, for the estimates
_LEAST_REPRESENTATIVES = 2
_LEAST_PER_BAG = 8

_logger = logging.getLogger("pigmil")


def densities_by_class(model: "PIGMIL", bags: Bags, positive: BoolArray) -> ClassSplit:
    """Split the bags by class and measure densities with the decay of a model, chosen if asked.

    Of all decays whose area under the ROC curve lies within two standard errors of the largest
    the nearest to the default is taken: bag labels alone may not show which of two clusters is
    positive.
    """
    screen = model.density_screen
    folds = inner_folds(bags, positive) if model.decay == "cv" else []
    model.held_out_auc_ = np.nan
    split = ClassSplit.from_bags(
        bags,
        positive,
        decays=DECAYS if folds else (_fixed_decay(model),),
        unit=model.length_unit_,
        two_sided=model.working_score != "kde_min",
        fold=np.argmax(folds, axis=0) if folds else None,
        screen=worth_screening(bags, positive) if screen == "auto" else bool(screen),
    )
    if folds:
        split = split.at_width(_best_width(model, split))
    model.decay_, model.negative_bags_ = split.decays[0], split.negative
    return split


def _best_width(model: "PIGMIL", split: ClassSplit) -> int:
    """Return the index of the decay with which first pools separate held-out bags well."""

    def first_pool(train: ClassSplit, width: int) -> IntArray:
        return train.rows[model._initialise(train, width).pool]

    areas = held_out_areas(split, first_pool)
    _logger.info("decay: %s", dict(zip(DECAYS, areas.round(4).tolist(), strict=True)))
    n = min(split.positive.n_bags, split.negative.n_bags)
    smoothed = (areas.max() * n + 0.5) / (n + 1)
    close = areas >= areas.max() - 2 * np.sqrt(smoothed * (1 - smoothed) / n)
    distance = np.abs(np.log(np.array(DECAYS) / _DEFAULT_DECAY))
    chosen = int(np.argmin(np.where(close, distance, np.inf)))
    model.held_out_auc_ = float(areas[chosen])
    warn_of_chance(model.card.name, model.held_out_auc_, split.is_positive)
    return chosen


def _fixed_decay(model: "PIGMIL") -> float:
    return _DEFAULT_DECAY if model.decay == "cv" else float(model.decay)


def record_detection(
    model: "PIGMIL",
    split: ClassSplit,
    first: Initialisation,
    candidates: IntArray,
    result: UpdateResult,
) -> None:
    """Set the fitted attributes of the detection, and score every training instance by the pool.

    ``candidates`` are the flat indices of the instances behind the positions in ``result``.
    """
    _logger.info(
        "initialisation: %d of %d positive bags work, %d candidates; "
        "updating: %d replacements in %d tries, ended by %s",
        first.working_bags.sum(),
        split.positive.n_bags,
        len(candidates),
        result.n_updates,
        len(result.trace),
        result.stopped,
    )
    bags, members = split.bags, np.flatnonzero(first.working_sets)
    ends = np.searchsorted(members, split.positive.offsets[1:-1])
    model.working_sets_ = np.split(split.rows[members], ends)
    positions = np.flatnonzero(split.is_positive)
    model.working_bags_ = WorkingBags(positions, first.t, first.working_bags)
    model.initial_pool_, model.pool_ = split.rows[first.pool], candidates[result.pool]
    model.csdg_ = replace(result.csdg, vertices=candidates[result.csdg.vertices])
    model.trace_ = _with_rows(result.trace, candidates)
    scores, scoring_pool = score_by_pool(split, 0, model.pool_, first.working_bags)
    best = segment_reduce(np.maximum, scores, bags.offsets)
    model._score_offset = min_error_threshold(best, split.is_positive)
    model._scoring_pool = bags.instances[scoring_pool]
    model.instance_scores_ = scores - model._score_offset
    model.best_instances_ = segment_argmax(scores, bags.offsets)[split.is_positive]
    model.detected_instances_ = model.pool_


def _with_rows(trace: Trace, rows: IntArray) -> Trace:
    """Return a trace of positions as one of the flat indices that stand there."""
    return replace(trace, present=rows[trace.present], instance=rows[trace.instance])


def fit_on_disk(
    model: "PIGMIL", bags: LazyBags, positive: BoolArray, rng: np.random.RandomState
) -> None:
    """Fit a model on instances chosen by densities, block by block, and score all the others."""
    model.length_unit_ = length_unit(bags, model.length_unit)
    reduced, rows = working_bags_on_disk(
        bags, positive, gamma=_fixed_decay(model), unit=model.length_unit_, most=_MOST_IN_MEMORY
    )
    model._run_algorithm_3(reduced, positive, rng)
    if len(rows) == bags.n_instances:
        return
    for name in ("pool_", "initial_pool_", "prototypes_", "detected_instances_"):
        setattr(model, name, rows[getattr(model, name)])
    model.csdg_ = replace(model.csdg_, vertices=rows[model.csdg_.vertices])
    model.trace_ = _with_rows(model.trace_, rows)
    model.working_sets_ = [rows[members] for members in model.working_sets_]
    exact = model.instance_scores_
    del model.instance_scores_
    model.instance_scores_ = map_instances(model._score_instances, bags)
    model.instance_scores_[rows] = exact
    model.best_instances_ = segment_argmax(model.instance_scores_, bags.offsets)[positive]


def working_bags_on_disk(
    bags: LazyBags, is_positive: BoolArray, *, gamma: float, unit: float, most: int
) -> tuple[Bags, IntArray]:
    """Return the bags reduced to some of their instances, in memory.

    The first pass finds a few representatives of every bag. The second estimates by them the
    density of either class at every instance, and keeps of a positive bag the instances with the
    lowest density of negatives and those with the lowest ratio of the two densities, half each; of
    a negative bag those with the highest density of positives, and further representatives.

    Parameters
    ----------
    bags : LazyBags
        Training bags.
    is_positive : array of bool of shape (n_bags,)
        Their classes, both present.
    gamma, unit : float
        Decay per unit of length, and the unit.
    most : int
        Number of instances to keep, but at least eight per bag. Not more than that many are
        loaded as they are, and so are sparse ones.

    Returns
    -------
    reduced : Bags
        The same bags with fewer instances.
    rows : array of int
        Their flat positions in the bags on disk.
    """
    if bags.n_instances <= most or bags.is_sparse:
        return bags.load(info=False), np.arange(bags.n_instances, dtype=np.int64)
    few = max(_LEAST_REPRESENTATIVES, _REPRESENTATIVES // bags.n_bags)
    _, seen = _collect(bags, partial(_representatives, few))
    each, how = max(_LEAST_PER_BAG, most // bags.n_bags), {"gamma": gamma, "unit": unit}
    estimate = partial(_choose_in_block, seen[~is_positive], seen[is_positive], each, how)
    own = np.where(is_positive, np.cumsum(is_positive), np.cumsum(~is_positive)) - 1
    for side in (is_positive, ~is_positive):
        if side.sum() == 1:
            own[side] = -1  # a single bag is all there is to compare with
    rows, reduced = _collect(bags, estimate, is_positive, own)
    return reduced, rows


def _collect(bags: LazyBags, function: Any, *per_bag: Any) -> tuple[IntArray, Bags]:
    """Return the instances that a function chooses in every block, and the bags of these."""
    cuts = np.cumsum([part.n_bags for part in bags.partitions()])[:-1]
    parts = list(map_blocks(function, bags, *(np.split(values, cuts) for values in per_bag)))
    starts = bags.offsets[np.concatenate([[0], cuts])]
    rows = np.concatenate([rows + start for (rows, _), start in zip(parts, starts, strict=True)])
    sizes = np.diff(np.searchsorted(rows, bags.offsets))
    instances = np.concatenate([instances for _, instances in parts])
    ids = bags.ids if len(set(bags.ids.tolist())) == bags.n_bags else None  # resampled
    names = bags.feature_names
    return rows, Bags(instances, offsets_of(sizes), ids=ids, y=bags.y, feature_names=names)


def _representatives(few: int, block: Bags) -> tuple[IntArray, Any]:
    rows = representative_rows(block, few)
    return rows, block.instances[rows]


def _choose_in_block(
    negative: Bags,
    positive: Bags,
    most: int,
    how: dict[str, Any],
    block: Bags,
    is_positive: BoolArray,
    own: IntArray,
) -> tuple[IntArray, Any]:
    bag = block.bag_index
    inside = is_positive[bag]
    of_positive, of_negative = np.where(inside, own[bag], -1), np.where(inside, -1, own[bag])
    log_positive = log_density(block.instances, positive, own_bag=of_positive, **how)
    log_negative = log_density(block.instances, negative, own_bag=of_negative, **how)
    first = np.where(inside, log_negative, -log_positive)
    chosen = segment_lowest(first, block.offsets, -(-most // 2))
    ratio = np.where(chosen, np.inf, log_negative - log_positive)
    chosen |= segment_lowest(ratio, block.offsets, most // 2) & inside
    negatives = np.flatnonzero(~is_positive)
    if len(negatives):
        others = representative_rows(block[negatives], most // 2)
        chosen[np.flatnonzero(~inside)[others]] = True
    rows = np.flatnonzero(chosen)
    return rows, block.instances[rows]
