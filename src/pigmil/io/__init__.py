"""Reading and writing bags: :func:`read_bags`, :func:`write_bags` and the file formats."""

from pigmil.io._api import read_bags, write_bags
from pigmil.io._common import BagFileNotFoundError
from pigmil.io._registry import Format, formats

__all__ = ["BagFileNotFoundError", "Format", "formats", "read_bags", "write_bags"]
