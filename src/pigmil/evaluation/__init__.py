"""Comparison of methods, calls of instances with bounded error, and how far to trust a fit."""

from pigmil.evaluation._assumptions import AssumptionTest, assumptions
from pigmil.evaluation._diagnosis import Diagnosis
from pigmil.evaluation._results import Results
from pigmil.evaluation._runner import Progress, compare
from pigmil.evaluation._selection import (
    InstanceSelection,
    conformal_p_values,
    diagnose,
    select_instances,
)
from pigmil.evaluation._splits import Finding, audit
from pigmil.evaluation._suggest import suggest_instances

__all__ = [
    "AssumptionTest",
    "Diagnosis",
    "Finding",
    "InstanceSelection",
    "Progress",
    "Results",
    "assumptions",
    "audit",
    "compare",
    "conformal_p_values",
    "diagnose",
    "select_instances",
    "suggest_instances",
]
