"""Compiled coordinate descent for the dual of an SVM with squared hinge loss and no intercept."""

from typing import Any

import numpy as np

from pigmil._core.jit import njit


@njit
def solve_nonnegative_qp(matrix: Any, start: Any, tol: float, max_steps: int) -> Any:
    """Minimise ``a M a / 2 - sum of a`` over ``a >= 0``.

    Each step minimises exactly along the coordinate that promises most,
    ``gradient_i^2 / M_ii``, and updates the gradient with one row of ``M``. (Coordinates in turn
    need many times the steps: the constant in the kernel couples all of them.)

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric, with a positive diagonal.
    start : array of shape (n,)
        Non-negative point to start from.
    tol : float
        Largest admitted violation of the optimality conditions, in units of the margin.
    max_steps : int
        Most steps.

    Returns
    -------
    solution : array of shape (n,)
    violation : float
        What is left of the violation; above ``tol`` only if the steps ran out.
    """
    n = start.shape[0]
    solution = start.copy()
    gradient = matrix @ solution - 1.0
    violation = np.inf
    for _ in range(max_steps):
        violation = 0.0
        gain = 0.0
        chosen = -1
        for i in range(n):
            slope = gradient[i]
            if solution[i] <= 0.0 and slope > 0.0:
                continue
            violation = max(violation, abs(slope))
            promise = slope * slope / matrix[i, i]
            if promise > gain:
                gain = promise
                chosen = i
        if violation <= tol or chosen < 0:
            break
        moved = max(0.0, solution[chosen] - gradient[chosen] / matrix[chosen, chosen])
        change = moved - solution[chosen]
        solution[chosen] = moved
        for i in range(n):
            gradient[i] += change * matrix[chosen, i]
    return solution, violation
