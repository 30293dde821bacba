"""Compiled kernels of the exemplar SVMs: collecting hard negatives, working sets, descent."""

import math

import numpy as np
import numpy.typing as npt

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray, IntArray
from pigmil.exemplars._box_qp_kernels import solve_box_qp

Scores = npt.NDArray[np.float32] | FloatArray
Flags = npt.NDArray[np.bool_]

# Share of the hinge margin (2) to which a working set is solved: a little above rounding.
EXACT = 1e-12


@njit
def collect_largest(
    scores: Scores,
    first: int,
    step: int,
    offset: FloatArray,
    floor: FloatArray,
    hinge: FloatArray,
    count: IntArray,
    largest: FloatArray,
    index: IntArray,
) -> None:
    """Add one block of scores to the hinge sums and the largest hinge values of the candidates.

    Column ``c`` of ``scores`` is negative ``first + c * step`` and its hinge argument is
    ``offset + score``. Arguments above ``floor`` are counted; the largest of them stay in
    a binary heap (``largest``, ``index``), smallest on top.
    """
    room = largest.shape[1]
    for i in range(scores.shape[0]):
        total = 0.0
        for c in range(scores.shape[1]):
            value = offset[i] + scores[i, c]
            if value <= floor[i]:
                continue
            if value > 0.0:
                total += value
            filled = count[i]
            count[i] += 1
            if filled < room:
                at = filled
                while at > 0 and largest[i, (at - 1) // 2] > value:
                    largest[i, at] = largest[i, (at - 1) // 2]
                    index[i, at] = index[i, (at - 1) // 2]
                    at = (at - 1) // 2
            elif value > largest[i, 0]:
                at = 0
                while True:
                    child = 2 * at + 1
                    if child >= room:
                        break
                    if child + 1 < room and largest[i, child + 1] < largest[i, child]:
                        child += 1
                    if largest[i, child] >= value:
                        break
                    largest[i, at] = largest[i, child]
                    index[i, at] = index[i, child]
                    at = child
            else:
                continue
            largest[i, at] = value
            index[i, at] = first + c * step
        hinge[i] += total


@njit
def exact_hinges(
    points: FloatArray,
    weights: FloatArray,
    which: IntArray,
    rows: FloatArray,
    slot: IntArray,
    count: IntArray,
    largest: FloatArray,
    index: IntArray,
    hinge: FloatArray,
) -> None:
    """Replace the collected hinge values of the candidates ``which``, and their sum, by exact ones.

    ``rows[slot[j]]`` is negative ``j`` in double precision.
    """
    for t in range(which.size):
        i = which[t]
        total = 0.0
        for r in range(count[i]):
            difference = points[i] - rows[slot[index[i, r]]]
            largest[i, r] = 2.0 - np.dot(difference, weights[i])
            total += max(largest[i, r], 0.0)
        hinge[i] = total


@njit
def choose_new(
    which: IntArray,
    count: IntArray,
    largest: FloatArray,
    index: IntArray,
    members: IntArray,
    size: IntArray,
    least: float,
    most: int,
    new: IntArray,
    n_new: IntArray,
) -> None:
    """Pick the ``most`` largest collected negatives above ``least`` not yet in the working set."""
    for t in range(which.size):
        i = which[t]
        n_new[i] = 0
        filled = min(count[i], largest.shape[1])
        order = np.argsort(largest[i, :filled])
        for r in range(filled - 1, -1, -1):
            if n_new[i] == most or largest[i, order[r]] <= least:
                break
            j = index[i, order[r]]
            known = False
            for m in range(size[i]):
                if members[i, m] == j:
                    known = True
                    break
            if not known:
                new[i, n_new[i]] = j
                n_new[i] += 1


@njit
def grow_and_solve(
    points: FloatArray,
    which: IntArray,
    rows: FloatArray,
    slot: IntArray,
    upper: float,
    new: IntArray,
    n_new: IntArray,
    members: IntArray,
    size: IntArray,
    alpha: FloatArray,
    weights: FloatArray,
    dual: FloatArray,
    overflow: Flags,
) -> None:
    """Add the chosen negatives to each working set, solve it exactly, update weights and dual.

    Members with a multiplier of 0 are dropped, since small sets make the rounds cheap; they return
    if they matter. The Gram matrix is recomputed each time, which is cheaper than storing it.
    """
    room = members.shape[1]
    linear = np.full(room, 2.0)
    scratch = np.empty((room, points.shape[1]))
    for t in range(which.size):
        i = which[t]
        k = 0
        for m in range(size[i]):
            if alpha[i, m] > 0.0:
                members[i, k] = members[i, m]
                alpha[i, k] = alpha[i, m]
                k += 1
        if k + n_new[i] > room:
            size[i] = k
            overflow[i] = True
            continue
        for r in range(n_new[i]):
            members[i, k] = new[i, r]
            alpha[i, k] = 0.0
            k += 1
        size[i] = k
        difference = scratch[:k]
        for m in range(k):
            difference[m] = points[i] - rows[slot[members[i, m]]]
        gram = np.dot(difference, difference.T)
        solve_box_qp(gram, linear, k, upper, alpha[i], EXACT, 20 * k + 100)
        weights[i] = np.dot(alpha[i, :k], difference)
        dual[i] = 2.0 * alpha[i, :k].sum() - 0.5 * np.dot(weights[i], weights[i])


@njit
def descend(
    rows: FloatArray,
    point: FloatArray,
    along: FloatArray,
    curvature: FloatArray,
    upper: float,
    stride: int,
    alpha: FloatArray,
    total: float,
    combination: FloatArray,
    product: float,
) -> tuple[float, float, float]:
    """Make one sweep of dual coordinate descent over a block of negatives.

    ``along = rows @ point``, ``curvature = |point - row|^2``, ``total`` is the sum of all alphas,
    ``combination`` the alpha-weighted sum of the negatives (changed in place) and ``product`` its
    dot product with ``point``, so w = total * point - combination. Rows are visited with a stride
    that is coprime to their number, so that sorted data do not slow the descent.

    Returns the new ``total`` and ``product`` and the largest violation met.
    """
    n = rows.shape[0]
    norm = np.dot(point, point)
    worst = 0.0
    j = 0
    for _ in range(n):
        j = (j + stride) % n
        gradient = (
            2.0 - (total * norm - product) + (total * along[j] - np.dot(combination, rows[j]))
        )
        if (alpha[j] <= 0.0 and gradient <= 0.0) or (alpha[j] >= upper and gradient >= 0.0):
            continue
        worst = max(worst, abs(gradient))
        target = math.inf if gradient > 0.0 else -math.inf
        if curvature[j] > 0.0:
            target = alpha[j] + gradient / curvature[j]
        change = min(max(target, 0.0), upper) - alpha[j]
        if change != 0.0:
            alpha[j] += change
            total += change
            product += change * along[j]
            combination += change * rows[j]
    return total, product, worst
