"""Data sets: synthetic ones drawn on demand, and a registry of real ones."""

from pigmil.datasets.loading import load
from pigmil.datasets.registry import DataSetInfo, info
from pigmil.datasets.registry import list_names as list
from pigmil.datasets.synthetic import make_basic, make_rhombus, make_ring

__all__ = ["DataSetInfo", "info", "list", "load", "make_basic", "make_rhombus", "make_ring"]
