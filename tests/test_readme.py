"""Every Python block of the README runs, in order, and gives what its comments promise."""

import ast
import re
from pathlib import Path

import matplotlib
import pytest

README = Path(__file__).parents[1] / "README.md"
pytest.importorskip("pandas", reason="the README's tour uses pandas")


def run_and_check(block, names):
    """Run a block; where a line ends in ``# value``, its expression must have that repr."""
    checked = 0
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        code = ast.get_source_segment(block, statement)
        promised = re.search(r"# (array\(.*\)|True|False)$", lines[statement.end_lineno - 1])
        if isinstance(statement, ast.Expr) and promised:
            assert repr(eval(code, names)) == promised[1], code
            checked += 1
        else:
            exec(code, names)
    return checked


def test_the_tour_runs_and_keeps_its_promises(tmp_path, monkeypatch):
    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    assert sum(run_and_check(block, names) for block in blocks) == 3
    assert (tmp_path / "ring.png").stat().st_size > 10_000


def test_the_table_of_methods_is_complete():
    from pigmil import all_estimators

    table = README.read_text(encoding="utf-8").split("## Methods")[1].split("##")[0]
    rows = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    listed = {name.strip() for row in rows for name in row.split(",")}
    assert {card.name for card in all_estimators()} <= listed
