"""Files as other programs write them: WEKA, KEEL, MATLAB, slide tools, Arrow lists."""

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.io
import scipy.io.arff
import scipy.sparse as sp

from pigmil import Bags, read_bags, write_bags
from pigmil._core.errors import BagFormatError
from pigmil.io import _mat5

WEKA = r"""% made by hand
@relation 'musk and more'
@attribute molecule_name {MUSK-jf78,'NON MUSK'}
@attribute bag relational
  @attribute f1 numeric
  @attribute 'f 2' real
@end bag
@attribute class {0,1}

@data
MUSK-jf78,"42,-198\n42,-191",1
'NON MUSK','1,2.5\n',0
"""


def file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_arff_of_weka(tmp_path):
    bags = read_bags(file(tmp_path, "musk.arff", WEKA))
    assert bags.ids.tolist() == ["MUSK-jf78", "NON MUSK"]
    assert bags.y.tolist() == [1, 0]
    assert bags.feature_names == ("f1", "f 2")
    np.testing.assert_array_equal(bags.instances, [[42, -198], [42, -191], [1, 2.5]])


def test_arff_agrees_with_scipy(tmp_path, plain_bags):
    """Where scipy reads a file, it reads the same."""
    path = tmp_path / "bags.arff"
    write_bags(plain_bags, path)
    rows, meta = scipy.io.arff.loadarff(path)
    assert meta.names() == ["bag_id", "bag", "class"]
    bags = read_bags(path)
    assert [int(one) for one in rows["bag_id"]] == bags.ids.tolist()
    assert [int(one) for one in rows["class"]] == bags.y.tolist()
    for found, expected in zip(bags, rows["bag"], strict=True):
        np.testing.assert_array_equal(found, np.array(expected.tolist()))


NOMINAL = """@relation t
@attribute id string
@attribute bag relational
@attribute colour {red,green}
@attribute size numeric
@end bag
@attribute class {a,b}
@data
one,"red,1\\ngreen,2",a
two,"{1 3}",b
{0 three, 1 "green,5", 2 a}
"""


def test_arff_with_words_and_sparse_rows(tmp_path):
    path = file(tmp_path, "t.arff", NOMINAL)
    bags = read_bags(path, nominal="one_hot")
    assert bags.feature_names == ("colour=red", "colour=green", "size")
    np.testing.assert_array_equal(bags.instances, [[1, 0, 1], [0, 1, 2], [1, 0, 3], [0, 1, 5]])
    assert bags.ids.tolist() == ["one", "two", "three"]
    codes = read_bags(path, nominal="codes")
    assert codes.instances[:, 0].tolist() == [0, 1, 0, 1]
    kept = read_bags(path, info=["colour"])
    assert kept.instance_info["colour"].tolist() == ["red", "green", "red", "green"]
    with pytest.raises(BagFormatError, match=r"'colour' are not numeric.*nominal='one_hot'"):
        read_bags(path)


ARFF_PROBLEMS = {
    "no data": (WEKA.partition("@data")[0], "has no @data"),
    "not closed": (WEKA.replace("@end bag", ""), r"line \d+: the relation 'bag' is not closed"),
    "no relation": (
        WEKA.replace(" relational", " numeric").replace("@end bag", ""),
        "has 0 relational",
    ),
    "odd type": (WEKA.replace("f1 numeric", "f1 complex"), "line 5: .*'f1' has the type"),
    "quote": (WEKA.replace('191"', "191"), "line 11: a quote is not closed"),
    "few values": (WEKA.replace("42,-191", "42"), "line 11: expected 2 values, got 1"),
    "word": (WEKA.replace("-191", "x"), "line 11, value 2: 'x' is not a number"),
    "underscore": (WEKA.replace("-191", "1_9"), "line 11, value 2: '1_9' is not a number"),
    "missing": (WEKA.replace("-191", "?"), r"line 11, feature 1 \('f 2'\): the value is missing"),
    "empty bag": (WEKA.replace("'1,2.5\\n'", "''"), "line 12: a bag has no instances"),
    "twice": (WEKA.replace("'NON MUSK','", "MUSK-jf78,'"), "line 12: .*'MUSK-jf78' is labelled"),
    "no label": (WEKA.replace("',0", "',?"), "line 12: the bag 'NON MUSK' has no label"),
    "regular expression": (
        "@relation a\n@attribute (a|a)*b relational\n@attribute x numeric\n@end " + "a" * 40,
        "has no @data",
    ),
}  # fmt: skip


@pytest.mark.parametrize("problem", ARFF_PROBLEMS)
def test_arff_problems(tmp_path, problem):
    text, message = ARFF_PROBLEMS[problem]
    with pytest.raises(BagFormatError, match=rf"(?s)bad\.arff.*{message}"):
        read_bags(file(tmp_path, "bad.arff", text), format="arff")


def test_bag_info_in_text_formats(tmp_path):
    """ARFF keeps attributes of bags by itself; columns of KEEL and C4.5 have to be named."""
    bags = Bags(
        np.arange(6.0).reshape(3, 2), [0, 1, 3], ids=["a", "b"], y=["n", "p"],
        bag_info={"patient": ["p 1", "p 2"], "age": [61, 70]},
    )  # fmt: skip
    write_bags(bags, tmp_path / "b.arff")
    back = read_bags(tmp_path / "b.arff")
    assert back.bag_info["patient"].tolist() == ["p 1", "p 2"]
    assert back.bag_info["age"].tolist() == [61, 70]
    assert back.y.tolist() == ["n", "p"]
    with pytest.raises(BagFormatError, match=r"cannot hold bag_info\['patient'\]"):
        write_bags(bags.with_labels(None), tmp_path / "c.arff")
    with pytest.raises(BagFormatError, match="names that are reserved in arff: 'class'"):
        write_bags(bags.with_info(bag_info={"Class": [1, 2]}), tmp_path / "c.arff")
    (tmp_path / "b.dat").write_text(
        "@relation r\n@attribute id {a,b}\n@attribute site {x,y}\n@attribute f real\n"
        "@attribute class {0,1}\n@data\na, x, 1.5, 0\na, x, 2.5, 0\nb, y, 3.5, 1\n"
    )
    back = read_bags(tmp_path / "b.dat", bag_info=["site"])
    assert back.bag_info["site"].tolist() == ["x", "y"]
    assert back.feature_names == ("f",)
    (tmp_path / "b.data").write_text("a,x,1.5,2,0.\na,x,2.5,2,0.\nb,y,3.5,2,1.\n")
    back = read_bags(tmp_path / "b.data", bag_info=[1])
    assert back.bag_info["1"].tolist() == ["x", "y"]
    assert back.n_features == 2
    with pytest.raises(BagFormatError, match=r"line 2: the bag 'a' has 2 '2\.5' here and '1\.5'"):
        read_bags(tmp_path / "b.data", bag_info=[2])


def test_keel(tmp_path):
    text = (
        "@relation t\n@attribute id {5, 7}\n@attribute a real [0.0, 1.0]\n"
        "@attribute colour{red,green}\n@attribute Class {0, 1}\n@inputs id, a, colour\n"
        "@outputs Class\n@data\n5, 0.5, red, 1\n7, 1.0, green, 0\r\n"
    )
    path = file(tmp_path, "t.dat", text)
    bags = read_bags(path, nominal="one_hot")
    assert bags.ids.tolist() == [5, 7]
    assert bags.y.tolist() == [1, 0]
    np.testing.assert_array_equal(bags.instances, [[0.5, 1, 0], [1, 0, 1]])
    assert read_bags(path, info=["colour"]).n_features == 1
    with pytest.raises(BagFormatError, match=r"line 9.*'blue'"):
        read_bags(file(tmp_path, "t.dat", text.replace("5, red", "5, blue")), nominal="codes")


def test_uci_with_and_without_names(tmp_path):
    path = file(tmp_path, "m.data", "A,A_1,1,2,1.\nA,A_2,3,4,1.\nB,B_1,5,6,0.\n")
    bags = read_bags(path)
    assert bags.y.tolist() == [1, 0]
    assert bags.instances.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert bags.instance_info["1"].tolist() == ["A_1", "A_2", "B_1"]
    file(
        tmp_path, "m.names", "0,1.\nid: A,B.\nname: A_1,A_2,B_1.\nu: continuous.\nv: continuous.\n"
    )
    assert read_bags(path).feature_names == ("u", "v")
    file(tmp_path, "m.names", "0,1.\nid: A,B.\nu: continuous.\n")
    with pytest.raises(BagFormatError, match=r"m\.names declares 2 attributes"):
        read_bags(path)


def test_sparse_lines(tmp_path):
    path = file(tmp_path, "s.data", "i1,A,1,2:0.5,4:1\ni2,A,1\ni3,B,0,1:2\n")
    bags = read_bags(path)
    assert bags.instances.toarray().tolist() == [[0, 0.5, 0, 1], [0, 0, 0, 0], [2, 0, 0, 0]]
    used = read_bags(path, columns="used")
    assert used.feature_names == ("1", "2", "4")
    assert read_bags(path, n_features=6).n_features == 6
    for text, message in {
        "i,A,1,0:1\n": "line 1: has the index 0",
        "i,A,1,2:1,2:3\n": "line 1: the index 2 follows 2",
        "i,A,1,99999999999999999:1\n": "line 1: the index 9+ is too large",
        "i,A,1,4294967296:1\n": "too large",
        "i,A,1,x:1\n": "line 1: expected index:value",
        "i,A,1,1:x\n": "line 1.*'x' is not a number",
        "i,A\n": "line 1: expected instance,bag,label",
        "i,A,1,1:1\ni,A,0,1:1\n": "line 2: the bag 'A' is labelled '0'",
        "i,A,1,1:nan\n": "line 1, feature 0: the value is missing",
    }.items():
        with pytest.raises(BagFormatError, match=message):
            read_bags(file(tmp_path, "s.data", text), format="sparse_mil")
    with pytest.raises(BagFormatError, match="more than the n_features=3"):
        read_bags(file(tmp_path, "s.data", "i,A,1,4:1\n"), format="sparse_mil", n_features=3)


def test_svmlight_agrees_with_scikit_learn(tmp_path, plain_bags):
    from sklearn.datasets import load_svmlight_file

    path = tmp_path / "bags.svm"
    write_bags(plain_bags, path)
    values, target, qid = load_svmlight_file(str(path), query_id=True)
    bags = read_bags(path)
    np.testing.assert_array_equal(values.toarray(), bags.instances.toarray())
    np.testing.assert_array_equal(target, bags.y[bags.bag_index])
    np.testing.assert_array_equal(qid, bags.ids[bags.bag_index])


def test_svmlight_of_others(tmp_path):
    text = "# comment\n+1 qid:3 1:0.5 # why\n-1 qid:4 3:2\n+1 qid:3 2:1\n"
    bags = read_bags(file(tmp_path, "b.txt", text))
    assert bags.ids.tolist() == [3, 4]
    assert bags.y.tolist() == [1, -1]
    assert bags.instances.toarray().tolist() == [[0.5, 0, 0], [0, 1, 0], [0, 0, 2]]
    with pytest.raises(BagFormatError, match="line 1: expected 'label qid:bag"):
        read_bags(file(tmp_path, "b.svm", "1 1:0.5\n"))
    text_ids = Bags(np.ones((1, 1)), [0, 1], ids=["a"], y=[1])
    write_bags(text_ids, tmp_path / "n.svm", number_ids=True)
    assert read_bags(tmp_path / "n.svm").ids.tolist() == [1]
    with pytest.raises(BagFormatError, match="labels as numbers"):
        write_bags(Bags(np.ones((1, 1)), [0, 1], y=["a"]), tmp_path / "n.svm")
    with pytest.raises(BagFormatError, match="needs a label"):
        write_bags(Bags(np.ones((1, 1)), [0, 1]), tmp_path / "n.svm")


def test_npz_with_one_bag_id_per_instance(tmp_path):
    path = tmp_path / "long.npz"
    np.savez(path, instances=np.arange(3)[:, None], bag_ids=np.array(["b", "a", "b"]), y=[1, 0])
    bags = read_bags(path)
    assert bags.ids.tolist() == ["b", "a"]
    assert bags.instances.ravel().tolist() == [0, 2, 1]
    np.savez(path, instances=np.ones((2, 1)))
    with pytest.raises(BagFormatError, match="neither offsets nor bag_ids"):
        read_bags(path)
    np.savez(path, X=np.ones((2, 1)))
    with pytest.raises(BagFormatError, match="no array 'instances'"):
        read_bags(path)
    np.savez(path, instances=np.array([[np.nan]]), offsets=np.array([0, 1]))
    with pytest.raises(BagFormatError, match=r"(?s)long\.npz.*Bag 0, instance 0: feature 0 is nan"):
        read_bags(path)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_mat_of_andrews(tmp_path, compress, sparse):
    features = np.array([[0.0, 1], [2, 0], [3, 4]])
    held = {
        "features": sp.csc_matrix(features) if sparse else features,
        "bag_ids": np.array([[2, 2, 1]], dtype=np.uint8),
        "labels": sp.csc_matrix([[1.0, 1, -1]]) if sparse else np.array([[1.0, 1, -1]]),
        "comment": "as Andrews has it",
        "unused": {"a": [1, 2]},
    }
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, held, do_compression=compress)
    bags = read_bags(path)
    assert bags.ids.tolist() == [2, 1]
    assert bags.y.tolist() == [1, -1]
    assert bags.is_sparse == sparse
    np.testing.assert_array_equal(bags.instances.toarray() if sparse else bags.instances, features)
    for missing in ("features", "bag_ids"):
        scipy.io.savemat(path, {name: value for name, value in held.items() if name != missing})
        with pytest.raises(BagFormatError, match="contains no bags in a known layout"):
            read_bags(path)
    scipy.io.savemat(path, {**held, "bag_ids": [[1, 2]]})
    with pytest.raises(BagFormatError, match="3 rows for 2 bag ids"):
        read_bags(path)


@pytest.mark.parametrize("compress", [False, True])
def test_mat_agrees_with_scipy(tmp_path, compress):
    """Every kind of value that can lie in bags is read as scipy reads it."""
    path = tmp_path / "all.mat"
    kinds = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
    numbers = {f"n_{kind}": np.arange(6).reshape(2, 3).astype(kind) for kind in kinds}
    words = np.empty((1, 2), dtype=object)
    words[0, :] = ["één", "b"]
    held = numbers | {
        "flag": np.array([[True, False]]),
        "cube": np.arange(24.0).reshape(2, 3, 4),
        "nothing": np.empty((0, 3)),
        "word": "naïve",
        "rows": np.array(["ab", "cd", "ef"]),
        "cell": words,
        "sparse": sp.csc_matrix([[0, 1.5, 0], [2, 0, 0]]),
        "struct": {"a": 1.0, "b": "text"},
    }
    scipy.io.savemat(path, held, do_compression=compress)
    expected, found = scipy.io.loadmat(path), _mat5.load(path)
    for name in [*numbers, "flag", "cube", "nothing"]:
        np.testing.assert_array_equal(found[name], expected[name])
        assert found[name].dtype == expected[name].dtype
    assert found["word"].tolist() == expected["word"].tolist()
    assert found["rows"].tolist() == expected["rows"].tolist()
    assert [item[0] for item in found["cell"].items] == [item[0] for item in expected["cell"][0]]
    np.testing.assert_array_equal(found["sparse"].toarray(), expected["sparse"].toarray())
    assert found["struct"].items[0]["a"].tolist() == expected["struct"][0, 0]["a"].tolist()
    assert found["struct"].items[0]["b"].tolist() == expected["struct"][0, 0]["b"].tolist()


@pytest.mark.parametrize("words", [False, True])
def test_mat_of_prtools(tmp_path, words):
    """As in the MIL toolbox: labels of instances; a bag is positive if any of its own is."""
    milbag = np.array(["bag b ", "bag b ", "bag a "]) if words else np.array([[2.0], [2.0], [1.0]])
    record = {
        "data": np.arange(6.0).reshape(3, 2),
        "nlab": np.array([[1.0], [2.0], [1.0]]),
        "lablist": np.array(["negative", "positive"]),
        "ident": {"milbag": milbag, "ident": np.array([[1.0], [2.0], [3.0]])},
        "name": [],
        "user": {},
    }
    path = tmp_path / "p.mat"
    scipy.io.savemat(path, {"x": record})
    bags = read_bags(path)
    assert bags.ids.tolist() == (["bag b", "bag a"] if words else [2, 1])
    assert bags.y.tolist() == ["positive", "negative"]
    assert bags.instance_labels.tolist() == ["negative", "positive", "negative"]
    record["nlab"] = np.array([[2.0], [2.0], [1.0]])
    scipy.io.savemat(path, {"x": record})
    assert read_bags(path).instance_labels is None
    record["nlab"] = np.array([[3.0], [2.0], [1.0]])
    scipy.io.savemat(path, {"x": record})
    with pytest.raises(BagFormatError, match="instance 1: nlab names a class"):
        read_bags(path)
    record["ident"] = {"other": 1.0}
    scipy.io.savemat(path, {"x": record})
    with pytest.raises(BagFormatError, match=r"no bags \(ident\.milbag\)"):
        read_bags(path)


def test_mat_of_other_versions(tmp_path):
    path = tmp_path / "v4.mat"
    scipy.io.savemat(path, {"features": np.ones((2, 2)), "bag_ids": [[1, 2]]}, format="4")
    with pytest.raises(BagFormatError, match=r"save\(\.\.\., '-v7'\)"):
        read_bags(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(600))
    with pytest.raises(BagFormatError, match=r"cannot be read as a MATLAB 7\.3 file"):
        read_bags(path)


def matlab_73(path, fill):
    """Write what MATLAB does: HDF5 behind a header of 512 bytes, every matrix transposed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        fill(file)
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")


def matrix(group, name, values, kind="double"):
    group[name] = np.asarray(values, dtype="u2" if kind == "char" else "f8").T
    group[name].attrs["MATLAB_class"] = np.bytes_(kind)
    return group[name]


def text(group, name, value):
    return matrix(group, name, [[ord(sign) for sign in value]], "char")


@pytest.mark.parametrize("sparse", [False, True])
def test_mat_73_of_andrews(tmp_path, sparse):
    values = np.array([[1.0, 0, 2], [0, 3, 0], [4, 5, 6]])

    def fill(file):
        if sparse:
            columns = sp.csc_array(values)
            group = file.create_group("features")
            group.attrs["MATLAB_class"] = np.bytes_("double")
            group.attrs["MATLAB_sparse"] = np.uint64(3)
            group["data"], group["ir"], group["jc"] = (
                columns.data, columns.indices.astype("u8"), columns.indptr.astype("u8"),
            )  # fmt: skip
        else:
            matrix(file, "features", values)
        matrix(file, "bag_ids", [[1, 1, 2]])
        matrix(file, "labels", [[1, 1, 0]])
        refs = file.create_group("#refs#")
        cells = [text(refs, name, word).ref for name, word in (("a", "first"), ("b", "zwölf"))]
        names = file.create_dataset("bag_names", (1, 2), dtype=h5py.ref_dtype)
        names[0] = cells
        names.attrs["MATLAB_class"] = np.bytes_("cell")

    path = tmp_path / "new.mat"
    matlab_73(path, fill)
    bags = read_bags(path)
    assert bags.ids.tolist() == ["first", "zwölf"]
    assert bags.y.tolist() == [1, 0]
    assert bags.is_sparse == sparse
    found = bags.instances.toarray() if sparse else bags.instances
    np.testing.assert_array_equal(found, values)


def test_mat_73_of_prtools(tmp_path):
    def fill(file):
        record = file.create_group("x")
        matrix(record, "data", [[1, 2], [3, 4], [5, 6]])
        matrix(record, "nlab", [[1], [2], [1]])
        matrix(record, "lablist", [[ord("n")], [ord("p")]], "char")
        matrix(record.create_group("ident"), "milbag", [[7], [7], [9]])

    matlab_73(tmp_path / "p.mat", fill)
    bags = read_bags(tmp_path / "p.mat")
    assert bags.ids.tolist() == [7, 9]
    assert bags.y.tolist() == ["p", "n"]
    assert bags.instance_labels.tolist() == ["n", "p", "n"]
    assert bags.instances.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_mat_73_that_points_elsewhere(tmp_path):
    path = tmp_path / "bad.mat"

    def link(file):
        file["features"] = h5py.ExternalLink("other.h5", "/secret")

    def endless(file):
        cell = file.create_dataset("features", (1, 3), dtype=h5py.ref_dtype)
        cell[0] = [cell.ref] * 3
        cell.attrs["MATLAB_class"] = np.bytes_("cell")

    matlab_73(path, link)
    with pytest.raises(BagFormatError, match="is a link to another place"):
        read_bags(path)
    matlab_73(path, endless)
    with pytest.raises(BagFormatError, match="too deep"):
        read_bags(path)


def test_lists_in_parquet(tmp_path):
    path = tmp_path / "l.parquet"
    table = pa.table(
        {"bag": ["a", "b"], "label": [1, 0], "features": [[[1.0, 2], [3, 4]], [[5.0, 6]]]}
    )
    pyarrow.parquet.write_table(table, path)
    for memory_map in (None, True):
        bags = read_bags(path, memory_map=memory_map)
        assert bags.instances.tolist() == [[1, 2], [3, 4], [5, 6]]
        assert bags.y.tolist() == [1, 0]
    for columns, message in {
        "empty": ({"bag": ["a"], "u": [[]]}, "row 1: the list 'u' is empty"),
        "null": ({"bag": ["a"], "u": [None], "v": [[1.0]]}, "not numeric|empty|not"),
        "uneven": ({"bag": ["a"], "u": [[1.0]], "v": [[1.0, 2]]}, "row 1: 'v' has 2 entries"),
        "mixed": ({"bag": ["a"], "u": [[1.0]], "v": [1.0]}, "'v' are not"),
        "twice": ({"bag": ["a", "a"], "u": [[1.0], [2.0]]}, "2 rows but 1 different bags"),
        "ragged": ({"bag": ["a"], "u": [[[1.0], [1.0, 2]]]}, "2 different lengths"),
        "nan": ({"bag": ["a"], "u": [[1.0, None]]}, "instance 2, feature 0 .*missing"),
    }.values():
        pyarrow.parquet.write_table(pa.table(columns), path)
        with pytest.raises(BagFormatError, match=message):
            read_bags(path)


def test_parquet_of_other_types(tmp_path):
    path = tmp_path / "p.parquet"
    columns = {
        "bag": pa.array(["b", "a", "b"]).dictionary_encode(),
        "bag_label": pa.array([1.0, 0.0, 1.0]),
        "i": pa.array([1, 2, 3], pa.int8()),
        "f": pa.array([True, False, True]),
    }
    pyarrow.parquet.write_table(pa.table(columns), path)
    bags = read_bags(path)
    assert bags.ids.tolist() == ["b", "a"]
    assert bags.instances.tolist() == [[1, 1], [3, 1], [2, 0]]
    pyarrow.parquet.write_table(pa.table({**columns, "word": ["x", "y", "z"]}), path)
    with pytest.raises(BagFormatError, match=r"columns 'word' are not numeric.*info="):
        read_bags(path)
    assert read_bags(path, info=["word"]).instance_info["word"].tolist() == ["x", "z", "y"]
    columns["i"] = pa.array([1, None, 3], pa.int8())
    pyarrow.parquet.write_table(pa.table(columns), path)
    with pytest.raises(BagFormatError, match=r"row 2, feature 0 .*: the value is missing"):
        read_bags(path)


@pytest.mark.parametrize("memory_map", [None, True])
def test_slides_in_a_folder(tmp_path, memory_map):
    """As slide tools write them: features and coordinates, one file per slide."""
    for place, name in enumerate(["slide_b", "slide_a"]):
        with h5py.File(tmp_path / f"{name}.h5", "w") as slide:
            shape = (1, 3, 4) if place else (3, 4)
            slide["features"] = np.full(shape, place, dtype=np.float32)
            slide["coords"] = np.arange(6).reshape(3, 2) + place
    (tmp_path / "notes.txt").write_text("not a slide")
    bags = read_bags(
        tmp_path, bag_labels={"slide_a": "tumour", "slide_b": "normal"}, memory_map=memory_map
    )
    assert bags.ids.tolist() == ["slide_a", "slide_b"]
    assert bags.y.tolist() == ["tumour", "normal"]
    assert bags.dtype == np.float32
    assert bags.instances[:, 0].tolist() == [1, 1, 1, 0, 0, 0]
    np.testing.assert_array_equal(bags.instance_info["coords"][:2], [[1, 2], [3, 4]])
    one = read_bags(tmp_path / "slide_a.h5")
    assert one.ids.tolist() == ["slide_a"]
    assert one.y is None


def test_one_data_set_per_bag(tmp_path):
    path = tmp_path / "bags.h5"
    with h5py.File(path, "w") as held:
        for name, label in (("p1", 1), ("p2", 0)):
            held.create_dataset(name, data=np.full((2, 3), label)).attrs["label"] = label
    bags = read_bags(path)
    assert bags.ids.tolist() == ["p1", "p2"]
    assert bags.y.tolist() == [1, 0]
    assert bags.dtype == np.float64


def test_labels_of_groups(tmp_path):
    """A label may be an attribute of the group, or a data set with one value."""
    path = tmp_path / "groups.h5"
    with h5py.File(path, "w") as held:
        for name, label in (("a", b"pos"), ("b", b"neg")):
            group = held.create_group(name)
            group["feats"] = np.ones((2, 3))
            if name == "a":
                group["label"] = np.array([label])
            else:
                group.attrs["label"] = np.bytes_(label)
            group["instance_labels"] = np.array([name == "a", False])
    bags = read_bags(path)
    assert bags.y.tolist() == ["pos", "neg"]
    assert bags.instance_labels.tolist() == [True, False, False, False]
    with h5py.File(path, "a") as held:
        held["a"]["refs"] = np.array([held["a"].ref, held["b"].ref], dtype=h5py.ref_dtype)
    with pytest.raises(BagFormatError, match=r"refs.*not numbers or text"):
        read_bags(path)


def test_text_of_variable_length_needs_trust(tmp_path):
    path = tmp_path / "bags.h5"
    with h5py.File(path, "w") as held:
        held.create_dataset("p1", data=np.ones((2, 3))).attrs["label"] = "tumour"
    with pytest.raises(BagFormatError, match=r"'label' is text of variable length.*trusted=True"):
        read_bags(path)
    assert read_bags(path, trusted=True).y.tolist() == ["tumour"]


def test_h5_problems(tmp_path):
    path = tmp_path / "bags.h5"
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as held:
        held["secret"] = np.ones((2, 3))

    def refused(fill, message):
        with h5py.File(path, "w") as held:
            fill(held)
        with pytest.raises(BagFormatError, match=message):
            read_bags(path)

    def external(held):
        held["a"] = h5py.ExternalLink("other.h5", "/secret")

    def soft(held):
        held["b"] = np.ones((2, 3))
        held["a"] = h5py.SoftLink("/b")

    def virtual(held):
        layout = h5py.VirtualLayout(shape=(2, 3), dtype="f8")
        layout[:] = h5py.VirtualSource(str(other), "secret", shape=(2, 3))
        held.create_virtual_dataset("a", layout)

    def raw(held):
        held.create_dataset("a", (2, 3), dtype="u1", external=[(str(tmp_path / "raw"), 0, 6)])

    def huge(held):
        held.create_dataset("a", (1 << 40, 1 << 10), dtype="f8", chunks=(1, 1 << 10))

    def uneven(held):
        held["a"], held["b"] = np.ones((2, 3)), np.ones((2, 4))

    def partly(held):
        held.create_dataset("a", data=np.ones((2, 3))).attrs["label"] = 1
        held["b"] = np.ones((2, 3))

    def coords(held):
        for name in "ab":
            held.create_group(name)["features"] = np.ones((2, 3))
        held["a"]["coords"] = np.ones((2, 2))

    refused(external, "'a' is a link to another place")
    refused(soft, "'a' is a link to another place")
    refused(virtual, "'a' is stored in another file")
    refused(raw, "'a' is stored in another file")
    refused(huge, "needs .* of memory to be read")
    refused(uneven, "'b' has 4 features where 'a' has 3")
    refused(partly, "the bag 'b' has no label")
    refused(coords, "Only some bags have 'coords'")
    refused(lambda held: held.create_group("a"), "holds no bags")
    refused(lambda held: held.create_dataset("a", data=np.full((2, 3), np.nan)), "'a', instance 1")
    refused(lambda held: held.create_dataset("a", (0, 3), dtype="f4"), "'a' has no instances")
