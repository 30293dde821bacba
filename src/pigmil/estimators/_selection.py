"""Choose a setting on held-out training bags, and a threshold for scores without a natural zero.

Folds do not depend on the order of the bags if they are dealt in :func:`content_order`.
"""

import hashlib
import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pigmil._core.errors import ChanceWarning
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import FOLD_GROUP, Bags
from pigmil.scale import LazyBags, map_instances

N_FOLDS = 5
_CHANCE = 0.002  # at which 2 of 100 fits on shuffled labels find something
_MOST_SUMMARISED = 1024  # features, for the regression on summaries of bags


@dataclass(frozen=True, slots=True)
class Selection:
    """Outcome of :func:`select_by_cv` and :func:`choose_setting`.

    Attributes
    ----------
    index : int
        Position of the chosen setting.
    correct : array of shape (n_settings,)
        Weight of the held-out bags that each setting labels correctly.
    values : array of shape (n_bags,)
        Held-out decision values under the chosen setting.
    threshold : float
        Above it a bag is called positive.
    """

    index: int
    correct: FloatArray
    values: FloatArray
    threshold: float


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of all training instances by models that were fitted without their bags.

    Attributes
    ----------
    scores : array of shape (n_instances,)
        Higher is more positive; minus infinity for instances without a score.
    offsets : array of int of shape (n_bags + 1,)
        Where the bags begin among them.
    positive : array of bool of shape (n_bags,)
        The positive bags.
    fold : array of int of shape (n_bags,)
        The fold in which each bag was held out; -1 if no bag could be held out.
    units : array of int of shape (n_bags,)
        Bags of the same unit (group) may depend on each other; otherwise the number of the bag.
    digests : array of int of shape (n_bags,)
        By which bags are recognised, see :func:`bag_digests`.
    summaries : array of shape (n_bags,)
        Held-out decision value of a classifier of whole bags; NaN where there is none.
    others : array of shape (n_bags,)
        The same for a classifier of the instances that are hardly positive, see
        :func:`scores_of_others`.
    marks : array of shape (n_instances,), optional
        1 and 0 for instances that a user marked, otherwise NaN.
    """

    scores: FloatArray
    offsets: IntArray
    positive: BoolArray
    fold: IntArray
    units: IntArray
    digests: IntArray
    summaries: FloatArray
    others: FloatArray
    marks: FloatArray | None = None

    @property
    def known(self) -> FloatArray:
        """The marks; NaN for all instances if there are none."""
        return np.full(len(self.scores), np.nan) if self.marks is None else self.marks

    def before_marks(self, bags: Bags, rows: IntArray, marks: FloatArray) -> "HeldOutScores":
        """Return the scores of the bags before marks; see :func:`pigmil.bags.before_marks`."""
        n_bags = bags.n_bags  # copies of positives come last
        return HeldOutScores(
            scores=self.scores[rows],
            offsets=bags.offsets,
            positive=self.positive[:n_bags],
            fold=self.fold[:n_bags],
            units=self.units[:n_bags],
            digests=bag_digests(bags),
            summaries=self.summaries[:n_bags],
            others=self.others[:n_bags],
            marks=marks,
        )


def bag_digests(bags: Bags | LazyBags) -> IntArray:
    """Return a hash of the content of each bag: its instances, in their order."""
    return map_instances(_digests, bags)


def _digests(bags: Bags) -> IntArray:
    # A key depends on all features of an instance, dense or sparse.
    keys = instance_keys(bags.instances) + 0.0  # no negative zeros
    parts = [keys[start:stop].tobytes() for start, stop in itertools.pairwise(bags.offsets)]
    hashes = [hashlib.blake2b(part, digest_size=8).digest() for part in parts]
    return np.frombuffer(b"".join(hashes), dtype=np.int64).copy()


def summary_scores(bags: Bags | LazyBags, positive: BoolArray, fold: IntArray) -> FloatArray:
    """Return held-out decision values of a logistic regression on means and extremes of bags.

    It does not use single instances. NaN without folds, for sparse bags, and for very many
    features.
    """
    if bags.is_sparse or bags.n_features > _MOST_SUMMARISED:
        return np.full(bags.n_bags, np.nan)
    return _held_out_regression(map_instances(_means_and_extremes, bags), positive, fold)


def scores_of_others(
    bags: Bags | LazyBags, positive: BoolArray, fold: IntArray, scores: FloatArray
) -> FloatArray:
    """Return the same for means of the instances that are hardly positive, NaN for bags without.

    They score below the median of the negatives. If these distinguish the bags of both classes,
    something comes along with the cause, and the negatives of positive bags are of another kind.
    """
    if bags.is_sparse or bags.n_features > _MOST_SUMMARISED:
        return np.full(bags.n_bags, np.nan)
    negative = np.repeat(~positive, np.diff(bags.offsets))
    kept = scores < np.median(scores[negative])
    parts = np.empty(bags.n_bags, dtype=object)  # one entry per bag, as lazy bags take them
    for bag, (start, stop) in enumerate(itertools.pairwise(bags.offsets)):
        parts[bag] = kept[start:stop]
    return _held_out_regression(map_instances(_means_of_kept, bags, parts), positive, fold)


def _held_out_regression(table: FloatArray, positive: BoolArray, fold: IntArray) -> FloatArray:
    """Return held-out decision values; rows of NaN take no part."""
    values, known = np.full(len(table), np.nan), ~np.isnan(table[:, 0])
    for number in range(int(fold.max()) + 1):
        seen, held_out = known & (fold != number), known & (fold == number)
        if held_out.any() and len(np.unique(positive[seen])) == 2:
            model = make_pipeline(
                StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=1000)
            )
            model.fit(table[seen], positive[seen])
            values[held_out] = model.decision_function(table[held_out])
    return values


def _means_and_extremes(bags: Bags) -> FloatArray:
    # Bag by bag: all instances in double precision may not fit.
    table = [[_sums(rows) / len(rows), rows.max(axis=0), rows.min(axis=0)] for rows in bags]
    return np.reshape(table, (len(table), -1))


def _means_of_kept(bags: Bags, kept: Any) -> FloatArray:
    means = np.full(bags.shape, np.nan)
    for at, (rows, inside) in enumerate(zip(bags, kept, strict=True)):
        if inside.any():
            means[at] = _sums(rows[inside]) / inside.sum()
    return means


def _sums(rows: Any) -> FloatArray:
    return np.asarray(rows.sum(axis=0, dtype=np.float64))


def fold_units(bags: Bags | LazyBags) -> IntArray:
    """Return the number of the group of each bag, as :func:`inner_folds` takes it."""
    groups = bags.bag_info.get(FOLD_GROUP, np.arange(bags.n_bags))
    return np.unique(np.asarray(groups), return_inverse=True)[1].ravel().astype(np.int64)


def content_order(bags: Bags | LazyBags) -> IntArray:
    """Return the positions of the bags in an order that depends on their content alone.

    Neither the order of the bags nor that of the instances inside them, nor offset and scale of
    the data, change this order. Bags with the same instances are interchangeable.
    """
    lowest, highest = map_instances(_extreme_keys, bags).T
    return np.lexsort((bags.sizes, lowest, highest)).astype(np.int64)


def instance_keys(instances: Any) -> FloatArray:
    """Project every instance on one fixed direction: a sort key that depends on content alone."""
    direction = np.random.RandomState(0).normal(size=instances.shape[1])
    if sp.issparse(instances):
        return np.asarray(instances @ direction, dtype=np.float64)
    # Row by row: a matrix product may round a row differently depending on its position.
    return np.einsum("ij,j->i", np.asarray(instances, dtype=np.float64), direction)


def _extreme_keys(bags: Bags) -> FloatArray:
    """Return the lowest and the highest key of every bag."""
    keys = instance_keys(bags.instances)
    extremes = [segment_reduce(end, keys, bags.offsets) for end in (np.minimum, np.maximum)]
    return np.column_stack(extremes)


def stratified_folds(
    positive: BoolArray, n_folds: int = N_FOLDS, *, order: IntArray | None = None
) -> list[BoolArray]:
    """Assign the bags of each class to folds in turn, without randomness.

    Parameters
    ----------
    positive : array of bool of shape (n_bags,)
        Class of every bag.
    n_folds : int, default=5
        Number of folds; fewer if a class has fewer bags.
    order : array of int of shape (n_bags,), optional
        Order in which bags are dealt, such as
        :func:`content_order`; their own order if not given.

    Returns
    -------
    list of array of bool of shape (n_bags,)
        The held-out bags of each fold. Empty if a class has only one bag.

    Examples
    --------
    >>> import numpy as np
    >>> [fold.astype(int) for fold in stratified_folds(np.array([True, False, False, True]))]
    [array([1, 1, 0, 0]), array([0, 0, 1, 1])]
    """
    n_folds = min(n_folds, int(positive.sum()), int((~positive).sum()))
    if n_folds < 2:
        return []
    order = np.arange(len(positive)) if order is None else order
    dealt = positive[order]
    rank_in_class = np.empty(len(positive), dtype=np.int64)
    rank_in_class[order] = np.where(dealt, np.cumsum(dealt), np.cumsum(~dealt)) - 1
    return [rank_in_class % n_folds == fold for fold in range(n_folds)]


def inner_folds(
    bags: Bags | LazyBags,
    positive: BoolArray,
    n_folds: int = N_FOLDS,
    order: IntArray | None = None,
) -> list[BoolArray]:
    """Return folds of bags that do not depend on their order: they are dealt by their content.

    Bags with the same value in the column ``fold_group`` of ``bag_info``, if there is one, stay in
    one fold. :func:`pigmil.evaluation.compare` sets this column if it gets groups.
    """
    order = content_order(bags) if order is None else order
    groups = bags.bag_info.get(FOLD_GROUP)
    if groups is None:
        return stratified_folds(positive, n_folds, order=order)
    return grouped_folds(positive, groups, n_folds, order=order)


def grouped_folds(
    positive: BoolArray, groups: Any, n_folds: int = N_FOLDS, *, order: IntArray
) -> list[BoolArray]:
    """Assign groups of bags to folds, without randomness, so that classes are spread evenly.

    The largest group comes first, then the one whose first bag comes first in the order. Each goes
    to the fold that has the least of the classes of the group, relative to all bags of a class.

    Parameters
    ----------
    positive : array of bool of shape (n_bags,)
        Class of every bag.
    groups : array of shape (n_bags,)
        Bags with equal values stay in one fold.
    n_folds : int, default=5
        Number of folds; fewer if otherwise a fold would lack a class.
    order : array of int of shape (n_bags,)
        Order of the bags, such as :func:`content_order`.

    Returns
    -------
    list of array of bool of shape (n_bags,)
        The held-out bags of each fold, of both classes. Empty if there are no two such folds.

    Examples
    --------
    >>> import numpy as np
    >>> positive = np.array([True, True, False, True, False])
    >>> folds = grouped_folds(positive, ["a", "a", "b", "c", "d"], order=np.arange(5))
    >>> [fold.astype(int) for fold in folds]
    [array([1, 1, 0, 0, 1]), array([0, 0, 1, 1, 0])]
    """
    number = np.unique(np.asarray(groups)[order], return_inverse=True)[1].ravel()
    _, first = np.unique(number, return_index=True)
    # Bags of each class in each group, the classes along the second axis.
    table = np.array([np.bincount(number, positive[order] == label) for label in (False, True)]).T
    with_class = (table > 0).sum(axis=0)
    turn = np.lexsort((first, -table.sum(axis=1)))
    for count in range(min(n_folds, *with_class), 1, -1):
        held = np.zeros((count, 2))
        fold_of = np.empty(len(table), dtype=np.int64)
        for group in turn:
            crowded = (held / table.sum(axis=0)) @ (table[group] / table[group].sum())
            fold_of[group] = np.lexsort((held.sum(axis=1), np.round(crowded, 12)))[0]
            held[fold_of[group]] += table[group]
        if held.min() > 0:
            dealt = np.empty(len(positive), dtype=np.int64)
            dealt[order] = fold_of[number]
            return [dealt == fold for fold in range(count)]
    return []


def inner_splits(bags: Bags | LazyBags, positive: BoolArray) -> list[tuple[IntArray, IntArray]]:
    """Return training and held-out bags of every fold; all bags twice if none can be held out."""
    folds = inner_folds(bags, positive)
    everything: IntArray = np.arange(len(positive))
    splits = [(np.flatnonzero(~held_out), np.flatnonzero(held_out)) for held_out in folds]
    return splits or [(everything, everything)]


def select_by_cv(
    score_held_out: Callable[[IntArray, IntArray], Sequence[FloatArray]],
    positive: BoolArray,
    folds: Sequence[BoolArray],
    **options: Any,
) -> Selection:
    """Choose the setting that labels most held-out bags correctly.

    Parameters
    ----------
    score_held_out : callable
        Called with the positions of the training and of the held-out bags of a fold; returns the
        decision values of the held-out bags, one array per setting.
    positive : array of bool of shape (n_bags,)
        Class of every bag.
    folds : sequence of array of bool of shape (n_bags,)
        Held-out bags of each fold; every bag is held out once.
    **options
        Of :func:`choose_setting`.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import numpy as np
    >>> positive = np.array([False, True, False, True])
    >>> values = np.array([[1.0, 1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, 1.0]])
    >>> folds = stratified_folds(positive)
    >>> select_by_cv(lambda train, test: values[:, test], positive, folds).index
    1
    """
    scores = [score_held_out(np.flatnonzero(~fold), np.flatnonzero(fold)) for fold in folds]
    values = np.empty((len(scores[0]), len(positive)))
    for fold, of_fold in zip(folds, scores, strict=True):
        values[:, fold] = of_fold
    return choose_setting(values, positive, **options)


def choose_setting(
    values: FloatArray,
    positive: BoolArray,
    *,
    costs: tuple[float, float] = (1.0, 1.0),
    choose_threshold: bool = False,
    one_se: bool = False,
) -> Selection:
    """Choose the setting whose held-out decision values label most bags correctly.

    Parameters
    ----------
    values : array of shape (n_settings, n_bags)
        Decision value of each bag by a model that has not seen it, for each setting.
    positive : array of bool of shape (n_bags,)
        Class of every bag.
    costs : (float, float), default=(1.0, 1.0)
        Weight of a negative and of a positive bag.
    choose_threshold : bool, default=False
        Call bags positive above :func:`one_se_threshold` of each setting instead of above 0.
    one_se : bool, default=False
        Take the first setting within one standard error of the best. Settings are then listed
        from the simplest to the most complex. Otherwise the first of the best is taken.
    """
    weights = np.where(positive, costs[1], costs[0])
    thresholds = [
        one_se_threshold(row, positive, costs=costs) if choose_threshold else 0.0 for row in values
    ]
    called = values > np.array(thresholds)[:, None]
    correct = np.round((called == positive) @ weights, 9)
    least = correct.max()
    if one_se:
        share = least / weights.sum()
        least -= np.sqrt(share * (1 - share) * (weights**2).sum())
    index = int(np.argmax(correct >= least))
    return Selection(index, correct, values[index], thresholds[index])


def min_error_threshold(
    values: FloatArray,
    positive: BoolArray,
    *,
    costs: tuple[float, float] = (1.0, 1.0),
    weights: FloatArray | None = None,
) -> float:
    """Return the threshold above which bags are called positive with fewest errors.

    Of equally good thresholds the middle one is taken. Each lies half-way between two
    neighbouring values, or one unit outside all of them.

    Parameters
    ----------
    values : array of shape (n_bags,)
        Value of each training bag.
    positive : array of bool of shape (n_bags,)
        Which are positive.
    costs : (float, float), default=(1.0, 1.0)
        Weight of an error on a negative and on a positive bag.
    weights : array of shape (n_bags,), optional
        Further weight of an error on each bag.

    Notes
    -----
    Cost: O(n_bags log n_bags).

    Examples
    --------
    >>> import numpy as np
    >>> min_error_threshold(np.array([1.0, 2.0, 4.0]), np.array([False, False, True]))
    3.0
    """
    order = np.argsort(values, kind="stable")
    sorted_values, sorted_positive = values[order], positive[order]
    # Gain when the first k bags are called negative, over calling none of them negative.
    steps = np.where(sorted_positive, -costs[1], costs[0])
    steps = steps if weights is None else steps * weights[order]
    gains = np.append(0.0, np.cumsum(steps))
    between = (sorted_values[:-1] + sorted_values[1:]) / 2
    thresholds = np.r_[sorted_values[0] - 1.0, between, sorted_values[-1] + 1.0]
    separates = np.r_[True, sorted_values[:-1] < sorted_values[1:], True]
    # Sums of weights that are equal on paper may differ in their last digits.
    enough = gains[separates].max() - 1e-9 * np.abs(steps).max()
    best = np.flatnonzero(separates & (gains >= enough))
    return float(thresholds[best[len(best) // 2]])


def one_se_threshold(
    values: FloatArray, positive: BoolArray, *, costs: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Return the threshold with fewest errors, or 0 unless it is clearly better than 0.

    For values of held-out bags. The best of all thresholds looks better than it is, especially
    with few bags. It is taken only if its gain over 0 exceeds one standard error of the gain,
    which is the root of the number of bags that the two label differently.

    Parameters
    ----------
    values, positive, costs
        As in :func:`min_error_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> positive = np.array([False, False, True, True])
    >>> one_se_threshold(np.array([1.0, 2.0, 4.0, 5.0]), positive)
    3.0
    >>> one_se_threshold(np.array([-2.0, 1.0, 2.0, 3.0]), positive)
    0.0
    """
    threshold = min_error_threshold(values, positive, costs=costs)
    differs = (values > threshold) != (values > 0)
    weights = np.where(positive, costs[1], costs[0])[differs]
    gain = np.where((values > threshold)[differs] == positive[differs], weights, -weights).sum()
    return threshold if gain > np.sqrt((weights**2).sum()) else 0.0


def least_area(n_positive: int, n_negative: int) -> float:
    """Return the area under the ROC curve of bags held out that is more than chance.

    ``1 / 2 + z sqrt((n_positive + n_negative + 1) / (12 n_positive n_negative))``, of the normal
    approximation of the rank-sum test at a level of 0.2 %. Methods choose among models by bags
    held out, and folds share bags, so that noise passes about ten times as often. Above 1 there are
    too few bags.

    Examples
    --------
    >>> round(least_area(20, 20), 3), least_area(5, 5) > 1
    (0.766, True)
    """
    error = np.sqrt((n_positive + n_negative + 1) / (12.0 * n_positive * n_negative))
    return 0.5 + float(norm.isf(_CHANCE) * error)


def warn_of_chance(name: str, auc: float, positive: BoolArray) -> None:
    """Warn if the best instances of bags rank those held out no better than chance."""
    least = least_area(int(positive.sum()), int((~positive).sum()))
    if auc < least <= 1:
        # Without figures, so that Python shows it once for many fits.
        warnings.warn(
            f"{name} found nothing: ranked by their best instance, bags held out are in an order "
            "no better than chance (held_out_auc_). Do not rely on any of the scores.",
            ChanceWarning,
            stacklevel=2,
        )


def logistic_slope(
    values: FloatArray, positive: BoolArray, weights: FloatArray | None = None
) -> float:
    """Return the slope of Platt scaling without offset, so that value 0 has probability 1/2.

    Parameters
    ----------
    values : array of shape (n,)
        Held-out decision values.
    positive : array of bool of shape (n,)
        Their classes.
    weights : array of shape (n,), optional
        Their weights.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([1.0, 1.0, 1.0, -1.0])
    >>> round(float(np.exp(logistic_slope(values, np.array([True, True, False, False])))), 3)
    3.0
    """
    sign = np.where(positive, 1.0, -1.0)
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    weights = np.ones(len(values)) if weights is None else weights

    def loss(log_slope: float) -> float:
        return float(weights @ np.logaddexp(0.0, -np.exp(log_slope) * sign * values / scale))

    best = minimize_scalar(loss, bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-8})
    return float(np.exp(best.x)) / scale
