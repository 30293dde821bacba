"""Files of the authors; that they hold the bags of the tables is tested with the registry."""

import numpy as np
import pytest
import scipy.io

from pigmil._core.errors import BagFormatError
from pigmil.datasets import read_original


def test_further_content(data_dir):
    musk = read_original(data_dir / "original" / "musk1.data")
    assert sorted(set(musk.y.tolist())) == [0, 1]
    assert musk.feature_names[:2] == ("f1", "f2")
    assert musk.instance_info["conformation_name"][:2].tolist() == ["188_1+1", "188_1+2"]
    trains = read_original(data_dir / "original" / "eastWest.dat")
    assert trains.ids[:3].tolist() == [129, 125, 18]
    assert trains.feature_names[:2] == ("C0", "C1=bucket")


def test_uci_without_names(tmp_path):
    (tmp_path / "a.data").write_text("m1,c1,1,2,0.\nm1,c2,3,4,0.\nm2,c1,5,6,1.\n")
    bags = read_original(tmp_path / "a.data")
    assert bags.ids.tolist() == ["m1", "m2"]
    assert bags.instance_info["1"].tolist() == ["c1", "c2", "c1"]
    assert bags.instances.tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("varies", [False, True])
def test_prtools(tmp_path, varies):
    codes = [1, 2, 1] if varies else [2, 2, 1]
    record = {
        "data": np.arange(6.0).reshape(3, 2),
        "nlab": np.array(codes, dtype=float)[:, None],
        "lablist": np.array(["negative", "positive"]),
        "ident": {"milbag": np.array([[7.0], [7.0], [9.0]])},
    }
    scipy.io.savemat(tmp_path / "a.mat", {"x": record})
    bags = read_original(tmp_path / "a.mat")
    assert bags.ids.tolist() == [7, 9]
    assert bags.y.tolist() == ["positive", "negative"]
    expected = ["negative", "positive", "negative"] if varies else None
    assert (None if bags.instance_labels is None else bags.instance_labels.tolist()) == expected


BROKEN = {
    "a.dat": (
        "@relation r\n@attribute b {1}\n@attribute x real\n@attribute c {0}\n@data\n1,oops,0\n",
        r"could not convert string to float: 'oops'",
    ),
    "b.dat": ("@relation r\n@attribute b {1}\n@attribute c {0}\n@data\n1,2,0\n",
              r"line 5: expected 2 values, got 3"),
    "a.txt": ("1 1 1 0 0.5 0.5\n1 1 2 0 0.5\n", r"line 2: expected 6 values, got 5"),
    "a.data": ("i,a,1,1:2\ni,a,1,x:3\n", r"index:value pairs .*'x'"),
    "c.data": ("a,1,2,0\na,1,2,1\n", r"'a' is labelled 1 here and 0 before"),
    "d.data": ("hello\n", r"none of the formats"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files(tmp_path, name):
    text, message = BROKEN[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(BagFormatError, match=rf"(?s){name}.*{message}"):
        read_original(tmp_path / name)
