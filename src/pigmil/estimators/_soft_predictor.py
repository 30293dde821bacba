"""The score of SoftPIGMIL's committee in as few matrix products as possible.

All linear views on linear scales are one vector. The products with the landmarks of all scales are
one matrix product with the instances as they are: scales are folded into the landmarks. Kernels of
several widths share the distances of their scale.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from pigmil._core.typing import FloatArray
from pigmil.estimators._soft_views import Scale, View

_BLOCK_ROWS = 1024


class Predictor:
    """Sum of the linear scores of some views of dense instances, compiled for speed.

    Parameters
    ----------
    scales : sequence of Scale
        The scales, fitted on centred instances.
    landmarks : sequence of array of shape (n_landmarks, n_features)
        Landmarks on each scale.
    views, coefs : sequences
        Views that do not use landmarks linearly, and the weights of their directions.

    Notes
    -----
    With ``A`` the scale's factors times its rotation, ``|xA - z|^2 = |xA|^2 + |z|^2 - 2 x.(Az)``.
    ``|xA|^2`` is ``x^2 . factor^2`` without a rotation, else ``|xL|^2`` with the triangular ``L``
    of ``AA' = LL'``, which takes half the time of ``xA``.
    """

    def __init__(
        self,
        scales: Sequence[Scale],
        landmarks: Sequence[Any],
        views: Sequence[View],
        coefs: Sequence[FloatArray],
    ) -> None:
        numbers = {view.scale for view in views}
        # Ranks are no linear map of the features: each such scale has a product of its own.
        plain = [number for number in sorted(numbers) if scales[number].knots is None]
        ranked = [[number] for number in sorted(numbers) if scales[number].knots is not None]
        pairs = list(zip(views, coefs, strict=True))
        self._parts = [
            _Part(scales, landmarks, [pair for pair in pairs if pair[0].scale in group])
            for group in [plain, *ranked]
            if group
        ]

    def scores(self, instances: Any) -> FloatArray:
        """Return the score of every instance.

        Parameters
        ----------
        instances : array or CSR of shape (n_instances, n_features)
            Dense in blocks of rows.
        """
        total = np.zeros(instances.shape[0])
        for start in range(0, len(total), _BLOCK_ROWS):
            rows = instances[start : start + _BLOCK_ROWS]
            rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
            for part in self._parts:
                total[start : start + len(rows)] += part.scores(rows)
        return total


@dataclass(frozen=True)
class _Kernels:
    """The kernels of one scale: ``sum over widths and landmarks of weight exp(-gamma |x - z|^2)``.

    ``exponents`` holds ``-gamma |z|^2`` for the smallest gamma, ``powers`` the other gammas as
    multiples of it; ``columns`` are those of ``2 gamma x.z`` in the product.
    """

    columns: slice
    gamma: float
    exponents: NDArray[Any]
    squares: NDArray[Any] | None
    triangle: NDArray[Any] | None
    powers: list[tuple[float, NDArray[Any]]]


class _Part:
    """Views on scales that share a map of single features (none, or their ranks)."""

    def __init__(
        self,
        scales: Sequence[Scale],
        landmarks: Sequence[Any],
        pairs: Sequence[tuple[View, FloatArray]],
    ) -> None:
        numbers = sorted({view.scale for view, _ in pairs})
        first = scales[numbers[0]]
        self._table = Scale(
            first.kind, np.zeros_like(first.center), np.ones_like(first.center),
            first.knots, first.levels,
        )  # fmt: skip
        # Kernels take the time: a vector alone is as quick in double precision.
        kernels_on = {view.scale for view, _ in pairs if view.width is not None}
        single = bool(kernels_on) and all(scales[at].single for at in kernels_on)
        self._dtype = np.float32 if single else np.float64
        # Rounded, so that subtracting it from instances in single precision loses nothing.
        self._origin = first.center
        if np.abs(first.center).max(initial=0.0) < np.finfo(np.float32).max:
            self._origin = first.center.astype(np.float32).astype(np.float64)
        self._constant = 0.0
        linear = np.zeros(len(first.center))
        columns = []
        self._kernels: list[_Kernels] = []
        n_columns = 0
        for number in numbers:
            scale = scales[number]
            own = [(view, coef) for view, coef in pairs if view.scale == number]
            moved = _rotated((self._origin - scale.center) * scale.factor, scale)
            for view, coef in own:
                self._constant -= float(view.shift @ coef)
                if view.width is None:
                    weights = view.projection @ coef
                    linear += scale.factor * _rotated_back(weights, scale)
                    self._constant += float(moved @ weights)
            kernels = [(view.gamma, view.projection @ coef) for view, coef in own if view.width]
            if kernels:
                marks = np.asarray(landmarks[number], dtype=np.float64) - moved
                gamma = min(gamma for gamma, _ in kernels)
                columns.append(2.0 * gamma * (scale.factor * _rotated_back(marks, scale)).T)
                self._kernels.append(self._compile(scale, marks, kernels, n_columns))
                n_columns += len(marks)
        self._matrix = np.column_stack([*columns, linear]).astype(self._dtype)

    def _compile(
        self, scale: Scale, marks: FloatArray, kernels: list[tuple[float, FloatArray]], start: int
    ) -> _Kernels:
        gamma = min(gamma for gamma, _ in kernels)
        squares = triangle = None
        if scale.rotation is None:
            squares = (scale.factor**2).astype(self._dtype)
        else:
            upper = np.asarray(np.linalg.qr(scale.rotation.T * scale.factor, mode="r"))
            triangle = np.asfortranarray(upper.T, dtype=self._dtype)
        return _Kernels(
            slice(start, start + len(marks)),
            gamma,
            (-gamma * np.einsum("ij,ij->i", marks, marks)).astype(self._dtype),
            squares,
            triangle,
            [(width / gamma, weights.astype(self._dtype)) for width, weights in kernels],
        )

    def scores(self, rows: NDArray[Any]) -> FloatArray:
        """Return the scores of one block of rows."""
        if self._table.knots is not None:
            rows = self._table.apply(rows)
        precision = np.result_type(rows, self._dtype)
        values = np.subtract(rows, self._origin.astype(precision), dtype=precision)
        values = values.astype(self._dtype, copy=False)
        products = values @ self._matrix
        total = products[:, -1] + self._constant
        for part in self._kernels:
            lengths = _square_lengths(values, part)
            exponents = products[:, part.columns] + part.exponents
            exponents -= (part.gamma * lengths)[:, None]
            np.minimum(exponents, 0.0, out=exponents)
            kernels = np.empty_like(exponents)
            for power, weights in part.powers:
                np.multiply(exponents, power, out=kernels)
                np.exp(kernels, out=kernels)
                total += kernels @ weights
        return np.asarray(total, dtype=np.float64)


def _square_lengths(values: NDArray[Any], part: _Kernels) -> NDArray[Any]:
    """Return the squared length of every instance on the scale of some kernels."""
    if part.squares is not None:
        return np.asarray((values * values) @ part.squares)
    multiply = blas.strmm if values.dtype == np.float32 else blas.dtrmm
    rotated = multiply(1.0, part.triangle, values.T, lower=1, trans_a=1)
    return np.asarray(np.einsum("ji,ji->i", rotated, rotated))


def _rotated(rows: FloatArray, scale: Scale) -> FloatArray:
    return rows if scale.rotation is None else np.asarray(rows @ scale.rotation)


def _rotated_back(rows: FloatArray, scale: Scale) -> FloatArray:
    return rows if scale.rotation is None else np.asarray(rows @ scale.rotation.T)
