"""The tables, figures and claims of the PIGMIL paper, computed anew."""

from pigmil.reproduction._run import Size, reproduce

__all__ = ["Size", "reproduce"]
