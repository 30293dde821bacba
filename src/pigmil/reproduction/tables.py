"""Tables I and II of the paper, ours beside theirs."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pigmil._core.optional import import_optional
from pigmil.estimators.pigmil import PIGMIL
from pigmil.evaluation.results import Results
from pigmil.evaluation.runner import compare
from pigmil.evaluation.store import Store
from pigmil.reproduction.detection import Detection, run_detections
from pigmil.reproduction.printed_tables import REAL, SYNTHETIC, TABLE_I, TABLE_II

TABLE_I_METHODS = ("PIGMIL", "PIGMIL|paper", "DD", "MILD", "mi-Sim", "KDE_min", "KDE", "KDE_max")
# The paper detects with DD by the density at the instances themselves.
_TABLE_I_PARAMETERS: dict[str, tuple[tuple[str, Any], ...]] = {"DD": (("score_by", "density"),)}
PAPER_CELLS = 50  # 5 x 10 folds
TEST_SHARE = 1 / 9


def table1(
    *,
    seeds: int = 50,
    n_jobs: int | None = None,
    store: Any = "pigmil-results.sqlite",
    callback: Callable[..., None] | None = None,
) -> Any:
    """Compute the detection accuracy on BASIC, RHOMBUS and RING (Table I).

    Parameters
    ----------
    seeds : int, default=50
        Draws of each set.
    n_jobs : int, optional
        Parallel fits.
    store : path or Store
        Where finished fits are kept.
    callback : callable, optional
        Called with a :class:`pigmil.evaluation.execution.Progress` after every fit.

    Returns
    -------
    pandas.DataFrame
        ``data``, ``method``, ``ours``, ``std``, ``covered`` (share of positive bags with a
        detected instance), ``every_bag`` (accuracy with one instance of every positive bag) and
        ``paper``, all in per cent; ``seeds`` and ``failed``, how many fits.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = table1(seeds=1, store=folder + "/r.sqlite")
    >>> float(table.set_index(["data", "method"]).loc[("RING", "KDE_min"), "ours"])
    100.0
    """
    pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
    wanted = [
        Detection(data, method, parameters=_TABLE_I_PARAMETERS.get(method, ()))
        for data in SYNTHETIC
        for method in TABLE_I_METHODS
    ]
    if isinstance(store, Store):
        rows = run_detections(
            "table1", wanted, range(seeds), store, n_jobs=n_jobs, callback=callback
        )
    else:
        with Store(store) as kept:
            return table1(seeds=seeds, n_jobs=n_jobs, store=kept, callback=callback)
    results = Results(rows)
    mean, std, count = (
        results.table("detection_accuracy", statistic=name) for name in ("mean", "std", "count")
    )
    covered, every = (100 * results.table(name) for name in ("covered", "every_bag_accuracy"))
    return pd.DataFrame(
        [
            {
                "data": data,
                "method": method,
                "ours": mean.loc[data, method],
                "std": std.loc[data, method],
                "seeds": count.loc[data, method],
                "failed": seeds - count.loc[data, method],
                "covered": covered.loc[data, method],
                "every_bag": every.loc[data, method],
                "paper": TABLE_I[method.partition("|")[0]][data],
            }
            for data in SYNTHETIC
            for method in TABLE_I_METHODS
        ]
    )


def table2_methods() -> dict[str, dict[str, Any]]:
    """Return the ten classifiers of Table II, and PIGMIL as literally as the paper allows."""
    plain, literal = PIGMIL().get_params(), PIGMIL.paper().get_params()
    literal.pop("reading")
    changed = {name: value for name, value in literal.items() if value != plain[name]}
    methods: dict[str, dict[str, Any]] = {name: {} for name in TABLE_II}
    methods["MInD"] = {"dissimilarity": "hausdorff"}  # its column is headed MInD(Hausdorff)
    return {"PIGMIL": {}, "PIGMIL|paper": changed, **methods}


def table2(
    *,
    sets: Sequence[str] | Mapping[str, Any] = tuple(REAL),
    repeats: int = 5,
    folds: int = 10,
    n_jobs: int | None = None,
    store: Any = "pigmil-results.sqlite",
    callback: Callable[..., None] | None = None,
) -> tuple[Any, Results]:
    """Compute the bag accuracy of the ten classifiers on the real sets (Table II).

    Parameters
    ----------
    sets : sequence of str, or mapping of name to bags
        Which of the eleven sets.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    n_jobs, store, callback
        As in :func:`pigmil.evaluation.compare`.

    Returns
    -------
    table : pandas.DataFrame
        ``data``, ``method``, ``ours``, ``std``, ``cells``, ``failed``, ``paper``, ``paper_std``,
        ``difference`` and ``mark``: ``+`` or ``-`` where ours is higher or lower by more than
        chance, ``=`` where it is not, ``new`` where the paper's cell is blank.
    results : Results
        All cells.
    """
    pd = import_optional("pandas", extra="evaluation", purpose="Tables of results")
    results = compare(
        table2_methods(),
        sets,
        repeats=repeats,
        folds=folds,
        n_jobs=n_jobs,
        store=store,
        callback=callback,
    )
    mean, std, count = (results.table(statistic=name) for name in ("mean", "std", "count"))
    rows = []
    for data in mean.index:
        for method in mean.columns:
            paper, paper_std = TABLE_II[method.partition("|")[0]][data]
            ours, spread, cells = (table.loc[data, method] for table in (mean, std, count))
            rows.append(
                {
                    "data": data,
                    "method": method,
                    "ours": ours,
                    "std": spread,
                    "cells": cells,
                    "failed": repeats * folds - cells,
                    "paper": paper,
                    "paper_std": paper_std,
                    "difference": ours - paper,
                    "mark": mark(ours, spread, cells, paper, paper_std, test_share=1 / (folds - 1)),
                }
            )
    return pd.DataFrame(rows), results


def mark(
    ours: float, std: float, cells: int, paper: float, paper_std: float, *, test_share: float
) -> str:
    """Return a mark: whether our mean and the paper's differ by more than chance.

    Each mean over overlapping folds has variance ``(1/n + n_test/n_train) std^2`` (Nadeau and
    Bengio 2003); a difference beyond 1.96 standard errors of both together is marked.

    Examples
    --------
    >>> mark(90.0, 5.0, 50, 60.0, 5.0, test_share=1 / 9)
    '+'
    >>> mark(62.0, 5.0, 50, 60.0, 5.0, test_share=1 / 9)
    '='
    """
    if math.isnan(ours):
        return "failed"
    if math.isnan(paper):
        return "new"
    variance = (1 / cells + test_share) * std**2 + (1 / PAPER_CELLS + TEST_SHARE) * paper_std**2
    if abs(ours - paper) <= 1.96 * math.sqrt(variance):
        return "="
    return "+" if ours > paper else "-"
