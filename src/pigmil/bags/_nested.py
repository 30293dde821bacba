"""Bags as the array of arrays that scikit-learn indexes: an array for each bag and feature."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagsError


def is_nested(X: Any) -> bool:
    """Return whether this is what NumPy makes of Bags: an array for each bag and feature."""
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.size > 0 and np.ndim(X[0, 0]) == 1


class FeatureOfBag(np.ndarray[Any, Any]):
    """Values of one feature of a bag, with the position of the bag they were taken from."""

    bag: int

    def __array_finalize__(self, origin: Any) -> None:
        self.bag = getattr(origin, "bag", -1)

    def __reduce__(self) -> Any:
        return feature_of_bag, (np.asarray(self), self.bag)


def feature_of_bag(values: NDArray[Any], bag: int) -> FeatureOfBag:
    """Return the values with the position of their bag."""
    feature = values.view(FeatureOfBag)
    feature.bag = bag
    return feature


def from_nested(X: NDArray[Any]) -> list[NDArray[Any]]:
    """Return one table per bag.

    A feature of Bags that was exchanged with that of a bag of another size (permutation importance)
    is repeated, or cut, to the size of the bag that the other features belong to.
    """
    bags = []
    for position, row in enumerate(X):
        features = list(row)
        sizes = sorted({len(values) for values in features})
        if len(sizes) > 1:
            if not all(isinstance(values, FeatureOfBag) for values in features):
                raise BagsError(
                    f"Bag {position} has features of {sizes[0]} and of {sizes[-1]} instances."
                )
            owners = [values.bag for values in features]
            owner = max(owners, key=lambda bag: (owners.count(bag), bag == position))
            size = len(features[owners.index(owner)])
            features = [np.resize(values, size) for values in features]
        bags.append(np.column_stack([np.asarray(values) for values in features]))
    return bags
