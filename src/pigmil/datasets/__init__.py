"""Data sets: synthetic ones drawn on demand, and a registry of real ones."""

from pigmil.datasets._loading import load_dataset
from pigmil.datasets._original import read_original
from pigmil.datasets._registry import DataSetInfo, content_sha256, info, list_datasets
from pigmil.datasets._synthetic import (
    ASSUMPTION_TESTS,
    make_assumption_bags,
    make_basic,
    make_rhombus,
    make_ring,
)

__all__ = [
    "ASSUMPTION_TESTS",
    "DataSetInfo",
    "content_sha256",
    "info",
    "list_datasets",
    "load_dataset",
    "make_assumption_bags",
    "make_basic",
    "make_rhombus",
    "make_ring",
    "read_original",
]
