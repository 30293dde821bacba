"""The threshold of a method whose values have no natural zero."""

import numpy as np

from pigmil.estimators.base import BoolArray, FloatArray


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
