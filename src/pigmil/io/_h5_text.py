"""Read all text of an HDF5 file and print the memory it takes; run as a process of its own.

On damaged text of variable length the HDF5 library may end the process, or never return, and many
places of a small file may refer to one long text. Nothing of pigmil is imported here, so that the
process starts quickly.
"""

import contextlib
import sys
from typing import Any

import h5py

_ROWS = 1000  # read at once, where chunks are not larger


def size_of_text(path: str, available: int) -> int:
    """Return the bytes of all text as Python strings, and of all attributes.

    Parameters
    ----------
    path : str
        An HDF5 file.
    available : int
        Where the sum is larger than this, the rest is not read.
    """
    total = 0

    def read(_: str, item: Any) -> None:
        nonlocal total
        for key in item.attrs:
            total += _size(item.attrs[key])
        if not isinstance(item, h5py.Dataset) or not item.dtype.hasobject:
            return
        if not item.shape:
            total += _size(item[()])
            return
        step = max(_ROWS, item.chunks[0] if item.chunks else 0)
        for start in range(0, item.shape[0], step):
            if total <= available:
                total += _size(item[start : start + step])

    with h5py.File(path, "r") as file:
        read("/", file)
        file.visititems(read)
    return total


def _size(value: Any) -> int:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return sys.getsizeof(value)
    dtype = getattr(value, "dtype", None)
    if dtype is None:  # a reference, or an empty attribute
        return 0
    if dtype.names:
        return sum(_size(value[name]) for name in dtype.names)
    return sum(map(_size, value.ravel())) if dtype.hasobject else int(value.nbytes)


def _limit(seconds: int, memory: int) -> None:
    """Limit processor time and memory of this process, where the system can."""
    with contextlib.suppress(ImportError):
        import resource

        for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
            hard = resource.getrlimit(kind)[1]
            within = hard == resource.RLIM_INFINITY or most < hard
            resource.setrlimit(kind, (most if within else hard, hard))


if __name__ == "__main__":
    available = int(sys.argv[2])
    _limit(int(sys.argv[3]), available + (1 << 30))
    print(size_of_text(sys.argv[1], available))
