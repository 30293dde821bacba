"""Bags larger than memory, and the engine that works through them block by block."""

from pigmil.bags._lazy import LazyBags
from pigmil.scale._cluster import ClusterError, active_client, check_cluster, cluster_client
from pigmil.scale._engine import (
    HeldBlocks,
    column_moments,
    hold_blocks,
    map_blocks,
    map_calls,
    map_instances,
    map_reduce,
    take_rows,
)
from pigmil.scale._predict import keep_scores, predict_to_parquet, stream

__all__ = [
    "ClusterError",
    "HeldBlocks",
    "LazyBags",
    "active_client",
    "check_cluster",
    "cluster_client",
    "column_moments",
    "hold_blocks",
    "keep_scores",
    "map_blocks",
    "map_calls",
    "map_instances",
    "map_reduce",
    "predict_to_parquet",
    "stream",
    "take_rows",
]
