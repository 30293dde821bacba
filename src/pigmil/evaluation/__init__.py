"""Comparison of methods, calls of instances with bounded error, and how far to trust a fit."""

from pigmil.evaluation._audit import Finding, audit
from pigmil.evaluation._checks import (
    Assumptions,
    AssumptionTest,
    Faithfulness,
    assumptions,
    faithfulness,
)
from pigmil.evaluation._diagnosis import Diagnosis
from pigmil.evaluation._results import Results
from pigmil.evaluation._runner import Progress, compare
from pigmil.evaluation._selection import (
    InstanceSelection,
    conformal_p_values,
    diagnose,
    select_instances,
)

__all__ = [
    "AssumptionTest",
    "Assumptions",
    "Diagnosis",
    "Faithfulness",
    "Finding",
    "InstanceSelection",
    "Progress",
    "Results",
    "assumptions",
    "audit",
    "compare",
    "conformal_p_values",
    "diagnose",
    "faithfulness",
    "select_instances",
]
