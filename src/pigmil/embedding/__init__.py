"""Bags turned into vectors by their similarity to prototypes."""

from pigmil.embedding.prototypes import embed_bags

__all__ = ["embed_bags"]
