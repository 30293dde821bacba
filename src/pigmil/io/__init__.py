"""Reading and writing bags: one entry for all file formats, slides and tables of labels."""

from pigmil.io._defence import BagFileNotFoundError
from pigmil.io._formats import Format, detect_format, formats, read_bags, scan_bags
from pigmil.io._write import write_bags

__all__ = [
    "BagFileNotFoundError",
    "Format",
    "detect_format",
    "formats",
    "read_bags",
    "scan_bags",
    "write_bags",
]
