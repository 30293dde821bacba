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
class _Vertex:
    """A vertex of the objective: as many rows have margin 1 as there are free variables.

    Attributes
    ----------
    chosen : array of int
        Columns in use.
    signed : array of shape (n_rows, n_chosen)
        ``y_i x_ik`` of these columns.
    active : array of int
        Positions of the chosen columns with a weight.
    on_margin : array of int of shape (n_active + 1,)
        Rows of margin 1, which determine weights and intercept.
    """

    chosen: IntArray
    signed: FloatArray
    active: IntArray
    on_margin: IntArray


def fit_l1_svm(X: NDArray[Any], positive: BoolArray, row_costs: FloatArray) -> L1SVM:
    """Minimise ``sum of |w_k| + sum of cost_i max(0, 1 - y_i (w x_i + b))``.

    A simplex method descends from vertex to vertex of this function on a few columns. The dual
    variables of the last vertex give every other column a price, ``|sum of alpha_i y_i x_ik|``.
    Columns with a price above 1 are added, and the descent continues. If there are none, the vertex
    is optimal for all columns, because the others would have weight 0.

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
    If rounding errors stop the descent, HiGHS solves the programme, also by column generation. It
    reaches the same optimum on all data that were tried, in two to six times the time.

    Ties between rows are broken by margins of ``1 + 1e-8 u_i`` instead of 1 during the descent;
    the returned weights are those of margin 1 at the same vertex.

    Cost: O(n_rows n_columns) per round for the prices, O(n_rows n_chosen) per pivot, where n_chosen
    is a small multiple of the number of non-zero weights.

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
    vertex = _first_vertex(positive, row_costs)
    best, n_rounds = np.inf, 0
    while n_rounds < _MAX_ROUNDS:
        n_rounds += 1
        try:
            n_pivots, alphas, objective = _descend(vertex, sign, margins, row_costs)
        except np.linalg.LinAlgError:
            return _fit_by_highs(X, sign, row_costs)
        prices, entering = _price(X, alphas * sign, vertex)
        falls = objective < best * (1 - 1e-9)
        if entering.size == 0 and (n_pivots == 0 or not falls):
            break
        # Columns leave only after progress: a set of columns can then never come back.
        if falls:
            best = objective
            _drop_idle(vertex, prices)
        _add(vertex, entering, sign[:, None] * X[:, entering])
    else:
        warnings.warn(
            f"The 1-norm SVM was not optimal after {_MAX_ROUNDS} rounds; the solution is the "
            "best one of the columns looked at. Look for costs of very different scale.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _model(vertex, sign, row_costs, alphas, X.shape[1], n_rounds)


def _first_vertex(positive: BoolArray, row_costs: FloatArray) -> _Vertex:
    """Start without weights; the intercept gives rows of the costlier class a margin."""
    positive_costs_more = row_costs[positive].sum() > row_costs[~positive].sum()
    none = np.empty(0, dtype=np.int64)
    on_margin = np.flatnonzero(positive == positive_costs_more)[:1]
    return _Vertex(none, np.empty((len(positive), 0)), none, on_margin)


def _descend(
    vertex: _Vertex, sign: FloatArray, margins: FloatArray, row_costs: FloatArray
) -> tuple[int, FloatArray, float]:
    """Descend to the best vertex on the chosen columns; return pivots, dual variables, objective.

    Variables are the shortfalls ``r_i = margin_i - y_i (w x_i + b)`` of the rows, the weights and
    the intercept, in this order. Basic variables are the shortfalls of rows that are not on the
    margin, the active weights and the intercept; the others are nonbasic.
    """
    from pigmil.estimators._l1_svm_kernels import descend

    n_rows, n_chosen = vertex.signed.shape
    up = np.concatenate([row_costs, np.ones(n_chosen), [0.0]])
    down = np.concatenate([np.zeros(n_rows), np.ones(n_chosen), [0.0]])
    tolerance = _EXACT_TOLERANCE * max(1.0, float(row_costs.max()))
    total = 0
    while True:
        table, values, basic, nonbasic = _table(vertex, sign, margins)
        above = values > 0
        slopes = np.where(above, up[basic], -down[basic]) @ table
        n_pivots = descend(
            table, values, above, slopes, basic, nonbasic, up, down, tolerance, _MAX_PIVOTS
        )
        if n_pivots < 0:
            raise np.linalg.LinAlgError
        total += n_pivots
        is_row = nonbasic < n_rows
        vertex.on_margin = nonbasic[is_row]
        vertex.active = np.sort(basic[(basic >= n_rows) & (basic < n_rows + n_chosen)]) - n_rows
        if n_pivots < _MAX_PIVOTS:
            break
    gradient = np.where(above, up[basic], -down[basic])
    alphas = np.zeros(n_rows)
    alphas[basic[basic < n_rows]] = gradient[basic < n_rows]
    alphas[vertex.on_margin] = -slopes[is_row]
    return total, alphas, float(gradient @ values)


def _table(
    vertex: _Vertex, sign: FloatArray, margins: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Return the tableau of a vertex: ``basic = values + table @ nonbasic``."""
    n_rows, n_chosen = vertex.signed.shape
    on_margin, active = vertex.on_margin, vertex.active
    rest = np.delete(np.arange(n_rows), on_margin)
    idle = np.delete(np.arange(n_chosen), active)
    size = len(on_margin)
    inverse = np.linalg.inv(_core(vertex, sign, on_margin))
    others = _core(vertex, sign, rest)
    table = np.empty((n_rows, n_chosen + 1))
    table[:size, :size] = -inverse
    table[:size, size:] = -inverse @ vertex.signed[np.ix_(on_margin, idle)]
    np.matmul(-others, table[:size], out=table[size:])
    table[size:, size:] -= vertex.signed[np.ix_(rest, idle)]
    values = np.empty(n_rows)
    values[:size] = inverse @ margins[on_margin]
    values[size:] = margins[rest] - others @ values[:size]
    basic = np.concatenate([n_rows + active, [n_rows + n_chosen], rest])
    return table, values, basic, np.concatenate([on_margin, n_rows + idle])


def _core(vertex: _Vertex, sign: FloatArray, rows: IntArray) -> FloatArray:
    """Return the signed values of the active columns and of the intercept column."""
    return np.column_stack([vertex.signed[np.ix_(rows, vertex.active)], sign[rows]])


def _price(
    X: NDArray[Any], signed_alphas: FloatArray, vertex: _Vertex
) -> tuple[FloatArray, IntArray]:
    """Return the prices of all columns, and the columns to add: the highest prices above 1."""
    # Single precision is not converted, which would take twice the memory of X. It suffices for
    # columns whose price exceeds 1 by more than its error; otherwise prices are recomputed.
    prices = np.abs(signed_alphas.astype(X.dtype) @ X)
    waiting = prices.astype(np.float64)
    waiting[vertex.chosen] = 0.0
    error = _SINGLE_ERROR * np.abs(signed_alphas).sum() if X.dtype == np.float32 else 0.0
    entering = np.flatnonzero(waiting > 1 + _TOLERANCE + error)
    if entering.size == 0 and error > 0:
        unsure = np.flatnonzero(waiting > 1 - error)
        for part in np.split(unsure, range(_CHUNK_COLUMNS, len(unsure), _CHUNK_COLUMNS)):
            waiting[part] = np.abs(signed_alphas @ X[:, part].astype(np.float64))
        entering = unsure[waiting[unsure] > 1 + _TOLERANCE]
    most = max(_FEW_COLUMNS, len(vertex.on_margin) // 2)
    return prices, entering[np.argsort(-waiting[entering], kind="stable")[:most]]


def _drop_idle(vertex: _Vertex, prices: FloatArray) -> None:
    """Remove columns of weight 0 whose price is far below 1."""
    kept = prices[vertex.chosen] > _IDLE_PRICE
    kept[vertex.active] = True
    vertex.active = np.cumsum(kept)[vertex.active] - 1
    vertex.chosen, vertex.signed = vertex.chosen[kept], vertex.signed[:, kept]


def _add(vertex: _Vertex, columns: IntArray, signed: FloatArray) -> None:
    vertex.chosen = np.concatenate([vertex.chosen, columns])
    vertex.signed = np.concatenate([vertex.signed, signed], axis=1)


def _model(
    vertex: _Vertex,
    sign: FloatArray,
    row_costs: FloatArray,
    alphas: FloatArray,
    n_columns: int,
    n_rounds: int,
) -> L1SVM:
    """Return the weights of the vertex at margin 1; ties may make some of them 0."""
    free = np.linalg.solve(_core(vertex, sign, vertex.on_margin), np.ones(len(vertex.on_margin)))
    active_weights, intercept = free[:-1], float(free[-1])
    active_weights[
        np.abs(active_weights) < 100 * _TIE_BREAK * np.abs(active_weights).max(initial=0.0)
    ] = 0.0
    margins = vertex.signed[:, vertex.active] @ active_weights + sign * intercept
    objective = np.abs(active_weights).sum() + row_costs @ np.maximum(0.0, 1.0 - margins)
    weights = np.zeros(n_columns)
    weights[vertex.chosen[vertex.active]] = active_weights
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
