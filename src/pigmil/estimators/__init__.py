"""PIGMIL and every method its paper compares with, behind one interface."""

import importlib
from typing import TYPE_CHECKING, Any

from pigmil.estimators.registry import DEEP_METHODS, METHODS, all_estimators, card_of, get_estimator

if TYPE_CHECKING:
    from pigmil.estimators._parameters import Card as Card
    from pigmil.estimators._parameters import with_parameters as with_parameters
    from pigmil.estimators.base import AcceptsWeights as AcceptsWeights
    from pigmil.estimators.base import BaseMIL as BaseMIL
    from pigmil.estimators.base import MaxInstanceClassifier as MaxInstanceClassifier
    from pigmil.estimators.base import MILClassifier as MILClassifier

# The classes are imported on first use, so that `import pigmil` stays light.
_BASE = ("AcceptsWeights", "BaseMIL", "MaxInstanceClassifier", "MILClassifier")
_LAZY = {
    **METHODS,
    **DEEP_METHODS,
    **dict.fromkeys(_BASE, "pigmil.estimators.base"),
    **dict.fromkeys(("Card", "with_parameters"), "pigmil.estimators._parameters"),
}

__all__ = ["all_estimators", "card_of", "get_estimator", *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'pigmil.estimators' has no attribute {name!r}")
