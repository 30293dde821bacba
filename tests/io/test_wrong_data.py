"""Damaged and unusual files never give other numbers than they hold; scipy, pandas and pyarrow
read the same files, and where both accept one the values agree."""

import io
import warnings

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
import scipy.io

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    return Bags(
        rng.normal(size=(30, 4)).round(3), [0, 6, 14, 22, 30], ids=[4, 7, 1, 9], y=[1, 0, 1, 0]
    )


def damaged(content, rng):
    """Flip a bit, change some bytes, cut, or repeat a stretch."""
    changed = bytearray(content)
    kind = rng.integers(4)
    if kind == 0:
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.choice(list(b'0123456789.,-+eE "\n\r;x'))
    elif kind == 2:
        del changed[rng.integers(len(changed)) :]
    else:
        start, stop = sorted(rng.integers(0, len(changed), 2).tolist())
        changed[stop:stop] = changed[start:stop][:40]
    return bytes(changed)


def ours(path, **options):
    """Features and bag of every row, in the order of the file's bags; None where refused."""
    try:
        read = read_bags(path, missing="keep", ids=str, **options)
    except BagFormatError:
        return None
    return dict(zip(read.ids.tolist(), list(read), strict=True))


def assert_same(mine, features, bag_of_row):
    """Compare our bags with a table that another library read."""
    assert sum(map(len, mine.values())) == len(bag_of_row)
    for bag, values in mine.items():
        rows = [at for at, other in enumerate(bag_of_row) if other == bag]
        np.testing.assert_array_equal(values, features[rows])


def test_every_flipped_bit_of_a_packed_matlab_file_is_noticed(tmp_path, bags):
    """The checksum of the packed stream is compared; scipy refuses the same files."""
    path = tmp_path / "bags.mat"
    write_bags(bags, path)
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    accepted = 0
    for place in rng.choice(np.arange(128, len(content)), 300):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        mine = ours(path)
        if mine is not None:
            accepted += 1
            theirs = scipy.io.loadmat(io.BytesIO(bytes(flipped)))
            owners = [str(one) for one in theirs["bag_ids"].ravel()]
            assert_same(mine, theirs["features"], owners)
            np.testing.assert_array_equal(np.vstack(list(mine.values())), bags.instances)
    assert accepted < 10  # names of variables that are not read


def test_matlab_agrees_with_scipy(tmp_path, bags):
    path = tmp_path / "bags.mat"
    write_bags(bags, path, compress=False)
    content = path.read_bytes()
    rng = np.random.default_rng(2)
    compared = 0
    for _ in range(200):
        changed = bytearray(content)
        changed[rng.integers(128, len(changed))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        mine = ours(path)
        if mine is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = scipy.io.loadmat(io.BytesIO(bytes(changed)))
        except (TypeError, ValueError):  # the comment was damaged, which we do not read
            np.testing.assert_array_equal(np.vstack(list(mine.values())), bags.instances)
            continue
        owners = [str(int(one)) for one in theirs["bag_ids"].ravel()]
        assert_same(mine, theirs["features"], owners)
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("name", ["csv", "tsv"])
def test_text_tables_agree_with_pandas(name, tmp_path, bags):
    path = tmp_path / f"bags.{name}"
    write_bags(bags, path)
    content = path.read_bytes()
    rng = np.random.default_rng(3)
    compared = 0
    for _ in range(400):
        path.write_bytes(damaged(content, rng))
        mine = ours(path, labels=str)
        if mine is None:
            continue
        frame = pd.read_csv(
            path, sep="," if name == "csv" else "\t", dtype={"bag": str},
            float_precision="round_trip", keep_default_na=False, na_values=["", "nan", "NaN"],
        )  # fmt: skip
        rest = [one for one in frame.columns if one not in ("bag", "bag_label", "label", "y")]
        assert_same(mine, frame[rest].to_numpy(dtype=float), frame["bag"].tolist())
        compared += 1
    assert compared > 40


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_parquet_agrees_with_pyarrow(compression, tmp_path, bags):
    path = tmp_path / "bags.parquet"
    write_bags(bags, path, compression=compression)
    content = path.read_bytes()
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(300):
        changed = damaged(content, rng)
        path.write_bytes(changed)
        mine = ours(path)
        if mine is None:
            continue
        table = pyarrow.parquet.read_table(io.BytesIO(changed)).to_pandas()
        rest = [one for one in table.columns if one not in ("bag", "bag_label")]
        owners = [str(one) for one in table["bag"]]
        assert_same(mine, table[rest].to_numpy(dtype=float), owners)
        compared += 1
    assert compared > 5


@pytest.mark.parametrize("start", ["\n", "\r\n", "\n\n\n", "\ufeff", "\ufeff\n"])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_header_after_blank_lines_or_a_mark_is_a_header(start, quoted, tmp_path):
    names = ["bag", "label", "1", "2"]
    names = [f'"{name}"' for name in names] if quoted else names
    path = tmp_path / "bags.csv"
    path.write_bytes((start + ",".join(names) + "\na,0,1,2\nb,1,3,4\n").encode())
    read = read_bags(path)
    assert read.ids.tolist() == ["a", "b"]
    assert list(read.feature_names) == ["1", "2"]
    assert read.instances.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("encoding", ["utf-8", "utf8", "UTF_8", "utf-8-sig", "utf-16-le"])
def test_a_mark_before_the_first_word_is_skipped(encoding, tmp_path):
    mark = "" if encoding == "utf-8-sig" else "\ufeff"
    path = tmp_path / "bags.csv"
    path.write_bytes((mark + '"bag","x"\na,1\n').encode(encoding))
    assert read_bags(path, encoding=encoding).feature_names == ("x",)
    if encoding == "utf-16-le":
        return  # found by the first line only in tables
    text = "@relation r\n@attribute bag {a}\n@attribute x real\n@attribute y {1}\n@data\na,2,1\n"
    path.write_bytes((mark + text).encode(encoding))
    assert read_bags(path, format="keel", encoding=encoding).instances.tolist() == [[2]]


def test_an_anndata_file_is_not_one_bag(tmp_path):
    for name in ("cells.h5ad", "cells.h5"):
        with h5py.File(tmp_path / name, "w") as file:
            file["X"] = np.ones((3, 2))
            file.create_group("obs")
            file.create_group("var")
        with pytest.raises(BagFormatError, match=r"is an AnnData file.*bag="):
            read_bags(tmp_path / name)


def test_leftover_files_of_a_writer_are_skipped(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.ones((3, 2))
    (tmp_path / ".a.h5.0123456789ab.h5").write_bytes(b"half of a file")
    assert read_bags(tmp_path).ids.tolist() == ["a"]


def test_signs_of_labels_that_are_text_and_numbers(tmp_path):
    np.savez(
        tmp_path / "a.npz", instances=np.ones((2, 1)), offsets=[0, 1, 2], y=[0, 1],
        instance_labels=["n", "p"],
    )  # fmt: skip
    with pytest.raises(BagFormatError, match="mixes text and numbers in the labels"):
        read_bags(tmp_path / "a.npz", labels="signs")


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_instances_that_are_text(dtype, tmp_path):
    np.savez(tmp_path / "a.npz", instances=np.array([["a"], ["b"]]), offsets=[0, 1, 2])
    with pytest.raises(BagFormatError, match="'instances' holds <U1, not numbers"):
        read_bags(tmp_path / "a.npz", dtype=dtype)


@pytest.mark.parametrize("index", ["1\x1c", "١", " 1", "+1", "1_0"])
def test_an_index_that_is_no_number(index, tmp_path):
    path = tmp_path / "a.data"
    path.write_text(f"i,a,1,1:2\ni,a,1,x{index}:3\n".replace("x", ""), encoding="utf-8")
    if index == " 1":
        assert read_bags(path, format="sparse_mil").n_instances == 2  # blanks around pairs
        return
    with pytest.raises(BagFormatError, match="expected index:value"):
        read_bags(path, format="sparse_mil")
