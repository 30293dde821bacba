"""The models of SoftPIGMIL: scales, views, walks, noisy-ors, their weights, and the forest.

A scale is a map of the features. A view is a whitened linear or kernel map on top of a scale. On
each view a walk and a noisy-or find a linear score of the instances. All are fitted on all bags
and without each fold of bags at the same time: arrays have one column per fit, that of all bags
first, so that a pass over the instances serves every fit.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logit, ndtr, ndtri
from sklearn.ensemble import ExtraTreesClassifier

from pigmil._core._sklearn_compat import SigmoidCalibration
from pigmil._core.segments import segment_argmax, segment_argmin, segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.distances import squared_distance_blocks
from pigmil.estimators._selection import instance_keys
from pigmil.graph.scoring import auc_standard_error, bag_auc
from pigmil.scale import column_moments, map_calls


@dataclass(frozen=True)
class Settings:
    """Every constant of SoftPIGMIL, and how it was chosen.

    "Development" means: by mean average precision on labelled development sets and halves of
    them (``benchmarks/bench_soft.py``). Limits without a remark keep time and memory bounded.
    """

    # The family of models. Development: 36 models on six scales and five widths were no better.
    scales: tuple[str, ...] = ("standard", "rank", "bins")
    widths: tuple[float | None, ...] = (None, 1.0, 3.0)  # of kernels; None is linear
    # Parameters of the estimator with the same names. Development.
    sharpness: float = 3.0
    max_iter: int = 10
    temperature: float = 0.5
    ridge: float = 0.03
    n_landmarks: int = 120
    max_instances: int = 15_000
    # Folds: each fit has three quarters of the bags. Models are weighted by two splits and areas
    # of normal distributions. Development: 1.3 points more on halves than one split and pairs.
    n_folds: int = 4
    # Views. The ridge was chosen by development, the others drop what is rounding error.
    whitening_ridge: float = 0.5  # share of the mean variance added to all variances
    least_eigenvalue: float = 1e-6  # of the kernel between landmarks, beside the largest
    least_variance: float = 1e-3  # of a whitened direction
    n_knots: int = 256  # of the table of ranks of a feature
    n_bins: int = 8  # of a feature
    most_binned: int = 128  # features; with more the whitening of bins takes longer than the rest
    wide: int = 1024  # features from which rows stay sparse, and only landmarks are used
    block_rows: int = 4096
    # Noisy-or: steps of L-BFGS; their number also regularizes. Development.
    noisy_or_steps: int = 20
    # Weights. Areas closer than this differ for other reasons than how instances are ranked.
    least_difference: float = 0.005
    least_weight: float = 0.01  # beside the largest; smaller ones become 0
    # Forest. Share, leaf size and smoothing by development; more trees change nothing there.
    forest_share: float = 0.35
    # Concepts of several parts: the forest of all instances counts twice the rest. Chosen on
    # mol_ester, logic7_atoms and pairs of handwritten digits, beside means of bags as its rival.
    parts_share: float = 2.0 / 3.0
    n_trees: int = 25  # without each fold, so that new bags have four times as many
    most_negatives: int = 3000
    leaf_size: int = 3
    added_odds: float = 0.02  # to both sides of the odds of a leaf
    share_steps: int = 1024  # shares are multiples of 1 / 1024: their sums are exact
    # Two groups that explain the labels. Between BASIC (gap 4.5 to 5.7) and one cluster (3.1).
    first_auc: float = 0.9
    rival_auc: float = 0.99
    far_apart: float = 4.0  # standard deviations of the negatives
    far_tighter: float = 4.0  # ratio of squared spreads
    # Large data (``_soft_large``): the contrast over all instances.
    least_per_bag: int = 6  # two by each of two rankings and two at random
    contrast_rounds: int = 16
    power_rounds: int = 8  # of a contrast within bags
    clear_contrast: float = 0.99  # area from which there is no second contrast
    contrast_features: int = 2048
    contrast_places: int = 1_000_000  # bags times features up to which folds are held out too
    same_direction: float = 0.99  # cosine from which a contrast has converged


SETTINGS = Settings()


@dataclass(frozen=True)
class WorkingSet:
    """The instances that models are fitted on, and which bags each fit uses.

    Parameters
    ----------
    rows : array or CSR of shape (n_instances, n_features)
        The instances.
    positions : array of int of shape (n_instances,)
        Their flat positions among all instances.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin among them.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.
    folds : list of arrays of bool of shape (n_bags,)
        Which bags are held out together; none if there are too few.
    n_splits : int, default=1
        How often each bag is held out: the folds are those of several splits in turn.
    """

    rows: Any
    positions: IntArray
    offsets: IntArray
    positive: BoolArray
    folds: list[BoolArray]
    n_splits: int = 1

    @cached_property
    def owner(self) -> IntArray:
        """Bag of each instance."""
        return segment_ids(self.offsets)

    @cached_property
    def inside(self) -> BoolArray:
        """Which instances are in positive bags."""
        return np.asarray(self.positive[self.owner])

    @cached_property
    def bags_used(self) -> BoolArray:
        """Bags of each fit, of shape (n_bags, n_fits): all, then all without each fold."""
        everyone = np.ones(len(self.positive), dtype=bool)
        return np.column_stack([everyone, *(~fold for fold in self.folds)])

    @cached_property
    def used(self) -> BoolArray:
        """Instances of each fit, of shape (n_instances, n_fits)."""
        return np.asarray(self.bags_used[self.owner])

    def best(self, scores: FloatArray) -> FloatArray:
        """Return the best score of each bag."""
        return segment_reduce(np.maximum, scores, self.offsets)

    def held_out(self, scores: FloatArray, split: int = 0) -> FloatArray:
        """Return the score of each instance by the fit without its bag (n_instances,).

        ``scores`` has one column per fit. Without folds it is the score by the fit of all bags.
        """
        n_folds = len(self.folds) // self.n_splits
        fit = 0 * self.owner
        if n_folds:
            first = split * n_folds
            fit = 1 + first + np.argmax(self.folds[first : first + n_folds], axis=0)[self.owner]
        return np.asarray(scores[np.arange(len(fit)), fit])

    def auc(self, scores: FloatArray) -> float:
        """Return the area under the ROC curve of bags held out, by their best instances."""
        return float(self.aucs(scores, bag_auc)[0])

    def aucs(
        self, scores: FloatArray, area: Callable[[FloatArray, BoolArray], float]
    ) -> FloatArray:
        """Return the same for the bags that each fit uses, of shape (n_fits,)."""
        splits = [self.best(self.held_out(scores, split)) for split in range(self.n_splits)]
        areas = [
            [area(best[used], self.positive[used]) for used in self.bags_used.T] for best in splits
        ]
        return np.asarray(np.mean(areas, axis=0), dtype=np.float64)

    def keep(self, kept: IntArray) -> "WorkingSet":
        """Return the same with some of the instances, given by ascending positions."""
        offsets = np.searchsorted(kept, self.offsets).astype(np.int64)
        return replace(self, rows=self.rows[kept], positions=self.positions[kept], offsets=offsets)


# --- scales and views


@dataclass(frozen=True)
class Scale:
    """A map of the features, from :func:`fit_scale`.

    Parameters
    ----------
    kind : {"standard", "rank", "bins"}
        Which map.
    center, factor : array of shape (n_features,)
        Subtracted and multiplied, after the ranks.
    knots, levels : array of shape (n_knots, n_features) or None
        Values of each feature and the normal scores of their ranks.
    feature, low, high : array of shape (n_columns,) or None
        A column is 1 where its feature is at least the low and below the high value.
    """

    kind: str
    center: FloatArray
    factor: FloatArray
    knots: FloatArray | None = None
    levels: FloatArray | None = None
    feature: IntArray | None = None
    low: FloatArray | None = None
    high: FloatArray | None = None

    def apply(self, rows: Any) -> Any:
        """Return the instances on this scale, in their precision.

        Sparse instances stay sparse; their scale has no center.
        """
        if sp.issparse(rows):
            return sp.csr_matrix(rows.multiply(self.factor[None, :]))
        precision = rows.dtype if rows.dtype == np.float32 else np.float64
        if self.feature is not None:
            values = rows[:, self.feature]
            return ((values >= self.low) & (values < self.high)).astype(precision)
        if self.knots is not None and self.levels is not None:
            columns = zip(rows.T, self.knots.T, self.levels.T, strict=True)
            rows = np.column_stack([np.interp(x, *table) for x, *table in columns])
        values = np.subtract(rows, self.center, dtype=np.float64)
        values *= self.factor
        return values.astype(precision, copy=False)


def fit_scale(kind: str, rows: Any, settings: Settings = SETTINGS) -> Scale:
    """Return the scale of a kind for these instances.

    ``"standard"`` subtracts the mean and divides by the standard deviation (constant features
    become 0; sparse and wide instances are not centred); ``"rank"`` first replaces each value by
    ``Phi^-1(r)``, ``r`` its mid-rank divided by the number of instances, interpolated between at
    most 256 values; ``"bins"`` has one column for each of at most eight intervals of each feature
    (:func:`bin_limits`), in which any sum of functions of single features is nearly linear.

    Examples
    --------
    >>> import numpy as np
    >>> scale = fit_scale("rank", np.array([[1.0], [10.0], [1000.0]]))
    >>> scale.apply(np.array([[10.0], [1e9]])).round(2)
    array([[0.  ],
           [1.22]])
    """
    n_features = rows.shape[1]
    nothing, ones = np.zeros(n_features), np.ones(n_features)
    if kind == "bins":
        limits = [bin_limits(column, settings.n_bins) for column in rows.T]
        feature = np.repeat(np.arange(n_features), [len(each) + 1 for each in limits])
        low = np.concatenate([np.append(-np.inf, each) for each in limits])
        high = np.concatenate([np.append(each, np.inf) for each in limits])
        return Scale(kind, nothing, ones, feature=feature, low=low, high=high)
    scale = Scale(kind, nothing, ones)
    if kind == "rank":
        tables = [rank_table(column, settings.n_knots) for column in rows.T]
        knots, levels = (np.column_stack(parts) for parts in zip(*tables, strict=True))
        scale = replace(scale, knots=knots, levels=levels)
        rows = scale.apply(rows)
    center, variance = column_moments(rows)
    varies = variance > 1e-20 * (1.0 + center**2)
    factor = varies / np.sqrt(np.where(varies, variance, 1.0))
    return replace(scale, center=nothing if n_features > settings.wide else center, factor=factor)


def bin_limits(column: NDArray[Any], n_bins: int = SETTINGS.n_bins) -> FloatArray:
    """Return the limits between at most eight intervals of a feature.

    Each lies midway between neighbouring values: between all of them if there are at most eight,
    otherwise after each octile.

    Examples
    --------
    >>> import numpy as np
    >>> bin_limits(np.array([0.0, 3.0, 1.0, 0.0]))
    array([0.5, 2. ])
    >>> bin_limits(np.arange(16.0))
    array([ 1.5,  3.5,  5.5,  7.5,  9.5, 11.5, 13.5])
    """
    values, counts = np.unique(np.asarray(column, dtype=np.float64), return_counts=True)
    last = np.arange(len(values) - 1)
    if len(values) > n_bins:
        quantiles = np.arange(1, n_bins) * len(column) / n_bins
        last = np.unique(np.searchsorted(np.cumsum(counts), quantiles))
        last = last[last < len(values) - 1]
    return np.asarray((values[last] + values[last + 1]) / 2)


def rank_table(column: NDArray[Any], n_knots: int = 256) -> tuple[FloatArray, FloatArray]:
    """Return 256 values of a feature and the normal scores of their mid-ranks.

    Values that are left out lie between the kept ones; a short table is filled up with its last
    entry.

    Examples
    --------
    >>> import numpy as np
    >>> values, scores = rank_table(np.array([3.0, 5.0, 5.0, 7.0]))
    >>> values[:3], scores[:3].round(2)
    (array([3., 5., 7.]), array([-1.15,  0.  ,  1.15]))
    """
    values, counts = np.unique(np.asarray(column, dtype=np.float64), return_counts=True)
    scores = ndtri((np.cumsum(counts) - counts / 2) / counts.sum())
    chosen = evenly_spaced(len(values), n_knots)
    chosen = np.append(chosen, np.full(n_knots - len(chosen), chosen[-1]))
    return values[chosen], scores[chosen]


def evenly_spaced(n: int, most: int) -> IntArray:
    """Return at most ``most`` positions of ``range(n)``, evenly spaced, with both ends.

    Examples
    --------
    >>> evenly_spaced(9, 3), evenly_spaced(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)


def landmark_positions(rows: Any, inside: BoolArray, most: int) -> IntArray:
    """Return instances of positive bags and of negative bags, evenly spaced by content.

    They are sorted by :func:`~pigmil.estimators._selection.instance_keys` first, so that their
    order changes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0], [3.0], [2.0], [5.0], [4.0]])
    >>> landmark_positions(rows, np.array([True, True, True, False, False]), 2)
    array([0, 1, 4, 3])
    """
    order = np.argsort(instance_keys(rows), kind="stable")
    sides = [order[inside[order]], order[~inside[order]]]
    return np.concatenate([side[evenly_spaced(len(side), most)] for side in sides])


def distances_to_landmarks(scaled: Any, landmarks: Any) -> NDArray[Any]:
    """Return the squared distances of instances to landmarks, in the precision of the former."""
    squared = np.empty((scaled.shape[0], landmarks.shape[0]), dtype=scaled.dtype)
    double = scaled.dtype != np.float32
    for rows, columns, block in squared_distance_blocks(scaled, landmarks, double=double):
        squared[rows, columns] = block
    return squared


def dense(rows: Any) -> NDArray[Any]:
    """Return sparse rows as an array, and arrays as they are."""
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows)


def whitening(
    features: NDArray[Any], between: NDArray[Any] | None, settings: Settings = SETTINGS
) -> tuple[FloatArray, FloatArray]:
    """Return the projection and the shift that whiten features.

    ``psi = (f - mean) B U (l + ridge mean(l))^(-1/2)`` with the covariance ``U diag(l) U'`` of
    ``(f - mean) B``. ``B`` is the identity, or ``V e^(-1/2)`` if the features are kernels with
    landmarks whose kernel matrix is ``V diag(e) V'`` (Nystroem). So ``psi_i . psi_j`` is the
    score that the exemplar LDA of j gives to i.

    Parameters
    ----------
    features : array of shape (n_instances, n_basis)
        Values, or kernels with the landmarks.
    between : array of shape (n_basis, n_basis) or None
        Kernel matrix of the landmarks.
    settings : Settings
        With the ridge, and the limits below which directions are dropped.

    Returns
    -------
    projection : array of shape (n_basis, n_directions)
    shift : array of shape (n_directions,)

    Examples
    --------
    >>> import numpy as np
    >>> plain = Settings(whitening_ridge=0.0)
    >>> projection, shift = whitening(np.array([[-1.0], [3.0]]), None, plain)
    >>> np.abs(np.array([[-1.0], [3.0]]) @ projection - shift)
    array([[1.],
           [1.]])
    """
    mean = features.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for rows in row_blocks(features, settings):
        centred = rows - mean
        covariance += centred.T @ centred
    covariance /= len(features)
    basis = np.eye(len(mean))
    if between is not None:
        values, vectors = np.linalg.eigh(between)
        kept = values > settings.least_eigenvalue * max(values[-1], 1e-300)
        basis = vectors[:, kept] / np.sqrt(values[kept])
        covariance = basis.T @ covariance @ basis
    variances, axes = np.linalg.eigh(covariance)
    variances = np.maximum(variances, 0.0)
    added = settings.whitening_ridge * variances.mean()
    least = np.maximum(settings.least_variance * (variances + added), 1e-12 * variances[-1:])
    kept = variances > least
    if not kept.any():
        return np.zeros((len(mean), 1)), np.zeros(1)
    projection = basis @ (axes[:, kept] / np.sqrt(variances[kept] + added))
    return projection, mean @ projection


def row_blocks(rows: Any, settings: Settings = SETTINGS) -> Iterator[Any]:
    """Yield blocks of instances, dense ones unless they have very many features."""
    for start in range(0, rows.shape[0], settings.block_rows):
        block = rows[start : start + settings.block_rows]
        yield block if rows.shape[1] > settings.wide else dense(block)


def fit_view(
    scaled: Any, marks: IntArray, width: float | None, settings: Settings
) -> tuple[float | None, NDArray[np.float32], FloatArray, FloatArray]:
    """Whiten instances on a scale, as they are or through kernels with the landmarks ``marks``.

    The unit of width is the root of half the total variance. Where there are very many features,
    the linear map is that of the products with the landmarks.

    Returns
    -------
    gamma : float or None
        ``k(x, z) = exp(-gamma |x - z|^2)``; None for the linear map.
    psi : array of shape (n_instances, n_directions)
        The instances in this view, in single precision: models pass over them many times.
    projection, shift : arrays of shape (n_basis, n_directions) and (n_directions,)
        ``psi = features . projection - shift``.
    """
    gamma = None
    features, landmarks = scaled, scaled[marks]
    if width is not None:
        unit = float(column_moments(scaled)[1].sum()) / 2.0
        gamma = 1.0 / (2.0 * width**2 * (unit if unit > 1e-300 else 1.0))
        features = np.exp(-gamma * distances_to_landmarks(scaled, landmarks))
    elif scaled.shape[1] > settings.wide and scaled.shape[1] > len(marks):
        features = dense(scaled @ landmarks.T)
    between = None if features is scaled else features[marks].astype(np.float64)
    projection, shift = whitening(features, between, settings)
    psi = (features @ projection.astype(features.dtype) - shift).astype(np.float32)
    if width is None and between is not None:
        projection = dense(landmarks.T @ projection)  # of the values instead of the products
    return gamma, psi, projection, shift


# --- walk and noisy-or


@dataclass(frozen=True)
class Fits:
    """Linear scores of whitened instances, one column per fit.

    Parameters
    ----------
    scores : array of shape (n_instances, n_fits)
        In standard deviations of the negatives' scores. Where a walk uses a bag, its instances
        are scored without it.
    coef, intercept : arrays of shape (n_directions, n_fits) and (n_fits,)
        The score of other instances: ``psi . coef + intercept``.
    """

    scores: FloatArray
    coef: FloatArray
    intercept: FloatArray


def soft_pool(scores: FloatArray, offsets: IntArray, sharpness: float) -> FloatArray:
    """Share the one place of each bag among its instances, in every column.

    ``q_i = exp(sharpness s_i) / sum over the bag of exp(sharpness s_j)``.

    Examples
    --------
    >>> import numpy as np
    >>> soft_pool(np.array([0.0, np.log(3.0), 5.0]), np.array([0, 2, 3]), 1.0)
    array([0.25, 0.75, 1.  ])
    """
    owner = segment_ids(offsets)
    best = segment_reduce(np.maximum, scores, offsets)
    raised = np.exp(sharpness * (scores - best[owner]))
    return np.asarray(raised / segment_reduce(np.add, raised, offsets)[owner], dtype=np.float64)


def within_bags(
    weights: NDArray[Any], psi: NDArray[Any], offsets: IntArray, bags: IntArray
) -> NDArray[Any]:
    """Return ``sum_j w_jk psi_i.psi_j`` over the bag of each instance of some bags, else 0.

    ``weights`` and the result have one row per instance and one column per fit.
    """
    weights = weights.astype(psi.dtype)
    found = np.zeros_like(weights)
    # Bag by bag: each is two small products, and no bag needs the table of all its pairs.
    for bag in bags:
        part = slice(offsets[bag], offsets[bag + 1])
        found[part] = psi[part] @ (psi[part].T @ weights[part])
    return found


def negative_moments(values: FloatArray, work: WorkingSet) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the negatives' values that each fit uses.

    The latter is at least a hundredth of that of all values it uses, and 1 if all are equal.
    """
    (center, spread), (_, overall) = (
        _moments(values, mask) for mask in (work.used & ~work.inside[:, None], work.used)
    )
    spread = np.maximum(spread, 0.01 * overall)
    return center, np.where(spread > 1e-12, spread, 1.0)


def _moments(values: FloatArray, mask: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of some values of each column."""
    weights = mask / mask.sum(axis=0)  # products are several times faster than ``where=mask``
    center = np.einsum("ij,ij->j", weights, values)
    square = np.einsum("ij,ij->j", weights, np.square(values - center))
    return center, np.sqrt(square)


def walk(psi: NDArray[Any], work: WorkingSet, settings: Settings = SETTINGS) -> Fits:
    """Score and share the places of positive bags in turn, from equal shares.

    ``s_i = mean over the other positive bags b of sum_{j in b} q_j psi_i.psi_j - mean over the
    negative instances j of other bags of psi_i.psi_j``, in standard deviations of the negatives'
    scores, then ``q = softmax(sharpness s)`` in every positive bag.

    Parameters
    ----------
    psi : array of shape (n_instances, n_directions)
        Whitened instances.
    work : WorkingSet
        Their bags, and the bags of each fit.
    settings : Settings
        With ``sharpness`` and ``max_iter``.
    """
    sizes = np.diff(work.offsets)[work.owner][:, None]
    negative, positive = work.used & ~work.inside[:, None], work.used & work.inside[:, None]
    n_positive = work.bags_used[work.positive].sum(axis=0)  # bags
    n_negative = negative.sum(axis=0)  # instances
    bags = [np.flatnonzero(side) for side in (~work.positive, work.positive)]
    # The mean over the negatives of other bags stays the same in all rounds.
    negatives = psi.T @ negative.astype(psi.dtype)  # (n_directions, n_fits)
    against = (psi @ negatives).astype(np.float64)
    against -= within_bags(negative, psi, work.offsets, bags[0])
    against /= np.maximum(n_negative - sizes * negative, 1)
    others = np.where(positive, np.maximum(n_positive - 1, 1), n_positive)
    pool = positive / sizes
    for _ in range(settings.max_iter):
        places = psi.T @ pool.astype(psi.dtype)  # (n_directions, n_fits)
        own = within_bags(pool, psi, work.offsets, bags[1])
        values = ((psi @ places).astype(np.float64) - own) / others - against
        center, spread = negative_moments(values, work)
        scores = (values - center) / spread
        pool = soft_pool(scores, work.offsets, settings.sharpness) * positive
    coef = (places / n_positive - negatives / n_negative).astype(np.float64)
    return Fits(scores, coef / spread, -center / spread)


def noisy_or_loss(
    parameters: FloatArray, psi: NDArray[Any], work: WorkingSet, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """Return the loss of a noisy-or over the bags of each fit, and its gradient.

    With ``g_i = coef . psi_i + intercept`` and ``p_i = 1 / (1 + exp(-g_i))`` a bag is positive
    with probability ``p_b = 1 - prod_i (1 - p_i)``. The loss is minus the mean log-likelihood of
    the positive bags and that of the negative bags, half each, plus ``ridge / 2 |coef|^2``.

    Parameters
    ----------
    parameters : array of shape (n_directions + 1, n_fits)
        Coefficients, and the intercepts last.
    psi, work
        As in :func:`walk`.
    ridge : float
        Weight of the penalty.

    Returns
    -------
    losses : array of shape (n_fits,)
    gradients : array of shape (n_directions + 1, n_fits)
    """
    coef = parameters[:-1]
    margins = (psi @ coef.astype(psi.dtype)).astype(np.float64) + parameters[-1]
    small = np.exp(-np.abs(margins))  # one exponential for both log(1 + exp(g)) and p
    chance = np.where(margins > 0, 1.0, small) / (1.0 + small)
    # -log(1 - p_b), which is the loss of a negative bag
    hazard = np.maximum(margins, 0.0) + np.log1p(small)
    hazard = segment_reduce(np.add, hazard, work.offsets)
    hazard = np.maximum(hazard, 1e-300)
    label = work.positive[:, None]
    counts = [(work.bags_used & side).sum(axis=0) for side in (label, ~label)]
    weights = work.bags_used * np.where(label, 0.5 / counts[0], 0.5 / counts[1])
    losses = np.where(label, -np.log(-np.expm1(-hazard)), hazard)
    with np.errstate(over="ignore"):
        slopes = np.where(label, -1.0 / np.expm1(hazard), 1.0) * weights
    pull = slopes[work.owner] * chance
    gradient = (psi.T @ pull.astype(psi.dtype)).astype(np.float64) + ridge * coef
    loss = (weights * losses).sum(axis=0) + 0.5 * ridge * (coef**2).sum(axis=0)
    return loss, np.vstack([gradient, pull.sum(axis=0)])


def fit_noisy_or(psi: NDArray[Any], work: WorkingSet, settings: Settings = SETTINGS) -> Fits:
    """Minimize :func:`noisy_or_loss` from zero coefficients; the score is the linear part."""
    start = np.zeros((psi.shape[1] + 1, work.used.shape[1]))
    start[-1] = -2.0
    loss = partial(noisy_or_loss, psi=psi, work=work, ridge=settings.ridge)
    coef = minimize_columns(loss, start, settings.noisy_or_steps)[:-1]
    values = (psi @ coef.astype(psi.dtype)).astype(np.float64)
    center, spread = negative_moments(values, work)
    return Fits((values - center) / spread, coef / spread, -center / spread)


def minimize_columns(
    function: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    point: FloatArray,
    n_steps: int,
) -> FloatArray:
    """Minimize one function of each column by L-BFGS, all columns at the same time.

    With scipy's, one column after the other, a fit of 60 to 80 bags takes a fifth more time.

    Parameters
    ----------
    function : callable
        Takes an array of shape (n_parameters, n_columns); returns the value of each column and
        the gradients, of the same shape as the array.
    point : array of shape (n_parameters, n_columns)
        Where to start. No column depends on another one.
    n_steps : int
        Number of steps. A column stays where it is if a step would lower its value by less than a
        millionth.

    Examples
    --------
    >>> import numpy as np
    >>> centers = np.array([[1.0, -2.0], [3.0, 0.5]])
    >>> found = minimize_columns(
    ...     lambda x: (((x - centers) ** 2).sum(axis=0), 2 * (x - centers)), np.zeros((2, 2)), 20
    ... )
    >>> bool(np.allclose(found, centers))
    True
    """
    dot = partial(np.einsum, "ij,ij->j")
    value, gradient = function(point)
    steps: list[tuple[FloatArray, FloatArray, FloatArray]] = []  # step, change of gradient, 1/s.y
    scale = 1.0 / np.maximum(np.sqrt(dot(gradient, gradient)), 1.0)
    for _ in range(n_steps):
        # Two-loop recursion (Nocedal and Wright, Algorithm 7.4); pairs with rate 0 do nothing.
        towards, shares = gradient.copy(), []
        for step, change, rate in reversed(steps):
            shares.append(rate * dot(step, towards))
            towards -= shares[-1] * change
        towards *= scale
        for (step, change, rate), share in zip(steps, reversed(shares), strict=True):
            towards += step * (share - rate * dot(change, towards))
        slope = dot(gradient, towards)
        length = np.where(slope > 1e-6 * np.maximum(np.abs(value), 1.0), 1.0, 0.0)
        for _ in range(10):  # halve the step of columns whose value does not fall enough
            trial = point - length * towards
            new_value, new_gradient = function(trial)
            enough = new_value <= value - 1e-4 * length * slope
            if enough.all():
                break
            length = np.where(enough, length, length / 2)
        step = np.where(enough, trial - point, 0.0)
        change = np.where(enough, new_gradient - gradient, 0.0)
        curvature, size = dot(step, change), dot(change, change)
        useful = curvature > 1e-12 * size
        rate = useful / np.where(useful, curvature, 1.0)
        steps = [*steps, (step, change, rate)][-10:]
        scale = np.where(useful, curvature / np.where(useful, size, 1.0), scale)
        point, gradient = point + step, gradient + change
        value = np.where(enough, new_value, value)
    return point


# --- the family of models, and their weights


@dataclass(frozen=True)
class ScaleScore:
    """Linear functions of instances on one scale, and of kernels with landmarks.

    Parameters
    ----------
    scale : Scale
    landmarks : array or CSR of shape (n_landmarks, n_columns)
        On this scale.
    linear : array of shape (n_columns, n_fits)
    gammas : array of shape (n_widths,)
    kernels : array of shape (n_widths, n_landmarks, n_fits)
        Weights of ``exp(-gamma |x - z|^2)``.
    """

    scale: Scale
    landmarks: Any
    linear: FloatArray
    gammas: FloatArray
    kernels: FloatArray

    def scores(self, rows: Any) -> FloatArray:
        """Return the sums for some instances, of shape (n_instances, n_fits)."""
        scaled = self.scale.apply(rows)
        total = np.asarray(scaled @ self.linear.astype(scaled.dtype), dtype=np.float64)
        if len(self.gammas):
            squared = distances_to_landmarks(scaled, self.landmarks)
            for gamma, weights in zip(self.gammas, self.kernels, strict=True):
                total += np.exp(-float(gamma) * squared) @ weights.astype(scaled.dtype)
        return total

    def first_fit(self, factor: float) -> "ScaleScore":
        """Return the function of the first fit, multiplied by a factor."""
        linear, kernels = factor * self.linear[:, :1], factor * self.kernels[..., :1]
        return replace(self, linear=linear, kernels=kernels)


@dataclass(frozen=True)
class Model:
    """One model: kind, scale and width, and its scores; see :class:`Fits`.

    ``weights`` and ``constant`` give the score of other instances as a linear function of what
    its view whitens: the values on the scale, or kernels with the landmarks.
    """

    kind: str
    scale: int
    width: float | None
    gamma: float | None
    scores: FloatArray
    weights: FloatArray
    constant: FloatArray


KINDS: dict[str, Callable[..., Fits]] = {"walk": walk, "noisy_or": fit_noisy_or}


@dataclass(frozen=True)
class Family:
    """All models fitted on some instances, and their weights.

    Parameters
    ----------
    scales, landmarks : lists
        Each scale, and the landmarks on it.
    models : list of Model
    aucs, weights : arrays of shape (n_models, n_fits)
        Area under the ROC curve of bags held out (:func:`normal_auc`; one half if there are
        none), and weight. Those of a fit without a fold are measured on the bags of other folds:
        otherwise the best of many models by chance would rank noise.
    """

    scales: list[Scale]
    landmarks: list[Any]
    models: list[Model]
    aucs: FloatArray
    weights: FloatArray

    def scores(self, weights: FloatArray) -> FloatArray:
        """Return the weighted mean of the scores of all models, of shape (n_instances, n_fits)."""
        pairs = zip(self.models, weights, strict=True)
        return np.asarray(sum(weight * model.scores for model, weight in pairs))

    def committee(self) -> tuple[list[ScaleScore], FloatArray]:
        """Return the same for other instances: one sum per scale, and the intercepts."""
        pairs = zip(self.models, self.weights, strict=True)
        counted = [(model, weight) for model, weight in pairs if weight.any()]
        intercept = np.sum([weight * model.constant for model, weight in counted], axis=0)
        parts = []
        for number, (scale, landmarks) in enumerate(zip(self.scales, self.landmarks, strict=True)):
            mine = [(model, weight) for model, weight in counted if model.scale == number]
            linear = np.zeros((landmarks.shape[1], len(intercept)))
            kernels: dict[float, FloatArray] = {}
            for model, weight in mine:
                if model.gamma is None:
                    linear += weight * model.weights
                else:
                    kernels[model.gamma] = kernels.get(model.gamma, 0.0) + weight * model.weights
            shape = (len(kernels), landmarks.shape[0], len(intercept))
            table = np.reshape([*kernels.values()], shape)
            parts.append(ScaleScore(scale, landmarks, linear, np.array([*kernels]), table))
        return parts, intercept


def committee_scores(
    parts: Sequence[ScaleScore], intercept: FloatArray, instances: Any
) -> FloatArray:
    """Return the scores of instances by every fit, in blocks of rows: (n_instances, n_fits)."""
    blocks = [
        sum((part.scores(rows) for part in parts), start=intercept)
        for rows in row_blocks(instances)
    ]
    return np.concatenate(blocks)


def fit_family(
    work: WorkingSet,
    kinds: Sequence[str],
    settings: Settings,
    *,
    more: Callable[[Scale], Model] | None = None,
    n_jobs: int | None = None,
) -> Family:
    """Fit a walk and a noisy-or on every view of some kinds of scales, and weight them.

    ``more`` adds a linear model on the first scale. The views of a scale are fitted in threads,
    or on a cluster while the next scale is prepared.
    """
    marks = landmark_positions(work.rows, work.inside, settings.n_landmarks)
    scales, landmarks, fitted = [], [], []
    bare = replace(work, rows=None)  # what a cluster is sent
    for number, kind in enumerate(kinds):
        scales.append(fit_scale(kind, work.rows, settings))
        scaled = scales[-1].apply(work.rows)
        landmarks.append(scaled[marks])
        fit = partial(_fit_models, bare, scaled, marks, number, settings)
        widths = settings.widths if kind != "bins" else (None,)
        fitted.append(map_calls(fit, [(width,) for width in widths], n_jobs=n_jobs))
    models = [model for pairs in itertools.chain.from_iterable(fitted) for model in pairs]
    if more is not None:
        models.append(more(scales[0]))
    aucs = np.full((len(models), work.used.shape[1]), 0.5)
    if work.folds:
        aucs = np.array([work.aucs(model.scores, normal_auc) for model in models])
    weights = [
        model_weights(areas, work.positive[used], settings)
        for areas, used in zip(aucs.T, work.bags_used.T, strict=True)
    ]
    return Family(scales, landmarks, models, aucs, np.column_stack(weights))


def _fit_models(
    work: WorkingSet,
    scaled: Any,
    marks: IntArray,
    number: int,
    settings: Settings,
    width: float | None,
) -> list[Model]:
    """Fit the models of one view."""
    gamma, psi, projection, shift = fit_view(scaled, marks, width, settings)
    models = []
    for kind, fit in KINDS.items():
        fits = fit(psi, work, settings)
        weights, constant = projection @ fits.coef, fits.intercept - shift @ fits.coef
        models.append(Model(kind, number, width, gamma, fits.scores, weights, constant))
    return models


def normal_auc(values: FloatArray, positive: BoolArray) -> float:
    """Return the area under the ROC curve of two normal distributions fitted to the values.

    ``Phi((m1 - m0) / sqrt(v1 + v0))`` with the means m and the variances v of both classes. With
    few bags it is less a matter of chance than the share of pairs in the right order.

    Examples
    --------
    >>> import numpy as np
    >>> round(normal_auc(np.array([3.0, 1.0, 1.0, -1.0]), np.array([1, 1, 0, 0]) == 1), 3)
    0.921
    """
    first, second = values[positive], values[~positive]
    spread = float(np.sqrt(first.var() + second.var()))
    difference = float(first.mean() - second.mean())
    return float(ndtr(difference / max(spread, 1e-12 * (1.0 + abs(difference)))))


def model_weights(
    aucs: FloatArray, positive: BoolArray, settings: Settings = SETTINGS
) -> FloatArray:
    """Return the weights of models, which sum to 1.

    ``w_m ~ exp((auc_m - max auc) / t)``; those below a hundredth of the largest become 0.
    Differences that could be chance should not decide: ``t^2 = (temperature e)^2 + 0.005^2`` with
    the standard error e of the largest area.

    Examples
    --------
    >>> import numpy as np
    >>> model_weights(np.array([0.9, 0.9, 0.3]), np.arange(40) < 20)
    array([0.5, 0.5, 0. ])
    """
    n_positive = int(positive.sum())
    error = auc_standard_error(float(aucs.max()), n_positive, len(positive) - n_positive)
    step = np.hypot(settings.temperature * error, settings.least_difference)
    weights = np.exp((aucs - aucs.max()) / step)
    weights[weights < settings.least_weight] = 0.0
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def fit_sigmoid(values: FloatArray, positive: BoolArray) -> tuple[float, float]:
    """Return slope and intercept of ``P(positive) = 1 / (1 + exp(-(slope v + intercept)))``.

    Platt's targets ``(n_positive + 1) / (n_positive + 2)`` and ``1 / (n_negative + 2)``; the slope
    is at least 0.05 per standard deviation, so that a higher value never means a lower
    probability.

    Examples
    --------
    >>> import numpy as np
    >>> slope, intercept = fit_sigmoid(np.array([-1.0, 1.0]), np.array([False, True]))
    >>> round(slope, 3), round(abs(intercept), 3)
    (0.693, 0.0)
    """
    center, spread = float(values.mean()), float(values.std())
    spread = spread if spread > 1e-12 else 1.0
    platt = SigmoidCalibration().fit((values - center) / spread, positive.astype(np.float64))
    slope, intercept = -float(platt.a_), -float(platt.b_)
    if slope < 0.05:
        n_positive, n_negative = positive.sum(), (~positive).sum()
        targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
        slope, intercept = 0.05, float(logit(targets.mean()))
    return slope / spread, intercept - slope * center / spread


# --- two groups that explain the labels


def find_rival(
    work: WorkingSet, family: Family, settings: Settings
) -> tuple[float, IntArray, IntArray]:
    """Find a second group of instances that explains the bag labels without a first one.

    The walk on the standard scale with a kernel of width 1 finds a group; a walk or a noisy-or
    without the instances it calls positive may find a rival. If both rank nearly all bags held
    out, bag labels cannot decide between them, and a group that is far tighter than the other is
    probably something that merely comes with positive bags. Groups that are not far apart
    (:func:`gap`) are one kind, and there is no rival.

    Returns
    -------
    rival_auc : float
        Held-out AUC of the second group; NaN if the first one does not reach 0.9, or if both are
        of one kind.
    rival : array of int
        The best instance in each positive bag of the group that does not count: the tighter one
        if it is far tighter, otherwise the second; empty if there is no such area.
    tighter : array of int
        The instances of the tighter of two groups that both rank nearly all bags, if it is far
        tighter; otherwise empty.
    """
    nothing = np.arange(0)
    first = next(model for model in family.models if (model.kind, model.width) == ("walk", 1.0))
    if not work.folds or work.auc(first.scores) < settings.first_auc:
        return np.nan, nothing, nothing
    scaled = family.scales[0].apply(work.rows)
    marks = landmark_positions(work.rows, work.inside, settings.n_landmarks)
    called, best = _group(first.scores, work)
    left = np.flatnonzero(~called)
    rest = work.keep(left)
    psi = fit_view(scaled, marks, first.width, settings)[1][left]
    scores = max((fit(psi, rest, settings).scores for fit in KINDS.values()), key=rest.auc)
    called_next, best_next = _group(scores, rest)
    rival_auc, rival = rest.auc(scores), left[best_next]
    rows = [scaled[at] for at in (best, rival)]
    rows = [part[np.argsort(instance_keys(part), kind="stable")] for part in rows]
    if gap(rows[0], rows[1], scaled[~work.inside]) < settings.far_apart:
        return np.nan, nothing, nothing
    spreads = [robust_spread(part) for part in rows]
    if rival_auc < settings.rival_auc or max(spreads) < settings.far_tighter * min(spreads):
        return rival_auc, rival, nothing
    if spreads[0] <= spreads[1]:
        return rival_auc, best, np.flatnonzero(called)
    return rival_auc, rival, left[called_next]


def _group(scores: FloatArray, work: WorkingSet) -> tuple[BoolArray, IntArray]:
    """Return which instances a model calls positive, and the best one of each positive bag."""
    seen = scores[:, 0]
    slope, intercept = fit_sigmoid(work.best(work.held_out(scores)), work.positive)
    called = (slope * seen + intercept > 0) & work.inside
    called[segment_argmin(seen, work.offsets)] = False  # every bag keeps one
    return called, segment_argmax(seen, work.offsets)[work.positive]


def robust_spread(rows: FloatArray) -> float:
    """Return the sum over features of the squared median absolute deviation from the median.

    Examples
    --------
    >>> import numpy as np
    >>> robust_spread(np.array([[0.0], [1.0], [2.0], [3.0], [100.0]]))
    1.0
    """
    deviations = np.abs(rows - np.median(rows, axis=0))
    return float((np.median(deviations, axis=0) ** 2).sum())


def gap(first: FloatArray, second: FloatArray, negatives: FloatArray) -> float:
    """Return how far two groups are apart, in standard deviations of the negatives.

    With the differences of means ``a`` and ``b`` of the even and of the odd rows of the groups:
    ``a.b / |a|`` over the standard deviation of the negatives along ``a``. Noise in the means
    cancels in the product.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.array([[0.0], [1.0]]), np.array([[6.0], [9.0]])
    >>> gap(first, second, np.array([[-2.0], [2.0]]))
    4.0
    """
    axis, other = (second[start::2].mean(axis=0) - first[start::2].mean(axis=0) for start in (0, 1))
    spread = float(np.std(negatives @ axis))
    return float(axis @ other) / max(spread, 1e-12)


# --- the forest


def fit_forests(
    rows: NDArray[Any],
    scores: FloatArray,
    work: WorkingSet,
    settings: Settings,
    *,
    n_jobs: int | None = None,
) -> list[ExtraTreesClassifier]:
    """Fit a forest without each fold of the first split, to separate a pool from the negatives.

    Parameters
    ----------
    rows : array of shape (n_instances, n_features)
        Standardized instances.
    scores : array of shape (n_instances, n_fits)
        Scores so far. In standard deviations of the negatives, their softmax is the pool.
    work : WorkingSet
    settings : Settings
    n_jobs : int, optional
        Forests fitted at a time, in threads, if there is no cluster.
    """
    _, spread = negative_moments(scores, work)
    pool = soft_pool(scores / spread, work.offsets, settings.sharpness)
    best = segment_reduce(np.maximum, pool, work.offsets)[work.owner]
    # Sums of such weights are exact, so that two features that divide a node alike stay tied
    # in any order of the instances. A bag keeps its best instances, however small their shares.
    least = 1.0 / settings.share_steps
    shares = np.round(pool * settings.share_steps) * least
    shares = np.where(pool == best, np.maximum(shares, least), shares)
    rows = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0.0)  # no negative zeros
    # An order that depends on the values only: by their bytes.
    order = np.argsort(rows.view(f"V{4 * rows.shape[1]}").ravel(), kind="stable")
    calls = []
    for fit in range(1, 1 + len(work.folds) // work.n_splits):
        mine = order[work.used[order, fit]]
        likely = mine[work.inside[mine] & (shares[mine, fit] > 0)]
        certain = mine[~work.inside[mine]]
        certain = certain[evenly_spaced(len(certain), settings.most_negatives)]
        # Both sides weigh the same in total, up to rounding to multiples of 2^-20.
        each = np.ceil(shares[likely, fit].sum() / len(certain) * 2.0**20) / 2.0**20
        weights = np.append(shares[likely, fit], np.full(len(certain), each))
        calls.append((rows[np.append(likely, certain)], len(likely), weights))
    return list(map_calls(partial(_fit_forest, settings), calls, n_jobs=n_jobs))


def _fit_forest(
    settings: Settings, rows: NDArray[Any], n_likely: int, weights: FloatArray
) -> ExtraTreesClassifier:
    forest = ExtraTreesClassifier(
        settings.n_trees, min_samples_leaf=settings.leaf_size, random_state=0
    )
    return forest.fit(rows, np.arange(len(rows)) < n_likely, sample_weight=weights)


def log_odds(
    forests: Sequence[ExtraTreesClassifier], rows: NDArray[Any], settings: Settings = SETTINGS
) -> FloatArray:
    """Return the log-odds of standardized instances by all trees of some forests."""
    # Tree by tree: the pool of workers of predict_proba warns in the threads that read blocks.
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    trees = [tree for forest in forests for tree in forest.estimators_]
    share = np.mean([tree.predict_proba(rows, check_input=False)[:, 1] for tree in trees], axis=0)
    added = settings.added_odds
    return np.asarray(np.log((share + added) / (1.0 - share + added)), dtype=np.float64)
