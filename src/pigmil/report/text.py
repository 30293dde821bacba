"""Numbers for display, and JSON inside a page."""

import json
import math
from typing import Any

import numpy as np


def rounded(values: Any) -> list[float | None]:
    """Round numbers to six significant digits; NaN and infinities become None.

    Examples
    --------
    >>> rounded([1 / 3, float("nan")])
    [0.333333, None]
    """
    flat = np.asarray(values, dtype=np.float64).ravel().tolist()
    return [float(f"{value:.6g}") if math.isfinite(value) else None for value in flat]


def number(value: Any) -> str:
    """Format a number with four significant digits, None as a dash.

    Examples
    --------
    >>> number(0.123456), number(None)
    ('0.1235', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    return f"{value:.4g}"


def script_json(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: it cannot close the element.

    Examples
    --------
    >>> script_json("</script>")
    '"\\u003c/script\\u003e"'
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
