"""The threshold of a method whose values have no natural zero."""

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray


def best_cut(
    values: FloatArray, positive: BoolArray, *, costs: tuple[float, float] = (1.0, 1.0)
) -> float:
    """Threshold above which bags are called positive with fewest errors on the training bags.

    Among equally good thresholds the middle one is taken; each lies half-way between two
    neighbouring values, or one unit outside all of them.

    Parameters
    ----------
    values : array of shape (n_bags,)
        Value of each training bag.
    positive : array of bool of shape (n_bags,)
        Which are positive.
    costs : (float, float), default=(1.0, 1.0)
        Weight of an error on a negative and on a positive bag.

    Notes
    -----
    Cost: O(n_bags log n_bags).

    Examples
    --------
    >>> import numpy as np
    >>> best_cut(np.array([1.0, 2.0, 4.0]), np.array([False, False, True]))
    3.0
    """
    order = np.argsort(values, kind="stable")
    sorted_values, sorted_positive = values[order], positive[order]
    # Right when the first k are called negative: negatives among them and positives after them.
    right = np.concatenate([[0], np.cumsum(np.where(sorted_positive, -costs[1], costs[0]))])
    cuts = np.concatenate(
        [
            [sorted_values[0] - 1.0],
            (sorted_values[:-1] + sorted_values[1:]) / 2,
            [sorted_values[-1] + 1.0],
        ]
    )
    between = np.concatenate([[True], sorted_values[:-1] < sorted_values[1:], [True]])
    best = np.flatnonzero(between & (right == right[between].max()))
    return float(cuts[best[len(best) // 2]])


def careful_cut(
    values: FloatArray, positive: BoolArray, *, costs: tuple[float, float] = (1.0, 1.0)
) -> float:
    """The best threshold, or 0 where it is not clearly better than 0.

    For values of bags that took no part in training. The best of all thresholds looks better than
    it is, the more so the fewer bags there are; it is taken only if it gains over 0 more than one
    standard error of the gain, which is the root of the number of bags the two judge differently.

    Parameters
    ----------
    values, positive, costs
        As in :func:`best_cut`.

    Examples
    --------
    >>> import numpy as np
    >>> positive = np.array([False, False, True, True])
    >>> careful_cut(np.array([1.0, 2.0, 4.0, 5.0]), positive)
    3.0
    >>> careful_cut(np.array([-2.0, 1.0, 2.0, 3.0]), positive)
    0.0
    """
    cut = best_cut(values, positive, costs=costs)
    differs = (values > cut) != (values > 0)
    weights = np.where(positive, costs[1], costs[0])[differs]
    gain = np.where((values > cut)[differs] == positive[differs], weights, -weights).sum()
    return cut if gain > np.sqrt((weights**2).sum()) else 0.0
