"""Compute the cells that a store lacks, and save each as it is finished."""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pigmil.evaluation._executors import Call, Executor, make_executor
from pigmil.evaluation._store import Cell, Store

_logger = logging.getLogger("pigmil")
_LOOK_AGAIN = 0.5  # seconds between looks at cells that another comparison has claimed


@dataclass(frozen=True)
class Task:
    """A cell and the call that computes it; see :class:`pigmil.evaluation._executors.Call`."""

    cell: Cell
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    shared: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def call(self) -> Call:
        """Return the call for an executor."""
        return Call(self.cell.key, self.function, self.arguments, self.shared)


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
    elapsed, remaining : float
        Seconds so far, and seconds left as estimated from cells of the same data and method.
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
    executor: Executor | None = None,
    callback: Callable[[Progress], None] | None = None,
) -> list[dict[str, Any]]:
    """Compute the cells that the store does not hold yet, and return the rows of all.

    Parameters
    ----------
    tasks : sequence of Task
        The cells wanted; tasks with the same key are computed once.
    store : Store
        Each finished cell is saved at once, by this process. Other comparisons may use the store
        too: cells that they have claimed are waited for, and taken over if they have ended.
    executor : Executor, optional
        Computes the cells; this process by default.
    callback : callable, optional
        Called with a :class:`Progress` after every cell finished here.

    Returns
    -------
    list of dict
        One row per task, in their order, under the names of the task.
    """
    executor = executor or make_executor(None)
    wanted = {task.cell.key: task for task in tasks}
    clock = _Clock(len(wanted))
    while True:
        finished = store.finished()
        unfinished = [task for key, task in wanted.items() if key not in finished]
        if not unfinished:
            break
        clock.start_round(unfinished)
        if not _compute_claimable(unfinished, store, executor, clock, callback):
            time.sleep(_LOOK_AGAIN)
    rows = {row["key"]: row for row in store.rows() if row["key"] in wanted}
    return [
        {**rows[task.cell.key], "data": task.cell.data, "method": task.cell.method}
        for task in tasks
    ]


def _compute_claimable(
    tasks: Sequence[Task],
    store: Store,
    executor: Executor,
    clock: "_Clock",
    callback: Callable[[Progress], None] | None,
) -> int:
    """Compute every cell that can be claimed; return their number."""
    claimed: dict[str, Task] = {}
    n_computed = 0

    def claim_one_by_one() -> Iterable[Call]:
        for task in tasks:
            if store.claim(task.cell.key):
                claimed[task.cell.key] = task
                yield task.call()

    outcomes = executor.run(claim_one_by_one())
    try:
        for outcome in outcomes:
            cell = claimed.pop(outcome.key).cell
            store.finish(cell, outcome.result, outcome.error)
            n_computed += 1
            progress = clock.tick(cell, outcome.error, outcome.seconds)
            if outcome.error is not None:
                _logger.warning("%s on %s failed: %s", cell.method, cell.data, outcome.error)
            if callback is not None:
                callback(progress)
    finally:
        outcomes.close()
        store.release(list(claimed))
    return n_computed


class _Clock:
    """Counts cells, and estimates the time left from the time that cells of the same kind took."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.start = time.perf_counter()
        self.failed = 0
        self.seconds: dict[tuple[str, str], list[float]] = {}
        self.unfinished: dict[str, tuple[str, str]] = {}

    def start_round(self, tasks: Sequence[Task]) -> None:
        self.unfinished = {task.cell.key: (task.cell.data, task.cell.method) for task in tasks}

    def tick(self, cell: Cell, error: str | None, seconds: float) -> Progress:
        kind = self.unfinished.pop(cell.key)
        self.seconds.setdefault(kind, []).append(seconds)
        self.failed += error is not None
        elapsed = time.perf_counter() - self.start
        means = {kind: sum(taken) / len(taken) for kind, taken in self.seconds.items()}
        overall = sum(means.values()) / len(means)
        ahead = sum(means.get(kind, overall) for kind in self.unfinished.values())
        speed = max(1.0, sum(map(sum, self.seconds.values())) / max(elapsed, 1e-9))
        done = self.total - len(self.unfinished)
        return Progress(done, self.total, self.failed, cell, error, elapsed, ahead / speed)
