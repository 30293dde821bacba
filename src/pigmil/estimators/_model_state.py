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
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    LabelBinarizer,
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

from pigmil._core import state
from pigmil._core.errors import ModelFileError
from pigmil.bags import OnInstances
from pigmil.estimators.base import BaseMIL

_SCORES = ("decision_function", "decision_function_instances", "predict_proba")
_PER_FEATURE = state.Floats(shape=("features",), none=True)
_SCALE = state.Floats(shape=("features",), positive=True, none=True)
_LINEAR: dict[str, state.Field] = {
    "coef_": state.Floats(shape=("rows", "features")),
    "intercept_": state.Floats(shape=("rows",)),
    "classes_": state.Array(shape=("classes",), kinds="biufUO", least=2),
}
_PER_CLASS: dict[str, state.Field] = {
    **BaseMIL._state,
    "classes_": state.Array(shape=("classes",), kinds="biufUO", least=3),
    "instance_scores_": state.Floats(
        shape=("instances", "classes"), nan=True, infinite=True, optional=True
    ),
    "probability_slope_": state.Number(optional=True),
}
_SKLEARN_STATE: dict[type, dict[str, state.Field]] = {
    StandardScaler: {"mean_": _PER_FEATURE, "scale_": _SCALE},
    MinMaxScaler: {"min_": _PER_FEATURE, "scale_": _PER_FEATURE},
    MaxAbsScaler: {"scale_": _SCALE},
    RobustScaler: {"center_": _PER_FEATURE, "scale_": _SCALE},
    VarianceThreshold: {"variances_": state.Floats(shape=("features",), infinite=True)},
    PCA: {
        "mean_": _PER_FEATURE,
        "components_": state.Floats(shape=("components", "features")),
        "explained_variance_": state.Floats(shape=("components",)),
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
    if isinstance(built, BaseMIL) and "estimators_" in vars(built):
        _check_one_per_class(built)
        return
    special = _SPECIAL.get(type(built))
    if special is not None:
        special(built)
    if type(built) in _SKLEARN_STATE:
        fields = _SKLEARN_STATE[type(built)]
        if not {"n_features_in_", *fields} & set(vars(built)):  # never fitted
            return
        if "n_features_in_" not in vars(built):  # scikit-learn compares nothing without it
            raise state.StateError("n_features_in_ is missing")
        sizes = state.check_state(built, fields)
        n_classes = sizes.get("classes", 0)
        if n_classes and sizes["rows"] != (1 if n_classes == 2 else n_classes):
            raise state.StateError(f"coef_ has {sizes['rows']} rows for {n_classes} classes")
    elif hasattr(type(built), "_state"):
        fitted = state.state_fields(type(built))
        held = getattr(built, "__dict__", None)
        # A model that was never fitted has none of them.
        if held is None or not isinstance(built, BaseEstimator) or set(fitted) & set(held):
            state.check_state(built)


def _check_one_per_class(model: BaseMIL) -> None:
    """Check a method fitted to more than two classes: it holds one fitted model per class."""
    state.check_state(model, _PER_CLASS)
    classes, fitted = model.classes_, model.estimators_
    if np.unique(classes).tolist() != classes.tolist():
        raise state.StateError("classes_ are not different labels in order")
    if not isinstance(fitted, list) or len(fitted) != len(classes):
        raise state.StateError("estimators_ are not one per class")
    for one in fitted:
        if type(one) is not type(model) or "estimators_" in vars(one):
            raise state.StateError("estimators_ are not models of two classes of this method")
        if state.check_state(one)["features"] != model.n_features_in_:
            raise state.StateError("estimators_ take other features")


def _check_pipeline(pipeline: Pipeline) -> None:
    if pipeline.memory is not None:  # a folder of pickles, which a fit would load
        raise state.StateError("memory is set; save a pipeline without it")
    if not pipeline.steps:
        raise state.StateError("it has no steps")
    for step in pipeline.steps:
        name, estimator = step
        known = estimator is None or estimator == "passthrough"
        if not isinstance(name, str) or not (known or isinstance(estimator, BaseEstimator)):
            raise state.StateError("steps are not names and estimators")
        if step is not pipeline.steps[-1] and not known:
            _check_held(estimator, f"step {name[:80]!r}", "transform")


def _check_held(held: Any, name: str, *methods: str) -> None:
    """Check that a part is an estimator that has one of some methods."""
    if not isinstance(held, BaseEstimator) or not any(hasattr(held, one) for one in methods):
        raise state.StateError(f"{name} is not an estimator with {' or '.join(methods)}")


def _check_on_instances(step: OnInstances) -> None:
    if "transformer_" in vars(step) or "n_features_in_" in vars(step):
        _check_held(step.transformer_, "transformer_", "transform")


def _check_calibrated(model: CalibratedClassifierCV) -> None:
    if not {"calibrated_classifiers_", "classes_"} & set(vars(model)):  # never fitted
        return
    fitted = model.calibrated_classifiers_
    if not isinstance(fitted, list) or not fitted:
        raise state.StateError("calibrated_classifiers_ is not a list of one or more")
    for one in fitted:
        _check_held(one.estimator, "estimator", "decision_function", "predict_proba")
        same = np.array_equal(one.classes, model.classes_) and one.method == model.method
        if not same or not np.isin(one.estimator.classes_, model.classes_).all():
            raise state.StateError("a calibrated classifier has other classes or another method")
        n_known = len(one.estimator.classes_)
        calibrators = one.calibrators
        if not isinstance(calibrators, list) or len(calibrators) != (n_known if n_known > 2 else 1):
            raise state.StateError("a calibrated classifier does not have one calibrator per class")
        for calibrator in calibrators:
            if type(calibrator).__name__ != "_SigmoidCalibration":
                raise state.StateError(f"a calibrator is a {type(calibrator).__name__}")
            state.Number().bind(calibrator.a_, "a_", {})
            state.Number().bind(calibrator.b_, "b_", {})


def _check_search(search: GridSearchCV | RandomizedSearchCV) -> None:
    if "best_estimator_" in vars(search):
        _check_held(search.best_estimator_, "best_estimator_", "predict", "transform", *_SCORES)


def _check_one_vs_rest(model: OneVsRestClassifier) -> None:
    if not {"estimators_", "label_binarizer_", "n_features_in_"} & set(vars(model)):
        return
    fitted, binarizer = model.estimators_, model.label_binarizer_
    if type(binarizer) is not LabelBinarizer or not isinstance(binarizer.y_type_, str):
        raise state.StateError("label_binarizer_ is not a LabelBinarizer")
    state.Array(shape=("classes",), kinds="biufUO", least=2).bind(
        binarizer.classes_, "classes_", {}
    )
    n_classes = len(binarizer.classes_)
    if not isinstance(fitted, list) or len(fitted) != (n_classes if n_classes > 2 else 1):
        raise state.StateError("estimators_ is not a list of one estimator per class")
    for one in fitted:
        _check_held(one, "an estimator of estimators_", *_SCORES)


def _check_scaler(scaler: StandardScaler | RobustScaler) -> None:
    """Check that what the parameters ask for is there; without it, it may be None."""
    standard = isinstance(scaler, StandardScaler)
    needed = (
        {"mean_": scaler.with_mean, "scale_": scaler.with_std}
        if standard
        else {"center_": scaler.with_centering, "scale_": scaler.with_scaling}
    )
    for name, used in needed.items():
        if used and getattr(scaler, name, 0) is None:
            raise state.StateError(f"{name} is missing")


def _check_svc(svc: SVC) -> None:
    """Check all that is handed to libsvm, which looks at no bounds."""
    if not {"support_", "classes_", "n_features_in_"} & set(vars(svc)):  # never fitted
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
    for name in ("nu", "epsilon", "coef0"):
        state.Number().bind(getattr(svc, name), name, {})
    if not (abs(svc.degree) < 2**31 and abs(svc.max_iter) < 2**31):
        raise state.StateError("degree or max_iter have more than 32 bits")
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


_SPECIAL: dict[type, Callable[[Any], None]] = {
    CalibratedClassifierCV: _check_calibrated,
    GridSearchCV: _check_search,
    OnInstances: _check_on_instances,
    OneVsRestClassifier: _check_one_vs_rest,
    Pipeline: _check_pipeline,
    RandomizedSearchCV: _check_search,
    RobustScaler: _check_scaler,
    StandardScaler: _check_scaler,
    SVC: _check_svc,
}
