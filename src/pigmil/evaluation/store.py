"""The results store: one SQLite file, one row a finished cell, safe against being killed."""

import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pigmil._core.errors import PigmilError

SCHEMA = 1
_LEASE = 120.0  # seconds after which a claim without a sign of life is up for grabs
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
    key TEXT PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, seen REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS audits (
    checksum TEXT PRIMARY KEY, data TEXT NOT NULL, found TEXT NOT NULL
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
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


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

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._host, self._pid = socket.gethostname(), os.getpid()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            with self._transaction():
                for statement in _TABLES.split(";"):
                    self._connection.execute(statement)
                self._connection.execute(
                    "INSERT OR IGNORE INTO meta VALUES ('schema', ?)", (str(SCHEMA),)
                )
            found = self._connection.execute("SELECT value FROM meta WHERE name = 'schema'")
            schema = int(found.fetchone()[0])
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"'{self.path}' cannot be used as a results store ({error}); name a new file or "
                "one that an earlier comparison wrote."
            ) from error
        if schema != SCHEMA:
            raise StoreError(
                f"'{self.path}' has schema {schema}, this version of pigmil writes {SCHEMA}; name "
                "a new file."
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def claim(self, key: str) -> bool:
        """Take a cell for this process; False if it is finished or another one is at it."""
        with self._transaction():
            if self._connection.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone():
                return False
            row = self._connection.execute("SELECT * FROM claims WHERE key = ?", (key,)).fetchone()
            if row is not None and not self._is_free(row):
                return False
            self._connection.execute(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?, ?)",
                (key, self._host, self._pid, time.time()),
            )
        return True

    def _is_free(self, claim: sqlite3.Row) -> bool:
        if claim["host"] == self._host:
            return claim["pid"] == self._pid or not _alive(claim["pid"])
        return bool(time.time() - claim["seen"] > _LEASE)

    def alive(self) -> None:
        """Renew the claims of this process, for processes on other machines to see."""
        self._connection.execute(
            "UPDATE claims SET seen = ? WHERE host = ? AND pid = ?",
            (time.time(), self._host, self._pid),
        )

    def release(self, keys: Iterable[str]) -> None:
        """Give back cells that will not be computed."""
        with self._transaction():
            self._connection.executemany(
                "DELETE FROM claims WHERE key = ? AND host = ? AND pid = ?",
                [(key, self._host, self._pid) for key in keys],
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

    def forget_failures(self) -> int:
        """Drop failed cells, so that they are tried again; returns how many there were."""
        with self._transaction():
            return self._connection.execute("DELETE FROM cells WHERE status = 'failed'").rowcount

    def finished(self) -> set[str]:
        """Keys of all finished cells."""
        return {row["key"] for row in self._connection.execute("SELECT key FROM cells")}

    def rows(self) -> list[dict[str, Any]]:
        """All finished cells as dictionaries, ``metrics`` decoded, in order of their contents."""
        found = self._connection.execute(
            "SELECT * FROM cells ORDER BY data, method, parameters, repeat, fold, key"
        )
        return [{**dict(row), "metrics": json.loads(row["metrics"])} for row in found]

    def note_audit(self, checksum: str, data: str, found: Any) -> None:
        """Keep what the audit of a data set found."""
        self._connection.execute(
            "INSERT OR REPLACE INTO audits VALUES (?, ?, ?)", (checksum, data, canonical(found))
        )

    def audits(self) -> list[dict[str, Any]]:
        """What the audits found, a dictionary for each data set."""
        found = self._connection.execute("SELECT * FROM audits ORDER BY data")
        return [{**dict(row), "found": json.loads(row["found"])} for row in found]

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it lives, and is somebody else's
        return True
    return True
