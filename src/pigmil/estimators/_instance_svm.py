"""Kernel SVMs over instances that are trained again while labels change: mi-SVM and MI-SVM."""

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import offsets_of
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.estimators._parameters import with_parameters
from pigmil.estimators._svm_solvers import fit_gram_svm, kernel_scores, kernel_values
from pigmil.estimators.base import MaxInstanceClassifier

# Above this many instances kernel rows are not kept (7000 of 7000 values are 400 MB).
_KEEP_INSTANCES = 7000
_MOST_OF_A_CLASS = 2500  # that are then trained on
_SUM_ROWS = 64
_MAX_STEPS = 1_000_000
_START_ROWS = 400
_NEAR = 0.5  # rows with a margin below 1.5 in one training belong to the first set of the next

Signs = NDArray[np.int8]


class InstanceSVM:
    """An SVM that is trained many times on the same instances with other labels.

    Each training uses a small working set of instances, at first evenly spaced ones, later the
    support vectors of the last training and, if they are not too many, the instances near their
    margin. Instances that violate their margin are added until there are none; the solution is
    then that of all instances. Kernel rows are computed once and cached.

    Training on many instances takes minutes: above 7000 at most 2500 evenly spaced ones of each
    class are used, with a cost that keeps the weight of their class.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        All instances that may take part.
    gamma : float or None
        Width of the Gaussian kernel, None for the linear one.
    C, tol
        As in :func:`pigmil.estimators._svm_solvers.fit_linear_svm`.
    weights : array of shape (n_instances,), optional
        Further factors on the cost of each instance.
    """

    _shares_slack: ClassVar[bool] = False  # whether several rows may have one slack

    def __init__(
        self,
        instances: Any,
        *,
        gamma: float | None,
        C: float,
        tol: float = 1e-3,
        weights: FloatArray | None = None,
    ) -> None:
        n_instances = instances.shape[0]
        self.instances = instances
        self.weights = np.ones(n_instances) if weights is None else weights
        self.gamma = gamma
        self.C = C
        self.tol = tol
        self.signed = np.zeros(n_instances)
        self.intercept = 0.0
        self._active = np.empty(0, dtype=np.int64)
        self._last_scores: FloatArray | None = None
        self._keeps = n_instances <= _KEEP_INSTANCES
        # Kernel of an instance with all, and whether that row is computed: only rows that are
        # written take memory.
        self._kept = np.empty((n_instances, n_instances) if self._keeps else (0, 0))
        self._known = np.zeros(n_instances, dtype=bool)

    def fit(self, signs: Signs, costs: tuple[float, float] = (1.0, 1.0)) -> FloatArray:
        """Train and return the decision value of every instance.

        Parameters
        ----------
        signs : array of int8 of shape (n_instances,)
            1 positive, -1 negative, 0 not trained on.
        costs : (float, float)
            Factors on ``C`` of the negative and the positive class.

        Returns
        -------
        array of shape (n_instances,)
            Of all instances, including those that were not trained on.
        """
        if not (self._keeps or self._shares_slack):
            signs, costs = self._thinned(signs, costs)
        active = self._first_active(signs)
        part = np.zeros(len(active))  # signed dual variables of the active instances
        while True:
            part = self._solve(active, part, signs, costs)
            scores = self._decide(active, part)
            lacking = self._violations(scores, signs, active)
            lacking[active] = 0.0
            violated = np.flatnonzero(lacking > 0)
            if violated.size == 0:
                break
            entering = self._entering(violated, lacking[violated], len(active))
            active = np.concatenate([active, entering])
            part = np.concatenate([part, np.zeros(len(entering))])
        self._active = active[part != 0]
        self._last_scores = scores
        return scores

    def objective(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        """Return the value that :meth:`fit` minimises, at the solution of the last training."""
        norm = self.signed @ (scores - self.intercept)
        return float(norm / 2 + self.C * self._loss(scores, signs, costs))

    def _solve(
        self, active: IntArray, part: FloatArray, signs: Signs, costs: tuple[float, float]
    ) -> FloatArray:
        """Train on the active instances from ``part``; set the intercept, return the new part."""
        part, self.intercept = fit_gram_svm(
            self._gram(active),
            signs[active] > 0,
            C=self.C,
            costs=costs,
            weights=self.weights[active],
            tol=self.tol,
        )
        return part

    def _violations(self, scores: FloatArray, signs: Signs, active: IntArray) -> FloatArray:
        """Return by how much every instance violates its margin, beyond the tolerance."""
        return np.where(signs == 0, 0.0, 1 - self.tol - signs * scores)

    def _entering(self, violated: IntArray, lacking: FloatArray, n_active: int) -> IntArray:
        """Return the violated instances to add; ``lacking`` says by how much they are violated."""
        most = max(_START_ROWS // 2, n_active)
        return violated[np.argsort(-lacking, kind="stable")[:most]]

    def _loss(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        """Return the sum of the slacks, weighted by their costs."""
        factors = self.weights * np.where(signs > 0, costs[1], costs[0])
        hinge = np.maximum(0.0, 1.0 - signs * scores) * factors
        return float(hinge[signs != 0].sum())

    def _thinned(
        self, signs: Signs, costs: tuple[float, float]
    ) -> tuple[Signs, tuple[float, float]]:
        """Keep some evenly spaced rows of each class, and return costs with the weight of all."""
        kept, factors = np.zeros_like(signs), []
        for sign, cost in zip((-1, 1), costs, strict=True):
            rows = np.flatnonzero(signs == sign)
            n_kept = min(len(rows), _MOST_OF_A_CLASS)
            kept[rows[np.arange(n_kept) * len(rows) // n_kept]] = sign
            factors.append(cost * len(rows) / n_kept)
        return kept, (factors[0], factors[1])

    def _first_active(self, signs: Signs) -> IntArray:
        """Return the support vectors of the last training, and some instances of each class."""
        spread = [
            rows[:: max(1, len(rows) // (_START_ROWS // 2 if self._active.size == 0 else 20))]
            for rows in (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
        ]
        active = np.unique(np.concatenate([self._active[signs[self._active] != 0], *spread]))
        if self._last_scores is not None and not self._shares_slack:
            # Where most rows are support vectors, rows near their margin are soon violated: without
            # them every training would be solved twice.
            near = np.flatnonzero((signs != 0) & (signs * self._last_scores < 1 + _NEAR))
            if len(near) < 2 * len(self._active):
                active = np.union1d(active, near)
        return active

    def _gram(self, active: IntArray) -> FloatArray:
        """Return the kernel among the active instances."""
        if not self._keeps:
            return kernel_values(self.instances[active], self.instances[active], self.gamma)
        new = active[~self._known[active]]
        if new.size:
            self._kept[new] = kernel_values(self.instances[new], self.instances, self.gamma)
            self._known[new] = True
        return self._kept[np.ix_(active, active)]

    def _decide(self, active: IntArray, part: FloatArray) -> FloatArray:
        """Store ``part`` as weights of the active instances; return all decision values."""
        self.signed = np.zeros(self.instances.shape[0])
        self.signed[active] = part
        support = np.flatnonzero(self.signed)
        signed = self.signed[support]
        if not self._keeps:
            return kernel_scores(
                self.instances, self.instances[support], signed, self.intercept, self.gamma
            )
        scores = np.full(len(self.signed), self.intercept)
        for start in range(0, len(support), _SUM_ROWS):
            some = slice(start, start + _SUM_ROWS)
            scores += signed[some] @ self._kept[support[some]]
        return scores


class SharedSlackSVM(InstanceSVM):
    """An SVM in which the negative instances of a bag share one slack.

    Minimises ``|w|^2 / 2 + C sum over positive rows of cost_1 hinge_i + C sum over bags of cost_0
    max over its negative rows of hinge_i``. The dual is that of an SVM with the dual variables of
    the negative rows of a bag capped by ``C`` together. Rows enter a working set when their
    violation exceeds the slack of their bag: at first the positive rows and some negative ones,
    then the worst row of every bag.

    Parameters
    ----------
    instances, gamma, C, tol, weights
        As in :class:`InstanceSVM`; rows of a bag have the same weight.
    owner : array of int of shape (n_rows,)
        Bag of every row.
    """

    _shares_slack = True

    def __init__(self, instances: Any, owner: IntArray, **parameters: Any) -> None:
        super().__init__(instances, **parameters)
        self.owner = owner
        self.n_bags = int(owner.max()) + 1

    def _first_active(self, signs: Signs) -> IntArray:
        return np.union1d(np.flatnonzero(signs > 0), super()._first_active(signs))

    def _solve(
        self, active: IntArray, part: FloatArray, signs: Signs, costs: tuple[float, float]
    ) -> FloatArray:
        from pigmil.estimators._kernels import solve_shared_slack

        sign = signs[active].astype(np.float64)
        # Every positive row is a separate group.
        labels = np.where(sign > 0, self.n_bags + active, self.owner[active])
        groups, first_row, group = np.unique(labels, return_index=True, return_inverse=True)
        caps = self.C * np.where(groups >= self.n_bags, costs[1], costs[0])
        caps *= self.weights[active[first_row]]
        alphas, self.intercept, violation = solve_shared_slack(
            self._gram(active), sign, group, caps, part * sign, self.tol, _MAX_STEPS
        )
        if violation > self.tol:
            warnings.warn(
                "The SVM of a round ran out of steps before its tolerance; lower C or raise tol.",
                ConvergenceWarning,
                stacklevel=5,
            )
        return np.asarray(alphas * sign)

    def _slacks(self, scores: FloatArray, signs: Signs, rows: IntArray) -> FloatArray:
        """Return the slack of every bag over the given negative rows."""
        negatives = rows[signs[rows] < 0]
        slacks = np.zeros(self.n_bags)
        np.maximum.at(slacks, self.owner[negatives], 1.0 + scores[negatives])
        return slacks

    def _violations(self, scores: FloatArray, signs: Signs, active: IntArray) -> FloatArray:
        slacks = self._slacks(scores, signs, active)
        return np.where(signs < 0, 1.0 + scores - slacks[self.owner] - self.tol, 0.0)

    def _entering(self, violated: IntArray, lacking: FloatArray, n_active: int) -> IntArray:
        # The worst row of every bag, which alone can raise its slack.
        order = violated[np.lexsort((-lacking, self.owner[violated]))]
        return order[np.unique(self.owner[order], return_index=True)[1]]

    def _loss(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        bag_weights = np.zeros(self.n_bags)
        bag_weights[self.owner] = self.weights
        slack = bag_weights @ self._slacks(scores, signs, np.arange(len(signs)))
        hinge = self.weights[signs > 0] @ np.maximum(0.0, 1.0 - scores[signs > 0])
        return float(costs[1] * hinge + costs[0] * slack)


def averages(rows: IntArray, sizes: IntArray, n_instances: int) -> Any:
    """Return one row per group of instances: the mean of the group as a combination."""
    weights = np.repeat(1.0 / sizes, sizes)
    return sp.csr_array((weights, rows, offsets_of(sizes)), shape=(len(sizes), n_instances))


@with_parameters
class KernelInstanceClassifier(MaxInstanceClassifier):
    """Base class of mi-SVM, MI-SVM and KI-SVM: scores are kernel sums over support instances."""

    kernel: str = "rbf"
    C: float = 10.0
    gamma: float = 0.5
    length_unit: str | float = "auto"
    class_weight: Any = None
    max_iter: int = 50
    tol: float = 1e-3

    _accepts_sparse = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {"kernel": [StrOptions({"rbf", "linear"})]}

    def _set_kernel_width(self, instances: Any, weights: FloatArray | None = None) -> None:
        """Set ``gamma`` per squared distance, given per squared unit of length; None if linear."""
        self.kernel_width_ = None
        if self.kernel == "rbf":
            unit = length_unit(instances, self.length_unit, weights=weights)
            self.kernel_width_ = self.gamma / unit**2

    def _set_support(self, instances: Any, weights: FloatArray, intercept: float) -> None:
        support = np.flatnonzero(weights)
        self.support_instances_ = instances[support]
        self.dual_coef_ = weights[support]
        self.intercept_ = intercept

    def _score_instances(self, bags: Bags) -> FloatArray:
        return kernel_scores(
            bags.instances,
            self.support_instances_,
            self.dual_coef_,
            self.intercept_,
            self.kernel_width_,
        )
