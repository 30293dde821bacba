"""Files of unknown origin, parsed in a child process with limits of memory and CPU time.

The child reads the files and sends ids, labels and arrays. A decompression bomb, an endless loop or
a crash of a native parser ends the child, and is one error here.
"""

import os
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from pigmil._core.errors import BagFormatError, BagsError, MissingDependencyError
from pigmil._core.files import available_memory
from pigmil._core.isolation import Child, ChildCallError, ChildError
from pigmil.bags import Bags, LazyBags
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
_ERRORS = (BagFormatError, BagFileNotFoundError, BagsError, MissingDependencyError)
_PARTS = ("ids", "y", "instance_labels", "feature_names", "offsets", "shape")


@cache
def _child() -> Child:
    """Return the child of this process, which reads all isolated files one after the other."""
    return Child(preload=_LIBRARIES)


def call_isolated(function: Any, paths: Sequence[Path], request: Request) -> Any:
    """Return the result of a function of files and request, called in the child."""
    child = _child()
    inside = (Path(folder, name) for top in paths for folder, _, names in os.walk(top)
              for name in names)  # fmt: skip
    files = [file for file in (*paths, *inside) if file.exists()]
    n_bytes = sum(file.stat().st_size for file in files)
    child.cpu_limit = _SECONDS + len(files) * _SECONDS_PER_FILE + n_bytes / _BYTES_PER_SECOND
    child.time_limit = _SECONDS_OF_WAITING + 10 * child.cpu_limit
    child.memory_limit = (available_memory() or 8 << 30) * _MEMORY_SHARE / _MEBIBYTE
    try:
        return child.call(function, paths, request)
    except ChildCallError as error:
        for kind in _ERRORS:
            if kind.__name__ == error.type_name:
                raise kind(error.message) from None
        problem = f"cannot be read ({error.type_name}: {error.message})"
    except ChildError as error:
        problem = f"cannot be read in isolation: {error}"
    raise BagFormatError(f"{paths[0]}: {problem}. The file may be damaged.") from None


def read_parts(paths: Sequence[Path], request: Request) -> dict[str, Any]:
    """Return the arrays of which bags consist; called in the child. A sparse matrix is three."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bags = scan_paths(paths, request).load()
    rows = bags.instances
    sparse = [rows.data, rows.indices, rows.indptr] if bags.is_sparse else None
    return {name: getattr(bags, name) for name in _PARTS} | {
        "instances": sparse or rows,
        "bag_info": dict(bags.bag_info),
        "instance_info": dict(bags.instance_info),
        "warnings": [str(warning.message) for warning in caught],
    }


def scan_isolated(paths: Sequence[Path], request: Request) -> LazyBags:
    """Read files in the child process; see :func:`pigmil.scan_bags`."""
    found = call_isolated(read_parts, paths, request)
    for message in found.pop("warnings"):
        warnings.warn(message, UserWarning, stacklevel=4)
    instances, offsets, shape = (found.pop(name) for name in ("instances", "offsets", "shape"))
    if isinstance(instances, list):
        instances = sp.csr_array(tuple(instances), shape=(int(offsets[-1]), shape[1]))
    return LazyBags.from_bags(Bags(instances, offsets, **found, missing="keep"), paths[0])
