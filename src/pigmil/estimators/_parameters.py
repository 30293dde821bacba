"""Constraints on parameters that several methods share."""

from inspect import signature
from numbers import Integral, Real
from typing import Any

from pigmil._core._sklearn_compat import Interval, StrOptions

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
