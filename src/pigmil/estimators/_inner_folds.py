"""Folds over the training bags, for methods that choose a setting while they fit."""

import numpy as np

from pigmil._core.typing import BoolArray

N_FOLDS = 5


def interleaved_folds(positive: BoolArray, n_folds: int = N_FOLDS) -> list[BoolArray]:
    """Stratified folds without chance: the bags of each class are dealt out in turn.

    Parameters
    ----------
    positive : array of bool of shape (n_bags,)
        Class of every bag.
    n_folds : int, default=5
        Number of folds; fewer if a class has fewer bags.

    Returns
    -------
    list of array of bool of shape (n_bags,)
        For each fold which bags are held out. Empty where a class has one bag only: nothing can
        be held out then.

    Examples
    --------
    >>> import numpy as np
    >>> [fold.astype(int) for fold in interleaved_folds(np.array([True, False, False, True]))]
    [array([1, 1, 0, 0]), array([0, 0, 1, 1])]
    """
    n_folds = min(n_folds, int(positive.sum()), int((~positive).sum()))
    if n_folds < 2:
        return []
    place = np.where(positive, np.cumsum(positive), np.cumsum(~positive)) - 1
    return [place % n_folds == fold for fold in range(n_folds)]
