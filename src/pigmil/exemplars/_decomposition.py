"""Exemplar SVMs with many negatives inside the margin: descent, then exact decomposition."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pigmil._core.typing import FloatArray
from pigmil.exemplars._shared_negatives import SharedNegatives

SWEEPS = 30
MAX_ROUNDS = 500
RESCUES = 3
SMALLEST_ROOM = 256
LARGEST_ROOM = 1024


@dataclass(frozen=True)
class Solution:
    """One exemplar SVM in the coordinates of the negatives."""

    weight: FloatArray
    gap: float  # relative to the dual objective
    lowest_score: float  # the smallest score of a negative


def decompose(point: FloatArray, negatives: SharedNegatives, upper: float, tol: float) -> Solution:
    """Solve one exemplar SVM with any number of negatives inside the margin.

    Dual coordinate descent brings most multipliers to their final bound. Then the exact box QP is
    solved repeatedly over the worst violators and the multipliers inside the box, with all others
    fixed, until the duality gap closes. Each round raises the dual objective, so rounds cannot
    cycle.

    The gap must fall below ``tol`` of the dual objective and below ``tol / 50`` of |w|^2. The
    second condition is needed because the objective is mostly loss: by strong convexity
    |dw|^2 <= 2 gap, so only a gap that is small compared with |w|^2 / 2 fixes the direction of w.
    """
    n = negatives.n
    room = min(n, max(SMALLEST_ROOM, min(2 * negatives.d + 64, LARGEST_ROOM)))
    alpha = np.zeros(n)
    if n > room:
        _descend(point, negatives, upper, alpha)
    best = Solution(np.zeros_like(point), np.inf, -np.inf)
    highest, fallen = -np.inf, 0
    for _ in range(MAX_ROUNDS):
        weight, scores = _evaluate(point, negatives, alpha)
        gradient = 2.0 - point @ weight + scores
        half = 0.5 * float(weight @ weight)
        dual = 2.0 * float(alpha.sum()) - half
        if dual > highest:
            solution, excess = _certify(weight, scores, gradient, upper, dual)
            best = solution if solution.gap < best.gap else best
            if solution.gap <= tol and excess <= 0.04 * tol * half:
                break
            highest, highest_alpha = dual, alpha.copy()
            _solve_part(point, negatives, upper, alpha, gradient, room)
        elif fallen == RESCUES or best.gap <= 1e-12:
            break
        else:
            # Rounding errors of the exact problem dominate (features of very different scale):
            # continue from the best point by descent, which forms no products of features.
            fallen += 1
            alpha[:] = highest_alpha
            _descend(point, negatives, upper, alpha)
    return best


def _certify(
    weight: FloatArray, scores: FloatArray, gradient: FloatArray, upper: float, dual: float
) -> tuple[Solution, float]:
    """Return the solution with its relative duality gap, and the absolute gap."""
    half = 0.5 * float(weight @ weight)
    excess = half + upper * float(np.maximum(gradient, 0.0).sum()) - dual
    margin = 2.0 - float(gradient.max())
    longer = 2.0 / margin if margin > 0.0 else np.inf
    if half * longer**2 - dual < excess:
        # C is so large that hinges within rounding cost more than a slightly longer w.
        excess = half * longer**2 - dual
        weight, scores = weight * longer, scores * longer
    excess = max(excess, 0.0)
    gap = excess / dual if dual > 0.0 else np.inf
    return Solution(weight, gap, float(scores.min())), excess


def _solve_part(
    point: FloatArray,
    negatives: SharedNegatives,
    upper: float,
    alpha: FloatArray,
    gradient: FloatArray,
    room: int,
) -> None:
    """Solve exactly for the most promising multipliers with all others fixed, in place."""
    from pigmil.exemplars._box_qp_kernels import solve_box_qp

    chosen = _choose(alpha, gradient, upper, room)
    difference = point - negatives.rows(chosen)
    gram = difference @ difference.T
    part = alpha[chosen]
    linear = gradient[chosen] + gram @ part
    tolerance = 1e-13 * (1.0 + np.abs(linear).max())
    solve_box_qp(gram, linear, chosen.size, upper, part, tolerance, 10 * chosen.size + 100)
    alpha[chosen] = part


def _evaluate(
    point: FloatArray, negatives: SharedNegatives, alpha: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Compute w = sum_j alpha_j (x - n_j) and the score of every negative."""
    weight = np.zeros_like(point)
    for block, rows in negatives.blocks():
        weight += alpha[block].sum() * point - alpha[block] @ rows
    scores = np.empty(negatives.n)
    for block, rows in negatives.blocks():
        scores[block] = rows @ weight
    return weight, scores


def _choose(
    alpha: FloatArray, gradient: FloatArray, upper: float, room: int
) -> npt.NDArray[np.int64]:
    """Choose variables to solve for: multipliers inside the box, violators, then near ones."""
    if alpha.size <= room:
        return np.arange(alpha.size)
    inside = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    inside = inside[np.argsort(np.abs(gradient[inside]), kind="stable")[: room // 2]]
    violation = np.where(alpha < upper, gradient, 0.0)
    violation = np.maximum(violation, np.where(alpha > 0.0, -gradient, 0.0))
    rank = np.where(violation > 0.0, -violation, np.abs(gradient))
    rank[inside] = -np.inf
    chosen = np.argpartition(rank, room - 1)[:room]
    chosen.sort()
    return chosen


def _descend(
    point: FloatArray, negatives: SharedNegatives, upper: float, alpha: FloatArray
) -> None:
    """Move ``alpha`` close to the solution by dual coordinate descent, in place."""
    from pigmil.exemplars._mining_kernels import descend

    total, product = float(alpha.sum()), 0.0
    combination = np.zeros_like(point)
    if total > 0.0:
        for block, rows in negatives.blocks():
            combination += alpha[block] @ rows
        product = float(combination @ point)
    for _ in range(SWEEPS):
        worst = 0.0
        for block, rows in negatives.blocks():
            along = rows @ point
            curvature = np.einsum("ij,ij->i", rows, rows) - 2.0 * along + point @ point
            part = alpha[block]
            total, product, violation = descend(
                rows,
                point,
                along,
                curvature,
                upper,
                _stride(len(rows)),
                part,
                total,
                combination,
                product,
            )
            worst = max(worst, violation)
        if worst <= 1e-3:
            break


def _stride(n: int) -> int:
    """Return a step near the golden section of ``n`` that visits every row once."""
    step = max(1, round(0.618 * n))
    while np.gcd(step, n) != 1:
        step += 1
    return step
