"""Kernel SVMs over instances that are trained repeatedly while labels change."""

import warnings
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit, squared_distance_blocks
from pigmil.estimators._svm_solvers import fit_gram_svm, for_libsvm
from pigmil.estimators.base import MaxInstanceClassifier

# Above this many instances kernel rows are not kept (7000 of 7000 values are 200 MB).
_KEEP_INSTANCES = 7000
_DOUBLE_INSTANCES = 2000  # up to here rows are kept in double precision
_MOST_ROWS = 15000  # that libsvm trains on; of more it sees some of each class
_MOST_OF_A_CLASS = 2500
_SUM_ROWS = 64
_MAX_STEPS = 1_000_000  # of libsvm; scikit-learn warns when they do not suffice
_START_ROWS = 400
_NEAR = 0.5  # rows with a margin below 1.5 in one training belong to the first set of the next
_CACHE_MB = 300

Signs = NDArray[np.int8]


def kernel_width(
    instances: Any,
    kernel: str,
    gamma: float,
    unit: str | float,
    weights: FloatArray | None = None,
) -> float | None:
    """Return ``gamma`` per squared distance, given per squared unit of length; None if linear."""
    if kernel != "rbf":
        return None
    return gamma / length_unit(instances, unit, weights=weights) ** 2


def kernel_values(
    queries: Any, references: Any, gamma: float | None, dtype: Any = np.float64
) -> FloatArray:
    """Return the linear (``gamma`` None) or Gaussian kernel, ``exp(-gamma |x - x'|^2)``.

    Parameters
    ----------
    queries, references : array or CSR of shape (n, n_features)
        Instances.
    gamma : float or None
        Width, per squared distance; None for the linear kernel.
    dtype : dtype, default=float64
        Of the result.

    Returns
    -------
    array of shape (n_queries, n_references)

    Examples
    --------
    >>> import numpy as np
    >>> kernel_values(np.array([[1.0]]), np.array([[1.0], [3.0]]), None)
    array([[1., 3.]])
    """
    if gamma is None:
        product = queries @ references.T
        dense = product.toarray() if sp.issparse(product) else product
        return np.asarray(dense, dtype=dtype)
    values = np.empty((queries.shape[0], references.shape[0]), dtype=dtype)
    for rows, columns, squared in squared_distance_blocks(queries, references):
        squared *= -gamma
        values[rows, columns] = np.exp(squared, out=squared)
    return values


def kernel_scores(
    queries: Any, support: Any, signed: FloatArray, intercept: float, gamma: float | None
) -> FloatArray:
    """Return ``sum of signed_i k(x_i, x) + intercept`` for every query, in blocks."""
    if gamma is None:
        return np.asarray(queries @ (support.T @ signed), dtype=np.float64) + intercept
    scores = np.full(queries.shape[0], intercept)
    for rows, columns, squared in squared_distance_blocks(queries, support):
        squared *= -gamma
        scores[rows] += np.exp(squared, out=squared) @ signed[columns]
    return scores


class InstanceSVM:
    """An SVM that is trained many times on the same instances with other labels.

    Each training uses a small working set of instances, at first evenly spaced ones, later the
    support vectors of the last training and, if they are not too many, the instances near their
    margin. Instances that violate their margin are added until there are none; the solution is
    then that of all instances. Kernel rows are computed once and cached, in single precision (as in
    libsvm) if there are many.

    Above 7000 instances libsvm gets all rows and uses its own cache. Training on more than 15000
    instances takes minutes: then at most 2500 evenly spaced ones of each class are used, with a
    cost that keeps the weight of their class.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        All instances that may take part.
    gamma : float or None
        Width of the Gaussian kernel, None for the linear one.
    C, costs, tol
        As in :func:`pigmil.estimators._svm_solvers.fit_linear_svm`.
    weights : array of shape (n_instances,), optional
        Further factors on the cost of each instance.
    """

    def __init__(
        self,
        instances: Any,
        *,
        gamma: float | None,
        C: float,
        tol: float = 1e-3,
        weights: FloatArray | None = None,
    ) -> None:
        self.instances = instances
        self.weights = np.ones(instances.shape[0]) if weights is None else weights
        self.gamma = gamma
        self.C = C
        self.tol = tol
        n_instances = instances.shape[0]
        self.signed = np.zeros(n_instances)
        self.intercept = 0.0
        # The linear kernel is unbounded: a large common offset would hide the differences.
        single = gamma is not None and n_instances > _DOUBLE_INSTANCES
        self._slot = np.full(n_instances, -1, dtype=np.int64)
        self._kept = np.empty((0, n_instances), dtype=np.float32 if single else np.float64)
        self._n_kept = 0
        self._active = np.empty(0, dtype=np.int64)
        self._last_scores: FloatArray | None = None

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
        if len(signs) > _KEEP_INSTANCES:
            return self._fit_some(signs, costs)
        active = self._first_active(signs)
        if self._last_scores is not None:
            # Where most rows are support vectors, rows near their margin are soon violated: without
            # them every training would be solved twice.
            near = np.flatnonzero((signs != 0) & (signs * self._last_scores < 1 + _NEAR))
            if len(near) < 2 * len(self._active):
                active = np.union1d(active, near)
        while True:
            self._keep(active)
            part, self.intercept = fit_gram_svm(
                self._kept[np.ix_(self._slot[active], active)],
                signs[active] > 0,
                C=self.C,
                costs=costs,
                weights=self.weights[active],
                tol=self.tol,
            )
            scores = self._decide(active, part)
            lacking = np.where(signs == 0, 0.0, 1 - self.tol - signs * scores)
            lacking[active] = 0.0
            entering = np.flatnonzero(lacking > 0)
            if entering.size == 0:
                break
            most = max(_START_ROWS // 2, len(active))
            order = np.argsort(-lacking[entering], kind="stable")
            active = np.concatenate([active, entering[order[:most]]])
        self._active = active[part != 0]
        self._last_scores = scores
        self.signed = np.zeros(len(signs))
        self.signed[active] = part
        return scores

    def _first_active(self, signs: Signs) -> IntArray:
        """Return the support vectors of the last training, and some instances of each class."""
        spread = [
            rows[:: max(1, len(rows) // (_START_ROWS // 2 if self._active.size == 0 else 20))]
            for rows in (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
        ]
        return np.unique(np.concatenate([self._active[signs[self._active] != 0], *spread]))

    def _keep(self, wanted: IntArray) -> None:
        """Compute the kernel between the wanted instances and all, where it is not yet known."""
        new = wanted[self._slot[wanted] < 0]
        room = self._n_kept + len(new)
        if room > len(self._kept):
            n_rows = min(max(room, 2 * len(self._kept)), len(self._slot))
            grown = np.empty((n_rows, len(self._slot)), dtype=self._kept.dtype)
            grown[: self._n_kept] = self._kept[: self._n_kept]
            self._kept = grown
        if new.size:
            self._kept[self._n_kept : room] = kernel_values(
                self.instances[new], self.instances, self.gamma, self._kept.dtype
            )
            self._slot[new] = np.arange(self._n_kept, room)
            self._n_kept = room

    def _decide(self, active: IntArray, part: FloatArray) -> FloatArray:
        """Return the decision value of every instance, from stored kernel rows where possible."""
        weights = np.zeros(self._n_kept)
        weights[self._slot[active]] = part
        scores = np.full(len(self._slot), self.intercept)
        for start in range(0, self._n_kept, _SUM_ROWS):
            rows = slice(start, min(start + _SUM_ROWS, self._n_kept))
            if weights[rows].any():
                scores += weights[rows] @ self._kept[rows].astype(np.float64, copy=False)
        return scores

    def _fit_some(self, signs: Signs, costs: tuple[float, float]) -> FloatArray:
        rows, shares = np.flatnonzero(signs), (1.0, 1.0)
        if len(rows) > _MOST_ROWS:
            negatives, shares_of_negatives = spread_evenly(np.flatnonzero(signs < 0))
            positives, shares_of_positives = spread_evenly(np.flatnonzero(signs > 0))
            rows = np.concatenate([negatives, positives])
            shares = shares_of_negatives, shares_of_positives
        svc = SVC(
            kernel="linear" if self.gamma is None else "rbf",
            gamma="scale" if self.gamma is None else self.gamma,
            C=self.C,
            class_weight={-1: costs[0] * shares[0], 1: costs[1] * shares[1]},
            tol=self.tol,
            cache_size=_CACHE_MB,
            max_iter=_MAX_STEPS,
        ).fit(for_libsvm(self.instances[rows]), signs[rows], sample_weight=self.weights[rows])
        dual = svc.dual_coef_.toarray() if sp.issparse(svc.dual_coef_) else svc.dual_coef_
        self.signed = np.zeros(len(signs))
        self.signed[rows[svc.support_]] = dual.ravel()
        self.intercept = float(svc.intercept_[0])
        support = np.flatnonzero(self.signed)
        return kernel_scores(
            self.instances, self.instances[support], self.signed[support], self.intercept,
            self.gamma,
        )  # fmt: skip

    def objective(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        """Return ``|w|^2 / 2 + C sum of cost_i hinge_i`` at the solution of the last training."""
        norm = self.signed @ (scores - self.intercept)
        factors = self.weights * np.where(signs > 0, costs[1], costs[0])
        hinge = np.maximum(0.0, 1.0 - signs * scores) * factors
        return float(norm / 2 + self.C * hinge[signs != 0].sum())


class KernelInstanceClassifier(MaxInstanceClassifier):
    """Base class of mi-SVM, MI-SVM and KI-SVM: scores are kernel sums over support instances."""

    _accepts_sparse = True
    kernel: str
    gamma: float
    length_unit: str | float
    support_instances_: Any
    dual_coef_: FloatArray
    intercept_: float
    kernel_width_: float | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": [StrOptions({"rbf", "linear"})],
    }

    def _set_kernel_width(self, instances: Any, weights: FloatArray | None = None) -> None:
        self.kernel_width_ = kernel_width(
            instances, self.kernel, self.gamma, self.length_unit, weights
        )

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


class SharedSlackSVM(InstanceSVM):
    """An SVM in which the negative instances of a bag share one slack.

    Minimises ``|w|^2 / 2 + C sum over positive rows of cost_1 hinge_i + C sum over bags of cost_0
    max over its negative rows of hinge_i``. The dual is that of an SVM with the dual variables of
    the negative rows of a bag capped by ``C`` together.

    Parameters
    ----------
    instances, gamma, C, tol, weights
        As in :class:`InstanceSVM`; rows of a bag have the same weight.
    owner : array of int of shape (n_rows,)
        Bag of every row.
    """

    def __init__(
        self,
        instances: Any,
        owner: IntArray,
        *,
        gamma: float | None,
        C: float,
        tol: float = 1e-3,
        weights: FloatArray | None = None,
    ) -> None:
        super().__init__(instances, gamma=gamma, C=C, tol=tol, weights=weights)
        self.owner = owner
        self._bag_weights = np.zeros(owner.max() + 1)
        self._bag_weights[owner] = self.weights

    def fit(self, signs: Signs, costs: tuple[float, float] = (1.0, 1.0)) -> FloatArray:
        """Train and return the decision value of every row; see :meth:`InstanceSVM.fit`.

        Rows enter a working set when their violation exceeds the slack of their bag: at first the
        positive rows and some negative ones, then the worst row of every bag.
        """
        from pigmil.estimators._shared_slack_kernels import solve_shared_slack

        active = np.unique(np.concatenate([np.flatnonzero(signs > 0), self._first_active(signs)]))
        alphas = np.zeros(len(signs))
        while True:
            sign = signs[active].astype(np.float64)
            # Every positive row is a separate group.
            labels = np.where(sign > 0, self.owner.max() + 1 + active, self.owner[active])
            groups, first_row, group = np.unique(labels, return_index=True, return_inverse=True)
            caps = self.C * np.where(groups > self.owner.max(), costs[1], costs[0])
            caps *= self.weights[active[first_row]]
            part, _, self.intercept, violation = solve_shared_slack(
                self._gram(active), sign, group, caps, alphas[active], self.tol, _MAX_STEPS
            )
            if violation > self.tol:
                warnings.warn(
                    "The SVM of a round ran out of steps before its tolerance; lower C or raise "
                    "tol.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
            alphas[:] = 0.0
            alphas[active] = part
            self.signed = alphas * signs
            scores = self._scores(active)
            slacks = self._slacks(scores, signs, active)
            lacking = np.where(signs < 0, 1.0 + scores - slacks[self.owner] - self.tol, 0.0)
            lacking[active] = 0.0
            entering = np.flatnonzero(lacking > 0)
            if entering.size == 0:
                break
            # The worst row of every bag, which alone can raise its slack.
            order = entering[np.lexsort((-lacking[entering], self.owner[entering]))]
            first = np.unique(self.owner[order], return_index=True)[1]
            active = np.concatenate([active, order[first]])
        self._active = np.flatnonzero(self.signed)
        return scores

    def _gram(self, active: IntArray) -> FloatArray:
        if len(self.signed) > _KEEP_INSTANCES:
            rows = self.instances[active]
            return kernel_values(rows, rows, self.gamma)
        self._keep(active)
        return self._kept[np.ix_(self._slot[active], active)].astype(np.float64, copy=False)

    def _scores(self, active: IntArray) -> FloatArray:
        if len(self.signed) <= _KEEP_INSTANCES:
            return self._decide(active, self.signed[active])
        support = np.flatnonzero(self.signed)
        return kernel_scores(
            self.instances,
            self.instances[support],
            self.signed[support],
            self.intercept,
            self.gamma,
        )

    def _slacks(self, scores: FloatArray, signs: Signs, rows: IntArray) -> FloatArray:
        """Return the slack of every bag over the given negative rows."""
        negatives = rows[signs[rows] < 0]
        slacks = np.zeros(self.owner.max() + 1)
        np.maximum.at(slacks, self.owner[negatives], 1.0 + scores[negatives])
        return slacks

    def objective(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        """Return the value that :meth:`fit` minimises."""
        norm = self.signed @ (scores - self.intercept)
        slacks = self._slacks(scores, signs, np.arange(len(signs)))
        hinge = self.weights[signs > 0] @ np.maximum(0.0, 1.0 - scores[signs > 0])
        slack = self._bag_weights @ slacks
        return float(norm / 2 + self.C * (costs[1] * hinge + costs[0] * slack))


def spread_evenly(rows: IntArray) -> tuple[IntArray, float]:
    """Return at most 2500 evenly spaced rows, and the number of rows that each represents.

    Examples
    --------
    >>> import numpy as np
    >>> rows, share = spread_evenly(np.arange(10000))
    >>> len(rows), share
    (2500, 4.0)
    """
    if len(rows) <= _MOST_OF_A_CLASS:
        return rows, 1.0
    places = np.arange(_MOST_OF_A_CLASS) * len(rows) // _MOST_OF_A_CLASS
    return rows[places], len(rows) / _MOST_OF_A_CLASS
