"""KI-SVM's convex programme: cutting planes over key-instance assignments, solved by MKL.

An *atom* is a point of the feature space that may represent a bag: an instance, or the mean of
the instances of a bag. An assignment gives every positive bag one atom and defines, with the rows
of the negative bags, a kernel matrix. The programme mixes these matrices.
"""

import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import segment_argmax, segment_argmin
from pigmil._core.typing import FloatArray, IntArray
from pigmil.estimators._svm_solvers import kernel_values

_KEEP_VALUES = 1 << 25  # of kernel rows: 128 MB in single precision; others are computed again
_ASSIGNMENT_BYTES = 400 << 20  # of the kernels of all assignments, at most
_DOUBLE_ROWS = 3000
_BLOCK_ROWS = 256
_MAX_SWEEPS = 100
_MORE_STARTS = 3
_MIN_ROUNDS = 5  # as in the code of the authors
_MAX_WEIGHT_STEPS = 300
_LARGEST_POWER = 8.0
_PATIENCE = 20
_QP_STEPS_PER_ROW = 200
_LEAST_QP_STEPS = 20000


class Atoms:
    """Points that may represent bags, as combinations of instances, and their kernel.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        Training instances.
    combination : CSR of shape (n_atoms, n_instances)
        Weights of the instances in every atom.
    gamma : float or None
        Width of the Gaussian kernel, None for the linear one. 1 is added to every value, which
        makes room for an intercept.
    n_kept : int, optional
        How many of the first atoms have their rows kept once computed; all if not given. None
        are where that would take more than 128 MB.
    """

    def __init__(
        self, instances: Any, combination: Any, gamma: float | None, n_kept: int | None = None
    ) -> None:
        self.instances = instances
        self.combination = combination
        self.gamma = gamma
        self.n_atoms = int(combination.shape[0])
        self._is_single = np.diff(combination.indptr) == 1
        self._first = combination.indices[combination.indptr[:-1]]
        # Rows of many atoms are kept in single precision, as distances are computed. Only the
        # rows that are written take memory.
        self.dtype = np.float64 if self.n_atoms <= _DOUBLE_ROWS else np.float32
        n_rows = self.n_atoms if n_kept is None else n_kept
        if n_rows * self.n_atoms > _KEEP_VALUES:
            n_rows = 0
        self._kept = np.empty((n_rows, self.n_atoms), dtype=self.dtype)
        self._known = np.zeros(n_rows, dtype=bool)

    def keeps(self, atoms: IntArray) -> bool:
        """Return whether the rows of these atoms are kept once they are computed."""
        return bool(len(atoms)) and int(atoms.max()) < len(self._known)

    def block(self, atoms: IntArray, others: IntArray) -> FloatArray:
        """Return the kernel between given atoms and the others; cache rows of the first atoms."""
        if not self.keeps(atoms):
            return self.compute(atoms, others)
        new = np.unique(atoms[~self._known[atoms]])
        every = np.arange(self.n_atoms)
        for start in range(0, len(new), _BLOCK_ROWS):
            some = new[start : start + _BLOCK_ROWS]
            self._kept[some] = self.compute(some, every)
            self._known[some] = True
        kernel: FloatArray = self._kept[np.ix_(atoms, others)]
        return kernel.astype(np.float64, copy=False)

    def compute(self, atoms: IntArray, others: IntArray) -> FloatArray:
        """Return the kernel between the given atoms and the others, computed from the instances."""
        if len(atoms) and self._is_single[atoms].all() and self._is_single[others].all():
            values = kernel_values(
                self.instances[self._first[atoms]], self.instances[self._first[others]], self.gamma
            )
            values += 1.0
            return values
        values = np.ones((len(atoms), len(others)))
        part, rest = self.combination[atoms], self.combination[others]
        touched, reached = np.unique(part.indices), np.unique(rest.indices)
        references = self.instances[reached]
        transposed = sp.csc_array(rest[:, reached].T)
        for start in range(0, len(touched), _BLOCK_ROWS):
            some = touched[start : start + _BLOCK_ROWS]
            block = kernel_values(self.instances[some], references, self.gamma)
            values += part[:, some] @ (block @ transposed)
        return values

    def within(self, offsets: IntArray) -> list[FloatArray]:
        """Return the kernel between the first, single-instance atoms of all segments."""
        return [
            self.compute(np.arange(start, stop), np.arange(start, stop))
            for start, stop in itertools.pairwise(offsets)
        ]


@dataclass(frozen=True, slots=True)
class KeySolution:
    """Result of the cutting-plane method.

    Attributes
    ----------
    coefficients : array of shape (n_atoms,)
        The decision value of x is ``sum of coefficient_a (k(a, x) + 1)``.
    objectives : list of float
        Optimum of the restricted programme in every round; it never rises.
    mixture : array
        Weight of every assignment.
    assignments : list of array of int of shape (n_positive,)
        Atom of every positive bag, per assignment.
    alphas : array of shape (n_positive + n_negative_rows,)
        Dual variables.
    settled : bool
        Whether every restricted programme was solved to its tolerance.
    """

    coefficients: FloatArray
    objectives: list[float]
    mixture: FloatArray
    assignments: list[IntArray]
    alphas: FloatArray
    settled: bool


class KeyInstanceProgramme:
    """The programme ``min over mixtures of max over a >= 0 of sum a - a (sum mu_t Q_t + D) a / 2``.

    Parameters
    ----------
    atoms : Atoms
        First the instances of positive bags, then one mean per positive bag, then the negative
        rows.
    offsets : array of int of shape (n_positive + 1,)
        Where the instances of each positive bag begin among the atoms.
    ridge : array of shape (n_positive + n_negative_rows,)
        The diagonal ``D``: one over the cost of each row's squared slack.
    tol : float
        Least relative gain of a round; mixtures are solved to a tenth of it.
    """

    def __init__(self, atoms: Atoms, offsets: IntArray, ridge: FloatArray, tol: float) -> None:
        self.atoms = atoms
        self.offsets = offsets
        self.ridge = ridge
        self.tol = tol
        self.n_positive = len(offsets) - 1
        self.n_instances = int(offsets[-1])
        self.first_negative = self.n_instances + self.n_positive
        self.negatives = np.arange(self.first_negative, atoms.n_atoms)
        self._inside = np.arange(self.n_instances)
        self._within = atoms.within(offsets)
        single = atoms.dtype == np.float32
        self._rounding = 1e-6 if single else 1e-12
        self._mix_tol = max(tol / 10, 1e-4 if single else 0.0)
        self._blocks: dict[bytes, tuple[FloatArray, FloatArray]] = {}
        self._to_negatives = self._kernel_to_negatives()
        self._matrix = self._empty_matrix()

    def solve(self, max_iter: int) -> KeySolution:
        """Add the most violated assignment until it lowers the optimum by less than ``tol``.

        There are at least five rounds if assignments help; at most ``max_iter`` assignments, and no
        more than 400 MB of their kernels.
        """
        each = self.n_positive * len(self.ridge) * np.dtype(self.atoms.dtype).itemsize
        room = max(2, _ASSIGNMENT_BYTES // each)
        means = np.arange(self.offsets[-1], self.first_negative, dtype=np.int64)
        best = self._restricted([means], np.ones(1), np.zeros(len(self.ridge)))
        objectives, settled = [best.objectives[0]], best.settled
        for _ in range(min(max_iter, room) - 1):
            key = self._most_violated(best)
            if key is None:
                break
            share = 1.0 / (len(best.mixture) + 1)
            solution = self._restricted(
                [*best.assignments, key],
                np.append(best.mixture * (1 - share), share),
                best.alphas,
            )
            settled = settled and solution.settled
            gain = objectives[-1] - solution.objectives[0]
            if gain > 0:
                best = solution
            elif len(objectives) < _MIN_ROUNDS:
                # Within the tolerance of the mixture: keep the optimum, search another assignment.
                best = replace(
                    best, assignments=solution.assignments, mixture=np.append(best.mixture, 0.0)
                )
            else:
                break
            objectives.append(min(objectives[-1], solution.objectives[0]))
            if gain <= self.tol * objectives[-1] and len(objectives) >= _MIN_ROUNDS:
                break
        else:
            if max_iter > 1:
                limit = (
                    f"max_iter={max_iter} assignments; raise max_iter."
                    if max_iter <= room
                    else f"{room} assignments, and memory is kept for no more."
                )
                warnings.warn(
                    f"KI-SVM still gained after {limit}",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        if not settled:
            warnings.warn(
                "A restricted problem of KI-SVM ran out of steps before its tolerance; lower C or "
                "raise tol.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return KeySolution(
            best.coefficients, objectives, best.mixture, best.assignments, best.alphas, settled
        )

    def _restricted(
        self, keys: list[IntArray], mixture: FloatArray, alphas: FloatArray
    ) -> KeySolution:
        """Return the optimum over the mixtures of given assignments."""
        for key in keys:
            if key.tobytes() not in self._blocks:
                among, across = self.atoms.block(key, key), self._towards_negatives(key)
                self._blocks[key.tobytes()] = (
                    among.astype(self.atoms.dtype, copy=False),
                    across.astype(self.atoms.dtype, copy=False),
                )
        blocks = [self._blocks[key.tobytes()] for key in keys]
        alphas, mixture, objective, settled = mix_kernels(
            self._matrix,
            [among for among, _ in blocks],
            [across for _, across in blocks],
            self.ridge,
            mixture,
            alphas,
            self._mix_tol,
        )
        coefficients = self._coefficients(keys, mixture, alphas)
        return KeySolution(coefficients, [objective], mixture, keys, alphas, settled)

    def _empty_matrix(self) -> FloatArray:
        """Return the matrix of the dual; its block of negative rows is the same in all rounds."""
        n_rows, start = len(self.ridge), self.n_positive
        matrix = np.zeros((n_rows, n_rows), dtype=self.atoms.dtype)
        for first in range(0, len(self.negatives), _BLOCK_ROWS):
            some = slice(first, first + _BLOCK_ROWS)
            # The matrix is symmetric: only what lies right of the diagonal is computed.
            block = self.atoms.compute(self.negatives[some], self.negatives[first:])
            matrix[start + first : start + first + len(block), start + first :] = block
            matrix[start + first :, start + first : start + first + len(block)] = block.T
        matrix.flat[:: n_rows + 1] += self.ridge
        return matrix

    def _coefficients(
        self, keys: list[IntArray], mixture: FloatArray, alphas: FloatArray
    ) -> FloatArray:
        coefficients = np.zeros(self.atoms.n_atoms)
        for weight, key in zip(mixture, keys, strict=True):
            np.add.at(coefficients, key, weight * alphas[: self.n_positive])
        coefficients[self.first_negative :] = -alphas[self.n_positive :]
        return coefficients

    def _kernel_to_negatives(self) -> FloatArray | None:
        """Return the kernel of instances of positive bags with negative rows; None if too large."""
        n_values = self.n_instances * len(self.negatives)
        if self.atoms.keeps(self._inside[-1:]) or n_values > _KEEP_VALUES:
            return None
        kernel = np.empty((self.n_instances, len(self.negatives)), dtype=self.atoms.dtype)
        for start in range(0, self.n_instances, _BLOCK_ROWS):
            some = self._inside[start : start + _BLOCK_ROWS]
            kernel[some] = self.atoms.compute(some, self.negatives)
        return kernel

    def _towards_negatives(self, key: IntArray) -> FloatArray:
        """Return the kernel between given atoms of positive bags and the negative rows."""
        if self._to_negatives is not None and key.max() < self.n_instances:
            return self._to_negatives[key]
        return self.atoms.block(key, self.negatives)

    def _pull_of_negatives(self, alphas: FloatArray) -> FloatArray:
        """Return what negative rows add to the decision values of instances of positive bags."""
        weights = -alphas[self.n_positive :]
        pull = np.empty(self.n_instances)
        for start in range(0, self.n_instances, _BLOCK_ROWS):
            some = self._inside[start : start + _BLOCK_ROWS]
            pull[some] = self._towards_negatives(some) @ weights
        return pull

    def _pull_of(self, atoms: IntArray, weights: FloatArray) -> FloatArray:
        """Return what weighted atoms of positive bags add to the decision values."""
        pull = np.zeros(self.n_instances)
        for start in range(0, len(atoms), _BLOCK_ROWS):
            some = slice(start, start + _BLOCK_ROWS)
            pull += weights[some] @ self.atoms.block(atoms[some], self._inside)
        return pull

    def _most_violated(self, solution: KeySolution) -> IntArray | None:
        """Return the instances with the largest ``a Q a``, or None if only known ones are found.

        The search climbs from the highest- and from the lowest-scored instances (a quadratic
        form grows in both directions) and from the assignments found last.
        """
        alphas = solution.alphas[: self.n_positive]
        by_negatives = self._pull_of_negatives(solution.alphas)
        weights = solution.coefficients[: self.first_negative]
        used = np.flatnonzero(np.abs(weights) > 1e-9 * np.abs(weights).max())
        scores = by_negatives + self._pull_of(used, weights[used])
        starts = [
            segment_argmax(scores, self.offsets),
            segment_argmin(scores, self.offsets),
            *solution.assignments[1:][-_MORE_STARTS:],
        ]
        known = {key.tobytes() for key in solution.assignments}
        best_key: IntArray | None = None
        largest = -np.inf
        for start in starts:
            key, value = self._climb(start.copy(), alphas, by_negatives)
            if value > largest and key.tobytes() not in known:
                best_key, largest = key, value
        return best_key

    def _climb(
        self, key: IntArray, alphas: FloatArray, by_negatives: FloatArray
    ) -> tuple[IntArray, float]:
        """Exchange one bag's instance at a time until none raises ``a Q a``."""
        offsets = self.offsets
        pull = self._pull_of(key, alphas) + by_negatives
        for _ in range(_MAX_SWEEPS):
            changed = False
            for bag in np.flatnonzero(alphas):
                inside = slice(int(offsets[bag]), int(offsets[bag + 1]))
                if inside.stop - inside.start == 1:
                    continue
                kernel, now = self._within[bag], key[bag] - inside.start
                others = pull[inside] - alphas[bag] * kernel[now]
                value = 2 * others + alphas[bag] * kernel.diagonal()
                chosen = int(np.argmax(value))
                least = value[now]
                # The gain must exceed the rounding of the cached rows, or the search may cycle.
                if value[chosen] > least + self._rounding * max(1.0, abs(least)):
                    rows = self.atoms.block(
                        np.array([key[bag], inside.start + chosen]), self._inside
                    )
                    key[bag] = inside.start + chosen
                    pull += alphas[bag] * (rows[1] - rows[0])
                    changed = True
            if not changed:
                break
        # The part of the negative rows alone is the same for all assignments.
        return key, float(alphas @ (pull[key] + by_negatives[key]))


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
    from pigmil.estimators._kernels import solve_nonnegative_qp

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
