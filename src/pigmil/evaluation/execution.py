"""Cells computed in parallel and kept one by one; what another process is at is waited for."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from pigmil._core.children import safe_children
from pigmil.evaluation.limits import run_guarded
from pigmil.evaluation.store import Cell, Store

_logger = logging.getLogger("pigmil")
_HEARTBEAT = 20.0
_LOOK_AGAIN = 0.5  # seconds between looks at cells that another process has claimed


@dataclass(frozen=True)
class Task:
    """What computes a cell: a module-level function and its arguments."""

    cell: Cell
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]


@dataclass(frozen=True)
class Progress:
    """How far the work is, as handed to the callback after every finished cell.

    Attributes
    ----------
    done, total, failed : int
        Cells in the store and cells wanted; those that failed in this run.
    cell : Cell
        The one just finished.
    error : str or None
        What it failed with.
    elapsed, remaining : float
        Seconds so far and seconds left, from what cells of the same data and method took.
    """

    done: int
    total: int
    failed: int
    cell: Cell
    error: str | None
    elapsed: float
    remaining: float


def run_tasks(
    tasks: Sequence[Task],
    store: Store,
    *,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Compute the cells that the store does not hold yet, and return the rows of all.

    Parameters
    ----------
    tasks : sequence of Task
        What is wanted; tasks of one key are computed once.
    store : Store
        Where finished cells are kept, each at once. Other processes may use it too: what they
        have claimed is waited for, and taken over if they are gone.
    n_jobs : int, optional
        Parallel cells, by the joblib backend in force.
    time_limit, memory_limit : float, optional
        Seconds and mebibytes a cell may take.
    callback : callable, optional
        Called with a :class:`Progress` after every cell finished here.

    Returns
    -------
    list of dict
        One row a task, in their order, under the data name of the task.
    """
    wanted = {task.cell.key: task for task in tasks}
    clock = _Clock(list(wanted.values()))
    with _heartbeat(store), safe_children():
        while True:
            finished = store.finished()
            open_tasks = [task for key, task in wanted.items() if key not in finished]
            clock.note_open(open_tasks)
            if not open_tasks:
                break
            computed = _one_pass(
                open_tasks, store, n_jobs, (time_limit, memory_limit), clock, callback
            )
            if not computed:
                time.sleep(_LOOK_AGAIN)
    rows = {row["key"]: row for row in store.rows() if row["key"] in wanted}
    return [{**rows[task.cell.key], "data": task.cell.data} for task in tasks]


def _one_pass(
    tasks: Sequence[Task],
    store: Store,
    n_jobs: int | None,
    limits: tuple[float | None, float | None],
    clock: "_Clock",
    callback: Callable[[Progress], None] | None,
) -> int:
    """Compute every cell that can be claimed; returns how many there were."""
    claimed: dict[str, Task] = {}
    computed = 0

    def claimable() -> Iterable[Any]:
        for task in tasks:
            if store.claim(task.cell.key):
                claimed[task.cell.key] = task
                yield delayed(_one)(task, *limits)

    # One cell is dispatched when one returns: claims are taken late, so that another process on
    # the same store finds work, and each result is kept as it comes.
    parallel = Parallel(
        n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch="n_jobs", batch_size=1
    )
    outcomes: Iterator[Any] = parallel(claimable())
    try:
        for key, found, error, seconds in outcomes:
            task = claimed.pop(key)
            store.finish(task.cell, found, error)
            computed += 1
            progress = clock.tick(task.cell, error, seconds)
            if error is not None:
                _logger.warning("%s on %s failed: %s", task.cell.method, task.cell.data, error)
            if callback is not None:
                callback(progress)
    finally:
        outcomes.close()  # type: ignore[attr-defined]
        store.release(list(claimed))
    return computed


def _one(
    task: Task, time_limit: float | None, memory_limit: float | None
) -> tuple[str, dict[str, Any], str | None, float]:
    start = time.perf_counter()
    found, error = run_guarded(
        task.function, task.arguments, time_limit=time_limit, memory_limit=memory_limit
    )
    return task.cell.key, found, error, time.perf_counter() - start


class _Clock:
    """Counts cells and tells the time left from what cells of the same kind took."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.total = len(tasks)
        self.start = time.perf_counter()
        self.failed = 0
        self.spent: dict[tuple[str, str], list[float]] = {}
        self.open: dict[str, tuple[str, str]] = {}

    def note_open(self, tasks: Sequence[Task]) -> None:
        self.open = {task.cell.key: (task.cell.data, task.cell.method) for task in tasks}

    def tick(self, cell: Cell, error: str | None, seconds: float) -> Progress:
        kind = self.open.pop(cell.key)
        self.spent.setdefault(kind, []).append(seconds)
        self.failed += error is not None
        elapsed = time.perf_counter() - self.start
        means = {kind: sum(taken) / len(taken) for kind, taken in self.spent.items()}
        overall = sum(means.values()) / len(means)
        ahead = sum(means.get(kind, overall) for kind in self.open.values())
        at_once = max(1.0, sum(map(sum, self.spent.values())) / max(elapsed, 1e-9))
        done = self.total - len(self.open)
        return Progress(done, self.total, self.failed, cell, error, elapsed, ahead / at_once)


@contextmanager
def _heartbeat(store: Store) -> Iterator[None]:
    """Renew the claims of a store from a thread of its own, while a long cell computes."""
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(_HEARTBEAT):
            try:
                store.alive()
            except sqlite3.Error as error:
                _logger.warning("the claims on '%s' could not be renewed: %s", store.path, error)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
