"""The method of the guide, pasted: every step that it names, then all its tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "add_method.md"
COPIED = (
    "README.md", "pyproject.toml", "docs/api/index.rst", "docs/guide", "docs/methods",
    "src", "tests/code_blocks.py", "tests/common", "tests/conftest.py",
    "tests/estimators/test_persistence.py", "tests/test_docs.py", "tests/test_readme.py",
)  # fmt: skip


class Clone:
    """A copy of the sources, and a way to run modules on it."""

    def __init__(self, folder):
        self.folder = folder
        for name in COPIED:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)

    def run(self, *arguments):
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.folder / "src"),
            "NUMBA_DISABLE_JIT": "1",  # compiling the kernels of the copy would take a minute
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.folder, env=environment,
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def insert(self, name, after, line):
        path = self.folder / name
        text = path.read_text("utf-8")
        assert text.count(after) == 1, (name, after)
        path.write_text(text.replace(after, f"{after}{line}"), "utf-8")


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path / "pigmil")


def test_the_pasted_method_passes_all_tests_after_the_named_steps(clone):
    guide = GUIDE.read_text("utf-8")
    pasted = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    (clone.folder / "src/pigmil/estimators/mean_distance.py").write_text(pasted, "utf-8")
    # Step 2, the registry.
    clone.insert(
        "src/pigmil/estimators/registry.py",
        '    "SingleInstance": "pigmil.estimators.single_instance",\n',
        '    "MeanDistance": "pigmil.estimators.mean_distance",\n',
    )
    clone.insert(
        "src/pigmil/__init__.py",
        "    from pigmil.estimators.max_pooling_lr import MaxPoolingLR as MaxPoolingLR\n",
        "    from pigmil.estimators.mean_distance import MeanDistance as MeanDistance\n",
    )
    # Steps 4 to 6: the page, the README and the index.
    for place in ("`docs/methods/<method>.md`", "**The README table**", "`docs/api/index.rst`"):
        assert place in guide
    page = "# Mean distance\n\n```{method-card} MeanDistance\n```\n"
    (clone.folder / "docs/methods/mean_distance.md").write_text(page, "utf-8")
    row = "| Single instance | yes | yes | Early, Evers, Ramchurn 2022 |\n"
    clone.insert("README.md", row, "| Mean distance | yes | yes | an example |\n")
    clone.insert("docs/api/index.rst", "   pigmil.SingleInstance\n", "   pigmil.MeanDistance\n")
    done = clone.run(
        "pytest", "-q", "-p", "no:cacheprovider", "tests", "-k",
        "Mean or table_of_methods or has_a_page or reference_lists",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 80
    done = clone.run("pigmil.cli", "methods", "meandistance")
    assert "only as an example." in done.stdout
