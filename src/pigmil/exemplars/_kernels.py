"""Compiled kernels of the exemplar SVMs: the hardest negatives, and small dual problems.

The first is a loop because it keeps a few values of every row of a large block in one pass. The
active set method is a loop because every step depends on the one before it. The matrix products
around them, which take most of the time, are left to NumPy.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray

# State of a variable of the box QP. PENDING is strictly inside the box but not factorised.
LOWER, UPPER, FREE, PENDING = 0, 1, 2, 3
# A pivot below this share of its diagonal counts as linear dependence.
PIVOT = 1e-11
# Attempts to correct the stationary point, and to continue after the gradient was recomputed.
REFINEMENTS, RESTARTS = 4, 3


class HardNegatives(NamedTuple):
    """The negatives with the largest hinge of each candidate; one row per candidate."""

    hinge: FloatArray  # (m,) sum of all positive hinges
    n_hard: IntArray  # (m,) number of negatives above the floor, also those that found no room
    largest: FloatArray  # (m, room) hinges, the first ``n_hard`` of them valid, in no order
    negative: IntArray  # (m, room) the negative behind each


class BoxQP(NamedTuple):
    """A box QP while it is solved, with ``k`` variables."""

    gram: FloatArray  # (k, k)
    upper: float
    alpha: FloatArray  # (k,)
    gradient: FloatArray  # (k,) of the objective at alpha
    factor: FloatArray  # (k, k) lower Cholesky factor of the free variables, in their order
    free: IntArray  # (k,) the free variables
    state: npt.NDArray[np.int8]  # (k,)


@njit
def collect_hardest(
    scores: npt.NDArray[np.float32],
    first: int,
    step: int,
    offset: FloatArray,
    floor: FloatArray,
    hardest: HardNegatives,
) -> None:
    """Add one block of scores to the hinge sums and the largest hinges of the candidates.

    Column ``c`` of ``scores`` (m, block) is negative ``first + c * step``, and its hinge argument
    is ``offset + score``. Arguments above ``floor`` are counted. One pass over the block does it
    all; sums and partial sorts by NumPy would read it several times.
    """
    hinge, count, largest, index = hardest
    room = largest.shape[1]
    for i in range(scores.shape[0]):
        lowest = 0  # place of the least hinge kept, once there is no room left
        if count[i] >= room:
            lowest = int(np.argmin(largest[i]))
        for c in range(scores.shape[1]):
            value = offset[i] + scores[i, c]
            if value <= floor[i]:
                continue
            hinge[i] += max(value, 0.0)
            at = count[i]
            count[i] += 1
            if at >= room:
                if value <= largest[i, lowest]:
                    continue
                at = lowest
            largest[i, at] = value
            index[i, at] = first + c * step
            if count[i] >= room:
                lowest = int(np.argmin(largest[i]))


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
        rhs[r] /= factor[r, r]
        for c in range(r):
            rhs[c] -= factor[r, c] * rhs[r]


@njit
def _append(qp: BoxQP, n_free: int, j: int) -> int:
    """Append variable ``j`` to the factor unless its column depends linearly on those in it.

    Row ``n_free`` of the factor holds the solution of ``L y = G[free, j]`` either way. Return the
    number of free variables.
    """
    row = qp.factor[n_free]
    for f in range(n_free):
        row[f] = qp.gram[j, qp.free[f]]
    _forward(qp.factor, n_free, row)
    pivot = qp.gram[j, j] - np.dot(row[:n_free], row[:n_free])
    if pivot <= PIVOT * qp.gram[j, j]:
        qp.state[j] = PENDING
        return n_free
    row[n_free] = math.sqrt(pivot)
    qp.free[n_free] = j
    qp.state[j] = FREE
    return n_free + 1


@njit
def _bind(qp: BoxQP, n_free: int, position: int, upwards: bool) -> int:
    """Fix a free variable at its bound; those behind it are appended to the factor again."""
    j = qp.free[position]
    qp.state[j] = UPPER if upwards else LOWER
    qp.alpha[j] = qp.upper if upwards else 0.0
    end = position
    for f in range(position + 1, n_free):
        end = _append(qp, end, qp.free[f])
    return end


@njit
def _advance(qp: BoxQP, moving: IntArray, direction: FloatArray, longest: float) -> int:
    """Move along ``direction`` to its end or to the first bound; return the position of that bound.

    Position ``f`` is variable ``moving[f]``; -1 means that no bound was met.
    """
    length = longest
    blocking = -1
    for f in range(moving.size):
        j = moving[f]
        room = np.inf
        if direction[f] > 0.0:
            room = (qp.upper - qp.alpha[j]) / direction[f]
        elif direction[f] < 0.0:
            room = qp.alpha[j] / -direction[f]
        if room < length:
            length = room
            blocking = f
    for f in range(moving.size):
        j = moving[f]
        change = length * direction[f]
        qp.alpha[j] = min(max(qp.alpha[j] + change, 0.0), qp.upper)
        for c in range(qp.gradient.size):
            qp.gradient[c] -= qp.gram[j, c] * change
    return blocking


@njit
def _worst_violator(qp: BoxQP, tolerance: float) -> int:
    """Return the variable that violates its optimality condition most, or -1."""
    entering = -1
    worst = tolerance
    for j in range(qp.gradient.size):
        violation = 0.0
        if qp.state[j] == LOWER:
            violation = qp.gradient[j]
        elif qp.state[j] == UPPER:
            violation = -qp.gradient[j]
        elif qp.state[j] == PENDING:
            violation = abs(qp.gradient[j])
        if violation > worst:
            worst = violation
            entering = j
    return entering


@njit
def solve_box_qp(
    gram: FloatArray, linear: FloatArray, upper: float, alpha: FloatArray, tolerance: float
) -> bool:
    """Maximise ``linear.a - a'Ga/2`` over ``0 <= a <= upper`` from the start ``alpha``, in place.

    Primal active set: the variables strictly inside the box are kept stationary through a
    Cholesky factor that gains or loses one row at a time. A variable whose column depends on
    the factorised ones moves along the flat direction until some bound stops it.

    Returns True when no variable violates its optimality condition by more than ``tolerance``.
    """
    k = linear.size
    free = np.empty(k, np.int64)
    state = np.empty(k, np.int8)
    qp = BoxQP(gram, upper, alpha, linear - np.dot(gram, alpha), np.empty((k, k)), free, state)
    n_free = 0
    for j in range(k):
        state[j] = LOWER if alpha[j] <= 0.0 else UPPER
        if 0.0 < alpha[j] < upper:
            n_free = _append(qp, n_free, j)
    refined = restarts = 0
    for _ in range(20 * k + 100):
        direction = qp.gradient[free[:n_free]]
        if refined < REFINEMENTS and np.abs(direction).sum() > 0.1 * tolerance:
            # Newton step of the free variables; their factor is exact but for rounding.
            _forward(qp.factor, n_free, direction)
            _backward(qp.factor, n_free, direction)
            blocking = _advance(qp, free[:n_free], direction, 1.0)
            refined += 1
            if blocking >= 0:
                n_free = _bind(qp, n_free, blocking, direction[blocking] > 0.0)
                refined = 0
            continue
        refined = 0
        entering = _worst_violator(qp, tolerance)
        if entering < 0:
            # The updated gradient drifts by rounding: only a recomputed one is decisive.
            drift = qp.gradient.copy()
            qp.gradient[:] = linear - np.dot(gram, alpha)
            if restarts == RESTARTS or np.abs(drift - qp.gradient).max() <= tolerance:
                return True
            restarts += 1
            continue
        before = n_free
        n_free = _append(qp, n_free, entering)
        if n_free > before:
            continue
        # Flat direction: the entering column is a combination of the factorised ones.
        sign = 1.0 if qp.gradient[entering] > 0.0 else -1.0
        direction = np.full(n_free + 1, sign)
        direction[:n_free] = -sign * qp.factor[n_free, :n_free]
        _backward(qp.factor, n_free, direction)
        moving = np.append(free[:n_free], entering)
        blocking = _advance(qp, moving, direction, np.inf)
        upwards = direction[blocking] > 0.0
        if blocking < n_free:
            n_free = _bind(qp, n_free, blocking, upwards)
        else:
            state[entering] = UPPER if upwards else LOWER
            alpha[entering] = upper if upwards else 0.0
    return False
