"""The graph of the paper, piece by piece in its order, as pure functions."""

from pigmil.graph.candidates import (
    initial_pool,
    t_values,
    working_bags,
    working_score,
    working_sets,
)
from pigmil.graph.consistency import consistency
from pigmil.graph.csdg import CSDG, CSDGSettings, build_csdg, edge_weights, normalise_weights
from pigmil.graph.discrimination import discrimination_from_blocks, influence
from pigmil.graph.similarity import confidence_ranks, similarity
from pigmil.graph.trace import Trace, UpdateStep
from pigmil.graph.updating import UpdateResult, update_pool
from pigmil.graph.walk import fixed_point, ranking_scores

__all__ = [
    "CSDG",
    "CSDGSettings",
    "Trace",
    "UpdateResult",
    "UpdateStep",
    "build_csdg",
    "confidence_ranks",
    "consistency",
    "discrimination_from_blocks",
    "edge_weights",
    "fixed_point",
    "influence",
    "initial_pool",
    "normalise_weights",
    "ranking_scores",
    "similarity",
    "t_values",
    "update_pool",
    "working_bags",
    "working_score",
    "working_sets",
]
