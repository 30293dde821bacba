"""PIGMIL and every method its paper compares with, behind one interface."""

import importlib
from typing import Any

from pigmil.estimators.registry import DEEP_METHODS, METHODS, all_estimators, card_of, get_estimator

# The classes are imported on first use, so that `import pigmil` stays light.
_LAZY = {
    **METHODS,
    **DEEP_METHODS,
    "BaseMIL": "pigmil.estimators.base",
    "Card": "pigmil.estimators.card",
    "MILClassifier": "pigmil.estimators.base",
}

__all__ = ["all_estimators", "card_of", "get_estimator", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'pigmil.estimators' has no attribute {name!r}")
