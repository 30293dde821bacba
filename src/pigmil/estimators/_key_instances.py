"""KI-SVM's convex programme: cutting planes over key-instance assignments, solved by MKL.

An *atom* is a point of the feature space that may speak for a bag: an instance, or the mean of
the instances of a bag. An assignment gives every positive bag one atom; with the rows of the
negative bags it makes a kernel matrix. The programme mixes these matrices.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import IntArray, segment_argmax, segment_argmin
from pigmil.estimators._kernel_svm import kernel_values
from pigmil.estimators.base import FloatArray

_KEEP_ATOMS = 7000  # kernel rows of more atoms are computed again when they are needed
_DOUBLE_ATOMS = 3000
_BLOCK_ROWS = 1024
_MAX_WEIGHT_STEPS = 300
_MAX_SWEEPS = 100
_MORE_STARTS = 3
_QP_STEPS_PER_ROW = 2000


class Atoms:
    """Points that may speak for bags, as combinations of instances, and their kernel.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        Training instances.
    combination : CSR of shape (n_atoms, n_instances)
        Weights of the instances in every atom.
    gamma : float or None
        Width of the Gaussian kernel, None for the linear one. 1 is added to every value, which
        makes room for an intercept.
    """

    def __init__(self, instances: Any, combination: Any, gamma: float | None) -> None:
        self.instances = instances
        self.combination = combination
        self.gamma = gamma
        self.n_atoms = int(combination.shape[0])
        self._slot = np.full(self.n_atoms, -1, dtype=np.int64)
        self._n_kept = 0
        # Rows of many atoms are kept in single precision, as distances are computed. Only the
        # rows that are written take memory.
        dtype = np.float64 if self.n_atoms <= _DOUBLE_ATOMS else np.float32
        n_rows = self.n_atoms if self.n_atoms <= _KEEP_ATOMS else 0
        self._kept = np.empty((n_rows, self.n_atoms), dtype=dtype)

    def rows(self, atoms: IntArray) -> FloatArray:
        """Kernel between the given atoms and all."""
        return self.block(atoms, np.arange(self.n_atoms))

    def block(self, atoms: IntArray, others: IntArray) -> FloatArray:
        """Kernel between the given atoms and the others."""
        if self.n_atoms > _KEEP_ATOMS:
            return self._compute(atoms, self.combination[others])
        new = np.unique(atoms[self._slot[atoms] < 0])
        if new.size:
            self._slot[new] = self._n_kept + np.arange(len(new))
            for start in range(0, len(new), _BLOCK_ROWS):
                some = new[start : start + _BLOCK_ROWS]
                self._kept[self._slot[some]] = self._compute(some, self.combination)
            self._n_kept += len(new)
        found: FloatArray = self._kept[np.ix_(self._slot[atoms], others)]
        return found.astype(np.float64, copy=False)

    def _compute(self, atoms: IntArray, others: Any) -> FloatArray:
        values = np.ones((len(atoms), others.shape[0]))
        part = self.combination[atoms]
        touched, reached = np.unique(part.indices), np.unique(others.indices)
        references = self.instances[reached]
        transposed = sp.csc_array(others[:, reached].T)
        for start in range(0, len(touched), _BLOCK_ROWS):
            some = touched[start : start + _BLOCK_ROWS]
            block = kernel_values(self.instances[some], references, self.gamma)
            values += part[:, some] @ (block @ transposed)
        return values

    def diagonal(self, atoms: slice) -> FloatArray:
        """Kernel of single-instance atoms with themselves."""
        rows = self.instances[self.combination[atoms].indices]
        if self.gamma is not None:
            return np.full(rows.shape[0], 2.0)
        squares = rows.multiply(rows) if sp.issparse(rows) else rows * rows
        return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel() + 1.0


@dataclass(frozen=True, slots=True)
class KeySolution:
    """Where the cutting planes ended.

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
    """

    coefficients: FloatArray
    objectives: list[float]
    mixture: FloatArray
    assignments: list[IntArray]
    alphas: FloatArray


class KeyInstanceProgramme:
    """The programme ``min over mixtures of max over a >= 0 of sum a - a (sum mu_t Q_t + D) a / 2``.

    Parameters
    ----------
    atoms : Atoms
        First the instances of positive bags, then one mean a positive bag, then the negative
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
        self.first_negative = int(offsets[-1]) + self.n_positive
        self.diagonal = atoms.diagonal(slice(0, int(offsets[-1])))
        self._matrix = self._empty_matrix()

    def solve(self, max_iter: int) -> KeySolution:
        """Add the most violated assignment until none lowers the optimum any more."""
        means = np.arange(self.offsets[-1], self.first_negative, dtype=np.int64)
        best = self._restricted([means], np.ones(1), np.zeros(len(self.ridge)))
        objectives = [best.objectives[0]]
        for _ in range(max_iter - 1):
            key = self._most_violated(best)
            if key is None:
                break
            share = 1.0 / (len(best.mixture) + 1)
            found = self._restricted(
                [*best.assignments, key],
                np.append(best.mixture * (1 - share), share),
                best.alphas,
            )
            gain = objectives[-1] - found.objectives[0]
            if gain <= 0:
                break
            best = found
            objectives.append(found.objectives[0])
            if gain <= self.tol * objectives[-1]:
                break
        else:
            if max_iter > 1:
                warnings.warn(
                    f"KI-SVM still gained after max_iter={max_iter} assignments; raise max_iter.",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        return KeySolution(
            best.coefficients, objectives, best.mixture, best.assignments, best.alphas
        )

    def _restricted(
        self, keys: list[IntArray], mixture: FloatArray, alphas: FloatArray
    ) -> KeySolution:
        """Optimum over the mixtures of given assignments."""
        negatives = np.arange(self.first_negative, self.atoms.n_atoms)
        pairs = [(self.atoms.block(key, key), self.atoms.block(key, negatives)) for key in keys]
        alphas, mixture, objective = _mix(
            self._matrix, pairs, self.ridge, mixture, alphas, self.tol / 10
        )
        coefficients = self._coefficients(keys, mixture, alphas)
        return KeySolution(coefficients, [objective], mixture, keys, alphas)

    def _empty_matrix(self) -> FloatArray:
        """The matrix of the dual; the part of the negative rows is the same in all rounds."""
        n_rows, start = len(self.ridge), self.n_positive
        matrix = np.zeros((n_rows, n_rows))
        negatives = np.arange(self.first_negative, self.atoms.n_atoms)
        for first in range(0, len(negatives), _BLOCK_ROWS):
            some = slice(first, first + _BLOCK_ROWS)
            matrix[start:, start:][some] = self.atoms.block(negatives[some], negatives)
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

    def scores(self, coefficients: FloatArray) -> FloatArray:
        """Decision value of every atom."""
        support = np.flatnonzero(coefficients)
        scores = np.zeros(self.atoms.n_atoms)
        for start in range(0, len(support), _BLOCK_ROWS):
            some = support[start : start + _BLOCK_ROWS]
            scores += coefficients[some] @ self.atoms.rows(some)
        return scores

    def _most_violated(self, solution: KeySolution) -> IntArray | None:
        """Instances with the largest ``a Q a`` found, None if the search meets only known ones.

        The search climbs from the highest- and from the lowest-scored instances (a quadratic
        form grows in both directions) and from the assignments found last.
        """
        n_instances = int(self.offsets[-1])
        alphas = solution.alphas[: self.n_positive]
        fixed = self._coefficients([], np.empty(0), solution.alphas)
        by_negatives = self.scores(fixed)[:n_instances]
        scores = self.scores(solution.coefficients)[:n_instances]
        starts = [
            segment_argmax(scores, self.offsets),
            segment_argmin(scores, self.offsets),
            *solution.assignments[1:][-_MORE_STARTS:],
        ]
        known = {key.tobytes() for key in solution.assignments}
        found: IntArray | None = None
        largest = -np.inf
        for start in starts:
            key, value = self._climb(start.copy(), alphas, by_negatives)
            if value > largest and key.tobytes() not in known:
                found, largest = key, value
        return found

    def _climb(
        self, key: IntArray, alphas: FloatArray, by_negatives: FloatArray
    ) -> tuple[IntArray, float]:
        """Exchange one bag's instance at a time until none raises ``a Q a``."""
        n_instances, offsets = int(self.offsets[-1]), self.offsets
        pull = alphas @ self.atoms.rows(key)[:, :n_instances] + by_negatives
        for _ in range(_MAX_SWEEPS):
            changed = False
            for bag in np.flatnonzero(alphas):
                inside = slice(int(offsets[bag]), int(offsets[bag + 1]))
                if inside.stop - inside.start == 1:
                    continue
                own = self.atoms.rows(key[[bag]])[0, :n_instances]
                others = pull[inside] - alphas[bag] * own[inside]
                value = 2 * others + alphas[bag] * self.diagonal[inside]
                chosen = int(np.argmax(value))
                least = value[key[bag] - inside.start]
                if value[chosen] > least + 1e-12 * max(1.0, abs(least)):
                    key[bag] = inside.start + chosen
                    new = self.atoms.rows(key[[bag]])[0, :n_instances]
                    pull += alphas[bag] * (new - own)
                    changed = True
            if not changed:
                break
        # The part of the negative rows alone is the same for all assignments.
        return key, float(alphas @ (pull[key] + by_negatives[key]))


def _mix(
    matrix: FloatArray,
    pairs: list[tuple[FloatArray, FloatArray]],
    ridge: FloatArray,
    mixture: FloatArray,
    alphas: FloatArray,
    tol: float,
) -> tuple[FloatArray, FloatArray, float]:
    """Best mixture of kernel matrices for an SVM with squared hinge loss.

    Alternates the SVM under a mixture with the mixture in closed form,
    ``mu_t = |w_t| / sum of |w|``: neither step raises the objective. Ends at a duality gap.
    ``pairs`` holds the kernel among the positive rows, and between them and the negative rows,
    under each assignment; ``matrix`` is overwritten there.
    """
    from pigmil.estimators.nonnegative_qp_kernels import solve_nonnegative_qp

    n_positive = len(pairs[0][0])
    for _ in range(_MAX_WEIGHT_STEPS):
        among = np.tensordot(mixture, [pair[0] for pair in pairs], axes=1)
        across = np.tensordot(mixture, [pair[1] for pair in pairs], axes=1)
        matrix[:n_positive, :n_positive] = among + np.diag(ridge[:n_positive])
        matrix[:n_positive, n_positive:] = -across
        matrix[n_positive:, :n_positive] = -across.T
        alphas, _ = solve_nonnegative_qp(matrix, alphas, tol, _QP_STEPS_PER_ROW * len(ridge))
        up, down = alphas[:n_positive], alphas[n_positive:]
        same = down @ (matrix[n_positive:, n_positive:] @ down) - down @ (ridge[n_positive:] * down)
        norms = np.array([up @ one @ up - 2 * up @ other @ down + same for one, other in pairs])
        norms = np.maximum(norms, 0.0)
        mixed = float(mixture @ norms)
        objective = float(alphas.sum() - (mixed + alphas @ (ridge * alphas)) / 2)
        if (norms.max() - mixed) / 2 <= tol * objective:
            break
        mixture = mixture * np.sqrt(norms)
        mixture = mixture / mixture.sum()
    return alphas, mixture, objective
