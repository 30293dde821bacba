"""Initialisation: working score, working sets, working bags and the first candidate pool."""

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import segment_argmin, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances.similarity import log_density

_logger = logging.getLogger("pigmil")

# Scores that differ by less, relatively, differ by rounding: the same sum in another order.
_TIE = 1e-9
# Added to the working score of an exact copy of a negative instance, times its grade: more than
# any density can outweigh, yet finite, so that means and variances stay finite too.
COPY_PENALTY = 1e3


@dataclass(frozen=True)
class WorkingBags:
    """The positive bags that take part in the updating, and the test that selected them.

    Attributes
    ----------
    bags : array of int of shape (n_positive_bags,)
        Positions of the positive bags among the training bags.
    t : array of shape (n_positive_bags,)
        T value of each: how much worse its working set is than those of the other bags.
    working : array of bool of shape (n_positive_bags,)
        Whether it is a working bag.
    """

    bags: IntArray
    t: FloatArray
    working: BoolArray


@dataclass(frozen=True)
class Initialisation:
    """What the initialisation of Algorithm 3 finds in the positive bags.

    Attributes
    ----------
    scores : array of shape (n_instances,)
        Working scores, the lower the more likely positive (Definition 2).
    working_sets : array of bool of shape (n_instances,)
        Members of the working sets (Definition 3).
    t : array of shape (n_bags,)
        T value of each bag.
    working_bags : array of bool of shape (n_bags,)
        The bags that take part in the updating (Definition 4).
    pool : array of int of shape (n_working_bags,)
        Flat indices of the first candidate pool (Definition 5).
    """

    scores: FloatArray
    working_sets: BoolArray
    t: FloatArray
    working_bags: BoolArray
    pool: IntArray


def initialise(
    scores: FloatArray,
    offsets: IntArray,
    *,
    fraction: float = 0.4,
    threshold: float | None = 1.5,
) -> Initialisation:
    """Find working sets, working bags and the first pool from the working scores.

    Implements lines 1 to 3 of Algorithm 3; see `working_sets`, `t_values`, `working_bags` and
    `initial_pool` for the parameters. Without a threshold all bags are working bags.

    Examples
    --------
    >>> import numpy as np
    >>> initialise(np.array([3.0, 1.0, 2.0]), np.array([0, 2, 3])).pool
    array([1, 2])
    """
    members = working_sets(scores, offsets, fraction=fraction)
    t = t_values(scores, members, offsets)
    chosen = working_bags(t, threshold=np.inf if threshold is None else threshold)
    return Initialisation(scores, members, t, chosen, initial_pool(scores, offsets, chosen))


def working_score(
    queries: Any,
    negative_bags: Bags,
    positive_bags: Bags | None,
    *,
    own_bag: NDArray[Any] | None = None,
    gamma: float = 2.0,
    unit: float = 1.0,
    margin: float = 0.7,
    penalty: float = 10.0,
) -> FloatArray:
    """Return the working score of instances: the lower, the more likely an instance is positive.

    With ``n`` and ``p`` the log densities of the negative bags and of the *other* positive bags
    around an instance, each by the nearest instance of a bag, it is
    ``n + penalty * max(0, margin - (p - n))``: the distance to negatives counts for instances that
    are at least ``exp(margin)`` times as dense in other positive bags as in negative ones; each
    missing unit costs ``penalty`` units. Without positive bags it is ``exp(n)``, KDE_min of
    Eq. (1): only the distance to negatives counts, so an outlier far from everything beats a true
    positive.

    Implements Definition 2 (KDE_min).

    Departs from the paper: min is over distances, where the paper prints exponentials; lengths are
    in ``unit``; the score with positive bags is not in the paper. It adds :func:`copy_penalty` to
    exact copies of negative instances.

    Parameters
    ----------
    queries : array or CSR of shape (n_queries, n_features)
        Instances to score.
    negative_bags : Bags
        The negative training bags.
    positive_bags : Bags or None
        The positive training bags; None for KDE_min.
    own_bag : array of int of shape (n_queries,), optional
        Position in ``positive_bags`` of the bag each query comes from, left out of its ``p``.
    gamma, unit : float, default=2.0, 1.0
        Decay per unit of length, and the unit.
    margin, penalty : float, default=0.7, 10.0
        See above.

    Returns
    -------
    array of shape (n_queries,)

    Notes
    -----
    Cost: O(n_queries n_instances n_features), in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> negative = Bags.from_list([np.array([[0.0]])])
    >>> positive = Bags.from_list([np.array([[1.0], [-9.0]]), np.array([[1.0]])])
    >>> x = np.array([[1.0], [-9.0]])  # the second is an outlier
    >>> working_score(x, negative, None, gamma=1.0).argmin()
    np.int64(1)
    >>> working_score(x, negative, positive, own_bag=np.array([0, 0])).argmin()
    np.int64(0)
    """
    how: dict[str, Any] = {"gamma": gamma, "unit": unit}
    in_negative, in_positive = np.zeros((2, queries.shape[0]))
    n = log_density(queries, negative_bags, copies=in_negative, **how)
    if positive_bags is None:
        return two_sided_score(n, None)
    p = log_density(queries, positive_bags, own_bag=own_bag, copies=in_positive, **how)
    score = two_sided_score(n, p, margin=margin, penalty=penalty)
    return score + copy_penalty(in_negative, in_positive)


def two_sided_score(
    log_negative: FloatArray,
    log_positive: FloatArray | None,
    *,
    margin: float = 0.7,
    penalty: float = 10.0,
) -> FloatArray:
    """Combine the log densities of negative and of other positive bags; see `working_score`.

    Where there is no other positive bag (a log density of minus infinity) only the negative one
    counts.

    Examples
    --------
    >>> import numpy as np
    >>> two_sided_score(np.array([-4.0]), np.array([-1.0]), margin=3.5)
    array([1.])
    """
    if log_positive is None:
        return np.exp(log_negative)
    support = np.where(np.isneginf(log_positive), np.inf, log_positive - log_negative)
    return log_negative + penalty * np.maximum(0.0, margin - support)


def copy_penalty(in_negative: FloatArray, in_positive: FloatArray) -> FloatArray:
    """Return the penalty of exact copies of negative instances, graded by where they occur.

    A point that occurs in negative bags and in no other positive bag is penalised in full. One
    that occurs in at least as large a share of the other positive bags is not penalised at all:
    discrete features repeat by chance. In between the penalty is proportional.

    Parameters
    ----------
    in_negative, in_positive : array of shape (n_queries,)
        Share of the negative and of the other positive bags that hold the same point.

    Examples
    --------
    >>> import numpy as np
    >>> copy_penalty(np.array([0.0, 0.2, 0.2, 0.2]), np.array([0.0, 0.0, 0.1, 0.3]))
    array([   0., 1000.,  500.,    0.])
    """
    repeated = in_negative > 0
    ratio = np.divide(in_positive, in_negative, out=np.ones_like(in_negative), where=repeated)
    return COPY_PENALTY * np.maximum(0.0, 1.0 - ratio)


def working_sets(scores: FloatArray, offsets: IntArray, *, fraction: float = 0.4) -> BoolArray:
    """Mark the working set of each bag: the ``ceil(fraction n)`` instances of lowest score.

    Implements Definition 3. Every bag keeps at least one instance. Scores that tie with the
    threshold, within rounding, are kept, so that the order of instances decides nothing.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Working scores of the instances of the positive bags.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.
    fraction : float, default=0.4
        Share of a bag, the paper's 40 %.

    Returns
    -------
    array of bool of shape (n_instances,)

    Examples
    --------
    >>> import numpy as np
    >>> working_sets(np.array([3.0, 1.0, 2.0, 5.0]), np.array([0, 3, 4]))
    array([False,  True,  True,  True])
    """
    sizes = np.diff(offsets)
    # 0.4 * 5 is 2.0000000000000004 in binary: round down a result just above a whole number.
    keep = np.maximum(1, np.ceil(fraction * sizes - 1e-9).astype(np.int64))
    bag = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((scores, bag))
    thresholds = scores[order[offsets[:-1] + np.minimum(keep, sizes) - 1]]
    rounding = _TIE * np.maximum(np.abs(thresholds), np.finfo(np.float64).tiny)
    return scores <= (thresholds + rounding)[bag]


def t_values(scores: FloatArray, members: BoolArray, offsets: IntArray) -> FloatArray:
    """Return the t value of each bag: how much worse (higher) its working set is than the others.

    Implements the t-test of Section III-A.2, whose form the paper leaves open: here the one-sample
    test of a bag's values against the mean of all others.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Working scores.
    members : array of bool of shape (n_instances,)
        The working sets.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.

    Returns
    -------
    array of shape (n_bags,)
        Positive where the bag is worse; 0 where the test is undefined (one value, no variance, no
        other bag).

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([1.0, 3.0, 0.0, 0.0])
    >>> t_values(scores, np.ones(4, bool), np.array([0, 2, 4]))
    array([2., 0.])
    """
    # Centred first, so that sums of squares do not cancel.
    values = np.where(members, scores - scores[members].mean(), 0.0)
    n = segment_reduce(np.add, members.astype(np.float64), offsets)
    total = segment_reduce(np.add, values, offsets)
    mean = total / n
    deviation = np.where(members, values - np.repeat(mean, np.diff(offsets)), 0.0)
    rest_n = n.sum() - n
    with np.errstate(divide="ignore", invalid="ignore"):
        rest_mean = (total.sum() - total) / rest_n
        error = segment_reduce(np.add, deviation**2, offsets) / (n - 1) / n
        t = (mean - rest_mean) / np.sqrt(error)
    # A spread within rounding of the values is no variance.
    noise = np.finfo(np.float64).eps * np.abs(values).max(initial=0.0)
    known = (error > noise**2) & (rest_n > 0) & (n > 1)
    return np.where(known & np.isfinite(t), t, 0.0)


def working_bags(t: FloatArray, *, threshold: float = 1.5) -> BoolArray:
    """Mark the working bags: all but those whose working set is significantly worse.

    Implements Definition 4. A bag is dropped if its t value exceeds ``threshold``.

    Departs from the paper: Algorithm 3 prints ``t >= h`` for the bags to keep, which contradicts
    the definition and would leave a handful; if all bags were to be dropped, all are kept.

    Examples
    --------
    >>> import numpy as np
    >>> working_bags(np.array([2.0, 0.0]))
    array([False,  True])
    """
    keep = t <= threshold
    return keep if keep.any() else np.ones_like(keep)


def initial_pool(scores: FloatArray, offsets: IntArray, chosen_bags: BoolArray) -> IntArray:
    """Return the flat index of the lowest-scored instance of each working bag.

    Implements Definition 5 and line 3 of Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> initial_pool(np.array([3.0, 1.0, 2.0]), np.array([0, 2, 3]), np.array([True, True]))
    array([1, 2])
    """
    return segment_argmin(scores, offsets)[chosen_bags]


def limit_working_sets(
    scores: FloatArray, members: BoolArray, offsets: IntArray, limit: int
) -> BoolArray:
    """Shorten the longest working sets until all of them together hold at most ``limit`` instances.

    Every set keeps its best instance, and a warning is logged where any is shortened.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Working scores, lower is better.
    members : array of bool of shape (n_instances,)
        The working sets of the working bags.
    offsets : array of int of shape (n_bags + 1,)
        Where each bag begins.
    limit : int
        Instances at most.

    Returns
    -------
    array of bool of shape (n_instances,)

    Examples
    --------
    >>> import numpy as np
    >>> limit_working_sets(np.arange(4.0), np.ones(4, bool), np.array([0, 3, 4]), 3)
    array([ True,  True, False,  True])
    """
    if members.sum() <= limit:
        return members
    rows = np.flatnonzero(members)
    bag = np.searchsorted(offsets, rows, side="right") - 1
    order = np.lexsort((scores[rows], bag))
    sizes = np.bincount(bag, minlength=len(offsets) - 1)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    longest = max(1, int(np.searchsorted(np.cumsum(np.bincount(rank)), limit, side="right")))
    _logger.warning(
        "%d candidates exceed max_candidates=%d: working sets are shortened to their best %d",
        len(rows),
        limit,
        longest,
    )
    shortened = np.zeros_like(members)
    shortened[rows[order[rank < longest]]] = True
    return shortened
