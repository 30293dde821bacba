"""Check the repository: plain English, locks with hashes, and one version everywhere.

    python tools/check_repository.py words
    python tools/check_repository.py locks
    python tools/check_repository.py release v0.1.0

Uses the standard library only, because pre-commit runs it in an environment of its own.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".md", ".rst", ".j2", ".js", ".toml"}
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
    r"\b(products?|time|instances?|fit|MB) an? (block|round|bag|column|matrix)\b": "per block",
    r"\bfor want of\b": "for lack of, without",
    r"\bat hand\b": "available",
    r"\bwhole or not at all\b": "atomically",
    r"\bwhatever (the|is|came|bags|n_jobs)\b": "for any, regardless of",
    r"\b(carry|carries) (no |both |them|their )?labels?\b": "have labels",
    r"\bnext to nothing\b": "almost nothing",
    r"\b(is|are|be) (to be )?had\b": "is available",
    r"\bthe same say\b": "the same weight",
    r"\bcomes? to an end\b": "ends",
    r"\ballows? to [a-z]+": "lets you, permits",
    r"\bin a process of its own\b": "in a separate process",
}
# First words of docstrings of functions that describe instead of saying what the function does.
NOT_A_VERB = {"A", "An", "How", "Of", "The", "This", "What", "Where", "Which"}
PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,-]+\])?==[^\s;]+( ; [^#]+?)?( --hash=sha256:[0-9a-f]{64})+"
)


def check_words() -> list[str]:
    """Return every use of a word on the list, and docstrings that do not begin with a verb."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        outcome = name.startswith("docs/reproduction/")  # written by commands
        if path.suffix not in SUFFIXES or outcome or path == Path(__file__) or not path.exists():
            continue
        text = path.read_text(encoding="utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, instead in AVOID.items():
                if re.search(pattern, line, re.IGNORECASE):
                    found.append(f"{name}:{number}: {line.strip()}  (write: {instead})")
        if name.startswith("src/") and path.suffix == ".py":
            found += [f"{name}:{at}" for at in _descriptions(text)]
    return found


def _descriptions(text: str) -> list[str]:
    """Return the docstrings of functions that do not begin with a verb, with their lines."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        names = {getattr(one, "id", getattr(one, "attr", "")) for one in node.decorator_list}
        first = (ast.get_docstring(node) or "Return").split()[0].strip(".,:;")
        if first in NOT_A_VERB and not names & {"property", "cached_property", "setter"}:
            found.append(f"{node.lineno}: {first} ...  (begin with a verb: Return the ...)")
    return found


def check_locks() -> list[str]:
    """Return the requirements of the locks without an exact version or without a hash."""
    found = []
    for path in sorted((ROOT / "requirements").glob("*.lock")):
        lines = re.sub(r"\s*\\\n\s*", " ", path.read_text(encoding="utf-8")).splitlines()
        found += [
            f"{path.name}: {line}"
            for line in lines
            if line.strip() and not line.startswith("#") and not PINNED.fullmatch(line)
        ]
    return found


def check_release(tag: str) -> list[str]:
    """Return where the version differs from that of the tag."""
    places = {
        "src/pigmil/_core/__init__.py": r'__version__ = "(.+)"',
        "CITATION.cff": r"(?m)^version: (.+)$",
        "packaging/conda/recipe.yaml": r'version: "(.+)"',
        "CHANGELOG.md": r"(?m)^## \[(\d.+)\] - \d{4}-\d\d-\d\d$",
    }
    found = []
    for name, pattern in places.items():
        version = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"))
        if version is None or f"v{version[1]}" != tag:
            found.append(f"{name} has {version[1] if version else 'no version'}, the tag is {tag}")
    return found


def main(arguments: list[str]) -> int:
    """Run one check; print what it found."""
    check = {"words": check_words, "locks": check_locks, "release": check_release}[arguments[0]]
    found = check(*arguments[1:])
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
