"""The classes a model file may hold: methods of the registry, declared parts, named others."""

import importlib
from collections.abc import Callable, Iterable
from typing import Any

from pigmil._core.model_parts import full_name, model_parts
from pigmil.estimators.registry import DEEP_METHODS, METHODS

# Classes of scikit-learn that methods keep or that pipelines around them are made of. Trees,
# neighbours and functions are left out: their state holds indices that compiled code follows.
SKLEARN_CLASSES = frozenset(
    {
        "sklearn.calibration.CalibratedClassifierCV",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.decomposition._pca.PCA",
        "sklearn.feature_selection._variance_threshold.VarianceThreshold",
        "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.model_selection._search.GridSearchCV",
        "sklearn.model_selection._search.RandomizedSearchCV",
        "sklearn.model_selection._split.KFold",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.multiclass.OneVsRestClassifier",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.MaxAbsScaler",
        "sklearn.preprocessing._data.MinMaxScaler",
        "sklearn.preprocessing._data.Normalizer",
        "sklearn.preprocessing._data.RobustScaler",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._label.LabelBinarizer",
        "sklearn.svm._classes.LinearSVC",
        "sklearn.svm._classes.SVC",
    }
)


def admitted_classes(trusted: Iterable[str] = ()) -> Callable[[str], type | None]:
    """Return the function that decides which names of a file stand for a class.

    Parameters
    ----------
    trusted : iterable of str
        Full names of further classes.

    Returns
    -------
    callable
        From a full name to the class, or to None if the class is not admitted. No module is
        imported because a file names it: the name must be on a list first.
    """
    extra = {name: _trusted_class(name) for name in trusted}
    methods = {f"{module}.{name}": name for name, module in {**METHODS, **DEEP_METHODS}.items()}

    def admit(name: str) -> type | None:
        if name in extra:
            return extra[name]
        if name in methods or name in SKLEARN_CLASSES:
            return _resolve(name)
        if name not in model_parts():
            for module in METHODS.values():  # parts are declared when their modules are imported
                importlib.import_module(module)
        return model_parts().get(name)

    return admit


def _resolve(name: str) -> type | None:
    """Return the class of a name on a list, if the name is the class's own."""
    module, _, attribute = name.rpartition(".")
    try:
        resolved: Any = getattr(importlib.import_module(module), attribute, None)
    except ImportError:
        return None
    return resolved if isinstance(resolved, type) and full_name(resolved) == name else None


def _trusted_class(name: Any) -> type:
    found = _resolve(name) if isinstance(name, str) and "." in name else None
    if found is None or found.__module__ == "builtins":
        raise ValueError(
            f"trusted names classes by their full name, 'package.module.Class'; {name!r} is not "
            "one. Functions and methods are never built from a file."
        )
    return found
