"""The ragged container for bags of instances, lazy bags, and the converters that build them."""

from pigmil.bags._checks import as_csr, check_no_missing, text_array, unusual_data
from pigmil.bags._container import Bags, resolve_index, summary
from pigmil.bags._convert import add_scores, as_bags, is_frame, is_lazy, is_plain_table
from pigmil.bags._lazy import LazyBags, concatenate_lazy
from pigmil.bags._marks import FOLD_GROUP, ORIGINAL_ROW, before_marks, mark_values
from pigmil.bags._transform import BagImputer, BagScaler, OnInstances, scaled_pipeline

__all__ = [
    "FOLD_GROUP",
    "ORIGINAL_ROW",
    "BagImputer",
    "BagScaler",
    "Bags",
    "LazyBags",
    "OnInstances",
    "add_scores",
    "as_bags",
    "as_csr",
    "before_marks",
    "check_no_missing",
    "concatenate_lazy",
    "is_frame",
    "is_lazy",
    "is_plain_table",
    "mark_values",
    "resolve_index",
    "scaled_pipeline",
    "summary",
    "text_array",
    "unusual_data",
]
