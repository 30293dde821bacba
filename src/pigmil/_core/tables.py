"""One table for every form of output: terminal, Markdown, LaTeX and HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pigmil._core.errors import import_optional
from pigmil._core.text import escape_markdown, sanitize

DAGGER = "†"  # marks a cell; the text beside a table says why


@dataclass(frozen=True)
class Cell:
    """The text of a cell, and whether it is in bold or marked with a dagger."""

    text: Any
    bold: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Table:
    r"""A table of text.

    Parameters
    ----------
    columns : sequence of str
        Titles of the columns.
    rows : sequence of sequences
        One value or :class:`Cell` per column; None is an empty cell. A row of a single value is a
        heading of the rows below it, in LaTeX. ``dataclasses.asdict`` turns a table into plain
        values, and ``Table(**values)`` turns them back.
    left : sequence of int, default=(0,)
        Columns that are aligned left; the others are aligned right.
    title : str, optional
        Title, for a terminal.

    Examples
    --------
    >>> from pigmil.report import Cell, Table
    >>> table = Table(["data set", "A_1"], [["50 %", Cell("97.1 ± 2.0", bold=True)]])
    >>> print(table.markdown())
    | data set | A_1 |
    |---|---:|
    | 50 % | **97.1 ± 2.0** |
    >>> print(table.latex().splitlines()[4])
    50 \% & \textbf{97.1 $\pm$ 2.0} \\
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    left: Sequence[int] = (0,)
    title: str | None = None

    def _cells(self) -> list[list[Cell]]:
        return [[_cell(value) for value in row] for row in self.rows]

    def markdown(self) -> str:
        """Return the table in Markdown."""
        rule = ["---" if at in self.left else "---:" for at in range(len(self.columns))]
        lines = [
            "| " + " | ".join(map(escape_markdown, self.columns)) + " |",
            "|" + "|".join(rule) + "|",
        ]
        for row in self._cells():
            cells = [
                ("**{}**" if cell.bold else "{}").format(escape_markdown(cell.text))
                + (f" {DAGGER}" if cell.marked else "")
                for cell in row
            ]
            lines.append("| " + " | ".join(cells) + " |")
        return "\n".join(lines)

    def latex(self) -> str:
        """Return the table in LaTeX, with the rules of the package booktabs."""
        kinds = "".join("l" if at in self.left else "r" for at in range(len(self.columns)))
        lines = [rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
        lines.append(" & ".join(map(escape_latex, self.columns)) + r" \\")
        if not any(len(row) == 1 for row in self.rows[:1]):
            lines.append(r"\midrule")
        for row in self._cells():
            cells = [
                (r"\textbf{{{}}}" if cell.bold else "{}").format(escape_latex(cell.text))
                + (r"$^\dagger$" if cell.marked else "")
                for cell in row
            ]
            if len(cells) == 1 < len(self.columns):
                cells = [rf"\multicolumn{{{len(self.columns)}}}{{l}}{{{cells[0]}}}"]
                lines.append(r"\midrule")
            lines.append(" & ".join(cells) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])

    def html(self) -> str:
        """Return the table in HTML; cells have the classes ``text``, ``best`` and ``level``."""
        head = "".join(
            f'<th scope="col"{_class(text=at in self.left and at > 0)}>{_bidi(name)}</th>'
            for at, name in enumerate(self.columns)
        )
        body = []
        for first, *others in self._cells():
            cells = [f'<th scope="row">{_bidi(first.text)}</th>']
            for at, cell in enumerate(others, 1):
                kinds = _class(text=at in self.left, best=cell.bold, level=cell.marked)
                mark = f" {DAGGER}" if cell.marked else ""
                cells.append(f"<td{kinds}>{_bidi(cell.text)}{mark}</td>")
            body.append(f"<tr>{''.join(cells)}</tr>")
        lines = [f"<table>\n<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody></table>"]
        return "\n".join(lines)

    def rich(self) -> Any:
        """Return a table of the package rich, for a terminal."""
        tables = import_optional("rich.table", extra="cli", purpose="A table on a terminal")
        text = import_optional("rich.text", extra="cli", purpose="A table on a terminal").Text
        table = tables.Table(
            title=None if self.title is None else text(sanitize(self.title)), title_justify="left"
        )
        for at, name in enumerate(self.columns):
            table.add_column(text(sanitize(name)), justify="left" if at in self.left else "right")
        for row in self._cells():
            table.add_row(
                *(
                    text(sanitize(cell.text) + (f" {DAGGER}" if cell.marked else ""),
                         style="bold" if cell.bold else "")
                    for cell in row
                )
            )  # fmt: skip
        return table


def _cell(value: Any) -> Cell:
    if isinstance(value, dict):  # of a table that was turned into plain values
        return Cell(**value)
    return value if isinstance(value, Cell) else Cell("" if value is None else value)


def _class(**kinds: bool) -> str:
    names = " ".join(name for name, given in kinds.items() if given)
    return f' class="{names}"' if names else ""


def _bidi(value: Any) -> str:
    """Return text in HTML; its direction does not change that of its neighbours."""
    text = str(value)
    return f"<bdi{_class(long=len(text) > 24)}>{escape(text)}</bdi>"


def escape_latex(value: Any) -> str:
    r"""Return text with the special characters of LaTeX escaped.

    Examples
    --------
    >>> print(escape_latex("50% of a_b"))
    50\% of a\_b
    """
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"}
    special |= {"±": r"$\pm$", "–": "--", "×": r"$\times$", DAGGER: r"$\dagger$"}
    return "".join(special.get(sign, sign) for sign in str(value))
