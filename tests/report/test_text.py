"""Names made visible, numbers made finite, JSON that cannot leave its script."""

import json

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from pigmil._core.text import sanitize
from pigmil.report._ranking import rounded
from pigmil.report._write import script_json


@given(st.text(st.characters(exclude_categories=()), max_size=30))
def test_shown_text_can_be_written_and_hides_nothing(text):
    safe = sanitize(text)
    safe.encode("utf-8")
    assert not any(ord(sign) < 0x20 or sign in "\u202a\u202e\u2028\u200f\ufeff" for sign in safe)


def test_numbers_without_a_value_become_none():
    assert rounded([1.0, np.nan, np.inf, 2 / 3]) == [1.0, None, None, 0.666667]


@given(st.recursive(st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
                    lambda inner: st.lists(inner, max_size=3), max_leaves=6))  # fmt: skip
def test_script_json_reads_back_and_cannot_end_the_script(value):
    text = script_json(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)
