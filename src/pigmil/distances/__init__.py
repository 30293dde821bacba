"""Distances and kernels between instances and between bags, always in blocks."""

from pigmil.distances.bag_distances import (
    BAG_DISTANCES,
    bag_distances,
    bag_distances_of_kinds,
    within_distances,
)
from pigmil.distances.blockwise import nearest_in_bags, squared_distance_blocks, squared_distances
from pigmil.distances.screening import (
    ClassDensities,
    class_log_densities,
    representative_rows,
)
from pigmil.distances.set_kernels import (
    gaussian_self_sums,
    gaussian_sums,
    min_max_statistics,
    pair_sums,
)
from pigmil.distances.similarity import (
    embed_bags,
    length_unit,
    log_density,
    log_kernel_mean,
    worth_screening,
)

__all__ = [
    "BAG_DISTANCES",
    "ClassDensities",
    "bag_distances",
    "bag_distances_of_kinds",
    "class_log_densities",
    "embed_bags",
    "gaussian_self_sums",
    "gaussian_sums",
    "length_unit",
    "log_density",
    "log_kernel_mean",
    "min_max_statistics",
    "nearest_in_bags",
    "pair_sums",
    "representative_rows",
    "squared_distance_blocks",
    "squared_distances",
    "within_distances",
    "worth_screening",
]
