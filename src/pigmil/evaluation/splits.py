"""Folds over bags, the same for every method."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from pigmil._core.typing import IntArray
from pigmil.bags import Bags


@dataclass(frozen=True)
class Split:
    """One train/test split of the bags."""

    repeat: int
    fold: int
    train: IntArray
    test: IntArray


def bag_splits(
    bags: Bags, *, repeats: int = 5, folds: int = 10, random_state: int = 0, groups: Any = None
) -> Iterator[Split]:
    """Repeated stratified folds over bags.

    They depend on the labels, the groups and the seed only, so that every method meets the same
    folds, whenever and wherever it runs.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    random_state : int, default=0
        Seed; repeat ``r`` uses ``random_state + r``.
    groups : array of shape (n_bags,), optional
        Bags of one group stay in one fold; see :func:`duplicate_groups`.

    Yields
    ------
    Split

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> len(list(bag_splits(make_ring(random_state=0))))
    50
    """
    places = np.zeros(bags.n_bags)
    for repeat in range(repeats):
        seed = random_state + repeat
        if groups is None:
            splitter: Any = StratifiedKFold(folds, shuffle=True, random_state=seed)
            parts = splitter.split(places, bags.y)
        else:
            splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
            parts = splitter.split(places, bags.y, groups)
        for fold, (train, test) in enumerate(parts):
            yield Split(repeat, fold, train, test)


def duplicate_groups(bags: Bags) -> IntArray:
    """Group number of each bag: bags with the same instances, in any order, share one.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> a, b = np.array([[1.0], [2.0]]), np.array([[2.0], [1.0]])
    >>> duplicate_groups(Bags.from_list([a, b, a + 1]))
    array([0, 0, 1])
    """
    rows = instance_prints(bags)
    parts = np.split(rows, bags.offsets[1:-1])
    prints = np.array([hashlib.sha256(np.sort(part).tobytes()).hexdigest() for part in parts])
    _, first, group = np.unique(prints, return_index=True, return_inverse=True)
    appearance = np.argsort(np.argsort(first))
    return appearance[group.ravel()].astype(np.int64)


def instance_prints(bags: Bags) -> Any:
    """Fingerprint of each instance, 16 bytes: equal instances have equal ones.

    Cost: one hash an instance; sparse bags are made dense one bag at a time.
    """
    return np.array(
        [
            hashlib.blake2b(row.tobytes(), digest_size=16).digest()
            for bag in bags
            for row in _values(bag)
        ],
        dtype="V16",
    )


def data_checksum(bags: Bags) -> str:
    """Sha256 of the content of labelled bags: values, bags, labels."""
    digest = hashlib.sha256()
    for part in (bags.offsets, _labels(bags.y), _labels(bags.instance_labels)):
        digest.update(np.ascontiguousarray(part).tobytes())
    digest.update(str(bags.shape).encode())
    for bag in bags:
        digest.update(_values(bag).tobytes())
    return digest.hexdigest()


def _labels(labels: Any) -> Any:
    return np.array("none") if labels is None else np.char.encode(labels.astype(str), "utf-8")


def _values(bag: Any) -> Any:
    dense = bag.toarray() if sp.issparse(bag) else np.asarray(bag)
    return np.ascontiguousarray(dense, dtype=np.float64) + 0.0  # -0.0 and 0.0 are one value
