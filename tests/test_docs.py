"""The documentation holds: its code runs, its commands exist, its pages are complete."""

import ast
import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pigmil import all_estimators
from pigmil.estimators import get_estimator
from pigmil.io import formats

from .code_blocks import blocks_of, run_and_check, same_text

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if not {"_build", "_parts", "reproduction", "auto_examples"} & set(page.parts)
)
NAMES = [page.relative_to(DOCS).as_posix() for page in PAGES]


def python_blocks(page):
    return [block for block in blocks_of(page) if block.language == "python"]


WITH_CODE = [
    name for name, page in zip(NAMES, PAGES, strict=True)
    if any(not block.needs_data for block in python_blocks(page))
]  # fmt: skip
WITH_DATA = [
    name for name, page in zip(NAMES, PAGES, strict=True)
    if any(block.needs_data for block in python_blocks(page))
]  # fmt: skip


@pytest.fixture
def in_empty_folder(tmp_path, monkeypatch):
    for module in ("pandas", "h5py", "pyarrow", "skops", "matplotlib"):
        pytest.importorskip(module, reason="the pages use every extra")
    import matplotlib

    matplotlib.use("agg")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", WITH_CODE)
@pytest.mark.usefixtures("in_empty_folder")
def test_blocks_run_and_keep_their_promises(name):
    names: dict[str, object] = {"__name__": "page"}
    for block in blocks_of(DOCS / name):
        printed = io.StringIO()
        if block.language == "python" and not block.needs_data:
            with contextlib.redirect_stdout(printed):
                run_and_check(block.text, names)
        elif block.language == "sh" and block.output is not None:
            printed.write(run_command(block.text))
        if block.output is not None and not block.needs_data:
            assert same_text(printed.getvalue(), block.output), printed.getvalue()


def run_command(text):
    """Return what one `pigmil` command prints, in a terminal of 100 columns."""
    typer_testing = pytest.importorskip("typer.testing")
    from pigmil.cli._app import app

    words = shlex.split(text.replace("\\\n", " "), comments=True)
    done = typer_testing.CliRunner().invoke(app, words[1:], env={"COLUMNS": "100"})
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("name", WITH_DATA)
@pytest.mark.usefixtures("in_empty_folder", "data_dir")
def test_blocks_on_real_data_run_and_keep_their_promises(name):
    names: dict[str, object] = {"__name__": "page"}
    for block in python_blocks(DOCS / name):
        if block.needs_data:
            run_and_check(block.text, names)


def test_some_pages_have_code_and_some_of_it_needs_data():
    # Else a change of the fences would let the tests above pass by running nothing.
    assert {"tour.md", "guide/own_data.md", "guide/scikit_learn.md", "faq.md"} <= set(WITH_CODE)
    assert WITH_DATA == ["guide/which_instances.md"]


def test_every_python_fence_is_found():
    for page in [*PAGES, ROOT / "README.md"]:
        # Blocks of {code-block} need packages or files that the tests do not have.
        opened = len(re.findall(r"```(?:python|py|pycon)", page.read_text("utf-8")))
        assert opened == len(python_blocks(page)), page


def commands():
    for page in [*PAGES, ROOT / "README.md"]:
        for block in blocks_of(page):
            text = block.text.replace("\\\n", " ")
            for line in text.splitlines() if block.language == "sh" else ():
                for part in line.split("#")[0].split("&&"):
                    if part.strip().startswith("pigmil "):
                        yield pytest.param(part.strip(), id=f"{page.stem}: {part.strip()}")


@pytest.mark.parametrize("line", list(commands()))
def test_commands_and_their_options_exist(line):
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    typer_testing = pytest.importorskip("typer.testing")
    from pigmil.cli._app import app

    words = shlex.split(line)[1:]
    help_text = typer_testing.CliRunner().invoke(
        app, [words[0], "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"}
    )
    assert help_text.exit_code == 0, line
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", help_text.output))
    assert {word for word in words[1:] if word.startswith("-")} <= known, line


def test_every_method_has_a_page_and_every_page_a_method():
    shown = [
        name
        for page in (DOCS / "methods").glob("*.md")
        for name in re.findall(r"\{method-card\} (\S+)", page.read_text(encoding="utf-8"))
    ]
    known = all_estimators(deep=True)
    assert sorted(shown) == sorted(get_estimator(card.name).__name__ for card in known)


def test_the_reference_lists_every_public_name():
    import pigmil

    text = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   pigmil\.(\S+)$", text, re.MULTILINE))
    rooms = {"__version__", *pigmil._ROOMS}
    assert set(pigmil.__all__) - rooms <= listed
    for room in ("datasets", "evaluation", "io", "metrics", "report", "scale"):
        module = __import__(f"pigmil.{room}", fromlist=["__all__"])
        missing = {name for name in module.__all__ if {f"{room}.{name}", name}.isdisjoint(listed)}
        assert not missing, room


def test_the_pasted_method_passes_lint_and_types(tmp_path):
    for tool in ("ruff", "mypy"):
        pytest.importorskip(tool, reason="the development tools are not installed")
    pasted = python_blocks(DOCS / "guide" / "add_method.md")[0].text
    in_package = ROOT / "src" / "pigmil" / "estimators" / "mean_distance.py"
    for command in (["check"], ["format", "--check"]):
        call = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(in_package), "-"]
        done = subprocess.run(
            call, input=pasted, capture_output=True, text=True, cwd=ROOT, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    # The checker reads the pasted code in place of a method that has the same relaxed rules.
    stand_in = ROOT / "src" / "pigmil" / "estimators" / "mind.py"
    (tmp_path / "mean_distance.py").write_text(pasted, encoding="utf-8")
    call = [
        sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path),
        "--shadow-file", str(stand_in), str(tmp_path / "mean_distance.py"), str(stand_in),
    ]  # fmt: skip
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_format_that_is_written_is_shown():
    page = DOCS / "guide" / "own_data.md"
    written = "\n".join(block.text for block in python_blocks(page))
    for one in [each for each in formats().values() if each.write]:
        by_name = f'format="{one.name}"' in written
        by_suffix = any(f'write_bags(full, "bags{suffix}"' in written for suffix in one.suffixes)
        assert by_name or by_suffix, one.name


def test_every_parameter_of_pigmil_that_is_a_reading_is_in_the_table():
    text = (DOCS / "pigmil" / "readings.md").read_text(encoding="utf-8")
    from pigmil import PIGMIL

    literal, default = PIGMIL.paper().get_params(), PIGMIL().get_params()
    changed = {
        name.removeprefix("reading__")
        for name in default
        if literal[name] != default[name] and name != "reading"
    }
    assert {
        name for name in changed if f"`{name}" not in text and f"`reading.{name}" not in text
    } == set()


@pytest.mark.parametrize("name", ["PIGMIL", "PIGMIL.faithful"])
def test_the_tables_of_what_differs_from_the_paper_are_those_of_the_parameters(name):
    from pigmil import PIGMIL

    text = (DOCS / "methods" / "pigmil.md").read_text(encoding="utf-8")
    model = PIGMIL() if name == "PIGMIL" else PIGMIL.faithful()
    for paper, here in model.differences_from_paper():
        setting, separator, reason = here.partition(": ")
        assert f"| `{paper}` | `{setting}`{separator}{reason} | " in text


def test_examples_compile_and_are_named_for_the_gallery():
    scripts = sorted((ROOT / "examples").glob("*.py"))
    assert len(scripts) >= 4
    for script in scripts:
        assert script.name.startswith("plot_"), script.name
        assert ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))), script.name
