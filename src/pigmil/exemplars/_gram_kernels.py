"""One exemplar SVM from dot products alone: for sparse instances with many features."""

import numpy as np

from pigmil._core.jit import njit
from pigmil._core.typing import FloatArray
from pigmil.exemplars._box_qp_kernels import solve_box_qp


@njit
def solve_by_gram(
    gram: FloatArray,
    along: FloatArray,
    norm: float,
    upper: float,
    tol: float,
    added: int,
    max_rounds: int,
    alpha: FloatArray,
) -> None:
    """Solve the dual of one exemplar SVM, in place in ``alpha`` (zero at the start).

    With ``gram`` the dot products of the negatives, ``along`` theirs with the candidate x and
    ``norm`` = x.x, differences z_j = x - n_j have z_j.z_k = norm - along_j - along_k + gram_jk.
    Each round solves exactly for the multipliers inside the box and the worst violators, until
    the duality gap is within ``tol`` of the dual objective and ``tol / 50`` of |w|^2.
    """
    n = along.size
    gradient = np.full(n, 2.0)
    violation = np.empty(n)
    highest = -np.inf
    for _ in range(max_rounds):
        squared = 0.0
        hinge = 0.0
        total = 0.0
        for j in range(n):
            squared += alpha[j] * (2.0 - gradient[j])
            hinge += max(gradient[j], 0.0)
            total += alpha[j]
        dual = 2.0 * total - 0.5 * squared
        excess = 0.5 * squared + upper * hinge - dual
        if (excess <= tol * dual and excess <= 0.02 * tol * squared) or dual <= highest:
            return
        highest = dual
        n_free = 0
        for j in range(n):
            if 0.0 < alpha[j] < upper:
                violation[j] = np.inf
                n_free += 1
            else:
                violation[j] = gradient[j] if alpha[j] <= 0.0 else -gradient[j]
        # At least as many new ones as are inside the box, so that large sets take few rounds.
        worst = np.argsort(-violation)[: min(n, n_free + max(added, n_free))]
        size = 0
        while size < worst.size and violation[worst[size]] > 0.0:
            size += 1
        chosen = worst[:size]
        part = np.empty(size)
        square = np.empty((size, size))
        linear = np.empty(size)
        for r in range(size):
            part[r] = alpha[chosen[r]]
            for c in range(size):
                square[r, c] = norm - along[chosen[r]] - along[chosen[c]]
                square[r, c] += gram[chosen[r], chosen[c]]
        for r in range(size):
            linear[r] = gradient[chosen[r]]
            for c in range(size):
                linear[r] += square[r, c] * part[c]
        solve_box_qp(square, linear, size, upper, part, 1e-12, 10 * size + 100)
        for r in range(size):
            change = part[r] - alpha[chosen[r]]
            alpha[chosen[r]] = part[r]
            if change != 0.0:
                for j in range(n):
                    product = norm - along[j] - along[chosen[r]] + gram[chosen[r], j]
                    gradient[j] -= change * product
