"""Text for messages, reports and JSON, and one table for every form of output."""

import difflib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from pigmil._core.errors import import_optional

DAGGER = "†"  # marks a cell; the text beside a table says why
_JOINERS = "\u200c\u200d"  # needed by emoji and by the letters of some scripts
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun in the singular or the plural.

    Examples
    --------
    >>> count(1, "bag"), count(1200, "bag"), count(0, "class", "classes")
    ('1 bag', '1,200 bags', '0 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the names that resemble the given one, or empty text.

    It begins with a space; upper and lower case count as the same.

    Examples
    --------
    >>> did_you_mean("Musk3", ["musk1", "MUSK2", "fox"]), did_you_mean("tiger", ["fox"])
    (' Did you mean MUSK2 or musk1?', '')
    """
    by_lower_case = {one.lower(): one for one in known}
    close = difflib.get_close_matches(name.lower(), by_lower_case, n=3)
    return f" Did you mean {' or '.join(by_lower_case[one] for one in close)}?" if close else ""


def listed(names: Iterable[Any], limit: int = 12) -> str:
    """Return names in quotes, shortened if they are many or long.

    Examples
    --------
    >>> listed(["a", "b", "c"], 2)
    "'a', 'b' ... (3 in all)"
    """
    names = list(names)
    more = f" ... ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(repr(name[:80] if isinstance(name, str) else name)
                     for name in names[:limit]) + more  # fmt: skip


def repeated(values: Iterable[Any]) -> list[Any]:
    """Return the values that occur more than once, in the order in which they first appear.

    Examples
    --------
    >>> repeated(["a", "b", "a"])
    ['a']
    """
    return [value for value, times in Counter(values).items() if times > 1]


def escape_formula(value: Any) -> Any:
    """Return text that a spreadsheet shows instead of running it as a formula.

    Text that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return gets an apostrophe
    in front. Numbers, also as text, and other values stay as they are.

    Examples
    --------
    >>> escape_formula("=1+1"), escape_formula("-1.5"), escape_formula("bag 3"), escape_formula(-2)
    ("'=1+1", '-1.5', 'bag 3', -2)
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def sanitize(value: Any, *, limit: int = 120) -> str:
    r"""Return text with every character visible, cut after ``limit`` characters.

    Control characters, marks that change the direction of text, and other invisible or unassigned
    characters become ``<U+...>``.

    Parameters
    ----------
    value : object
        For example a bag id, a label or the name of a feature.
    limit : int, default=120
        Maximum number of characters.

    Examples
    --------
    >>> print(sanitize("two\nlines"), sanitize("a\u202eb"))
    two<U+000A>lines a<U+202E>b
    """
    text = str(value)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(map(_visible, cut))


def _visible(sign: str) -> str:
    if sign in _JOINERS or sign == " " or sign.isalnum():
        return sign
    if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"):
        return f"<U+{ord(sign):04X}>"
    return sign


def escape_markdown(value: Any) -> str:
    r"""Escape text, HTML included, so that Markdown shows it unchanged on one line.

    Examples
    --------
    >>> print(escape_markdown("*a*|<b>"))
    \*a\*\|&lt;b&gt;
    """
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*{}[]#|~":
        text = text.replace(sign, "\\" + sign)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)  # inside a word it has no meaning
    return " ".join(text.split("\n"))


def to_json_safe(
    value: Any, *, text: Callable[[Any], str] = str, keep_non_finite: bool = False
) -> Any:
    """Convert a value to dictionaries, lists, text, numbers, booleans and None.

    Parameters
    ----------
    value : object
        NumPy values become Python numbers and lists, functions and classes their qualified names,
        and any other object its text.
    text : callable, default=str
        Converts keys and texts, for example to make every character visible.
    keep_non_finite : bool, default=False
        Keep NaN and infinities, which standard JSON does not allow, instead of writing None.

    Examples
    --------
    >>> import numpy as np
    >>> to_json_safe({"auc": np.float64("nan"), "sizes": np.array([2, 3]), "f": len})
    {'auc': None, 'sizes': [2, 3], 'f': 'builtins.len'}
    """

    def convert(item: Any) -> Any:
        if item is None or isinstance(item, bool | int):
            return item
        if isinstance(item, str):
            return text(item)
        if isinstance(item, Mapping):
            return {text(key): convert(part) for key, part in item.items()}
        if isinstance(item, list | tuple | set | frozenset):
            return [convert(part) for part in item]
        if hasattr(item, "tolist"):
            return convert(item.tolist())
        if isinstance(item, float):
            return item if keep_non_finite or math.isfinite(item) else None
        name = getattr(item, "__qualname__", None)
        return text(item) if name is None else text(f"{item.__module__}.{name}")

    return convert(value)


def number(value: Any) -> str:
    """Format a number as people write it, with up to four digits; None as a dash.

    Examples
    --------
    >>> number(0.123456), number(None), number(-31416.5)
    ('0.1235', '–', '−31,416')
    >>> number(4.3073400000000506e13), number(2e-32)
    ('4.307 × 10¹³', '2 × 10⁻³²')
    """
    if value is None or not math.isfinite(value):
        return "–"
    size = abs(float(value))
    if size >= 1e7 or 0 < size < 1e-4:
        mantissa, exponent = f"{size:.3e}".split("e")
        text = f"{float(mantissa):g} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    elif size >= 1000:
        text = f"{size:,.0f}"
    else:
        text = f"{size:.4g}"
    return ("−" if value < 0 and text != "0" else "") + text


def probability(value: Any) -> str:
    """Format a number from 0 to 1 with two digits; None as a dash.

    Examples
    --------
    >>> probability(0.968), probability(2e-32), probability(0.999), probability(1.0)
    ('0.97', '<0.01', '>0.99', '1.00')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if 0 < value < 0.01:
        return "<0.01"
    return ">0.99" if 0.99 < value < 1 else f"{value:.2f}"


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
