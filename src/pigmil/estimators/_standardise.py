"""One centre and one scale for all features."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.typing import FloatArray
from pigmil.scale import LazyBags, column_moments

_CACHED_ELEMENTS = 1 << 17  # values of double precision that fit in the cache of a processor


def centre_and_spread(
    instances: Any, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """Return the mean of the instances and the root of the mean variance of the features.

    After subtraction and division a method behaves the same on data of any offset and scale, and
    as before on z-scored data. Constant features do not count: with one more of them a method
    would otherwise see larger values. The mean of sparse instances is taken to be 0, which keeps
    them sparse. Takes a table of instances, with weights if wanted, or lazy bags.

    Examples
    --------
    >>> import numpy as np
    >>> centre, spread = centre_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> centre, round(spread, 6)
    (array([2., 5.]), 1.0)
    """
    is_sparse = instances.is_sparse if isinstance(instances, LazyBags) else sp.issparse(instances)
    mean, variance = _moments(instances, weights)
    # Rounding leaves this much of a constant; sparse variances are differences of squares.
    rounding = (1e-12 if is_sparse else 1e-24) * mean**2
    n_varying = max(1, int((variance > rounding).sum()))
    total = float(variance.sum())
    spread = float(np.sqrt(total / 2)) * float(np.sqrt(2.0 / n_varying)) if total > 0 else 1.0
    return (np.zeros(len(mean)) if is_sparse else mean), spread


def _moments(instances: Any, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of every feature."""
    if isinstance(instances, LazyBags):
        return column_moments(instances)[1:]
    if weights is None and not sp.issparse(instances):
        mean = np.asarray(instances.mean(axis=0, dtype=np.float64))
        return mean, np.var(instances, axis=0, dtype=np.float64)
    weights = np.ones(instances.shape[0]) if weights is None else weights
    mean = np.asarray(weights @ instances, dtype=np.float64) / weights.sum()
    if sp.issparse(instances):
        return mean, weights @ instances.multiply(instances) / weights.sum() - mean**2
    return mean, weights @ np.square(instances - mean) / weights.sum()


def standardised(instances: Any, centre: FloatArray, spread: float) -> Any:
    """Subtract the centre (unless the instances are sparse) and divide by the spread."""
    if sp.issparse(instances):
        return instances / spread
    values = np.array(instances, dtype=np.float64)
    values -= centre
    values /= spread
    return values


def linear_scores(
    instances: Any, centre: FloatArray, spread: float, coef: FloatArray, intercept: float
) -> FloatArray:
    """Return ``coef . x + intercept`` of every standardised instance, in blocks of rows.

    Blocks are small enough for the cache, so that this takes little more time than to read the
    instances once.

    Examples
    --------
    >>> import numpy as np
    >>> linear_scores(np.array([[3.0], [5.0]]), np.array([1.0]), 2.0, np.array([10.0]), 0.5)
    array([10.5, 20.5])
    """
    weights = coef / spread
    if sp.issparse(instances):
        return np.asarray(instances @ weights + intercept, dtype=np.float64)
    scores = np.empty(instances.shape[0])
    step = max(1, _CACHED_ELEMENTS // max(1, instances.shape[1]))
    for start in range(0, len(scores), step):
        rows = instances[start : start + step].astype(np.float64)
        rows -= centre
        scores[start : start + step] = rows @ weights
    return scores + intercept
