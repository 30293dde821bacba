"""Small files that stand for much memory: refused before they are unpacked, with both amounts."""

import tracemalloc

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io

from pigmil import Bags, read_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import _common as common

COUNT = 2_000_000  # values, of 8 bytes each
AVAILABLE = 20_000_000  # enough for the values alone, not for the copies of them


def npz(path):
    np.savez_compressed(path, instances=np.zeros((COUNT, 1)), offsets=[0, COUNT])


def npz_small_numbers(path):
    np.savez_compressed(path, instances=np.zeros((COUNT, 1), dtype="u1"), offsets=[0, COUNT])


def matlab(path):
    rows = np.zeros((1, COUNT))
    scipy.io.savemat(
        path, {"features": rows.T, "bag_ids": rows, "labels": rows}, do_compression=True
    )


def matlab_small_numbers(path):
    rows = np.zeros((1, COUNT), dtype="u1")
    scipy.io.savemat(
        path, {"features": rows.T, "bag_ids": rows, "labels": rows}, do_compression=True
    )


def hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("a", shape=(COUNT, 1), dtype="f8", fillvalue=1.0, chunks=(1000, 1))


def hdf5_info(path):
    with h5py.File(path, "w") as file:
        file["features"] = np.ones((1000, 1))
        file.create_dataset("coords", shape=(1000, COUNT), dtype="i1", chunks=(1, 1000))


def matlab_references(path):
    """Cells that all refer to one array, as MATLAB 7.3 stores them; each alone fits."""
    with h5py.File(path, "w", userblock_size=512) as file:
        one = file.create_dataset("#refs#/a", shape=(1, COUNT // 100), dtype="f8", fillvalue=1.0)
        one.attrs["MATLAB_class"] = np.bytes_("double")
        cells = np.full((1, 100), one.ref, dtype=h5py.ref_dtype)
        file.create_dataset("bags", data=cells).attrs["MATLAB_class"] = np.bytes_("cell")
        labels = file.create_dataset("labels", data=np.ones((1, 100)))
        labels.attrs["MATLAB_class"] = np.bytes_("double")
    content = bytearray(path.read_bytes())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM"
    path.write_bytes(content)


def parquet(path):
    table = pa.table({"bag": pa.array(np.zeros(COUNT, dtype=int)), "x": pa.array(np.zeros(COUNT))})
    pyarrow.parquet.write_table(table, path)


def parquet_lists(path):
    ends = pa.array([0, COUNT], type=pa.int32())
    lists = pa.ListArray.from_arrays(ends, pa.array(np.zeros(COUNT)))
    pyarrow.parquet.write_table(pa.table({"bag": ["a"], "x": lists}), path)


BOMBS = {
    npz: ".npz", npz_small_numbers: ".npz", matlab: ".mat", matlab_small_numbers: ".mat",
    matlab_references: ".mat", hdf5: ".h5", hdf5_info: ".h5", parquet: ".parquet",
    parquet_lists: ".parquet",
}  # fmt: skip


@pytest.mark.parametrize("write", BOMBS, ids=lambda write: write.__name__)
def test_bombs(write, tmp_path, monkeypatch):
    path = tmp_path / f"bomb{BOMBS[write]}"
    write(path)
    assert path.stat().st_size < 60_000
    monkeypatch.setattr(common, "available_memory", lambda: AVAILABLE)
    with pytest.raises(BagFormatError) as caught:
        read_bags(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "GB of memory to be read, and 0.0 GB are available" in message


def peak(path, **options):
    """Most memory that Python and NumPy held while a file was read."""
    tracemalloc.start()
    try:
        read_bags(path, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_one_long_id_costs_its_own_length(tmp_path):
    path = tmp_path / "bags.csv"
    rows = [f"{'x' * 500_000},1,0"] + [f"b{at},1,0" for at in range(400)]
    path.write_text("bag,x,label\n" + "\n".join(rows) + "\n")
    assert peak(path) < 100e6  # 2.5 GB when every id had the width of the longest


def test_one_long_name_of_an_instance_costs_its_own_length(tmp_path):
    path = tmp_path / "bags.txt"
    rows = [f"b{at} 1 i{at} 1 0.5" for at in range(2_000)] + [f"c 1 {'x' * 600_000} 1 0.5"]
    path.write_text("\n".join(rows) + "\n")
    assert peak(path, format="nju") < 100e6  # 4.8 GB when every name had the width of the longest


@pytest.mark.parametrize("read", [read_bags, lambda *a, **b: Bags.scan(*a, **b).load()],
                         ids=["read", "scan"])  # fmt: skip
def test_one_long_text_of_a_dictionary_costs_its_own_length(read, tmp_path):
    path, count = tmp_path / "bags.parquet", 600
    texts = pa.array(["a", "x" * 200_000, "a"])
    codes = pa.array(np.arange(count) % 3, type=pa.int32(), mask=np.arange(count) == 5)
    column = pa.DictionaryArray.from_arrays(codes, texts)
    bag = pa.DictionaryArray.from_arrays(pa.array([1] * count), texts)
    pyarrow.parquet.write_table(
        pa.table({"bag": bag, "x": np.arange(count, dtype=float), "note": column}), path
    )
    usual, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    tracemalloc.start()
    pa.set_memory_pool(counted)
    try:
        bags = read(path, info=["note"])
        peak = tracemalloc.get_traced_memory()[1] + counted.max_memory()
    finally:
        pa.set_memory_pool(usual)
        tracemalloc.stop()
    assert peak < 50e6  # the texts of all rows have 160 MB
    assert [len(one) for one in bags.ids] == [200_000]
    notes = bags.instance_info["note"].tolist()
    assert [len(one or "") for one in notes[:6]] == [1, 200_000, 1, 1, 200_000, 0]


def test_categories_of_pandas_are_read(tmp_path):
    path = tmp_path / "bags.parquet"
    kinds = pd.Categorical(["w", "u", None, "u"], categories=["u", "v", "w"])
    frame = pd.DataFrame({"bag": pd.Categorical(["q", "p", "p", "p"]), "x": [1.0, 2, 3, 4]})
    frame.assign(kind=kinds).to_parquet(path)
    bags = read_bags(path, info=["kind"])
    assert bags.ids.tolist() == ["q", "p"]
    assert bags.instance_info["kind"].tolist() == ["w", "u", "", "u"]


def test_what_is_available_is_reported_where_the_system_says():
    from pigmil._core.memory import available_memory

    amount = available_memory()
    assert amount is None or 1 << 20 < amount < 1 << 50
