"""Pivots of the simplex method on sums of one-kinked costs, in one compiled loop.

Every variable ``v`` costs ``up v`` above 0 and ``-down v`` below. Basic variables depend on the
nonbasic ones, which rest at their kink 0: ``basic = values + table @ nonbasic``. A pivot lets one
nonbasic variable move as long as the total cost falls, past the kinks of as many basic variables
as that takes; the one at whose kink the cost would rise takes its place. All arrays but the costs
are overwritten.
"""

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray

Flags = npt.NDArray[np.bool_]

_SMALL_PIVOT = 1e-9


@njit
def descend(
    table: FloatArray,
    values: FloatArray,
    above: Flags,
    slopes: FloatArray,
    basic: IntArray,
    nonbasic: IntArray,
    up: FloatArray,
    down: FloatArray,
    tolerance: float,
    max_pivots: int,
) -> int:
    """Pivot until no nonbasic variable can move without raising the cost.

    Parameters
    ----------
    table : array of shape (n_basic, n_nonbasic)
        Change of every basic variable with every nonbasic one.
    values : array of shape (n_basic,)
        Of the basic variables.
    above : array of bool of shape (n_basic,)
        Whether a basic variable pays its cost above 0.
    slopes : array of shape (n_nonbasic,)
        Change of the cost of the basic variables with every nonbasic one.
    basic, nonbasic : array of int
        Which variables they are.
    up, down : array of shape (n_variables,)
        Costs of the variables, by their number.
    tolerance : float
        Least fall of the cost per unit of a move.
    max_pivots : int
        Maximum number.

    Returns
    -------
    int
        Pivots made; ``max_pivots`` when more may be needed, -1 when rounding errors forbid more.
    """
    n_basic, n_nonbasic = table.shape
    times = np.empty(n_basic)
    crossing = np.empty(n_basic, dtype=np.int64)
    pivot_row = np.empty(n_nonbasic)
    lengths = np.ones(n_nonbasic)
    for pivot in range(max_pivots):
        entering, direction, fall, best = -1, 1.0, 0.0, 0.0
        for j in range(n_nonbasic):
            upwards = up[nonbasic[j]] + slopes[j]
            downwards = down[nonbasic[j]] - slopes[j]
            rise = min(upwards, downwards)
            if rise < -tolerance and rise * rise > best * lengths[j]:
                entering, fall, best = j, rise, rise * rise / lengths[j]
                direction = 1.0 if upwards < downwards else -1.0
        if entering < 0:
            return pivot

        count = 0
        for i in range(n_basic):
            rate = direction * table[i, entering]
            towards = -rate if above[i] else rate
            if towards > _SMALL_PIVOT and up[basic[i]] + down[basic[i]] > 0:
                distance = values[i] if above[i] else -values[i]
                times[count] = max(0.0, distance / towards)
                crossing[count] = i
                count += 1
        order = np.argsort(times[:count])
        slope, leaving, time = fall, -1, 0.0
        for position in order:
            i = crossing[position]
            jump = (up[basic[i]] + down[basic[i]]) * abs(table[i, entering])
            slope += jump
            if slope >= 0:
                leaving, time = i, times[position]
                break
            change = jump / abs(table[i, entering])
            if above[i]:
                change = -change
            above[i] = not above[i]
            for j in range(n_nonbasic):
                slopes[j] += change * table[i, j]
        if leaving < 0:
            return -1

        # The costs are linear up to here: swap the two variables in them and in the table.
        for i in range(n_basic):
            values[i] += direction * time * table[i, entering]
        enters, leaves = nonbasic[entering], basic[leaving]
        cost_leaving = up[leaves] if above[leaving] else -down[leaves]
        total = slopes[entering] + (up[enters] if direction > 0 else -down[enters])
        inverse = 1.0 / table[leaving, entering]
        for j in range(n_nonbasic):
            pivot_row[j] = -inverse * table[leaving, j]
            slopes[j] += total * pivot_row[j]
        slopes[entering] = total * inverse - cost_leaving
        pivot_row[entering] = inverse
        length = lengths[entering]
        for j in range(n_nonbasic):
            lengths[j] = max(lengths[j], length * pivot_row[j] ** 2)
        lengths[entering] = max(1.0, length * inverse**2)
        for i in range(n_basic):
            factor = table[i, entering]
            if i != leaving and factor != 0:
                table[i, entering] = 0.0
                for j in range(n_nonbasic):
                    table[i, j] += factor * pivot_row[j]
        table[leaving] = pivot_row
        values[leaving] = direction * time
        above[leaving] = direction > 0
        basic[leaving], nonbasic[entering] = enters, leaves
    return max_pivots
