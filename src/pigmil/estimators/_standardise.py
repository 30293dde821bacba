"""One centre and one scale for all features, and an order of bags that depends on content alone."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.segments import segment_reduce
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit


def centre_and_spread(instances: Any) -> tuple[FloatArray, float]:
    """Return the mean of the instances and the root of the mean variance of the features.

    After subtraction and division a method behaves the same on data of any offset and scale, and
    as before on z-scored data. The mean of sparse instances is taken to be 0, which keeps them
    sparse.

    Examples
    --------
    >>> import numpy as np
    >>> centre_and_spread(np.array([[1.0, 5.0], [3.0, 5.0]]))[0]
    array([2., 5.])
    """
    n_features = instances.shape[1]
    spread = length_unit(instances) * float(np.sqrt(2.0 / n_features))
    if sp.issparse(instances):
        return np.zeros(n_features), spread
    return np.asarray(instances.mean(axis=0, dtype=np.float64)), spread


def standardised(instances: Any, centre: FloatArray, spread: float) -> Any:
    """Return the instances less the centre (unless they are sparse), divided by the spread."""
    if sp.issparse(instances):
        return instances / spread
    return np.subtract(instances, centre, dtype=np.float64) / spread


def instance_keys(instances: Any) -> FloatArray:
    """Project every instance on one fixed direction: a sort key that depends on content alone."""
    direction = np.random.RandomState(0).normal(size=instances.shape[1])
    if sp.issparse(instances):
        return np.asarray(instances @ direction, dtype=np.float64)
    # Row by row: a matrix product may round a row differently depending on its position.
    return np.einsum("ij,j->i", np.asarray(instances, dtype=np.float64), direction)


def content_order(bags: Bags) -> IntArray:
    """Return the positions of the bags in an order that depends on their content alone.

    Neither the order of the bags nor that of the instances inside them, nor offset and scale of
    the data, change this order. Bags with the same instances are interchangeable.
    """
    keys = instance_keys(bags.instances)
    highest = segment_reduce(np.maximum, keys, bags.offsets)
    lowest = segment_reduce(np.minimum, keys, bags.offsets)
    return np.lexsort((bags.sizes, lowest, highest)).astype(np.int64)
