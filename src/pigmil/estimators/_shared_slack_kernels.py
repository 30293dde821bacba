"""Compiled sequential minimal optimisation for an SVM whose rows share slacks in groups."""

from typing import Any

import numpy as np

from pigmil._core.jit import njit


@njit
def solve_shared_slack(
    kernel: Any, sign: Any, group: Any, caps: Any, start: Any, tol: float, max_steps: int
) -> tuple[Any, Any, float, float]:
    """Maximise ``sum of a - (a y) K (a y) / 2``: ``a >= 0``, ``a.y = 0``, capped sums of groups.

    Every step moves the pair of variables that violates the optimality conditions most. Where the
    sum of a group is at its cap, its variables may still exchange weight with each other.

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
    values : array of shape (n,)
        Decision value of every row without the intercept.
    intercept : float
    violation : float
        Above ``tol`` only if the steps ran out.
    """
    n = start.shape[0]
    n_groups = caps.shape[0]
    alphas = start.copy()
    totals = np.zeros(n_groups)
    values = np.zeros(n)
    for i in range(n):
        totals[group[i]] += alphas[i]
        if alphas[i] != 0.0:
            for k in range(n):
                values[k] += alphas[i] * sign[i] * kernel[i, k]
    least = 1e-12 * caps.max()
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
    return alphas, values, intercept, violation
