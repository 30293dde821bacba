"""The locks of requirements/: exact versions with hashes, which pip has to check."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PINNED = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[a-z,-]+\])?==[^\s;]+( ; [^#]+?)?( --hash=sha256:[0-9a-f]{64})+"
)


def not_pinned(text):
    """Return the requirements without an exact version or without a hash."""
    lines = re.sub(r"\s*\\\n\s*", " ", text).splitlines()
    return [line for line in lines if line.strip() and not PINNED.fullmatch(line)]


def test_there_are_locks():
    assert [path.stem for path in LOCKS] == ["core", "demo", "dev"]


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_requirement_has_a_version_and_hashes(path):
    text = path.read_text()
    assert "==" in text
    assert not_pinned(text) == []


def test_a_missing_hash_is_noticed():
    pinned = "numpy==2.0.0 ; python_version < '3.12' \\\n    --hash=sha256:" + "0" * 64 + "\n"
    assert not_pinned(pinned) == []
    for wrong in ("scipy==1.0", "scipy>=1.0 \\\n    --hash=sha256:" + "0" * 64, "-e ."):
        assert len(not_pinned(pinned + wrong + "\n" + pinned)) == 1


def test_hashes_are_checked_and_made():
    text = re.sub(r"\\\n", "", (ROOT / "Makefile").read_text())
    installed = [line for line in text.splitlines() if "--requirement" in line]
    assert len(installed) == len(LOCKS)
    assert all("pip install" in line.replace("$(PIP)", "pip") for line in installed)
    assert all("--require-hashes" in line for line in installed)
    assert "--generate-hashes" in text
