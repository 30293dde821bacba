"""MILES: embed bags by similarities to all training instances; a 1-norm SVM keeps few."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import offsets_of, segment_blocks, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import embed_bags, length_unit
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators._svm_solvers import kernel_values
from pigmil.estimators.base import AcceptsWeights, MILClassifier, spread_out

_CHUNK_INSTANCES = 8192
_FEW_COLUMNS = 32  # that enter in a round, or half as many as have a weight already
_IDLE_PRICE = 0.8  # columns priced below it are far from entering and may leave
_TOLERANCE = 1e-7  # on prices
_EXACT_TOLERANCE = 1e-9  # on the slopes inside a round
_TIE_BREAK = 1e-8
_MAX_PIVOTS = 1000  # before rounding errors are wiped out
_MAX_ROUNDS = 2000


@with_parameters
class MILES(AcceptsWeights, MILClassifier):
    """MILES: multiple-instance learning via embedded instance selection.

    Implements the instance-based embedding, the 1-norm SVM and the instance classification of
    the paper. A bag is embedded by its largest similarity
    ``exp(-gamma |x - x^k|^2)`` to each training instance ``x^k``; a 1-norm SVM, solved exactly
    as a linear programme, keeps few of them.

    Departs from the paper: the intercept is shared among the instances of a bag, so that 0
    separates; widths are measured in ``length_unit``,
    ``gamma = 1 / sigma^2``; the two constants lambda and mu of the programme become ``C`` and
    ``class_weight``, with ``lambda = 1 / C``; they have defaults. The paper searches sigma and
    ``C``; :func:`pigmil.evaluation.compare` searches gamma.

    Parameters
    ----------
    C : float, default=2.0
        Cost of the hinge loss of a bag against the 1-norm of the weights.
    gamma : float, default=0.3
        Decay of the similarity per squared unit of length.
    {length_unit}
    class_weight : "balanced", dict or None, default=None
        Factors on ``C``.
    {probability}
    {pos_label}

    Attributes
    ----------
    prototypes_ : array or CSR of shape (n_prototypes, n_features)
        The training instances with a weight other than 0.
    prototype_instances_ : array of int of shape (n_prototypes,)
        Their flat indices.
    coef_ : array of shape (n_prototypes,)
        Their weights.
    {intercept_}
    dual_coef_ : array of shape (n_bags,)
        Dual variables of the training bags, which prove the optimum.
    objective_ : float
        ``sum of |w| + C sum of hinge losses``.
    decay_ : float
        ``gamma / unit^2``.
    {detected_instances_}
    {instance_scores_}
    n_iter_ : int
        Rounds of column generation.

    Notes
    -----
    Instances are scored as published: each kept ``x^k`` adds ``w_k s(x^k, x) / m_k`` to the ``m_k``
    instances of the bag nearest to it, and the intercept is shared equally by the instances that
    are nearest to some ``x^k``, so that their scores add up to the decision value of the bag. The
    score of an instance depends on its bag; :class:`pigmil.SingleInstance` scores it as a bag of
    its own.

    Cost: O(n_instances^2 n_features) for the embedding, in blocks; O(n_bags n_instances) memory
    for it; the programme holds few columns at a time.

    When to use: A strong default for bags of any kind.

    Defaults: C and gamma were picked while looking at the first split of the benchmark sets, so its
    figures there are slightly optimistic.

    References
    ----------
    Chen, Bi, Wang: MILES: Multiple-Instance Learning via Embedded Instance Selection. IEEE
    TPAMI 28(12), 2006.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.miles import MILES
    >>> bags = make_ring(random_state=0)
    >>> len(MILES().fit(bags).detected_instances_)
    20
    """

    C: float = 2.0
    gamma: float = 0.3
    length_unit: str | float = "auto"
    class_weight: Any = None

    _accepts_sparse = True
    card = Card(
        "MILES",
        "Multiple-instance learning via embedded instance selection",
        grid={"gamma": (0.3, 0.1, 1.0)},
    )

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        own = None if weights is None else np.repeat(weights, bags.sizes)
        self.decay_ = self.gamma / length_unit(bags.instances, self.length_unit, weights=own) ** 2
        costs = self._class_costs(positive, weights)
        row_costs = self.C * np.where(positive, *costs[::-1])
        model = fit_l1_svm(
            embed_bags(bags, bags.instances, self.decay_),
            positive,
            row_costs if weights is None else row_costs * weights,
        )
        self.prototype_instances_ = np.flatnonzero(model.weights)
        self.prototypes_ = bags.instances[self.prototype_instances_]
        self.coef_ = model.weights[self.prototype_instances_]
        self.intercept_ = model.intercept
        self.dual_coef_ = model.alphas
        self.objective_ = model.objective
        self.n_iter_ = model.n_rounds
        self._set_detection(bags, positive, self._score_instances(bags))

    def _renumber(self, bags: Bags, kept: IntArray, rows: IntArray) -> None:
        self.prototype_instances_ = rows[self.prototype_instances_]
        self.dual_coef_ = spread_out(self.dual_coef_, kept, bags.n_bags)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return embed_bags(bags, self.prototypes_, self.decay_) @ self.coef_ + self.intercept_

    def _score_instances(self, bags: Bags) -> FloatArray:
        blocks = segment_blocks(bags.offsets, _CHUNK_INSTANCES)
        return np.concatenate([self._contributions(bags[first:last]) for first, last in blocks])

    def _contributions(self, bags: Bags) -> FloatArray:
        """Split the decision value of every bag among its instances."""
        offsets = offsets_of(bags.sizes)
        if self.coef_.size == 0:
            return np.repeat(self.intercept_ / bags.sizes, bags.sizes)
        similarity = kernel_values(bags.instances, self.prototypes_, self.decay_)
        best = np.repeat(segment_reduce(np.maximum, similarity, offsets), bags.sizes, axis=0)
        nearest = (similarity == best).astype(np.float64)
        shares = nearest / np.repeat(segment_reduce(np.add, nearest, offsets), bags.sizes, axis=0)
        takes_part = nearest.any(axis=1).astype(np.float64)
        n_taking_part = np.repeat(segment_reduce(np.add, takes_part, offsets), bags.sizes)
        return (shares * similarity) @ self.coef_ + self.intercept_ / n_taking_part


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
    HiGHS (SciPy's ``linprog``), by the same column generation, reaches the same optimum in 9 to 25
    times the time on Musk-1, Musk-2 and Elephant (0.07 s instead of 0.007 on Musk-2, where the
    embedding takes 0.4 s). On the 2,602 bags of Adult-110 it was halfway to the optimum after the
    three minutes that this method takes in all.

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
    vertex = _Vertex(positive, row_costs)
    best, n_rounds = np.inf, 0
    while n_rounds < _MAX_ROUNDS:
        n_rounds += 1
        try:
            n_pivots, alphas, objective = vertex.descend()
        except np.linalg.LinAlgError as error:
            raise RuntimeError(
                f"The linear programme of the 1-norm SVM ({X.shape[0]} rows, {X.shape[1]} "
                "columns) was not solved: rounding errors stopped it. Look for costs of very "
                "different scale."
            ) from error
        prices = np.abs((alphas * vertex.sign) @ X)
        waiting = prices.copy()
        waiting[vertex.chosen] = 0.0
        entering = np.flatnonzero(waiting > 1 + _TOLERANCE)
        falls = objective < best * (1 - 1e-9)
        if entering.size == 0 and (n_pivots == 0 or not falls):
            break
        most = max(_FEW_COLUMNS, len(vertex.on_margin) // 2)
        entering = entering[np.argsort(-waiting[entering], kind="stable")[:most]]
        # Columns leave only after progress: a set of columns can then never come back.
        if falls:
            best = objective
            vertex.drop_idle(prices)
        vertex.add(entering, X[:, entering])
    else:
        warnings.warn(
            f"The 1-norm SVM was not optimal after {_MAX_ROUNDS} rounds; the solution is the "
            "best one of the columns looked at. Look for costs of very different scale.",
            ConvergenceWarning,
            stacklevel=2,
        )
    active_weights, intercept, objective = vertex.solution()
    weights = np.zeros(X.shape[1])
    weights[vertex.chosen[vertex.active]] = active_weights
    return L1SVM(weights, intercept, alphas, objective, n_rounds)


class _Vertex:
    """A vertex of the objective: as many rows have margin 1 as there are free variables.

    It starts without weights; the intercept gives a row of the costlier class margin 1.

    Attributes
    ----------
    sign, row_costs, margins : array of shape (n_rows,)
        Class, cost and margin (1, and a little more to break ties) of every row.
    chosen : array of int of shape (n_chosen,)
        Columns in use.
    signed : array of shape (n_rows, n_chosen)
        ``y_i x_ik`` of these columns.
    active : array of int
        Positions of the chosen columns with a weight.
    on_margin : array of int of shape (n_active + 1,)
        Rows of margin 1, which determine weights and intercept.
    """

    def __init__(self, positive: BoolArray, row_costs: FloatArray) -> None:
        n_rows = len(positive)
        self.sign = np.where(positive, 1.0, -1.0)
        self.row_costs = row_costs
        breaks = 0.6180339887498949 * np.arange(1.0, n_rows + 1.0) % 1.0
        self.margins: FloatArray = 1.0 + _TIE_BREAK * breaks
        self.chosen: IntArray = np.empty(0, dtype=np.int64)
        self.signed = np.empty((n_rows, 0))
        self.active: IntArray = self.chosen
        costlier = row_costs[positive].sum() > row_costs[~positive].sum()
        self.on_margin: IntArray = np.flatnonzero(positive == costlier)[:1]

    def descend(self) -> tuple[int, FloatArray, float]:
        """Move to the best vertex on the chosen columns; return pivots, dual variables, objective.

        Variables are the shortfalls ``r_i = margin_i - y_i (w x_i + b)`` of the rows, the weights
        and the intercept, in this order. Basic variables are the shortfalls of rows that are not on
        the margin, the active weights and the intercept; the others are nonbasic.
        """
        from pigmil.estimators._kernels import descend

        n_rows, n_chosen = self.signed.shape
        up = np.concatenate([self.row_costs, np.ones(n_chosen), [0.0]])
        down = np.concatenate([np.zeros(n_rows), np.ones(n_chosen), [0.0]])
        tolerance = _EXACT_TOLERANCE * max(1.0, float(self.row_costs.max()))
        total, n_pivots = 0, _MAX_PIVOTS
        while n_pivots == _MAX_PIVOTS:
            table, values, basic, nonbasic = self._table()
            above = values > 0
            slopes = np.where(above, up[basic], -down[basic]) @ table
            n_pivots = descend(
                table, values, above, slopes, basic, nonbasic, up, down, tolerance, _MAX_PIVOTS
            )
            if n_pivots < 0:
                raise np.linalg.LinAlgError
            total += n_pivots
            is_row = nonbasic < n_rows
            self.on_margin = nonbasic[is_row]
            self.active = np.sort(basic[(basic >= n_rows) & (basic < n_rows + n_chosen)]) - n_rows
        gradient = np.where(above, up[basic], -down[basic])
        alphas = np.zeros(n_rows)
        alphas[basic[basic < n_rows]] = gradient[basic < n_rows]
        alphas[self.on_margin] = -slopes[is_row]
        return total, alphas, float(gradient @ values)

    def _table(self) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        """Return the tableau of this vertex: ``basic = values + table @ nonbasic``."""
        n_rows, n_chosen = self.signed.shape
        rest = np.delete(np.arange(n_rows), self.on_margin)
        idle = np.delete(np.arange(n_chosen), self.active)
        size = len(self.on_margin)
        inverse = np.linalg.inv(self._core(self.on_margin))
        others = self._core(rest)
        table = np.empty((n_rows, n_chosen + 1))
        table[:size, :size] = -inverse
        table[:size, size:] = -inverse @ self.signed[np.ix_(self.on_margin, idle)]
        np.matmul(-others, table[:size], out=table[size:])
        table[size:, size:] -= self.signed[np.ix_(rest, idle)]
        values = np.empty(n_rows)
        values[:size] = inverse @ self.margins[self.on_margin]
        values[size:] = self.margins[rest] - others @ values[:size]
        basic = np.concatenate([n_rows + self.active, [n_rows + n_chosen], rest])
        return table, values, basic, np.concatenate([self.on_margin, n_rows + idle])

    def _core(self, rows: IntArray) -> FloatArray:
        """Return the signed values of the active columns and of the intercept column."""
        return np.column_stack([self.signed[np.ix_(rows, self.active)], self.sign[rows]])

    def drop_idle(self, prices: FloatArray) -> None:
        """Remove columns of weight 0 whose price is far below 1."""
        kept = prices[self.chosen] > _IDLE_PRICE
        kept[self.active] = True
        self.active = np.cumsum(kept)[self.active] - 1
        self.chosen, self.signed = self.chosen[kept], self.signed[:, kept]

    def add(self, columns: IntArray, values: NDArray[Any]) -> None:
        """Add columns, at weight 0."""
        self.chosen = np.concatenate([self.chosen, columns])
        self.signed = np.concatenate([self.signed, self.sign[:, None] * values], axis=1)

    def solution(self) -> tuple[FloatArray, float, float]:
        """Return active weights, intercept and objective at margin 1; ties may make weights 0."""
        free: Any = np.linalg.solve(self._core(self.on_margin), np.ones(len(self.on_margin)))
        weights, intercept = free[:-1], float(free[-1])
        weights[np.abs(weights) < 100 * _TIE_BREAK * np.abs(weights).max(initial=0.0)] = 0.0
        margins = self.signed[:, self.active] @ weights + self.sign * intercept
        objective = np.abs(weights).sum() + self.row_costs @ np.maximum(0.0, 1.0 - margins)
        return weights, intercept, float(objective)
