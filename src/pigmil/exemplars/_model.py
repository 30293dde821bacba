"""Protocol of the exemplar classifiers: the confidence of exemplar i in instance j."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from pigmil._core.typing import FloatArray

_BLOCK_ELEMENTS = 1 << 22


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
