"""The version of the library, for every room that records it."""

__version__ = "0.1.0"
