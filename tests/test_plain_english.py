"""Source, tests and documentation use plain English: a short list of words to avoid."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")
SUFFIXES = {".py", ".md", ".rst", ".j2", ".js", ".toml"}
GENERATED = {"_build", "auto_examples", "generated", "reproduction"}

# Each pattern with the words to use instead.
AVOID = {
    r"(?<![a-z])mend(s|ed|ing|ings)?(?![a-z])": "fix, repair, hint",
    r"(?<![a-z.])(told|tell|tells|telling)(?![a-z]|\(self)": "report, say, show, distinguish",
    r"(?<![a-z])spoken(?![a-z])": "logged, printed",
    r"\bone (row|column|file|line|class|data set) an? [a-z]+": "one row per instance",
    r"\bends well\b": "succeeds",
    r"\bby heart\b": "from memory",
    r"\bdearer\b": "more expensive",
    r"\banything odd\b": "anything unusual",
    r"(?<![a-z])strangers?(?![a-z])": "unknown names, other users",
    r"\b(products?|time|instances?|fit|MB) an? (block|round|bag|column|matrix)\b": ("per block"),
    r"\bfor want of\b": "for lack of, without",
    r"\bat hand\b": "available",
    r"\bwhole or not at all\b": "atomically",
    r"\bwhatever (the|is|came|bags|n_jobs)\b": "for any, regardless of",
    r"\b(carry|carries) (no |both |them|their )?labels?\b": "have labels",
    r"\bnext to nothing\b": "almost nothing",
    r"\b(is|are|be) (to be )?had\b": "is available",
    r"\b(moves|walks) (in|into) (if|it|and)\b": "replaces",
    r"\bthe same say\b": "the same weight",
    r"\bclumps?\b": "cluster",
    r"\bcomes? to an end\b": "ends",
    r"\ballows? to [a-z]+": "lets you, permits",
    r"\bin a process of its own\b": "in a separate process",
    r"\btoo [a-z]+ to be one\b": "too long",
    r"\bgo(es)? too deep\b": "are nested too deeply",
    r"\b(1\.0|it) is the paper\b": "as in the paper",
}
DOCSTRING = re.compile(r'^\s*r?"""What\b', re.MULTILINE)
# First words of docstrings of functions that describe instead of saying what the function does.
NOT_A_VERB = {"A", "An", "How", "Of", "The", "This", "What", "Where", "Which"}


def _texts():
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    paths += [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]
    for path in paths:
        name = path.relative_to(ROOT)
        generated = name.parts[0] == "docs" and GENERATED & set(name.parts)
        if path.suffix in SUFFIXES and not generated and path != Path(__file__):
            yield name.as_posix(), path.read_text(encoding="utf-8")


TEXTS = dict(_texts())


@pytest.mark.parametrize("pattern", AVOID)
def test_words_to_avoid(pattern):
    uses = [
        f"{name}:{number}: {line.strip()}"
        for name, text in TEXTS.items()
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert not uses, f"write instead: {AVOID[pattern]}\n" + "\n".join(uses)


def test_docstrings_do_not_open_with_what():
    uses = [name for name, text in TEXTS.items() if DOCSTRING.search(text)]
    assert not uses, "begin with a verb: Return the ...; found in " + ", ".join(uses)


def test_docstrings_of_functions_begin_with_a_verb():
    uses = []
    for name, text in TEXTS.items():
        if not name.startswith("src/"):
            continue
        for node in ast.walk(ast.parse(text)) if name.endswith(".py") else ():
            if not isinstance(node, ast.FunctionDef) or _is_property(node):
                continue
            first = (ast.get_docstring(node) or "Return").split()[0].strip(".,:;")
            if first in NOT_A_VERB:
                uses.append(f"{name}:{node.lineno}: {first} ...")
    assert not uses, "write instead: Return the ...\n" + "\n".join(uses)


def _is_property(node):
    names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter"})


def test_the_list_reads_the_whole_tree():
    # Otherwise a moved folder would let the tests above pass by reading nothing.
    assert len(TEXTS) > 150
    assert {"README.md", "src/pigmil/cli/_app.py", "docs/tour.md"} <= set(TEXTS)
    assert re.search(next(iter(AVOID)), "how to mend it")
    assert DOCSTRING.search('"""What it returns."""')
