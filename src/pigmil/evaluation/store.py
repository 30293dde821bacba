"""The results store: one SQLite file, one row a finished cell, safe against being killed."""

import hashlib
import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pigmil._core.errors import PigmilError
from pigmil._core.json import to_json_safe

SCHEMA = 1
_APPLICATION = 0x5047494C  # marks the file as ours, so that no other database is written into
_LEASE = 120.0  # seconds after which a claim without a sign of life is up for grabs
_WAIT_SECONDS = 60.0  # for other processes that write
_OWNERS: set[str] = set()  # open stores of this process; a claim of any other one is orphaned
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY,
    data TEXT NOT NULL, checksum TEXT NOT NULL, method TEXT NOT NULL, parameters TEXT NOT NULL,
    protocol TEXT NOT NULL, repeat INTEGER NOT NULL, fold INTEGER NOT NULL, version TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    metrics TEXT NOT NULL, error TEXT, finished REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS claims (
    key TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, owner TEXT NOT NULL,
    seen REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS audits (
    data TEXT NOT NULL, checksum TEXT NOT NULL, found TEXT NOT NULL, PRIMARY KEY (data, checksum)
);
"""


class StoreError(PigmilError, ValueError):
    """A results store that cannot be used."""


@dataclass(frozen=True)
class Cell:
    """One fit and its test: what a row of the store is about.

    Attributes
    ----------
    data, checksum : str
        Name of the data set, and sha256 of its content.
    method : str
        Printed name of the method.
    parameters : str
        Its parameters beside the defaults, as canonical JSON.
    protocol : str
        Folds, repeats, tuning and seed, as canonical JSON.
    repeat, fold : int
        Which split.
    version : str
        Version of the library.
    """

    data: str
    checksum: str
    method: str
    parameters: str
    protocol: str
    repeat: int
    fold: int
    version: str

    @property
    def key(self) -> str:
        """What identifies the result; the name of the data set does not, its content does."""
        parts = {name: value for name, value in asdict(self).items() if name != "data"}
        return hashlib.sha256(canonical(parts).encode()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text.

    Examples
    --------
    >>> import numpy as np
    >>> canonical({"b": np.int64(2), "a": (1, 2)})
    '{"a":[1,2],"b":2}'
    """
    safe = to_json_safe(value, keep_non_finite=True)
    return json.dumps(safe, sort_keys=True, separators=(",", ":"))


class Store:
    """Results of comparisons, kept cell by cell.

    Every finished cell is one committed transaction in write-ahead-log mode: killed at any
    moment, nothing finished is lost and nothing half-finished is kept. Several processes may use
    one store: each claims a cell before it computes it, and a claim whose process is gone is
    free again.

    Parameters
    ----------
    path : path
        The file; made if it is not there.
    read_only : bool, default=False
        Open an existing file and change nothing in it.
    owner : str, optional
        Name under which cells are claimed; that of another open store to share its claims.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = Store(folder.name + "/results.sqlite")
    >>> cell = Cell("ring", "abc", "KDE", "{}", "{}", 0, 0, "0.1.0")
    >>> store.claim(cell.key)
    True
    >>> store.finish(cell, {"accuracy": 1.0})
    >>> store.claim(cell.key)
    False
    >>> [row["metrics"] for row in store.rows()]
    [{'accuracy': 1.0}]
    >>> store.close(); folder.cleanup()
    """

    def __init__(
        self, path: str | os.PathLike[str], *, read_only: bool = False, owner: str | None = None
    ) -> None:
        self.path = Path(path)
        self.owner = owner or uuid.uuid4().hex
        self._host, self._pid = socket.gethostname(), os.getpid()
        # joblib asks for the next cell from threads of its own.
        self._lock = threading.RLock()
        try:
            if read_only:
                self._connection = _open_to_read(self.path)
            else:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = sqlite3.connect(
                    self.path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
                )
        except (sqlite3.Error, OSError) as error:
            raise _unusable(self.path, error) from error
        try:
            self._connection.row_factory = sqlite3.Row
            if not read_only:
                self._prepare()
            self._check_schema()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, sqlite3.Error):
                raise _unusable(self.path, error) from error
            raise
        _OWNERS.add(self.owner)

    def _prepare(self) -> None:
        """Make the tables of a new file; leave any other database as it is."""
        self._connection.execute("PRAGMA synchronous=FULL")
        with self._transaction():
            tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
            if tables == 0:
                self._connection.execute(f"PRAGMA application_id={_APPLICATION}")
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)
                self._connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
        if self._is_ours():
            self._use_log()

    def _use_log(self) -> None:
        """Turn on the write-ahead log.

        Unlike other statements this one does not wait by itself when another process has the file
        open, as happens when two start on a new store together.
        """
        end = time.monotonic() + _WAIT_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def _is_ours(self) -> bool:
        mark = self._connection.execute("PRAGMA application_id").fetchone()[0]
        return bool(mark == _APPLICATION)

    def _check_schema(self) -> None:
        if not self._is_ours():
            raise _unusable(self.path, "it is a database of another program")
        found = self._connection.execute("SELECT value FROM meta WHERE name = 'schema'")
        schema = int(found.fetchone()[0])
        if schema != SCHEMA:
            raise StoreError(
                f"'{self.path}' has schema {schema}, this version of pigmil writes {SCHEMA}; name "
                "a new file."
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def _read(self, query: str) -> list[sqlite3.Row]:
        with self._lock:
            return self._connection.execute(query).fetchall()

    def claim(self, key: str) -> bool:
        """Take a cell for this process; False if it is finished or another one is at it."""
        with self._transaction():
            if self._connection.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone():
                return False
            row = self._connection.execute("SELECT * FROM claims WHERE key = ?", (key,)).fetchone()
            if row is not None and not self._is_free(row):
                return False
            self._connection.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?, ?)",
                (key, self._host, self._pid, self.owner, time.time()),
            )
        return True

    def _is_free(self, claim: sqlite3.Row) -> bool:
        if claim["owner"] == self.owner or time.time() - claim["seen"] > _LEASE:
            return True
        if claim["host"] != self._host:
            return False
        if claim["pid"] == self._pid:
            return claim["owner"] not in _OWNERS
        return not _alive(claim["pid"])

    def alive(self) -> None:
        """Renew the claims of this store, for other processes to see that it is at work."""
        with self._transaction():
            self._connection.execute(
                "UPDATE claims SET seen = ? WHERE owner = ?", (time.time(), self.owner)
            )

    def release(self, keys: Iterable[str]) -> None:
        """Give back cells that will not be computed."""
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM claims WHERE key = ? AND owner = ?",
                [(key, self.owner) for key in keys],
            )

    def finish(self, cell: Cell, metrics: dict[str, Any], error: str | None = None) -> None:
        """Keep the outcome of a cell: its metrics, or the error it ended with."""
        status = "done" if error is None else "failed"
        values = (*asdict(cell).values(), status, canonical(metrics), error, time.time())
        with self._transaction():
            self._connection.execute(
                f"INSERT OR REPLACE INTO cells VALUES (?, {', '.join('?' * len(values))})",
                (cell.key, *values),
            )
            self._connection.execute("DELETE FROM claims WHERE key = ?", (cell.key,))

    def forget_failures(self, keys: Iterable[str]) -> int:
        """Drop those of the cells that failed, to be tried again; returns how many they were."""
        with self._transaction():
            return self._connection.executemany(
                "DELETE FROM cells WHERE status = 'failed' AND key = ?", [(key,) for key in keys]
            ).rowcount

    def finished(self) -> set[str]:
        """Keys of all finished cells."""
        return {row["key"] for row in self._read("SELECT key FROM cells")}

    def rows(self) -> list[dict[str, Any]]:
        """All finished cells as dictionaries, ``metrics`` decoded, in order of their contents."""
        found = self._read(
            "SELECT * FROM cells ORDER BY data, method, parameters, repeat, fold, key"
        )
        return [{**dict(row), "metrics": json.loads(row["metrics"])} for row in found]

    def note_audit(self, checksum: str, data: str, found: Any) -> None:
        """Keep what the audit of a data set found."""
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO audits VALUES (?, ?, ?)",
                (data, checksum, canonical(found)),
            )

    def audits(self) -> list[dict[str, Any]]:
        """What the audits found, a dictionary for each data set."""
        found = self._read("SELECT * FROM audits ORDER BY data")
        return [{**dict(row), "found": json.loads(row["found"])} for row in found]

    def close(self) -> None:
        """Close the file."""
        _OWNERS.discard(self.owner)
        with self._lock:
            self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_to_read(path: Path) -> sqlite3.Connection:
    """Open an existing store without writing, also where its folder cannot be written to."""
    if not path.is_file():
        raise FileNotFoundError("there is no such file")
    address = path.absolute().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, timeout=60.0)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:  # the log's index cannot be made there
        connection.close()
        connection = sqlite3.connect(f"{address}?immutable=1", uri=True)
    return connection


def _unusable(path: Path, reason: object) -> StoreError:
    return StoreError(
        f"'{path}' cannot be used as a results store ({reason}); name a new file or one that an "
        "earlier comparison wrote."
    )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it lives, and is somebody else's
        return True
    return True
