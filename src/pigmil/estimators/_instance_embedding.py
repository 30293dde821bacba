"""The embedding of bags by their similarity to all training instances, for MILES and MILIS."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.distances import embed_bags

_DOUBLE_VALUES = 1 << 25  # more values than this (256 MB) are kept in single precision
_CHUNK_PROTOTYPES = 4096


def embed_by_instances(bags: Bags, decay: float) -> NDArray[Any]:
    """Return the similarity of every bag to every instance of these bags.

    Parameters
    ----------
    bags : Bags
        Training bags.
    decay : float
        Decay of the similarity per squared distance.

    Returns
    -------
    array of shape (n_bags, n_instances)
        In single precision if it is large.
    """
    if bags.n_bags * bags.n_instances <= _DOUBLE_VALUES:
        return embed_bags(bags, bags.instances, decay)
    embedded = np.empty((bags.n_bags, bags.n_instances), dtype=np.float32)
    for start in range(0, bags.n_instances, _CHUNK_PROTOTYPES):
        columns = slice(start, start + _CHUNK_PROTOTYPES)
        embedded[:, columns] = embed_bags(bags, bags.instances[columns], decay)
    return embedded
