"""Hostile model files: none runs code, none exhausts memory, each is refused with a reason."""

import io
import json
import os
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pigmil
from pigmil._core.errors import ModelFileError
from pigmil.datasets import make_ring


def json_node(value):
    return {
        "__class__": "str",
        "__module__": "builtins",
        "__loader__": "JsonNode",
        "content": json.dumps(value),
        "is_json": True,
    }


def type_node(name):
    module, _, attribute = name.rpartition(".")
    return {"__class__": attribute, "__module__": module, "__loader__": "TypeNode"}


def node(name, loader, **more):
    return {**type_node(name), "__loader__": loader, **more}


def list_node(*items):
    return node("builtins.list", "ListNode", content=list(items))


def tuple_node(*items):
    return node("builtins.tuple", "TupleNode", content=list(items))


def dict_node(content, key_types=None):
    kinds = [type_node("builtins.str")] * len(content) if key_types is None else key_types
    return node("builtins.dict", "DictNode", content=content, key_types=list_node(*kinds))


def array_node(file, name="numpy.ndarray"):
    return node(name, "NdArrayNode", type="numpy", file=file)


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def bags():
    return make_ring(random_state=0, n_positive_bags=6, n_negative_bags=6)


@pytest.fixture(scope="module")
def saved(bags, tmp_path_factory):
    """Members of an honest file, by name; the schema parsed."""
    path = tmp_path_factory.mktemp("honest") / "m.skops"
    pigmil.save_model(pigmil.KDEMin().fit(bags), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("schema.json")), members


@pytest.fixture
def write(saved, tmp_path):
    """Write a file whose model has one more attribute, and return its path."""

    def write(hostile=None, members=(), schema=None, compression=zipfile.ZIP_STORED):
        tree = json.loads(json.dumps(saved[0] if schema is None else schema))
        if hostile is not None:
            state = tree["content"]["model"]["content"]
            state["content"]["extra_"] = hostile
            state["key_types"]["content"].append(type_node("builtins.str"))
        path = tmp_path / "hostile.skops"
        with zipfile.ZipFile(path, "w", compression) as archive:
            for name, content in {**saved[1], **dict(members)}.items():
                archive.writestr(name, content)
            archive.writestr("schema.json", json.dumps(tree))
        return path

    return write


def test_the_harness_writes_files_that_load(write):
    assert pigmil.load_model(write(json_node(7))).extra_ == 7
    found = pigmil.load_model(write(array_node("1.npy"), {"1.npy": npy(np.arange(3))}))
    assert found.extra_.tolist() == [0, 1, 2]


OS = "pigmil.estimators.persistence.os"
MARKER = "marker-of-an-attack"


def shell_method():
    """The method ``system`` of the module ``os``, as a bound method of something trusted."""
    return node(OS, "MethodNode", content={"func": "system", "obj": type_node(OS)})


# Each value runs `touch MARKER` (or would) if its node is built as it asks.
COMMANDS = {
    "method as key type": dict_node({f"touch {MARKER}": json_node(1)}, [shell_method()]),
    "function as key type": dict_node(
        {f"touch {MARKER}": json_node(1)}, [node("os.system", "FunctionNode")]
    ),
    "type node that is a function": dict_node(
        {f"touch {MARKER}": json_node(1)}, [type_node("os.system")]
    ),
    "function of a trusted module": dict_node(
        {MARKER: json_node(1)}, [type_node("pigmil.estimators.persistence.save_model")]
    ),
    "object node that is a module": node(OS, "ObjectNode", content=dict_node({})),
    "method": shell_method(),
    "function": node("os.system", "FunctionNode"),
    "trusted function": node("numpy.sin", "FunctionNode"),
    "partial": node(
        "functools.partial",
        "PartialNode",
        content={
            "func": node("os.system", "FunctionNode"),
            "args": tuple_node(json_node(f"touch {MARKER}")),
            "kwds": dict_node({}),
            "namespace": json_node(None),
        },
    ),
    "operator": node(
        "operator.call",
        "OperatorFuncNode",
        attrs=tuple_node(node("os.system", "FunctionNode"), json_node(f"touch {MARKER}")),
    ),
    "methodcaller": node(
        "operator.methodcaller", "OperatorFuncNode", attrs=tuple_node(json_node("system"))
    ),
    "constructor": node(
        "subprocess.Popen",
        "ConstructorFromReduceNode",
        content=tuple_node(list_node(json_node("touch"), json_node(MARKER))),
    ),
    "constructor of ours": node(
        "pigmil.bags._container.Bags", "ConstructorFromReduceNode", content=tuple_node()
    ),
    "reduce": node(
        "sklearn.tree._tree.Tree",
        "TreeNode",
        content=dict_node({}),
        __reduce__={"args": tuple_node()},
    ),
    "loss": node(
        "os.system",
        "LossNode",
        content=dict_node({}),
        __reduce__={"args": tuple_node(json_node(f"touch {MARKER}"))},
    ),
    "object with reduce": node(
        "pigmil.estimators.kde.KDEMin",
        "ObjectNode",
        __reduce__={"args": tuple_node(shell_method())},
    ),
    "type": type_node("builtins.int"),
    "list of another type": node("os.system", "ListNode", content=[json_node(f"touch {MARKER}")]),
    "tuple of another type": node("os.system", "TupleNode", content=[json_node(MARKER)]),
    "set": node("builtins.set", "SetNode", content=[json_node(1)]),
    "dict of another type": {**dict_node({}), **node("os.getcwd", "DictNode")},
    "array of another type": array_node("1.npy", "os.system"),
    "array of a subclass": array_node("1.npy", "numpy.memmap"),
    "default factory": node(
        "collections.defaultdict",
        "DefaultDictNode",
        content={"main": dict_node({}), "default_factory": node("os.getcwd", "FunctionNode")},
    ),
    "random state of another type": node(
        "os.getcwd", "RandomStateNode", content=dict_node({})
    ),
    "bit generator by name": node(
        "numpy.random._generator.Generator",
        "RandomGeneratorNode",
        content={
            "bit_generator": dict_node({"bit_generator": json_node("seed")}),
            "seed_seq": dict_node({}),
        },
    ),
    "dtype": node("numpy.dtype", "DTypeNode", content=array_node("1.npy")),
    "bytes": node("builtins.bytes", "BytesNode", file="1.npy"),
    "slice": node("builtins.slice", "SliceNode", content={"start": 0, "stop": 1, "step": 1}),
    "cached": {"__class__": None, "__module__": None, "__loader__": "CachedNode", "__id__": 1},
    "no loader": {"__class__": "KDEMin", "__module__": "pigmil.estimators.kde"},
    "not a node": [1, 2],
    "unknown loader": node("builtins.int", "PickleNode", content="x"),
    "class under another name": node("pigmil.KDEMin", "ObjectNode", content=dict_node({})),
    "base class": node("pigmil.estimators.base.BaseMIL", "ObjectNode", content=dict_node({})),
    "class that is no part": node(
        "pigmil.estimators._model_archive.ModelArchive", "ObjectNode", content=dict_node({})
    ),
    "class of scikit-learn with unchecked indices": node(
        "sklearn.neighbors._classification.KNeighborsClassifier",
        "ObjectNode",
        content=dict_node({}),
    ),
    "hidden method": node(
        "pigmil.estimators.kde.KDEMin",
        "ObjectNode",
        content=dict_node({"_score_instances": json_node(1)}),
    ),
    "class changed": node(
        "pigmil.estimators.kde.KDEMin",
        "ObjectNode",
        content=dict_node({"__class__": json_node("x")}),
    ),
    "object without a state": node("pigmil.estimators.kde.KDEMin", "ObjectNode"),
    "number of another kind": {**json_node(1), "content": "[1, 2]"},
    "endless integer": {**json_node(1), "content": "9" * 4000},
    "number that is no text": {**json_node(1), "content": 7},
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_no_node_runs_code(name, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(COMMANDS[name], {"1.npy": npy(np.arange(3))})
    before = sorted(os.listdir())
    with pytest.raises(ModelFileError, match=r"hostile\.skops"):
        pigmil.load_model(path)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_no_protocol_opens_another_door(protocol, saved, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write(COMMANDS["method as key type"], schema={**saved[0], "protocol": protocol})
    with pytest.raises(ModelFileError, match=r"persistence\.os|plain type"):
        pigmil.load_model(path)
    assert not os.path.exists(MARKER)


def test_an_identity_already_seen_hides_nothing(saved, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = saved[0]["content"]["model"]["__id__"]
    path = write({**COMMANDS["method as key type"], "__id__": known})
    with pytest.raises(ModelFileError):
        pigmil.load_model(path)
    assert not os.path.exists(MARKER)


def test_a_file_cannot_have_modules_imported(write, tmp_path, monkeypatch):
    (tmp_path / "imported_by_a_file.py").write_text(
        f"import pathlib\npathlib.Path({MARKER!r}).touch()\nclass Step: pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    path = write(node("imported_by_a_file.Step", "ObjectNode", content=dict_node({})))
    with pytest.raises(ModelFileError, match=r"imported_by_a_file\.Step"):
        pigmil.load_model(path)
    assert not os.path.exists(MARKER)
    held = pigmil.load_model(path, trusted=["imported_by_a_file.Step"]).extra_
    assert type(held).__name__ == "Step"


@pytest.mark.parametrize(
    "name", ["os.system", "os", "builtins.type", OS, "numpy.sin", "pigmil.KDEMin", 3, "no.such.One"]
)
def test_only_classes_can_be_trusted(name, write):
    with pytest.raises(ValueError, match="trusted names classes"):
        pigmil.load_model(write(), trusted=[name])


def nested(depth):
    value = json_node(1)
    for _ in range(depth):
        value = list_node(value)
    return value


def test_depth_is_bounded(write):
    with pytest.raises(ModelFileError, match="levels deep"):
        pigmil.load_model(write(nested(150)))


def test_a_schema_of_brackets_is_refused(write, saved, tmp_path):
    path = tmp_path / "deep.skops"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("schema.json", "[" * 1_000_000)
    with pytest.raises(ModelFileError, match=r"deep\.skops"):
        pigmil.load_model(path)


@pytest.mark.parametrize(
    "name",
    ["../1.npy", "/tmp/1.npy", "a/1.npy", "1.npy\\", "C:1.npy", "schema.json/1.npy", "1.pkl",
     "1.NPY", ".npy", "9" * 21 + ".npy", "1.npy\n"],
)  # fmt: skip
def test_member_names_are_known(name, write):
    with pytest.raises(ModelFileError, match="member"):
        pigmil.load_model(write(members={name: npy(np.arange(3))}))


@pytest.mark.parametrize("file", ["2.npy", "schema.json", None, 7, ["1.npy"], "../1.npy", "1.npz"])
def test_references_name_a_member_of_their_kind(file, write):
    with pytest.raises(ModelFileError, match="no member"):
        pigmil.load_model(write(array_node(file), {"1.npy": npy(np.arange(3))}))


def test_a_name_may_appear_once(write):
    path = write(array_node("1.npy"), {"1.npy": npy(np.arange(3))})
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("1.npy", npy(np.arange(4)))
    with pytest.raises(ModelFileError, match="same name"):
        pigmil.load_model(path)


def header(shape, descr="'<f8'", fortran="False"):
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


ARRAYS = {
    "objects": npy(np.array([{}], dtype=object), allow_pickle=True),
    "a pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
    "a huge shape": header("(1000000000000, 1000000)"),
    "a huge shape of nothing": header("(0, 1000000000000000000000000)"),
    "a negative shape": header("(-1, 8)") + bytes(64),
    "a shape of floats": header("(2.0,)") + bytes(16),
    "a shape of booleans": header("(True,)") + bytes(8),
    "too few values": header("(4,)") + bytes(16),
    "too many values": header("(4,)") + bytes(64),
    "a structure": header("(1,)", "[('a', '<f8'), ('b', '|O')]") + bytes(16),
    "fields": header("(1,)", "[('a', '<f8')]") + bytes(8),
    "a subarray": header("(1,)", "('<f8', (2,))") + bytes(16),
    "dates": npy(np.array(["2020-01-01"], dtype="M8[D]")),
    "complex numbers": npy(np.array([1j])),
    "raw bytes": npy(np.array([b"a"])),
    "many dimensions": npy(np.zeros((1,) * 20)),
    "an expression": header("(1,)", "__import__('os').system('true')") + bytes(8),
    "version 3": b"\x93NUMPY\x03\x00" + header("(1,)")[8:] + bytes(8),
    "no array": b"not an array",
    "nothing": b"",
    "booleans of 2": npy(np.array([2, 3], dtype=np.uint8)).replace(b"'|u1'", b"'|b1'"),
    "characters beyond the last": header("(1,)", "'<U1'") + b"\xff\xff\xff\x7f",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_odd_arrays_are_refused(name, write):
    with pytest.raises(ModelFileError, match=r"hostile\.skops"):
        pigmil.load_model(write(array_node("1.npy"), {"1.npy": ARRAYS[name]}))


def test_arrays_in_columns_and_of_the_other_byte_order_are_read(write):
    columns = np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8", order="F")
    found = pigmil.load_model(write(array_node("1.npy"), {"1.npy": npy(columns)})).extra_
    np.testing.assert_array_equal(found, columns)
    assert found.dtype.isnative


def npz(**parts):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **parts)
    return buffer.getvalue()


def csr_parts(**changes):
    matrix = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))
    parts = {
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(matrix.shape),
        "data": matrix.data,
        "_is_array": np.array(True),
    }
    return {**parts, **{name: np.asarray(value) for name, value in changes.items()}}


def sparse_node(file="1.npz", name="scipy.sparse._csr.csr_array"):
    return node(name, "SparseMatrixNode", type="scipy", file=file)


def test_a_sparse_matrix_is_read(write):
    path = write(sparse_node(), {"1.npz": npz(**csr_parts())})
    assert pigmil.load_model(path).extra_.toarray().tolist() == [[1, 0, 2], [0, 3, 0]]


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0, 3, 1], np.int32)},
        {"indices": np.array([0, -1, 1], np.int32)},
        {"indices": np.array([0, 2], np.int32)},
        {"indices": np.array([0.0, 2.0, 1.0])},
        {"indptr": np.array([0, 5, 3], np.int32)},
        {"indptr": np.array([0, 2, 9], np.int32)},
        {"indptr": np.array([1, 2, 3], np.int32)},
        {"indptr": np.array([0, 3], np.int32)},
        {"indptr": np.array([], np.int32)},
        {"indptr": np.array([[0, 2, 3]], np.int32)},
        {"shape": np.array([2, 2])},
        {"shape": np.array([-2, 3])},
        {"shape": np.array([2, 3, 1])},
        {"shape": np.array([2.0, 3.0])},
        {"data": np.array(["a", "b", "c"])},
        {"data": np.array([[1.0, 2.0, 3.0]])},
        {"format": np.array("csc")},
        {"format": np.array("bsr")},
        {"format": np.array(b"dia")},
        {"format": np.array([b"csr"])},
        {"more": np.array(1)},
    ],
)
def test_sparse_matrices_have_their_indices_inside(changes, write):
    with pytest.raises(ModelFileError, match=r"hostile\.skops"):
        pigmil.load_model(write(sparse_node(), {"1.npz": npz(**csr_parts(**changes))}))


def test_a_member_is_read_once_however_often_it_is_named(write):
    values = npy(np.zeros(1000))
    path = write(list_node(*[array_node("1.npy")] * 50), {"1.npy": values})
    found = pigmil.load_model(path).extra_
    assert len(found) == 50
    assert all(np.shares_memory(one, found[0]) for one in found)
    path = write(list_node(*[sparse_node()] * 50), {"1.npz": npz(**csr_parts())})
    found = pigmil.load_model(path).extra_
    assert len(found) == 50
    assert all(np.shares_memory(one.data, found[0].data) for one in found)


def test_bombs_are_refused_before_they_are_unpacked(write):
    bomb = npy(np.zeros(8 << 20))  # 64 MiB of zeros
    path = write(array_node("1.npy"), {"1.npy": bomb}, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 18
    with pytest.raises(ModelFileError, match="times its size"):
        pigmil.load_model(path)
    inner = npz(**csr_parts(data=np.zeros(8 << 20)))
    with pytest.raises(ModelFileError, match="times its size"):
        pigmil.load_model(write(sparse_node(), {"1.npz": inner}))


def test_a_schema_that_unpacks_to_more_than_it_says_is_not_unpacked(write, saved, tmp_path):
    path = write(compression=zipfile.ZIP_DEFLATED)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    size = len(members["schema.json"])
    members["schema.json"] += b" " * 50_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")  # of the last member, the schema
    content[at + 24 : at + 28] = struct.pack("<I", size)
    at = content.rindex(b"PK\x03\x04")
    content[at + 22 : at + 26] = struct.pack("<I", size)
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="damaged"):
            pigmil.load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_a_model_beyond_the_available_memory_is_refused(write, monkeypatch):
    path = write(array_node("1.npy"), {"1.npy": npy(np.zeros(1 << 19))})
    monkeypatch.setattr("pigmil.estimators._model_archive.available_memory", lambda: 1 << 20)
    with pytest.raises(ModelFileError, match=r"unpacks to 4 MiB and 1 MiB of memory"):
        pigmil.load_model(path)


def test_overlapping_members_are_refused(write, tmp_path):
    """The directory names one packed stretch many times, as in a zip bomb without nesting."""
    content = npy(np.zeros(1 << 12))
    path = tmp_path / "overlap.skops"
    local = struct.pack(
        "<4s5H3I2H", b"PK\x03\x04", 20, 0, 0, 0, 0, zlib.crc32(content), len(content),
        len(content), 5, 0,
    ) + b"1.npy" + content  # fmt: skip
    directory = b"".join(
        struct.pack(
            "<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, zlib.crc32(content), len(content),
            len(content), len(name), 0, 0, 0, 0, 0, 0,
        ) + name
        for name in (f"{i}.npy".encode() for i in range(1, 10))
    )  # fmt: skip
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 9, 9, len(directory), len(local), 0)
    path.write_bytes(local + directory + end)
    with pytest.raises(ModelFileError, match="larger than the file"):
        pigmil.load_model(path)


def test_members_are_counted(write, monkeypatch):
    monkeypatch.setattr("pigmil.estimators._model_archive.MAX_MEMBERS", 3)
    with pytest.raises(ModelFileError, match="at most 3"):
        pigmil.load_model(write())


def test_only_regular_files_are_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.skops")
    for target in (tmp_path, tmp_path / "pipe.skops", "/dev/zero"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            pigmil.load_model(target)


@pytest.mark.parametrize(
    ("key", "value", "match"),
    [
        ("format", "1", "format and versions"),
        ("format", None, "format and versions"),
        ("format", True, "format and versions"),
        ("format", 99, "update pigmil"),
        ("pigmil", 1, "format and versions"),
        ("sklearn", None, "format and versions"),
        ("sklearn", "9" * 200, "format and versions"),
        ("model", 3, "no estimator"),
        ("model", None, "no estimator"),
        ("another", 3, "not written by"),
    ],
)
def test_odd_versions_are_refused(key, value, match, saved, write):
    schema = json.loads(json.dumps(saved[0]))
    if key not in schema["content"]:
        schema["key_types"]["content"].append(type_node("builtins.str"))
    schema["content"][key] = json_node(value)
    with pytest.raises(ModelFileError, match=match):
        pigmil.load_model(write(schema=schema))


@pytest.mark.parametrize("key", ["format", "pigmil", "sklearn", "model"])
def test_missing_versions_are_refused(key, saved, write):
    schema = json.loads(json.dumps(saved[0]))
    del schema["content"][key]
    schema["key_types"]["content"].pop()
    with pytest.raises(ModelFileError, match="not written by"):
        pigmil.load_model(write(schema=schema))


def test_keys_keep_their_types(bags, tmp_path):
    weights = {False: 1.0, True: 3.0}
    model = pigmil.MILES(class_weight=weights).fit(bags, bags.y == 1)
    again = pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    assert again.class_weight == weights
    assert {type(key) for key in again.class_weight} == {bool}


def test_a_generator_of_random_numbers_survives(bags, tmp_path):
    state = np.random.RandomState(3)
    path = pigmil.save_model(pigmil.DD(random_state=state), tmp_path / "m.skops")
    again = pigmil.load_model(path).random_state
    assert again.randint(1000, size=5).tolist() == state.randint(1000, size=5).tolist()


def test_a_generator_with_a_position_outside_is_refused(bags, tmp_path, saved, write):
    path = pigmil.save_model(pigmil.DD(random_state=np.random.RandomState(3)), tmp_path / "m.skops")
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.pop("schema.json"))
    random_state = schema["content"]["model"]["content"]["content"]["random_state"]
    random_state["content"]["content"]["state"]["content"]["pos"] = json_node(10**6)
    with pytest.raises(ModelFileError, match="random generator"):
        pigmil.load_model(write(schema=schema, members=members))


def test_steps_from_elsewhere_can_be_trusted_by_name(bags, tmp_path):
    from sklearn.preprocessing import QuantileTransformer

    scaler = pigmil.OnInstances(QuantileTransformer(n_quantiles=10))
    model = make_pipeline(scaler, pigmil.MIKernel()).fit(bags, bags.y)
    path = pigmil.save_model(model, tmp_path / "m.skops")
    name = "sklearn.preprocessing._data.QuantileTransformer"
    with pytest.raises(ModelFileError, match=name):
        pigmil.load_model(path)
    again = pigmil.load_model(path, trusted=[name])
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))


def test_instance_scalers_survive(bags, tmp_path):
    model = make_pipeline(pigmil.OnInstances(StandardScaler()), pigmil.MIKernel())
    model.fit(bags, bags.y)
    again = pigmil.load_model(pigmil.save_model(model, tmp_path / "m.skops"))
    np.testing.assert_array_equal(again.decision_function(bags), model.decision_function(bags))
