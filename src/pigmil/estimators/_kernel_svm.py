"""Kernel SVMs over instances, trained again and again while labels change."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.svm import SVC

from pigmil._core.segments import IntArray
from pigmil.distances import length_unit, squared_distance_blocks
from pigmil.estimators._linear_svm import fit_gram_svm, for_libsvm
from pigmil.estimators.base import FloatArray

# Above this many instances kernel rows are not kept (7000 of 7000 values are 400 MB).
_KEEP_INSTANCES = 7000
_START_ROWS = 400
_CACHE_MB = 300

Signs = NDArray[np.int8]


def kernel_width(instances: Any, kernel: str, gamma: float, unit: str | float) -> float | None:
    """``gamma`` per squared distance: given per squared unit of length; None if linear."""
    return gamma / length_unit(instances, unit) ** 2 if kernel == "rbf" else None


def kernel_values(queries: Any, references: Any, gamma: float | None) -> FloatArray:
    """Linear (``gamma`` None) or Gaussian kernel, ``exp(-gamma |x - x'|^2)``.

    Parameters
    ----------
    queries, references : array or CSR of shape (n, n_features)
        Instances.
    gamma : float or None
        Width, per squared distance; None for the linear kernel.

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
        return np.asarray(dense, dtype=np.float64)
    values = np.empty((queries.shape[0], references.shape[0]))
    for rows, columns, squared in squared_distance_blocks(queries, references):
        values[rows, columns] = np.exp(-gamma * squared)
    return values


def kernel_scores(
    queries: Any, support: Any, signed: FloatArray, intercept: float, gamma: float | None
) -> FloatArray:
    """Decision value of every query, in blocks: ``sum of signed_i k(x_i, x) + intercept``."""
    if gamma is None:
        return np.asarray(queries @ (support.T @ signed), dtype=np.float64) + intercept
    scores = np.full(queries.shape[0], intercept)
    for rows, columns, squared in squared_distance_blocks(queries, support):
        scores[rows] += np.exp(-gamma * squared) @ signed[columns]
    return scores


class RepeatedSVM:
    """An SVM that is trained many times on the same instances with other labels.

    Each training works on a small set of instances, at first spread evenly, later the support
    vectors of the training before, and takes in the instances that violate their margin until
    none does: then the solution is that of all instances. Kernel rows are computed once and
    kept. Above 7000 instances libsvm sees all of them and keeps what fits its cache.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features)
        All instances that may take part.
    gamma : float or None
        Width of the Gaussian kernel, None for the linear one.
    C, costs, tol
        As in :func:`pigmil.estimators._linear_svm.fit_linear_svm`.
    """

    def __init__(self, instances: Any, *, gamma: float | None, C: float, tol: float = 1e-3) -> None:
        self.instances = instances
        self.gamma = gamma
        self.C = C
        self.tol = tol
        n_instances = instances.shape[0]
        self.signed = np.zeros(n_instances)
        self.intercept = 0.0
        self._slot = np.full(n_instances, -1, dtype=np.int64)
        self._kept = np.empty((0, n_instances))
        self._n_kept = 0
        self._active = np.empty(0, dtype=np.int64)

    def fit(self, signs: Signs, costs: tuple[float, float] = (1.0, 1.0)) -> FloatArray:
        """Train and return the decision value of every instance.

        Parameters
        ----------
        signs : array of int8 of shape (n_instances,)
            1 positive, -1 negative, 0 takes no part.
        costs : (float, float)
            Factors on ``C`` of the negative and the positive class.

        Returns
        -------
        array of shape (n_instances,)
            Of all instances, those which took no part included.
        """
        if len(signs) > _KEEP_INSTANCES:
            return self._fit_directly(signs, costs)
        active = self._first_active(signs)
        while True:
            gram = self._rows(active)[:, active]
            part, self.intercept = fit_gram_svm(
                gram, signs[active] > 0, C=self.C, costs=costs, tol=self.tol
            )
            support = active[part != 0]
            scores = part[part != 0] @ self._rows(support) + self.intercept
            lacking = np.where(signs == 0, 0.0, 1 - self.tol - signs * scores)
            lacking[active] = 0.0
            entering = np.flatnonzero(lacking > 0)
            if entering.size == 0:
                break
            most = max(_START_ROWS // 2, len(active))
            order = np.argsort(-lacking[entering], kind="stable")
            active = np.concatenate([active, entering[order[:most]]])
        self._active = support
        self.signed = np.zeros(len(signs))
        self.signed[active] = part
        return np.asarray(scores)

    def _first_active(self, signs: Signs) -> IntArray:
        """Support vectors of the training before, and some of each class."""
        spread = [
            rows[:: max(1, len(rows) // (_START_ROWS // 2 if self._active.size == 0 else 20))]
            for rows in (np.flatnonzero(signs > 0), np.flatnonzero(signs < 0))
        ]
        return np.unique(np.concatenate([self._active[signs[self._active] != 0], *spread]))

    def _rows(self, wanted: IntArray) -> FloatArray:
        """Kernel between the wanted instances and all."""
        new = wanted[self._slot[wanted] < 0]
        if new.size:
            room = self._n_kept + len(new)
            if room > len(self._kept):
                grown = np.empty(
                    (min(max(room, 2 * len(self._kept)), len(self._slot)), len(self._slot))
                )
                grown[: self._n_kept] = self._kept[: self._n_kept]
                self._kept = grown
            self._kept[self._n_kept : room] = kernel_values(
                self.instances[new], self.instances, self.gamma
            )
            self._slot[new] = np.arange(self._n_kept, room)
            self._n_kept = room
        return self._kept[self._slot[wanted]]

    def _fit_directly(self, signs: Signs, costs: tuple[float, float]) -> FloatArray:
        usable = np.flatnonzero(signs)
        svc = SVC(
            kernel="linear" if self.gamma is None else "rbf",
            gamma="scale" if self.gamma is None else self.gamma,
            C=self.C,
            class_weight={-1: costs[0], 1: costs[1]},
            tol=self.tol,
            cache_size=_CACHE_MB,
        ).fit(for_libsvm(self.instances[usable]), signs[usable])
        dual = svc.dual_coef_.toarray() if sp.issparse(svc.dual_coef_) else svc.dual_coef_
        self.signed = np.zeros(len(signs))
        self.signed[usable[svc.support_]] = dual.ravel()
        self.intercept = float(svc.intercept_[0])
        support = np.flatnonzero(self.signed)
        return kernel_scores(
            self.instances, self.instances[support], self.signed[support], self.intercept,
            self.gamma,
        )  # fmt: skip

    def objective(self, scores: FloatArray, signs: Signs, costs: tuple[float, float]) -> float:
        """Value of ``|w|^2 / 2 + C sum of cost_i hinge_i`` at the last training's solution."""
        norm = self.signed @ (scores - self.intercept)
        hinge = np.maximum(0.0, 1.0 - signs * scores) * np.where(signs > 0, costs[1], costs[0])
        return float(norm / 2 + self.C * hinge[signs != 0].sum())
