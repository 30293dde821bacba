"""Errors: what they are, and how problems are collected."""

import itertools
import sys

import pytest

from pigmil._core import errors
from pigmil._core.errors import Problems, import_optional


def test_all_problems_in_one_message():
    problems = Problems("3 bags", limit=4)
    problems.add("First.")
    problems.add_each(itertools.repeat("again."), total=7, kind="times")  # looks at three
    problems.add("Last.")
    with pytest.raises(errors.DataSetError) as caught:
        problems.raise_if_any(errors.DataSetError)
    assert str(caught.value) == (
        "3 bags cannot be used:\n- First.\n- again.\n- again.\n- again.\n- ... and 2 more problems."
    )
    assert problems.messages[-2:] == ["... and 4 more times.", "Last."]


def test_optional_package_that_is_not(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):  # the second may be loaded already
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.MissingDependencyError) as caught:
        import_optional("pyarrow.parquet", extra="io", purpose="Reading parquet")
    message = str(caught.value)
    assert message.startswith("Reading parquet needs the package 'pyarrow', which cannot be")
    assert message.endswith("Install it with: pip install pyarrow (part of the extra 'io')")
