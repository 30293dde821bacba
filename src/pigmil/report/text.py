"""Names and numbers from outside, made safe to display."""

import json
import math
import re
import unicodedata
from typing import Any

import numpy as np

_KEPT = "\u200c\u200d"  # joiners: letters of some scripts, and emoji, need them


def sanitize(value: Any, *, limit: int = 120) -> str:
    r"""Text of a name with every character visible, cut beyond ``limit`` characters.

    Control characters, marks that turn the direction of text, and whatever else is invisible or
    no character become ``<U+...>``.

    Parameters
    ----------
    value : object
        A bag id, a label, the name of a feature.
    limit : int, default=120
        Characters at most.

    Examples
    --------
    >>> print(sanitize("two\nlines"), sanitize("a\u202eb"))
    two<U+000A>lines a<U+202E>b
    """
    text = str(value)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(map(_visible, cut))


def _visible(sign: str) -> str:
    if sign in _KEPT or sign == " " or sign.isalnum():
        return sign
    if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"):
        return f"<U+{ord(sign):04X}>"
    return sign


def rounded(values: Any) -> list[float | None]:
    """Numbers with six digits, None for what is no number or not finite.

    Examples
    --------
    >>> rounded([1 / 3, float("nan")])
    [0.333333, None]
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in flat]


def number(value: Any) -> str:
    """A number to read: four digits, a dash for none.

    Examples
    --------
    >>> number(0.123456), number(None)
    ('0.1235', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.4g}"


def script_json(value: Any) -> str:
    r"""JSON that may stand inside a script element: it cannot end it, nor begin a comment.

    Examples
    --------
    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def markdown(value: Any) -> str:
    r"""Text that Markdown shows as it is, on one line.

    Examples
    --------
    >>> print(markdown("*a*|<b>"))
    \*a\*\|&lt;b&gt;
    """
    text = str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*{}[]#|~":
        text = text.replace(sign, "\\" + sign)
    text = re.sub(r"(?<!\w)_|_(?!\w)", r"\_", text)  # inside a word it means nothing
    return " ".join(text.split("\n"))
