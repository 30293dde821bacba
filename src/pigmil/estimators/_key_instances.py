"""KI-SVM's convex programme: cutting planes over key-instance assignments, solved by MKL.

An *atom* is a point of the feature space that may represent a bag: an instance, or the mean of
the instances of a bag. An assignment gives every positive bag one atom and defines, with the rows
of the negative bags, a kernel matrix. The programme mixes these matrices.
"""

import itertools
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import segment_argmax, segment_argmin
from pigmil._core.typing import FloatArray, IntArray
from pigmil.estimators._svm_solvers import kernel_values

_KEEP_VALUES = 50_000_000  # of the kernel between all atoms, 400 MB; else they are computed again
_ROUNDING = 1e-12
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
    """

    def __init__(self, instances: Any, combination: Any, gamma: float | None) -> None:
        self.instances = instances
        self.combination = combination
        self.gamma = gamma
        self.n_atoms = int(combination.shape[0])
        self._whole: FloatArray | None = None
        if self.n_atoms**2 <= _KEEP_VALUES:
            every = np.arange(self.n_atoms)
            self._whole = np.empty((self.n_atoms, self.n_atoms))
            for some in _blocks(every):
                self._whole[some] = self._compute(some, every)

    def block(self, atoms: IntArray, others: IntArray) -> FloatArray:
        """Return the kernel between the given atoms and the others."""
        if self._whole is None:
            return self._compute(atoms, others)
        return self._whole[np.ix_(atoms, others)]

    def _compute(self, atoms: IntArray, others: IntArray) -> FloatArray:
        values = np.ones((len(atoms), len(others)))
        part, rest = self.combination[atoms], self.combination[others]
        reached = np.unique(rest.indices)
        transposed = sp.csc_array(rest[:, reached].T)
        for some in _blocks(np.unique(part.indices)):
            block = kernel_values(self.instances[some], self.instances[reached], self.gamma)
            values += part[:, some] @ (block @ transposed)
        return values


def _blocks(rows: IntArray) -> list[IntArray]:
    """Return the rows in blocks, so that few kernel values are held at a time."""
    return np.split(rows, np.arange(_BLOCK_ROWS, len(rows), _BLOCK_ROWS))


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
        self.inside = np.arange(int(offsets[-1]))
        self.first_negative = len(self.inside) + self.n_positive
        self.negatives = np.arange(self.first_negative, atoms.n_atoms)
        # Per positive bag the kernel among its instances.
        self._within = [
            atoms.block(self.inside[start:stop], self.inside[start:stop])
            for start, stop in itertools.pairwise(offsets)
        ]
        # Per assignment: the atom of every positive bag, and the kernel among these atoms, of
        # shape (n_positive, n_positive), and with the negative rows.
        self.assignments: list[IntArray] = []
        self._among: list[FloatArray] = []
        self._across: list[FloatArray] = []
        self._matrix = self._empty_matrix()

    def solve(self, max_iter: int) -> tuple[FloatArray, list[float], FloatArray]:
        """Add the most violated assignment until it lowers the optimum by less than ``tol``.

        There are at least five rounds if assignments help; at most ``max_iter`` assignments.

        Returns
        -------
        coefficients : array of shape (n_atoms,)
            The decision value of x is ``sum of coefficient_a (k(a, x) + 1)``.
        objectives : list of float
            Optimum of the restricted programme in every round; it never rises.
        mixture : array
            Weight of every assignment.
        """
        self._add(np.arange(len(self.inside), self.first_negative))
        alphas, mixture, objective, settled = self._mix(np.ones(1), np.zeros(len(self.ridge)))
        objectives = [objective]
        for _ in range(max_iter - 1):
            key = self._most_violated(mixture, alphas)
            if key is None:
                break
            self._add(key)
            share = 1.0 / (len(mixture) + 1)
            start = np.append(mixture * (1 - share), share)
            new_alphas, new_mixture, objective, is_settled = self._mix(start, alphas)
            settled = settled and is_settled
            gain = objectives[-1] - objective
            if gain > 0:
                alphas, mixture = new_alphas, new_mixture
            elif len(objectives) < _MIN_ROUNDS:
                # Within the tolerance of the mixture: keep the optimum, search another assignment.
                mixture = np.append(mixture, 0.0)
            else:
                break
            objectives.append(min(objectives[-1], objective))
            if gain <= self.tol * objectives[-1] and len(objectives) >= _MIN_ROUNDS:
                break
        else:
            if max_iter > 1:
                _warn(f"KI-SVM still gained after max_iter={max_iter} assignments; raise max_iter.")
        if not settled:
            _warn(
                "A restricted problem of KI-SVM ran out of steps before its tolerance; lower C or "
                "raise tol."
            )
        return self._coefficients(mixture, alphas), objectives, mixture

    def _add(self, key: IntArray) -> None:
        self.assignments.append(key)
        self._among.append(self.atoms.block(key, key))
        self._across.append(self.atoms.block(key, self.negatives))

    def _mix(
        self, mixture: FloatArray, alphas: FloatArray
    ) -> tuple[FloatArray, FloatArray, float, bool]:
        """Return the optimum over the mixtures of all assignments, as :func:`mix_kernels` does."""
        parts = self._matrix, self._among, self._across, self.ridge
        return mix_kernels(*parts, mixture, alphas, self.tol / 10)

    def _empty_matrix(self) -> FloatArray:
        """Return the matrix of the dual; its block of negative rows is the same in all rounds."""
        matrix = np.zeros((len(self.ridge), len(self.ridge)))
        for some in _blocks(np.arange(len(self.negatives))):
            values = self.atoms.block(self.negatives[some], self.negatives)
            matrix[self.n_positive + some, self.n_positive :] = values
        matrix.flat[:: len(matrix) + 1] += self.ridge
        return matrix

    def _coefficients(self, mixture: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the weight of every atom; an assignment beyond the mixture has none."""
        coefficients = np.zeros(self.atoms.n_atoms)
        for weight, key in zip(mixture, self.assignments, strict=False):
            np.add.at(coefficients, key, weight * alphas[: self.n_positive])
        coefficients[self.first_negative :] = -alphas[self.n_positive :]
        return coefficients

    def _pull(self, atoms: IntArray, weights: FloatArray) -> FloatArray:
        """Return what weighted atoms add to the values of the instances of positive bags."""
        blocks = _blocks(np.arange(len(atoms)))
        pulls = [weights[some] @ self.atoms.block(atoms[some], self.inside) for some in blocks]
        return np.sum(pulls, axis=0)

    def _most_violated(self, mixture: FloatArray, alphas: FloatArray) -> IntArray | None:
        """Return the instances with the largest ``a Q a``, or None if only known ones are found.

        The search climbs from the highest- and from the lowest-scored instances (a quadratic
        form grows in both directions) and from the assignments found last.
        """
        by_negatives = self._pull(self.negatives, -alphas[self.n_positive :])
        weights = self._coefficients(mixture, alphas)[: self.first_negative]
        used = np.flatnonzero(np.abs(weights) > 1e-9 * np.abs(weights).max())
        scores = by_negatives + self._pull(used, weights[used])
        starts = [
            segment_argmax(scores, self.offsets),
            segment_argmin(scores, self.offsets),
            *self.assignments[1:][-_MORE_STARTS:],
        ]
        best_key: IntArray | None = None
        largest = -np.inf
        for start in starts:
            key, value = self._climb(start.copy(), alphas[: self.n_positive], by_negatives)
            is_known = any(np.array_equal(key, known) for known in self.assignments)
            if value > largest and not is_known:
                best_key, largest = key, value
        return best_key

    def _climb(
        self, key: IntArray, alphas: FloatArray, by_negatives: FloatArray
    ) -> tuple[IntArray, float]:
        """Exchange one bag's instance at a time until none raises ``a Q a``."""
        pull = self._pull(key, alphas) + by_negatives
        several = np.flatnonzero((alphas != 0) & (np.diff(self.offsets) > 1))
        for _ in range(_MAX_SWEEPS):
            changed = False
            for bag in several:
                first = int(self.offsets[bag])
                kernel, now = self._within[bag], key[bag] - first
                others = pull[first : first + len(kernel)] - alphas[bag] * kernel[now]
                value = 2 * others + alphas[bag] * kernel.diagonal()
                chosen = int(np.argmax(value))
                least = value[now]
                # The gain must exceed rounding errors, or the search may cycle.
                if value[chosen] > least + _ROUNDING * max(1.0, abs(least)):
                    rows = self.atoms.block(np.array([key[bag], first + chosen]), self.inside)
                    key[bag] = first + chosen
                    pull += alphas[bag] * (rows[1] - rows[0])
                    changed = True
            if not changed:
                break
        # The part of the negative rows alone is the same for all assignments.
        return key, float(alphas @ (pull[key] + by_negatives[key]))


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=4)


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
    # The part of the negative rows in their own gradient.
    fixed = matrix[n_positive:, n_positive:] @ alphas[n_positive:]
    reached = np.inf
    for step in range(_MAX_WEIGHT_STEPS):
        up, down = alphas[:n_positive], alphas[n_positive:]
        mixed_among = np.tensordot(mixture, among, axes=1)
        mixed_among.flat[:: n_positive + 1] += ridge[:n_positive]
        mixed_across = np.tensordot(mixture, across, axes=1)
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
