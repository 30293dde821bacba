"""Data sets: synthetic ones drawn on demand, and a registry of real ones."""

from pigmil.datasets.loading import load_dataset
from pigmil.datasets.registry import DataSetInfo, info, list_datasets
from pigmil.datasets.synthetic import make_basic, make_rhombus, make_ring

__all__ = [
    "DataSetInfo",
    "info",
    "list_datasets",
    "load_dataset",
    "make_basic",
    "make_rhombus",
    "make_ring",
]
