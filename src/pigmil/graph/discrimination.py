"""Discrimination of an instance from the negative instances."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pigmil._core.typing import FloatArray
from pigmil.distances import squared_distance_blocks

__all__ = ["discrimination", "influence"]


def influence(distance: ArrayLike, gamma_far: float = 1.0, gamma_near: float = 1.0) -> FloatArray:
    """Return the influence of a negative instance: limited when far, unbounded when near.

    Implements Eq. (6), with ``gamma_far`` and ``gamma_near`` for the paper's gamma_1 and gamma_2:
    ``-exp(-gamma_far * (distance - 1))`` from distance 1 on, ``gamma_near * ln(distance) - 1``
    below, and minus infinity at 0. The value is -1 at distance 1 from both sides.

    Parameters
    ----------
    distance : array-like
        Distances in units of length: "far" begins at 1.
    gamma_far, gamma_near : float, default=1.0
        How fast the influence fades far away, and grows close by.

    Returns
    -------
    ndarray of the shape of ``distance``, negative throughout (rounded to -0.0 very far away)

    Notes
    -----
    Departs from the paper: none.

    Examples
    --------
    >>> influence([0.0, 1.0, 2.0])
    array([       -inf, -1.        , -0.36787944])
    """
    delta = np.asarray(distance, dtype=np.float64)
    if np.any(delta < 0):
        raise ValueError(f"distances must not be negative, got {float(delta.min())!r}.")
    # Each branch sees only its own side, so neither the log nor the exponential can overflow.
    values = np.asarray(np.maximum(delta, 1.0))
    values -= 1.0
    values *= -gamma_far
    np.exp(values, out=values)
    np.negative(values, out=values)
    near = delta < 1.0
    with np.errstate(divide="ignore"):
        values[near] = gamma_near * np.log(delta[near]) - 1.0
    return values


def discrimination(
    X: Any,
    negatives: Any,
    *,
    unit: float = 1.0,
    gamma_far: float = 1.0,
    gamma_near: float = 1.0,
    scale: float = 1.0,
) -> FloatArray:
    """Return the discrimination of instances: the mean influence of all negative instances.

    Implements Eq. (5) of Definition 8; ``scale`` is the paper's Z.

    Parameters
    ----------
    X : array or CSR of shape (n_instances, n_features)
        Instances to measure.
    negatives : array or CSR of shape (n_negatives, n_features)
        All instances of the negative bags, at least one.
    unit : float, default=1.0
        Unit of length, see :func:`pigmil.distances.length_unit`.
    gamma_far, gamma_near : float, default=1.0
        See `influence`.
    scale : float, default=1.0
        Divides the mean.

    Returns
    -------
    ndarray of shape (n_instances,)
        Minus infinity for an exact copy of a negative instance.

    Notes
    -----
    Departs from the paper: distances are measured in ``unit``.
    Cost: O(n_instances n_negatives n_features), in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> negatives = np.array([[0.0], [2.0]])
    >>> discrimination(np.array([[1.0], [0.0]]), negatives)
    array([ -1., -inf])
    """
    if negatives.shape[0] == 0:
        raise ValueError("discrimination needs at least one negative instance, got none.")
    total = np.zeros(X.shape[0])
    for rows, _, squared in squared_distance_blocks(X, negatives):
        total[rows] += influence(np.sqrt(squared) / unit, gamma_far, gamma_near).sum(axis=1)
    return total / (scale * negatives.shape[0])
