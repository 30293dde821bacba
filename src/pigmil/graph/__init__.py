"""The graph of the paper, piece by piece in its order, as pure functions."""

from pigmil.graph.candidates import (
    WorkingBags,
    copy_penalty,
    initial_pool,
    limit_working_sets,
    t_values,
    two_sided_score,
    working_bags,
    working_score,
    working_sets,
)
from pigmil.graph.csdg import (
    CSDG,
    CSDGSettings,
    build_csdg,
    edge_weights,
    fixed_point,
    normalise_weights,
    ranking_scores,
)
from pigmil.graph.edges import (
    confidence_ranks,
    consistency,
    discrimination,
    influence,
    self_confidence,
    similarity,
)
from pigmil.graph.reading import PaperReading
from pigmil.graph.scoring import (
    ClassSplit,
    hard_negatives,
    held_out_areas,
    pool_scores,
    score_by_pool,
    top_instances_per_bag,
)
from pigmil.graph.updating import Trace, UpdateResult, UpdateStep, update_pool

__all__ = [
    "CSDG",
    "CSDGSettings",
    "ClassSplit",
    "PaperReading",
    "Trace",
    "UpdateResult",
    "UpdateStep",
    "WorkingBags",
    "build_csdg",
    "confidence_ranks",
    "consistency",
    "copy_penalty",
    "discrimination",
    "edge_weights",
    "fixed_point",
    "hard_negatives",
    "held_out_areas",
    "influence",
    "initial_pool",
    "limit_working_sets",
    "normalise_weights",
    "pool_scores",
    "ranking_scores",
    "score_by_pool",
    "self_confidence",
    "similarity",
    "t_values",
    "top_instances_per_bag",
    "two_sided_score",
    "update_pool",
    "working_bags",
    "working_score",
    "working_sets",
]
