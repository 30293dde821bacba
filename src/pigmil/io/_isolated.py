"""Files of unknown origin, parsed in a child process with limits of memory and CPU time.

The child scans the files and keeps what it found; this process gets ids, labels and sizes, and
asks for the rows of a block when it needs them. A decompression bomb, an endless loop or a crash
of a native parser ends the child, and is one error here.
"""

import contextlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, BagsError, MissingDependencyError
from pigmil._core.files import available_memory
from pigmil._core.isolation import Child, ChildCallError, ChildError
from pigmil.bags import Bags, LazyBags
from pigmil.bags._lazy import INSTANCE_LABELS, Source, Stamp
from pigmil.io._defence import BagFileNotFoundError
from pigmil.io._formats import Request, scan_paths

_MEBIBYTE = 2**20
# A call may take 30 s, 0.1 s more for each file and 1 s more for each 5 MB: several times what
# the slowest format (text) needs.
_SECONDS, _SECONDS_PER_FILE, _BYTES_PER_SECOND = 30.0, 0.1, 5e6
_MEMORY_SHARE = 0.5  # of the memory that is available, for the child
_SECONDS_OF_WAITING = 600.0  # beside ten times the CPU time: a slow disk, but not for ever
_LIBRARIES = ("scipy.io", "pigmil.io", "pigmil.bags")  # imported before a limit holds
# Errors of the child that are raised here again; all others mean a damaged file.
_ERRORS = (BagFormatError, BagFileNotFoundError, BagsError, MissingDependencyError, TypeError)


class Scan:
    """The files of one call of ``scan_bags``, scanned where it is first needed."""

    def __init__(self, paths: Sequence[Path], request: Request) -> None:
        self.key, self.paths, self.request = uuid4().hex, tuple(paths), request
        self._block: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lazy"}

    @cached_property
    def lazy(self) -> LazyBags:
        """The bags."""
        return scan_paths(self.paths, self.request)

    def block(self, start: int, stop: int) -> tuple[Bags, slice]:
        """Return bags that cover rows of all bags, and where the rows are in them."""
        offsets = self.lazy.offsets
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        part = self.lazy[first:last]
        if self._block[0] != (first, last):
            self._block = (None, None)
            self._block = ((first, last), part.load())
        for source in part._sources:
            source.verify()
        return self._block[1], slice(start - int(offsets[first]), stop - int(offsets[first]))

    def call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of this scan in the child."""
        child = _child()
        files = [path for top in self.paths for path in (top, *_files(top))]
        sizes = [file.stat().st_size for file in files if file.exists()]
        child.cpu_limit = _SECONDS + len(files) * _SECONDS_PER_FILE + sum(sizes) / _BYTES_PER_SECOND
        child.time_limit = _SECONDS_OF_WAITING + 10 * child.cpu_limit
        child.memory_limit = (available_memory() or 8 << 30) * _MEMORY_SHARE / _MEBIBYTE
        try:
            return child.call(function, *arguments, shared={"scan": (self.key, self)})
        except ChildCallError as error:
            for kind in _ERRORS:
                if kind.__name__ == error.type_name:
                    raise kind(error.message) from None
            problem = f"cannot be read ({error.type_name}: {error.message})"
        except ChildError as error:
            problem = f"cannot be read in isolation: {error}"
        # Without the cause: dask sends errors to other processes.
        raise BagFormatError(f"{self.paths[0]}: {problem}. The file may be damaged.") from None


def _files(top: Path) -> list[Path]:
    return [Path(folder, name) for folder, _, names in os.walk(top) for name in names]


@cache
def _child() -> Child:
    """Return the child of this process, which reads all isolated files one after the other."""
    return Child(preload=_LIBRARIES)


def describe(scan: Scan) -> dict[str, Any]:
    """Return what lazy bags know without their rows; called in the child."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        lazy = scan.lazy
    infos = [dict(source.info) for source in lazy._sources]
    columns = [name for name in infos[0] if all(name in info for info in infos)]
    known = ("ids", "y", "bag_info", "sizes", "n_features", "feature_names", "is_sparse")
    return {name: getattr(lazy, name) for name in known} | {
        "dtype": lazy.dtype.str,
        "missing": lazy._missing,
        "columns": [*columns, *lazy._segment_info],
        "warnings": [str(warning.message) for warning in caught],
    }


def read_rows(name: str, start: int, stop: int, scan: Scan) -> Any:
    """Return rows of a column, or of the features if it has no name; called in the child.

    Of sparse features these are the three arrays.
    """
    bags, rows = scan.block(start, stop)
    if name:
        column = bags.instance_labels if name == INSTANCE_LABELS else bags.instance_info[name]
        return None if column is None else column[rows]
    part = bags.instances[rows]
    return [part.data, part.indices, part.indptr] if bags.is_sparse else part


@dataclass(frozen=True)
class IsolatedSource(Source):
    """All rows of a scan, read by the child."""

    scan: Any = None
    width: int = 0
    sparse: bool = False

    def verify(self) -> None:
        """Do nothing: the child does it."""

    def open(self) -> contextlib.AbstractContextManager[Any]:
        """Open nothing: the child does it."""
        return contextlib.nullcontext()

    def read(self, file: Any, start: int, stop: int) -> Any:
        """Return rows of the features."""
        found = self.scan.call(read_rows, "", start, stop)
        shape = (stop - start, self.width)
        return sp.csr_array(tuple(found), shape=shape) if self.sparse else found

    def read_column(self, file: Any, key: str, start: int, stop: int) -> NDArray[Any]:
        """Return rows of a further column."""
        return np.asarray(self.scan.call(read_rows, key, start, stop))


def scan_isolated(paths: Sequence[Path], request: Request) -> LazyBags:
    """Scan files in the child process; see :func:`pigmil.scan_bags`."""
    scan = Scan(paths, request)
    found = scan.call(describe)
    for message in found.pop("warnings"):
        warnings.warn(message, UserWarning, stacklevel=4)
    columns, sizes = found.pop("columns"), found.pop("sizes")
    source = IsolatedSource(
        Stamp(str(paths[0]), 0, 0), tuple((name, name) for name in columns), scan,
        found["n_features"], found["is_sparse"],
    )  # fmt: skip
    ends = np.cumsum(sizes)
    segments = np.column_stack([np.zeros_like(ends), ends - sizes, ends])
    return LazyBags([source], segments, np.arange(len(sizes) + 1), **found)
