"""PIGMIL and every method its paper compares with, behind one interface."""

from pigmil.estimators.registry import all_estimators, card_of, get_estimator

__all__ = ["all_estimators", "card_of", "get_estimator"]
