"""Standardised instances and their linear scores: logistic losses over blocks of bags."""

import operator
import warnings
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import offsets_of, segment_blocks, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators.base import AcceptsWeights, MaxInstanceClassifier
from pigmil.scale import LazyBags, column_moments, hold_blocks, map_instances, map_reduce

_KEPT_ELEMENTS = 1 << 25  # standardised values kept in memory; above that blocks are made anew
_PIECE_ELEMENTS = 1 << 18  # standardised at a time, so that they stay in the cache

# From a block and the point (coef, intercept) to the loss and its derivatives by the point, in one
# array of shape (n_features + 2,), so that the losses of blocks can be added.
Loss = Callable[["Block", FloatArray], FloatArray]


class Block(NamedTuple):
    """Standardised instances of some whole bags.

    Attributes
    ----------
    instances : array or CSR of shape (n_rows, n_features)
    offsets : array of int of shape (n_block_bags + 1,)
        Where each bag of the block begins, counted from the first row of the block.
    bags, rows : slice
        Which bags and which instances of the whole these are.
    """

    instances: Any
    offsets: IntArray
    bags: slice
    rows: slice


class StandardisedBlocks:
    """Sums over instances that are centred and divided by one spread, in blocks of whole bags.

    Small data are standardised once and kept; large data are standardised again in every pass, so
    that no second copy is held. Bags on disk are kept as stored if they fit, see
    :func:`pigmil.scale.hold_blocks`.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    weights : array of shape (n_bags,), optional
        Their weights in centre and spread, for bags in memory.

    Attributes
    ----------
    centre : array of shape (n_features,)
    spread : float
    total_weight : float
        Sum of the weights of the bags.
    """

    def __init__(self, bags: Bags | LazyBags, weights: FloatArray | None = None) -> None:
        self.bags = bags
        self.total_weight = float(bags.n_bags if weights is None else weights.sum())
        self._kept: list[Block] | None = None
        if isinstance(bags, LazyBags):
            self.centre, self.spread = centre_and_spread(bags)
            self._source = hold_blocks(bags)
            return
        by_instance = None if weights is None else np.repeat(weights, bags.sizes)
        self.centre, self.spread = centre_and_spread(bags.instances, by_instance)
        if bags.is_sparse or bags.instances.size <= _KEPT_ELEMENTS:
            self._kept = list(standardised_pieces(bags, self.centre, self.spread))

    def total_loss(self, loss: Loss, point: FloatArray) -> FloatArray:
        """Return the sum over all blocks of a loss and of its derivatives."""
        if self._kept is not None:
            return reduce(operator.add, (loss(block, point) for block in self._kept))
        centre, spread = self.centre, self.spread

        def loss_of(bags: Bags, first_bag: int = 0, first_row: int = 0) -> FloatArray:
            pieces = standardised_pieces(bags, centre, spread, first_bag, first_row)
            return reduce(operator.add, (loss(block, point) for block in pieces))

        if not isinstance(self.bags, LazyBags):
            return loss_of(self.bags)
        parts = self.bags.partitions()
        firsts = [
            offsets_of(np.array(sizes))[:-1].tolist()
            for sizes in ([part.n_bags for part in parts], [part.n_instances for part in parts])
        ]
        return map_reduce(self._source, loss_of, operator.add, *firsts)

    def scores(self, point: FloatArray) -> FloatArray:
        """Return ``coef . x + intercept`` of every standardised instance."""
        linear = self.centre, self.spread, point[:-1], float(point[-1])
        return map_instances(lambda block: linear_scores(block.instances, *linear), self.bags)


def standardised_pieces(
    bags: Bags, centre: FloatArray, spread: float, first_bag: int = 0, first_row: int = 0
) -> Iterator[Block]:
    """Yield blocks of whole bags with a bounded number of values, unless one bag has more.

    ``first_bag`` and ``first_row`` are the positions of the first bag and instance in the whole.
    """
    offsets = bags.offsets
    for first, last in segment_blocks(offsets, max(1, _PIECE_ELEMENTS // max(1, bags.n_features))):
        start, stop = int(offsets[first]), int(offsets[last])
        yield Block(
            standardised(bags.instances[start:stop], centre, spread),
            offsets[first : last + 1] - start,
            slice(first_bag + first, first_bag + last),
            slice(first_row + start, first_row + stop),
        )


def pooled_scores(scores: FloatArray, offsets: IntArray, sharpness: float) -> FloatArray:
    """Pool instance scores by log-mean-exp: ``log(mean over the bag of exp(r s)) / r``.

    Between the mean (``r`` near 0) and the maximum (``r`` large) of a bag's scores.

    Examples
    --------
    >>> import numpy as np
    >>> pooled_scores(np.array([0.0, np.log(3.0), 5.0]), np.array([0, 2, 3]), 1.0).round(4)
    array([0.6931, 5.    ])
    """
    highest = segment_reduce(np.maximum, scores, offsets)
    sizes = np.diff(offsets)
    powers = np.exp(sharpness * (scores - np.repeat(highest, sizes)))
    result: FloatArray = (
        highest + np.log(segment_reduce(np.add, powers, offsets) / sizes) / sharpness
    )
    return result


def pooled_loss(
    block: Block, point: FloatArray, targets: FloatArray, weights: FloatArray, sharpness: float
) -> FloatArray:
    """Return the logistic loss of pooled scores over a block of bags, and its gradient.

    ``sum_b v_b [log(1 + exp(s_b)) - t_b s_b]`` with ``s_b`` as in :func:`pooled_scores`; the
    derivative of ``s_b`` by the score of an instance is its share of ``sum exp(r s)``.

    Parameters
    ----------
    block : Block
        Instances of the bags.
    point : array of shape (n_features + 1,)
        Coefficients and intercept of the linear score of an instance.
    targets, weights : array of shape (n_block_bags,)
        1 for positive bags, else 0; weight of every bag.
    sharpness : float
        ``r`` above.

    Returns
    -------
    array of shape (n_features + 2,)
        Loss and derivatives by the point.
    """
    scores = block.instances @ point[:-1] + point[-1]
    pooled = pooled_scores(scores, block.offsets, sharpness)
    sizes = np.diff(block.offsets)
    shares = np.exp(sharpness * (scores - np.repeat(pooled, sizes))) / np.repeat(sizes, sizes)
    by_bag = weights * (expit(pooled) - targets)
    by_instance = np.repeat(by_bag, sizes) * shares
    return _joined(_logistic_loss(pooled, targets, weights), block, by_instance)


def instance_loss(
    block: Block, point: FloatArray, targets: FloatArray, weights: FloatArray
) -> FloatArray:
    """Return the logistic loss of instances with soft targets, and its gradient.

    ``sum_i v_i [log(1 + exp(s_i)) - t_i s_i]``; arguments as in :func:`pooled_loss`, with one
    target and one weight per instance of the block.
    """
    scores = block.instances @ point[:-1] + point[-1]
    by_instance = weights * (expit(scores) - targets)
    return _joined(_logistic_loss(scores, targets, weights), block, by_instance)


def _logistic_loss(scores: FloatArray, targets: FloatArray, weights: FloatArray) -> float:
    return float(weights @ (np.logaddexp(0.0, scores) - targets * scores))


def _joined(value: float, block: Block, by_instance: FloatArray) -> FloatArray:
    return np.concatenate([[value], block.instances.T @ by_instance, [by_instance.sum()]])


def minimise_penalised(
    loss: Loss,
    blocks: StandardisedBlocks,
    start: FloatArray,
    *,
    C: float,
    tol: float,
    max_iter: int,
    name: str,
) -> tuple[FloatArray, int]:
    """Minimise ``|coef|^2 / 2 + C sum over blocks of loss`` by L-BFGS.

    Parameters
    ----------
    loss : callable
        Called with a block and a point.
    blocks : StandardisedBlocks
        The data.
    start : array of shape (n_features + 1,)
        First coefficients and intercept.
    C : float
        Weight of the loss.
    tol : float
        Largest component of the gradient, divided by ``C`` and the
        weight of all bags, at the end.
    max_iter : int
        Largest number of iterations; a ConvergenceWarning is raised if they do not suffice.
    name : str
        Method named in the warning.

    Returns
    -------
    (array, int)
        Coefficients and intercept, and number of iterations.
    """
    scale = C * blocks.total_weight

    def value_and_gradient(point: FloatArray) -> tuple[float, FloatArray]:
        total = C * blocks.total_loss(loss, point)
        coef, gradient = point[:-1], total[1:]
        gradient[:-1] += coef
        return (float(coef @ coef) / 2 + float(total[0])) / scale, gradient / scale

    options = {"gtol": tol, "ftol": 1e-14, "maxiter": max_iter}
    result = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
    if result.nit >= max_iter:
        warnings.warn(
            f"{name} did not converge in {max_iter} iterations; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return result.x, int(result.nit)


class LinearScores(AcceptsWeights, MaxInstanceClassifier):
    """Score instances by ``coef_ . (x - centre_) / spread_ + intercept_``; the best decides."""

    _accepts_sparse = True

    def _set_linear(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        blocks: StandardisedBlocks,
        point: FloatArray,
        costs: tuple[float, float] = (1.0, 1.0),
        weights: FloatArray | None = None,
    ) -> None:
        """Set the fitted attributes; move the intercept so that 0 separates the best scores."""
        self.centre_, self.spread_ = blocks.centre, blocks.spread
        self.coef_ = point[:-1].copy()
        self._set_threshold(bags, positive, blocks.scores(point), costs=costs, weights=weights)
        self.intercept_ = float(point[-1]) - self.threshold_

    def _score_instances(self, bags: Bags) -> FloatArray:
        return linear_scores(
            bags.instances, self.centre_, self.spread_, self.coef_, self.intercept_
        )


_CACHED_ELEMENTS = 1 << 17  # values of double precision that fit in the cache of a processor


def centre_and_spread(
    instances: Any, weights: FloatArray | None = None
) -> tuple[FloatArray, float]:
    """Return the mean of the instances and the root of the mean variance of the features.

    After subtraction and division a method behaves the same on data of any offset and scale, and
    as before on z-scored data. Constant features do not count: with one more of them a method
    would otherwise see larger values. The mean of sparse instances is taken to be 0, which keeps
    them sparse. Takes a table of instances, with weights if wanted, or lazy bags.

    Examples
    --------
    >>> import numpy as np
    >>> centre, spread = centre_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> centre, round(spread, 6)
    (array([2., 5.]), 1.0)
    """
    is_sparse = instances.is_sparse if isinstance(instances, LazyBags) else sp.issparse(instances)
    mean, variance = column_moments(instances, weights)
    # Rounding leaves this much of a constant; sparse variances are differences of squares.
    rounding = (1e-12 if is_sparse else 1e-24) * mean**2
    n_varying = max(1, int((variance > rounding).sum()))
    total = float(variance.sum())
    spread = float(np.sqrt(total / 2)) * float(np.sqrt(2.0 / n_varying)) if total > 0 else 1.0
    return (np.zeros(len(mean)) if is_sparse else mean), spread


def standardised(instances: Any, centre: FloatArray, spread: float) -> Any:
    """Subtract the centre (unless the instances are sparse) and divide by the spread."""
    if sp.issparse(instances):
        return instances / spread
    values = np.array(instances, dtype=np.float64)
    values -= centre
    values /= spread
    return values


def linear_scores(
    instances: Any, centre: FloatArray, spread: float, coef: FloatArray, intercept: float
) -> FloatArray:
    """Return ``coef . x + intercept`` of every standardised instance, in blocks of rows.

    Blocks are small enough for the cache, so that this takes little more time than to read the
    instances once.

    Examples
    --------
    >>> import numpy as np
    >>> linear_scores(np.array([[3.0], [5.0]]), np.array([1.0]), 2.0, np.array([10.0]), 0.5)
    array([10.5, 20.5])
    """
    weights = coef / spread
    if sp.issparse(instances):
        return np.asarray(instances @ weights + intercept, dtype=np.float64)
    scores = np.empty(instances.shape[0])
    step = max(1, _CACHED_ELEMENTS // max(1, instances.shape[1]))
    for start in range(0, len(scores), step):
        rows = instances[start : start + step].astype(np.float64)
        rows -= centre
        scores[start : start + step] = rows @ weights
    return scores + intercept
