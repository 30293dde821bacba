"""Exemplar classifiers as results, and the negatives that all of them are trained against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_array

from pigmil._core.typing import FloatArray

_BLOCK_ELEMENTS = 1 << 22
_FAST_BYTES = 1 << 30  # of negatives kept in single precision
_SAME = 1e-15  # of the largest entry: what rounding leaves between equal rows


class Confidence(Protocol):
    """Protocol of a family of classifiers: the confidence of exemplar i in instance j."""

    def confidence(self, instances: Any, include_bias: bool = True) -> FloatArray:
        """Return the confidence of each exemplar (rows) in each instance (columns)."""


@dataclass(frozen=True)
class ExemplarClassifiers:
    """One linear classifier per exemplar.

    Attributes
    ----------
    weights : ndarray of shape (m, d)
        Normal vectors.
    intercepts : ndarray of shape (m,)
        Biases; the decision value is ``weights @ x + intercepts``.
    duality_gap : ndarray of shape (m,)
        Duality gap over the dual objective, an upper bound on the relative error of the
        objective. Zero for a closed form.

    Examples
    --------
    >>> import numpy as np
    >>> one = ExemplarClassifiers(np.array([[1.0]]), np.array([-1.0]), np.zeros(1))
    >>> one.confidence([[2.0], [0.0]])
    array([[ 1., -1.]])
    """

    weights: FloatArray
    intercepts: FloatArray
    duality_gap: FloatArray

    def confidence(self, instances: Any, include_bias: bool = True) -> FloatArray:
        """Return the confidence of each classifier (rows) in each instance (columns).

        Parameters
        ----------
        instances : array-like or CSR of shape (n, d)
            The instances.
        include_bias : bool, default=True
            Whether to add the intercept (the decision value); the paper prints ``w.x`` alone.

        Returns
        -------
        ndarray of shape (m, n)
        """
        instances = check_array(instances, accept_sparse="csr", dtype=[np.float64, np.float32])
        m, n = len(self.weights), instances.shape[0]
        result = np.empty((m, n))
        step = max(1, _BLOCK_ELEMENTS // self.weights.shape[1])
        for start in range(0, n, step):
            block = instances[start : start + step]
            if sp.issparse(block):
                result[:, start : start + step] = (block @ self.weights.T).T
            else:
                np.matmul(self.weights, block.T, out=result[:, start : start + step])
        if include_bias:
            result += self.intercepts[:, None]
        return result


def check_pair(candidates: Any, negatives: Any) -> tuple[Any, Any]:
    """Return both inputs validated: finite rows with the same features."""
    candidates, negatives = (
        check_array(rows, accept_sparse="csr", dtype=[np.float64, np.float32], input_name=name)
        for rows, name in ((candidates, "candidates"), (negatives, "negatives"))
    )
    if candidates.shape[1] != negatives.shape[1]:
        raise ValueError(
            f"candidates have {candidates.shape[1]} features but negatives have "
            f"{negatives.shape[1]}; both must describe instances by the same features."
        )
    return candidates, negatives


class SharedNegatives:
    """Negatives, centred and scaled, whose scores are computed in blocks of bounded memory.

    The exemplar SVM depends only on differences between instances. Centring does not change the
    model, and keeps the digits that a common offset would cost. The unit of length is the root
    mean square distance from the centre. Sparse negatives are not centred.

    Parameters
    ----------
    negatives : ndarray, memmap or CSR of shape (n, d)
        Finite float32 or float64 rows. Never copied whole into double precision when large.
    candidates : ndarray or CSR of shape (m, d)
        Only used for the unit of length if all negatives are equal.
    """

    def __init__(self, negatives: Any, candidates: Any) -> None:
        self._source = negatives
        self.is_sparse = bool(sp.issparse(negatives))
        self.n, self.d = negatives.shape
        self.mean = np.zeros(self.d)
        self.scale = 1.0
        self._fast: npt.NDArray[np.float32] | None
        self._step = max(1, _BLOCK_ELEMENTS // max(1, self.d))
        keep = not self.is_sparse and self.n * self.d * 4 <= _FAST_BYTES
        self._fast = np.empty((self.n, self.d), np.float32) if keep else None
        self.longest = self._measure(candidates)

    def _measure(self, candidates: Any) -> float:
        """Set centre, unit and the fast copy; return the length of the longest negative."""
        # Divide by the largest entry first, so that no square overflows.
        if self.is_sparse:
            self.scale = float(abs(self._source).max()) or 1.0
            scaled = self._source / self.scale
            squares = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
        else:
            peak = 0.0
            for start in range(0, self.n, self._step):
                block = self._source[start : start + self._step]
                peak = max(peak, float(block.max()), -float(block.min()))
                self.mean += block.sum(axis=0, dtype=np.float64) / self.n
            self.scale = peak or 1.0
            squares = np.empty(self.n)
            for chosen, prepared in self.blocks():
                squares[chosen] = np.einsum("ij,ij->i", prepared, prepared)
                if self._fast is not None:
                    self._fast[chosen] = prepared
        unit = float(np.sqrt(squares.mean()))
        if unit <= _SAME:  # all negatives are equal: the candidates give the unit
            unit = float(np.abs(self.points(candidates)).max(initial=0.0))
            unit = unit if unit > _SAME else 1.0
        self.scale *= unit
        if self._fast is not None:
            self._fast /= np.float32(unit)
        return float(np.sqrt(squares.max())) / unit

    def points(self, rows: Any) -> FloatArray:
        """Return instances in the coordinates of the negatives, dense and in double precision."""
        dense = rows.toarray() if sp.issparse(rows) else rows
        prepared: FloatArray = np.asarray(dense, np.float64) - self.mean
        prepared /= self.scale
        return prepared

    def rows(self, index: npt.NDArray[np.int64]) -> Any:
        """Return some negatives in double precision, CSR if they are sparse."""
        if self.is_sparse:
            return self._source[index].astype(np.float64) / self.scale
        return self.points(self._source[index])

    def exact_scores(self, weight: FloatArray) -> FloatArray:
        """Return the scores of all negatives by one weight vector, in double precision."""
        if self.is_sparse:
            return np.asarray(self._source @ weight) / self.scale
        return np.concatenate([rows @ weight for _, rows in self.blocks()])

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield all negatives in blocks, dense and in double precision."""
        for start in range(0, self.n, self._step):
            chosen = slice(start, min(start + self._step, self.n))
            yield chosen, self.points(self._source[chosen])

    def scores(
        self, weights: FloatArray, stride: int = 1
    ) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Yield the scores of every ``stride``-th dense negative by each row of ``weights``.

        In blocks and in single precision; `score_error` bounds its error.

        Yields
        ------
        first : int
            Index of the negative in column 0; column c is negative ``first + c * stride``.
        scores : ndarray of shape (len(weights), block)
        """
        single = weights.astype(np.float32)
        width = max(256, _BLOCK_ELEMENTS // 4 // max(1, len(weights)))
        for start in range(0, self.n, width * stride):
            chosen = slice(start, min(start + width * stride, self.n), stride)
            if self._fast is not None:
                block = self._fast[chosen]
            else:
                block = self.points(self._source[chosen]).astype(np.float32)
            yield start, single @ block.T

    def score_error(self, weights: FloatArray) -> FloatArray:
        """Return the bound on the rounding error of a score, for each row of ``weights``."""
        bound = (self.d + 3) * np.finfo(np.float32).eps / 2
        length = np.sqrt(np.einsum("ij,ij->i", weights, weights))
        error: FloatArray = bound / (1.0 - bound) * length * self.longest
        return error
