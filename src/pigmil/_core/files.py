"""Atomic writing: every file of the library is written here, complete or not at all."""

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_NAME_BYTES, _SUFFIX_BYTES = 150, 40  # of a target's name in the name of its temporary file


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
    with atomic_write_all([path]) as (temporary,):
        yield temporary


@contextmanager
def atomic_write_all(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[Path]]:
    """Yield a temporary path for each target; replace all targets if the block succeeds, or none.

    See :func:`atomic_write`.
    """
    targets = [writable_target(path) for path in paths]
    temporaries: list[Path] = []
    try:
        for target in targets:
            temporaries.append(create_temporary(target))
        yield temporaries
        replace_targets(temporaries, targets)
    except OSError as error:
        if error.errno is not None and error.filename in (None, *map(str, temporaries)):
            # Name the file that the caller knows.
            raise OSError(error.errno, error.strerror or str(error), str(paths[-1])) from error
        raise
    finally:
        for temporary in temporaries:
            temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield an empty folder; if the block succeeds move its files into the target, all or none.

    Other files of the target stay as they are.

    Parameters
    ----------
    folder : path
        The target; it must exist.

    Yields
    ------
    Path
        Where to write files, without folders inside.
    """
    folder = Path(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".", suffix=".new") as name:
        yield Path(name)
        temporaries = sorted(Path(name).iterdir())
        targets = [writable_target(folder / temporary.name) for temporary in temporaries]
        replace_targets(temporaries, targets)


def writable_target(path: str | os.PathLike[str]) -> Path:
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


def create_temporary(target: Path) -> Path:
    """Create an empty file next to a target, hidden, with the target's suffix and mode."""
    suffix = target.suffix if len(os.fsencode(target.suffix)) <= _SUFFIX_BYTES else ""
    temporary = _hidden_name(target, suffix)
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
    return temporary


def replace_targets(temporaries: Sequence[Path], targets: Sequence[Path]) -> None:
    """Flush temporary files to the disk and give them the names of their targets, all or none."""
    for temporary, target in zip(temporaries, targets, strict=True):
        if target.exists():
            _copy_owner_and_mode(target, temporary)
        _flush(temporary)
    backups: list[Path] = []
    with contextlib.ExitStack() as undo:
        for temporary, target in zip(temporaries, targets, strict=True):
            if len(targets) > 1:
                backups += _prepare_undo(target, undo)
            os.replace(temporary, target)
        undo.pop_all()
    for backup in backups:
        backup.unlink(missing_ok=True)
    for folder in {target.parent for target in targets}:
        _flush(folder)


def _prepare_undo(target: Path, undo: contextlib.ExitStack) -> list[Path]:
    """Keep the old file, if any, so that it can be restored if a later step fails."""
    if not target.exists():
        undo.callback(target.unlink, missing_ok=True)
        return []
    backup = _hidden_name(target, ".old")
    undo.callback(_restore, backup, target)
    try:
        os.link(target, backup)
    except OSError:  # a file system without links
        shutil.copy2(target, backup)
    return [backup]


def _hidden_name(target: Path, suffix: str) -> Path:
    start = os.fsencode(target.name)[:_NAME_BYTES].decode("utf-8", "ignore")
    return target.with_name(f".{start}.{secrets.token_hex(6)}{suffix}")


def _restore(backup: Path, target: Path) -> None:
    if not backup.exists():
        return
    if os.path.samefile(backup, target):  # replacing a file by itself would leave both names
        backup.unlink()
    else:
        os.replace(backup, target)


def _copy_owner_and_mode(source: Path, path: Path) -> None:
    wanted, current = source.stat(), path.stat()
    if (wanted.st_uid, wanted.st_gid) != (current.st_uid, current.st_gid):
        with contextlib.suppress(OSError, AttributeError):  # only root may; Windows has no owners
            os.chown(path, wanted.st_uid, wanted.st_gid)
    path.chmod(stat.S_IMODE(wanted.st_mode))


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
