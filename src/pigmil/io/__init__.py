"""Reading and writing bags: files, cohorts of slides, and the file formats."""

from pigmil.io._api import Format, detect_format, formats, read_bags, write_bags
from pigmil.io._cohort import read_cohort
from pigmil.io._common import BagFileNotFoundError
from pigmil.io._label_table import LabelTable, read_label_table

__all__ = [
    "BagFileNotFoundError",
    "Format",
    "LabelTable",
    "detect_format",
    "formats",
    "read_bags",
    "read_cohort",
    "read_label_table",
    "write_bags",
]
