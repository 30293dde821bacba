"""Atomic writing: every file of the library is written here; and the memory that is available."""

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAME_BYTES, _SUFFIX_BYTES = 150, 40  # of a target's name in the name of its temporary file
_CGROUP = Path("/sys/fs/cgroup")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path next to the target; replace the target if the block succeeds.

    However the block ends, Ctrl-C and a full disk included, the target is either the old file or
    the new one, and nothing else is left behind. The file and its folder are flushed to the disk.
    An existing file keeps its mode; of a symbolic link, the file it points to is replaced. Folders,
    devices and pipes are refused.

    Parameters
    ----------
    path : path
        The target; its folder must exist.

    Yields
    ------
    Path
        Where to write.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "notes.txt") as temporary:
    ...         _ = temporary.write_text("done")
    ...     [entry.name for entry in Path(folder).iterdir()]
    ['notes.txt']
    """
    target = _writable_target(path)
    # Hidden, with the suffix of the target, and as private as the target while it is written.
    suffix = target.suffix if len(os.fsencode(target.suffix)) <= _SUFFIX_BYTES else ""
    start = os.fsencode(target.name)[:_NAME_BYTES].decode("utf-8", "ignore")
    temporary = target.with_name(f".{start}.{secrets.token_hex(6)}{suffix}")
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    try:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        _flush(temporary)
        os.replace(temporary, target)
        _flush(target.parent)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            # Name the file that the caller knows.
            raise OSError(error.errno, error.strerror or str(error), str(path)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def _writable_target(path: str | os.PathLike[str]) -> Path:
    """Return the path with links resolved; raise OSError unless it is a regular file or new."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "a folder cannot be replaced by a file", str(path))
    if not stat.S_ISREG(mode):
        reason = "not a regular file; devices, pipes and sockets are not written to"
        raise OSError(errno.EINVAL, reason, str(path))
    return target


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # Windows does not open folders
        return
    handle = os.open(path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without fsync
            raise
    finally:
        os.close(handle)


def available_memory() -> int | None:
    """Return the bytes of memory that can be used without swapping; None if unknown.

    The limit of a container counts where it is lower than what the machine has.
    """
    amounts = [amount for amount in (_machine_memory(), _container_memory()) if amount is not None]
    return min(amounts, default=None)


def _machine_memory() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # Windows
        return None


def _container_memory() -> int | None:
    """Return what is left of the limit of this control group; cached file pages count as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
        cached = next(int(line.split()[1]) for line in lines if line.startswith("inactive_file "))
    except (OSError, ValueError, StopIteration):
        return None
    return max(0, limit - used + cached)
