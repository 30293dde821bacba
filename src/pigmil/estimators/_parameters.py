"""Constraints on parameters that several methods share."""

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
