"""Similarity of instances, from how highly their exemplar classifiers rank each other."""

import numpy as np
import numpy.typing as npt

from pigmil._core.typing import FloatArray

__all__ = ["confidence_ranks", "self_confidence", "similarity"]

Ranks = npt.NDArray[np.int32]

_BLOCK_ELEMENTS = 1 << 21


def self_confidence(confidences: npt.ArrayLike) -> FloatArray:
    """Return the confidence of each exemplar classifier in its own exemplar, Υ_ii.

    With the bias included this is 1 for every exemplar SVM (the exemplar lies on its margin, see
    `exemplar_svms`), so exemplars differ only when the bias is left out. Values that differ by
    rounding are made equal, so that Algorithm 2 takes no rounding for a gain.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> self_confidence([[1.0, 0.5], [-0.5, 2.0]])
    array([1., 2.])
    """
    own = np.array(np.diagonal(_square(confidences)), np.float64)
    scale = float(np.abs(own).max(initial=0.0)) or 1.0
    return np.round(own / scale, 12) * scale


def confidence_ranks(confidences: npt.ArrayLike) -> Ranks:
    """Rank the instances each classifier is confident in, the highest first.

    Implements φ of Definition 6: the order of instance j among the other instances
    whose confidence under classifier i is positive.

    Departs from the paper: ties, which it does not mention, share the best rank (1, 2, 2, 4), so
    that the order of the instances changes nothing.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.

    Returns
    -------
    ndarray of int32, shape (m, m)
        1 for the highest positive confidence of the row, the exemplar itself left out; 0 where the
        confidence is not positive, and on the diagonal.

    Notes
    -----
    Cost: m sorts of m numbers; memory for input, output and a bounded block of rows.

    Examples
    --------
    >>> confidence_ranks([[9.0, 0.2, 0.7], [0.5, 9.0, -1.0], [0.3, 0.3, 9.0]])
    array([[0, 2, 1],
           [1, 0, 0],
           [1, 1, 0]], dtype=int32)
    """
    square = _square(confidences)
    m = len(square)
    ranks = np.zeros((m, m), np.int32)
    position = np.arange(1, m + 1, dtype=np.int32)
    step = max(1, _BLOCK_ELEMENTS // max(1, m))
    for start in range(0, m, step):
        # Negated, because numpy sorts upwards; what is not ranked goes to the end.
        block = -square[start : start + step].astype(np.float64)
        own = np.arange(len(block))
        block[own, start + own] = np.inf
        block[~(block < 0.0)] = np.inf
        order = np.argsort(block, axis=1)
        ordered = np.take_along_axis(block, order, axis=1)
        rank = np.broadcast_to(position, block.shape).copy()
        rank[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = 0  # a tie takes the rank before it
        np.maximum.accumulate(rank, axis=1, out=rank)
        rank[ordered == np.inf] = 0
        np.put_along_axis(ranks[start : start + step], order, rank, axis=1)
    return ranks


def similarity(confidences: npt.ArrayLike) -> FloatArray:
    """Return the similarity of every two instances from the confidences of their exemplars.

    Implements Definition 6, Eq. (3): S_ij = 1 / (φ(i, j) φ(j, i)) if classifier
    i is confident in instance j and classifier j in instance i, and 0 otherwise.

    Departs from the paper: ties share the best rank, see `confidence_ranks`.

    Parameters
    ----------
    confidences : array-like of shape (m, m)
        Entry (i, j) is the confidence of classifier i in instance j.

    Returns
    -------
    ndarray of shape (m, m)
        Symmetric, between 0 and 1, zero on the diagonal.

    Notes
    -----
    Cost: that of `confidence_ranks`, and one array of ranks.

    References
    ----------
    .. [1] M. Rastegari, H. Hajishirzi, A. Farhadi, "Discriminative and consistent similarities in
       instance-level multiple instance learning", CVPR 2015.

    Examples
    --------
    >>> similarity([[9.0, 0.2, 0.7], [0.5, 9.0, -1.0], [0.3, 0.3, 9.0]])
    array([[0. , 0.5, 1. ],
           [0.5, 0. , 0. ],
           [1. , 0. , 0. ]])
    """
    ranks = confidence_ranks(confidences)
    m = len(ranks)
    values = np.zeros((m, m))
    step = max(1, _BLOCK_ELEMENTS // max(1, m))
    for start in range(0, m, step):
        rows = slice(start, start + step)
        product = ranks[rows].astype(np.float64) * ranks[:, rows].T
        np.divide(1.0, product, out=values[rows], where=product > 0.0)
    return values


def _square(confidences: npt.ArrayLike) -> npt.NDArray[np.floating]:
    """Return the confidences as an array, after checking that it is square."""
    square = np.asarray(confidences)
    if square.ndim != 2 or square.shape[0] != square.shape[1]:
        raise ValueError(
            f"Expected a square matrix of confidences, one classifier and one instance for each "
            f"row and column; got shape {square.shape}. Train one exemplar for each instance."
        )
    return square
