"""Bag accuracy with the detected pool, a random one and the worst-scored one."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from pigmil import PIGMIL, Bags, BagScaler
from reproduction.detection import Runner

POOLS = ("detected", "random", "worst")


def accuracy_by_pool(
    bags: Bags, train_bags: Any, test_bags: Any, fold: int, model: PIGMIL
) -> dict[str, float]:
    """Fit PIGMIL to the training bags and classify the test bags with three pools.

    Only the pool differs: the detected one, a random instance of each of its bags, and the
    worst-scored instance of each of its bags. The bag classifier is trained anew for each, its
    costs and width chosen on the training bags.

    Returns
    -------
    dict
        The accuracy of ``"detected"``, ``"random"`` and ``"worst"`` on the test bags.
    """
    scaler = BagScaler().fit(bags[train_bags])
    train, test = scaler.transform(bags[train_bags]), scaler.transform(bags[test_bags])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model.fit(train)
        scores, rng = model.instance_scores_, check_random_state(fold)
        pools = {
            "detected": model.pool_,
            "random": _one_per_bag(train, model.pool_, rng.choice),
            "worst": _one_per_bag(train, model.pool_, lambda rows: rows[np.argmin(scores[rows])]),
        }
        return {
            name: float(
                np.mean(model.with_pool(train, pool, random_state=fold).predict(test) == test.y)
            )
            for name, pool in pools.items()
        }


def _one_per_bag(bags: Bags, pool: Any, choose: Callable[[Any], Any]) -> Any:
    """Return one instance of the bag of every member of a pool."""
    members = [np.flatnonzero(bags.bag_index == bags.bag_index[x]) for x in pool]
    return np.array([choose(rows) for rows in members])


def pools(sets: Mapping[str, Bags], run: Runner, *, folds: int = 10) -> Any:
    """Compare the bag accuracy of the detected pool with that of a random and the worst one.

    Parameters
    ----------
    sets : mapping of name to Bags
        Real sets.
    run : Runner
        Runs the fits.
    folds : int, default=10
        Of the cross-validation.

    Returns
    -------
    pandas.DataFrame
        ``data``, ``detected``, ``random`` and ``worst`` in per cent, ``over_random`` and
        ``over_worst``, how much better the detected pool is, with standard errors over the same
        folds (``over_random_error``, ``over_worst_error``), and ``folds``.
    """
    calls = []
    for name, bags in sets.items():
        splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
        for fold, (train, test) in enumerate(splitter.split(np.zeros(len(bags)), bags.y)):
            calls.append((name, (bags, train, test, fold, PIGMIL(random_state=0))))
    found = zip(calls, run(accuracy_by_pool, calls), strict=True)
    cells = pd.DataFrame(
        [
            {"data": name, **{pool: 100 * accuracies[pool] for pool in POOLS}}
            for (name, _), accuracies in found
            if "error" not in accuracies
        ],
        columns=["data", *POOLS],
    )
    for pool in POOLS[1:]:
        cells[f"over_{pool}"] = cells["detected"] - cells[pool]
    by_set = cells.groupby("data", sort=False)
    table, count = by_set.mean(), by_set.size()
    for pool in POOLS[1:]:
        # Folds overlap in their training bags (Nadeau and Bengio 2003).
        spread = by_set[f"over_{pool}"].std() * np.sqrt(1 / count + 1 / (folds - 1))
        table[f"over_{pool}_error"] = spread
    table["folds"] = count
    return table.reset_index()
