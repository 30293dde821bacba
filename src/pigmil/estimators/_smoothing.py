"""Averages of instance scores over neighbours in the same bag, where instances have coordinates."""

import numpy as np
from scipy.spatial import cKDTree

from pigmil._core.errors import BagsError
from pigmil._core.segments import segment_mean
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags

WIDTHS = (0.7, 1.0, 1.5)  # of the Gaussian, in distances from an instance to the nearest one
_CUT = (
    3.03  # widths from which on a weight counts as 0; no two tiles of a grid are just as far apart
)
_ERRORS = 3.0  # standard errors by which positives must be seen to be neighbours


def coordinates(bags: Bags) -> FloatArray:
    """Return the coordinates of all instances; raise an error if there are none."""
    found = np.asarray(bags.instance_info.get("coords", ()))
    if found.ndim != 2 or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
        raise BagsError(
            "smooth='coords' needs instance_info['coords'], two numbers per instance. Files of "
            "slides have them as 'coords', AnnData objects as obsm['spatial']; else set them with "
            "bags.with_info(instance_info={'coords': array}).",
            parameter="smooth",
        )
    return np.asarray(found, dtype=np.float64)


def neighbour_means(
    scores: FloatArray, coords: FloatArray, offsets: IntArray, width: float
) -> FloatArray:
    """Return the weighted mean score of each instance's neighbours, its own score without any.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        The scores.
    coords : array of shape (n_instances, n_dimensions)
        The coordinates, in any unit.
    offsets : array of shape (n_bags + 1,)
        Where the bags begin; instances of other bags are no neighbours.
    width : float
        Of the Gaussian, in units of the median distance from an instance of the bag to the nearest.

    Examples
    --------
    >>> coords = np.array([[0.0, 0.0], [0.0, 256.0], [0.0, 512.0], [0.0, 2560.0]])
    >>> neighbour_means(np.array([0.0, 3.0, 6.0, 9.0]), coords, np.array([0, 4]), 0.5)
    array([3., 3., 3., 9.])
    """
    means = np.empty(len(scores))
    for inside in map(slice, offsets[:-1], offsets[1:]):
        tree = cKDTree(coords[inside])
        spacing = np.median(tree.query(coords[inside], k=2)[0][:, 1])  # infinite for one instance
        scale = width * max(spacing, 1e-9)  # 0 where most instances lie on another one
        near = tree.sparse_distance_matrix(tree, _CUT * scale, output_type="coo_matrix")
        near.data = np.where(near.row == near.col, 0.0, np.exp(-0.5 * (near.data / scale) ** 2))
        weight = np.ravel(near.sum(axis=1))
        total = near @ scores[inside]
        means[inside] = np.divide(total, weight, where=weight > 0, out=scores[inside].copy())
    return means


def choose_smoothing(
    held_out: FloatArray, coords: FloatArray, offsets: IntArray, positive: BoolArray
) -> tuple[float, float]:
    """Return the width and the share of the neighbours in the score, both 0 for no smoothing.

    A score is a signal and noise. The best linear prediction of the signal from the scores of an
    instance and of its neighbours (kriging) needs their covariances with the signal: those inside
    positive bags minus those inside negative bags, which hold noise alone. There is no smoothing
    unless the neighbours are seen to have a part in the signal.

    Parameters
    ----------
    held_out : array of shape (n_instances,)
        Scores by models fitted without the bag.
    coords, offsets : arrays
        As for :func:`neighbour_means`.
    positive : array of bool of shape (n_bags,)
        The positive bags.
    """

    def centred(values: FloatArray) -> FloatArray:
        return values - np.repeat(segment_mean(values, offsets), np.diff(offsets))

    own = centred(held_out)
    best = (0.0, 0.0, 0.0)  # variance of the signal that is explained, width, share
    for width in WIDTHS:
        near = centred(neighbour_means(held_out, coords, offsets, width))
        # Of each bag: variance of its scores, covariance with their neighbours, variance of these.
        moments = segment_mean(np.column_stack([own * own, own * near, near * near]), offsets)
        both, noise = moments[positive], moments[~positive]
        signal = (both.mean(axis=0) - noise.mean(axis=0))[:2]
        error = np.hypot(*(part[:, 1].std() / np.sqrt(len(part)) for part in (both, noise)))
        if signal[1] > _ERRORS * error:
            variance, covariance, spread = both.mean(axis=0)
            matrix = np.array([[variance, covariance], [covariance, spread]])
            weights = np.linalg.lstsq(matrix, signal, rcond=None)[0]
            share = float(np.clip(weights[1] / weights.sum(), 0.0, 1.0))
            best = max(best, (float(weights @ signal), width, share))
    return best[1:]


def smooth_scores(
    scores: FloatArray, coords: FloatArray, offsets: IntArray, width: float, share: float
) -> FloatArray:
    """Return the mean of the score of each instance and that of its neighbours, by their share."""
    if not share:
        return scores
    return (1.0 - share) * scores + share * neighbour_means(scores, coords, offsets, width)
