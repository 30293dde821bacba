"""Exemplar SVMs where many negatives are on the wrong side: descent, then exact decomposition."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pigmil.graph.shared_negatives import Floats, SharedNegatives

SWEEPS = 30
MAX_ROUNDS = 500
SMALLEST_ROOM = 256
LARGEST_ROOM = 1024


@dataclass(frozen=True)
class Solution:
    """One exemplar SVM in the coordinates of the negatives."""

    weight: Floats
    gap: float  # certified, relative to the dual objective
    lowest_score: float  # the smallest score of a negative
    settled: bool  # no violation is left that rounding would let us mend


def decompose(point: Floats, negatives: SharedNegatives, upper: float, tol: float) -> Solution:
    """Solve one exemplar SVM with any number of negatives inside the margin.

    Dual coordinate descent brings most multipliers to the bound they end at; then rounds of the
    exact box QP over the worst violators and the multipliers inside the box, everything else held
    fixed, until the duality gap closes. Each round raises the dual objective, so the rounds cannot
    cycle.

    The gap must fall below ``tol`` of the dual objective and below ``tol / 50`` of |w|^2.
    The second matters here: the objective is mostly loss, and by strong convexity only
    a gap small beside |w|^2 / 2 holds the direction of w (|dw|^2 <= 2 gap).
    """
    from pigmil.graph.box_qp_kernels import solve_box_qp

    n = negatives.n
    room = min(n, max(SMALLEST_ROOM, min(2 * negatives.d + 64, LARGEST_ROOM)))
    alpha = np.zeros(n)
    if n > room:
        _descend(point, negatives, upper, alpha)
    best_gap = np.inf
    best_dual = -np.inf
    stalled = 0
    for _ in range(MAX_ROUNDS):
        weight, scores = _evaluate(point, negatives, alpha)
        gradient = 2.0 - point @ weight + scores
        half = 0.5 * float(weight @ weight)
        dual = 2.0 * alpha.sum() - half
        excess = half + upper * np.maximum(gradient, 0.0).sum() - dual
        gap = max(excess, 0.0) / dual if dual > 0.0 else np.inf
        if gap < best_gap:
            best_gap = gap
            best = weight, float(scores.min())
        violation = np.where(alpha < upper, gradient, 0.0)
        violation = np.maximum(violation, np.where(alpha > 0.0, -gradient, 0.0))
        worst = violation.max()
        if (excess <= 0.04 * tol * half and gap <= tol) or worst <= 1e-13:
            return Solution(best[0], best_gap, best[1], True)
        stalled = 0 if dual > best_dual * (1 + 1e-15) else stalled + 1
        best_dual = max(dual, best_dual)
        if stalled == 3:
            return Solution(best[0], best_gap, best[1], True)
        chosen = _choose(alpha, gradient, violation, upper, room)
        difference = point - negatives.rows(chosen)
        gram = difference @ difference.T
        part = alpha[chosen]
        linear = gradient[chosen] + gram @ part
        tolerance = 1e-13 * (1.0 + np.abs(linear).max())
        solve_box_qp(gram, linear, chosen.size, upper, part, tolerance, 50 * chosen.size + 100)
        alpha[chosen] = part
    return Solution(best[0], best_gap, best[1], False)


def _evaluate(point: Floats, negatives: SharedNegatives, alpha: Floats) -> tuple[Floats, Floats]:
    """Compute w = sum_j alpha_j (x - n_j) and the score of every negative."""
    weight = np.zeros_like(point)
    for block, rows in negatives.blocks():
        weight += alpha[block].sum() * point - alpha[block] @ rows
    scores = np.empty(negatives.n)
    for block, rows in negatives.blocks():
        scores[block] = rows @ weight
    return weight, scores


def _choose(
    alpha: Floats, gradient: Floats, violation: Floats, upper: float, room: int
) -> npt.NDArray[np.int64]:
    """Choose the next exact problem: worst violators, multipliers inside the box, near misses."""
    if alpha.size <= room:
        return np.arange(alpha.size)
    inside = np.flatnonzero((alpha > 0.0) & (alpha < upper))
    inside = inside[np.argsort(np.abs(gradient[inside]), kind="stable")[: room // 2]]
    rank = np.where(violation > 0.0, -violation, np.abs(gradient))
    rank[inside] = -np.inf
    chosen = np.argpartition(rank, room - 1)[:room]
    chosen.sort()
    return chosen


def _descend(point: Floats, negatives: SharedNegatives, upper: float, alpha: Floats) -> None:
    """Bring ``alpha`` near the solution by sweeps of dual coordinate descent, in place."""
    from pigmil.graph.exemplar_kernels import descend

    total, product = 0.0, 0.0
    combination = np.zeros_like(point)
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
