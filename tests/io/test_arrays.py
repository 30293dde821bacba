"""Arrays as other programs write them: HDF5, npz, MATLAB, tensors, AnnData."""

import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from pigmil import Bags, as_bags, read_bags, scan_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.bags import add_scores

from .samples import matlab_73
from .torch_files import archive, described, text

X = np.arange(12.0).reshape(6, 2)


def test_one_data_set_per_bag(tmp_path):
    path = tmp_path / "bags.h5"
    with h5py.File(path, "w") as file:
        for name, label in (("p1", "tumour"), ("p2", "normal")):
            file.create_dataset(name, data=np.full((2, 3), 1)).attrs["label"] = label
    bags = read_bags(path)
    assert bags.ids.tolist() == ["p1", "p2"]
    assert bags.y.tolist() == ["tumour", "normal"]
    assert bags.dtype == np.float64


def test_labels_of_groups(tmp_path):
    """A label may be an attribute of the group, or a data set with one value."""
    path = tmp_path / "groups.h5"
    with h5py.File(path, "w") as file:
        for name, label in (("a", b"pos"), ("b", b"neg")):
            group = file.create_group(name)
            group["feats"] = np.ones((2, 3))
            group["instance_labels"] = np.array([name == "a", False])
            group["notes"] = ["one", "twö"]
            if name == "a":
                group["label"] = np.array([label])
            else:
                group.attrs["label"] = np.bytes_(label)
    bags = read_bags(path)
    assert bags.y.tolist() == ["pos", "neg"]
    assert bags.instance_labels.tolist() == [True, False, False, False]
    assert bags.instance_info["notes"].tolist() == ["one", "twö"] * 2


def uneven(file):
    file["a"], file["b"] = np.ones((2, 3)), np.ones((2, 4))


def references(file):
    file["features"] = np.ones((2, 3))
    file["refs"] = np.array([file.ref, file.ref], dtype=h5py.ref_dtype)


H5_PROBLEMS = {
    "widths": (uneven, "'b' has 4 features where .* has 3"),
    "no bags": (lambda file: file.create_group("a"), "holds no bags"),
    "nan": (lambda file: file.create_dataset("a", data=np.full((2, 3), np.nan)), "Bag 0 .'a'."),
    "empty": (lambda file: file.create_dataset("a", (0, 3), dtype="f4"), "holds no bags"),
    "text": (lambda file: file.create_dataset("features", data=[["a"]]), "expected a table"),
    "objects": (references, "cannot be read"),
}


@pytest.mark.parametrize("problem", H5_PROBLEMS)
def test_hdf5_problems(problem, tmp_path):
    fill, message = H5_PROBLEMS[problem]
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        fill(file)
    with pytest.raises(BagFormatError, match=rf"(?s)bad\.h5.*{message}"):
        read_bags(tmp_path / "bad.h5")


def test_the_data_set_of_the_features_can_be_named(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"], file["other"] = X, X + 1
    assert np.array_equal(read_bags(tmp_path / "a.h5", features="other").instances, X + 1)
    with pytest.raises(BagFormatError, match="bag= or info="):
        read_bags(tmp_path / "a.h5", bag="x")


def test_npz_problems(tmp_path):
    path = tmp_path / "long.npz"
    for arrays, message in (
        ({"X": np.ones(2)}, "no array 'features'"),
        ({"instances": np.array([["x"]]), "offsets": [0, 1]}, "no numbers 'instances'"),
        ({"instances": np.array([[np.nan]]), "offsets": [0, 1]}, "feature 0 is nan"),
        ({"instances": X, "offsets": [0, 9]}, "offsets"),
        ({"data": np.ones(1), "indices": [9], "indptr": [0, 1], "shape": [1, 3],
          "offsets": [0, 1]}, "sparse"),
    ):  # fmt: skip
        np.savez(path, **arrays)
        with pytest.raises(BagFormatError, match=rf"(?s)long\.npz.*{message}"):
            read_bags(path)


@pytest.mark.parametrize("sparse", [False, True])
def test_matlab(tmp_path, sparse):
    held = {
        "features": sp.csc_matrix(X) if sparse else X,
        "bag_ids": np.array([[2, 2, 1, 1, 1, 1]], dtype=np.uint8),
        "labels": np.array(["yes"] * 2 + ["no"] * 4, dtype=object),
        "unused": {"a": [1, 2]},
    }
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, held)
    bags = read_bags(path)
    assert bags.ids.tolist() == [2, 1]
    assert bags.y.tolist() == ["yes", "no"]
    assert bags.is_sparse == sparse
    assert np.array_equal(bags.instances.toarray() if sparse else bags.instances, X)
    for changes, message in (
        ({"features": "text"}, "no variables features and bag_ids"),
        ({"bag_ids": [[1, 2]]}, "2 bag_ids for 6 instances"),
    ):
        scipy.io.savemat(path, held | changes)
        with pytest.raises(BagFormatError, match=rf"a\.mat.*{message}"):
            read_bags(path)


def test_matlab_73(tmp_path):
    def fill(file):
        held = {"features": X, "bag_ids": [[1, 1, 1, 2, 2, 2]], "labels": [[1, 1, 1, 0, 0, 0]]}
        for name, values in held.items():
            file[name] = np.asarray(values, dtype="f8").T
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        file["note"] = np.array([[120]], dtype="u2")
        file["note"].attrs["MATLAB_class"] = np.bytes_("char")

    matlab_73(tmp_path / "new.mat", fill)
    bags = read_bags(tmp_path / "new.mat")
    assert (bags.ids.tolist(), bags.y.tolist()) == ([1, 2], [1, 0])
    assert np.array_equal(bags.instances, X)


def test_tensors_in_dictionaries_and_lists(tmp_path):
    first, second = np.ones((2, 2), np.float32), np.arange(4).reshape(2, 2)
    named = b"}(" + text("features") + described(first) + text("coords") + described(second, "1")
    archive(tmp_path / "d.pt", named + b"u", _0=first, _1=second)
    listed = b"](" + described(first) + described(second, "1") + b"e"
    archive(tmp_path / "l.pt", listed, _0=first, _1=second)
    for name in ("d.pt", "l.pt"):
        bags = read_bags(tmp_path / name)
        assert bags.instances.tolist() == [[1, 1], [1, 1]]
        assert bags.instance_info["coords"].tolist() == [[0, 1], [2, 3]]


@pytest.fixture
def cells():
    obs = pd.DataFrame(
        {
            "sample": pd.Categorical(["b", "a", "b", "a", "c", "c"]),
            "disease": ["yes", "no", "yes", "no", "no", "no"],
            "kind": pd.Categorical(["T", None, "B", "T", "B", "B"]),
            "reads": [5, 6, 7, 8, 9, 10],
        },
        index=[f"cell{number}" for number in range(6)],
    )
    var = pd.DataFrame(index=["g0", "g1"])
    held = {"pca": X[:, ::-1] * 10, "spatial": X + 100}
    return anndata.AnnData(X.copy(), obs=obs, var=var, obsm=held, layers={"raw": X + 1})


def check(bags, values, names):
    assert bags.ids.tolist() == ["b", "a", "c"]
    assert bags.y.tolist() == ["yes", "no", "no"]
    order = [0, 2, 1, 3, 4, 5]
    dense = bags.instances.toarray() if bags.is_sparse else bags.instances
    assert np.array_equal(dense, values[order])
    assert bags.feature_names == names
    assert bags.instance_info["reads"].tolist() == [5, 7, 6, 8, 9, 10]
    assert bags.instance_info["kind"].tolist() == ["T", "B", "", "T", "B", "B"]
    assert np.array_equal(bags.instance_info["coords"], X[order] + 100)


COLUMNS = {"bag": "sample", "label": "disease"}


def test_anndata_objects(cells):
    check(as_bags(cells, **COLUMNS), X, ("g0", "g1"))
    check(as_bags(cells, **COLUMNS, layer="raw"), X + 1, ("g0", "g1"))
    check(as_bags(cells, **COLUMNS, obsm="pca"), X[:, ::-1] * 10, None)
    cells.X = sp.csr_matrix(X)
    check(as_bags(cells, **COLUMNS), X, ("g0", "g1"))


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix, sp.csc_matrix])
def test_anndata_files(cells, tmp_path, suffix, kind):
    cells.X = kind(X)
    path = tmp_path / f"cells.{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the next default of anndata
        cells.write_h5ad(path) if suffix == "h5ad" else cells.write_zarr(path)
    check(read_bags(path, **COLUMNS), X, ("g0", "g1"))
    check(read_bags(path, **COLUMNS, layer="raw"), X + 1, ("g0", "g1"))
    lazy = scan_bags(path, **COLUMNS, obsm="pca")
    check(lazy.load(), X[:, ::-1] * 10, None)
    assert lazy[["a"]].load().instance_info["obs_name"].tolist() == ["cell1", "cell3"]
    with pytest.raises(BagFormatError, match=r"no column 'bag'; its columns are 'sample'"):
        read_bags(path)
    with pytest.raises(BagFormatError, match=r"no 'layers/x'; it holds 'raw'"):
        read_bags(path, **COLUMNS, layer="x")
    table = pd.DataFrame({"slide_id": ["c", "a", "b"], "label": [0, 0, 1]})
    assert read_bags(path, labels=table, bag="sample").y.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("part", "values"),
    [("indices", [0, 10**9]), ("indices", [0, -1]), ("indptr", [0, 10**9, 2, 2, 2, 2, 2])],
)
def test_sparse_observations_that_point_outside(cells, part, values, tmp_path):
    cells.X = sp.csr_matrix(np.eye(6, 2))
    cells.write_h5ad(tmp_path / "cells.h5ad")
    with h5py.File(tmp_path / "cells.h5ad", "r+") as file:
        del file[f"X/{part}"]
        file[f"X/{part}"] = np.array(values, dtype=np.int32)
    with pytest.raises(BagFormatError, match=r"cells\.h5ad"):
        read_bags(tmp_path / "cells.h5ad", **COLUMNS)


def test_scores_return_to_their_observations(cells):
    bags = as_bags(cells, **COLUMNS)
    add_scores(cells, bags, bags.instances[:, 0] * -1.0)
    assert cells.obs["pigmil_score"].tolist() == (-X[:, 0]).tolist()
    assert cells.obs["pigmil_rank"].tolist() == [1, 2, 3, 4, 5, 6]
    some = bags[[2]]
    add_scores(cells, some, [0.5, 0.9])
    assert cells.obs["pigmil_rank"].tolist()[4:] == [2, 1]
    assert cells.obs["pigmil_score"].isna().tolist() == [True] * 4 + [False] * 2
    assert "pigmil_score" not in as_bags(cells, **COLUMNS).instance_info
    with pytest.raises(BagsError, match=r"shape \(1,\); expected \(2,\)"):
        add_scores(cells, some, [1.0])
    with pytest.raises(BagsError, match="do not come from an AnnData"):
        add_scores(cells, Bags.from_list([X]), np.zeros(6))
