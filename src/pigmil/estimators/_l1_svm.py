"""The 1-norm SVM as a linear programme, exact and with few columns at a time."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import IntArray
from pigmil.estimators._linear_svm import fit_linear_svm
from pigmil.estimators.base import BoolArray, FloatArray

_FEW_COLUMNS = 32  # that enter in a round
_MOST_FIRST = 128  # in the guess of the first round
_GUESSES = 4
_IDLE_PRICE = 0.7  # columns priced below it are far from entering and may leave
_TOLERANCE = 1e-6  # on prices; HiGHS itself works to 1e-7
_MAX_ROUNDS = 500


@dataclass(frozen=True, slots=True)
class L1SVM:
    """An optimal 1-norm SVM and the dual variables that prove it.

    Attributes
    ----------
    weights : array of shape (n_columns,)
        Normal vector, most of it zero.
    intercept : float
        Offset of the decision value.
    alphas : array of shape (n_rows,)
        Dual variables of the rows, between 0 and their cost.
    objective : float
        ``sum of |w| + sum of cost_i slack_i``.
    n_rounds : int
        Linear programmes solved.
    """

    weights: FloatArray
    intercept: float
    alphas: FloatArray
    objective: float
    n_rounds: int


def fit_l1_svm(X: NDArray[Any], positive: BoolArray, row_costs: FloatArray) -> L1SVM:
    """Minimise ``sum of |w_k| + sum of cost_i max(0, 1 - y_i (w x_i + b))``.

    The programme is solved on a few columns by HiGHS; its dual variables price every other
    column, ``|sum of alpha_i y_i x_ik|``, and those priced above 1 enter. When none is left the
    solution is optimal for all columns, since the rest would enter with weight 0: the answer is
    that of the whole programme, at the cost of some small ones. The first columns are guessed
    by reweighted linear SVMs.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Embedded bags.
    positive : array of bool of shape (n_rows,)
        Class of every row.
    row_costs : array of shape (n_rows,)
        Cost of the slack of every row.

    Returns
    -------
    L1SVM

    Notes
    -----
    Cost: O(n_rows n_columns) a round for the prices, and a programme of n_rows constraints and
    about as many columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 5.0], [2.0, 5.0]])
    >>> model = fit_l1_svm(X, np.array([False, True]), np.full(2, 10.0))
    >>> model.weights, model.intercept
    (array([1., 0.]), -1.0)
    """
    sign = np.where(positive, 1.0, -1.0)
    chosen = _first_columns(X, positive, row_costs)
    best = np.inf
    for n_rounds in range(1, _MAX_ROUNDS + 1):
        active, intercept, alphas, objective = _solve(
            np.asarray(X[:, chosen], dtype=np.float64), sign, row_costs
        )
        prices = np.abs((alphas * sign) @ X)
        entering = _entering(prices, chosen)
        if entering.size == 0:
            weights = np.zeros(X.shape[1])
            weights[chosen] = active
            return L1SVM(weights, intercept, alphas, objective, n_rounds)
        # Columns leave only after progress: a set of columns can then never come back.
        if objective < best - 1e-9 * abs(best) and n_rounds < _MAX_ROUNDS:
            best = objective
            chosen = chosen[(prices[chosen] > _IDLE_PRICE) | (active != 0)]
        chosen = np.concatenate([chosen, entering])
    warnings.warn(
        f"The 1-norm SVM still lacked columns after {_MAX_ROUNDS} rounds; the solution is that "
        "of the columns found so far.",
        ConvergenceWarning,
        stacklevel=2,
    )
    weights = np.zeros(X.shape[1])
    weights[chosen[: len(active)]] = active
    return L1SVM(weights, intercept, alphas, objective, _MAX_ROUNDS)


def _first_columns(X: NDArray[Any], positive: BoolArray, row_costs: FloatArray) -> IntArray:
    """Guess the columns of the optimum, so that few rounds remain.

    ``sum of w_k^2 / (2 eta_k) + eta_k / 2`` is ``sum of |w_k|`` at ``eta = |w|``: linear SVMs on
    columns scaled by ``sqrt(eta)``, each with the ``eta`` of the one before, come near it.
    """
    costs = (float(row_costs[~positive].mean()), float(row_costs[positive].mean()))
    chosen = np.arange(X.shape[1])
    scale = np.ones(X.shape[1])
    for _ in range(_GUESSES):
        part = X[:, chosen] * scale
        sizes = np.abs(fit_linear_svm(part, positive, costs=costs, tol=0.01).weights) * scale
        light = max(1e-2 * sizes.max(), np.sort(sizes)[-_MOST_FIRST:][0])
        heavy = sizes >= light
        chosen, scale = chosen[heavy], np.sqrt(sizes[heavy])
    return chosen


def _entering(prices: FloatArray, chosen: IntArray) -> IntArray:
    """Columns whose price is above 1, dearest first, at most a few."""
    waiting = prices.copy()
    waiting[chosen] = 0.0
    dear = np.flatnonzero(waiting > 1 + _TOLERANCE)
    return dear[np.argsort(-waiting[dear], kind="stable")[:_FEW_COLUMNS]]


def _solve(
    X: FloatArray, sign: FloatArray, row_costs: FloatArray
) -> tuple[FloatArray, float, FloatArray, float]:
    """Solve the programme on the given columns: variables w+, w-, b and the slacks."""
    n_rows, n_columns = X.shape
    signed = sp.csc_array(sign[:, None] * X)
    matrix = sp.hstack(
        [-signed, signed, sp.csc_array(-sign[:, None]), -sp.eye_array(n_rows)], format="csc"
    )
    prices = np.concatenate([np.ones(2 * n_columns), [0.0], row_costs])
    bounds = np.zeros((len(prices), 2))
    bounds[:, 1] = np.inf
    bounds[2 * n_columns, 0] = -np.inf
    found = linprog(
        prices,
        A_ub=matrix,
        b_ub=-np.ones(n_rows),
        bounds=bounds,
        method="highs-ds",
        options={"presolve": False},  # it finds nothing to remove here and takes as long
    )
    if found.status != 0:
        raise RuntimeError(
            f"The linear programme of the 1-norm SVM ({n_rows} rows, {n_columns} columns) was "
            f"not solved: {found.message} Look for features or costs of very different scale."
        )
    weights = found.x[:n_columns] - found.x[n_columns : 2 * n_columns]
    return weights, float(found.x[2 * n_columns]), -found.ineqlin.marginals, float(found.fun)
