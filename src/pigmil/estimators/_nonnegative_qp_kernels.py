"""Compiled coordinate descent for the dual of an SVM with squared hinge loss and no intercept."""

from typing import Any

import numpy as np

from pigmil._core.jit import njit


@njit
def solve_nonnegative_qp(
    matrix: Any, start: Any, gradient: Any, tol: float, max_steps: int
) -> tuple[Any, Any, float]:
    """Minimise ``a M a / 2 - sum of a`` over ``a >= 0``.

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
    slopes = gradient.copy()
    weights = np.empty(n)
    for i in range(n):
        weights[i] = 1.0 / matrix[i, i]
    change = 0.0
    row = matrix[0]
    violation = np.inf
    for _ in range(max_steps):
        violation = 0.0
        gain = 0.0
        chosen = -1
        for i in range(n):
            slope = slopes[i] + change * row[i]
            slopes[i] = slope
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
