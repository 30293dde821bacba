"""The views of SoftPIGMIL: scales of the features, and whitened maps on top of each scale.

A scale is a map of the features (standardized, normal scores of ranks, principal components of
equal variance, with their squares, in bins). A view is a linear map, or a Gaussian kernel of some
width seen through landmarks, followed by whitening: the inner product of two instances in a view
is what the exemplar LDA of one says about the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtri

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.estimators._selection import instance_keys

_BLOCK_ROWS = 4096
_MOST_KNOTS = 256  # of the table of ranks of a feature
_MOST_BINS = 8  # of a feature
_MOST_FEATURES = {"squares": 256, "bins": 128}  # they have several columns per feature
_SMALLEST_EIGENVALUE = 1e-6  # of a kernel between landmarks, beside the largest
_SMALLEST_SHARE = 1e-3  # of the variance that a whitened direction keeps


@dataclass(frozen=True)
class Scale:
    """A map of the features, fitted by :func:`fit_scale`.

    Parameters
    ----------
    kind : {"raw", "standard", "rank", "whitened", "squares", "bins"}
        Which map.
    center, factor : array of shape (n_features,)
        Subtracted and multiplied, after the ranks and before everything else.
    knots, levels : array of shape (n_knots, n_features) or None
        Values of each feature and their normal scores.
    rotation : array of shape (n_features, n_features) or None
        Applied last.
    after : Scale or None
        Of the standardized features and their squares.
    bin_feature, bin_low, bin_high : array of shape (n_columns,) or None
        A column is 1 where its feature is at least the low and below the high value.
    single : bool, default=False
        Whether dense instances come out in single precision.
    """

    kind: str
    center: FloatArray
    factor: FloatArray
    knots: FloatArray | None = None
    levels: FloatArray | None = None
    rotation: FloatArray | None = None
    after: "Scale | None" = None
    bin_feature: IntArray | None = None
    bin_low: FloatArray | None = None
    bin_high: FloatArray | None = None
    single: bool = False

    @property
    def n_columns(self) -> int:
        """Number of columns of what :meth:`apply` returns."""
        if self.bin_feature is not None:
            return len(self.bin_feature)
        return len(self.center) if self.after is None else 2 * len(self.center)

    @property
    def has_more_columns(self) -> bool:
        """Whether there are several columns per feature."""
        return self.kind in ("squares", "bins")

    def apply(self, rows: Any) -> Any:
        """Return the instances on this scale; sparse ones stay sparse and are not centred.

        Their scale must have been fitted with ``centred=False``.
        """
        if sp.issparse(rows):
            return sp.csr_matrix(rows.multiply(self.factor[None, :]))
        precision = np.float32 if self.single else np.float64
        values = np.asarray(rows)
        if self.bin_feature is not None:
            values = values[:, self.bin_feature]
            return ((values >= self.bin_low) & (values < self.bin_high)).astype(precision)
        if self.knots is not None and self.levels is not None:
            columns = zip(values.T, self.knots.T, self.levels.T, strict=True)
            values = np.column_stack([np.interp(x, *table) for x, *table in columns])
        values = np.subtract(values, self.center, dtype=np.float64)
        values *= self.factor
        if self.after is not None:
            return self.after.apply(np.hstack([values, values**2]))
        values = values.astype(precision, copy=False)
        return values if self.rotation is None else values @ self.rotation.astype(precision)


def fit_scale(kind: str, rows: Any, *, centred: bool = True, single: bool = False) -> Scale:
    """Return the scale of a kind for these instances.

    ``"raw"`` subtracts the mean; ``"standard"`` also divides by the standard deviation (constant
    features become 0); ``"rank"`` replaces each value by ``Phi^-1(r)``, ``r`` its mid-rank
    divided by the number of instances, interpolated between at most 256 values, and standardizes;
    ``"whitened"`` standardizes and multiplies by ``U (l + 0.1 mean(l))^(-1/2)`` with the
    covariance ``U diag(l) U'``; ``"squares"`` standardizes the standardized features together
    with their squares, in which an axis-parallel Gaussian bump is linear; ``"bins"`` has one
    column for each interval of each feature (:func:`bin_limits`), in which any function of single
    features is nearly linear.

    Parameters
    ----------
    kind : {"raw", "standard", "rank", "whitened", "squares", "bins"}
        Which map; a sparse matrix takes the first two only.
    rows : array or CSR of shape (n_instances, n_features)
        The instances.
    centred : bool, default=True
        Whether to subtract the mean. Without it sparse and dense instances are mapped equally.
    single : bool, default=False
        Whether the scale returns single precision.

    Returns
    -------
    Scale

    Examples
    --------
    >>> import numpy as np
    >>> scale = fit_scale("rank", np.array([[1.0], [10.0], [1000.0]]))
    >>> scale.apply(np.array([[10.0], [1e9]])).round(2)
    array([[0.  ],
           [1.22]])
    """
    knots = levels = rotation = after = None
    if kind == "bins":
        return _fit_bins(np.asarray(rows), single)
    if kind == "rank":
        tables = [rank_table(column) for column in np.asarray(rows, dtype=np.float64).T]
        knots = np.column_stack([table[0] for table in tables])
        levels = np.column_stack([table[1] for table in tables])
        n_features = rows.shape[1]
        rows = Scale(kind, np.zeros(n_features), np.ones(n_features), knots, levels).apply(rows)
    center, variance = column_moments(rows)
    varies = variance > 1e-20 * (1.0 + center**2)
    factor = np.where(varies, 1.0, 0.0)
    if kind != "raw":
        factor = factor / np.sqrt(np.where(varies, variance, 1.0))
    if kind == "whitened":
        values = (np.asarray(rows, dtype=np.float64) - center) * factor
        variances, axes = np.linalg.eigh(values.T @ values / len(values))
        rotation = axes / np.sqrt(np.maximum(variances, 0.0) + 0.1 * variances.mean() + 1e-30)
    if kind == "squares":
        values = (np.asarray(rows, dtype=np.float64) - center) * factor
        after = fit_scale("standard", np.hstack([values, values**2]), single=single)
    if not centred:
        center = np.zeros_like(center)
    return Scale(kind, center, factor, knots, levels, rotation, after, single=single)


def _fit_bins(rows: NDArray[Any], single: bool) -> Scale:
    limits = [bin_limits(column) for column in rows.T]
    features = np.repeat(np.arange(len(limits)), [len(each) + 1 for each in limits])
    low = np.concatenate([np.append(-np.inf, each) for each in limits])
    high = np.concatenate([np.append(each, np.inf) for each in limits])
    nothing = np.zeros(rows.shape[1])
    return Scale(
        "bins",
        nothing,
        nothing,
        bin_feature=features,
        bin_low=low,
        bin_high=high,
        single=single,
    )


def bin_limits(column: NDArray[Any]) -> FloatArray:
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
    if len(values) > _MOST_BINS:
        octiles = np.arange(1, _MOST_BINS) * len(column) / _MOST_BINS
        last = np.unique(np.searchsorted(np.cumsum(counts), octiles))
        last = last[last < len(values) - 1]
    return np.asarray((values[last] + values[last + 1]) / 2)


def rank_table(column: FloatArray) -> tuple[FloatArray, FloatArray]:
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
    values, counts = np.unique(column, return_counts=True)
    scores = ndtri((np.cumsum(counts) - counts / 2) / counts.sum())
    chosen = evenly_spaced(len(values), _MOST_KNOTS)
    chosen = np.append(chosen, np.full(_MOST_KNOTS - len(chosen), chosen[-1]))
    return values[chosen], scores[chosen]


def column_moments(rows: Any) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of every feature of dense or sparse instances."""
    if sp.issparse(rows):
        mean = np.asarray(rows.mean(axis=0)).ravel()
        square = np.asarray(rows.multiply(rows).mean(axis=0)).ravel()
        return mean, np.maximum(square - mean**2, 0.0)
    return np.mean(rows, axis=0, dtype=np.float64), np.var(rows, axis=0, dtype=np.float64)


def useful_scales(kinds: Sequence[str], rows: Any, wide: bool) -> list[str]:
    """Leave out what the data cannot have, and the raw scale where it is the standard one."""
    useful = [
        kind
        for kind in kinds
        if (not wide or kind in ("raw", "standard"))
        and rows.shape[1] <= _MOST_FEATURES.get(kind, rows.shape[1])
    ]
    if len(useful) > 1:
        factor = fit_scale("standard", rows).factor
        factor = factor[factor > 0]
        if factor.size == 0 or factor.max() < 1.1 * factor.min():
            useful.remove("raw")
    return useful


def evenly_spaced(n: int, most: int) -> IntArray:
    """Return at most ``most`` positions of ``range(n)``, evenly spaced, with both ends.

    Examples
    --------
    >>> evenly_spaced(9, 3), evenly_spaced(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    if n <= most:
        return np.arange(n, dtype=np.int64)
    return np.linspace(0, n - 1, most).round().astype(np.int64)


def landmark_positions(rows: Any, positive: BoolArray, most: int) -> IntArray:
    """Return instances of positive bags and of negative bags, evenly spaced by content.

    Their order among all instances changes nothing: they are sorted by
    :func:`~pigmil.estimators._selection.instance_keys` first.

    Parameters
    ----------
    rows : array or CSR of shape (n_instances, n_features)
        The instances.
    positive : array of bool of shape (n_instances,)
        Whether the bag of each instance is positive.
    most : int
        Largest number for each class.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.array([[1.0], [3.0], [2.0], [5.0], [4.0]])
    >>> landmark_positions(rows, np.array([True, True, True, False, False]), 2)
    array([0, 1, 3, 4])
    """
    order = np.argsort(instance_keys(rows), kind="stable")
    sides = [order[positive[order]], order[~positive[order]]]
    return np.sort(np.concatenate([side[evenly_spaced(len(side), most)] for side in sides]))


def squared_distances(rows: Any, landmarks: Any) -> FloatArray:
    """Return ``|x|^2 + |z|^2 - 2 x.z``, not below 0, for every instance and landmark."""
    values = _dense(rows @ landmarks.T)
    values *= -2.0
    values += _square_norms(rows)[:, None]
    values += _square_norms(landmarks)[None, :]
    return np.maximum(values, 0.0, out=values)


def square_unit(scaled: Any) -> float:
    """Return half the total variance: the square of the unit of length."""
    total = float(column_moments(scaled)[1].sum())
    return total / 2.0 if total > 1e-300 else 1.0


@dataclass(frozen=True)
class View:
    """A whitened linear or kernel map of the instances on one scale.

    Parameters
    ----------
    scale : int
        Position of its scale.
    width : float or None
        Width of the kernel in units of length; None for the linear map.
    gamma : float
        ``k(x, z) = exp(-gamma |x - z|^2)``; 0 for the linear map.
    uses_landmarks : bool
        Whether the features are kernels with the landmarks of the scale, or the values
        themselves.
    projection : array of shape (n_basis, n_directions)
        Applied to those features,
    shift : array of shape (n_directions,)
        and subtracted.
    """

    scale: int
    width: float | None
    gamma: float
    uses_landmarks: bool
    projection: FloatArray
    shift: FloatArray

    def features(self, rows: Any, landmarks: Any, squared: FloatArray | None) -> FloatArray:
        """Return what the projection is applied to; ``squared`` are distances to landmarks."""
        return view_features(self.width, self.gamma, self.uses_landmarks, rows, landmarks, squared)


def view_features(
    width: float | None,
    gamma: float,
    uses_landmarks: bool,
    rows: Any,
    landmarks: Any,
    squared: FloatArray | None,
) -> FloatArray:
    """Return kernels with the landmarks, products with the landmarks, or the values themselves."""
    if width is not None and squared is not None:
        kernels = squared * -gamma
        return np.exp(kernels, out=kernels)
    return _dense(rows @ landmarks.T) if uses_landmarks else _dense(rows)


def whitening(
    features: FloatArray, between: FloatArray | None, ridge: float
) -> tuple[FloatArray, FloatArray]:
    """Return the projection and the shift that whiten the features.

    ``psi = (f - mean) B U (l + ridge mean(l))^(-1/2)`` with the covariance ``U diag(l) U'`` of
    ``(f - mean) B``. ``B`` is the identity, or ``V e^(-1/2)`` if the features are kernels with
    landmarks whose kernel matrix is ``V diag(e) V'`` (Nystroem; eigenvalues below 1e-6 of the
    largest are dropped). Directions that would keep less than a thousandth of unit variance are
    dropped too.

    Parameters
    ----------
    features : array of shape (n_instances, n_basis)
        Values, or kernels with the landmarks.
    between : array of shape (n_basis, n_basis) or None
        Kernel matrix of the landmarks.
    ridge : float
        Share of the mean variance that is added to all variances.

    Returns
    -------
    projection : array of shape (n_basis, n_directions)
    shift : array of shape (n_directions,)

    Examples
    --------
    >>> import numpy as np
    >>> projection, shift = whitening(np.array([[-1.0], [3.0]]), None, 0.0)
    >>> np.abs(np.array([[-1.0], [3.0]]) @ projection - shift)
    array([[1.],
           [1.]])
    """
    mean = features.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((len(mean), len(mean)))
    for start in range(0, len(features), _BLOCK_ROWS):
        centred = features[start : start + _BLOCK_ROWS] - mean
        covariance += centred.T @ centred
    covariance /= len(features)
    basis = np.eye(len(mean))
    if between is not None:
        values, vectors = np.linalg.eigh(between)
        kept = values > _SMALLEST_EIGENVALUE * max(values[-1], 1e-300)
        basis = vectors[:, kept] / np.sqrt(values[kept])
        covariance = basis.T @ covariance @ basis
    variances, axes = np.linalg.eigh(covariance)
    variances = np.maximum(variances, 0.0)
    added = ridge * variances.mean()
    kept = variances > np.maximum(_SMALLEST_SHARE * (variances + added), 1e-12 * variances[-1:])
    if not kept.any():
        return np.zeros((len(mean), 1)), np.zeros(1)
    projection = basis @ (axes[:, kept] / np.sqrt(variances[kept] + added))
    return projection, mean @ projection


def _dense(values: Any) -> NDArray[Any]:
    dense: NDArray[Any] = values.toarray() if sp.issparse(values) else np.asarray(values)
    return dense


def _square_norms(rows: Any) -> FloatArray:
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows))
