"""Checksums of files and of bags, to verify that a data set is the known one."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import DataSetError, Problems
from pigmil.bags import Bags
from pigmil.datasets._registry import DataSetInfo


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, expected: str, name: str, *, reason: str = "") -> None:
    """Raise an error if a file is not the one in the registry."""
    got = file_sha256(path)
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
    if bags.is_sparse:
        digest.update(_bytes(bags.instances.indptr, "<i8"))
        digest.update(_bytes(bags.instances.indices, "<i8"))
        digest.update(_bytes(bags.instances.data, "<f8"))
    else:
        digest.update(_bytes(bags.instances + 0.0, "<f8"))
    return digest.hexdigest()


def _bytes(values: Any, dtype: str) -> bytes:
    return np.ascontiguousarray(values, dtype=dtype).tobytes()


def check_content(bags: Bags, entry: DataSetInfo, origin: str) -> None:
    """Raise an error if bags differ from the registry in counts, labels or values."""
    problems = Problems(f"The data set {entry.name!r} read from {origin}")
    y = np.asarray([] if bags.y is None else bags.y)
    for what, expected, got in (
        ("bags", entry.bags, bags.n_bags),
        ("positive bags", entry.positive, int((y == 1).sum())),
        ("negative bags", entry.negative, int((y == -1).sum())),
        ("instances", entry.instances, bags.n_instances),
        ("features", entry.features, bags.n_features),
    ):
        if got != expected:
            problems.add(f"It has {got} {what}; the registry expects {expected}.")
    if (bags.instance_labels is not None) != entry.instance_labels:
        problems.add(
            "It has "
            + ("no instance labels" if entry.instance_labels else "instance labels")
            + ", unlike what the registry expects."
        )
    if not problems.messages and content_sha256(bags) != entry.content_sha256:
        problems.add("The counts are right, but labels or values differ from the known ones.")
    problems.raise_if_any(DataSetError)
