"""Names made visible, numbers made finite, JSON that cannot leave its script."""

import json
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from pigmil._core.text import escape_markdown, number, sanitize
from pigmil.report._ranking import rounded
from pigmil.report._write import script_json


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_shown_text_can_be_written_and_hides_nothing(text):
    safe = sanitize(text)
    safe.encode("utf-8")
    assert not any(ord(sign) < 0x20 or sign in "\u202a\u202e\u2028\u200f\ufeff" for sign in safe)


@pytest.mark.parametrize("text", ["שלום", "名前", "a-b_c", "👩‍🔬", "é", "m 12"])
def test_ordinary_names_stay_as_they_are(text):
    assert sanitize(text) == text


def test_long_names_are_cut_and_marked():
    assert sanitize("x" * 500, limit=10) == "x" * 9 + "…"


def test_numbers_without_a_value_become_none():
    assert rounded([1.0, np.nan, np.inf, 2 / 3]) == [1.0, None, None, 0.666667]
    assert number(math.nan) == "–"


@given(st.recursive(st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
                    lambda inner: st.lists(inner, max_size=3), max_leaves=6))  # fmt: skip
def test_script_json_reads_back_and_cannot_end_the_script(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_markdown_shows_signs_as_text():
    assert escape_markdown("a|b<c>\n*d*") == r"a\|b&lt;c&gt; \*d\*"
    assert escape_markdown("_a_ KDE_max") == r"\_a\_ KDE_max"
