"""Long tables: roles of columns, types of ids and labels, problems and their place."""

import gzip
import pickle

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet
import pytest

from pigmil import Bags, as_bags, read_bags, scan_bags, write_bags
from pigmil._core.errors import BagFormatError, BagsError
from pigmil.io import detect_format, formats

GOOD = "bag,bag_label,a,b\nx,1,0.5,1\nx,1,1.5,2\ny,0,2.5,3\n"
RELATIONAL = """% as WEKA writes it
@relation m
@attribute id {a,b}
@attribute bag relational
@attribute f1 numeric
@attribute f2 real
@attribute instance_label {0,1}
@end bag
@attribute site {u,v}
@attribute class {0,1}
@data
a,"1,2,0\\n3,4,1",u,1
b,"5,6,?",v,0
"""


def table(tmp_path, text, name="bags.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def workbook(tmp_path, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "bags.xlsx")
    return tmp_path / "bags.xlsx"


def test_columns_by_their_usual_names(tmp_path):
    bags = read_bags(table(tmp_path, GOOD))
    assert bags.ids.tolist() == ["x", "y"]
    assert bags.y.tolist() == [1, 0]
    assert bags.feature_names == ("a", "b")
    np.testing.assert_array_equal(bags.instances, [[0.5, 1], [1.5, 2], [2.5, 3]])


@pytest.mark.parametrize(("bag", "label"), [("molecule", "musk"), (0, 1), (-4, "musk")])
def test_columns_by_name_or_position(tmp_path, bag, label):
    path = table(tmp_path, GOOD.replace("bag,bag_label", "molecule,musk"))
    bags = read_bags(path, bag=bag, label=label)
    assert bags.y.tolist() == [1, 0]
    assert bags.feature_names == ("a", "b")
    assert read_bags(path, bag=bag, label=label, features="b").feature_names == ("b",)


def test_no_header(tmp_path):
    path = table(tmp_path, GOOD.partition("\n")[2])
    bags = read_bags(path, bag=0, label=1, header=False)
    assert bags.ids.tolist() == ["x", "y"]
    assert bags.feature_names is None
    assert bags.n_instances == 3


EUROPEAN = {
    "semicolons": (GOOD.replace(",", ";").replace(".", ","), {}),
    "tabs": (GOOD.replace(",", "\t").replace(".", ","), {}),
    "bars": (GOOD.replace(",", "|"), {}),
    "quoted in commas": (GOOD.replace("0.5", '"0,5"').replace("1.5", '"1,5"')
                         .replace("2.5", '"2,5"'), {}),
    "blank lines": ("\n\r\n" + GOOD, {}),
    "quoted header after a mark": ("\ufeff" + GOOD.replace("bag,", '"bag",', 1), {}),
    "latin-1": (GOOD.replace("x", "é").encode("latin-1"), {"encoding": "latin-1"}),
    "utf-16": (GOOD.encode("utf-16"), {"encoding": "utf-16"}),
    "gzip": (gzip.compress(GOOD.encode()), {}),
    "given": (GOOD.replace(",", ":"), {"delimiter": ":"}),
}  # fmt: skip


@pytest.mark.parametrize("case", EUROPEAN)
def test_delimiter_decimal_and_encoding(tmp_path, case):
    text, options = EUROPEAN[case]
    bags = read_bags(table(tmp_path, text), **options)
    assert bags.feature_names == ("a", "b")
    np.testing.assert_array_equal(bags.instances, [[0.5, 1], [1.5, 2], [2.5, 3]])


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_european_table_with_missing_values_in_one_go(tmp_path, kind):
    text = "bag;label;a;name\n7;ja;1,5;x\n7;ja;NA;x\n8;nein;;y\n"
    rows = [line.split(";") for line in text.splitlines()]
    path = table(tmp_path, text) if kind == "csv" else workbook(tmp_path, rows)
    bags = read_bags(path, missing_values="keep", info="name")
    np.testing.assert_array_equal(bags.instances, [[1.5], [np.nan], [np.nan]])
    assert bags.ids.tolist() == [7, 8]
    assert bags.y.tolist() == ["ja", "nein"]
    assert bags.instance_info["name"].tolist() == ["x", "x", "y"]
    with pytest.raises(BagFormatError, match="missing_values='keep'"):
        read_bags(path, info="name")


def test_a_comma_that_may_separate_thousands_is_asked_for(tmp_path):
    path = table(tmp_path, "bag\tx\na\t1,234\nb\t2,345\n")
    with pytest.raises(BagFormatError, match=r"Pass decimal=','") as caught:
        read_bags(path)
    assert caught.value.parameter == "decimal"
    assert read_bags(path, decimal=",").instances.ravel().tolist() == [1.234, 2.345]


def test_decimal_commas_after_the_sample_are_no_info(tmp_path):
    text = "bag;x\n" + "a;1\n" * 150 + "a;1,5\n"
    with pytest.raises(BagFormatError, match=r"row 152, column 'x'.*Pass decimal=','") as caught:
        read_bags(table(tmp_path, text))
    assert "info" not in str(caught.value)
    with pytest.raises(BagFormatError, match=r"row 2, column 'x'.*Pass decimal=','"):
        read_bags(workbook(tmp_path, [["bag", "x", "y"], ["a", "1,5", "1.5"]]))
    for cell, message in (("1.234,5", "signs between thousands"), ("w", r"Correct it\.$")):
        with pytest.raises(BagFormatError, match=f"row 3, column 'x': '{cell}'.*{message}"):
            read_bags(table(tmp_path, f"bag;x\na;1,5\na;{cell}\n"))


def test_rows_may_be_longer_than_a_cell(tmp_path):
    text = "bag," + ",".join(f"f{at}" for at in range(30_000)) + "\na" + ",1" * 30_000 + "\n"
    assert read_bags(table(tmp_path, text)).n_features == 30_000


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_of_a_bag_need_not_be_neighbours(tmp_path, suffix):
    rows = "bag,bag_label,instance_label,a\nx,1,0,1\ny,0,0,2\nx,1,1,3\nz,1,1,4\ny,0,0,5\n"
    path = table(tmp_path, rows)
    if suffix == "parquet":
        pyarrow.parquet.write_table(
            pyarrow.csv.read_csv(path), tmp_path / "a.parquet", row_group_size=2
        )
        path = tmp_path / "a.parquet"
    bags = read_bags(path)
    assert bags.ids.tolist() == ["x", "y", "z"]
    assert bags.y.tolist() == [1, 0, 1]
    assert bags.sizes.tolist() == [2, 2, 1]
    assert bags.instances.ravel().tolist() == [1, 3, 2, 5, 4]
    assert bags.instance_labels.tolist() == [0, 1, 0, 0, 1]
    assert bags.instance_info["row"].tolist() == [0, 2, 1, 4, 3]
    last = scan_bags(path)[["z"]]
    for part in (last, pickle.loads(pickle.dumps(last))):
        assert part.load().instance_info["row"].tolist() == [3]


PROBLEMS = {
    "no bag column": (GOOD.replace("bag,", "molecule,", 1), r"no column 'bag'.*'molecule', "),
    "missing value": (GOOD.replace("1.5", ""), r"'x'\), instance 1: feature 0 \('a'\) is nan"),
    "infinite": (GOOD.replace("1.5", "inf"), r"'x'\), instance 1: feature 0 \('a'\) is inf"),
    "word": (GOOD.replace("1.5", "oops"), r"row 3, column 'a': 'oops' is not a number"),
    "words": (GOOD.replace(",1\n", ",u\n").replace("2.5", "w"),
              r"row 4, column 'a': 'w' is not a number.*info=\['a', 'b'\]"),
    "short row": (GOOD.replace("x,1,1.5,2", "x,1,1.5"), r"Expected 4 columns, got 3"),
    "long row": (GOOD.replace("1.5,2", "1.5,2,9"), r"Expected 4 columns, got 5"),
    "no bag id": (GOOD.replace("y,0", ",0"), r"row 4: there is no bag id"),
    "bag id nan": (GOOD.replace("y,0", "nan,0"), r"row 4: there is no bag id"),
    "no label": (GOOD.replace("y,0", "y,"), r"row 4: the bag 'y' has no label"),
    "label nan": (GOOD.replace("y,0", "y,nan"), r"row 4: the bag 'y' has no label"),
    "label NA": (GOOD.replace("y,0", "y,NA"), r"row 4: the bag 'y' has no label"),
    "labels vary": (GOOD.replace("x,1,1.5", "x,0,1.5"), r"row 3: the bag 'x' is labelled 0 here"),
    "header only": ("bag,bag_label,a\n", r"holds no instances"),
    "no features": ("bag,bag_label\nx,1\n", r"no feature columns"),
    "same names": ("bag,a,a\nx,1,2\n", r"several columns of the name 'a'"),
    "one column": ("bag\nx\n", r"only one column.*delimiter="),
    "no header": ("1,2,3\n1,2,3\n", r"header=False"),
    "latin-1": (GOOD.replace("y,", "é,").encode("latin-1"), r"not valid UTF-8.*encoding="),
    "utf-16": (GOOD.encode("utf-16"), r"encoding='utf-16'"),
    "zeros": (b"\0" * 50, r"not UTF-8 text"),
    "contradiction": (
        "bag,bag_label,instance_label,a\nx,1,1,2\ny,0,1,3\ny,0,0,3\n",
        r"'y'.* is negative but 1 of its instances",
    ),
    "unknown instance labels of text": (
        "bag,bag_label,instance_label,a\nx,p,p,2\nx,p,,3\n",
        r"instance labels that are text, and some are missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS)
def test_problems_are_reported_with_their_place(tmp_path, problem):
    text, message = PROBLEMS[problem]
    with pytest.raises(BagFormatError, match=rf"(?s)bags\.csv.*{message}"):
        read_bags(table(tmp_path, text))


def test_one_column_one_role(tmp_path):
    with pytest.raises(BagFormatError, match="given two roles"):
        read_bags(table(tmp_path, GOOD), bag="bag", label="bag")
    with pytest.raises(BagFormatError, match="no column for info='site', label='musk'"):
        read_bags(table(tmp_path, GOOD), label="musk", info="site")


def test_ids_that_look_like_numbers_or_missing_values(tmp_path):
    path = table(tmp_path, "bag,a\n1,0\n2,0\n")
    assert read_bags(path).ids.tolist() == [1, 2]
    assert read_bags(path, ids=str).ids.tolist() == ["1", "2"]
    assert read_bags(table(tmp_path, "bag,a\n01,0\n2,0\n")).ids.tolist() == ["01", "2"]
    assert read_bags(table(tmp_path, "bag,a\nNA,0\nDE,0\n"), ids=str).ids.tolist() == ["NA", "DE"]
    with pytest.raises(BagFormatError, match="ids must be None or"):
        read_bags(path, ids=int)


NULLS = {
    "scattered nulls": ("bag", [1, None, 1, 2, None, 2], 1),
    "null in a bag": ("bag", [1, 1, None, 2, 2, 2], 2),
    "nan": ("bag", [1.0, 1.0, float("nan"), 2.0, 2.0, 2.0], 2),
    "text": ("bag", ["a", "a", None, "b", "b", "b"], 2),
    "label": ("label", [1, 1, None, 0, 0, 0], 2),
}


@pytest.mark.parametrize("case", NULLS)
def test_missing_ids_and_labels_are_refused_with_the_row(tmp_path, case):
    role, values, row = NULLS[case]
    columns = {"bag": [1, 1, 2, 3, 3, 3], "label": [1, 1, 0, 1, 1, 1], "x": np.arange(6.0)}
    frame = pa.table(columns | {role: values})
    pyarrow.parquet.write_table(frame, tmp_path / "a.parquet")
    message = "there is no bag id" if role == "bag" else "the bag 2 has no label"
    with pytest.raises(BagFormatError, match=f"row {row + 1}: {message}"):
        scan_bags(tmp_path / "a.parquet")
    for X in (frame, frame.to_pandas(), pl.from_arrow(frame)):
        with pytest.raises(BagsError, match=f"Row {row}: {message}"):
            as_bags(X)


def test_ids_and_labels_keep_their_type(tmp_path):
    columns = {"bag": pa.array([2**60 + 1, 7], pa.int64()), "label": pa.array([True, False])}
    pyarrow.parquet.write_table(pa.table({**columns, "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    lazy = scan_bags(tmp_path / "a.parquet")
    assert lazy.ids.tolist() == [2**60 + 1, 7]
    assert lazy.y.dtype == bool
    columns["bag"] = pa.array(["1", "02"])
    pyarrow.parquet.write_table(pa.table({**columns, "x": [1.0, 2.0]}), tmp_path / "a.parquet")
    assert read_bags(tmp_path / "a.parquet").ids.tolist() == ["1", "02"]


def test_duplicate_columns_are_an_error(tmp_path):
    arrays = [pa.array(["a"]), pa.array([1.0]), pa.array([2.0])]
    twice = pa.Table.from_arrays(arrays, names=["bag", "x", "x"])
    pyarrow.parquet.write_table(twice, tmp_path / "a.parquet")
    for scan in (scan_bags, read_bags):
        with pytest.raises(BagFormatError, match="several columns of the name 'x'"):
            scan(tmp_path / "a.parquet")
    with pytest.raises(BagFormatError, match="several columns of the name 'x'"):
        read_bags(workbook(tmp_path, [["bag", "x", "x"], ["a", 1, 2]]))
    with pytest.raises(BagsError, match="several columns of the name 'x'"):
        as_bags(pd.DataFrame([["a", 1.0, 2.0]], columns=["bag", "x", "x"]))


class TestArrow:
    """Parquet, Arrow and Feather files, folders and columns of lists."""

    BAGS = Bags.from_list(
        [np.arange(6.0).reshape(3, 2), np.arange(4.0).reshape(2, 2)], ids=["a", "b"], y=[1, 0]
    )

    def long(self, **more):
        columns = self.BAGS.to_columns()
        return pa.table({name: pa.array(values) for name, values in (columns | more).items()})

    def vectors(self, kind):
        return pa.array(self.BAGS.instances.tolist(), kind)

    @pytest.mark.parametrize("write", [pyarrow.parquet.write_table, pyarrow.feather.write_feather])
    @pytest.mark.parametrize("kind", [pa.list_(pa.float64(), 2), pa.list_(pa.float64())])
    def test_a_column_of_vectors(self, tmp_path, write, kind):
        path = tmp_path / ("a.parquet" if "parquet" in write.__module__ else "a.feather")
        write(self.long().append_column("v", self.vectors(kind)), path)
        assert read_bags(path).equals(self.BAGS)
        assert scan_bags(path)[["b"]].load().instances.tolist() == [[0, 1], [2, 3]]

    def test_a_stream_and_content_without_suffix(self, tmp_path):
        frame = self.long().append_column("v", self.vectors(pa.list_(pa.float64(), 2)))
        stream = pa.ipc.new_stream(str(tmp_path / "a.arrow"), frame.schema)
        stream.write_table(frame)
        stream.close()
        assert read_bags(tmp_path / "a.arrow").equals(self.BAGS)

    def test_one_row_per_bag(self, tmp_path):
        path, base = tmp_path / "a.parquet", {"bag": ["a", "b"], "label": [1, 0]}
        depth = [[3, 2, 1], [5, 4]]
        frame = pa.table(base | {"v": [bag.tolist() for bag in self.BAGS], "depth": depth})
        pyarrow.parquet.write_table(frame, path)
        for bags in (
            read_bags(path, info="depth"),
            as_bags(frame, info="depth"),
            as_bags(pl.from_arrow(frame), info="depth"),
        ):
            assert bags.equals(self.BAGS.with_info(instance_info={"depth": [3, 2, 1, 5, 4]}))

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"v": [[[1.0]], [[2.0]]], "depth": [[1], [1, 2]]}, "'depth' is not a list with one"),
            ({"v": [[[1.0]], [[2.0]]], "depth": [1, 2]}, "'depth' is not a list with one"),
            ({"v": [[1.0], [2.0]], "w": [1, 2]}, r"'v', 'w' some are lists; expected one column"),
            ({"v": [[[1.0]], []]}, "or no instances"),
            ({"v": [[1.0], [2.0, 3.0]]}, "vectors of 2 different lengths"),
        ],
    )
    def test_lists_that_do_not_fit(self, tmp_path, columns, message):
        frame = pa.table({"bag": ["a", "b"], "label": [1, 0]} | columns)
        pyarrow.parquet.write_table(frame, tmp_path / "a.parquet")
        info = [name for name in columns if name == "depth"]
        with pytest.raises(BagFormatError, match=message):
            read_bags(tmp_path / "a.parquet", info=info)

    def test_folders_and_partitions(self, tmp_path):
        """As pyarrow writes data sets: the bag, its label and its site are names of folders."""
        frame = self.long(site=np.array(["u v"] * 3 + ["w"] * 2), x=np.arange(5.0))
        pyarrow.dataset.write_dataset(
            frame,
            tmp_path,
            format="parquet",
            partitioning=["site", "bag_label", "bag"],
            partitioning_flavor="hive",
        )
        (tmp_path / "_SUCCESS").write_text("")
        bags = read_bags(tmp_path)
        assert dict(zip(bags.ids.tolist(), bags.y.tolist(), strict=True)) == {"a": 1, "b": 0}
        assert bags.bag_info["site"].tolist() == ["u v", "w"]
        assert bags.instances.ravel().tolist() == [0, 1, 2, 3, 4]

    def test_values_of_partitions(self, tmp_path):
        """They have one type in all folders, and a missing one is no value."""
        codes = np.array(["07", "7", "b"])
        frame = pa.table(
            {"bag": codes, "bag_label": [-1, 1, -1], "site": [None, 2, 3], "x": [1.0] * 3}
        )
        names = ["bag", "bag_label", "site"]
        pyarrow.parquet.write_to_dataset(frame, tmp_path / "good", partition_cols=names)
        bags = read_bags(tmp_path / "good")
        assert dict(zip(bags.ids, bags.y, strict=True)) == {"07": -1, "7": 1, "b": -1}
        np.testing.assert_array_equal(bags.bag_info["site"].astype(float), [np.nan, 2, 3])
        frame = pa.table({"bag": ["a", None], "x": [1.0, 2.0]})
        pyarrow.parquet.write_to_dataset(frame, tmp_path / "bad", partition_cols=["bag"])
        with pytest.raises(BagFormatError, match="row 1: there is no bag id"):
            scan_bags(tmp_path / "bad")

    def test_a_bag_over_several_files_is_joined(self, tmp_path):
        for name, label in (("0", 1), ("1", 1), ("2", 0)):
            columns = {"bag": ["a"], "label": [label], "x": [float(name)]}
            pyarrow.parquet.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        first = [tmp_path / "0.parquet", tmp_path / "1.parquet"]
        assert read_bags(first).instances.ravel().tolist() == [0, 1]
        with pytest.raises(BagFormatError, match=r"the bag 'a' is labelled . here and . before"):
            read_bags(tmp_path)

    def test_subsets_read_the_same_rows(self, tmp_path):
        rng = np.random.default_rng(0)
        owner = rng.integers(0, 40, size=3000)
        frame = pd.DataFrame(rng.normal(size=(3000, 5))).add_prefix("f").assign(bag=owner)
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=170)
        lazy, whole = scan_bags(tmp_path / "a.parquet"), as_bags(frame)
        assert lazy.load().equals(whole)
        for chosen in ([3, 1, 1], np.arange(40)[::-3], lazy.ids > 20):
            read = lazy[chosen].load()
            np.testing.assert_array_equal(read.instances, whole[chosen].instances)
            np.testing.assert_array_equal(read.offsets, whole[chosen].offsets)


class TestOtherTables:
    """Excel, ARFF and svmlight."""

    def test_excel(self, tmp_path):
        rows = [
            ["bag", "label", "when", "x"],
            [1, "p", 2.0, 0.5],
            [2.0, "n", None, 1],
            [1, "p", 2, 3],
        ]
        bags = read_bags(workbook(tmp_path, rows), info=["when"])
        assert bags.ids.tolist() == [1, 2]
        assert bags.instances.ravel().tolist() == [0.5, 3, 1]
        assert bags.y.tolist() == ["p", "n"]
        rows[2][0] = None
        with pytest.raises(BagFormatError, match="row 3: there is no bag id"):
            read_bags(workbook(tmp_path, rows), info=["when"])
        rows = [["bag", "x", "word"], [1, 2, "u"]]
        with pytest.raises(BagFormatError, match=r"column 'word': 'u' is not a number.*info="):
            read_bags(workbook(tmp_path, rows))

    def test_relational_arff(self, tmp_path):
        bags = read_bags(table(tmp_path, RELATIONAL, "a.arff"))
        assert bags.ids.tolist() == ["a", "b"]
        assert bags.y.tolist() == [1, 0]
        assert bags.instances.tolist() == [[1, 2], [3, 4], [5, 6]]
        np.testing.assert_array_equal(bags.instance_labels, [0, 1, np.nan])
        assert bags.bag_info["site"].tolist() == ["u", "v"]
        assert detect_format(table(tmp_path, RELATIONAL, "a")).name == "arff"

    def test_flat_arff(self, tmp_path):
        text = "@relation m\n@attribute bag {a,b}\n@attribute x numeric\n@attribute class {p,n}\n"
        bags = read_bags(table(tmp_path, text + "@data\na,1,p\nb,2,n\na,3,p\n", "a.arff"))
        assert (bags.ids.tolist(), bags.y.tolist()) == (["a", "b"], ["p", "n"])
        assert bags.instances.ravel().tolist() == [1, 3, 2]

    @pytest.mark.parametrize("case", ["string", "sparse"])
    def test_arff_that_is_refused_with_a_hint(self, tmp_path, case):
        text = RELATIONAL.replace("{a,b}", "string")
        if case == "sparse":
            text = "@relation m\n@attribute bag {a}\n@attribute f numeric\n@data\n{0 a, 1 2}\n"
        with pytest.raises(BagFormatError, match="Text attributes, sparse rows"):
            read_bags(table(tmp_path, text, "a.arff"))

    def test_svmlight(self, tmp_path):
        path = table(tmp_path, "1 qid:1 1:2.5\n0 qid:2 3:1\n", "a.svm")
        bags = read_bags(path)
        assert bags.is_sparse
        assert bags.instances.toarray().tolist() == [[2.5, 0, 0], [0, 0, 1]]
        assert (bags.ids.tolist(), bags.y.tolist()) == ([1, 2], [1, 0])
        assert detect_format(table(tmp_path, path.read_bytes(), "a")).name == "svmlight"
        with pytest.raises(BagFormatError, match="qid in 0 of 1 lines"):
            read_bags(table(tmp_path, "1 1:2\n", "a.svm"))


CONTENT = {
    "csv": lambda bags, path: path.write_text(GOOD),
    "parquet": lambda bags, path: pyarrow.parquet.write_table(pa.table({"bag": [1]}), path),
    "arrow": lambda bags, path: pyarrow.feather.write_feather(pa.table({"bag": [1]}), str(path)),
    "npz": lambda bags, path: write_bags(bags, path, format="npz"),
    "h5": lambda bags, path: write_bags(bags, path, format="h5"),
    "xlsx": lambda bags, path: openpyxl.Workbook().save(path),
}


@pytest.mark.parametrize("name", CONTENT)
def test_a_format_is_detected_by_its_content(tmp_path, name):
    CONTENT[name](TestArrow.BAGS, tmp_path / "noname")
    assert detect_format(tmp_path / "noname").name == name
    if name in ("npz", "h5"):
        assert read_bags(tmp_path / "noname").equals(TestArrow.BAGS)


def test_formats_that_are_not_known(tmp_path):
    with pytest.raises(BagFormatError, match=r"cannot be detected.*read_original"):
        detect_format(table(tmp_path, "1 2 3\n", "a.txt"))
    with pytest.raises(BagFormatError, match=r"format='keel' is not known") as caught:
        read_bags(table(tmp_path, GOOD), format="keel")
    assert caught.value.parameter == "format"
    with pytest.raises(BagFormatError, match="there is no such file"):
        read_bags(tmp_path / "no.csv")
    write_bags(TestArrow.BAGS, tmp_path / "a.npz")
    with pytest.raises(BagFormatError, match="'npz' has no columns to name"):
        read_bags(tmp_path / "a.npz", bag="bag")


@pytest.mark.parametrize("name", [name for name, entry in formats().items() if entry.write])
@pytest.mark.parametrize("sparse", [False, True])
def test_round_trip(tmp_path, name, sparse):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(6, 3)) * rng.integers(0, 2, size=(6, 3))
    bags = Bags(
        values, [0, 2, 5, 6], ids=["4", "é\"',\n;", "=1"], y=["no", "yes", "no"],
        instance_labels=[0, 0, 1, 0, np.nan, 0], feature_names=["u", "v w", "1"],
        bag_info={"site": [1, 2, 3], "ward": ["x", "", "z"]},
        instance_info={"name": list("abcdef"), "depth": np.arange(6) / 7},
    )  # fmt: skip
    import scipy.sparse as sp

    stored = bags.with_instances(sp.csr_array(values), feature_names=bags.feature_names)
    path = tmp_path / f"bags{formats()[name].suffixes[0]}"
    write_bags(stored if sparse else bags, path)
    options = {}
    if name == "csv":
        options = {"info": ["name", "depth"], "bag_info": ["site", "ward"], "ids": str}
    read = read_bags(path, **options)
    assert read.equals(bags)
    assert read.is_sparse == (sparse and name == "npz")
    assert read_bags(path, dtype="float32", **options).dtype == np.float32


def test_what_cannot_be_written(tmp_path):
    bags = TestArrow.BAGS
    wide = bags.with_info(instance_info={"coords": np.zeros((5, 2))})
    odd = bags.with_info(bag_info={"o": np.array([{}, {}])})
    for X, name, message in (
        (bags, "a.arff", "'arff' can be read but not written"),
        (bags, "a.foo", r"no format has the suffix '\.foo'"),
        (bags[[0, 0]], "a.npz", "some ids occur more than once"),
        (wide, "a.csv", "CSV cannot hold 'coords'"),
        (odd, "a.npz", "of type dict; turn them into text or numbers"),
    ):
        with pytest.raises(BagFormatError, match=message):
            write_bags(X, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
