"""The results store: one row per cell, refusals, and reading without writing."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pigmil import StoreError
from pigmil.evaluation import Results
from pigmil.evaluation._store import Cell, Store, canonical_json, estimator_identity

CELL = Cell("data", "abc", "KDE", "pigmil.KDE", "{}", '{"folds": 5}', 0, 0, "0.1.0")
TESTED = {"positive": [0, 1], "called": [1, 1], "score": [0.5, 0.7], "group": [0, 1]}
# Many processes write the same cells at once; the first of each is kept.
WRITE = """
import sys
from dataclasses import replace
from pigmil.evaluation._store import Cell, Store
cell = Cell("data", "abc", "KDE", "pigmil.KDE", "{}", "{}", 0, 0, "0.1.0")
with Store(sys.argv[1]) as store:
    print(sum(store.add(replace(cell, fold=fold), {"accuracy": 0.5}) for fold in range(30)))
"""


@pytest.fixture
def path(tmp_path):
    """A store with one cell and one audit."""
    with Store(tmp_path / "r.sqlite") as store:
        store.add(CELL, {"accuracy": 0.5, "warnings": ["w"], "bags": TESTED})
        finding = {"kind": "classes", "severe": True, "message": "m"}
        store.save_audit("abc", "data", [finding])
        assert store.audits() == {"data": [finding]}
    return tmp_path / "r.sqlite"


def change(path, sql, *values):
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, values)


def test_several_processes_create_and_fill_one_store(tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, tmp_path / "r.sqlite"], stdout=subprocess.PIPE
        )
        for _ in range(3)
    ]
    kept = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert sum(kept) == 30
    with Store(tmp_path / "r.sqlite") as store:
        assert [row["fold"] for row in store.rows()] == list(range(30))
    assert os.listdir(tmp_path) == ["r.sqlite"]


def test_the_first_result_is_kept_unless_it_failed(path):
    other = replace(CELL, fold=1)
    with Store(path) as store:
        assert not store.add(CELL, {"accuracy": 0.9})
        assert store.add(other, {}, "an error")
        assert not store.add(other, {}, "another")
        assert store.add(other, {"accuracy": 0.7})
        assert not store.add(other, {}, "a third")
        assert [row["metrics"]["accuracy"] for row in store.rows()] == [0.5, 0.7]


def test_only_the_named_failures_are_forgotten(path):
    failed = [replace(CELL, fold=fold) for fold in (1, 2)]
    with Store(path) as store:
        for cell in failed:
            store.add(cell, {}, "an error")
        store.forget_failures([CELL.key, failed[0].key, "unknown"])
        assert [store.has(cell.key) for cell in (CELL, *failed)] == [True, False, True]


def test_a_long_error_is_stored_without_its_middle(path):
    with Store(path) as store:
        store.add(replace(CELL, fold=1), {}, "ValueError: " + "x" * 10**6 + " (fit, line 3)")
    change(path, "UPDATE cells SET error = ? WHERE fold = 0", "y" * 10**6)
    texts = [row["error"] for row in Results.from_store(path).rows]
    assert [len(text) < 2100 for text in texts] == [True, True]
    assert texts[1].startswith("ValueError: x")
    assert texts[1].endswith("x (fit, line 3)")


def test_the_key_is_the_content_not_the_name():
    assert replace(CELL, data="other", method="other").key == CELL.key
    fields = ("checksum", "estimator", "parameters", "protocol", "version", "repeat", "fold")
    assert len({CELL.key, *(replace(CELL, **{field: 9}).key for field in fields)}) == 8


def test_equal_parameters_give_equal_text():
    assert canonical_json({"k": np.int64(3), "C": np.float64(1.5)}) == '{"C":1.5,"k":3}'
    text = canonical_json({"f": np.mean, "a": [np.array([1, 2])]})
    assert text == '{"a":[[1,2]],"f":"numpy.mean"}'


def test_functions_among_parameters_are_distinguished():
    from sklearn.preprocessing import FunctionTransformer

    def text(function):
        return estimator_identity(FunctionTransformer(function))[1]

    assert text(lambda x: 2 * x) == text(lambda x: 2 * x)
    assert len({text(lambda x: 2 * x), text(lambda x: 3 * x), text(np.log)}) == 3


def write_text(path):
    path.write_text("my notes, not a database, and long enough to be read as a header" * 20)


def change_new(sql):
    """Return a function that writes a new store and changes it."""
    return lambda path: Store(path).close() or change(path, sql)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (write_text, "not a database"),
        (lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(50)), "not a database"),
        (lambda path: change(path, "CREATE TABLE treasure (gold REAL)"), "another program"),
        (change_new("PRAGMA user_version=99"), "schema 99"),
        (change_new("DROP TABLE audits"), "not those of a store"),
        (change_new("CREATE VIEW more AS SELECT 1"), "not those of a store"),
        (change_new("ALTER TABLE cells RENAME COLUMN error TO mistake"), "not those of a store"),
        (
            change_new("CREATE TRIGGER t AFTER INSERT ON cells BEGIN DELETE FROM cells; END"),
            "not those of a store",
        ),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_other_files_are_refused_and_left_alone(tmp_path, spoil, message, read_only):
    path = tmp_path / "r.sqlite"
    spoil(path)
    before = path.read_bytes(), path.stat().st_mtime_ns
    with pytest.raises(StoreError, match=rf"r\.sqlite' cannot be used .*{message}.*; name a new"):
        Store(path, read_only=read_only)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert os.listdir(tmp_path) == ["r.sqlite"]


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_store_is_used_or_refused_in_one_line(path, seed):
    rng = np.random.default_rng(seed)
    content = bytearray(path.read_bytes())
    for place in rng.integers(rng.choice([100, 4096, len(content)]), size=8):
        content[place] = rng.integers(256)
    path.write_bytes(content)
    message = "r.sqlite' cannot be used"
    try:
        Results.from_store(path)
        with Store(path) as store:
            store.add(CELL, {})
    except StoreError as error:
        message = str(error)
    assert "r.sqlite' cannot be used" in message
    assert "\n" not in message


def test_reading_writes_nothing(path):
    before = path.read_bytes()
    assert Results.from_store(path).table().loc["data", "KDE"] == 50.0
    with Store(path, read_only=True) as store, pytest.raises(StoreError, match="readonly"):
        store.add(replace(CELL, fold=3), {})
    assert path.read_bytes() == before
    with pytest.raises(StoreError, match="no such file"):
        Results.from_store(path.parent / "none.sqlite")
    assert os.listdir(path.parent) == ["r.sqlite"]


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
            store.add(CELL, {"accuracy": 0.5})
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


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("method", b"\0" * 100), ("data", b"x"), ("version", b"x"), ("error", b"x"),
        ("status", "other"), ("repeat", "two"), ("fold", b"x"), ("fold", 9e999),
        ("finished", "now"), ("finished", 9e999), ("protocol", "{"), ("protocol", "[" * 3000),
        ("protocol", "[1]"), ("protocol", '{"folds": "many"}'), ("protocol", '{"folds": 0}'),
        ("metrics", "no json"), ("metrics", "[1]"), ("metrics", "null"),
        ("metrics", '{"a":' * 50_000), ("metrics", '{"accuracy": "high"}'),
        ("metrics", '{"accuracy": [1]}'), ("metrics", '{"accuracy": true}'),
        ("metrics", '{"warnings": 3}'), ("metrics", '{"warnings": [3]}'),
        ("metrics", '{"bags": 3}'), ("metrics", '{"bags": {"positive": [1]}}'),
        ("metrics", canonical_json({"bags": {**TESTED, "score": "ab"}})),
        ("metrics", canonical_json({"bags": {**TESTED, "score": [[1], [1, 2]]}})),
        ("metrics", canonical_json({"bags": {**TESTED, "called": [1]}})),
        ("metrics", canonical_json({"bags": {**TESTED, "group": [{}, []]}})),
        ("findings", "["), ("findings", "3"), ("findings", '[{"kind": "x"}]'), ("findings", "[3]"),
    ],
)  # fmt: skip
def test_values_of_another_type_are_one_error_that_names_the_store(path, column, value):
    change(path, f"UPDATE {'audits' if column == 'findings' else 'cells'} SET {column} = ?", value)
    with pytest.raises(StoreError, match=r"r\.sqlite' cannot be used .*a row is damaged"):
        Results.from_store(path)
