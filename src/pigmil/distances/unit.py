"""The unit of length in which a method measures its distances."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from pigmil.bags import Bags
from pigmil.distances.blockwise import squared_distance_blocks
from pigmil.scale import LazyBags, column_moments, take_rows

_MEDIAN_SAMPLE = 1000


def length_unit(instances: Any, rule: str | float = "auto", *, random_state: Any = 0) -> float:
    """Length that counts as 1: distances are divided by it before they enter a formula.

    The constants of the paper are all 1, which suits z-scored data in two dimensions and no
    others: distances grow with the square root of the number of features.

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features), Bags or LazyBags
        The training instances.
    rule : {"auto", "median"} or float, default="auto"
        ``"auto"``: ``unit^2 = (sum of feature variances) / 2``, which is 1 for z-scored data in
        two dimensions. ``"median"``: the median distance between instances (of at most 1000,
        drawn by ``random_state``). A number is taken as it is; 1.0 is the paper.
    random_state : int, RandomState instance or None, default=0
        For the sample behind ``"median"``.

    Returns
    -------
    float
        The unit, positive; 1.0 where all instances are the same.

    Examples
    --------
    >>> import numpy as np
    >>> length_unit(np.array([[-1.0, -1.0], [1.0, 1.0]]))
    1.0
    >>> length_unit(np.zeros((3, 2)), 0.5)
    0.5
    """
    bags = instances if isinstance(instances, Bags | LazyBags) else None
    if rule == "auto":
        square = _total_variance(instances if bags is None else bags) / 2
    elif rule == "median":
        chosen = np.arange(instances.shape[0] if bags is None else bags.n_instances)
        if len(chosen) > _MEDIAN_SAMPLE:
            chosen = check_random_state(random_state).choice(chosen, _MEDIAN_SAMPLE, replace=False)
        sample = instances[chosen] if bags is None else take_rows(bags, np.sort(chosen))
        blocks = [block for _, _, block in squared_distance_blocks(sample, sample)]
        pairs = np.concatenate(blocks)[np.triu_indices(len(chosen), k=1)]
        square = float(np.median(pairs)) if pairs.size else 0.0
    else:
        return float(rule)
    return float(np.sqrt(square)) if square > 0 else 1.0


def _total_variance(instances: Any) -> float:
    if isinstance(instances, LazyBags):
        return float(column_moments(instances)[2].sum())
    if isinstance(instances, Bags):
        instances = instances.instances
    if sp.issparse(instances):
        mean = np.asarray(instances.mean(axis=0)).ravel()
        return float(instances.multiply(instances).sum() / instances.shape[0] - (mean**2).sum())
    return float(np.var(instances, axis=0, dtype=np.float64).sum())
