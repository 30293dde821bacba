"""Map over blocks of bags and reduce, in threads, with joblib, or on a dask cluster.

The blocks and the order in which their results are combined depend on the bags alone, so that the
result is the same on every engine and for any number of workers.
"""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

import joblib
import numpy as np
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from pigmil._core.errors import PigmilError
from pigmil._core.optional import import_optional
from pigmil._core.typing import FloatArray, IntArray
from pigmil._core.version import __version__
from pigmil.bags import Bags
from pigmil.scale._lazy import LazyBags

Result = TypeVar("Result")
_CONNECT_SECONDS = 10.0
_checked_workers: set[tuple[str, frozenset[str]]] = set()


class ClusterError(PigmilError, RuntimeError):
    """A cluster that cannot be reached or used; the message says what to do."""


def map_blocks(
    function: Callable[..., Result],
    bags: LazyBags | Sequence[LazyBags],
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
    bags : LazyBags, or sequence of LazyBags
        The bags; their :meth:`LazyBags.partitions` are the blocks. Workers read them. Or the
        blocks themselves.
    *arguments : sequences
        With one entry per block.
    info : bool, default=False
        Whether to read further data on the instances too.

    Yields
    ------
    object
        What the function returns.
    """
    parts = bags.partitions() if isinstance(bags, LazyBags) else bags
    tasks = [(part, info, *more) for part, *more in zip(parts, *arguments, strict=True)]
    if not tasks:
        return
    client = active_client()
    results = _map_on_cluster(client, function, tasks) if client else _map_here(function, tasks)
    with contextlib.closing(results):
        yield from results


def map_reduce(
    bags: LazyBags,
    map_function: Callable[..., Result],
    reduce_function: Callable[[Result, Result], Result],
    *arguments: Sequence[Any],
) -> Result:
    """Reduce the results of all blocks to one, pairwise and in the order of the blocks.

    Parameters
    ----------
    bags : LazyBags
        The bags, at least one.
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
    >>> from pigmil import Bags
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in "ab":
    ...     np.save(folder / f"{name}.npy", np.ones((2, 3)))
    >>> map_reduce(Bags.scan(folder), lambda block: float(block.instances.sum()), operator.add)
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
    function: Callable[..., NDArray[Any]], bags: Bags | LazyBags, *per_bag: NDArray[Any]
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

    Returns
    -------
    array
        The results of all blocks, one after the other.
    """
    if not isinstance(bags, LazyBags):
        return function(bags, *per_bag)
    cuts = np.cumsum([part.n_bags for part in bags.partitions()])[:-1]
    arguments = [np.split(values, cuts) for values in per_bag]
    return np.concatenate(list(map_blocks(function, bags, *arguments)))


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
    if bags.is_sparse:
        import scipy.sparse as sp

        return sp.vstack(parts, format="csr")
    return np.concatenate(parts)


def _rows_of(block: Bags, positions: IntArray) -> Any:
    return block.instances[positions]


def column_moments(bags: Bags | LazyBags) -> tuple[int, FloatArray, FloatArray]:
    """Return the number of instances, and mean and variance of every feature.

    Blocks are combined as in Chan, Golub and LeVeque (1979), in double precision.
    """
    if isinstance(bags, LazyBags):
        count, mean, squares = map_reduce(bags, _block_moments, _combine_moments)
    else:
        count, mean, squares = _block_moments(bags)
    return count, mean, squares / count


_Moments = tuple[int, FloatArray, FloatArray]


def _block_moments(block: Bags) -> _Moments:
    rows = block.instances
    if block.is_sparse:
        mean = np.asarray(rows.mean(axis=0), dtype=np.float64).ravel()
        raw = np.asarray(rows.multiply(rows).sum(axis=0), dtype=np.float64).ravel()
        return len(block.bag_index), mean, np.maximum(raw - rows.shape[0] * mean**2, 0.0)
    mean = rows.mean(axis=0, dtype=np.float64)
    squares = np.zeros_like(mean)
    for start in range(0, len(rows), 4096):
        centred = rows[start : start + 4096] - mean
        squares += np.einsum("ij,ij->j", centred, centred)
    return len(rows), mean, squares


def _combine_moments(left: _Moments, right: _Moments) -> _Moments:
    (n_left, mean_left, squares_left), (n_right, mean_right, squares_right) = left, right
    count = n_left + n_right
    shift = mean_right - mean_left
    mean = mean_left + shift * (n_right / count)
    return count, mean, squares_left + squares_right + shift**2 * (n_left * n_right / count)


def _run_task(task: tuple[Any, ...], function: Callable[..., Any]) -> Any:
    part, info, *arguments = task
    return function(part._read(info=info), *arguments)


def _map_here(
    function: Callable[..., Any], tasks: list[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    backend, n_jobs = get_active_backend()
    if (n_jobs or 1) == 1 and not backend.nesting_level:
        n_jobs = joblib.cpu_count()
    n_jobs = min(n_jobs or 1, len(tasks)) if (n_jobs or 1) > 0 else n_jobs
    if n_jobs == 1:
        for task in tasks:
            yield _run_task(task, function)
        return
    parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")
    # One thread of BLAS each: otherwise threads multiply.
    with threadpool_limits(1):
        yield from parallel(joblib.delayed(_run_task)(task, function) for task in tasks)


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


def _map_on_cluster(
    client: Any, function: Callable[..., Any], tasks: list[tuple[Any, ...]]
) -> Generator[Any, None, None]:
    check_cluster(client)
    distributed = sys.modules["distributed"]
    futures = client.map(_run_task, tasks, function=function, pure=False, key="pigmil-block")
    try:
        for at, future in enumerate(futures):
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                raise ClusterError(
                    f"Block {at} of {len(tasks)} ended {error.allowed_failures + 1} workers, "
                    "mostly for want of memory. Start workers with more memory or fewer threads "
                    "each (dask worker --nthreads 1 --memory-limit 8GB)."
                ) from error
            futures[at] = None
    finally:
        client.cancel([future for future in futures if future is not None])


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

    found = client.run(installed_version)
    lacking = sorted(worker for worker, version in found.items() if version is None)
    if lacking:
        raise ClusterError(
            f"{len(lacking)} of {len(found)} workers do not have pigmil, among them {lacking[0]}; "
            f"install it there: pip install 'pigmil[scale]=={__version__}'"
        )
    other = sorted(worker for worker, version in found.items() if version != __version__)
    if other:
        raise ClusterError(
            f"{len(other)} of {len(found)} workers have another version of pigmil: {other[0]} has "
            f"{found[other[0]]}, this process has {__version__}. Install the same version "
            "everywhere."
        )
    _checked_workers.add((client.id, workers))


@contextlib.contextmanager
def cluster_client(address: str | None = None, n_workers: int | None = None) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine, for the duration of a block.

    Inside, every fit and prediction on lazy bags runs on that cluster.

    Parameters
    ----------
    address : str, optional
        Of the scheduler: ``"tcp://node1:8786"``.
    n_workers : int, optional
        Number of worker processes to start on this machine instead; one thread each.

    Yields
    ------
    distributed.Client
        Or None if neither is given: work is then done in this process.

    Raises
    ------
    ClusterError
        If no scheduler answers, or workers cannot be used.
    """
    if address is None and n_workers is None:
        yield None
        return
    if address is not None and n_workers is not None:
        raise ClusterError("Give the address of a cluster or a number of workers, not both.")
    distributed = import_optional("distributed", extra="scale", purpose="Working on a cluster")
    if address is None:
        if n_workers is not None and n_workers < 1:
            raise ClusterError(f"The number of workers must be at least 1; got {n_workers}.")
        cluster = distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        )
        with cluster, distributed.Client(cluster) as client:
            yield client
        return
    try:
        client = distributed.Client(address, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"No dask scheduler answers at {address!r} ({type(error).__name__}). Start one with "
            "`dask scheduler` and give the address that it prints, such as tcp://node1:8786."
        ) from error
    with client:
        check_cluster(client)
        yield client
