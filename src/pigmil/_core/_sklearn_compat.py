"""The only place where private names of scikit-learn enter the library."""

from typing import Any

from sklearn.base import _fit_context as fit_context
from sklearn.calibration import _SigmoidCalibration as SigmoidCalibration
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    StrOptions,
    validate_parameter_constraints,
)
from sklearn.utils.validation import _check_sample_weight as check_sample_weight
from sklearn.utils.validation import validate_data

__all__ = [
    "HasMethods",
    "Interval",
    "SigmoidCalibration",
    "StrOptions",
    "check_sample_weight",
    "fit_context",
    "import_libsvm",
    "validate_data",
    "validate_parameter_constraints",
]


def import_libsvm() -> Any:
    """Return the module that trains SVMs by libsvm, without the checks of `sklearn.svm.SVC`."""
    from sklearn.svm import _libsvm

    return _libsvm
