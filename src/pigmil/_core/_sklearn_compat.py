"""The only place where private names of scikit-learn enter the library."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import validate_data

__all__ = ["HasMethods", "Interval", "StrOptions", "fit_context", "validate_data"]

# Where scikit-learn keeps what `set_output` was told; `clone` carries it over.
OUTPUT_CONFIG = "_sklearn_output_config"
