"""The forest of SoftPIGMIL: extremely randomized trees fitted on the pool of the other models."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier

from pigmil._core.jit import njit
from pigmil._core.segments import offsets_of, segment_gather, segment_ids, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.estimators._soft_steps import soft_pool
from pigmil.scale import map_calls

_N_TREES, _N_TREES_OF_MANY = 100, 50
_MANY_EXAMPLES = 3000
_LEAST_IN_LEAF = 3
_SMALLEST_SHARE = 2.0**-10  # of a place; shares of examples are multiples of it
_FINEST = 2.0**20  # weights of negatives are multiples of its inverse
_ADDED = 0.02  # to both sides of the odds
_MOST_ROWS = 3000  # negatives to fit on
_ROWS_AT_A_TIME = 64


@dataclass(frozen=True)
class Forest:
    """Trees as arrays over all their nodes.

    Parameters
    ----------
    roots : array of int of shape (n_trees,)
        Position of the root of each tree.
    feature : array of int of shape (n_nodes,)
        Feature that a node asks for.
    threshold : array of shape (n_nodes,)
        An instance goes left if the feature is at most this.
    left, right : array of int of shape (n_nodes,)
        Where it goes; both are the node itself at a leaf, and later nodes otherwise.
    value : array of shape (n_nodes,)
        Share of positive weight among the examples that reach the node.
    """

    roots: IntArray
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray

    @property
    def n_features_needed(self) -> int:
        """Smallest number of features of an instance that the trees can read."""
        return int(self.feature.max()) + 1

    def log_odds(self, rows: NDArray[Any]) -> FloatArray:
        """Return ``log((p + 0.02) / (1.02 - p))``, p the mean value of the leaves reached."""
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        nodes = (self.roots, self.feature, self.threshold, self.left, self.right, self.value)
        share = mean_leaf_values(rows, *nodes)
        return np.asarray(np.log((share + _ADDED) / (1.0 + _ADDED - share)), dtype=np.float64)


@njit
def mean_leaf_values(
    rows: NDArray[np.float32],
    roots: IntArray,
    feature: IntArray,
    threshold: FloatArray,
    left: IntArray,
    right: IntArray,
    value: FloatArray,
) -> FloatArray:
    """Return for each row the mean over the trees of the value of the leaf it reaches."""
    found = np.zeros(rows.shape[0])
    # A few rows go through one tree after another: both stay in the cache.
    for start in range(0, rows.shape[0], _ROWS_AT_A_TIME):
        stop = min(start + _ROWS_AT_A_TIME, rows.shape[0])
        for root in roots:
            for i in range(start, stop):
                node = root
                while left[node] != node:
                    node = left[node] if rows[i, feature[node]] <= threshold[node] else right[node]
                found[i] += value[node]
    return found / len(roots)


def fit_forest(
    rows: NDArray[Any], pool: FloatArray, offsets: IntArray, positive: BoolArray
) -> Forest:
    """Fit trees that separate the pool from the instances of negative bags.

    An instance of a positive bag is a positive example with the weight of its share in the place
    of its bag, rounded to multiples of 1/1024; those rounded to 0 are left out, except the best of
    a bag. Instances of negative bags are negative examples (an evenly spaced 3,000 of them where
    there are more), with the same weight in total. There are 100 trees, or 50 where there are more
    than 3,000 examples.

    Parameters
    ----------
    rows : array of shape (n_instances, n_features)
        Standardized instances.
    pool : array of shape (n_instances,)
        Shares, which sum to 1 in each positive bag.
    offsets : array of int of shape (n_bags + 1,)
        Where bags begin.
    positive : array of bool of shape (n_bags,)
        Which bags are positive.

    Returns
    -------
    Forest
        It does not depend on the order of the instances: they are sorted first, and the trees
        have a seed of their own.
    """
    inside = positive[segment_ids(offsets)]
    rows = np.asarray(rows, dtype=np.float32)
    order = _byte_order(rows)
    certain = order[~inside[order]]
    if len(certain) > _MOST_ROWS:
        spaced = np.linspace(0, len(certain) - 1, _MOST_ROWS).round().astype(np.int64)
        certain = certain[spaced]
    # Sums of such weights are exact, so that two features that divide a node alike stay tied.
    shares = np.round(pool / _SMALLEST_SHARE) * _SMALLEST_SHARE
    best = segment_reduce(np.maximum, pool, offsets)[segment_ids(offsets)]
    shares = np.where(pool == best, np.maximum(shares, _SMALLEST_SHARE), shares)
    likely = order[inside[order] & (shares[order] > 0)]
    examples = np.concatenate([likely, certain])
    of_negative = np.ceil(shares[likely].sum() / len(certain) * _FINEST) / _FINEST
    weights = np.append(shares[likely], np.full(len(certain), of_negative))
    n_trees = _N_TREES if len(examples) <= _MANY_EXAMPLES else _N_TREES_OF_MANY
    trees = ExtraTreesClassifier(n_trees, min_samples_leaf=_LEAST_IN_LEAF, random_state=0)
    trees.fit(rows[examples], inside[examples], sample_weight=weights)
    return _as_arrays([each.tree_ for each in trees.estimators_])


def fit_forest_apart(
    rows: NDArray[Any],
    scores: FloatArray,
    scores_apart: list[FloatArray],
    offsets: IntArray,
    positive: BoolArray,
    folds: list[BoolArray],
    sharpness: float,
    *,
    n_jobs: int | None = None,
) -> tuple[Forest, FloatArray]:
    """Fit a forest on all bags, and one without each fold of bags to score that fold.

    Parameters
    ----------
    rows, offsets, positive
        As in :func:`fit_forest`.
    scores : array of shape (n_instances,)
        Scores so far; their softmax in each bag is the pool.
    scores_apart : list of arrays
        Scores by models without each fold, of the instances of the other folds.
    folds : list of arrays of bool of shape (n_bags,)
        Which bags are held out together.
    sharpness : float
        Factor of the scores, in standard deviations of the negatives' scores, in the softmax.
    n_jobs : int, optional
        Forests fitted at a time, in threads, if there is no cluster.

    Returns
    -------
    forest : Forest
        That of all bags.
    held_out : array of shape (n_instances,)
        Log-odds of each instance by the forest without its fold.
    """
    rows = np.asarray(rows, dtype=np.float32)  # as trees take them: half to send to a cluster
    fit_without = partial(_fit_without, rows, offsets, positive, sharpness)
    nothing = np.zeros(len(positive), dtype=bool)
    calls = [(scores, nothing), *zip(scores_apart, folds, strict=True)]
    (forest, _), *parts = map_calls(fit_without, calls, n_jobs=n_jobs)
    held_out = np.empty(len(rows))
    for fold, (_, log_odds) in zip(folds, parts, strict=True):
        held_out[segment_gather(offsets, np.flatnonzero(fold))] = log_odds
    return forest, held_out


def _fit_without(
    rows: NDArray[Any],
    offsets: IntArray,
    positive: BoolArray,
    sharpness: float,
    scores: FloatArray,
    fold: BoolArray,
) -> tuple[Forest, FloatArray]:
    """Return a forest of all bags but those of a fold, and its log-odds for these."""
    kept = segment_gather(offsets, np.flatnonzero(~fold))
    away = segment_gather(offsets, np.flatnonzero(fold))
    starts, labels = offsets_of(np.diff(offsets)[~fold]), positive[~fold]
    pool = _pool(scores, starts, labels, sharpness)
    forest = fit_forest(rows[kept], pool, starts, labels)
    return forest, forest.log_odds(rows[away])


def _pool(
    scores: FloatArray, offsets: IntArray, positive: BoolArray, sharpness: float
) -> FloatArray:
    spread = float(scores[~positive[segment_ids(offsets)]].std())
    return soft_pool(scores / (spread if spread > 1e-12 else 1.0), offsets, sharpness)


def _byte_order(rows: NDArray[np.float32]) -> IntArray:
    """Return an order of the rows that depends on their values only: by their bytes."""
    rows = np.ascontiguousarray(rows + np.float32(0.0))  # no negative zeros
    return np.argsort(rows.view(f"V{rows.dtype.itemsize * rows.shape[1]}").ravel(), kind="stable")


def _as_arrays(trees: list[Any]) -> Forest:
    roots = np.cumsum([0, *(tree.node_count for tree in trees[:-1])]).astype(np.int64)
    parts: dict[str, list[NDArray[Any]]] = {name: [] for name in ("feature", "left", "right")}
    for root, tree in zip(roots, trees, strict=True):
        nodes = np.arange(tree.node_count)
        leaf = tree.children_left < 0
        parts["feature"].append(np.where(leaf, 0, tree.feature))
        parts["left"].append(root + np.where(leaf, nodes, tree.children_left))
        parts["right"].append(root + np.where(leaf, nodes, tree.children_right))
    joined = {name: np.concatenate(arrays).astype(np.int64) for name, arrays in parts.items()}
    values = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return Forest(
        roots=roots,
        threshold=np.concatenate([tree.threshold for tree in trees]).astype(np.float64),
        value=values[:, 1] / values.sum(axis=1),
        **joined,
    )
