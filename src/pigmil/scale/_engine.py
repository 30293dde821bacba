"""Map over blocks of bags and reduce, in threads, with joblib, or on a dask cluster.

The blocks and the order in which their results are combined depend on the bags alone, so that the
result is the same on every engine and for any number of workers.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pigmil._core import __version__
from pigmil._core.errors import PigmilError
from pigmil._core.files import available_memory
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.bags._lazy import LazyBags

Result = TypeVar("Result")
_HELD_SHARE = 0.25  # of the available memory, for blocks that are read in every iteration
_checked_workers: set[tuple[str, frozenset[str]]] = set()  # client, and all its workers


def hold_blocks(bags: LazyBags) -> LazyBags | list[Any]:
    """Read the blocks once and keep them for several passes, if they fit.

    They may fill a quarter of the memory that is available: of this process, or of all workers of
    the cluster, which keep the blocks they have read. Larger bags are returned as they are, and
    read again in every pass. Either way :func:`map_blocks` gives the same results.

    Parameters
    ----------
    bags : LazyBags
        The bags.
    """
    client = active_client()
    room = cluster_memory(client) if client else available_memory()
    if bags.is_sparse or room is None or bags.nbytes > _HELD_SHARE * room:
        return bags
    if client:
        check_cluster(client)
        read = partial(LazyBags.load, info=False)
        return list(client.map(read, bags.partitions(), pure=False, key="pigmil-read"))
    return list(map_blocks(same, bags))


def map_blocks(
    function: Callable[..., Result],
    bags: LazyBags | Sequence[Any],
    *arguments: Sequence[Any],
    info: bool = False,
) -> Iterator[Result]:
    """Yield the result of a function for every block, in the order of the blocks.

    Runs on the cluster of the active ``dask.distributed`` client, if there is one; else with the
    backend and number of workers of ``joblib.parallel_config``; else in one thread per processor.

    Parameters
    ----------
    function : callable
        Called with a block, as :class:`pigmil.Bags`, and one entry of each of the arguments.
    bags : LazyBags, or sequence of LazyBags or Bags
        The bags; their :meth:`LazyBags.partitions` are the blocks. Workers read them. Or the
        blocks themselves, as :func:`hold_blocks` returns them.
    *arguments : sequences
        With one entry per block.
    info : bool, default=False
        Whether to read further data on the instances too.

    Yields
    ------
    object
        What the function returns.
    """
    blocks = bags.partitions() if isinstance(bags, LazyBags) else bags
    tasks = [(block, info, *more) for block, *more in zip(blocks, *arguments, strict=True)]
    if not tasks:
        return
    client = active_client()
    with contextlib.closing(
        map_on_cluster(client, _run_task, function, tasks) if client else _map_here(function, tasks)
    ) as results:
        yield from results


def map_calls(
    function: Callable[..., Result],
    calls: Sequence[tuple[Any, ...]],
    *,
    n_jobs: int | None = None,
) -> Iterator[Result]:
    """Make some calls of one function, in threads or on the cluster; return their results in order.

    A cluster works on them while this process does something else: it waits when a result is
    asked for. What all calls have in common belongs in the function, as by
    :func:`functools.partial`: a cluster is sent the function once.

    Parameters
    ----------
    function : callable
        The function.
    calls : sequence of tuples
        Positional arguments of each call.
    n_jobs : int, optional
        Number of threads, if there is no cluster.

    Examples
    --------
    >>> list(map_calls(pow, [(2, 3), (3, 2)]))
    [8, 9]
    """
    client = active_client()
    if client and calls:
        return map_on_cluster(client, _run_call, function, calls, spread=True)
    parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
    return iter(parallel(joblib.delayed(function)(*call) for call in calls))


def _run_call(function: Callable[..., Any], *arguments: Any) -> Any:
    with threadpool_limits(1):
        return function(*arguments)


def map_reduce(
    bags: LazyBags | Sequence[Any],
    map_function: Callable[..., Result],
    reduce_function: Callable[[Result, Result], Result],
    *arguments: Sequence[Any],
) -> Result:
    """Reduce the results of all blocks to one, pairwise and in the order of the blocks.

    Parameters
    ----------
    bags : LazyBags or blocks
        The bags, at least one; as in :func:`map_blocks`.
    map_function : callable
        Called as in :func:`map_blocks`.
    reduce_function : callable
        Combines two results of neighbouring blocks.
    *arguments : sequences
        With one entry per block.

    Examples
    --------
    >>> import operator, pathlib, tempfile
    >>> import numpy as np
    >>> from pigmil import scan_bags
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in "ab":
    ...     np.save(folder / f"{name}.npy", np.ones((2, 3)))
    >>> map_reduce(scan_bags(folder), lambda block: float(block.instances.sum()), operator.add)
    12.0
    """
    # Like the digits of a binary counter: entry k of the stack covers 2^level neighbouring blocks.
    stack: list[tuple[int, Result]] = []
    for result in map_blocks(map_function, bags, *arguments):
        level = 0
        while stack and stack[-1][0] == level:
            result = reduce_function(stack.pop()[1], result)
            level += 1
        stack.append((level, result))
    if not stack:
        raise ValueError("There are no bags to work on.")
    _, total = stack.pop()
    while stack:
        total = reduce_function(stack.pop()[1], total)
    return total


def map_instances(
    function: Callable[..., NDArray[Any]],
    bags: Bags | LazyBags,
    *per_bag: NDArray[Any],
    blocks: LazyBags | Sequence[Any] | None = None,
    info: bool = False,
) -> NDArray[Any]:
    """Apply a function that returns an array to all bags at once, or to the blocks of lazy ones.

    Parameters
    ----------
    function : callable
        Takes :class:`pigmil.Bags` and the entries of its bags in each of the further arrays;
        returns one entry per instance or per bag.
    bags : Bags or LazyBags
        The bags.
    *per_bag : arrays
        With one entry per bag.
    blocks : LazyBags or blocks, optional
        Result of :func:`hold_blocks` for these bags, to avoid reading them again.
    info : bool, default=False
        Whether to read further data on the instances of lazy bags too.

    Returns
    -------
    array
        The results of all blocks, one after the other.
    """
    if not isinstance(bags, LazyBags):
        return function(bags, *per_bag)
    cuts = np.cumsum([part.n_bags for part in bags.partitions()])[:-1]
    arguments = [np.split(values, cuts) for values in per_bag]
    return np.concatenate(list(map_blocks(function, blocks or bags, *arguments, info=info)))


def take_rows(bags: Bags | LazyBags, positions: IntArray) -> Any:
    """Return chosen instances.

    Parameters
    ----------
    bags : Bags or LazyBags
        The bags.
    positions : array of int
        Flat positions, different ones in ascending order.
    """
    if not isinstance(bags, LazyBags):
        everything = len(positions) == bags.n_instances
        return bags.instances if everything else bags.instances[positions]
    starts = np.concatenate([[0], np.cumsum([part.n_instances for part in bags.partitions()])])
    cuts = np.searchsorted(positions, starts)
    inside = [
        positions[low:high] - start
        for low, high, start in zip(cuts[:-1], cuts[1:], starts[:-1], strict=True)
    ]
    parts = list(map_blocks(_rows_of, bags, inside))
    return sp.vstack(parts, format="csr") if bags.is_sparse else np.concatenate(parts)


def _rows_of(block: Bags, positions: IntArray) -> Any:
    return block.instances[positions]


_Moments = tuple[int, FloatArray, FloatArray]


def column_moments(
    instances: Any, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of every feature, in double precision.

    Blocks of bags on disk are combined as in Chan, Golub and LeVeque (1979).

    Parameters
    ----------
    instances : array or CSR of shape (n_instances, n_features), or LazyBags
        The instances.
    weights : array of shape (n_instances,), optional
        Their weights, not for lazy bags.

    Examples
    --------
    >>> column_moments(np.array([[1.0], [5.0]]), np.array([3.0, 1.0]))
    (array([2.]), array([3.]))
    """
    if isinstance(instances, LazyBags):
        count, mean, squares = map_reduce(instances, _block_moments, _combine_moments)
        return mean, squares / count
    if weights is None and not sp.issparse(instances):
        mean = np.asarray(instances.mean(axis=0, dtype=np.float64))
        return mean, np.var(instances, axis=0, dtype=np.float64)
    weights = np.ones(instances.shape[0]) if weights is None else weights
    mean = np.asarray(weights @ instances, dtype=np.float64) / weights.sum()
    if sp.issparse(instances):
        squares = weights @ instances.multiply(instances)
        return mean, np.maximum(squares / weights.sum() - mean**2, 0.0)
    return mean, weights @ np.square(instances - mean) / weights.sum()


def _block_moments(block: Bags) -> _Moments:
    mean, variance = column_moments(block.instances)
    return block.n_instances, mean, variance * block.n_instances


def _combine_moments(left: _Moments, right: _Moments) -> _Moments:
    (n_left, mean_left, squares_left), (n_right, mean_right, squares_right) = left, right
    count = n_left + n_right
    shift = mean_right - mean_left
    mean = mean_left + shift * (n_right / count)
    return count, mean, squares_left + squares_right + shift**2 * (n_left * n_right / count)


def _run_task(function: Callable[..., Any], part: Any, info: bool, *arguments: Any) -> Any:
    block = part.load(info=info) if isinstance(part, LazyBags) else part
    return function(block, *arguments)


def _map_here(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    backend, n_jobs = get_active_backend()
    if (n_jobs or 1) == 1 and not backend.nesting_level:
        n_jobs = joblib.cpu_count()
    n_jobs = min(n_jobs or 1, len(tasks)) if (n_jobs or 1) > 0 else n_jobs
    if n_jobs == 1:
        yield from (_run_task(function, *task) for task in tasks)
        return
    parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    # One thread of BLAS each: otherwise threads multiply.
    with threadpool_limits(1):
        yield from parallel(joblib.delayed(_run_task)(function, *task) for task in tasks)


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
            from pigmil._core import __version__ as version
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
