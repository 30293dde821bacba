"""Long tables: roles of columns, problems and their place, tables larger than memory."""

import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from pigmil import read_bags
from pigmil._core.errors import BagFormatError, MissingDependencyError
from pigmil.io import _common as common

GOOD = "bag,bag_label,a,b\nx,1,0.5,1\nx,1,1.5,2\ny,0,2.5,3\n"


def table(tmp_path, text, name="bags.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_by_their_usual_names(tmp_path):
    bags = read_bags(table(tmp_path, GOOD))
    assert bags.ids.tolist() == ["x", "y"]
    assert bags.y.tolist() == [1, 0]
    assert bags.feature_names == ("a", "b")
    np.testing.assert_array_equal(bags.instances, [[0.5, 1], [1.5, 2], [2.5, 3]])


@pytest.mark.parametrize("label", ["label", "y"])
def test_other_usual_names_of_labels(tmp_path, label):
    bags = read_bags(table(tmp_path, GOOD.replace("bag_label", label)))
    assert bags.y.tolist() == [1, 0]
    without = read_bags(table(tmp_path, GOOD.replace("bag_label", label)), label=False)
    assert without.y is None
    assert without.n_features == 3


@pytest.mark.parametrize(("bag", "label"), [("molecule", "musk"), (0, 1), (-4, "musk")])
def test_columns_by_name_or_position(tmp_path, bag, label):
    text = GOOD.replace("bag,bag_label", "molecule,musk")
    bags = read_bags(table(tmp_path, text), bag=bag, label=label)
    assert bags.y.tolist() == [1, 0]
    assert bags.feature_names == ("a", "b")


def test_no_header(tmp_path):
    path = table(tmp_path, GOOD.partition("\n")[2])
    bags = read_bags(path, bag=0, label=1, header=False)
    assert bags.ids.tolist() == ["x", "y"]
    assert bags.feature_names is None


def test_semicolons_and_utf16(tmp_path):
    text = GOOD.replace(",", ";").replace("x", "é")
    bags = read_bags(table(tmp_path, text.encode("latin-1")), delimiter=";", encoding="latin-1")
    assert bags.ids.tolist() == ["é", "y"]
    bags = read_bags(table(tmp_path, GOOD.encode("utf-16")), encoding="utf-16")
    assert bags.ids.tolist() == ["x", "y"]


def test_rows_of_a_bag_need_not_be_neighbours(tmp_path):
    rows = "bag,bag_label,instance_label,a\nx,1,0,1\ny,0,0,2\nx,1,1,3\nz,1,1,4\ny,0,0,5\n"
    for memory_map in (None, True, tmp_path / "mapped.npy"):
        bags = read_bags(table(tmp_path, rows), memory_map=memory_map)
        assert bags.ids.tolist() == ["x", "y", "z"]
        assert bags.y.tolist() == [1, 0, 1]
        assert bags.sizes.tolist() == [2, 2, 1]
        assert bags.instances.ravel().tolist() == [1, 3, 2, 5, 4]
        assert bags.instance_labels.tolist() == [0, 1, 0, 0, 1]
        assert bags.instance_info["row"].tolist() == [0, 2, 1, 4, 3]


PROBLEMS = {
    "no bag column": (GOOD.replace("bag,", "molecule,", 1), r"no column 'bag'.*'molecule', "),
    "missing value": (GOOD.replace("1.5", ""), r"row 3, feature 0 \('a'\): the value is missing"),
    "infinite": (GOOD.replace("1.5", "inf"), r"row 3, feature 0 \('a'\): the value is inf"),
    "word": (GOOD.replace("1.5", "oops"), r"row 3, column 'a': 'oops' is not a number"),
    "short row": (GOOD.replace("x,1,1.5,2", "x,1,1.5"), r"row 3: expected 4 values, got 3"),
    "long row": (GOOD.replace("1.5,2", "1.5,2,9"), r"row 3: expected 4 values, got 5"),
    "no bag id": (GOOD.replace("y,0", ",0"), r"row 4: there is no bag id"),
    "no label": (GOOD.replace("y,0", "y,"), r"row 4: the bag 'y' has no label"),
    "labels vary": (GOOD.replace("x,1,1.5", "x,0,1.5"), r"row 3: the bag 'x' is labelled '0' here"),
    "header only": ("bag,bag_label,a\n", r"holds no instances"),
    "no features": ("bag,bag_label\nx,1\n", r"no feature columns"),
    "same names": ("bag,a,a\nx,1,2\n", r"columns of the same name: 'a'"),
    "semicolons": (GOOD.replace(",", ";"), r"try delimiter=';'"),
    "no header": ("1,2,3\n1,2,3\n", r"header=False"),
    "quote not closed": (GOOD + '"z,1,2,3\n', r"row"),
    "latin-1": (GOOD.replace("y,", "é,").encode("latin-1"), r"row 4.*not valid UTF-8"),
    "utf-16": (GOOD.encode("utf-16"), r"encoding='utf-16'"),
    "zeros": (b"\0" * 50, r"not text|zero"),
    "contradiction": (
        "bag,bag_label,instance_label,a\nx,1,1,2\ny,0,1,3\ny,0,0,3\n",
        r"'y'.* is negative but 1 of its instances",
    ),
    "unknown instance labels of text": (
        "bag,bag_label,instance_label,a\nx,p,p,2\nx,p,,3\n",
        r"instance labels that are text, and some are missing",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_are_reported_with_their_place(tmp_path, problem):
    text, message = PROBLEMS[problem]
    path = table(tmp_path, text)
    with pytest.raises(BagFormatError, match=rf"(?s)bags\.csv.*{message}"):
        read_bags(path)


def test_all_problems_at_once(tmp_path):
    text = "bag,bag_label,a\nx,1,nan\nx,0,1\n,1,1\n"
    with pytest.raises(BagFormatError) as caught:
        read_bags(table(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 4  # the file, and three problems


def test_one_column_one_role(tmp_path):
    with pytest.raises(BagFormatError, match="given two roles"):
        read_bags(table(tmp_path, GOOD), bag="bag", label="bag")
    with pytest.raises(BagFormatError, match="no column for label='musk'"):
        read_bags(table(tmp_path, GOOD), label="musk")


def test_labels_written_in_two_ways_are_one(tmp_path):
    bags = read_bags(table(tmp_path, GOOD.replace("x,1,1.5", "x,1.0,1.5")))
    assert bags.y.tolist() == [1.0, 0.0]


def test_labels_as_asked_for(tmp_path):
    path = table(tmp_path, GOOD)
    assert read_bags(path, labels="signs").y.tolist() == [1, -1]
    assert read_bags(path, labels=str).y.tolist() == ["1", "0"]
    assert read_bags(path, labels={1: "musk", 0: "other"}).y.tolist() == ["musk", "other"]
    assert read_bags(path, bag_labels={"x": 5, "y": 6}).y.tolist() == [5, 6]
    with pytest.raises(BagFormatError, match="does not map: '0'"):
        read_bags(path, labels={1: "musk"})
    with pytest.raises(BagFormatError, match="no label for 1 bag: 'y'"):
        read_bags(path, bag_labels={"x": 5})
    with pytest.raises(BagFormatError, match="labels='plus'"):
        read_bags(path, labels="plus")


def test_unlabelled_table(tmp_path):
    assert read_bags(table(tmp_path, GOOD.replace("x,1", "x,").replace("y,0", "y,"))).y is None


def test_long_ids_and_labels(tmp_path):
    """One long id must not cost its length for every bag; a long label is no label."""
    rows = "".join(f"b{at},{at % 2},1\n" for at in range(400))
    path = table(tmp_path, f"bag,bag_label,a\n{'x' * 500_000},1,2\n{rows}")
    tracemalloc.start()
    try:
        bags = read_bags(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(bags.ids[0]) == 500_000
    assert peak < 100e6  # fixed-width text would take 800 MB; a slab for the rows takes 40
    path = table(tmp_path, f"bag,bag_label,a\nx,{'y' * 2000},2\nz,0,1\n")
    with pytest.raises(BagFormatError, match="has a label of 2000 characters"):
        read_bags(path)


def test_ids_that_look_like_numbers(tmp_path):
    path = table(tmp_path, "bag,a\n1,0\n2,0\n")
    assert read_bags(path).ids.tolist() == [1, 2]
    assert read_bags(path, ids=str).ids.tolist() == ["1", "2"]
    assert read_bags(table(tmp_path, "bag,a\n01,0\n2,0\n")).ids.tolist() == ["01", "2"]
    with pytest.raises(BagFormatError, match="ids that are not int"):
        read_bags(table(tmp_path, "bag,a\nx,0\n"), ids=int)


MEASURE = """
import sys
from pigmil import read_bags

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))

small, big, target = sys.argv[1:4]
read_bags(small, memory_map=target)
before = peak()
bags = read_bags(big, memory_map=target)
print((peak() - before) * 1024, bags.n_bags, bags.n_instances, float(bags[7][1, 3]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_larger_than_memory(tmp_path, suffix):
    """Four times the rows take no more memory, although rows of bags lie far from each other."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    values = np.random.default_rng(0).normal(size=(160_000, 60)).round(3)
    n_bags = 800
    for name, n_rows in (("small", 40_000), ("big", 160_000)):
        bag = np.arange(n_rows) % n_bags
        columns = {"bag": bag, "bag_label": bag % 2}
        table = pa.table(columns | {f"f{at}": values[:n_rows, at] for at in range(60)})
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pyarrow.parquet.write_table(table, path, row_group_size=10_000)
    target = tmp_path / "mapped.npy"
    files = [str(tmp_path / f"small.{suffix}"), str(tmp_path / f"big.{suffix}"), str(target)]
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, *files], capture_output=True, text=True, check=True
    )
    grown, found_bags, found_instances, value = run.stdout.split()
    assert (int(found_bags), int(found_instances)) == (n_bags, 160_000)
    assert float(value) == values[7 + n_bags, 3]
    np.testing.assert_array_equal(np.load(target, mmap_mode="r")[:200], values[::n_bags])
    more = values[40_000:].nbytes
    assert int(grown) < more * 2 / 3, f"{int(grown) / 1e6:.0f} MB more for {more / 1e6:.0f} MB"


def test_mapped_file_is_whole_or_absent(tmp_path):
    target = tmp_path / "mapped.npy"
    with pytest.raises(BagFormatError, match="oops"):
        read_bags(table(tmp_path, GOOD.replace("2.5", "oops")), memory_map=target)
    assert [one.name for one in tmp_path.iterdir()] == ["bags.csv"]
    bags = read_bags(table(tmp_path, GOOD), memory_map=target, dtype="float32")
    np.testing.assert_array_equal(np.load(target), bags.instances)
    assert bags.dtype == np.float32
    with pytest.raises(BagFormatError, match="names a folder that does not exist"):
        read_bags(table(tmp_path, GOOD), memory_map=tmp_path / "no" / "mapped.npy")


def test_no_room(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "available_memory", lambda: 10)
    with pytest.raises(BagFormatError, match=r"memory_map='some/path\.npy'"):
        read_bags(table(tmp_path, GOOD))
    usage = type("Usage", (), {"free": 1})
    monkeypatch.setattr(common.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(BagFormatError, match="another disk"):
        read_bags(table(tmp_path, GOOD), memory_map=True)


def test_pyarrow_is_asked_for_by_name(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"pip install pyarrow .*extra 'io'"):
        read_bags(table(tmp_path, GOOD))


def test_import_is_light():
    """scikit-learn may load pandas and pyarrow itself; what only readers need waits for them."""
    script = "import sys, pigmil.io; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "pigmil.io._api" in loaded
    assert not loaded & {"h5py", "pyarrow.csv", "pyarrow.parquet", "pigmil.io._parquet"}
