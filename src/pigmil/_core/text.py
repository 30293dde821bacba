"""Text for messages, tables and reports: safe to display, escaped, in singular or plural."""

import re
import unicodedata
from typing import Any

_JOINERS = "\u200c\u200d"  # needed by emoji and by the letters of some scripts
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
    r"""Return text that Markdown shows unchanged, on one line, HTML included.

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
