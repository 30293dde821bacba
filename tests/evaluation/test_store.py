"""The results store: claims, refusals, and reading without writing."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pigmil.evaluation import Results
from pigmil.evaluation._store import Cell, Store, StoreError, canonical_json

CELL = Cell("data", "abc", "KDE", "pigmil.KDE", "{}", "{}", 0, 0, "0.1.0")
CLAIM = """
import sys
from pigmil.evaluation._store import Store
store = Store(sys.argv[1])
print(store.claim("key"), flush=True)
sys.stdin.readline()
"""


def claim_elsewhere(path):
    process = subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "True\n"
    return process


def test_claim_lasts_as_long_as_its_process(tmp_path, monkeypatch):
    path = tmp_path / "r.sqlite"
    process = claim_elsewhere(path)
    monkeypatch.setattr("time.time", lambda: 1e12)  # no clock has a say in it
    with Store(path) as store:
        assert not store.claim("key")
        process.kill()
        process.communicate()
        assert store.claim("key")
        assert [path.name for path in tmp_path.glob("*.lock")] == [f".r.sqlite.{store.owner}.lock"]
    assert os.listdir(tmp_path) == ["r.sqlite"]


def test_two_stores_of_one_process_do_not_take_each_others_cells(tmp_path):
    with Store(tmp_path / "r.sqlite") as store:
        with Store(tmp_path / "r.sqlite") as other:
            assert other.claim("key")
            assert not store.claim("key")
        assert store.claim("key")  # the other is closed, its claim is nobody's


def test_released_cells_can_be_claimed(tmp_path):
    with Store(tmp_path / "r.sqlite") as store, Store(tmp_path / "r.sqlite") as other:
        store.claim("key")
        other.release(["key"])  # not its own
        assert not other.claim("key")
        store.release(["key"])
        assert other.claim("key")


def test_one_store_serves_many_threads(tmp_path):
    with Store(tmp_path / "r.sqlite") as store:

        def claim(number):
            return store.claim(str(number % 10))

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(claim, range(10)))

        def finish(number):
            store.finish(Cell("data", "abc", "KDE", str(number), "{}", "{}", 0, 0, "0"), {"a": 1.0})

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(finish, range(40)))
        assert len(store.rows()) == 40


def test_many_may_open_a_new_store_at_once(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        stores = list(threads.map(lambda _: Store(tmp_path / "r.sqlite"), range(16)))
    for store in stores:
        assert store.rows() == []
        store.close()


def test_only_the_named_failures_are_forgotten(tmp_path):
    other = Cell("data", "abc", "DD", "pigmil.DD", "{}", "{}", 0, 0, "0.1.0")
    with Store(tmp_path / "r.sqlite") as store:
        store.finish(CELL, {}, "an error")
        store.finish(other, {}, "another")
        assert store.forget_failures([CELL.key, "unknown"]) == 1
        assert store.finished() == {other.key}


def test_the_key_is_the_content_not_the_name():
    assert Cell(**{**vars(CELL), "data": "other", "method": "other"}).key == CELL.key
    for field, value in {"checksum": "x", "estimator": "x", "parameters": "x", "protocol": "x",
                         "repeat": 1, "fold": 1, "version": "x"}.items():  # fmt: skip
        assert Cell(**{**vars(CELL), field: value}).key != CELL.key, field


def test_equal_parameters_give_equal_text():
    assert canonical_json({"C": np.float64(1.5), "k": np.int64(3)}) == canonical_json(
        {"k": 3, "C": 1.5}
    )
    assert canonical_json({"f": np.mean}) == '{"f":"numpy.mean"}'
    assert canonical_json([np.array([1, 2])]) == "[[1,2]]"


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes, not a database, and long enough to be read as a header" * 20)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"notes\.txt' cannot be used .* name a new file"):
        Store(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE treasure (gold REAL)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreError, match="another program"):
            Store(path, read_only=read_only)
    assert path.read_bytes() == before


def damage(path, *statements):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("PRAGMA user_version=99", "has schema 99, this version of pigmil writes 2; name a new"),
        ("PRAGMA user_version=0", "has schema 1, this version"),
        ("DROP TABLE claims", "table 'claims' is missing or damaged"),
        ("CREATE VIEW more AS SELECT 1", "it holds 'more' too"),
        (
            "CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM cells; END",
            "it holds 't' too",
        ),
        ("ALTER TABLE cells RENAME COLUMN error TO mistake", "table 'cells' is missing or damaged"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_unknown_schema_is_refused_and_left_alone(tmp_path, statement, message, read_only):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.finish(CELL, {"accuracy": 0.5})
    damage(path, statement)
    before = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(StoreError, match=message):
        Store(path, read_only=read_only)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    if not read_only:
        assert os.listdir(tmp_path) == ["r.sqlite"]


def test_damaged_rows_and_pages_are_named(tmp_path):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.finish(CELL, {"accuracy": 0.5})
        store.save_audit("abc", "data", [])
    damage(path, "UPDATE cells SET metrics = 'no json'")
    with pytest.raises(StoreError, match="the metrics of a row are damaged: Expecting value"):
        Results.from_store(path)
    damage(path, "UPDATE audits SET findings = '['")
    with Store(path) as store, pytest.raises(StoreError, match="the findings of a row are damaged"):
        store.audits()
    content = path.read_bytes()
    path.write_bytes(content[:4096] + bytes(len(content) - 4096))
    with Store(path) as store, pytest.raises(StoreError, match="malformed"):
        store.rows()


def test_bytes_of_a_store_that_are_not_text(tmp_path):
    path = tmp_path / "r.sqlite"
    Store(path).close()
    content = path.read_bytes().replace(b"CREATE TABLE claims", b"CREATE TAB\xb6E claims")
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be used as a results store") as caught:
        Store(path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_store_is_used_or_refused_in_one_line_and_left_alone(tmp_path, seed):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.finish(CELL, {"accuracy": 0.5})
    rng = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    for place in rng.integers(rng.choice([100, 4096, len(content)]), size=8):
        content[place] = rng.integers(256)
    path.write_bytes(content)
    try:
        store = Store(path)
    except StoreError as error:
        message = str(error)
        assert "\n" not in message
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["r.sqlite"]
    else:
        with store, contextlib.suppress(StoreError):
            store.rows()


def test_empty_file_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "r.sqlite"
    path.touch()
    with pytest.raises(StoreError, match="it is not a database"):
        Store(path)
    assert path.read_bytes() == b""


def test_reading_writes_nothing(tmp_path):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.finish(CELL, {"accuracy": 0.5})
    before = path.read_bytes()
    assert Results.from_store(path).table().loc["data", "KDE"] == 50.0
    with Store(path, read_only=True) as store, pytest.raises(StoreError, match="readonly"):
        store.finish(CELL, {})
    assert path.read_bytes() == before


def test_a_missing_file_is_not_made_by_reading(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        Results.from_store(tmp_path / "none.sqlite")
    assert os.listdir(tmp_path) == []


@pytest.fixture
def as_nobody():
    """File permissions do not bind the superuser, so become somebody they bind."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    yield
    os.seteuid(0)


@pytest.fixture
def locked():
    # Not below pytest's folder, which only its owner may enter.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "r.sqlite"
        with Store(path) as store:
            store.finish(CELL, {"accuracy": 0.5})
        path.chmod(0o444)
        folder.chmod(0o555)
        yield path
        folder.chmod(0o755)


def test_a_store_that_may_not_be_written_can_be_read(locked, as_nobody):
    assert Results.from_store(locked).table().loc["data", "KDE"] == 50.0
    with pytest.raises(StoreError, match=r"r\.sqlite' cannot be used"):
        Store(locked)
    with pytest.raises(StoreError, match=r"new\.sqlite' cannot be used"):
        Store(locked.parent / "new.sqlite")


def changed(path, sql, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, values)


@pytest.mark.parametrize("owner", ["../../x", "a/b", "x" * 5000, "\0", b"ab", 5, ""])
def test_claims_of_owners_that_no_store_has_are_taken_over(tmp_path, owner):
    """The name of an owner becomes part of a path."""
    path = tmp_path / "r.sqlite"
    Store(path).close()
    changed(path, "INSERT INTO claims VALUES (?, ?)", CELL.key, owner)
    with Store(path) as store:
        assert store.claim(CELL.key)
    assert os.listdir(tmp_path) == ["r.sqlite"]


@pytest.mark.parametrize("metrics", ["[1]", "null", "[" * 100_000, '{"a":' * 50_000])
def test_metrics_that_no_store_has_are_refused(tmp_path, metrics):
    path = tmp_path / "r.sqlite"
    with Store(path) as store:
        store.finish(CELL, {"accuracy": 0.5})
    changed(path, "UPDATE cells SET metrics = ?", metrics)
    with pytest.raises(StoreError, match="the metrics of a row are damaged"):
        Results.from_store(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("method", b"\0" * 100), ("data", b"x"), ("checksum", b"x"), ("estimator", b"x"),
        ("parameters", b"x"), ("version", b"x"), ("error", b"x"), ("repeat", "two"), ("fold", b"x"),
        ("fold", 9e999), ("finished", "now"), ("finished", b"x"), ("finished", 9e999),
        ("protocol", "{"), ("protocol", "[" * 3000), ("protocol", "[1]"),
        ("protocol", '{"folds": "many"}'), ("protocol", '{"folds": 0}'),
    ],
)  # fmt: skip
def test_values_of_another_type_are_refused(column, value, tmp_path):
    path = tmp_path / "results.sqlite"
    with Store(path) as store:
        store.finish(Cell("d", "c", "KDE", "pigmil.KDE", "{}", '{"folds": 5}', 0, 0, "0.1"), {})
        assert len(store.rows()) == 1
    changed(path, f"UPDATE cells SET {column} = ?", value)
    with pytest.raises(StoreError, match=f"the {column} of a row is damaged"):
        Results.from_store(path)
