"""The results store: one SQLite file with one row per finished cell, safe against kill -9."""

import contextlib
import hashlib
import json
import math
import os
import re
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pigmil._core.errors import PigmilError
from pigmil._core.text import to_json_safe

SCHEMA = 2
_APPLICATION = 0x5047494C  # marks the file as a store, so that no other database is written to
_SQLITE_ERRORS = (sqlite3.Error, UnicodeError)  # the second where a message is damaged text
_OWNER = re.compile(r"[0-9a-f]{32}")
_WAIT_SECONDS = 60.0  # for other processes that write
_TABLES = {
    "cells": """
        key TEXT PRIMARY KEY, data TEXT NOT NULL, checksum TEXT NOT NULL, method TEXT NOT NULL,
        estimator TEXT NOT NULL, parameters TEXT NOT NULL, protocol TEXT NOT NULL,
        repeat INTEGER NOT NULL, fold INTEGER NOT NULL, version TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
        metrics TEXT NOT NULL, error TEXT, finished REAL NOT NULL""",
    "claims": "key TEXT PRIMARY KEY, owner TEXT NOT NULL",
    "audits": """
        data TEXT NOT NULL, checksum TEXT NOT NULL, findings TEXT NOT NULL,
        PRIMARY KEY (data, checksum)""",
}


# Of the columns of cells that are not text.
_COLUMN_TYPES: dict[str, tuple[type, ...]] = {
    "repeat": (int,), "fold": (int,), "finished": (int, float), "error": (str, type(None)),
    "metrics": (object,),  # decoded apart
}  # fmt: skip


class StoreError(PigmilError, ValueError):
    """A results store that cannot be used."""


@dataclass(frozen=True)
class Cell:
    """One fit and its test: the identity of a row of the store.

    Attributes
    ----------
    data, checksum : str
        Name of the data set, and sha256 of its content.
    method : str
        Label of the method in the tables.
    estimator : str
        Import path of its class.
    parameters : str
        Its parameters, as canonical JSON.
    protocol : str
        Folds, tuning, groups and seed, as canonical JSON.
    repeat, fold : int
        Number of the split.
    version : str
        Version of the package that the class comes from, and of this library.
    """

    data: str
    checksum: str
    method: str
    estimator: str
    parameters: str
    protocol: str
    repeat: int
    fold: int
    version: str

    @property
    def key(self) -> str:
        """Hash of everything that determines the result, so not of the two names."""
        identity = {
            name: value for name, value in asdict(self).items() if name not in ("data", "method")
        }
        return hashlib.sha256(canonical_json(identity).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: equal values give equal text.

    Examples
    --------
    >>> import numpy as np
    >>> canonical_json({"b": np.int64(2), "a": (1, 2)})
    '{"a":[1,2],"b":2}'
    """
    safe = to_json_safe(value, keep_non_finite=True)
    return json.dumps(safe, sort_keys=True, separators=(",", ":"))


class Store:
    """Results of comparisons, saved cell by cell.

    Every finished cell is one committed transaction in write-ahead-log mode: a process that is
    killed loses no finished cell and leaves no half-finished one. Several comparisons on one
    machine may share a store: each claims a cell before computing it. A claim lasts as long as
    its process: it holds a lock on a file beside the store, which the operating system releases
    when the process ends, for whatever reason.

    Parameters
    ----------
    path : path
        The file; created if missing.
    read_only : bool, default=False
        Open an existing file and change nothing in it.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(folder.name + "/results.sqlite")
    >>> cell = Cell("ring", "abc", "KDE", "pigmil.KDE", "{}", "{}", 0, 0, "0.1.0")
    >>> store.claim(cell.key)
    True
    >>> store.finish(cell, {"accuracy": 1.0})
    >>> store.claim(cell.key)
    False
    >>> [row["metrics"] for row in store.rows()]
    [{'accuracy': 1.0}]
    >>> store.close(); folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self.owner = uuid.uuid4().hex
        self._owner_lock: int | None = None
        self._lock = threading.RLock()
        try:
            if not read_only and not self.path.exists():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                _create(self.path)
            _check_header(self.path)
            self._connection = _open_to_read(self.path) if read_only else _open(self.path)
        except (*_SQLITE_ERRORS, OSError) as error:
            raise _unusable(self.path, error) from error
        try:
            self._check_tables()
        except BaseException:
            self._connection.close()
            raise

    def _check_tables(self) -> None:
        """Raise unless the file has these tables and nothing else: no views, no triggers."""
        rows = self._read("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        found = {str(row["name"]): " ".join(str(row["sql"]).split()) for row in rows}
        for table, columns in _TABLES.items():
            if found.pop(table, None) != " ".join(_creation(table, columns).split()):
                raise _unusable(self.path, f"its table '{table}' is missing or damaged")
        if found:
            raise _unusable(self.path, f"it holds '{next(iter(found))[:60]}' too")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._lock:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._connection.execute("COMMIT")
        except _SQLITE_ERRORS as error:
            raise _unusable(self.path, error) from error

    def _read(self, query: str) -> list[sqlite3.Row]:
        try:
            with self._lock:
                return self._connection.execute(query).fetchall()
        except _SQLITE_ERRORS as error:
            raise _unusable(self.path, error) from error

    def claim(self, key: str) -> bool:
        """Reserve a cell for this store; False if it is finished or being computed elsewhere."""
        with self._lock:
            if self._owner_lock is None:
                self._owner_lock = _take_lock(self._lock_path(self.owner))
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone():
                return False
            row = connection.execute("SELECT owner FROM claims WHERE key = ?", (key,)).fetchone()
            if row is not None and row["owner"] != self.owner and self._is_alive(row["owner"]):
                return False
            connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?)", (key, self.owner))
        return True

    def _lock_path(self, owner: str) -> Path:
        return self.path.with_name(f".{self.path.name}.{owner}.lock")

    def _is_alive(self, owner: Any) -> bool:
        # The owner comes from the file and becomes part of a path.
        if not isinstance(owner, str) or not _OWNER.fullmatch(owner):
            return False
        path = self._lock_path(owner)
        if not path.exists():
            return False
        lock = _take_lock(path)
        if lock is None:
            return True
        os.close(lock)
        path.unlink(missing_ok=True)
        return False

    def release(self, keys: Iterable[str]) -> None:
        """Release the claims of this store on cells that it will not compute."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?",
                [(key, self.owner) for key in keys],
            )

    def finish(self, cell: Cell, metrics: dict[str, Any], error: str | None = None) -> None:
        """Save the metrics of a cell, or the error it failed with."""
        status = "done" if error is None else "failed"
        row = (cell.key, *asdict(cell).values(), status, canonical_json(metrics), error,
               time.time())  # fmt: skip
        with self._transaction() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO cells VALUES ({', '.join('?' * len(row))})", row
            )
            connection.execute("DELETE FROM claims WHERE key = ?", (cell.key,))

    def forget_failures(self, keys: Iterable[str]) -> int:
        """Delete those of the cells that failed, to compute them again; return their number."""
        with self._transaction() as connection:
            return connection.executemany(
                "DELETE FROM cells WHERE status = 'failed' AND key = ?", [(key,) for key in keys]
            ).rowcount

    def finished(self) -> set[str]:
        """Return the keys of all finished cells, failed ones included."""
        return {row["key"] for row in self._read("SELECT key FROM cells")}

    def rows(self) -> list[dict[str, Any]]:
        """Return all finished cells as dictionaries, in a fixed order, with decoded metrics."""
        order = "data, method, parameters, repeat, fold, key"
        rows = self._read(f"SELECT * FROM cells ORDER BY {order}")
        for row in rows:
            self._check_cell(row)
        return [self._decode(row, "metrics") for row in rows]

    def _check_cell(self, row: sqlite3.Row) -> None:
        """Raise an error for values of another type than their column: SQLite stores any."""
        for name in row.keys():  # noqa: SIM118 - iterating over a row yields its values
            kinds = _COLUMN_TYPES.get(name, (str,))
            if not isinstance(row[name], kinds) or row[name] in (math.inf, -math.inf):
                raise _unusable(self.path, f"the {name} of a row is damaged")
        try:
            folds = json.loads(row["protocol"]).get("folds", 2)
        except (ValueError, AttributeError, RecursionError):
            folds = None
        if type(folds) is not int or folds < 2:
            raise _unusable(self.path, "the protocol of a row is damaged")

    def save_audit(self, checksum: str, data: str, findings: Any) -> None:
        """Save the findings of the audit of a data set."""
        with self._transaction() as connection:
            connection.execute(
                "INSERT OR REPLACE INTO audits VALUES (?, ?, ?)",
                (data, checksum, canonical_json(findings)),
            )

    def audits(self) -> list[dict[str, Any]]:
        """Return the findings of all audits, one dictionary per data set."""
        rows = self._read("SELECT * FROM audits ORDER BY data")
        return [self._decode(row, "findings") for row in rows]

    def _decode(self, row: sqlite3.Row, column: str) -> dict[str, Any]:
        try:
            decoded = json.loads(row[column])
            if column == "metrics" and not isinstance(decoded, dict):
                raise ValueError("they have no names")
            return {**dict(row), column: decoded}
        except (ValueError, TypeError, RecursionError) as error:
            raise _unusable(self.path, f"the {column} of a row are damaged: {error}") from error

    def close(self) -> None:
        """Close the file and give up all claims."""
        with self._lock:
            self._connection.close()
            if self._owner_lock is not None:
                os.close(self._owner_lock)
                self._owner_lock = None
                self._lock_path(self.owner).unlink(missing_ok=True)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _creation(table: str, columns: str) -> str:
    return f"CREATE TABLE {table} ({columns})"


def _create(path: Path) -> None:
    """Create an empty store atomically, even if several processes do so at the same time."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".new")
    os.close(handle)
    try:
        with contextlib.closing(sqlite3.connect(name, isolation_level=None)) as connection:
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={SCHEMA}")
            for table, columns in _TABLES.items():
                connection.execute(_creation(table, columns))
            connection.execute("PRAGMA journal_mode=WAL")
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp creates files for the owner alone
        try:
            os.link(name, path)
        except FileExistsError:
            return
        except OSError:  # a file system without links
            os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _check_header(path: Path) -> None:
    """Raise unless the file is a store of this schema, from its first bytes alone."""
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    with open(path, "rb") as file:
        header = file.read(100)
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        raise _unusable(path, "it is not a database")
    if int.from_bytes(header[68:72], "big") != _APPLICATION:
        raise _unusable(path, "it is a database of another program")
    schema = int.from_bytes(header[60:64], "big")
    if schema != SCHEMA:
        raise StoreError(
            f"'{path}' has schema {schema or 1}, this version of pigmil writes {SCHEMA}; name a "
            "new file."
        )


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA synchronous=FULL")
        # Fails where the file cannot be written, before any work is done.
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing store without writing, also in a folder that cannot be written to."""
    address = path.absolute().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=_WAIT_SECONDS)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:  # the index of the log cannot be created there
        connection.close()
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    return connection


def _take_lock(path: Path) -> int | None:
    """Lock a file for this process and return its descriptor; None if it is locked already."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if os.name == "nt":  # pragma: no cover
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _unusable(path: Path, reason: object) -> StoreError:
    detail = " ".join(str(reason).split())[:200]
    return StoreError(
        f"'{path}' cannot be used as a results store ({detail}); name a new file or one that an "
        "earlier comparison wrote."
    )
