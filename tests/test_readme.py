"""Every Python block of the README runs, in order, and gives what its comments promise."""

import re
from pathlib import Path

import pytest

from .code_blocks import blocks_of, run_and_check

README = Path(__file__).parents[1] / "README.md"
pytest.importorskip("pandas", reason="the README's tour uses pandas")


def test_the_tour_runs_and_keeps_its_promises(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = [block.text for block in blocks_of(README) if block.language == "python"]
    names: dict[str, object] = {}
    assert sum(run_and_check(block, names) for block in blocks) == 3


def test_the_table_of_methods_is_complete():
    from pigmil import all_estimators

    table = README.read_text(encoding="utf-8").split("## Methods")[1].split("##")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    listed = {name.strip() for row in rows for name in row.split(",")}
    assert {card.name for card in all_estimators()} <= listed
