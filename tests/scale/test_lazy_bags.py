"""Lazy bags: subsets, blocks, pickles and files that change; tests/io has the layouts of files."""

import pickle

import h5py
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.model_selection import GroupKFold, train_test_split

from pigmil import scan_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.scale import LazyBags

SIZES = (3, 1, 5, 2)
IDS = ["s1", "s2", "s3", "s4"]
Y = {"s1": 0, "s2": 1, "s3": 0, "s4": 1}


def tables(dtype="float32"):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(n, 4)).astype(dtype) for name, n in zip(IDS, SIZES, strict=True)}


def write_h5_folder(folder, *, dtype="float32"):
    for name, values in tables(dtype).items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["features"] = values
            file["coords"] = np.arange(2 * len(values)).reshape(-1, 2)
    return folder


def flat_frame():
    parts = [
        pd.DataFrame(values, columns=list("abcd")).assign(bag=name, bag_label=Y[name])
        for name, values in tables().items()
    ]
    return pd.concat(parts, ignore_index=True)


def write_parquet(folder):
    flat_frame().to_parquet(folder / "bags.parquet", row_group_size=4)
    return folder / "bags.parquet"


def write_unsorted_parquet(folder):
    mixed = flat_frame().iloc[[0, 3, 1, 4, 2, 9, 5, 10, 6, 7, 8]]
    mixed.to_parquet(folder / "bags.parquet", row_group_size=3)
    return folder / "bags.parquet"


def write_split_parquet(folder):
    flat_frame().iloc[:6].to_parquet(folder / "0.parquet")  # cuts bag s3 in two
    flat_frame().iloc[6:].to_parquet(folder / "1.parquet")
    return folder


WRITERS = (write_parquet, write_unsorted_parquet, write_split_parquet)


@pytest.mark.parametrize("write", WRITERS)
def test_every_layout_gives_the_bags_that_were_written(write, tmp_path):
    lazy = scan_bags(write(tmp_path))
    loaded = lazy.load()
    assert dict(zip(lazy.ids, lazy.sizes, strict=True)) == dict(zip(IDS, SIZES, strict=True))
    assert dict(zip(lazy.ids, lazy.y, strict=True)) == Y
    assert lazy.dtype == loaded.dtype == np.float32
    for name, values in tables().items():
        assert np.array_equal(loaded[name], values)
        assert np.array_equal(lazy[name], values)


def test_half_precision_is_kept_on_disk_and_read_as_single(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path, dtype="float16"))
    assert lazy.dtype == np.float16
    assert lazy.load().dtype == np.float32
    assert np.array_equal(lazy["s3"], tables("float16")["s3"].astype("float32"))


def test_indexing_follows_bags(tmp_path):
    lazy = scan_bags(write_parquet(tmp_path))
    bags = lazy.load()
    for key in (slice(1, 3), slice(None, None, 2), [3, 0, 3], np.array([1, 0, 0, 1]) == 1, [-1]):
        assert np.array_equal(lazy[key].load().instances, bags[key].instances)
        assert lazy[key].sizes.tolist() == bags[key].sizes.tolist()
        assert lazy[key].y.tolist() == bags[key].y.tolist()
    assert len(lazy[[]]) == 0
    with pytest.raises(IndexError, match="There is no bag 4; there are 4 bags"):
        lazy[4]
    with pytest.raises(KeyError, match="There is no bag 'x'"):
        lazy["x"]
    assert [len(one) for one in lazy] == list(SIZES)


def test_partitions_hold_whole_bags_and_depend_on_sizes_alone(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path))
    # 16 bytes per row: 3 + 1 rows fit into 64 bytes, 5 rows do not, 2 do.
    assert [part.sizes.tolist() for part in lazy.partitions(64)] == [[3, 1], [5], [2]]
    blocks = list(lazy.blocks(64))
    values = np.concatenate([block.instances for block in blocks])
    assert np.array_equal(values, lazy.load().instances)
    assert list(lazy.load().instance_info) == ["coords"]
    assert not blocks[0].instance_info


def test_scikit_learn_splits_lazy_bags_by_index(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path), labels=Y)
    train, test, y_train, _ = train_test_split(
        lazy, lazy.y, test_size=0.5, stratify=lazy.y, random_state=0
    )
    assert isinstance(train, LazyBags)
    assert train.y.tolist() == y_train.tolist()
    assert sorted([*train.ids, *test.ids]) == IDS
    groups = np.array(["a", "a", "b", "b"])
    for fitted, left in GroupKFold(2).split(lazy, lazy.y, groups):
        assert set(groups[fitted]).isdisjoint(groups[left])
        assert lazy[left].n_bags == 2


def test_a_pickle_holds_paths_and_never_values(tmp_path):
    for name in IDS:
        np.save(tmp_path / f"{name}.npy", np.zeros((20_000, 8)))
    lazy = scan_bags(tmp_path)
    assert lazy.nbytes == 4 * 20_000 * 8 * 8
    sent = pickle.dumps(lazy)
    assert len(sent) < 4000
    assert len(pickle.dumps(lazy[:1])) < len(sent)  # files of other bags stay behind
    assert pickle.loads(sent).load().n_instances == 80_000


def test_a_file_that_changed_or_vanished_is_named(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path))
    with h5py.File(tmp_path / "s2.h5", "a") as file:
        file["more"] = np.zeros(100)
    with pytest.raises(BagFormatError, match=r"s2\.h5: has changed since it was scanned"):
        lazy.load()
    assert lazy[[0]].load().n_bags == 1
    (tmp_path / "s3.h5").unlink()
    with pytest.raises(BagFormatError, match=r"s3\.h5: cannot be opened on host"):
        lazy["s3"]


def test_tables_of_different_columns_are_refused(tmp_path):
    pd.DataFrame({"bag": ["a"], "f": [1.0]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"bag": ["b"], "f": [1.0], "g": [2.0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(BagsError, match="has 2 features where"):
        scan_bags(tmp_path)
    for width in (2, 3):
        values = pa.array([[0.0] * width], type=pa.list_(pa.float32(), width))
        table = pa.table({"bag": [f"b{width}"], "features": values})
        pa.parquet.write_table(table, tmp_path / f"{width}.parquet")
    with pytest.raises(BagsError, match=r"3.parquet has 3 features where .* has 2; scan"):
        scan_bags([tmp_path / "2.parquet", tmp_path / "3.parquet"])


def test_lazy_bags_of_several_scans_are_joined(tmp_path):
    folder = tmp_path / "h5"
    folder.mkdir()
    write_h5_folder(folder)
    np.save(tmp_path / "z.npy", np.zeros((2, 4), dtype="float16"))
    lazy = scan_bags([folder, tmp_path / "z.npy"])
    assert lazy.ids.tolist() == [*IDS, "z"]
    np.save(tmp_path / "w.npy", np.zeros((2, 5)))
    with pytest.raises(BagsError, match=r"w.npy has 5 features where .*s1.h5 has 4"):
        scan_bags([folder, tmp_path / "w.npy"])
