"""``as_bags``: all that its docstring lists, in every kind of table."""

import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from pigmil import Bags, as_bags
from pigmil._core.errors import BagsError
from pigmil.bags import is_plain_table
from pigmil.bags._convert import is_bag_list

LONG = {
    "bag": ["a", "b", "a"],
    "bag_label": [1, 0, 1],
    "instance_label": [0, 0, 1],
    "x": [1.0, 2.0, 3.0],
    "z": [4, 5, 6],
}
FRAMES = [pd.DataFrame, pl.DataFrame, pa.table]
frames = pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars", "arrow"])


class TestArrays:
    def test_bags_come_back_as_they_are(self):
        bags = Bags.from_list([np.ones((2, 1))])
        assert as_bags(bags) is bags
        assert as_bags(bags, y=[3]).y.tolist() == [3]

    def test_two_dimensions_are_bags_of_one(self):
        table = np.arange(6.0).reshape(3, 2)
        bags, sparse = as_bags(table, y=[0, 1, 0]), as_bags(sp.coo_array(table), y=[0, 1, 0])
        assert bags.sizes.tolist() == [1, 1, 1]
        assert bags.y.tolist() == [0, 1, 0]
        assert np.shares_memory(bags.instances, table)
        assert as_bags(table.tolist(), y=[0, 1, 0]).equals(bags)
        assert sparse.is_sparse
        assert sparse.equals(bags)

    def test_lists_of_several_kinds(self):
        holder = np.empty(2, dtype=object)
        holder[0], holder[1] = np.ones((2, 1)), np.ones((3, 1))
        assert as_bags(holder).sizes.tolist() == [2, 3]
        assert as_bags([pd.DataFrame({"x": [1.0, 2.0]}), np.ones((1, 1))]).sizes.tolist() == [2, 1]
        assert as_bags([sp.csr_array(np.eye(2)), np.ones((1, 2))]).is_sparse

    @pytest.mark.parametrize(
        ("thing", "message"),
        [
            (np.ones(3), r"ndarray with 1 dimension\(s\). Expected Bags, a list of 2-D arrays"),
            (3, r"int with 0 dimension\(s\)"),
            ("file.csv", r"str with 0 dimension\(s\)"),
            (None, r"NoneType with 0 dimension\(s\)"),
            ([], r"list with 1 dimension\(s\)"),
            (np.ones((1, 1, 1, 1)), r"ndarray with 4 dimension\(s\)"),
            ([[1, 2], [3]], "expected a list of 2-D arrays, one per bag, or a rectangular array"),
            ([[[1, 2], [3]], [[1, 2]]], "Bag 0 is not a table"),
            (np.ones((2, 0, 3)), "Bag 0 has no instances"),
            (np.ones((2, 0)), "The instances have no features"),
            (np.ones((0, 2)), "offsets must be a 1-D array of integers"),
        ],
    )
    def test_what_holds_no_bags(self, thing, message):
        with pytest.raises(BagsError, match=message):
            as_bags(thing)

    def test_bag_column_of_what_has_none(self):
        with pytest.raises(BagsError, match="bag='id' names a column, but ndarray has none"):
            as_bags(np.ones((2, 2)), bag="id")


@frames
class TestFrames:
    def test_long_table_with_the_names_of_the_field(self, frame):
        bags = as_bags(frame(LONG))
        assert bags.ids.tolist() == ["a", "b"]
        assert bags.y.tolist() == [1, 0]
        assert bags.feature_names == ("x", "z")
        assert bags.instances.tolist() == [[1, 4], [3, 6], [2, 5]]
        assert bags.instance_labels.tolist() == [0, 1, 0]
        assert bags.instance_info["row"].tolist() == [0, 2, 1]

    def test_columns_named_by_the_user(self, frame):
        names = {"bag": "molecule", "label": "musk", "instance_label": "truth"}
        columns = ("bag", "bag_label", "instance_label")
        renamed = {new: LONG[old] for new, old in zip(names.values(), columns, strict=True)}
        bags = as_bags(frame({**renamed, "x": LONG["x"]}), **names)
        assert bags.ids.tolist() == ["a", "b"]
        assert bags.y.tolist() == [1, 0]
        assert bags.feature_names == ("x",)
        assert bags.instance_labels.tolist() == [0, 1, 0]

    def test_labels_given_and_types_of_columns(self, frame):
        assert as_bags(frame(LONG), y=[6, 5]).y.tolist() == [6, 5]
        bags = as_bags(frame({"bag": [1, 1], "x": [0.5, 1.5], "flag": [True, False]}))
        assert bags.instances.tolist() == [[0.5, 1.0], [1.5, 0.0]]
        small = frame({"bag": [1, 1], "x": np.array([1, 2], dtype=np.float32)})
        assert as_bags(small).dtype == np.float32
        without_bags = as_bags(frame({"x": [1.0, 2.0], "z": [3.0, 4.0]}))
        assert without_bags.sizes.tolist() == [1, 1]
        assert without_bags.feature_names == ("x", "z")

    @pytest.mark.parametrize(
        ("table", "bag", "message"),
        [
            (LONG, "id", "no column for bag='id'; its columns are 'bag'"),
            ({**LONG, "name": ["p", "q", "r"]}, None, r"'name' are not numeric\. Encode them"),
            ({"bag": [1, 2]}, None, "no feature columns; its columns are"),
            ({"bag": ["a", None], "x": [1.0, 2.0]}, None, "Row 1: there is no bag id"),
            (
                {"bag": ["a", "a"], "x": [1.0, None]},
                None,
                r"'a'\), instance 1: feature 0 \('x'\) is nan",
            ),
        ],
    )
    def test_refused(self, frame, table, bag, message):
        with pytest.raises(BagsError, match=message):
            as_bags(frame(table), bag=bag)


def test_pandas_nullable_numbers_and_categories():
    table = pd.DataFrame({"bag": pd.Categorical(["b", "a"]), "x": pd.array([1, 2], dtype="Int64")})
    bags = as_bags(table)
    assert bags.ids.tolist() == ["b", "a"]
    assert bags.instances.ravel().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("thing", "is_list", "is_table"),
    [
        ([np.ones((2, 2))], True, False),
        ([[[1, 2]], [[3, 4], [5, 6]]], True, False),
        (np.ones((2, 2, 2)), False, False),
        (np.ones((2, 2)), False, True),
        ([[1, 2], [3, 4]], False, True),
        (sp.csr_array(np.eye(2)), False, True),
        (Bags.from_list([np.ones((2, 2))]), False, False),
    ],
)
def test_lists_and_tables_are_distinguished(thing, is_list, is_table):
    assert is_bag_list(thing) == is_list
    assert is_plain_table(thing) == is_table


class TestSeveralArrays:
    """Dicts, iterators and columns of lists."""

    ARRAYS: ClassVar = {"p": np.arange(4.0).reshape(2, 2), "q": np.array([[4.0, 5.0]])}

    def test_dict_and_iterator(self):
        bags = as_bags(self.ARRAYS, y=[0, 1])
        assert bags.ids.tolist() == ["p", "q"]
        assert bags.sizes.tolist() == [2, 1]
        assert as_bags(array for array in self.ARRAYS.values()).sizes.tolist() == [2, 1]
        assert not is_plain_table(self.ARRAYS)
        assert not is_plain_table(iter(self.ARRAYS.values()))

    def test_polars_column_of_lists(self):
        column = pl.Series([array.tolist() for array in self.ARRAYS.values()])
        bags = as_bags(column, y=[0, 1])
        assert bags.instances.tolist() == [[0, 1], [2, 3], [4, 5]]
        assert bags.sizes.tolist() == [2, 1]
        frame = pl.DataFrame({"bag": ["p", "q"], "label": [0, 1], "v": column})
        assert as_bags(frame).equals(as_bags(self.ARRAYS, y=[0, 1]))
        with pytest.raises(BagsError, match=r"Bag 1 has shape \(0,\)"):
            as_bags(pl.Series([[[1.0, 2.0]], None]))
        with pytest.raises(BagsError, match="double where lists of numbers are expected"):
            as_bags(pl.Series([[1.0, 2.0]]))

    def test_dataset_through_arrow(self, monkeypatch):
        """A stand-in for ``datasets.Dataset``, which hands out Arrow tables."""

        class Dataset:
            def with_format(self, name):
                assert name == "arrow"
                return self

            def __getitem__(self, rows):
                vectors = [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
                return pa.table({"bag": ["p", "p", "q"], "label": [0, 0, 1], "v": vectors})

        monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(Dataset=Dataset))
        assert as_bags(Dataset()).equals(as_bags(self.ARRAYS, y=[0, 1]))
        assert not is_plain_table(Dataset())
