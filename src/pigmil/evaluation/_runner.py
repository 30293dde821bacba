"""``compare``: methods x data sets x repeats x folds, resumable, cell by cell."""

import logging
import os
import queue
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from pigmil._core import isolation
from pigmil._core.errors import BagsError
from pigmil._core.text import to_json_safe
from pigmil.bags import Bags, as_bags
from pigmil.datasets import content_sha256, load_dataset
from pigmil.estimators import card_of, get_estimator
from pigmil.evaluation._cells import Entry, compute_cell
from pigmil.evaluation._results import Results
from pigmil.evaluation._splits import Finding, audit, bag_groups, bag_splits
from pigmil.evaluation._store import Cell, Store, canonical_json, estimator_identity, shorten

_logger = logging.getLogger("pigmil")
_IMPOSSIBLE = ("unlabelled", "classes", "small_class", "few_groups")  # findings without folds
Outcome = tuple[dict[str, Any], str | None]  # metrics, or the text of an error


@dataclass(frozen=True)
class Task:
    """A cell, the arguments of :func:`compute_cell` but for the bags, and the bags."""

    cell: Cell
    arguments: dict[str, Any]
    bags: Bags


@dataclass(frozen=True)
class Progress:
    """State of the work after a finished cell, as passed to the callback.

    Attributes
    ----------
    done, total, failed : int
        Cells in the store and cells wanted; those that failed in this run.
    cell : Cell
        The one just finished.
    error : str or None
        The error it failed with.
    """

    done: int
    total: int
    failed: int
    cell: Cell
    error: str | None


def _compute_here(task: Task) -> "Future[Outcome]":
    """Compute a cell in this process; a failing method must not end the comparison."""
    future: Future[Outcome] = Future()
    try:
        future.set_result((compute_cell(bags=task.bags, **task.arguments), None))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({frame.name}, line {frame.lineno})"
        future.set_result(({}, text))
    return future


class Children(ThreadPoolExecutor):
    """Computes cells in child processes, as many as there are threads.

    A child that is killed, for example for lack of memory, fails its cell only. Children end with
    this process.

    Parameters
    ----------
    n_jobs : int
        Number of children.
    **limits : float, optional
        ``time_limit`` and ``memory_limit`` of a cell, see :class:`pigmil._core.isolation.Child`.
    """

    def __init__(self, n_jobs: int, **limits: float | None) -> None:
        super().__init__(n_jobs)
        # All of them now: a child that a thread made while the others are ended would go on.
        self.children = [isolation.Child(preload=(), **limits) for _ in range(n_jobs)]
        self._free: queue.SimpleQueue[isolation.Child] = queue.SimpleQueue()
        for child in self.children:
            self._free.put(child)

    def compute(self, task: Task) -> Outcome:
        """Compute a cell in a child that is free."""
        child = self._free.get()
        # Imported when it starts, so that they count neither as time nor as memory of a cell.
        kind = type(task.arguments["entry"].estimator).__module__
        child.preload = tuple(name for name in (__name__, kind) if name.startswith("pigmil."))
        shared = {"bags": (task.cell.checksum, task.bags)}
        try:
            return child.call(compute_cell, shared=shared, **task.arguments), None
        except isolation.ChildCallError as error:  # its text has the type of the error
            return {}, str(error)
        except isolation.ChildDeathError as error:
            return {}, f"ChildProcessError: {error}"
        except Exception as error:  # a limit, or arguments that cannot be sent
            return {}, f"{type(error).__name__.removeprefix('Child')}: {error}"
        finally:
            self._free.put(child)

    def __exit__(self, *error: Any) -> None:
        """End the children, also in the middle of a cell."""
        self.shutdown(wait=False, cancel_futures=True)
        for child in self.children:
            child.kill()
        self.shutdown()
        for child in self.children:
            child.close()


Submit = Callable[[Task], "Future[Outcome]"]


@contextmanager
def open_workers(n_jobs: int | None, **limits: float | None) -> Iterator[tuple[int, Submit]]:
    """Yield how many cells are computed at a time, and a function that has one computed.

    Parameters
    ----------
    n_jobs : int, optional
        Number of child processes, -1 for one per processor. Without it the number set by
        ``joblib.parallel_config`` is used; otherwise this process computes.
    **limits : float, optional
        ``time_limit`` and ``memory_limit``: seconds that a cell may take, and mebibytes that it
        may add to those of its process. With a limit, child processes compute.
    """
    for name, value in limits.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name} must be a positive number or None; got {value!r}.")
    if limits.get("memory_limit") is not None and sys.platform == "win32":
        raise ValueError("memory_limit is not available on Windows; leave it out.")
    n_children = effective_n_jobs(n_jobs)
    if n_jobs is None and n_children == 1 and set(limits.values()) == {None}:
        yield 1, _compute_here
    else:
        with Children(n_children, **limits) as children:
            yield n_children, lambda task: children.submit(children.compute, task)


def run_tasks(
    tasks: Sequence[Task],
    store: Store,
    workers: tuple[int, Submit],
    callback: Callable[[Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Compute the cells that the store does not hold yet, and return the rows of all.

    Parameters
    ----------
    tasks : sequence of Task
        The cells wanted; tasks with the same key are computed once.
    store : Store
        Each finished cell is saved at once, by this process. Other processes may write to the
        store too: what they have finished is not computed here.
    workers : (int, callable)
        See :func:`open_workers`.
    callback : callable, optional
        Called with a :class:`Progress` after every cell finished here.

    Returns
    -------
    list of dict
        One row per task, in their order, under the names of the task.
    """
    n_slots, submit = workers
    wanted = {task.cell.key: task for task in tasks}
    pending = [task for key, task in wanted.items() if not store.has(key)]
    running: dict[Future[Outcome], Task] = {}
    n_failed = 0
    # If another process saves some of these cells too, the next ones are drawn at random, so that
    # few of them are computed twice.
    shared, draw = False, random.Random(os.getpid())
    while pending or running:
        while pending and len(running) < n_slots:
            task = pending.pop(draw.randrange(len(pending)) if shared else 0)
            if store.has(task.cell.key):
                shared = True
            else:
                running[submit(task)] = task
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            cell = running.pop(future).cell
            metrics, error = future.result()
            shared |= not store.add(cell, metrics, error)
            if error is not None:
                n_failed += 1
                _logger.warning("%s on %s failed: %s", cell.method, cell.data, shorten(error))
            if callback is not None:
                n_done = len(wanted) - len(pending) - len(running)
                callback(Progress(n_done, len(wanted), n_failed, cell, error))
    rows = {row["key"]: row for row in store.rows() if row["key"] in wanted}
    return [
        {**rows[task.cell.key], "data": task.cell.data, "method": task.cell.method}
        for task in tasks
    ]


def compare(
    methods: str | Sequence[Any] | Mapping[str, Any],
    datasets: Any,
    *,
    repeats: int = 5,
    folds: int = 10,
    store: Any = "pigmil-results.sqlite",
    n_jobs: int | None = None,
    tune: bool = True,
    random_state: int = 0,
    groups: Any = None,
    pos_label: Any = None,
    retry_failed: bool = False,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> Results:
    """Compare methods on data sets by repeated stratified cross-validation over bags.

    Preprocessing and tuning only use the training bags of a fold, and all methods have the same
    folds. Each finished cell (method, data set, repeat, fold) is saved immediately, so a
    call that was interrupted continues where it stopped. A cell that fails is saved with its error
    and does not stop the comparison.

    Parameters
    ----------
    methods : str, estimator, sequence of these, or mapping
        Names as in :func:`pigmil.all_estimators`: such a method is z-scored and tuned in every
        fold. Or estimators, pipelines and searches, which are fitted as they are. A mapping gives
        them labels: ``{"mine": make_pipeline(BagScaler(), MyMIL()), "MILES": "MILES"}``. A
        dictionary of parameters configures the method named by the label, up to a ``|``:
        ``{"PIGMIL|pool": {"prototypes": "pool"}}``.
    datasets : sequence of str, mapping of name to bags, or Bags
        Names as in :func:`pigmil.datasets.list_datasets`, or labelled bags under your own names.
    repeats, folds : int, default=5, 10
        The paper's protocol.
    store : path, default="pigmil-results.sqlite"
        File of the results; several comparisons on one machine may share it.
    n_jobs : int, optional
        Number of worker processes. By default cells are computed in this process. A worker that
        is killed, for example for lack of memory, fails its cell only. Only this process writes to
        the store.
    tune : bool, default=True
        Search the grid of a method's card by inner cross-validation.
    random_state : int, default=0
        Seed of folds and methods.
    groups : str, array, tuple of these, or mapping of data set to these, optional
        Bags that stay in one fold, outer and inner: ``"duplicates"`` for identical bags, a column
        of ``bag_info`` such as ``"patient"`` or ``"site"`` (site-preserving folds), or one value
        per bag. A tuple combines several.
    pos_label : label, or mapping of data set to label, optional
        The positive label of the bags; required where labels are text.
    retry_failed : bool, default=False
        Compute cells again that failed before.
    time_limit, memory_limit : float, optional
        Seconds and mebibytes that a cell may take; cells are then computed in worker processes,
        and one that goes beyond its limit is recorded as failed.
    callback : callable, optional
        Called with a :class:`Progress` after every finished cell.

    Returns
    -------
    Results
        ``.table()``, ``.ranks()``, ``.significance()``, ``.export(path)``; write a report with
        :func:`pigmil.report.write_report`.

    Notes
    -----
    The key of a cell holds the import path of the estimator's class, the versions of the packages
    it comes from and its parameters, and of the data, the folds and the seed.

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
    entries = _check_methods(methods)
    folding = {"folds": folds, "repeats": repeats, "random_state": random_state}
    with open_workers(n_jobs, time_limit=time_limit, memory_limit=memory_limit) as workers:
        plans = [
            _plan(name, bags, _for_data_set(groups, name), _for_data_set(pos_label, name), folding)
            for name, bags in _check_datasets(datasets).items()
        ]
        with Store(store) as open_store:
            findings = _save_audits(plans, open_store)
            tasks = [task for plan in plans for task in _tasks(plan, entries, tune, folding)]
            # Repeat by repeat: if stopped early, every method has results on every data set.
            tasks.sort(key=lambda task: task.cell.repeat)
            if retry_failed:
                open_store.forget_failures(task.cell.key for task in tasks)
            rows = run_tasks(tasks, open_store, workers, callback)
    return Results(rows, findings=findings, path=Path(store))


@dataclass(frozen=True)
class _Plan:
    """A data set of a comparison, with the labels 0 and 1 where a positive label is given."""

    name: str
    bags: Bags
    groups: Any
    checksum: str
    findings: list[Finding]


def _plan(name: str, given: Bags, groups: Any, pos_label: Any, folding: Mapping[str, int]) -> _Plan:
    bags = _with_positive_label(given, pos_label, name)
    numbers = bag_groups(bags, groups)
    findings = audit(bags, groups=numbers, **folding)
    return _Plan(name, bags, numbers, content_sha256(bags), findings)


def _tasks(
    plan: _Plan, entries: Mapping[str, Entry], tune: bool, folding: Mapping[str, int]
) -> Iterator[Task]:
    """Yield one task per method and split of a data set."""
    seed, groups = folding["random_state"], plan.groups
    splits = list(bag_splits(plan.bags, groups=groups, **folding))
    for label, entry in entries.items():
        path, parameters, version = estimator_identity(entry.estimator)
        protocol = canonical_json(
            {"folds": folding["folds"], "seed": seed, "groups": groups, "scale": entry.protocol,
             "tune": tune and entry.protocol, "fixed": sorted(entry.fixed)}
        )  # fmt: skip
        for split in splits:
            cell = Cell(plan.name, plan.checksum, label, path, parameters, protocol, split.repeat,
                        split.fold, version)  # fmt: skip
            arguments = {"split": split, "entry": entry, "groups": groups, "tune": tune}
            yield Task(cell, {**arguments, "seed": seed + split.repeat}, plan.bags)


def _check_datasets(datasets: Any) -> dict[str, Bags]:
    if isinstance(datasets, Bags):
        sets = {"data": datasets}
    elif isinstance(datasets, Mapping):
        sets = {str(name): as_bags(bags) for name, bags in datasets.items()}
    else:
        names = [datasets] if isinstance(datasets, str) else list(datasets)
        sets = {name: load_dataset(name) for name in names}
    for name, bags in sets.items():
        if bags.y is None:
            raise BagsError(f"The data set '{name}' has no labels; pass bags with y.")
    return sets


def _for_data_set(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else value


def _with_positive_label(bags: Bags, pos_label: Any, name: str) -> Bags:
    """Return the bags with labels 0 and 1 if a positive label is given, or raise if it is needed.

    Text labels have no order that could say which one is positive.
    """
    values, counts = np.unique(bags.y, return_counts=True)
    if pos_label is None and (len(values) != 2 or not isinstance(values[-1], str)):
        return bags
    if pos_label is None:
        choices = " or ".join(
            f"pos_label={str(value)!r} ({n} bags)" for value, n in zip(values, counts, strict=True)
        )
        raise BagsError(f"The labels of '{name}' are text; say which one is positive: {choices}.")
    if pos_label not in values:
        raise BagsError(
            f"pos_label={pos_label!r} is not among the labels {values.tolist()} of '{name}'."
        )
    labels = bags.instance_labels
    if labels is not None:
        known = labels == labels
        positive = pos_label if (labels[known] == pos_label).any() else max(labels[known])
        labels = np.where(known, (labels == positive).astype(np.float64), np.nan)
    return bags._replace(y=(bags.y == pos_label).astype(np.int64), instance_labels=labels)


def _check_methods(methods: Any) -> dict[str, Entry]:
    if not isinstance(methods, Mapping):
        alone = isinstance(methods, str) or hasattr(methods, "fit")
        listed = [methods] if alone else list(methods)
        given = [(one if isinstance(one, str) else type(one).__name__, one) for one in listed]
    else:
        given = [(str(label), value) for label, value in methods.items()]
    entries = dict(_named_entry(label, value) for label, value in given)
    if len(entries) < len(given):
        raise ValueError("Two methods have the same label; give a mapping of labels to estimators.")
    return entries


def _named_entry(label: str, value: Any) -> tuple[str, Entry]:
    if isinstance(value, str):
        estimator = get_estimator(value)()
        return (card_of(value).name if label == value else label), Entry(estimator, protocol=True)
    if isinstance(value, Mapping):
        name, bar, variant = label.partition("|")
        estimator = get_estimator(name)().set_params(**value)
        entry = Entry(estimator, protocol=True, fixed=tuple(value))
        return f"{card_of(name).name}{bar if variant else ''}{variant}", entry
    if not (hasattr(value, "fit") and hasattr(value, "get_params")) or isinstance(value, type):
        raise TypeError(
            f"{label!r} must be an estimator, the name of a method or a dictionary of its "
            f"parameters; got {value!r}."
        )
    return label, Entry(value)


def _save_audits(plans: Sequence[_Plan], store: Store) -> dict[str, list[dict[str, Any]]]:
    """Save and return the findings; raise if they forbid the comparison."""
    findings = {plan.name: [to_json_safe(vars(one)) for one in plan.findings] for plan in plans}
    refused = ["The comparison is refused:"]
    for plan in plans:
        store.save_audit(plan.checksum, plan.name, findings[plan.name])
        for finding in plan.findings:
            if finding.kind in _IMPOSSIBLE:
                refused.append(f"- {plan.name}: {finding.message}")
            else:
                _logger.warning("%s: %s", plan.name, finding.message)
    if len(refused) > 1:
        raise BagsError("\n".join(refused))
    return findings
