"""Discrimination: how little the negative instances press on an instance."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from pigmil._core.typing import FloatArray

__all__ = ["discrimination_from_blocks", "influence"]


def influence(distance: ArrayLike, gamma_far: float = 1.0, gamma_near: float = 1.0) -> FloatArray:
    """Influence of a negative instance at a distance: limited when far, unbounded when near.

    Implements Eq. (5), with ``gamma_far`` and ``gamma_near`` for the paper's gamma_1 and gamma_2:
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
    far = -np.exp(-gamma_far * (np.maximum(delta, 1.0) - 1.0))
    with np.errstate(divide="ignore"):
        near = gamma_near * np.log(np.minimum(delta, 1.0)) - 1.0
    return np.where(delta >= 1.0, far, near)


def discrimination_from_blocks(
    blocks: Iterable[tuple[slice, ArrayLike]],
    n_instances: int,
    *,
    gamma_far: float = 1.0,
    gamma_near: float = 1.0,
    scale: float = 1.0,
) -> FloatArray:
    """Mean influence of all negative instances on each instance, from blocks of distances.

    Implements Eq. (4); ``scale`` is the paper's Z.

    Parameters
    ----------
    blocks : iterable of (slice, array of shape (n_rows, n_columns))
        Distances of the instances ``slice`` to some of the negative instances. Blocks may come in
        any order and split rows and columns at will, as long as every instance meets every
        negative instance once. Only one block need exist at a time.
    n_instances : int
        Number of instances, the length of the result.
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
    Departs from the paper: none.
    Cost: one logarithm and one exponential for each distance.

    Examples
    --------
    >>> discrimination_from_blocks([(slice(0, 2), [[1.0, 1.0], [0.0, 5.0]])], 2)
    array([ -1., -inf])
    """
    total = np.zeros(n_instances)
    met = np.zeros(n_instances, dtype=np.int64)
    for rows, block in blocks:
        values = influence(block, gamma_far, gamma_near)
        total[rows] += values.sum(axis=1)
        met[rows] += values.shape[1]
    if n_instances and (met.min() != met.max() or met.min() == 0):
        raise ValueError(
            "Every instance must meet the same, positive number of negative instances; the blocks "
            f"gave instance {int(met.argmin())} {int(met.min())} distances and instance "
            f"{int(met.argmax())} {int(met.max())}."
        )
    return total / (scale * np.maximum(met, 1))
