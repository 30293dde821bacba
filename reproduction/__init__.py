"""The tables, figures and claims of the PIGMIL paper, computed anew by public names of pigmil."""

from reproduction.run import Size, reproduce

__all__ = ["Size", "reproduce"]
