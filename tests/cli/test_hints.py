"""Every hint in a message names something that Python has, and the command line as well."""

import ast
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
import typer

import pigmil
from pigmil.bags import Bags
from pigmil.cli._app import app
from pigmil.cli._hints import as_options
from pigmil.estimators import all_estimators, get_estimator
from pigmil.io import formats

SOURCE = Path(pigmil.__file__).parent
PARAMETER = re.compile(r"(?<![\w.-])([a-z_]+)=")
# No command reaches these messages: they are about bags that a program builds, synthetic data,
# functions on graphs and exemplars, and single slides, which `pigmil heatmap` goes through itself.
PYTHON_ONLY = (
    "Create new ids: Bags(bags.instances", "noise=", "The ring needs", "Positive bags take",
    "gamma=", "C and tol must be", "exact=True", "slide=", "This bag joins",
    "pos_label='value' does", "labels= takes a mapping", "bag does not score instances",
    "folder= keeps the scores",
)  # fmt: skip
# Texts with an equals sign that are no messages.
OTHER_TEXT = ("PRAGMA", "(<svg", "<text", "Diagnosis(", "%d candidates")


def _text(node):
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "'value'" if node.conversion == ord("r") else "bag"  # may name a parameter
    return node.value if isinstance(node.value, str) else ""


def messages():
    """All texts of the library that name a parameter, with their places."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.is_relative_to(SOURCE / "cli"):
            continue
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
            if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in inner:
                text = _text(node).replace("=bag", "=1")
                # Without a space it is no message but the name of a feature.
                if " " in text and PARAMETER.search(text) and not text.startswith(OTHER_TEXT):
                    yield pytest.param(text, id=f"{path.stem}-{node.lineno}-{node.col_offset}")


def _parameters(value):
    if inspect.isclass(value):
        methods = [one for name, one in inspect.getmembers(value, callable) if name[0] != "_"]
        return {name for one in [value, *methods] for name in _signature(one)}
    return set(_signature(value)) if callable(value) else set()


def _signature(function):
    try:
        return inspect.signature(function).parameters
    except ValueError:  # a builtin
        return {}


def python_parameters():
    """The parameters of all that the packages of the library export, and of all formats."""
    known = _parameters(Bags)
    for room in pkgutil.iter_modules([str(SOURCE)], "pigmil."):
        module = importlib.import_module(room.name)
        for name in getattr(module, "__all__", ()):
            known |= _parameters(getattr(module, name))
    for one in formats().values():
        known |= {
            name for function in one.load() for name in inspect.signature(function).parameters
        }
    return known | method_parameters()


def method_parameters():
    """Return the names that `--set name=value` takes."""
    methods = [get_estimator(card.name) for card in all_estimators(deep=True)]
    return {name for method in methods for name in inspect.signature(method).parameters}


def command_options():
    commands, options = [typer.main.get_command(app)], set()
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        options |= {option for parameter in command.params for option in parameter.opts}
    return options


KNOWN, OPTIONS, SETTABLE = python_parameters(), command_options(), method_parameters()


@pytest.mark.parametrize("message", list(messages()))
def test_hints_name_what_the_interface_has(message):
    assert set(PARAMETER.findall(message)) <= KNOWN
    if message.startswith(PYTHON_ONLY):
        return
    shown = as_options(message)
    assert as_options(shown) == shown
    remaining = set(PARAMETER.findall(re.sub(r"--(read|write|set) \w+=", "", shown)))
    assert remaining <= SETTABLE, shown
    named = set(re.findall(r"(?<!\w)--[a-z-]+", shown))
    assert named <= OPTIONS


def test_the_walk_finds_the_messages():
    texts = [one.values[0] for one in messages()]
    places = {one.id.split("-")[0] for one in messages()}
    assert len(texts) > 80
    assert any("missing='keep'" in text for text in texts)
    assert {"_anndata", "_cohort", "_csv", "_h5ad", "_label_table", "_scan", "_splits"} <= places
    for start in PYTHON_ONLY:
        assert any(text.startswith(start) for text in texts), start


def _command_texts():
    for path in sorted((SOURCE / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = _text(node) if isinstance(node, ast.JoinedStr | ast.Constant) else ""
            if "--" in text:
                yield pytest.param(text, id=f"{path.stem}-{node.lineno}-{node.col_offset}")


@pytest.mark.parametrize("text", list(_command_texts()))
def test_options_named_by_commands_exist(text):
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert named <= OPTIONS | {"--help", "--version"}


def test_lists_of_columns_become_repeated_options():
    text = as_options("Keep them with info=['a b', \"it's\"] or header=False.")
    assert text == """Keep them with --info 'a b' --info 'it'"'"'s' or --read header=False."""
