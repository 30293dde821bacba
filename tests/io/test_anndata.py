"""AnnData objects and files: observations as instances, scores back; and workbooks."""

import warnings

import anndata
import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from pigmil import as_bags, read_bags, read_cohort, write_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.bags import add_scores

X = np.arange(12.0).reshape(6, 2)


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


def test_objects(cells):
    check(as_bags(cells, **COLUMNS), X, ("g0", "g1"))
    check(as_bags(cells, **COLUMNS, layer="raw"), X + 1, ("g0", "g1"))
    check(as_bags(cells, **COLUMNS, obsm="pca"), X[:, ::-1] * 10, None)
    cells.X = sp.csr_matrix(X)
    check(as_bags(cells, **COLUMNS), X, ("g0", "g1"))


@pytest.mark.parametrize("suffix", ["h5ad", "zarr"])
def test_files(cells, tmp_path, suffix):
    path = tmp_path / f"cells.{suffix}"
    if suffix == "h5ad":
        cells.write_h5ad(path)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the next default of anndata
            cells.write_zarr(path)
    check(read_bags(path, **COLUMNS), X, ("g0", "g1"))
    check(read_bags(path, **COLUMNS, obsm="pca"), X[:, ::-1] * 10, None)
    with pytest.raises(BagFormatError, match=r"does not say.*with bag=.*'sample', 'disease'"):
        read_bags(path)
    table = pd.DataFrame({"slide_id": ["c", "a", "b"], "label": [0, 0, 1]})
    bags = read_cohort(path, table, bag="sample")
    assert bags.ids.tolist() == ["c", "a", "b"]
    assert bags.y.tolist() == [0, 0, 1]


def test_scores_return_to_their_observations(cells):
    bags = as_bags(cells, **COLUMNS)
    scores = bags.instances[:, 0] * -1.0
    add_scores(cells, bags, scores)
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
        add_scores(cells, as_bags([X]), np.zeros(6))


def test_refused(cells, tmp_path):
    with pytest.raises(BagsError, match=r"obs for bag='patient'; its columns are 'sample'"):
        as_bags(cells, bag="patient")
    with pytest.raises(BagsError, match=r"no layer='x'; it has 'raw'"):
        as_bags(cells, bag="sample", layer="x")
    path = tmp_path / "cells.h5ad"
    cells.write_h5ad(path)
    with h5py.File(path, "a") as file:
        file["obsm/other"] = h5py.ExternalLink("/etc/passwd", "/")
    with pytest.raises(BagFormatError, match="links are not followed"):
        read_bags(path, **COLUMNS)
    with pytest.raises(BagFormatError, match="read but not written"):
        write_bags(as_bags([X]), tmp_path / "out.h5ad")


def test_workbooks(tmp_path):
    path = tmp_path / "bags.xlsx"
    frame = pd.DataFrame({"bag": [7, 7, 8], "label": ["yes", "yes", "no"], "a": [1.5, None, 3],
                          "smiles": ["C", "CC", "O"]})  # fmt: skip
    frame.to_excel(path, index=False)
    with pytest.raises(BagFormatError, match=r"'smiles' holds text.*info=\['smiles'\]"):
        read_bags(path)
    with pytest.raises(BagFormatError, match=r"row 3, feature 0 \('a'\): the value is missing"):
        read_bags(path, info=["smiles"])
    bags = read_bags(path, info=["smiles"], missing="keep")
    assert bags.ids.tolist() == [7, 8]
    assert bags.y.tolist() == ["yes", "no"]
    assert np.array_equal(bags.instances.ravel(), [1.5, np.nan, 3], equal_nan=True)
    assert bags.instance_info["smiles"].tolist() == ["C", "CC", "O"]


def test_packed_text_and_tables_of_labels(tmp_path):
    frame = pd.DataFrame({"bag": ["x", "y"], "a": [1.0, 2.0]})
    frame.to_csv(tmp_path / "bags.csv.gz", index=False)
    frame.to_csv(tmp_path / "bags.tsv.gz", index=False, sep="\t")
    labels = pd.DataFrame({"id": ["y", "x"], "label": ["no", "yes"]})
    labels.to_csv(tmp_path / "labels.csv", index=False)
    for name in ("bags.csv.gz", "bags.tsv.gz"):
        for given in (labels, tmp_path / "labels.csv", {"x": "yes", "y": "no"}):
            bags = read_bags(tmp_path / name, bag_labels=given)
            assert bags.y.tolist() == ["yes", "no"]
    with pytest.raises(BagFormatError, match=r"no label for 1 bag: 'x'"):
        read_bags(tmp_path / "bags.csv.gz", bag_labels=labels[:1])
