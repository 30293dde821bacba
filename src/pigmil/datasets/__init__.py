"""Data sets: synthetic ones drawn on demand, and a registry of real ones."""

from pigmil.datasets.synthetic import make_basic, make_rhombus, make_ring

__all__ = ["make_basic", "make_rhombus", "make_ring"]
