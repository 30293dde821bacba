"""``compare``: methods x data sets x repeats x folds, resumable, cell by cell."""

import json
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from pigmil import __version__
from pigmil._core.errors import BagsError
from pigmil.bags import Bags, as_bags
from pigmil.datasets import load
from pigmil.estimators import card_of, get_estimator
from pigmil.evaluation.audit import audit
from pigmil.evaluation.cells import compute_guarded
from pigmil.evaluation.results import Results
from pigmil.evaluation.splits import Split, bag_splits, data_checksum, duplicate_groups
from pigmil.evaluation.store import Cell, Store, canonical

_logger = logging.getLogger("pigmil")
_HEARTBEAT = 20.0


@dataclass(frozen=True)
class Progress:
    """How far a comparison is, as handed to the callback after every finished cell."""

    done: int
    total: int
    cell: Cell
    error: str | None


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
    datasets : sequence of str, or mapping of name to bags
        Names as in :func:`pigmil.datasets.list`, or labelled bags under names of your own.
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
        Seconds and mebibytes a cell may take.
    callback : callable, optional
        Called with a :class:`Progress` after every finished cell.

    Returns
    -------
    Results
        ``.table()``, ``.ranks()``, ``.significance()``, ``.report(path)``, ``.export(path)``.

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
    sets = _bags_of(datasets)
    entries = _entries_of(methods)
    grouping = {name: _groups_of(bags, groups, name) for name, bags in sets.items()}
    with Store(store) as kept:
        findings = _audit_all(sets, grouping, kept, folds, repeats, random_state, strict)
        if retry_failed:
            kept.forget_failures()
        tasks = []
        for name, bags in sets.items():
            checksum = data_checksum(bags)
            splits = list(
                bag_splits(
                    bags,
                    repeats=repeats,
                    folds=folds,
                    random_state=random_state,
                    groups=grouping[name],
                )
            )
            for label, (method, parameters) in entries.items():
                protocol = _protocol(folds, tune, random_state, grouping[name])
                for split in splits:
                    cell = Cell(
                        name, checksum, label, canonical(parameters), protocol,
                        split.repeat, split.fold, __version__,
                    )  # fmt: skip
                    arguments = {
                        "bags": bags,
                        "split": split,
                        "method": method,
                        "parameters": parameters,
                        "tune": tune,
                        "seed": random_state + split.repeat,
                    }
                    tasks.append((cell, arguments))
        _run(tasks, kept, n_jobs, time_limit, memory_limit, callback)
        wanted = {cell.key for cell, _ in tasks}
        rows = [row for row in kept.rows() if row["key"] in wanted]
    return Results(rows, findings=findings, path=Path(store))


def _run(
    tasks: Sequence[tuple[Cell, dict[str, Any]]],
    store: Store,
    n_jobs: int | None,
    time_limit: float | None,
    memory_limit: float | None,
    callback: Callable[[Progress], None] | None,
) -> None:
    finished = store.finished()
    open_tasks = [task for task in tasks if task[0].key not in finished]
    done = len(tasks) - len(open_tasks)
    _logger.info("%d of %d cells are in the store already", done, len(tasks))
    claimed: set[str] = set()

    def claimable() -> Iterable[Any]:
        for cell, arguments in open_tasks:
            if store.claim(cell.key):
                claimed.add(cell.key)
                yield delayed(_one)(cell, arguments, time_limit, memory_limit)

    stop = threading.Event()
    beat = threading.Thread(target=_heartbeat, args=(store.path, stop), daemon=True)
    beat.start()
    try:
        # One cell is dispatched when one returns: claims are taken late, so that another
        # process on the same store finds work, and results are kept as they come.
        parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs")
        for cell, found, error in parallel(claimable()):
            store.finish(cell, found, error)
            claimed.discard(cell.key)
            done += 1
            if error is not None:
                _logger.warning("%s on %s failed: %s", cell.method, cell.data, error)
            if callback is not None:
                callback(Progress(done, len(tasks), cell, error))
    finally:
        stop.set()
        beat.join()
        store.release(claimed)


def _one(
    cell: Cell, arguments: dict[str, Any], time_limit: float | None, memory_limit: float | None
) -> tuple[Cell, dict[str, Any], str | None]:
    found, error = compute_guarded(arguments, time_limit=time_limit, memory_limit=memory_limit)
    return cell, found, error


def _heartbeat(path: Path, stop: threading.Event) -> None:
    with Store(path) as store:
        while not stop.wait(_HEARTBEAT):
            store.alive()


def _bags_of(datasets: Any) -> dict[str, Bags]:
    if isinstance(datasets, Mapping):
        sets = {str(name): as_bags(bags) for name, bags in datasets.items()}
    else:
        names = [datasets] if isinstance(datasets, str) else list(datasets)
        sets = {name: load(name) for name in names}
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
        get_estimator(name)(**parameters)  # an unknown parameter is told before hours of work
        entries[f"{printed}|{variant}" if variant else printed] = (printed, dict(parameters))
    return entries


def _groups_of(bags: Bags, groups: Any, name: str) -> Any:
    if groups is None:
        return None
    if groups == "duplicates":
        return duplicate_groups(bags)
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
    impossible = {"unlabelled", "classes", "small_class"}
    refused = [
        f"{name}: {finding['message']}"
        for name, found in findings.items()
        for finding in found
        if finding["severe"] and (strict or finding["kind"] in impossible)
    ]
    if refused:
        raise BagsError("The comparison is refused:\n" + "\n".join(f"- {line}" for line in refused))
    return findings


__all__ = ["Progress", "Split", "compare"]
