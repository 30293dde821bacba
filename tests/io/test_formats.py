"""``read_bags`` and ``write_bags``: detecting formats, accepting and refusing options."""

import shutil

import numpy as np
import pytest

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import detect_format, formats


def test_format_is_detected(written, format_name, read_options, plain_bags):
    assert read_bags(written, **read_options).y.tolist() == plain_bags.y.tolist()


def test_format_is_detected_without_a_suffix(written, format_name):
    """Binary formats by their first bytes, text formats of their own look by their first line."""
    bare = written.with_name("bare")
    shutil.copy(written, bare)
    alias = {"parquet_list": "parquet", "mat_prtools": "mat"}
    if format_name in ("csv", "tsv"):
        with pytest.raises(BagFormatError, match="cannot be detected"):
            detect_format(bare)
    else:
        assert detect_format(bare).name == alias.get(format_name, format_name)


def test_suffix_of_another_format_does_not_mislead(plain_bags, tmp_path):
    path = tmp_path / "really_parquet.csv"
    write_bags(plain_bags, path, format="parquet")
    assert read_bags(path).ids.tolist() == plain_bags.ids.tolist()


def test_anything_that_holds_bags_is_written(tmp_path):
    write_bags([np.zeros((2, 2)), np.ones((1, 2))], tmp_path / "list.npz")
    assert read_bags(tmp_path / "list.npz").sizes.tolist() == [2, 1]


def test_sparse_bags_choose_the_sparse_data_file(tmp_path):
    import scipy.sparse as sp

    bags = Bags(sp.csr_array(np.eye(2)), [0, 1, 2], y=[0, 1])
    write_bags(bags, tmp_path / "s.data")
    back = read_bags(tmp_path / "s.data")
    assert back.is_sparse
    assert back.equals(bags)


def test_every_format_describes_itself():
    for name, one in formats().items():
        assert one.name == name
        assert one.title
        assert one.suffixes
        assert all(callable(function) for function in one.load())


def test_options_are_understood_or_refused(written, format_name):
    with pytest.raises(TypeError, match=rf"'colour'.*{format_name}"):
        read_bags(written, format=format_name, colour="red")
    with pytest.raises(BagFormatError, match="format='docx' is not known"):
        read_bags(written, format="docx")
    with pytest.raises(BagFormatError, match="not float32 or float64"):
        read_bags(written, format=format_name, dtype="int8")
    kind = formats()[format_name]
    if not kind.columns:
        with pytest.raises(BagFormatError, match="no columns to name"):
            read_bags(written, format=format_name, bag="bag")
    if not kind.streams:
        with pytest.raises(BagFormatError, match="memory_map= is not available for"):
            read_bags(written, format=format_name, memory_map=True)


def test_float32_in_every_format(written, format_name, read_options, plain_bags):
    bags = read_bags(written, format=format_name, dtype=np.float32, **read_options)
    assert bags.dtype == np.float32
    values = bags.instances.toarray() if bags.is_sparse else bags.instances
    np.testing.assert_array_equal(values, plain_bags.instances.astype(np.float32))


def test_ids_and_labels_in_every_format(written, format_name, read_options):
    bags = read_bags(written, format=format_name, ids=str, labels="signs", **read_options)
    assert bags.ids.tolist() == ["4", "7", "1"]
    assert bags.y.tolist() == [1, -1, 1]
