"""Every hint in a message names something that Python has, and the command line as well."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest
import typer

import pigmil
from pigmil.bags import Bags, as_bags
from pigmil.cli.app import app
from pigmil.cli.data import as_options
from pigmil.io import formats, read_bags, read_cohort, write_bags

SOURCE = Path(pigmil.__file__).parent
PARAMETER = re.compile(r"(?<![\w.-])([a-z_]+)=")
# Only a program can build such bags, so that no user of the command line sees this.
PYTHON_ONLY = ("Give new ids: Bags(bags.instances",)


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "'value'" if node.conversion == ord("r") else "bag"  # may name a parameter
    return node.value if isinstance(node.value, str) else ""


def messages():
    """All texts in the rooms that read data which name a parameter, with their places."""
    for path in [*(SOURCE / "io").glob("*.py"), *(SOURCE / "bags").glob("*.py")]:
        tree = ast.parse(path.read_text("utf-8"))
        inner = {
            id(part)
            for node in ast.walk(tree)
            if isinstance(node, ast.JoinedStr)
            for part in ast.walk(node)
            if part is not node
        }
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        inner |= {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in inner:
                text = _text(node)
                # Without a space it is no message but the name of a feature.
                if " " in text and PARAMETER.search(text) and not text.startswith(PYTHON_ONLY):
                    yield pytest.param(text, id=f"{path.stem}-{node.lineno}-{node.col_offset}")


def python_parameters():
    functions = [read_bags, read_cohort, write_bags, as_bags, Bags, Bags.to_columns]
    for one in formats().values():
        functions += one.load()
    return {name for function in functions for name in inspect.signature(function).parameters}


def command_options():
    group = typer.main.get_command(app)
    return {
        option
        for name in ("detect", "convert", "compare")
        for parameter in group.commands[name].params
        for option in parameter.opts
    }


KNOWN, OPTIONS = python_parameters(), command_options()


@pytest.mark.parametrize("message", list(messages()))
def test_hints_name_what_the_interface_has(message):
    assert set(PARAMETER.findall(message)) <= KNOWN
    shown = as_options(message)
    remaining = set(PARAMETER.findall(re.sub(r"--(read|write) \w+=", "", shown)))
    assert not remaining, shown
    named = set(re.findall(r"--[a-z-]+", shown))
    assert named, shown
    assert named <= OPTIONS


def test_the_walk_finds_the_messages():
    texts = [one.values[0] for one in messages()]
    assert len(texts) > 40
    assert any("missing='keep'" in text for text in texts)
    assert importlib.util.find_spec("pigmil.io._csv") is not None


def test_lists_of_columns_become_repeated_options():
    text = as_options("Keep them with info=['a b', \"it's\"] or header=False.")
    assert text == """Keep them with --info 'a b' --info 'it'"'"'s' or --read header=False."""
