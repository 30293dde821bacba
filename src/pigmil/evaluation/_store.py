"""The results store: one SQLite file with one row per finished cell, safe against kill -9."""

import hashlib
import importlib.metadata
import inspect
import json
import math
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np

from pigmil._core import __version__
from pigmil._core.errors import StoreError
from pigmil._core.text import to_json_safe

SCHEMA = 3
PER_BAG = "bags"  # key of the predictions for single bags, among the metrics
_APPLICATION = 0x5047494C  # marks the file as a store, so that no other database is written to
_SQLITE_ERRORS = (sqlite3.Error, UnicodeError, OSError)  # the second where text is damaged
_WAIT_SECONDS = 60.0  # for other processes that write
_MAX_ERROR, _ERROR_END = 2000, 200  # characters of an error that are kept, and of its end
_TABLES = (
    "CREATE TABLE cells (key TEXT PRIMARY KEY, data TEXT, checksum TEXT, method TEXT, "
    "estimator TEXT, parameters TEXT, protocol TEXT, repeat INTEGER, fold INTEGER, version TEXT, "
    "status TEXT, metrics TEXT, error TEXT, finished REAL)",
    "CREATE TABLE audits (data TEXT, checksum TEXT, findings TEXT, PRIMARY KEY (data, checksum))",
)
_FORGET = "DELETE FROM cells WHERE key = ? AND status = 'failed'"
_NOT_TEXT: dict[str, Any] = {"repeat": int, "fold": int, "finished": float, "error": str | None}


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
        identity = asdict(self)
        del identity["data"], identity["method"]
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


def shorten(text: str) -> str:
    """Return a long error without its middle; its end says where it was raised."""
    if len(text) <= _MAX_ERROR:
        return text
    return f"{text[: _MAX_ERROR - _ERROR_END]} … {text[-_ERROR_END:]}"


class Store(AbstractContextManager["Store"]):
    """Results of comparisons, saved cell by cell.

    Every finished cell is one committed transaction: a process that is killed loses no finished
    cell and leaves no half-finished one. Several processes of one machine may write to a store at
    a time, SQLite locks it; of a cell that two of them computed the first result is kept, unless
    it failed and the second did not.

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
    >>> cell = Cell("ring", "abc", "KDE", "pigmil.KDE", "{}", "{}", 0, 0, "0.1.0")
    >>> with Store(folder.name + "/results.sqlite") as store:
    ...     store.add(cell, {"accuracy": 1.0}), store.add(cell, {"accuracy": 0.5})
    ...     [row["metrics"] for row in store.rows()]
    (True, False)
    [{'accuracy': 1.0}]
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        try:
            if not read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            elif not self.path.is_file():
                raise FileNotFoundError("there is no such file")
            # A file that may not be written to is opened to read.
            address = f"{self.path.absolute().as_uri()}?mode={'rw' if read_only else 'rwc'}"
            self._connection = sqlite3.connect(
                address, uri=True, timeout=_WAIT_SECONDS, isolation_level=None
            )
        except _SQLITE_ERRORS as error:
            raise self._unusable(error) from error
        self._connection.row_factory = sqlite3.Row
        try:
            with self._transaction("DEFERRED" if read_only else "IMMEDIATE") as connection:
                self._open(connection, read_only)
            self._connection.execute(
                "PRAGMA query_only=ON" if read_only else "PRAGMA synchronous=FULL"
            )
        except BaseException:
            self._connection.close()
            raise

    def _open(self, connection: sqlite3.Connection, read_only: bool) -> None:
        """Create the tables of a new file; raise if the file is not a store of this schema."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        found = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        tables = sorted(row["sql"] for row in found)
        if not (read_only or application or tables):
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
        elif application != _APPLICATION:
            raise self._unusable("it is not a store but a database of another program")
        elif schema != SCHEMA:
            raise self._unusable(f"it has schema {schema}, this version of pigmil writes {SCHEMA}")
        elif tables != sorted(_TABLES):
            raise self._unusable("its tables are not those of a store")
        if not read_only:  # fails where the file cannot be written, before any work is done
            connection.execute(f"PRAGMA user_version={SCHEMA}")

    @contextmanager
    def _transaction(self, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        try:
            with self._connection as connection:  # commits, or rolls back after an error
                connection.execute(f"BEGIN {kind}")
                yield connection
        except _SQLITE_ERRORS as error:
            raise self._unusable(error) from error

    def _unusable(self, reason: object) -> StoreError:
        detail = " ".join(str(reason).split())[:200]
        return StoreError(
            f"'{self.path}' cannot be used as a results store ({detail}); name a new file or one "
            "that an earlier comparison wrote.",
            parameter="store",
        )

    def add(self, cell: Cell, metrics: dict[str, Any], error: str | None = None) -> bool:
        """Save the metrics of a cell, or the error it failed with; return whether it was kept."""
        status = "done" if error is None else "failed"
        row = (cell.key, *asdict(cell).values(), status, canonical_json(metrics),
               None if error is None else shorten(error), time.time())  # fmt: skip
        marks = ", ".join("?" * len(row))
        with self._transaction() as connection:
            if error is None:
                connection.execute(_FORGET, (cell.key,))
            added = connection.execute(f"INSERT OR IGNORE INTO cells VALUES ({marks})", row)
            return added.rowcount == 1

    def has(self, key: str) -> bool:
        """Return whether a cell is finished, or failed."""
        with self._transaction("DEFERRED") as connection:
            return bool(connection.execute("SELECT 1 FROM cells WHERE key = ?", (key,)).fetchone())

    def forget_failures(self, keys: Iterable[str]) -> None:
        """Delete those of the cells that failed, to compute them again."""
        with self._transaction() as connection:
            connection.executemany(_FORGET, [(key,) for key in keys])

    def rows(self) -> list[dict[str, Any]]:
        """Return all finished cells as dictionaries, in a fixed order, with decoded metrics."""
        return self._decoded("cells ORDER BY data, method, parameters, repeat, fold, key", _cell_of)

    def _decoded(self, source: str, decode: Callable[[sqlite3.Row], Any]) -> list[Any]:
        with self._transaction("DEFERRED") as connection:
            rows = connection.execute(f"SELECT * FROM {source}").fetchall()
        try:
            return [decode(row) for row in rows]
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise self._unusable("a row is damaged") from error

    def save_audit(self, checksum: str, data: str, findings: Any) -> None:
        """Save the findings of the audit of a data set."""
        row = (data, checksum, canonical_json(findings))
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO audits VALUES (?, ?, ?)", row)

    def audits(self) -> dict[str, list[dict[str, Any]]]:
        """Return the findings of all audits, by data set."""
        return dict(self._decoded("audits ORDER BY data", _audit_of))

    def close(self, *_: object) -> None:
        """Close the file."""
        self._connection.close()

    __exit__ = close


def _cell_of(row: sqlite3.Row) -> dict[str, Any]:
    """Return a row with its metrics; raise if a value has another type: SQLite stores any."""
    values = dict(row)
    values["metrics"] = metrics = json.loads(row["metrics"])
    tested = metrics.get(PER_BAG, {"positive": [], "called": [], "score": None, "group": []})
    numbers = [value for name, value in metrics.items() if name not in ("warnings", PER_BAG)]
    shapes = {len(tested[name] or tested["group"]) for name in ("positive", "called", "score")}
    np.array([*tested["positive"], *tested["called"]], dtype=np.int64)
    np.array(tested["score"] or 0.0, dtype=np.float64)
    if not (
        all(isinstance(row[name], _NOT_TEXT.get(name, str)) for name in values)
        and all(type(value) in (int, float) for value in numbers)
        and all(type(text) is str for text in metrics.get("warnings", []))
        and all(type(unit) in (int, str) for unit in tested["group"])
        and shapes == {len(tested["group"])}
        and math.isfinite(row["finished"])
        and row["status"] in ("done", "failed")
        and json.loads(row["protocol"]).get("folds", 2) >= 2
    ):
        raise ValueError("a value has another type")
    return {**values, "error": row["error"] and shorten(row["error"])}


def _audit_of(row: sqlite3.Row) -> tuple[str, Any]:
    findings = json.loads(row["findings"])
    if not all({"kind", "severe", "message"} <= set(finding) for finding in findings):
        raise ValueError("a finding lacks its message")
    return str(row["data"]), findings


def estimator_identity(estimator: Any) -> tuple[str, str, str]:
    """Return import path of the class, canonical parameters, and versions of what is inside.

    Equal estimators have equal identities in every process. Nested estimators, as in pipelines
    and searches, are described in full.

    Parameters
    ----------
    estimator : estimator
        Anything with ``get_params``.

    Returns
    -------
    path, parameters, version : str
        ``version`` names every package that a class comes from; code that belongs to no
        installed package is identified by a hash of its source instead.

    Examples
    --------
    >>> from pigmil import MILES
    >>> estimator_identity(MILES(C=2.0))[0]
    'pigmil.estimators.miles.MILES'
    """
    packages: dict[str, str] = {"pigmil": __version__}
    described = _describe(estimator, packages)
    version = ", ".join(f"{name} {packages[name]}" for name in sorted(packages))
    return described["class"], canonical_json(described["parameters"]), version


def _describe(value: Any, packages: dict[str, str]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object and value.size <= 1000:
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _describe(item, packages) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(item, packages) for item in value]
    is_code = isinstance(value, type) or inspect.isroutine(value)
    thing = value if is_code else type(value)
    path = f"{thing.__module__}.{thing.__qualname__}"
    _note_version(thing, path, packages)
    if is_code:
        code = getattr(value, "__code__", None)  # two lambdas have one name
        if code is None:
            return path
        constants = [item for item in code.co_consts if not inspect.iscode(item)]
        return [path, joblib.hash((code.co_code, code.co_names, repr(constants)))]
    if hasattr(value, "get_params"):
        parameters = value.get_params(deep=False)
        described = {name: _describe(item, packages) for name, item in parameters.items()}
        return {"class": path, "parameters": described}
    return [path, joblib.hash(value)]


def _note_version(thing: Any, path: str, packages: dict[str, str]) -> None:
    package = str(thing.__module__).partition(".")[0]
    if package in packages or package in sys.stdlib_module_names:
        return
    version = _installed_version(package)
    if version is not None:
        packages[package] = version
    elif inspect.isclass(thing):
        packages[path] = "source unknown"
        with suppress(OSError, TypeError):  # typed into an interpreter
            source = inspect.getsource(thing).encode()
            packages[path] = f"source {hashlib.sha256(source).hexdigest()[:16]}"


@cache
def _installed_version(package: str) -> str | None:
    names = importlib.metadata.packages_distributions().get(package)
    return importlib.metadata.version(names[0]) if names else None
