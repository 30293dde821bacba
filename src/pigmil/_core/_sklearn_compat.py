"""The only place where private names of scikit-learn enter the library."""

from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import validate_data

__all__ = ["HasMethods", "Interval", "StrOptions", "fit_context", "validate_data"]

# The attribute in which scikit-learn stores the setting of `set_output`; `clone` copies it.
OUTPUT_CONFIG = "_sklearn_output_config"
