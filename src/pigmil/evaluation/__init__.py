"""Comparison of methods, calls of instances with bounded error, and how far to trust a fit."""

from pigmil.evaluation.assumptions import Assumptions, AssumptionTest, assumptions
from pigmil.evaluation.audit import Finding, audit
from pigmil.evaluation.diagnosis import Diagnosis, diagnose
from pigmil.evaluation.faithfulness import Faithfulness, faithfulness
from pigmil.evaluation.results import Results
from pigmil.evaluation.runner import compare
from pigmil.evaluation.selection import InstanceSelection, select_instances

__all__ = [
    "AssumptionTest",
    "Assumptions",
    "Diagnosis",
    "Faithfulness",
    "Finding",
    "InstanceSelection",
    "Results",
    "assumptions",
    "audit",
    "compare",
    "diagnose",
    "faithfulness",
    "select_instances",
]
