"""Bags larger than memory, and the engine that works through them block by block."""

from pigmil.bags._lazy import LazyBags
from pigmil.scale._engine import (
    ClusterError,
    column_moments,
    hold_blocks,
    map_blocks,
    map_calls,
    map_instances,
    map_reduce,
    take_rows,
)
from pigmil.scale._predict import predict_to_parquet, stream

__all__ = [
    "ClusterError",
    "LazyBags",
    "column_moments",
    "hold_blocks",
    "map_blocks",
    "map_calls",
    "map_instances",
    "map_reduce",
    "predict_to_parquet",
    "stream",
    "take_rows",
]
