"""Bags by their detected instances: what an image shows, rather than what is around it."""

from pigmil.retrieval._index import InstanceIndex, Match

__all__ = ["InstanceIndex", "Match"]
