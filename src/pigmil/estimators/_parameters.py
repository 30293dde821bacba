"""Constructors of methods, and constraints on parameters that several share."""

from dataclasses import dataclass, field
from inspect import signature
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

from pigmil._core._sklearn_compat import Interval, StrOptions

Method = TypeVar("Method", bound=type)

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
POSITIVE_OR_CV: list[Any] = [*POSITIVE, StrOptions({"cv"})]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
AT_LEAST_ONE: list[Any] = [Interval(Integral, 1, None, closed="left")]
LENGTH_UNIT: list[Any] = [StrOptions({"auto", "median"}), *POSITIVE]
CLASS_WEIGHT: list[Any] = [StrOptions({"balanced"}), dict, None]
POS_LABEL: list[Any] = [None, object]

# Parameters that mean the same in every method; a method need not repeat their constraints.
_COMMON: dict[str, list[Any]] = {
    "C": POSITIVE,
    "gamma": POSITIVE,
    "length_unit": LENGTH_UNIT,
    "class_weight": CLASS_WEIGHT,
    "max_iter": AT_LEAST_ONE,
    "tol": POSITIVE,
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "probability": ["boolean"],
    "pos_label": POS_LABEL,
}


def complete_constraints(method: type) -> dict[str, list[Any]]:
    """Return the constraints on all parameters of a method, by name.

    Those of the class come first, then those of its bases, then the common ones.
    """
    given: dict[str, list[Any]] = dict(_COMMON)
    for base in reversed(method.__mro__):
        given.update(vars(base).get("_parameter_constraints", {}))
    return {name: given[name] for name in signature(method).parameters if name in given}


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(method: Method) -> Method:
    """Give a method the constructor that scikit-learn asks for: it assigns, and does nothing else.

    The annotated names in the body of the class, and of its bases that have this decorator, are
    the parameters: ``C: float = 1.0``. They are passed by keyword.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> @with_parameters
    ... class Line(BaseEstimator):
    ...     slope: float = 1.0
    >>> Line(slope=2.0)
    Line(slope=2.0)
    """
    dataclass(kw_only=True, eq=False, repr=False)(method)
    method._parameter_constraints = complete_constraints(method)  # type: ignore[attr-defined]
    return method
