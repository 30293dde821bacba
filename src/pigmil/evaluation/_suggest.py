"""Which instances to look at next."""

from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import row_norms

from pigmil._core.typing import IntArray
from pigmil.bags import as_bags, before_marks
from pigmil.distances import squared_distances
from pigmil.evaluation._cells import positive_label
from pigmil.metrics import instance_scores

_POOL = 5000  # best-scored instances that are considered, so that large bags cost little


def suggest_instances(model: Any, bags: Any, n: int = 20) -> IntArray:
    """Suggest which instances to look at next, for :meth:`pigmil.Bags.with_marks`.

    One after the other the instance is taken whose product of three numbers is largest: its rank
    by score, from 0 to 1; its distance to the nearest instance that is marked or suggested
    already, in units of a typical distance and at most 1; and 1 / (1 + the number of such instances
    in its bag). So good instances come first, from all bags, and unlike those that are known.

    Parameters
    ----------
    model : fitted estimator
        A method that scores instances, or a pipeline or search around one.
    bags : bags
        Anything :func:`pigmil.as_bags` takes; bags with marks for the next round. Only instances
        of positive bags are suggested; of all bags if they have no labels.
    n : int, default=20
        How many instances; fewer if there are no more.

    Returns
    -------
    array of int
        Flat indices of the instances in the bags before marks, the first one to look at first.

    Notes
    -----
    Distances are between features divided by their standard deviation. Cost: O(n N d) for the at
    most 5,000 instances of highest score.

    Examples
    --------
    >>> from pigmil import SoftPIGMIL, suggest_instances
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> rows = suggest_instances(SoftPIGMIL().fit(bags), bags, n=5)
    >>> len(set(bags.bag_index[rows]))
    5
    """
    if n < 1:
        raise ValueError(f"n must be 1 or more; got {n!r}.")
    bags = as_bags(bags)
    found = before_marks(bags)
    marked = np.empty(0, dtype=np.int64)
    if found is not None:
        bags, marked = found[0], np.flatnonzero(~np.isnan(found[2]))
    is_candidate = np.ones(bags.n_instances, dtype=bool)
    if bags.y is not None:
        is_candidate = (bags.y == positive_label(model, bags.y))[bags.bag_index]
    is_candidate[marked] = False
    scores, rows = instance_scores(model, bags), np.flatnonzero(is_candidate)
    rows = rows[np.argsort(-scores[rows], kind="stable")[:_POOL]]
    if not len(rows):
        return rows
    rank = rankdata(scores[rows]) / len(rows)
    scaled = StandardScaler(with_mean=False).fit_transform(bags.instances)
    pool, owner = scaled[rows], bags.bag_index[rows]
    typical = float(np.median(row_norms(pool - pool[::-1]))) or 1.0  # of pairs of instances
    nearest = np.full(len(rows), np.inf)
    if len(marked):
        nearest = np.sqrt(squared_distances(pool, scaled[marked]).min(axis=1))
    known = np.bincount(bags.bag_index[marked], minlength=bags.n_bags)  # per bag
    chosen: list[int] = []
    for _ in range(min(n, len(rows))):
        value = rank * np.minimum(nearest / typical, 1.0) / (1.0 + known[owner])
        value[chosen] = -1.0
        best = int(np.argmax(value))
        chosen.append(best)
        known[owner[best]] += 1
        distances = np.sqrt(squared_distances(pool, pool[[best]])).ravel()
        nearest = np.minimum(nearest, distances)
    return rows[chosen]
