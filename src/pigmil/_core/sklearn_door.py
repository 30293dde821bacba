"""The only place where private names of scikit-learn enter the library."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.validation import _check_feature_names, validate_data

__all__ = [
    "Interval",
    "StrOptions",
    "check_feature_names",
    "fit_context",
    "validate_data",
    "validate_params",
]

check_feature_names = _check_feature_names
