"""Distances and kernels between instances and between bags, always in blocks."""

from pigmil.distances.blockwise import nearest_in_bags, squared_distance_blocks
from pigmil.distances.unit import length_unit

__all__ = ["length_unit", "nearest_in_bags", "squared_distance_blocks"]
