"""Clusters of dask.distributed: check the workers, and map over them."""

import contextlib
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

from pigmil._core.errors import PigmilError
from pigmil._core.version import __version__

_checked_workers: set[tuple[str, frozenset[str]]] = set()


class ClusterError(PigmilError, RuntimeError):
    """A cluster that cannot be used; the message says what to do."""


def active_client() -> Any:
    """Return the running client of dask.distributed; None if there is none, or on a worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    with contextlib.suppress(ValueError):
        distributed.get_worker()
        return None
    with contextlib.suppress(ValueError):
        client = distributed.default_client()
        return client if client.status == "running" else None
    return None


def cluster_memory(client: Any) -> int:
    """Return the bytes that all workers together may use; 0 where they have no limit."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(worker.get("memory_limit") or 0) for worker in workers)


def map_on_cluster(
    client: Any,
    run: Callable[..., Any],
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    *,
    spread: bool = False,
) -> Generator[Any, None, None]:
    """Start ``run(function, *task)`` for every task; yield the results in their order.

    The workers begin at once, before the first result is asked for.

    Parameters
    ----------
    client : distributed.Client
        The client.
    run : callable
        Of this library, so that workers have it.
    function : callable
        Sent once: to one worker, from which the others take it. If that one
        dies, dask sends it again.
    tasks : sequence of tuples
        Further arguments; a future among them stands for its result.
    spread : bool, default=False
        Deal the tasks to the workers in turn. Otherwise dask prefers the worker that has the
        function already, and a few long tasks may all wait for it.
    """
    check_cluster(client)
    dask = sys.modules["dask"]
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10 GB"}):
        sent = client.submit(same, function, pure=False)
        copies = [sent]
        if spread:
            # Workers take copies from each other; if one dies, another may compute its copy.
            where = {"allow_other_workers": True, "pure": False}
            workers = sorted(client.nthreads())[: len(tasks)]
            copies = [client.submit(same, sent, workers=[one], **where) for one in workers]
        dealt = [copies[at % len(copies)] for at in range(len(tasks))]
        columns = zip(*tasks, strict=True)
        futures = client.map(run, dealt, *columns, pure=False, key="pigmil-block")
    return _results(client, futures)


def _results(client: Any, futures: list[Any]) -> Generator[Any, None, None]:
    """Yield the results of futures; forget those that nobody asks for any more."""
    distributed = sys.modules["distributed"]
    try:
        for at, future in enumerate(futures):
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                raise ClusterError(
                    f"Block {at} of {len(futures)} ended {error.allowed_failures + 1} workers, "
                    "mostly for lack of memory. Start workers with more memory or fewer threads "
                    "each (dask worker --nthreads 1 --memory-limit 8GB)."
                ) from error
            except (distributed.CancelledError, distributed.comm.CommClosedError) as error:
                if client.status == "running":
                    raise
                raise ClusterError(
                    f"The connection to the scheduler was lost after {at} of {len(futures)} "
                    "blocks. A fit starts again from the beginning: run it again once the cluster "
                    "is up. pigmil.scale.predict_to_parquet goes on where it was."
                ) from error
            futures[at] = None
    finally:
        with contextlib.suppress(Exception):  # the connection may be gone
            client.cancel([future for future in futures if future is not None])


def same(value: Any) -> Any:
    """Return the value: what a worker calls to hold it."""
    return value


def check_cluster(client: Any) -> None:
    """Raise an error unless the cluster has workers, all with this version of pigmil.

    Parameters
    ----------
    client : distributed.Client
        The client.
    """
    workers = frozenset(client.nthreads())
    if not workers:
        raise ClusterError(
            f"The cluster at {client.scheduler.address} has no workers; start some with: "
            f"dask worker {client.scheduler.address}"
        )
    if (client.id, workers) in _checked_workers:
        return

    # Defined here, so that it is sent by value: a worker may lack this module.
    def installed_version() -> str | None:
        try:
            from pigmil._core.version import __version__ as version
        except ImportError:
            return None
        return version

    versions = client.run(installed_version)
    other = sorted(worker for worker, version in versions.items() if version != __version__)
    if other:
        raise ClusterError(
            f"{len(other)} of {len(versions)} workers do not have this version of pigmil: "
            f"{other[0]} has {versions[other[0]] or 'none'}, this process has {__version__}. "
            f"Install the same everywhere: pip install 'pigmil[scale]=={__version__}'"
        )
    _checked_workers.add((client.id, workers))
