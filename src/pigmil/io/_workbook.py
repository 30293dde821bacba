"""The first sheet of an XLSX workbook, read after its structure was checked."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.parsers import expat

from pigmil._core.optional import import_optional
from pigmil.io._common import check_memory, parsing, raise_format_error

_MAX_ROWS, _MAX_COLUMNS = 1_048_576, 16_384  # of a sheet, as Excel has them
# Peak of openpyxl, in bytes for each; tests/io/test_memory.py measures it.
_PER_CELL, _PER_BLANK, _PER_ROW, _PER_TEXT, _PER_OTHER = 64, 9, 120, 150, 800
# Elements besides cells: texts and their formats; styles and the rest of the workbook.
_MAX_TEXTS, _MAX_OTHERS, _MAX_DEPTH = 5_000_000, 200_000, 100
_CELL_PARTS = frozenset(("row", "c", "v", "f", "is", "t"))
_CHUNK = 1 << 16
_PLACE = re.compile(r"([A-Za-z]{1,3})([0-9]{1,7})")


def sheet_rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the first sheet of a workbook, blank ones left out.

    Parameters
    ----------
    path : Path
        An XLSX file.
    """
    openpyxl = import_optional("openpyxl", extra="io", purpose="Reading XLSX")
    with parsing(path, "XLSX"):
        _check(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # a stated size that is too small would hide rows
            for row in sheet.iter_rows(values_only=True):
                if any(cell is not None for cell in row):
                    yield list(row)
        finally:
            book.close()


def _check(path: Path) -> None:
    """Refuse what a few bytes of XML can turn into much time or memory."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len({one.filename for one in members}) < len(members):
            raise_format_error(path, "has two members of the same name.")
        check_memory(path, sum(one.file_size for one in members))
        n_bytes = 0
        for member in members:
            if not member.filename.lower().endswith((".xml", ".rels")):
                continue
            is_sheet = member.filename.startswith("xl/worksheets/")
            large = is_sheet or member.filename.lower() == "xl/sharedstrings.xml"
            scan = _Scan(path, _MAX_TEXTS if large else _MAX_OTHERS)
            scan.run(archive, member)
            n_bytes += _PER_CELL * scan.n_cells + _PER_BLANK * scan.n_blank + member.file_size
            n_bytes += _PER_ROW * scan.row
            n_bytes += (_PER_TEXT if large else _PER_OTHER) * scan.n_others
        check_memory(path, n_bytes)


class _Scan:
    """One pass over a part of a workbook: no entities, rows and cells in order, not too many."""

    def __init__(self, path: Path, most: int) -> None:
        self.path, self.most = path, most
        self.row = self.column = self.depth = 0
        self.n_cells = self.n_blank = self.n_others = 0
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def run(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        with archive.open(member) as file:
            while piece := file.read(_CHUNK):
                self.parser.Parse(piece, False)
        self.parser.Parse(b"", True)

    def _refuse_doctype(self, *_: object) -> None:
        raise_format_error(self.path, "declares a document type, which no workbook needs.")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(" ")[2]
        self.depth += 1
        self.n_others += tag not in _CELL_PARTS
        if self.depth > _MAX_DEPTH or self.n_others > self.most:
            raise_format_error(self.path, "has too many or too deeply nested elements.")
        if tag == "row":
            self.row = self._next(attributes.get("r"), self.row, _MAX_ROWS, "row")
            self.column = 0
        elif tag == "c":
            place = attributes.get("r")
            if place is not None:
                found = _PLACE.fullmatch(place)
                if found is None or int(found[2]) != self.row:
                    raise_format_error(
                        self.path, f"has a cell {place[:20]!r}.", where=f"row {self.row}"
                    )
                place = str(_column_number(found[1]))
            before = self.column
            self.column = self._next(place, before, _MAX_COLUMNS, "column")
            self.n_cells += 1
            self.n_blank += self.column - before  # cells that are left out become None

    def _end(self, name: str) -> None:
        self.depth -= 1

    def _next(self, stated: str | None, current: int, most: int, what: str) -> int:
        """Return the number of the next row or column, which must be larger than the last."""
        number = current + 1 if stated is None else int(stated[:20])
        if not current < number <= most:
            raise_format_error(
                self.path, f"{what} {number} follows {what} {current}.", where=f"row {self.row}"
            )
        return number


def _column_number(letters: str) -> int:
    """Return the number of a column, from 1.

    Examples
    --------
    >>> _column_number("A"), _column_number("AA")
    (1, 27)
    """
    number = 0
    for letter in letters.upper():
        number = 26 * number + ord(letter) - ord("A") + 1
    return number
