"""Lazy bags: every layout gives the bags that were written, and only metadata are read."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.model_selection import GroupKFold, train_test_split
from sklearn.pipeline import Pipeline

from pigmil import Bags, BagScaler, MaxPoolingLR, scan_bags, write_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.io import BagFileNotFoundError
from pigmil.scale import LazyBags

h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pytest.importorskip("zarr")

SIZES = (3, 1, 5, 2)
IDS = ["s1", "s2", "s3", "s4"]
Y = {"s1": 0, "s2": 1, "s3": 0, "s4": 1}


def tables(dtype="float32"):
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(n, 4)).astype(dtype) for name, n in zip(IDS, SIZES, strict=True)}


def write_h5_folder(folder, *, dtype="float32", key="features", sizes=None):
    folder.mkdir(exist_ok=True)
    for name, values in tables(dtype).items():
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file[key] = values
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
    frame = flat_frame()
    frame.iloc[[0, 3, 1, 4, 2, 9, 5, 10, 6, 7, 8]].to_parquet(
        folder / "bags.parquet", row_group_size=3
    )
    return folder / "bags.parquet"


def write_split_parquet(folder):
    target = folder / "parts"
    target.mkdir()
    flat_frame().iloc[:6].to_parquet(target / "0.parquet")  # cuts bag s3 in two
    flat_frame().iloc[6:].to_parquet(target / "1.parquet")
    return target


def write_list_parquet(folder):
    frame = flat_frame()
    kind = pa.list_(pa.float32(), 4)
    features = pa.array(list(frame[list("abcd")].to_numpy()), type=kind)
    table = pa.table({"bag": frame["bag"], "label": frame["bag_label"], "features": features})
    pa.parquet.write_table(table, folder / "lists.parquet", row_group_size=5)
    return folder / "lists.parquet"


def write_arrow(folder):
    table = pa.Table.from_pandas(flat_frame(), preserve_index=False)
    with pa.ipc.new_file(str(folder / "bags.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    return folder / "bags.arrow"


def write_zarr(folder):
    import zarr

    top = zarr.open_group(str(folder / "bags.zarr"), mode="w")
    for name, values in tables().items():
        group = top.create_group(name)
        group.create_array("features", data=values)
        group.attrs["label"] = Y[name]
    return folder / "bags.zarr"


def write_anndata(folder, *, sparse=False):
    anndata = pytest.importorskip("anndata")
    import scipy.sparse as sp

    frame = flat_frame()
    values = frame[list("abcd")].to_numpy()
    obs = frame[["bag", "bag_label"]].assign(site="north")
    obs.index = [f"cell{row}" for row in range(len(obs))]
    var = pd.DataFrame(index=list("abcd"))
    anndata.AnnData(sp.csr_matrix(values) if sparse else values, obs, var).write_h5ad(
        folder / "cells.h5ad"
    )
    return folder / "cells.h5ad"


def write_sparse_anndata(folder):
    return write_anndata(folder, sparse=True)


def write_npy(folder):
    for part in ("features", "labels", "patch_labels"):
        (folder / "set" / part).mkdir(parents=True)
    for name, values in tables().items():
        np.save(folder / "set" / "features" / f"{name}.npy", values)
        np.save(folder / "set" / "labels" / f"{name}.npy", np.array(Y[name]))
        marks = np.full((len(values), 1), Y[name])
        np.save(folder / "set" / "patch_labels" / f"{name}.npy", marks)
    return folder / "set"


def write_h5_file(folder):
    values = tables()
    bags = Bags.from_list(list(values.values()), ids=IDS, y=list(Y.values()))
    write_bags(bags, folder / "bags.h5")
    return folder / "bags.h5"


WRITERS = [
    write_parquet,
    write_unsorted_parquet,
    write_split_parquet,
    write_list_parquet,
    write_arrow,
    write_zarr,
    write_anndata,
    write_sparse_anndata,
    write_npy,
    write_h5_file,
]


@pytest.mark.parametrize("write", WRITERS)
def test_every_layout_gives_the_bags_that_were_written(write, tmp_path):
    lazy = scan_bags(write(tmp_path))
    assert isinstance(lazy, LazyBags)
    assert dict(zip(lazy.ids, lazy.sizes, strict=True)) == dict(zip(IDS, SIZES, strict=True))
    assert dict(zip(lazy.ids, lazy.y, strict=True)) == Y
    assert lazy.dtype == np.float32
    loaded = lazy.load()
    dense = loaded.instances.toarray() if loaded.is_sparse else loaded.instances
    assert dense.dtype == np.float32
    for at, name in enumerate(lazy.ids):
        rows = dense[loaded.offsets[at] : loaded.offsets[at + 1]]
        assert np.array_equal(rows, tables()[name])
        one = lazy[name]
        assert np.array_equal(one.toarray() if loaded.is_sparse else one, tables()[name])


@pytest.mark.parametrize("key", ["features", "feats"])
def test_a_folder_of_slides_with_a_table_of_labels(key, tmp_path):
    folder = write_h5_folder(tmp_path / "h5_files", key=key)
    table = pd.DataFrame(
        {"slide_id": [f"{name}.h5" for name in reversed(IDS)], "label": [1, 0, 1, 0],
         "case_id": ["p4", "p3", "p2", "p1"]}
    )  # fmt: skip
    table.to_csv(tmp_path / "labels.csv", index=False)
    for labels in (table, tmp_path / "labels.csv"):
        lazy = scan_bags(folder, labels=labels)
        assert lazy.y.tolist() == [0, 1, 0, 1]
        assert lazy.bag_info["case_id"].tolist() == ["p1", "p2", "p3", "p4"]
    coords = lazy[1:3].load().instance_info["coords"]
    assert coords.tolist() == [[0, 1], [0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert "coords" not in next(lazy.blocks()).instance_info


def test_half_precision_is_kept_on_disk_and_read_as_single(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path / "half", dtype="float16"))
    assert lazy.dtype == np.float16
    assert lazy.load().dtype == np.float32
    assert np.array_equal(lazy["s3"], tables("float16")["s3"].astype("float32"))


def test_precision_is_that_of_the_most_precise_file(tmp_path):
    third = pd.DataFrame({"bag": ["a"], "f": [1 / 3]})
    third.astype({"f": "float32"}).assign(bag="b").to_parquet(tmp_path / "0.parquet")
    assert scan_bags(tmp_path).dtype == np.float32
    third.to_parquet(tmp_path / "1.parquet")
    assert scan_bags(tmp_path)["a"][0, 0] == 1 / 3


def test_files_with_the_same_id_are_refused_or_joined(tmp_path):
    write_h5_folder(tmp_path)
    with h5py.File(tmp_path / "s1.hdf5", "w") as file:
        file["features"] = np.ones((2, 4), dtype="float32")
    with pytest.raises(BagFormatError, match=r"has several feature files for 's1'"):
        scan_bags(tmp_path)
    assert scan_bags([tmp_path / "s1.h5", tmp_path / "s1.hdf5"]).sizes.tolist() == [5]


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


def test_columns_of_information_are_added(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path / "slides"))
    known = lazy.with_info(bag_info={"fold_group": ["p", "q", "p", "q"]})
    assert known[[3, 0]].bag_info["fold_group"].tolist() == ["q", "p"]
    assert "fold_group" not in lazy.bag_info
    with pytest.raises(ValueError, match="has 2 entries for 4 bags"):
        lazy.with_info(bag_info={"fold_group": ["p", "q"]})


def test_partitions_hold_whole_bags_and_depend_on_sizes_alone(tmp_path):
    lazy = scan_bags(write_parquet(tmp_path))
    # 16 bytes per row: 3 + 1 rows fit into 64 bytes, 5 rows do not, 2 do.
    assert [part.sizes.tolist() for part in lazy.partitions(64)] == [[3, 1], [5], [2]]
    blocks = list(lazy.blocks(64))
    assert Bags.concatenate(blocks).equals(lazy.load())
    with pytest.raises(ValueError, match="max_bytes must be at least 1"):
        lazy.partitions(0)


def test_scikit_learn_splits_lazy_bags_by_index(tmp_path):
    lazy = scan_bags(write_h5_folder(tmp_path / "h5"), labels=Y)
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
    folder = tmp_path / "large"
    folder.mkdir()
    for name in IDS:
        np.save(folder / f"{name}.npy", np.zeros((20_000, 8)))
    lazy = scan_bags(folder)
    assert lazy.nbytes == 4 * 20_000 * 8 * 8
    sent = pickle.dumps(lazy)
    assert len(sent) < 4000
    assert len(pickle.dumps(lazy[:1])) < len(sent)  # files of other bags stay behind
    assert pickle.loads(sent).load().n_instances == 80_000


def test_a_file_that_changed_or_vanished_is_named(tmp_path):
    folder = write_h5_folder(tmp_path / "h5")
    lazy = scan_bags(folder)
    with h5py.File(folder / "s2.h5", "a") as file:
        file["more"] = np.zeros(100)
    with pytest.raises(BagFormatError, match=r"s2\.h5: has changed since it was scanned"):
        lazy.load()
    assert lazy[[0]].load().n_bags == 1
    (folder / "s3.h5").unlink()
    with pytest.raises(BagFormatError, match=r"s3\.h5: cannot be opened on host"):
        lazy["s3"]


def test_a_zarr_store_that_changed_is_named(tmp_path):
    import zarr

    lazy = scan_bags(write_zarr(tmp_path))
    store = zarr.open_group(str(tmp_path / "bags.zarr"), mode="a")
    store["s2/features"][:] = 5.0
    with pytest.raises(BagFormatError, match=r"bags\.zarr: its part 's2/features' has changed"):
        lazy.load()
    assert lazy[["s1", "s3"]].load().n_bags == 2
    del store["s3"]
    with pytest.raises(BagFormatError, match=r"bags\.zarr: cannot be opened on host"):
        lazy["s3"]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: np.save(file, np.zeros((1, 4)))])
def test_a_file_that_changes_between_two_passes_is_named(spoil, tmp_path):
    class Spoil(TransformerMixin, BaseEstimator):
        def fit(self, bags, y=None):
            spoil(tmp_path / "s3.npy")
            return self

        def transform(self, bags):
            return bags

    for name, values in tables().items():
        np.save(tmp_path / f"{name}.npy", values)
    lazy = scan_bags(tmp_path, labels=Y)
    model = Pipeline([("scale", BagScaler()), ("spoil", Spoil()), ("fit", MaxPoolingLR())])
    with pytest.raises(BagFormatError, match=r"s3\.npy: (has changed|cannot be opened)"):
        model.fit(lazy, lazy.y)


def test_more_than_memory_is_refused_with_the_way_out(tmp_path, monkeypatch):
    lazy = scan_bags(write_parquet(tmp_path))
    monkeypatch.setattr("pigmil.bags._lazy.available_memory", lambda: 100)
    with pytest.raises(
        BagsError,
        match=r"0.0 GB of memory are available. Keep them on disk with scan_bags and fit a",
    ):
        lazy.load()


def write_two_widths(folder):
    write_h5_folder(folder)
    with h5py.File(folder / "s9.h5", "w") as file:
        file["features"] = np.zeros((2, 7))
    return folder


def write_empty_slide(folder):
    write_h5_folder(folder)
    with h5py.File(folder / "s9.h5", "w") as file:
        file["features"] = np.zeros((0, 4), dtype="float32")
    return folder


def test_bad_layouts_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(BagsError, match=r"'s9' has 7 features where .*s1.h5 has 4; scan files"):
        scan_bags(write_two_widths(tmp_path / "a"))
    folder = write_empty_slide(tmp_path / "b")
    with pytest.raises(BagsError, match="1 bag without instances: 's9'"):
        scan_bags(folder)
    with pytest.warns(UserWarning, match="left out 1 bag"):
        assert scan_bags(folder, empty="drop").n_bags == 4
    (tmp_path / "c").mkdir()
    with pytest.raises(BagFormatError, match=r"has no feature files"):
        scan_bags(tmp_path / "c")
    np.save(folder / "x.npy", np.zeros((1, 4)))
    with pytest.warns(UserWarning, match="left out"):  # empty s9, and coordinates that x has not
        assert scan_bags(folder, empty="drop").n_bags == 5
    with pytest.raises(BagFileNotFoundError, match="there is no such file"):
        scan_bags(tmp_path / "nowhere.h5")
    with pytest.raises(ValueError, match="There are no paths"):
        scan_bags([])
    with pytest.raises(ValueError, match="empty must be 'raise' or 'drop', got 'skip'"):
        scan_bags(tmp_path, empty="skip")


def test_parts_of_a_bag_must_agree_on_its_label(tmp_path):
    for part, label in ((0, 0), (1, 1)):
        frame = pd.DataFrame({"bag": ["a"], "label": [label], "f": [1.0]})
        frame.to_parquet(tmp_path / f"{part}.parquet")
    with pytest.raises(BagsError, match=r"1\.parquet: the bag 'a' is labelled . here and . before"):
        scan_bags(tmp_path)


def test_tables_of_different_columns_are_refused(tmp_path):
    pd.DataFrame({"bag": ["a"], "f": [1.0]}).to_parquet(tmp_path / "0.parquet")
    pd.DataFrame({"bag": ["b"], "f": [1.0], "g": [2.0]}).to_parquet(tmp_path / "1.parquet")
    with pytest.raises(BagsError, match="has 2 features where"):
        scan_bags(tmp_path)
    for width in (2, 3):
        values = pa.array([[0.0] * width], type=pa.list_(pa.float32(), width))
        file = tmp_path / "lists" / f"{width}.parquet"
        file.parent.mkdir(exist_ok=True)
        pa.parquet.write_table(pa.table({"bag": [f"b{width}"], "features": values}), file)
    with pytest.raises(BagsError, match=r"3.parquet has 3 features where .* has 2; scan"):
        scan_bags(tmp_path / "lists")
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(BagFormatError, match="no column 'bag'; its columns are 'x'"):
        scan_bags(tmp_path / "x.parquet")


def test_a_table_of_labels_must_list_every_bag(tmp_path):
    folder = write_h5_folder(tmp_path / "h5")
    some = {"s1": 0, "s2": 1}
    with pytest.raises(BagsError, match=r"2 bags with features but .*'s3', 's4'"):
        scan_bags(folder, labels=some)
    with pytest.warns(UserWarning, match="left out 2 bags"):
        assert scan_bags(folder, labels=some, missing="drop").ids.tolist() == ["s1", "s2"]
    with pytest.raises(BagsError, match="several rows for 1 bag: 's1'"):
        scan_bags(folder, labels=pd.DataFrame({"bag": ["s1", "s1"], "label": [0, 1]}))
    with pytest.raises(BagsError, match="no column 'slide'; its columns are 'bag'"):
        scan_bags(folder, labels=pd.DataFrame({"bag": IDS, "label": 1}), id="slide")
    with pytest.raises(BagsError, match="labels= takes a mapping"):
        scan_bags(folder, labels=3)


def test_missing_values_are_refused_when_a_block_is_read(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1.0], [np.nan]]))
    with pytest.raises(BagsError, match="'a'"):
        scan_bags(tmp_path / "a.npy").load()


def test_lazy_bags_of_several_scans_are_joined(tmp_path):
    write_h5_folder(tmp_path / "h5")
    np.save(tmp_path / "z.npy", np.zeros((2, 4), dtype="float16"))
    lazy = scan_bags([tmp_path / "h5", tmp_path / "z.npy"])
    assert lazy.ids.tolist() == [*IDS, "z"]
    np.save(tmp_path / "w.npy", np.zeros((2, 5)))
    with pytest.raises(BagsError, match=r"w.npy has 5 features where .*s1.h5 has 4"):
        scan_bags([tmp_path / "h5", tmp_path / "w.npy"])


def test_a_data_set_in_folders_by_value_is_scanned(tmp_path):
    """As pyarrow writes data sets: the bag, its label and its site are names of folders."""
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = flat_frame().assign(site=lambda table: np.where(table["bag"] < "s3", "a b", "c"))
    dataset.write_dataset(
        pa.Table.from_pandas(frame, preserve_index=False),
        tmp_path / "set",
        format="parquet",
        partitioning=["site", "bag_label", "bag"],
        partitioning_flavor="hive",
    )
    lazy = scan_bags(tmp_path / "set")
    assert dict(zip(lazy.ids.tolist(), lazy.y.tolist(), strict=True)) == Y
    assert lazy.bag_info["site"][lazy.ids == "s1"] == "a b"
    assert lazy.feature_names == tuple("abcd")
    for name, values in tables().items():
        assert np.array_equal(lazy[name], values)
    dataset.write_dataset(
        pa.Table.from_pandas(frame[[*"abcd", "bag", "bag_label"]], preserve_index=False),
        tmp_path / "plain" / "part",
        format="parquet",
    )
    assert np.array_equal(scan_bags(tmp_path / "plain")["s3"], tables()["s3"])


def test_a_zarr_store_with_one_array_per_bag_is_scanned(tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(tmp_path / "bags.zarr", mode="w")
    for name, values in tables().items():
        array = group.create_array(name, shape=values.shape, dtype=values.dtype)
        array[:] = values
        array.attrs["label"] = Y[name]
    lazy = scan_bags(tmp_path / "bags.zarr")
    assert dict(zip(lazy.ids.tolist(), lazy.y.tolist(), strict=True)) == Y
    for name, values in tables().items():
        assert np.array_equal(lazy[name], values)
