"""Linear scores of instances: logistic losses over blocks of bags, and their minimisation."""

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from pigmil._core.segments import offsets_of, segment_blocks, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._standardise import centre_and_spread, linear_scores, standardised
from pigmil.estimators.base import AcceptsWeights, MaxInstanceClassifier
from pigmil.scale import LazyBags, hold_blocks, map_instances, map_reduce

_KEPT_ELEMENTS = 1 << 25  # standardised values kept in memory; above that blocks are made anew
_PIECE_ELEMENTS = 1 << 18  # standardised at a time, so that they stay in the cache

Loss = tuple[float, FloatArray, float]


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
    """Iterate over the instances in blocks of whole bags, centred and divided by one spread.

    Small data are standardised once and kept; large data are standardised again in every pass, so
    that no second copy is held. For bags on disk only sums over blocks are available
    (:meth:`total_loss`, :meth:`scores`); their values as stored are kept if they fit, see
    :func:`pigmil.scale.hold_blocks`.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    weights : array of shape (n_bags,), optional
        Their weights in centre and spread.

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
            self._parts = bags.partitions()
            self._source = hold_blocks(bags)
            return
        by_instance = None if weights is None else np.repeat(weights, bags.sizes)
        self.centre, self.spread = centre_and_spread(bags.instances, by_instance)
        if sp.issparse(bags.instances) or bags.instances.size <= _KEPT_ELEMENTS:
            self._kept = list(self._make())

    def __iter__(self) -> Iterator[Block]:
        return iter(self._kept) if self._kept is not None else self._make()

    def _make(self) -> Iterator[Block]:
        assert isinstance(self.bags, Bags)
        return standardised_pieces(self.bags, self.centre, self.spread, _PIECE_ELEMENTS)

    def total_loss(
        self, loss: Callable[[Block, FloatArray, float], Loss], coef: FloatArray, intercept: float
    ) -> Loss:
        """Return the sum over all blocks of a loss and of its derivatives."""
        if not isinstance(self.bags, LazyBags):
            losses = (loss(block, coef, intercept) for block in self)
            return functools.reduce(_add_losses, losses)
        bags = offsets_of(np.array([part.n_bags for part in self._parts]))
        rows = offsets_of(np.array([part.n_instances for part in self._parts]))
        centre, spread = self.centre, self.spread

        def block_loss(block: Bags, first_bag: int, first_row: int) -> Loss:
            pieces = standardised_pieces(
                block, centre, spread, _PIECE_ELEMENTS, first_bag=first_bag, first_row=first_row
            )
            return functools.reduce(_add_losses, (loss(own, coef, intercept) for own in pieces))

        return map_reduce(
            self._source, block_loss, _add_losses, bags[:-1].tolist(), rows[:-1].tolist()
        )

    def scores(self, coef: FloatArray, intercept: float) -> FloatArray:
        """Return ``coef . x + intercept`` of every standardised instance."""
        centre, spread = self.centre, self.spread
        return map_instances(
            lambda block: linear_scores(block.instances, centre, spread, coef, intercept), self.bags
        )


def standardised_pieces(
    bags: Bags,
    centre: FloatArray,
    spread: float,
    n_elements: int,
    *,
    first_bag: int = 0,
    first_row: int = 0,
) -> Iterator[Block]:
    """Yield blocks of whole bags with a bounded number of values, unless one bag has more.

    ``first_bag`` and ``first_row`` are the positions of the first bag and instance in the whole.
    """
    offsets = bags.offsets
    for first, last in segment_blocks(offsets, max(1, n_elements // max(1, bags.n_features))):
        start, stop = int(offsets[first]), int(offsets[last])
        yield Block(
            standardised(bags.instances[start:stop], centre, spread),
            offsets[first : last + 1] - start,
            slice(first_bag + first, first_bag + last),
            slice(first_row + start, first_row + stop),
        )


def _add_losses(left: Loss, right: Loss) -> Loss:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def softplus(values: FloatArray) -> FloatArray:
    """Return ``log(1 + exp(values))`` without overflow."""
    return np.logaddexp(0.0, values)


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
    coef: FloatArray,
    intercept: float,
    block: Block,
    targets: FloatArray,
    weights: FloatArray,
    sharpness: float,
) -> Loss:
    """Return the logistic loss of pooled scores over a block of bags, and its gradient.

    ``sum_b v_b [softplus(s_b) - t_b s_b]`` with ``s_b`` as in :func:`pooled_scores`; the
    derivative of ``s_b`` by the score of an instance is its share of ``sum exp(r s)``.

    Parameters
    ----------
    coef, intercept
        The linear score of an instance.
    block : Block
        Instances of the bags.
    targets, weights : array of shape (n_block_bags,)
        1 for positive bags, else 0; weight of every bag.
    sharpness : float
        ``r`` above.

    Returns
    -------
    (float, array, float)
        Loss, derivative by ``coef`` and by ``intercept``.
    """
    scores = block.instances @ coef + intercept
    pooled = pooled_scores(scores, block.offsets, sharpness)
    sizes = np.diff(block.offsets)
    shares = np.exp(sharpness * (scores - np.repeat(pooled, sizes))) / np.repeat(sizes, sizes)
    by_bag = weights * (expit(pooled) - targets)
    by_instance = np.repeat(by_bag, sizes) * shares
    loss = float(weights @ (softplus(pooled) - targets * pooled))
    return loss, np.asarray(block.instances.T @ by_instance), float(by_instance.sum())


def instance_loss(
    coef: FloatArray, intercept: float, block: Block, targets: FloatArray, weights: FloatArray
) -> Loss:
    """Return the logistic loss of instances with soft targets, and its gradient.

    ``sum_i v_i [softplus(s_i) - t_i s_i]``; arguments as in :func:`pooled_loss`, with one target
    and one weight per instance of the block.
    """
    scores = block.instances @ coef + intercept
    by_instance = weights * (expit(scores) - targets)
    loss = float(weights @ (softplus(scores) - targets * scores))
    return loss, np.asarray(block.instances.T @ by_instance), float(by_instance.sum())


def minimise_penalised(
    loss: Callable[[Block, FloatArray, float], Loss],
    blocks: StandardisedBlocks,
    start: tuple[FloatArray, float],
    *,
    C: float,
    tol: float,
    max_iter: int,
    name: str,
) -> tuple[FloatArray, float, int]:
    """Minimise ``|coef|^2 / 2 + C sum over blocks of loss`` by L-BFGS.

    Parameters
    ----------
    loss : callable
        Called with block, coef and intercept.
    blocks : StandardisedBlocks
        The data.
    start : (array, float)
        First coef and intercept.
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
    (array, float, int)
        coef, intercept and number of iterations.
    """
    scale = C * blocks.total_weight

    def value_and_gradient(point: FloatArray) -> tuple[float, FloatArray]:
        coef, intercept = point[:-1], float(point[-1])
        value, by_coef, by_intercept = blocks.total_loss(loss, coef, intercept)
        gradient = np.append(coef + C * by_coef, C * by_intercept)
        return (float(coef @ coef) / 2 + C * value) / scale, gradient / scale

    result = minimize(
        value_and_gradient,
        np.append(start[0], start[1]),
        jac=True,
        method="L-BFGS-B",
        options={"gtol": tol, "ftol": 1e-14, "maxiter": max_iter},
    )
    if result.nit >= max_iter:
        warnings.warn(
            f"{name} did not converge in {max_iter} iterations; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return result.x[:-1].copy(), float(result.x[-1]), int(result.nit)


class LinearScores(AcceptsWeights, MaxInstanceClassifier):
    """Score instances by ``coef_ . (x - centre_) / spread_ + intercept_``; the best decides."""

    _accepts_sparse = True

    def _set_linear(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        blocks: StandardisedBlocks,
        linear: tuple[FloatArray, float],
        costs: tuple[float, float] = (1.0, 1.0),
        weights: FloatArray | None = None,
    ) -> None:
        """Set the fitted attributes; move the intercept so that 0 separates the best scores."""
        self.centre_, self.spread_ = blocks.centre, blocks.spread
        self.coef_, intercept = linear
        scores = blocks.scores(self.coef_, intercept)
        self._set_threshold(bags, positive, scores, costs=costs, weights=weights)
        self.intercept_ = intercept - self.threshold_

    def _score_instances(self, bags: Bags) -> FloatArray:
        return linear_scores(
            bags.instances, self.centre_, self.spread_, self.coef_, self.intercept_
        )
