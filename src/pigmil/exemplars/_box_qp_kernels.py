"""An exact solver for small quadratic programmes with box constraints, used by exemplar SVMs."""

import math

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray

States = npt.NDArray[np.int8]

# State of a variable of the box QP. PENDING is strictly inside the box but not factorised.
LOWER, UPPER, FREE, PENDING = 0, 1, 2, 3
# A pivot below this share of its diagonal counts as linear dependence.
PIVOT = 1e-11


@njit
def _forward(factor: FloatArray, n_free: int, rhs: FloatArray) -> None:
    """Solve ``L y = rhs`` in place for the leading ``n_free`` rows."""
    for r in range(n_free):
        total = rhs[r]
        for c in range(r):
            total -= factor[r, c] * rhs[c]
        rhs[r] = total / factor[r, r]


@njit
def _backward(factor: FloatArray, n_free: int, rhs: FloatArray) -> None:
    """Solve ``L' y = rhs`` in place for the leading ``n_free`` rows."""
    for r in range(n_free - 1, -1, -1):
        value = rhs[r] / factor[r, r]
        rhs[r] = value
        for c in range(r):
            rhs[c] -= factor[r, c] * value


@njit
def _delete(factor: FloatArray, free: IntArray, n_free: int, position: int) -> int:
    """Remove one variable from the factor: drop its row, and make the rest triangular again."""
    for r in range(position, n_free - 1):
        free[r] = free[r + 1]
        for c in range(r + 2):
            factor[r, c] = factor[r + 1, c]
    for k in range(position, n_free - 1):
        a = factor[k, k]
        b = factor[k, k + 1]
        radius = math.hypot(a, b)
        cos = a / radius
        sin = b / radius
        for r in range(k, n_free - 1):
            left = factor[r, k]
            right = factor[r, k + 1]
            factor[r, k] = cos * left + sin * right
            factor[r, k + 1] = cos * right - sin * left
    return n_free - 1


@njit
def _try_insert(
    gram: FloatArray,
    factor: FloatArray,
    free: IntArray,
    n_free: int,
    column: FloatArray,
    state: States,
    j: int,
) -> int:
    """Append variable ``j`` to the factor unless its column depends linearly on those in it.

    ``column`` holds ``G[j, free]`` and is overwritten by the new row of the factor.
    """
    _forward(factor, n_free, column)
    pivot = gram[j, j]
    for f in range(n_free):
        pivot -= column[f] * column[f]
    if pivot <= PIVOT * gram[j, j]:
        return n_free
    for f in range(n_free):
        factor[n_free, f] = column[f]
    factor[n_free, n_free] = math.sqrt(pivot)
    free[n_free] = j
    state[j] = FREE
    return n_free + 1


@njit
def _restart_gradient(
    gram: FloatArray, linear: FloatArray, size: int, alpha: FloatArray, gradient: FloatArray
) -> float:
    """Recompute the gradient from ``alpha``; return its largest difference from the old one."""
    drift = 0.0
    fresh = linear[:size].copy()
    for j in range(size):
        if alpha[j] != 0.0:
            for c in range(size):
                fresh[c] -= gram[j, c] * alpha[j]
    for c in range(size):
        drift = max(drift, abs(gradient[c] - fresh[c]))
        gradient[c] = fresh[c]
    return drift


@njit
def _advance(
    gram: FloatArray,
    size: int,
    upper: float,
    alpha: FloatArray,
    gradient: FloatArray,
    free: IntArray,
    n_free: int,
    direction: FloatArray,
    extra: int,
    longest: float,
) -> int:
    """Move along ``direction`` to its end or to the first bound; return the position of that bound.

    ``extra`` is one more moving variable (or -1), with component ``direction[n_free]`` and
    position ``n_free``.
    """
    moving = n_free + (1 if extra >= 0 else 0)
    length = longest
    blocking = -1
    for f in range(moving):
        j = free[f] if f < n_free else extra
        step = direction[f]
        if step > 0.0:
            room = (upper - alpha[j]) / step
        elif step < 0.0:
            room = alpha[j] / -step
        else:
            continue
        if room < length:
            length = room
            blocking = f
    for f in range(moving):
        j = free[f] if f < n_free else extra
        change = length * direction[f]
        alpha[j] = min(max(alpha[j] + change, 0.0), upper)
        for c in range(size):
            gradient[c] -= gram[j, c] * change
    return blocking


@njit
def solve_box_qp(
    gram: FloatArray,
    linear: FloatArray,
    size: int,
    upper: float,
    alpha: FloatArray,
    tolerance: float,
    max_iter: int,
) -> bool:
    """Maximise ``linear.a - a'Ga/2`` over ``0 <= a <= upper`` from the start ``alpha``, in place.

    Primal active set: the variables strictly inside the box are kept stationary through a
    Cholesky factor that gains or loses one row at a time. A variable whose column depends on
    the factorised ones moves along the flat direction until some bound stops it.

    Returns True when no variable violates its optimality condition by more than ``tolerance``.
    """
    factor = np.empty((size, size))
    free = np.empty(size, np.int64)
    direction = np.empty(size + 1)
    state = np.empty(size, np.int8)
    gradient = np.zeros(size)
    _restart_gradient(gram, linear, size, alpha, gradient)
    restarts = 0
    n_free = 0
    for j in range(size):
        state[j] = LOWER if alpha[j] <= 0.0 else UPPER if alpha[j] >= upper else PENDING
        if state[j] == PENDING:
            for f in range(n_free):
                direction[f] = gram[j, free[f]]
            n_free = _try_insert(gram, factor, free, n_free, direction, state, j)
    refined = 0
    for _ in range(max_iter):
        worst = 0.0
        for f in range(n_free):
            direction[f] = gradient[free[f]]
            worst = max(worst, abs(direction[f]))
        if worst > 0.1 * tolerance and refined < 4:
            _forward(factor, n_free, direction)
            _backward(factor, n_free, direction)
            blocking = _advance(
                gram, size, upper, alpha, gradient, free, n_free, direction, -1, 1.0
            )
            refined += 1
            if blocking >= 0:
                j = free[blocking]
                state[j] = UPPER if direction[blocking] > 0.0 else LOWER
                alpha[j] = upper if state[j] == UPPER else 0.0
                n_free = _delete(factor, free, n_free, blocking)
                refined = 0
            continue
        entering = -1
        worst = tolerance
        for j in range(size):
            if state[j] == LOWER:
                violation = gradient[j]
            elif state[j] == UPPER:
                violation = -gradient[j]
            elif state[j] == PENDING:
                violation = abs(gradient[j])
            else:
                continue
            if violation > worst:
                worst = violation
                entering = j
        refined = 0
        if entering < 0:
            # The updated gradient drifts by rounding: only a recomputed one is decisive.
            if restarts == 3 or _restart_gradient(gram, linear, size, alpha, gradient) <= tolerance:
                return True
            restarts += 1
            continue
        for f in range(n_free):
            direction[f] = gram[entering, free[f]]
        before = n_free
        n_free = _try_insert(gram, factor, free, n_free, direction, state, entering)
        if n_free > before:
            continue
        # Flat direction: the entering column is a combination of the factorised ones.
        _backward(factor, n_free, direction)
        sign = 1.0 if gradient[entering] > 0.0 else -1.0
        for f in range(n_free):
            direction[f] *= -sign
        direction[n_free] = sign
        blocking = _advance(
            gram, size, upper, alpha, gradient, free, n_free, direction, entering, np.inf
        )
        j = entering if blocking == n_free else free[blocking]
        upwards = direction[blocking] > 0.0
        state[entering] = PENDING
        state[j] = UPPER if upwards else LOWER
        alpha[j] = upper if upwards else 0.0
        if blocking < n_free:
            n_free = _delete(factor, free, n_free, blocking)
    return False
