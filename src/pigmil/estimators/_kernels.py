"""Compiled loops of the methods; import this module inside the function that needs it.

Each loop updates what its next step reads, one coordinate, pair or bag after another, so that it
cannot be written as a few operations on whole arrays.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray

_SMALL_PIVOT = 1e-9


@njit
def descend(
    table: FloatArray,
    values: FloatArray,
    above: npt.NDArray[np.bool_],
    slopes: FloatArray,
    basic: IntArray,
    nonbasic: IntArray,
    up: FloatArray,
    down: FloatArray,
    tolerance: float,
    max_pivots: int,
) -> int:
    """Pivot until no nonbasic variable can move without raising the cost: the simplex of MILES.

    Every variable ``v`` costs ``up v`` above 0 and ``-down v`` below. Basic variables depend on the
    nonbasic ones, which rest at their kink 0: ``basic = values + table @ nonbasic``. A pivot lets
    one nonbasic variable move as long as the total cost falls, past the kinks of as many basic
    variables as that takes; the one at whose kink the cost would rise takes its place. All arrays
    but the costs are overwritten.

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
    times = np.empty(n_basic)  # how far the entering variable moves to the kink of each crossing
    crossing = np.empty(n_basic, dtype=np.int64)  # basic variables that reach their kink
    pivot_row = np.empty(n_nonbasic)  # row of the entering variable after the swap
    lengths = np.ones(n_nonbasic)  # squared lengths of the edges (devex), to compare slopes fairly
    for pivot in range(max_pivots):
        # Which nonbasic variable lowers the cost most, and in which direction it moves.
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

        # The kinks on its way; each one that is passed makes the cost fall more slowly.
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
        # Each pivot changes the whole table, which the next pivot reads.
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


@njit
def solve_nonnegative_qp(
    matrix: Any, start: Any, gradient: Any, tol: float, max_steps: int
) -> tuple[Any, Any, float]:
    """Minimise ``a M a / 2 - sum of a`` over ``a >= 0``: the dual of KI-SVM.

    Each step minimises exactly along the coordinate that promises most,
    ``gradient_i^2 / M_ii``, and updates the gradient with one row of ``M``; the next coordinate
    is sought in the same pass. (Coordinates in turn need many times the steps: the constant in
    the kernel couples all of them.)

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric, with a positive diagonal; single or double precision.
    start : array of shape (n,)
        Non-negative point to start from.
    gradient : array of shape (n,)
        ``M start - 1``.
    tol : float
        Largest admitted violation of the optimality conditions, in units of the margin.
    max_steps : int
        Most steps.

    Returns
    -------
    solution : array of shape (n,)
    gradient : array of shape (n,)
        ``M solution - 1``.
    violation : float
        What is left of the violation; above ``tol`` only if the steps ran out.
    """
    n = start.shape[0]
    solution = start.copy()
    slopes = gradient.copy()  # (n,) the gradient at the solution, one step behind it
    weights = np.empty(n)  # (n,) one over the diagonal
    for i in range(n):
        weights[i] = 1.0 / matrix[i, i]
    # The last step: the row of M of its coordinate, and how far that coordinate moved.
    change = 0.0
    row = matrix[0]
    violation = np.inf
    for _ in range(max_steps):
        violation = 0.0
        gain = 0.0
        chosen = -1
        # One pass over the rows brings the gradient up to date and finds the next coordinate.
        for i in range(n):
            slope = slopes[i] + change * row[i]
            slopes[i] = slope
            # A coordinate at 0 that wants to fall further is optimal.
            if slope > 0.0 and solution[i] <= 0.0:
                continue
            violation = max(violation, abs(slope))
            promise = slope * slope * weights[i]
            if promise > gain:
                gain = promise
                chosen = i
        if violation <= tol or chosen < 0:
            break
        row = matrix[chosen]
        moved = max(0.0, solution[chosen] - slopes[chosen] * weights[chosen])
        change = moved - solution[chosen]
        solution[chosen] = moved
    else:
        # The last step still has to reach the gradient.
        for i in range(n):
            slopes[i] += change * row[i]
    return solution, slopes, violation


@njit
def solve_shared_slack(
    kernel: Any, sign: Any, group: Any, caps: Any, start: Any, tol: float, max_steps: int
) -> tuple[Any, float, float]:
    """Maximise ``sum of a - (a y) K (a y) / 2``: ``a >= 0``, ``a.y = 0``, capped sums of groups.

    The dual of MI-SVM. Every step of this sequential minimal optimisation moves the pair of
    variables that violates the optimality conditions most. Where the sum of a group is at its cap,
    its variables may still exchange weight with each other.

    Parameters
    ----------
    kernel : array of shape (n, n)
        Kernel between the rows.
    sign : array of shape (n,)
        Class of every row, 1.0 or -1.0; the rows of a group have the same.
    group : array of int of shape (n,)
        Group of every row.
    caps : array of shape (n_groups,)
        Largest sum of ``a`` in each group: the cost of its slack.
    start : array of shape (n,)
        Feasible point to start from.
    tol : float
        Largest admitted violation, in units of the decision value.
    max_steps : int
        Largest number of steps.

    Returns
    -------
    alphas : array of shape (n,)
    intercept : float
    violation : float
        Above ``tol`` only if the steps ran out.
    """
    n = start.shape[0]
    n_groups = caps.shape[0]
    alphas = start.copy()
    totals = np.zeros(n_groups)  # (n_groups,) sum of alphas in each group
    values = np.zeros(n)  # (n,) decision value of each row, without the intercept
    for i in range(n):
        totals[group[i]] += alphas[i]
        if alphas[i] != 0.0:
            for k in range(n):
                values[k] += alphas[i] * sign[i] * kernel[i, k]
    least = 1e-12 * caps.max()
    # Within each full group: the row that most needs weight, and the one that least does.
    highest = np.empty(n_groups)
    lowest = np.empty(n_groups)
    highest_row = np.empty(n_groups, dtype=np.int64)
    lowest_row = np.empty(n_groups, dtype=np.int64)
    violation = np.inf
    top, bottom = -np.inf, np.inf
    for _ in range(max_steps):
        # The intercept that would give a row its margin, y - value, must not be higher for a row
        # that can gain weight on the positive side than for one that can lose it.
        top, bottom = -np.inf, np.inf
        i, j = -1, -1
        highest[:], lowest[:] = -np.inf, np.inf
        for k in range(n):
            needed = sign[k] - values[k]
            open_group = totals[group[k]] < caps[group[k]] - least
            has_weight = alphas[k] > least
            rises = open_group if sign[k] > 0 else has_weight
            falls = has_weight if sign[k] > 0 else open_group
            if rises and needed > top:
                top, i = needed, k
            if falls and needed < bottom:
                bottom, j = needed, k
            if not open_group:
                # Rows of a full group exchange weight among themselves.
                gains = has_weight if sign[k] < 0 else True
                loses = has_weight if sign[k] > 0 else True
                if gains and needed > highest[group[k]]:
                    highest[group[k]], highest_row[group[k]] = needed, k
                if loses and needed < lowest[group[k]]:
                    lowest[group[k]], lowest_row[group[k]] = needed, k
        violation = top - bottom if i >= 0 and j >= 0 else 0.0
        for g in range(n_groups):
            if highest[g] - lowest[g] > violation:
                violation = highest[g] - lowest[g]
                i, j = highest_row[g], lowest_row[g]
        if violation <= tol:
            break
        # The exact step along the pair, cut where a variable or the cap of a group is reached.
        curvature = max(kernel[i, i] + kernel[j, j] - 2 * kernel[i, j], 1e-12)
        step = (sign[i] - values[i] - sign[j] + values[j]) / curvature
        same = group[i] == group[j]
        if sign[i] < 0:
            step = min(step, alphas[i])
        elif not same:
            step = min(step, caps[group[i]] - totals[group[i]])
        if sign[j] > 0:
            step = min(step, alphas[j])
        elif not same:
            step = min(step, caps[group[j]] - totals[group[j]])
        alphas[i] = max(0.0, alphas[i] + sign[i] * step)
        alphas[j] = max(0.0, alphas[j] - sign[j] * step)
        totals[group[i]] += sign[i] * step
        totals[group[j]] -= sign[j] * step
        for k in range(n):
            values[k] += step * (kernel[i, k] - kernel[j, k])
    # Rows with weight in a group that is not full have margin 1, which gives the intercept.
    total, count = 0.0, 0
    for k in range(n):
        if alphas[k] > least and totals[group[k]] < caps[group[k]] - least:
            total += sign[k] - values[k]
            count += 1
    intercept = total / count if count > 0 else (top + bottom) / 2
    return alphas, intercept, violation
