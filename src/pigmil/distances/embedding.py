"""The bag embedding shared by PIGMIL, MILES, MILD and MILIS."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil.bags import Bags
from pigmil.distances.blockwise import nearest_in_bags


def embed_bags(bags: Bags, prototypes: Any, gamma: float) -> NDArray[np.float64]:
    """Similarity of every bag to every prototype.

    Implements Eqs. (9) and (10) of the paper:
    ``w(X, p) = max over x in X of exp(-gamma |x - p|^2)``, the similarity of the bag's nearest
    instance.

    Parameters
    ----------
    bags : Bags
        Bags to embed.
    prototypes : array or CSR of shape (n_prototypes, n_features)
        Instances that span the embedding.
    gamma : float
        Width of the kernel, per squared distance.

    Returns
    -------
    array of shape (n_bags, n_prototypes)

    Notes
    -----
    Cost: O(n_instances n_prototypes n_features) in one matrix product a block.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [1.0]]), np.array([[3.0]])])
    >>> embed_bags(bags, np.array([[1.0]]), gamma=1.0).round(3)
    array([[1.   ],
           [0.018]])
    """
    embedded = np.empty((bags.n_bags, prototypes.shape[0]))
    for rows, squared in nearest_in_bags(prototypes, bags):
        embedded[:, rows] = np.exp(-gamma * squared.T)
    return embedded
