"""Bags in and out of files: one file a format, one door to all of them."""

from pigmil.io.api import read_bags, write_bags
from pigmil.io.common import BagFileNotFoundError
from pigmil.io.registry import Format, formats

__all__ = ["BagFileNotFoundError", "Format", "formats", "read_bags", "write_bags"]
