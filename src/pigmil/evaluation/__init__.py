"""Comparison of methods: folds, tuning, results, statistics, the paper's experiments."""

from pigmil.evaluation.audit import Finding, audit
from pigmil.evaluation.results import Results
from pigmil.evaluation.runner import compare

__all__ = ["Finding", "Results", "audit", "compare"]
