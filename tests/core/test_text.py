"""Conversion to values that JSON can hold."""

import json

import numpy as np

from pigmil._core.text import to_json_safe


def test_non_finite_numbers_become_null():
    value = {"a": float("nan"), 1: [float("inf"), None], "b": (True, "x")}
    text = json.dumps(to_json_safe(value), allow_nan=False)
    assert text == '{"a": null, "1": [null, null], "b": [true, "x"]}'
    assert to_json_safe([np.inf, -np.inf], keep_non_finite=True) == [np.inf, -np.inf]


def test_numpy_values_sets_and_functions():
    value = {"a": np.float32(0.5), "b": np.arange(2), "c": {np.int64(3)}, "d": np.bool_(True)}
    assert to_json_safe(value) == {"a": 0.5, "b": [0, 1], "c": [3], "d": True}
    assert to_json_safe([json.dumps, dict, 1j]) == ["json.dumps", "builtins.dict", "1j"]


def test_text_converts_keys_and_values():
    value = {"key": ["value", 1], 2: print}
    assert to_json_safe(value, text=lambda item: str(item).upper()) == {
        "KEY": ["VALUE", 1],
        "2": "BUILTINS.PRINT",
    }
