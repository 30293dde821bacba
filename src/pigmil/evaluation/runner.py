"""``compare``: methods x data sets x repeats x folds, resumable, cell by cell."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagsError
from pigmil._core.version import __version__
from pigmil.bags import Bags, as_bags
from pigmil.datasets import load_dataset
from pigmil.estimators import card_of, get_estimator
from pigmil.evaluation.audit import audit
from pigmil.evaluation.cells import compute_cell
from pigmil.evaluation.execution import Progress, Task, run_tasks
from pigmil.evaluation.limits import check_limits
from pigmil.evaluation.results import Results
from pigmil.evaluation.splits import bag_splits, data_checksum, duplicate_groups
from pigmil.evaluation.store import Cell, Store, canonical

_logger = logging.getLogger("pigmil")


def compare(
    methods: Sequence[str] | Mapping[str, Mapping[str, Any]],
    datasets: Any,
    *,
    repeats: int = 5,
    folds: int = 10,
    store: Any = "pigmil-results.sqlite",
    n_jobs: int | None = None,
    tune: bool = True,
    random_state: int = 0,
    groups: Any = None,
    strict: bool = False,
    retry_failed: bool = False,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Results:
    """Compare methods on data sets by repeated stratified cross-validation over bags.

    Preprocessing and tuning see the training bags of a fold only; every method meets the same
    folds. Each finished cell (method, data set, repeat, fold) is kept in the store at once:
    stopped at any moment, the same call goes on where it was. A cell that fails is kept with its
    error, and the rest goes on.

    Parameters
    ----------
    methods : sequence of str, or mapping of label to parameters
        Names as in :func:`pigmil.all_estimators`; or ``{"PIGMIL": {"prototypes": "pool"}}``,
        where a label may be ``"method|anything"`` to enter one method several times.
    datasets : sequence of str, mapping of name to bags, or Bags
        Names as in :func:`pigmil.datasets.list_datasets`, or labelled bags under names of your own.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    store : path, default="pigmil-results.sqlite"
        File of the results; several processes may share it.
    n_jobs : int, optional
        Parallel cells; any joblib backend set by ``joblib.parallel_config`` is used.
    tune : bool, default=True
        Search the grid of a method's card by inner cross-validation.
    random_state : int, default=0
        Seed of folds and methods.
    groups : {"duplicates"} or mapping of name to array, optional
        Bags that must stay in one fold: identical ones, or as given for each data set.
    strict : bool, default=False
        Refuse to start when the audit of a data set finds something severe.
    retry_failed : bool, default=False
        Try cells again that failed before.
    time_limit, memory_limit : float, optional
        Seconds and mebibytes a cell may take; each cell then runs in a process of its own, and
        one that goes beyond is recorded as failed.
    callback : callable, optional
        Called with a :class:`Progress` after every finished cell.

    Returns
    -------
    Results
        ``.table()``, ``.ranks()``, ``.significance()``, ``.export(path)``; write a report with
        :func:`pigmil.report.write_report`.

    Examples
    --------
    >>> import tempfile
    >>> from pigmil.datasets import make_ring
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     results = compare(
    ...         ["MILES"], {"ring": make_ring(random_state=0)}, repeats=1, folds=2,
    ...         store=folder + "/results.sqlite",
    ...     )
    ...     len(results.rows)
    2
    """
    check_limits(time_limit, memory_limit)
    entries = _entries_of(methods)
    sets = _bags_of(datasets)
    grouping = {name: _groups_of(bags, groups, name) for name, bags in sets.items()}
    with Store(store) as kept:
        findings = _audit_all(sets, grouping, kept, folds, repeats, random_state, strict)
        tasks = [
            task
            for name, bags in sets.items()
            for task in _tasks(
                name, bags, grouping[name], entries, repeats, folds, tune, random_state
            )
        ]
        # Repeat by repeat: stopped early, every method has met every data set, and the time left
        # can be told.
        tasks.sort(key=lambda task: task.cell.repeat)
        if retry_failed:
            kept.forget_failures(task.cell.key for task in tasks)
        rows = run_tasks(
            tasks,
            kept,
            n_jobs=n_jobs,
            time_limit=time_limit,
            memory_limit=memory_limit,
            callback=callback,
        )
    return Results(rows, findings=findings, path=Path(store))


def _tasks(
    name: str,
    bags: Bags,
    groups: Any,
    entries: Mapping[str, tuple[str, dict[str, Any]]],
    repeats: int,
    folds: int,
    tune: bool,
    random_state: int,
) -> Iterator[Task]:
    checksum = data_checksum(bags)
    protocol = _protocol(folds, tune, random_state, groups)
    splits = list(
        bag_splits(bags, repeats=repeats, folds=folds, random_state=random_state, groups=groups)
    )
    for label, (method, parameters) in entries.items():
        for split in splits:
            cell = Cell(
                data=name,
                checksum=checksum,
                method=label,
                parameters=canonical(parameters),
                protocol=protocol,
                repeat=split.repeat,
                fold=split.fold,
                version=__version__,
            )
            arguments = {
                "bags": bags,
                "split": split,
                "method": method,
                "parameters": parameters,
                "tune": tune,
                "seed": random_state + split.repeat,
            }
            yield Task(cell, compute_cell, arguments)


def _bags_of(datasets: Any) -> dict[str, Bags]:
    if isinstance(datasets, Bags):
        sets = {"data": datasets}
    elif isinstance(datasets, Mapping):
        sets = {str(name): as_bags(bags) for name, bags in datasets.items()}
    else:
        names = [datasets] if isinstance(datasets, str) else list(datasets)
        sets = {name: load_dataset(name) for name in names}
    for name, bags in sets.items():
        if bags.y is None:
            raise BagsError(f"The data set '{name}' carries no labels; pass bags with y.")
    return sets


def _entries_of(methods: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    if isinstance(methods, str):
        methods = [methods]
    given = methods if isinstance(methods, Mapping) else {name: {} for name in methods}
    entries = {}
    for label, parameters in given.items():
        name, _, variant = str(label).partition("|")
        printed = card_of(name).name
        get_estimator(name)().set_params(**parameters)  # an unknown parameter raises here
        entries[f"{printed}|{variant}" if variant else printed] = (printed, dict(parameters))
    return entries


def _groups_of(bags: Bags, groups: Any, name: str) -> Any:
    if groups is None:
        return None
    if isinstance(groups, str):
        if groups != "duplicates":
            raise ValueError(f"groups must be 'duplicates', a mapping or None; got {groups!r}.")
        return duplicate_groups(bags)
    if not isinstance(groups, Mapping):
        raise ValueError(
            f"groups must be 'duplicates', a mapping of data set to array, or None; got a "
            f"{type(groups).__name__}."
        )
    if name in groups and len(groups[name]) != bags.n_bags:
        raise ValueError(
            f"groups of '{name}' has {len(groups[name])} entries for {bags.n_bags} bags."
        )
    return np.asarray(groups[name]) if name in groups else None


def _protocol(folds: int, tune: bool, seed: int, groups: Any) -> str:
    return canonical(
        {
            "folds": folds,
            "tune": tune,
            "seed": seed,
            "groups": None if groups is None else np.asarray(groups).tolist(),
        }
    )


def _audit_all(
    sets: Mapping[str, Bags],
    grouping: Mapping[str, Any],
    store: Store,
    folds: int,
    repeats: int,
    random_state: int,
    strict: bool,
) -> dict[str, list[dict[str, Any]]]:
    findings: dict[str, list[dict[str, Any]]] = {}
    for name, bags in sets.items():
        found = audit(
            bags, folds=folds, repeats=repeats, random_state=random_state, groups=grouping[name]
        )
        findings[name] = [json.loads(canonical(vars(finding))) for finding in found]
        store.note_audit(data_checksum(bags), name, findings[name])
        for finding in found:
            _logger.warning("%s: %s", name, finding.message)
    impossible = {"unlabelled", "classes", "small_class", "few_groups"}
    refused = [
        f"{name}: {finding['message']}"
        for name, found in findings.items()
        for finding in found
        if finding["severe"] and (strict or finding["kind"] in impossible)
    ]
    if refused:
        raise BagsError("The comparison is refused:\n" + "\n".join(f"- {line}" for line in refused))
    return findings


__all__ = ["Progress", "compare"]
