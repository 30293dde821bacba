"""Multiple-kernel SVM with squared hinge loss: the best mixture of given kernels."""

import numpy as np

from pigmil._core.typing import FloatArray

_MAX_WEIGHT_STEPS = 300
_LARGEST_POWER = 8.0
_PATIENCE = 20
_QP_STEPS_PER_ROW = 200
_LEAST_QP_STEPS = 20000


def mix_kernels(
    matrix: FloatArray,
    among: list[FloatArray],
    across: list[FloatArray],
    ridge: FloatArray,
    mixture: FloatArray,
    alphas: FloatArray,
    tol: float,
) -> tuple[FloatArray, FloatArray, float, bool]:
    """Return the optimal mixture of kernel matrices for an SVM with squared hinge loss.

    Alternates between training an SVM with the current mixture and updating the mixture, ``mu_t``
    in proportion to ``mu_t |w_t / mu_t|^(2 p)``. With ``p = 1/2`` this is the best mixture for
    these ``w`` and never raises the objective; larger powers need fewer steps, and are tried as
    long as the objective falls. Stops at a duality gap of ``tol`` times the objective, or when
    twenty steps have lowered the objective by less than a tenth of that, because the gap is only
    as accurate as the SVM. ``among`` and ``across`` contain the kernel among the positive rows, and
    between positive and negative rows, for each assignment; this part of ``matrix`` is overwritten.
    Returns dual variables, mixture, objective, and whether a stopping rule was met.
    """
    from pigmil.estimators._nonnegative_qp_kernels import solve_nonnegative_qp

    n_positive = len(among[0])
    max_steps = max(_QP_STEPS_PER_ROW * len(ridge), _LEAST_QP_STEPS)
    power, lowest = 0.5, np.inf
    kept: tuple[FloatArray, FloatArray, FloatArray] | None = None
    gradient = np.empty(len(ridge))
    gradient[n_positive:] = matrix[n_positive:, n_positive:] @ alphas[n_positive:].astype(
        matrix.dtype
    )
    fixed = gradient[n_positive:].copy()  # the part of the negative rows in their own gradient
    reached = np.inf
    for step in range(_MAX_WEIGHT_STEPS):
        up, down = alphas[:n_positive], alphas[n_positive:]
        mixed_among = _weighted_sum(mixture, among)
        mixed_among.flat[:: n_positive + 1] += ridge[:n_positive]
        mixed_across = _weighted_sum(mixture, across)
        matrix[:n_positive, :n_positive] = mixed_among
        matrix[:n_positive, n_positive:] = -mixed_across
        matrix[n_positive:, :n_positive] = -mixed_across.T
        gradient = np.concatenate(
            [mixed_among @ up - mixed_across @ down - 1.0, fixed - up @ mixed_across - 1.0]
        )
        alphas, gradient, violation = solve_nonnegative_qp(matrix, alphas, gradient, tol, max_steps)
        up, down = alphas[:n_positive], alphas[n_positive:]
        fixed = gradient[n_positive:] + 1.0 + up @ mixed_across
        same = float(down @ fixed - down @ (ridge[n_positive:] * down))
        norms = np.array(
            [
                up @ one @ up - 2 * (up @ other) @ down + same
                for one, other in zip(among, across, strict=True)
            ]
        )
        norms = np.maximum(norms, 0.0)
        mixed = float(mixture @ norms)
        objective = float(alphas.sum() - (mixed + alphas @ (ridge * alphas)) / 2)
        settled = violation <= tol and (norms.max() - mixed) / 2 <= tol * objective
        if step % _PATIENCE == 0:
            settled = settled or (violation <= tol and reached - lowest <= tol * lowest / 10)
            reached = lowest
        if settled or norms.max() == 0:
            break
        if objective > lowest and kept is not None and power > 0.5:
            # The step was too large: go back, and take the safe one.
            power, (mixture, norms, _) = 0.5, kept
        else:
            lowest = objective
            kept = (mixture, norms, alphas)
            power = min(2 * power, _LARGEST_POWER)
        mixture = mixture * (norms / norms.max()) ** power
        mixture = mixture / mixture.sum()
    return alphas, mixture, objective, settled


def _weighted_sum(weights: FloatArray, matrices: list[FloatArray]) -> FloatArray:
    """Return the weighted sum in the precision of the matrices, with one temporary matrix."""
    total = np.zeros_like(matrices[0])
    for weight, matrix in zip(weights.tolist(), matrices, strict=True):
        if weight > 0:
            total += weight * matrix
    return total
