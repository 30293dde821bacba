"""The graph of the paper, piece by piece in its order, as pure functions."""

from pigmil.graph.candidates import (
    Initialisation,
    WorkingBags,
    copy_penalty,
    initial_pool,
    initialise,
    limit_working_sets,
    t_values,
    two_sided_score,
    working_bags,
    working_score,
    working_sets,
)
from pigmil.graph.csdg import (
    CSDG,
    build_csdg,
    edge_weights,
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
)
from pigmil.graph.updating import Trace, UpdateResult, UpdateStep, update_pool

__all__ = [
    "CSDG",
    "ClassSplit",
    "Initialisation",
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
    "hard_negatives",
    "held_out_areas",
    "influence",
    "initial_pool",
    "initialise",
    "limit_working_sets",
    "normalise_weights",
    "pool_scores",
    "ranking_scores",
    "score_by_pool",
    "self_confidence",
    "similarity",
    "t_values",
    "two_sided_score",
    "update_pool",
    "working_bags",
    "working_score",
    "working_sets",
]
