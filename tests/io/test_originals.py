"""The files as people have them on disk hold exactly the bags of the cross-checked tables."""

import numpy as np
import pytest

from pigmil import read_bags

# sparse_trec1: the table keeps only the terms that occur, hence columns="used".
PAIRS = [
    ("musk1.data", "musk1", {}),
    ("eastWest.dat", "eastwest", {}),
    ("mutagenesis-atoms.dat", "mutagenesis_atoms", {}),
    ("rec_sport_hockey.txt", "newsgroups11_hockey", {}),
    ("sparse_trec1.data", "trec9_1", {"columns": "used"}),
    ("tiger_100x100_matlab.mat", "tiger", {}),
]


@pytest.mark.parametrize(("name", "table", "options"), PAIRS, ids=[pair[1] for pair in PAIRS])
def test_original_equals_table(data_dir, name, table, options):
    """Tables hold text as ids and +1/-1 as labels; originals are asked for the same."""
    found = read_bags(data_dir / "original" / name, ids=str, labels="signs", **options)
    expected = read_bags(data_dir / f"{table}.parquet")
    values = found.instances.toarray() if found.is_sparse else found.instances
    np.testing.assert_array_equal(values, expected.instances)
    np.testing.assert_array_equal(found.offsets, expected.offsets)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.y, expected.y)
    if expected.instance_labels is None:
        assert found.instance_labels is None
    else:
        np.testing.assert_array_equal(found.instance_labels, expected.instance_labels)


def test_further_content_of_originals(data_dir):
    musk = read_bags(data_dir / "original" / "musk1.data")
    assert sorted(set(musk.y.tolist())) == [0, 1]
    assert musk.feature_names[:2] == ("f1", "f2")
    assert musk.instance_info["conformation_name"][:2].tolist() == ["188_1+1", "188_1+2"]
    trains = read_bags(data_dir / "original" / "eastWest.dat")
    assert trains.ids[:3].tolist() == [129, 125, 18]
    assert trains.feature_names[:2] == ("C0", "C1=bucket")
    tiger = read_bags(data_dir / "original" / "tiger_100x100_matlab.mat")
    assert tiger.is_sparse
    assert sorted(set(tiger.y.tolist())) == [-1, 1]
    trec = read_bags(data_dir / "original" / "sparse_trec1.data")
    assert trec.n_features > 66_000
