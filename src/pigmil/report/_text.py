"""Numbers for display, and JSON inside a page."""

import json
import math
from typing import Any

import numpy as np

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
