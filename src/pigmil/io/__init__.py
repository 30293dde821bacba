"""Reading and writing bags: files, cohorts of slides, and the file formats."""

from pigmil.io._api import read_bags, write_bags
from pigmil.io._cohort import read_cohort
from pigmil.io._common import BagFileNotFoundError
from pigmil.io._registry import Format, formats

__all__ = ["BagFileNotFoundError", "Format", "formats", "read_bags", "read_cohort", "write_bags"]
