"""The 1-norm SVM as a linear programme, solved exactly by a simplex method on few columns."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.typing import BoolArray, FloatArray, IntArray

_FEW_COLUMNS = 32  # that enter in a round, or half as many as have a weight already
_IDLE_PRICE = 0.8  # columns priced below it are far from entering and may leave
_TOLERANCE = 1e-7  # on prices
_EXACT_TOLERANCE = 1e-9  # on the slopes inside a round
_TIE_BREAK = 1e-8
_MAX_PIVOTS = 1000  # before rounding errors are wiped out
_MAX_ROUNDS = 2000
_SINGLE_ERROR = 1e-6  # of a price in single precision, for values up to 1
_CHUNK_COLUMNS = 2048


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
        Times that columns entered, or were looked for.
    """

    weights: FloatArray
    intercept: float
    alphas: FloatArray
    objective: float
    n_rounds: int


@dataclass(slots=True)
class _Corner:
    """A corner of the objective: where as many rows have margin 1 as it has free variables.

    Attributes
    ----------
    chosen : array of int
        Columns at hand.
    signed : array of shape (n_rows, n_chosen)
        ``y_i x_ik`` of these columns.
    active : array of int
        Which of the chosen columns have a weight.
    elbow : array of int of shape (n_active + 1,)
        Rows of margin 1; weights and intercept follow from them.
    """

    chosen: IntArray
    signed: FloatArray
    active: IntArray
    elbow: IntArray


def fit_l1_svm(X: NDArray[Any], positive: BoolArray, row_costs: FloatArray) -> L1SVM:
    """Minimise ``sum of |w_k| + sum of cost_i max(0, 1 - y_i (w x_i + b))``.

    A simplex method walks down the corners of this function on a few columns. The dual variables
    of the corner reached price every other column, ``|sum of alpha_i y_i x_ik|``, and those
    priced above 1 enter; the walk goes on from where it is. When none is left the corner is
    optimal for all columns, since the rest would enter with weight 0: the answer is that of the
    whole programme.

    Parameters
    ----------
    X : array of shape (n_rows, n_columns)
        Embedded bags.
    positive : array of bool of shape (n_rows,)
        Class of every row; both must occur.
    row_costs : array of shape (n_rows,)
        Cost of the slack of every row.

    Returns
    -------
    L1SVM

    Notes
    -----
    If rounding errors stop the walk, HiGHS solves the programme, also by column generation. It
    reaches the same optimum everywhere in two to six times the time.

    Ties between rows are broken by margins of ``1 + 1e-8 u_i`` instead of 1 on the way; the
    weights returned are those of margin 1 at the same corner.

    Cost: O(n_rows n_columns) a round for the prices, O(n_rows n_chosen) a pivot, where n_chosen
    is some times the number of weights that are not 0.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 5.0], [2.0, 5.0]])
    >>> model = fit_l1_svm(X, np.array([False, True]), np.full(2, 10.0))
    >>> model.weights, model.intercept
    (array([1., 0.]), -1.0)
    """
    sign = np.where(positive, 1.0, -1.0)
    breaks = 0.6180339887498949 * np.arange(1.0, len(sign) + 1.0) % 1.0
    margins = np.asarray(1.0 + _TIE_BREAK * breaks, dtype=np.float64)
    corner = _first_corner(positive, row_costs)
    best, n_rounds = np.inf, 0
    while n_rounds < _MAX_ROUNDS:
        n_rounds += 1
        try:
            n_pivots, alphas, objective = _descend(corner, sign, margins, row_costs)
        except np.linalg.LinAlgError:
            return _fit_by_highs(X, sign, row_costs)
        prices, entering = _price(X, alphas * sign, corner)
        falls = objective < best * (1 - 1e-9)
        if entering.size == 0 and (n_pivots == 0 or not falls):
            break
        # Columns leave only after progress: a set of columns can then never come back.
        if falls:
            best = objective
            _drop_idle(corner, prices)
        _add(corner, entering, sign[:, None] * X[:, entering])
    else:
        warnings.warn(
            f"The 1-norm SVM was not optimal after {_MAX_ROUNDS} rounds; the solution is the "
            "best one of the columns looked at. Look for costs of very different scale.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _model(corner, sign, row_costs, alphas, X.shape[1], n_rounds)


def _first_corner(positive: BoolArray, row_costs: FloatArray) -> _Corner:
    """No weights; the intercept gives a row of the costlier class its margin."""
    dear = row_costs[positive].sum() > row_costs[~positive].sum()
    none = np.empty(0, dtype=np.int64)
    elbow = np.flatnonzero(positive == dear)[:1]
    return _Corner(none, np.empty((len(positive), 0)), none, elbow)


def _descend(
    corner: _Corner, sign: FloatArray, margins: FloatArray, row_costs: FloatArray
) -> tuple[int, FloatArray, float]:
    """Walk to the best corner on the chosen columns; return pivots, dual variables, objective.

    Variables are the shortfalls ``r_i = margin_i - y_i (w x_i + b)`` of the rows, the weights and
    the intercept, in this order. Outside the elbow shortfalls depend on the other variables;
    weights that are 0 and the shortfalls of the elbow do not.
    """
    from pigmil.estimators._l1_svm_kernels import descend

    n_rows, n_chosen = corner.signed.shape
    up = np.concatenate([row_costs, np.ones(n_chosen), [0.0]])
    down = np.concatenate([np.zeros(n_rows), np.ones(n_chosen), [0.0]])
    tolerance = _EXACT_TOLERANCE * max(1.0, float(row_costs.max()))
    total = 0
    while True:
        table, values, basic, nonbasic = _table(corner, sign, margins)
        above = values > 0
        slopes = np.where(above, up[basic], -down[basic]) @ table
        n_pivots = descend(
            table, values, above, slopes, basic, nonbasic, up, down, tolerance, _MAX_PIVOTS
        )
        if n_pivots < 0:
            raise np.linalg.LinAlgError
        total += n_pivots
        is_row = nonbasic < n_rows
        corner.elbow = nonbasic[is_row]
        corner.active = np.sort(basic[(basic >= n_rows) & (basic < n_rows + n_chosen)]) - n_rows
        if n_pivots < _MAX_PIVOTS:
            break
    gradient = np.where(above, up[basic], -down[basic])
    alphas = np.zeros(n_rows)
    alphas[basic[basic < n_rows]] = gradient[basic < n_rows]
    alphas[corner.elbow] = -slopes[is_row]
    return total, alphas, float(gradient @ values)


def _table(
    corner: _Corner, sign: FloatArray, margins: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Tableau of a corner: ``basic = values + table @ nonbasic``."""
    n_rows, n_chosen = corner.signed.shape
    elbow, active = corner.elbow, corner.active
    rest = np.delete(np.arange(n_rows), elbow)
    idle = np.delete(np.arange(n_chosen), active)
    size = len(elbow)
    inverse = np.linalg.inv(_core(corner, sign, elbow))
    others = _core(corner, sign, rest)
    table = np.empty((n_rows, n_chosen + 1))
    table[:size, :size] = -inverse
    table[:size, size:] = -inverse @ corner.signed[np.ix_(elbow, idle)]
    np.matmul(-others, table[:size], out=table[size:])
    table[size:, size:] -= corner.signed[np.ix_(rest, idle)]
    values = np.empty(n_rows)
    values[:size] = inverse @ margins[elbow]
    values[size:] = margins[rest] - others @ values[:size]
    basic = np.concatenate([n_rows + active, [n_rows + n_chosen], rest])
    return table, values, basic, np.concatenate([elbow, n_rows + idle])


def _core(corner: _Corner, sign: FloatArray, rows: IntArray) -> FloatArray:
    """Signed values of the rows in the active columns and in that of the intercept."""
    return np.column_stack([corner.signed[np.ix_(rows, corner.active)], sign[rows]])


def _price(
    X: NDArray[Any], signed_alphas: FloatArray, corner: _Corner
) -> tuple[FloatArray, IntArray]:
    """Prices of all columns, and which of them enter: the dearest above 1."""
    # Single precision is not widened, which would take twice the memory of X. It finds columns
    # as long as they are dear beyond its error; the last ones are priced again.
    prices = np.abs(signed_alphas.astype(X.dtype) @ X)
    waiting = prices.astype(np.float64)
    waiting[corner.chosen] = 0.0
    error = _SINGLE_ERROR * np.abs(signed_alphas).sum() if X.dtype == np.float32 else 0.0
    dear = np.flatnonzero(waiting > 1 + _TOLERANCE + error)
    if dear.size == 0 and error > 0:
        unsure = np.flatnonzero(waiting > 1 - error)
        for part in np.split(unsure, range(_CHUNK_COLUMNS, len(unsure), _CHUNK_COLUMNS)):
            waiting[part] = np.abs(signed_alphas @ X[:, part].astype(np.float64))
        dear = unsure[waiting[unsure] > 1 + _TOLERANCE]
    most = max(_FEW_COLUMNS, len(corner.elbow) // 2)
    return prices, dear[np.argsort(-waiting[dear], kind="stable")[:most]]


def _drop_idle(corner: _Corner, prices: FloatArray) -> None:
    """Let go of columns without weight that are far from getting one."""
    kept = prices[corner.chosen] > _IDLE_PRICE
    kept[corner.active] = True
    corner.active = np.cumsum(kept)[corner.active] - 1
    corner.chosen, corner.signed = corner.chosen[kept], corner.signed[:, kept]


def _add(corner: _Corner, columns: IntArray, signed: FloatArray) -> None:
    corner.chosen = np.concatenate([corner.chosen, columns])
    corner.signed = np.concatenate([corner.signed, signed], axis=1)


def _model(
    corner: _Corner,
    sign: FloatArray,
    row_costs: FloatArray,
    alphas: FloatArray,
    n_columns: int,
    n_rounds: int,
) -> L1SVM:
    """Weights of the corner at margin 1, where ties may make some of them 0."""
    free = np.linalg.solve(_core(corner, sign, corner.elbow), np.ones(len(corner.elbow)))
    found, intercept = free[:-1], float(free[-1])
    found[np.abs(found) < 100 * _TIE_BREAK * np.abs(found).max(initial=0.0)] = 0.0
    margins = corner.signed[:, corner.active] @ found + sign * intercept
    objective = np.abs(found).sum() + row_costs @ np.maximum(0.0, 1.0 - margins)
    weights = np.zeros(n_columns)
    weights[corner.chosen[corner.active]] = found
    return L1SVM(weights, intercept, alphas, float(objective), n_rounds)


def _fit_by_highs(X: NDArray[Any], sign: FloatArray, row_costs: FloatArray) -> L1SVM:
    """Solve the dual by HiGHS, on columns that enter where their price exceeds 1.

    Maximise ``sum of alpha`` such that ``|sum of alpha_i y_i x_ik| <= 1`` for every column and
    ``sum of alpha_i y_i = 0``, with every alpha between 0 and its cost.
    """
    chosen = np.empty(0, dtype=np.int64)
    n_rounds = 0
    while True:
        n_rounds += 1
        prices = (sign[:, None] * X[:, chosen]).T.astype(np.float64)
        result = linprog(
            -np.ones(len(sign)),
            A_ub=np.concatenate([prices, -prices]),
            b_ub=np.ones(2 * len(prices)),
            A_eq=sign[None, :],
            b_eq=np.zeros(1),
            bounds=np.column_stack([np.zeros(len(sign)), row_costs]),
            method="highs-ds",
        )
        if result.status != 0:
            raise RuntimeError(
                f"The linear programme of the 1-norm SVM ({X.shape[0]} rows, {X.shape[1]} "
                f"columns) was not solved: {result.message} Look for features or costs of very "
                "different scale."
            )
        waiting = np.abs((result.x * sign) @ X)
        waiting[chosen] = 0.0
        entering = np.flatnonzero(waiting > 1 + _TOLERANCE)
        if entering.size == 0:
            break
        order = np.argsort(-waiting[entering], kind="stable")
        chosen = np.concatenate([chosen, entering[order[: 2 * _FEW_COLUMNS]]])
    multipliers = -result.ineqlin.marginals
    weights = np.zeros(X.shape[1])
    weights[chosen] = multipliers[: len(prices)] - multipliers[len(prices) :]
    intercept = float(-result.eqlin.marginals[0])
    return L1SVM(weights, intercept, result.x, float(-result.fun), n_rounds)
