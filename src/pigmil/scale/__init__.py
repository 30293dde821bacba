"""Bags larger than memory, and the engine that works through them block by block."""

from pigmil.scale._lazy import LazyBags
from pigmil.scale._scan import scan_bags

__all__ = ["LazyBags", "scan_bags"]
