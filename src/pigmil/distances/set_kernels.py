"""Kernels between bags: sums over all pairs of instances, one matrix product per block."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.segments import segment_reduce
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.distances.blockwise import segments_in, squared_distance_blocks


def pair_sums(
    queries: Bags,
    references: Bags | None,
    function: Callable[..., NDArray[Any]],
    *,
    query_weights: FloatArray | None = None,
    reference_weights: FloatArray | None = None,
) -> FloatArray:
    """Sum a function of the squared distance over all pairs of instances of two bags.

    ``S(A, B) = sum over a in A, b in B of w_a w_b f(|a - b|^2)``.

    Parameters
    ----------
    queries : Bags
        Bags of the rows.
    references : Bags, optional
        Bags of the columns; the queries themselves if None, and the result is symmetric.
    function : callable
        ``f``: takes a block of squared distances and ``out=``, which is that block.
    query_weights, reference_weights : array of shape (n_instances,), optional
        Weight of each instance, 1 if not given.

    Returns
    -------
    array of shape (n_queries, n_references)

    Notes
    -----
    Cost: O(N_queries N_references d) in instances and features; memory one block and the result.

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.array([[0.0], [3.0]]), np.array([[1.0]])])
    >>> pair_sums(bags, None, np.sqrt)
    array([[6., 3.],
           [3., 0.]])
    """
    itself = references is None
    to = queries if references is None else references
    if itself:
        reference_weights = query_weights
    sums = np.zeros((queries.n_bags, to.n_bags))
    blocks = squared_distance_blocks(
        queries.instances, to.instances, offsets=to.offsets, upper=itself
    )
    for rows, columns, squared in blocks:
        values = function(squared, out=squared)
        if itself and columns.start < rows.stop:
            # All above the diagonal, and half of the diagonal; the transpose adds the rest.
            diagonal = rows.start - columns.start
            values = (np.triu(values, diagonal) + np.triu(values, diagonal + 1)) / 2
        if query_weights is not None:
            values *= query_weights[rows, None]
        if reference_weights is not None:
            values *= reference_weights[columns]
        row_bags, row_starts = segments_in(queries.offsets, rows)
        column_bags, column_starts = segments_in(to.offsets, columns)
        # Rows first: whole rows are added, and the array that is left is small.
        part = np.add.reduceat(values, row_starts, axis=0, dtype=np.float64)
        sums[row_bags, column_bags] += np.add.reduceat(part, column_starts, axis=1)
    return sums + sums.T if itself else sums


def gaussian_sums(
    queries: Bags,
    references: Bags | None = None,
    *,
    gamma: float = 1.0,
    query_weights: FloatArray | None = None,
    reference_weights: FloatArray | None = None,
) -> FloatArray:
    """Return the set kernel with a Gaussian base, ``sum w_a w_b exp(-gamma |a - b|^2)``.

    Implements the multi-instance kernel of Gartner et al. (with a Gaussian base kernel
    its power p only multiplies gamma) and, with weights, the numerator of the miGraph kernel.

    Parameters
    ----------
    queries : Bags
        Bags of the rows.
    references : Bags, optional
        Bags of the columns; the queries themselves if not given.
    gamma : float, default=1.0
        Decay per squared distance.
    query_weights, reference_weights : array of shape (n_instances,), optional
        Weight of each instance, 1 if not given.

    Returns
    -------
    array of shape (n_queries, n_references)

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> bags = Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))])
    >>> gaussian_sums(bags).round(4)
    array([[4.    , 0.7358],
           [0.7358, 1.    ]])
    """
    return pair_sums(
        queries,
        references,
        lambda squared, out: np.exp(np.multiply(squared, -gamma, out=out), out=out),
        query_weights=query_weights,
        reference_weights=reference_weights,
    )


def gaussian_self_sums(bags: Bags, *, gamma: float = 1.0) -> FloatArray:
    """Return the set kernel of every bag with itself, the diagonal of :func:`gaussian_sums`.

    Parameters
    ----------
    bags : Bags
        The bags.
    gamma : float, default=1.0
        Decay per squared distance.

    Returns
    -------
    array of shape (n_bags,)

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> gaussian_self_sums(Bags.from_list([np.zeros((2, 1)), np.ones((1, 1))]))
    array([4., 1.])
    """
    bag_by_bag = (bags[k : k + 1] for k in range(bags.n_bags))
    return np.array([gaussian_sums(bag, gamma=gamma)[0, 0] for bag in bag_by_bag])


def min_max_statistics(bags: Bags) -> FloatArray:
    """Return the smallest and the largest value of every feature in every bag.

    The statistic ``s(X)`` of the min-max kernel of Gartner et al.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    array of shape (n_bags, 2 * n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from pigmil import Bags
    >>> min_max_statistics(Bags.from_list([np.array([[0.0, 5.0], [2.0, 4.0]])]))
    array([[0., 4., 2., 5.]])
    """
    if bags.is_sparse:
        parts = [(bag.min(axis=0).toarray(), bag.max(axis=0).toarray()) for bag in bags]
        return np.array([np.concatenate([low.ravel(), high.ravel()]) for low, high in parts])
    low = segment_reduce(np.minimum, bags.instances, bags.offsets)
    high = segment_reduce(np.maximum, bags.instances, bags.offsets)
    return np.hstack([low, high]).astype(np.float64)
