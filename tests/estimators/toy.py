"""Bags for the tests of several methods."""

import numpy as np

from pigmil import Bags


def toy_bags(seed=0, n_bags=16, *, largest=5, shift=2.0, place=-1):
    """Return bags of normal instances in the plane; in every second one, one of them is shifted."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(rng.integers(1, largest + 1), 2)) for _ in range(n_bags)]
    for part in parts[::2]:
        part[place] += shift
    return Bags.from_list(parts, y=[1, 0] * (n_bags // 2))
