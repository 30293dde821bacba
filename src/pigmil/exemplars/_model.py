"""Exemplar classifiers as results, and the negatives that all of them are trained against."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_array

from pigmil._core.typing import FloatArray

_BLOCK_ELEMENTS = 1 << 22


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
        is_sparse = sp.issparse(instances)
        result = (instances @ self.weights.T).T if is_sparse else self.weights @ instances.T
        return result + self.intercepts[:, None] if include_bias else result


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
    model, and keeps the digits that a common offset would cost. The unit of length is the largest
    value, so that no square overflows. Sparse negatives are not centred.

    Parameters
    ----------
    negatives : ndarray, memmap or CSR of shape (n, d)
        Finite float32 or float64 rows. Dense ones are copied in single precision.
    """

    def __init__(self, negatives: Any) -> None:
        self._source = negatives
        self.is_sparse = bool(sp.issparse(negatives))
        self.n, self.d = negatives.shape
        self.mean = np.zeros(self.d)
        self.scale = float(max(negatives.max(), -negatives.min())) or 1.0
        if not self.is_sparse:
            self.mean = negatives.mean(axis=0, dtype=np.float64)
            self._single = np.empty((self.n, self.d), np.float32)
            step = max(1, _BLOCK_ELEMENTS // self.d)
            for start in range(0, self.n, step):
                self._single[start : start + step] = self.rows(slice(start, start + step))
            squares = np.einsum("ij,ij->i", self._single, self._single)
            self._longest = float(np.sqrt(squares.max()))

    def points(self, rows: Any) -> FloatArray:
        """Return instances in the coordinates of the negatives, dense and in double precision."""
        dense = rows.toarray() if sp.issparse(rows) else rows
        prepared: FloatArray = np.asarray(dense, np.float64) - self.mean
        prepared /= self.scale
        return prepared

    def rows(self, index: Any) -> Any:
        """Return some negatives in double precision, CSR if they are sparse."""
        if self.is_sparse:
            return self._source[index].astype(np.float64) / self.scale
        return self.points(self._source[index])

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
        step = stride * max(256, _BLOCK_ELEMENTS // 4 // max(1, len(weights)))
        for start in range(0, self.n, step):
            yield start, single @ self._single[start : start + step : stride].T

    def score_error(self, weights: FloatArray) -> FloatArray:
        """Return the bound on the rounding error of a score, for each row of ``weights``."""
        bound = (self.d + 3) * np.finfo(np.float32).eps / 2
        length = np.sqrt(np.einsum("ij,ij->i", weights, weights))
        error: FloatArray = bound / (1.0 - bound) * length * self._longest
        return error
