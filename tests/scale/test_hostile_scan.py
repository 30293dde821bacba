"""Hostile files for `Bags.scan`: pipes, Arrow offsets outside, declared sizes, odd labels."""

import os
import subprocess
import sys

import numpy as np
import pytest

from pigmil import scan_bags
from pigmil._core.errors import BagFormatError, BagsError

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
ipc = pytest.importorskip("pyarrow.ipc")
zarr = pytest.importorskip("zarr")


def table(n=12):
    return pa.table(
        {
            "bag": [f"b{row // 3}" for row in range(n)],
            "bag_label": [row // 3 % 2 for row in range(n)],
            "f0": np.arange(n) * 1.0,
        }
    )


@pytest.fixture
def pipe():
    """Make pipes that have a writer and content: a reader without the check fails at once."""
    writers = []

    def make(path):
        os.mkfifo(path)
        writers.append(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        os.write(writers[-1], b"x" * 65536)

    yield make
    for writer in writers:
        os.close(writer)


@pytest.mark.parametrize("suffix", ["h5", "h5ad", "parquet", "arrow", "npy", "zarr"])
def test_a_pipe_in_a_folder_is_refused(suffix, tmp_path, pipe):
    pipe(tmp_path / f"a.{suffix}")
    with pytest.raises(BagFormatError, match=rf"a\.{suffix}: is not a regular file"):
        scan_bags(tmp_path)


def test_a_pipe_in_a_divided_data_set_is_refused(tmp_path, pipe):
    (tmp_path / "site=1").mkdir()
    pipe(tmp_path / "site=1" / "a.parquet")
    with pytest.raises(BagFormatError, match=r"a\.parquet: is not a regular file"):
        scan_bags(tmp_path)


@pytest.mark.parametrize("beside", ["labels", "patch_labels"])
def test_a_pipe_beside_the_features_is_refused(beside, tmp_path, pipe):
    for name in ("features", beside):
        (tmp_path / name).mkdir()
    np.save(tmp_path / "features" / "a.npy", np.ones((3, 2)))
    pipe(tmp_path / beside / "a.npy")
    with pytest.raises(BagFormatError, match=r"a\.npy: is not a regular file"):
        scan_bags(tmp_path)


def test_a_link_to_itself_is_refused(tmp_path):
    (tmp_path / "a.h5").symlink_to("a.h5")
    with pytest.raises(BagFormatError, match="is not a regular file"):
        scan_bags(tmp_path)


def test_an_archive_with_the_name_of_an_array_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.ones((2, 2)))
    (tmp_path / "a.npz").rename(tmp_path / "a.npy")
    with pytest.raises(BagFormatError, match="cannot be read as npy"):
        scan_bags(tmp_path)


SCAN = """
import sys
from pigmil import Bags
from pigmil._core.errors import BagFormatError
try:
    scan_bags(sys.argv[1])
except BagFormatError as error:
    print(error)
"""


@pytest.mark.parametrize("coded", [False, True], ids=["text", "dictionary"])
def test_arrow_offsets_lie_inside(coded, tmp_path):
    """Run in a child: Arrow follows them wherever they point."""
    content = table()
    if coded:
        content = content.set_column(0, "bag", content["bag"].combine_chunks().dictionary_encode())
    path = tmp_path / "a.arrow"
    with ipc.new_file(path, content.schema) as file:
        file.write_table(content)
    assert scan_bags(path).n_bags == 4
    n_texts = 4 if coded else 12  # of two letters each
    offsets = np.arange(0, 2 * n_texts + 1, 2, dtype=np.int32)
    whole = path.read_bytes()
    assert whole.count(offsets.tobytes()) == 1
    wild = np.linspace(0, 2**31 - 1, len(offsets)).astype(np.int32)
    path.write_bytes(whole.replace(offsets.tobytes(), wild.tobytes()))
    found = subprocess.run([sys.executable, "-c", SCAN, path], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "cannot be read as Parquet or Arrow" in found.stdout


def available(monkeypatch, n_bytes):
    monkeypatch.setattr("pigmil.io._defence.available_memory", lambda: n_bytes)


@pytest.mark.parametrize("divided", [False, True], ids=["columns", "folders"])
def test_rows_of_a_few_bytes_are_counted_first(divided, tmp_path, monkeypatch):
    n_rows = 1_000_000
    columns = {"bag": np.zeros(n_rows, np.int8), "f0": np.zeros(n_rows, np.float32)}
    folder = tmp_path / ("bag=1" if divided else "")
    folder.mkdir(exist_ok=True)
    if divided:
        del columns["bag"]
    parquet.write_table(pa.table(columns), folder / "a.parquet")
    assert (folder / "a.parquet").stat().st_size < 10_000
    available(monkeypatch, 1_000_000)
    with pytest.raises(BagFormatError, match=r"needs 0\.0 GB of memory to be read"):
        scan_bags(tmp_path)


def test_a_row_group_is_counted_before_it_is_decoded(tmp_path, monkeypatch):
    parquet.write_table(table(3000), tmp_path / "a.parquet")
    lazy = scan_bags(tmp_path / "a.parquet")
    available(monkeypatch, 3000 * 8)  # the values alone; decoding needs twice as much
    with pytest.raises(BagFormatError, match="of memory to be read"):
        next(iter(lazy[:2].blocks()))


def test_a_declared_bag_is_counted_before_it_is_read(tmp_path, monkeypatch):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("b0", shape=(10_000, 10), chunks=(10, 10), dtype="f8")
    lazy = scan_bags(tmp_path / "a.zarr")
    monkeypatch.setattr("pigmil.bags._lazy.available_memory", lambda: 10_000 * 10 * 8 - 1)
    with pytest.raises(BagFormatError, match="of memory are available"):
        next(iter(lazy.blocks()))


def test_long_texts_are_kept_once(tmp_path):
    """A column of one long text, written without its Arrow type, is read as a dictionary."""
    n_rows = 2000
    columns = {"bag": ["x" * 100_000] * n_rows, "f0": np.zeros(n_rows)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", store_schema=False)
    before = pa.total_allocated_bytes()
    peak = pa.default_memory_pool().max_memory()
    assert scan_bags(tmp_path / "a.parquet").n_bags == 1
    # The copies have 200 MB; the pool remembers the largest peak of the process.
    assert pa.default_memory_pool().max_memory() <= max(peak, before + 50_000_000)


@pytest.mark.parametrize("label", [[1, 2], {"a": 1}])
def test_a_label_is_one_value(label, tmp_path):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w")
    group.create_array("b0", data=np.ones((2, 2))).attrs["bag_label"] = label
    with pytest.raises(BagsError, match="expected one value"):
        scan_bags(tmp_path / "a.zarr")


def test_columns_of_bags_and_labels_are_flat(tmp_path):
    content = table(3).set_column(1, "bag_label", pa.array([{"a": 1}] * 3))
    parquet.write_table(content, tmp_path / "a.parquet")
    with pytest.raises(BagFormatError, match="'bag_label' holds lists or structures"):
        scan_bags(tmp_path / "a.parquet")
