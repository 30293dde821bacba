"""The state of everything a model file built, checked before the model is handed out.

The lists of this library's classes are with the classes (see :mod:`pigmil._core.state`); those
of scikit-learn's classes are here. libsvm and the compiled kernels follow indices without looking
at the ends of arrays, so nothing they are given may point outside.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from pigmil._core import state
from pigmil._core.errors import ModelFileError

_PER_FEATURE = state.Floats(shape=("features",), optional=True, none=True)
_SCALE = state.Floats(shape=("features",), positive=True, optional=True, none=True)
_LINEAR: dict[str, state.Field] = {
    "coef_": state.Floats(shape=("rows", "features"), optional=True),
    "intercept_": state.Floats(shape=("rows",), optional=True),
}
_SKLEARN_STATE: dict[type, dict[str, state.Field]] = {
    StandardScaler: {"mean_": _PER_FEATURE, "scale_": _SCALE},
    MinMaxScaler: {"min_": _PER_FEATURE, "scale_": _PER_FEATURE},
    MaxAbsScaler: {"scale_": _SCALE},
    RobustScaler: {"center_": _PER_FEATURE, "scale_": _SCALE},
    VarianceThreshold: {
        "variances_": state.Floats(shape=("features",), optional=True, infinite=True)
    },
    PCA: {
        "mean_": _PER_FEATURE,
        "components_": state.Floats(shape=("components", "features"), optional=True),
    },
    LogisticRegression: _LINEAR,
    LinearSVC: _LINEAR,
}


def check_objects(objects: Iterable[tuple[str, Any]]) -> None:
    """Check parameters and fitted attributes of every object of a model file.

    Parameters
    ----------
    objects : iterable of (str, object)
        Place in the model, and the object.

    Raises
    ------
    ModelFileError
        For the first that no fit could have left.
    """
    for where, built in objects:
        try:
            if hasattr(built, "_parameter_constraints"):
                built._validate_params()
            _check_one(built)
        except Exception as error:  # attributes of any type stand where others are expected
            raise ModelFileError(f"{where}: {type(built).__name__}: {error}") from error


def _check_one(built: Any) -> None:
    special = _SPECIAL.get(type(built))
    if special is not None:
        special(built)
    if type(built) in _SKLEARN_STATE:
        state.check_state(built, _SKLEARN_STATE[type(built)])
    elif hasattr(type(built), "_state"):
        fitted = state.state_fields(type(built))
        held = getattr(built, "__dict__", None)
        # A model that was never fitted has none of them.
        if held is None or not isinstance(built, BaseEstimator) or set(fitted) & set(held):
            state.check_state(built)


def _check_pipeline(pipeline: Pipeline) -> None:
    for step in pipeline.steps:
        name, estimator = step
        known = estimator is None or estimator == "passthrough"
        if not isinstance(name, str) or not (known or isinstance(estimator, BaseEstimator)):
            raise state.StateError("steps are not names and estimators")


def _check_svc(svc: SVC) -> None:
    """Check all that is handed to libsvm, which looks at no bounds."""
    if not hasattr(svc, "support_"):
        return
    if callable(svc.kernel):
        raise state.StateError("kernel is a function")
    n_classes = len(svc.classes_)
    n_support = len(svc.support_)
    rows, columns = (int(length) for length in svc.shape_fit_)
    per_class = svc._n_support
    if per_class.dtype != np.int32 or per_class.shape != (n_classes,) or n_classes < 2:
        raise state.StateError("_n_support does not have one count per class")
    if (per_class < 0).any() or int(per_class.sum(dtype=np.int64)) != n_support:
        raise state.StateError("_n_support does not add up to the support vectors")
    if svc.support_.dtype != np.int32 or svc.support_.ndim != 1:
        raise state.StateError("support_ is not an array of indices")
    if n_support and not 0 <= svc.support_.min() <= svc.support_.max() < rows:
        raise state.StateError("support_ holds indices outside the training rows")
    if svc.n_features_in_ != columns or (svc.kernel == "precomputed" and rows != columns):
        raise state.StateError("shape_fit_ and n_features_in_ differ")
    pairs = n_classes * (n_classes - 1) // 2
    _check_matrix(svc, "_dual_coef_", (n_classes - 1, n_support))
    _check_matrix(svc, "dual_coef_", (n_classes - 1, n_support))
    if svc.kernel != "precomputed":
        _check_matrix(svc, "support_vectors_", (n_support, columns))
    for name, lengths in (
        ("_intercept_", (pairs,)), ("intercept_", (pairs,)), ("_probA", (0, pairs)),
        ("_probB", (0, pairs)), ("class_weight_", (n_classes,)),
    ):  # fmt: skip
        values = getattr(svc, name)
        if values.dtype != np.float64 or values.ndim != 1 or len(values) not in lengths:
            raise state.StateError(f"{name} has {values.shape} values of {values.dtype}")
        state.Floats(shape=None).verify(values, name, {})
    state.Number(low=0).bind(svc._gamma, "_gamma", {})
    if not isinstance(svc._sparse, bool) or svc._sparse != sp.issparse(svc._dual_coef_):
        raise state.StateError("_sparse is not what the coefficients are")
    if not isinstance(svc._effective_probability, bool):
        raise state.StateError("_effective_probability is neither true nor false")


def _check_matrix(svc: SVC, name: str, shape: tuple[int, int]) -> None:
    value = getattr(svc, name)
    if sp.issparse(value) != svc._sparse or value.shape != shape or value.dtype != np.float64:
        raise state.StateError(f"{name} is not a table of {shape[0]} by {shape[1]}")
    if sp.issparse(value) and not value.indices.dtype == value.indptr.dtype == np.int32:
        raise state.StateError(f"{name} does not have 32-bit indices")
    state.Floats(shape=None, sparse=True).verify(value, name, {})


_SPECIAL: dict[type, Callable[[Any], None]] = {SVC: _check_svc, Pipeline: _check_pipeline}
