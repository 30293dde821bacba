"""The two detecting stages of PIGMIL: initialisation, and updating of the candidate pool."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.model_parts import model_part
from pigmil._core.segments import segment_argmax, segment_gather
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import squared_distance_blocks
from pigmil.distances.density import log_density
from pigmil.exemplars.rbf import KernelExemplars
from pigmil.exemplars.svm import exemplar_lda, exemplar_svms
from pigmil.graph.candidates import (
    initial_pool,
    t_values,
    working_bags,
    working_score,
    working_sets,
)
from pigmil.graph.csdg import CSDG, CSDGSettings
from pigmil.graph.discrimination import discrimination_from_blocks
from pigmil.graph.similarity import similarity
from pigmil.graph.updating import Trace, UpdateStep, update_pool

_logger = logging.getLogger("pigmil")


@model_part
@dataclass(frozen=True)
class WorkingBags:
    """Which positive bags take part in the updating, and why.

    Attributes
    ----------
    bags : array of int of shape (n_positive_bags,)
        Positions of the positive bags among the training bags.
    t : array of shape (n_positive_bags,)
        T value of each: how much worse its working set is than those of the other bags.
    kept : array of bool of shape (n_positive_bags,)
        Whether it is a working bag.
    """

    bags: IntArray
    t: FloatArray
    kept: BoolArray


@dataclass(frozen=True)
class Sides:
    """The training bags by class; instances of positive bags are counted from 0 here.

    Attributes
    ----------
    positive, negative : Bags
        Bags of each class.
    rows : array of int
        Flat training index of each instance of the positive bags.
    unit : float
        Unit of length.
    against : array of shape (n_positive_instances,)
        Logarithmic density of negatives at each instance of the positive bags.
    """

    positive: Bags
    negative: Bags
    rows: IntArray
    unit: float
    against: FloatArray

    @classmethod
    def of(cls, bags: Bags, positive: BoolArray, unit: float, against: FloatArray) -> "Sides":
        """Part the training bags by class."""
        rows = segment_gather(bags.offsets, np.flatnonzero(positive))
        return cls(bags[positive], bags[~positive], rows, unit, against[rows])


@dataclass(frozen=True)
class Candidates:
    """Outcome of the initialisation, in instances of the positive bags.

    Attributes
    ----------
    scores : array of shape (n_positive_instances,)
        Working scores, lower is better.
    members : array of bool of shape (n_positive_instances,)
        The working sets.
    t : array of shape (n_positive_bags,)
        T values.
    kept : array of bool of shape (n_positive_bags,)
        The working bags.
    chosen : array of int
        Instances in the working sets of working bags.
    pool : array of int
        The first pool, positions in ``chosen``.
    """

    scores: FloatArray
    members: BoolArray
    t: FloatArray
    kept: BoolArray
    chosen: IntArray
    pool: IntArray


def initialise(
    sides: Sides,
    *,
    score: dict[str, Any],
    fraction: float,
    t_test: Any,
    t_threshold: float,
    max_candidates: int,
) -> Candidates:
    """Find working sets, working bags and the first pool (Section III-A, lines 1-3 of Alg. 3)."""
    bags = sides.positive
    scores = working_score(
        bags.instances,
        sides.negative,
        bags,
        own_bag=bags.bag_index,
        unit=sides.unit,
        against=sides.against,
        **score,
    )
    members = working_sets(scores, bags.offsets, fraction=fraction)
    if t_test is None:
        t = np.zeros(bags.n_bags)
    else:
        t = t_values(scores, members, bags.offsets, test=t_test)
    kept = working_bags(t, threshold=t_threshold)
    usable = _bounded(scores, members & kept[bags.bag_index], bags, max_candidates)
    chosen = np.flatnonzero(usable)
    pool = np.searchsorted(chosen, initial_pool(scores, bags.offsets, kept))
    _logger.info(
        "initialisation: %d of %d positive bags work, %d candidates",
        kept.sum(),
        bags.n_bags,
        len(chosen),
    )
    return Candidates(scores, members, t, kept, chosen, pool.astype(np.int64))


def _bounded(scores: FloatArray, usable: BoolArray, bags: Bags, limit: int) -> BoolArray:
    """Shorten the longest working sets until all candidates together are at most ``limit``."""
    if usable.sum() <= limit:
        return usable
    rows = np.flatnonzero(usable)
    bag = bags.bag_index[rows]
    order = np.lexsort((scores[rows], bag))
    sizes = np.bincount(bag, minlength=bags.n_bags)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    longest = max(1, int(np.searchsorted(np.cumsum(np.bincount(place)), limit, side="right")))
    _logger.warning(
        "%d candidates exceed max_candidates=%d: working sets are shortened to their best %d",
        len(rows),
        limit,
        longest,
    )
    shortened = np.zeros_like(usable)
    shortened[rows[order[place < longest]]] = True
    return shortened


def update(
    sides: Sides,
    found: Candidates,
    *,
    kind: str,
    gamma: float,
    svm_cost: float,
    include_bias: bool,
    gamma_far: float,
    gamma_near: float,
    settings: CSDGSettings,
    max_updates: int,
    objective: Any,
    n_jobs: int | None,
    callback: Callable[[UpdateStep], None] | None,
) -> tuple[IntArray, CSDG, Trace]:
    """Update the pool on the graph (Section III-B, Algs. 1 and 2); instances by flat index."""
    instances = sides.positive.instances[found.chosen]
    if kind == "rbf":
        exemplars: Any = KernelExemplars(instances, sides.negative, gamma=gamma, unit=sides.unit)
    elif kind == "lda":
        exemplars = exemplar_lda(instances, sides.negative.instances)
    else:
        exemplars = exemplar_svms(instances, sides.negative.instances, C=svm_cost, n_jobs=n_jobs)
    confidences = exemplars.confidence(instances, include_bias=include_bias)
    _logger.info("similarity of %d candidates by %s exemplars", len(found.chosen), kind)
    discrimination = discrimination_from_blocks(
        (
            (rows, np.sqrt(squared) / sides.unit)
            for rows, _, squared in squared_distance_blocks(instances, sides.negative.instances)
        ),
        len(found.chosen),
        gamma_far=gamma_far,
        gamma_near=gamma_near,
    )
    result = update_pool(
        similarity(confidences),
        discrimination,
        np.diagonal(confidences).copy(),
        sides.positive.bag_index[found.chosen],
        found.pool,
        settings=settings,
        max_updates=max_updates,
        objective=objective,
        callback=callback,
    )
    _logger.info(
        "updating: %d replacements in %d tries, ended by %s",
        result.n_updates,
        len(result.trace),
        result.stopped,
    )
    flat = sides.rows[found.chosen]
    graph = replace(result.csdg, vertices=flat[result.csdg.vertices])
    trace = replace(result.trace, instance=flat[result.trace.instance])
    return flat[result.pool], graph, trace


def pool_scores(
    queries: Any,
    against: FloatArray,
    pool: Any,
    *,
    gamma: float,
    unit: float,
    query_bag: NDArray[Any] | None = None,
    pool_bag: NDArray[Any] | None = None,
) -> FloatArray:
    """Logarithm of how much denser the pool is around an instance than the negative bags are.

    ``log mean over pool of exp(-gamma |x - t|) - against``; pool members of the instance's own
    bag are left out unless there is no other.
    """
    members = Bags(pool, np.arange(pool.shape[0] + 1), check_finite=False)
    own = None
    if query_bag is not None and pool_bag is not None and pool.shape[0] > 1:
        position = np.full(int(max(query_bag.max(), pool_bag.max())) + 1, -1)
        position[pool_bag] = np.arange(len(pool_bag))
        own = position[query_bag]
    return log_density(queries, members, gamma=gamma, unit=unit, own_bag=own) - against


def complete_pool(scores: FloatArray, bags: Bags, chosen: IntArray, which: BoolArray) -> IntArray:
    """One instance of each bag of ``which``: its member of ``chosen``, else its best-scored."""
    best = segment_argmax(scores, bags.offsets)
    best[bags.bag_index[chosen]] = chosen
    return best[which]


def split_members(members: BoolArray, offsets: IntArray) -> list[IntArray]:
    """Flat indices of the marked instances of each bag."""
    marked = np.flatnonzero(members)
    return np.split(marked, np.searchsorted(marked, offsets[1:-1]))


def more_of_each_bag(
    pool: IntArray, working_sets: list[IntArray], scores: FloatArray, count: int
) -> IntArray:
    """The pool and, up to ``count`` a bag, the best-scored other members of its working set."""
    if count == 1:
        return pool
    chosen = []
    for member, candidates in zip(pool, working_sets, strict=True):
        rest = candidates[candidates != member]
        order = np.argsort(-scores[rest], kind="stable")
        chosen.append(np.append(member, rest[order[: count - 1]]))
    return np.concatenate(chosen)
