"""Distances and kernels between instances and between bags, always in blocks."""

from pigmil.distances.bag_distances import (
    BAG_DISTANCES,
    bag_distances,
)
from pigmil.distances.bag_kernels import (
    gaussian_self_sums,
    gaussian_sums,
)
from pigmil.distances.blockwise import nearest_in_bags, squared_distance_blocks, squared_distances
from pigmil.distances.screening import (
    ClassDensities,
    class_log_densities,
    representative_rows,
)
from pigmil.distances.similarity import (
    embed_bags,
    length_unit,
    log_density,
    worth_screening,
)

__all__ = [
    "BAG_DISTANCES",
    "ClassDensities",
    "bag_distances",
    "class_log_densities",
    "embed_bags",
    "gaussian_self_sums",
    "gaussian_sums",
    "length_unit",
    "log_density",
    "nearest_in_bags",
    "representative_rows",
    "squared_distance_blocks",
    "squared_distances",
    "worth_screening",
]
