"""Errors: what they are, and how problems are collected."""

import sys

import pytest

from pigmil._core import errors
from pigmil._core.errors import Problems, import_optional


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.BagsError, ValueError),
        (errors.BagFormatError, errors.BagsError),
        (errors.DataSetError, LookupError),
        (errors.MissingDependencyError, ImportError),
        (errors.ModelFileError, ValueError),
    ],
)
def test_every_error_is_ours_and_a_builtin(error, builtin):
    assert issubclass(error, errors.PigmilError)
    assert issubclass(error, builtin)
    assert issubclass(errors.SingletonBagsWarning, UserWarning)


def test_all_problems_in_one_message():
    problems = Problems("3 bags")
    problems.add("First.")
    problems.add_each(["a.", "b.", "c.", "d."], total=7, kind="letters")
    with pytest.raises(errors.DataSetError) as caught:
        problems.raise_if_any(errors.DataSetError)
    assert str(caught.value) == (
        "3 bags cannot be used:\n- First.\n- a.\n- b.\n- c.\n- ... and 4 more letters."
    )


def test_long_lists_are_cut():
    problems = Problems("It", limit=2)
    for number in range(5):
        problems.add(f"{number}.")
    with pytest.raises(errors.BagsError) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "It cannot be used:\n- 0.\n- 1.\n- ... and 3 more problems."


def test_only_what_is_shown_is_looked_at():
    def endless():
        while True:
            yield "again."

    problems = Problems("It")
    problems.add_each(endless(), total=1000, kind="times")
    assert problems.messages == ["again."] * 3 + ["... and 997 more times."]


def test_optional_package_that_is_not(monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):  # the second may be loaded already
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.MissingDependencyError) as caught:
        import_optional("pyarrow.parquet", extra="io", purpose="Reading parquet")
    message = str(caught.value)
    assert message.startswith("Reading parquet needs the package 'pyarrow', which cannot be")
    assert message.endswith("Install it with: pip install pyarrow (part of the extra 'io')")
