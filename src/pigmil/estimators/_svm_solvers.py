"""The SVM inside the methods: hinge loss, free intercept, exact, the same answer every time."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight

from pigmil._core._sklearn_compat import import_libsvm
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.distances import squared_distance_blocks

libsvm = import_libsvm()

_GRAM_ROWS = 1500  # up to here (18 MB) one matrix product is cheaper than rows on demand
_CACHE_MB = 200
# libsvm's own limit is ten times this; scikit-learn warns when it is reached.
_MAX_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class LinearSVM:
    """A fitted linear SVM.

    Attributes
    ----------
    weights : array of shape (n_columns,)
        Normal vector.
    intercept : float
        Offset of the decision value.
    alphas : array of shape (n_rows,)
        Dual variables, 0 where a row is no support vector.
    """

    weights: FloatArray
    intercept: float
    alphas: FloatArray

    def decide(self, X: Any) -> FloatArray:
        """Return the decision value of every row."""
        return np.asarray(X @ self.weights, dtype=np.float64) + self.intercept


def fit_linear_svm(
    X: Any,
    positive: BoolArray,
    *,
    C: float = 1.0,
    costs: tuple[float, float] = (1.0, 1.0),
    tol: float = 1e-3,
) -> LinearSVM:
    """Minimise ``|w|^2 / 2 + C sum of cost_i max(0, 1 - y_i (w x_i + b))``.

    libsvm solves the dual by sequential minimal optimisation; nothing is random. Where there are
    few rows or more columns than rows it works on the Gram matrix, which is one product;
    elsewhere on the rows, and no (rows x rows) array is made. The Gram matrix is centred, which
    the free intercept makes up for: libsvm keeps it in single precision, and a large common part
    would drown the differences that matter. liblinear is not used: its
    intercept is regularised and its coordinate descent needs more time for less precision on
    the sizes met here.

    Parameters
    ----------
    X : array or CSR of shape (n_rows, n_columns)
        Embedded bags, or instances.
    positive : array of bool of shape (n_rows,)
        Class of every row; both must occur.
    C : float, default=1.0
        Cost of the hinge loss.
    costs : (float, float), default=(1.0, 1.0)
        Factors on ``C`` of the negative and the positive class, see :func:`class_costs`.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the decision value.

    Returns
    -------
    LinearSVM

    Notes
    -----
    Cost: O(n_rows^2 n_columns) for the Gram matrix, or rows on demand with a bounded cache.

    Examples
    --------
    >>> import numpy as np
    >>> model = fit_linear_svm(np.array([[-1.0], [1.0]]), np.array([False, True]))
    >>> model.decide(np.array([[0.5]])).round(6)
    array([0.5])
    """
    n_rows, n_columns = X.shape
    if n_rows <= _GRAM_ROWS or (n_rows <= n_columns and n_rows <= 4 * _GRAM_ROWS):
        centre = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
        if sp.issparse(X):
            gram = centred((X @ X.T).toarray().astype(np.float64))
        else:
            moved = np.subtract(X, centre, dtype=np.float64)
            gram = moved @ moved.T
        signed, intercept = fit_gram_svm(gram, positive, C=C, costs=costs, tol=tol)
        weights = np.asarray(X.T @ signed, dtype=np.float64)
        return LinearSVM(weights, intercept - float(weights @ centre), np.abs(signed))
    signed, intercept = fit_svc(X, positive, C=C, costs=costs, tol=tol)
    return LinearSVM(np.asarray(X.T @ signed, dtype=np.float64), intercept, np.abs(signed))


@dataclass(frozen=True, slots=True)
class KernelSVM:
    """A fitted SVM with a Gaussian kernel, with the interface of a :class:`LinearSVM`.

    Attributes
    ----------
    support : array or CSR of shape (n_support, n_columns)
        Support vectors.
    signed : array of shape (n_support,)
        Their signed dual variables.
    intercept, gamma : float
        Offset of the decision value, and width of the kernel.
    """

    support: Any
    signed: FloatArray
    intercept: float
    gamma: float

    def decide(self, X: Any) -> FloatArray:
        """Return the decision value of every row."""
        return kernel_scores(X, self.support, self.signed, self.intercept, self.gamma)


def fit_svm(
    X: Any, positive: BoolArray, gamma: float | None, *, C: float, costs: tuple[float, float]
) -> LinearSVM | KernelSVM:
    """Solve the problem of :func:`fit_linear_svm`, or with ``exp(-gamma |x - x'|^2)`` as kernel."""
    if gamma is None:
        return fit_linear_svm(X, positive, C=C, costs=costs)
    signed, intercept = fit_svc(X, positive, gamma=gamma, C=C, costs=costs)
    support = np.flatnonzero(signed)
    return KernelSVM(X[support], signed[support], intercept, gamma)


def fit_svc(
    X: Any,
    positive: BoolArray,
    *,
    gamma: float | None = None,
    C: float = 1.0,
    costs: tuple[float, float] = (1.0, 1.0),
    weights: FloatArray | None = None,
    tol: float = 1e-3,
) -> tuple[FloatArray, float]:
    """Solve the same problem from the rows, in the linear (``gamma`` None) or Gaussian kernel.

    Parameters and results are those of :func:`fit_gram_svm`.
    """
    svc = SVC(
        kernel="linear" if gamma is None else "rbf",
        gamma="scale" if gamma is None else gamma,
        C=C,
        class_weight={False: costs[0], True: costs[1]},
        tol=tol,
        cache_size=_CACHE_MB,
        max_iter=_MAX_STEPS,
    ).fit(with_short_indices(X), positive, sample_weight=weights)
    dual = svc.dual_coef_.toarray() if sp.issparse(svc.dual_coef_) else svc.dual_coef_
    signed = np.zeros(len(positive))
    signed[svc.support_] = dual.ravel()
    return signed, float(svc.intercept_[0])


def fit_gram_svm(
    gram: FloatArray,
    positive: BoolArray,
    *,
    C: float = 1.0,
    costs: tuple[float, float] = (1.0, 1.0),
    weights: FloatArray | None = None,
    tol: float = 1e-3,
) -> tuple[FloatArray, float]:
    """Solve the same problem in any kernel, from the Gram matrix.

    Parameters
    ----------
    gram : array of shape (n_rows, n_rows)
        Kernel between the rows.
    positive, C, costs, tol
        As in :func:`fit_linear_svm`.
    weights : array of shape (n_rows,), optional
        Further factors on the cost of each row, above 0.

    Returns
    -------
    signed : array of shape (n_rows,)
        ``alpha_i y_i``: the decision value of x is ``sum of signed_i k(x_i, x) + intercept``.
    intercept : float
    """
    libsvm.set_verbosity_wrap(0)
    # Cross-validation trains hundreds of small SVMs: the checks of `SVC` take longer than those.
    support, _, _, dual, intercept, _, _, status, *_ = libsvm.fit(
        np.ascontiguousarray(gram, dtype=np.float64),
        positive.astype(np.float64),
        kernel="precomputed",
        C=C,
        class_weight=np.array(costs, dtype=np.float64),
        sample_weight=np.ones(len(positive)) if weights is None else weights,
        tol=tol,
        cache_size=_CACHE_MB,
        max_iter=_MAX_STEPS,
    )
    if status:
        warnings.warn(
            f"The SVM did not converge in {_MAX_STEPS} steps; scale the features or lower C.",
            ConvergenceWarning,
            stacklevel=2,
        )
    signed = np.zeros(len(positive))
    signed[support] = -dual[0]  # libsvm counts the first class as positive
    return signed, -float(intercept[0])


def class_costs(
    class_weight: Any,
    positive: BoolArray,
    classes: Any = (False, True),
    positive_label: Any = True,
    weights: FloatArray | None = None,
) -> tuple[float, float]:
    """Return the cost factors of the negative and the positive class from ``class_weight``.

    Parameters
    ----------
    class_weight : None, "balanced" or dict of label to float
        ``"balanced"`` counts the rows of ``positive``; a dict is read by the labels in
        ``classes``, 1.0 where one is missing.
    positive : array of bool
        Class of every row the SVM sees.
    classes : sequence of two labels
        The labels of the user, sorted.
    positive_label : label
        Which of them is positive.
    weights : array of shape (n_rows,), optional
        Weights of the rows, which "balanced" then sums instead of counting.

    Returns
    -------
    negative, positive : float

    Examples
    --------
    >>> import numpy as np
    >>> class_costs("balanced", np.array([False, False, False, True]))
    (0.6666666666666666, 2.0)
    """
    if isinstance(class_weight, str) and weights is not None:
        total = weights.sum() / 2
        return float(total / weights[~positive].sum()), float(total / weights[positive].sum())
    known = np.asarray(classes)
    is_positive = known == positive_label
    labels = np.where(positive, known[is_positive][0], known[~is_positive][0])
    found = compute_class_weight(class_weight, classes=known, y=labels)
    return float(found[~is_positive][0]), float(found[is_positive][0])


def centred(gram: FloatArray) -> FloatArray:
    """Return the Gram matrix of the centred rows."""
    means = gram.mean(axis=0)
    gram -= means
    gram -= means[:, None] - means.mean()
    return gram


def with_short_indices(X: Any) -> Any:
    """Return sparse rows with the 32-bit indices that libsvm and k-means require."""
    if not sp.issparse(X):
        return X
    return sp.csr_array(
        (X.data, X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)),
        shape=X.shape,
    )


def kernel_values(queries: Any, references: Any, gamma: float | None) -> FloatArray:
    """Return the linear (``gamma`` None) or Gaussian kernel, ``exp(-gamma |x - x'|^2)``.

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
