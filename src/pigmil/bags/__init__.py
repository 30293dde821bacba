"""The ragged container for bags of instances, and the converters that build it."""

from pigmil.bags._anndata import add_scores, bags_from_anndata
from pigmil.bags._checks import as_csr, check_no_missing, text_array
from pigmil.bags._container import Bags, resolve_index, summary
from pigmil.bags._convert import as_bags, is_frame, is_lazy, is_plain_table
from pigmil.bags._lazy import LazyBags, concatenate_lazy
from pigmil.bags._quality import unusual_data
from pigmil.bags._rows import BagBuilder, Coded, Decoder, encode
from pigmil.bags._transform import BagImputer, BagScaler, OnInstances, scaled_pipeline

__all__ = [
    "BagBuilder",
    "BagImputer",
    "BagScaler",
    "Bags",
    "Coded",
    "Decoder",
    "LazyBags",
    "OnInstances",
    "add_scores",
    "as_bags",
    "as_csr",
    "bags_from_anndata",
    "check_no_missing",
    "concatenate_lazy",
    "encode",
    "is_frame",
    "is_lazy",
    "is_plain_table",
    "resolve_index",
    "scaled_pipeline",
    "summary",
    "text_array",
    "unusual_data",
]
