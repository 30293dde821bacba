"""Bag accuracy with the detected pool, a random one and the worst-scored one."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from pigmil._core.optional import import_optional
from pigmil._core.typing import IntArray
from pigmil.bags import Bags, BagScaler
from pigmil.estimators.pigmil import PIGMIL
from pigmil.evaluation._cells import recorded_warnings
from pigmil.evaluation._execution import Task, run_tasks
from pigmil.evaluation._executors import make_executor
from pigmil.evaluation._identity import estimator_identity
from pigmil.evaluation._splits import Split, bag_splits, data_checksum
from pigmil.evaluation._store import Cell, Store, canonical_json
from pigmil.graph import ClassSplit

POOLS = ("detected", "random", "worst")


def accuracy_by_pool(bags: Bags, split: Split, model: PIGMIL) -> dict[str, Any]:
    """Fit PIGMIL to the training bags and classify the test bags with three pools.

    Only the pool differs: the detected one, a random instance of each of its bags, and the
    worst-scored instance of each of its bags. The bag classifier is trained anew for each, its
    costs and width chosen on the training bags.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    split : Split
        Training and test bags.
    model : PIGMIL
        Not fitted.

    Returns
    -------
    dict
        The accuracy of ``"detected"``, ``"random"`` and ``"worst"`` on the test bags, and
        ``"warnings"``.
    """
    with recorded_warnings() as caught:
        scaler = BagScaler().fit(bags[split.train])
        train, test = (scaler.transform(bags[part]) for part in (split.train, split.test))
        fitted = copy.copy(model).fit(train)
        rng = check_random_state(split.fold)
        pools: dict[str, IntArray] = {
            "detected": fitted.pool_,
            "random": _one_per_bag(train, fitted.pool_, rng.choice),
            "worst": _one_per_bag(
                train, fitted.pool_, lambda rows: rows[np.argmin(fitted.instance_scores_[rows])]
            ),
        }
        positive = train.y == fitted.positive_label_
        densities = ClassSplit.from_bags(
            train,
            positive,
            decays=(fitted.decay_,),
            unit=fitted.length_unit_,
            two_sided=False,
        ).log_negative_density[0]
        accuracies: dict[str, Any] = {}
        for name, pool in pools.items():
            other = copy.copy(fitted)
            other.pool_ = pool
            other._fit_classifier(train, positive, densities, check_random_state(split.fold))
            accuracies[name] = float(np.mean(other.predict(test) == test.y))
    return {**accuracies, "warnings": sorted(set(caught))}


def _one_per_bag(bags: Bags, pool: IntArray, choose: Callable[[IntArray], Any]) -> IntArray:
    """Return one instance of the bag of every member of a pool."""
    members = [np.flatnonzero(bags.bag_index == bags.bag_index[x]) for x in pool]
    return np.array([choose(rows) for rows in members])


def pools(
    sets: Mapping[str, Bags],
    *,
    repeats: int = 1,
    folds: int = 10,
    n_jobs: int | None = None,
    store: Store,
    callback: Callable[..., None] | None = None,
) -> Any:
    """Compare the bag accuracy of the detected pool with that of a random and the worst one.

    Parameters
    ----------
    sets : mapping of name to Bags
        Real sets.
    repeats, folds : int, default=1, 10
        Of the cross-validation.
    n_jobs : int, optional
        Parallel fits.
    store : Store
        Where finished fits are kept.
    callback : callable, optional
        Called with a :class:`pigmil.evaluation.Progress` after every fit.

    Returns
    -------
    pandas.DataFrame
        ``data``, ``detected``, ``random`` and ``worst`` in per cent, ``gain`` of the detected over
        the random pool and its standard error ``gain_error`` over the folds, ``folds``.
    """
    pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
    model = PIGMIL(random_state=0)
    path, parameters, version = estimator_identity(model)
    protocol = canonical_json({"experiment": "pools", "folds": folds})
    tasks = [
        Task(
            Cell(
                data=name,
                checksum=data_checksum(bags),
                method="PIGMIL",
                estimator=path,
                parameters=parameters,
                protocol=protocol,
                repeat=split.repeat,
                fold=split.fold,
                version=version,
            ),
            accuracy_by_pool,
            {"split": split, "model": model},
            {"bags": (name, bags)},
        )
        for name, bags in sets.items()
        for split in bag_splits(bags, repeats=repeats, folds=folds)
    ]
    rows = run_tasks(tasks, store, executor=make_executor(n_jobs), callback=callback)
    cells = pd.DataFrame(
        [
            {"data": row["data"], **{name: 100 * row["metrics"][name] for name in POOLS}}
            for row in rows
            if row["status"] == "done"
        ],
        columns=["data", *POOLS],
    )
    cells["gain"] = cells["detected"] - cells["random"]
    by_set = cells.groupby("data", sort=False)
    table = by_set.mean()
    # Folds overlap in their training bags (Nadeau and Bengio 2003).
    count = by_set.size()
    table["gain_error"] = by_set["gain"].std() * np.sqrt(1 / count + 1 / (folds - 1))
    table["folds"] = count
    return table.reset_index()
