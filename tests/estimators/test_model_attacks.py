"""Hostile model files: nothing runs, nothing outside the list is built, each is one error."""

import json
import os
import zipfile

import numpy as np
import pytest

import pigmil
from pigmil._core.errors import ModelFileError
from pigmil.datasets import make_ring

MARKER = "marker-of-an-attack"
OS = "pigmil.estimators.persistence.os"  # a module reached through one of ours


def type_node(name):
    module, _, attribute = name.rpartition(".")
    return {"__class__": attribute, "__module__": module, "__loader__": "TypeNode"}


def node(name, loader, **more):
    return {**type_node(name), "__loader__": loader, **more}


def json_node(value):
    return node("builtins.str", "JsonNode", content=json.dumps(value), is_json=True)


def list_node(*items):
    return node("builtins.list", "ListNode", content=list(items))


def tuple_node(*items):
    return node("builtins.tuple", "TupleNode", content=list(items))


def dict_node(content, *key_types):
    kinds = key_types or [type_node("builtins.str")] * len(content)
    return node("builtins.dict", "DictNode", content=content, key_types=list_node(*kinds))


def array_node(file, name="numpy.ndarray"):
    return node(name, "NdArrayNode", type="numpy", file=file)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Members of an honest file, by name; the schema parsed."""
    bags = make_ring(random_state=0, n_positive_bags=6, n_negative_bags=6)
    path = tmp_path_factory.mktemp("honest") / "m.skops"
    pigmil.save_model(pigmil.KDEMin().fit(bags), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("schema.json")), members


@pytest.fixture
def write(honest, tmp_path, monkeypatch):
    """Write a file whose model has one more attribute, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def write(hostile, protocol=2, **members):
        tree = json.loads(json.dumps({**honest[0], "protocol": protocol}))
        state = tree["content"]["model"]["content"]
        state["content"]["extra_"] = hostile
        state["key_types"]["content"].append(type_node("builtins.str"))
        with zipfile.ZipFile("hostile.skops", "w") as archive:
            for name, content in {**honest[1], **members}.items():
                archive.writestr(name, content)
            np.save("1.npy", np.arange(3))
            archive.write("1.npy")
            os.remove("1.npy")
            archive.writestr("schema.json", json.dumps(tree))
        return "hostile.skops"

    return write


def test_the_harness_writes_files_that_load(write):
    assert pigmil.load_model(write(json_node(7))).extra_ == 7
    assert pigmil.load_model(write(array_node("1.npy"))).extra_.tolist() == [0, 1, 2]


COMMAND = json_node(f"touch {MARKER}")
SYSTEM = node("os.system", "FunctionNode")
METHOD = node(OS, "MethodNode", content={"func": "system", "obj": type_node(OS)})
OURS = "pigmil.estimators.kde.KDEMin"
EMPTY = dict_node({})
# Each runs `touch MARKER`, or builds what models are not made of, if built as it asks.
ATTACKS = {
    "method as key type": dict_node({f"touch {MARKER}": json_node(1)}, METHOD),
    "function as key type": dict_node({f"touch {MARKER}": json_node(1)}, SYSTEM),
    "type that is a function": dict_node({f"touch {MARKER}": COMMAND}, type_node("os.system")),
    "our function as key type": dict_node(
        {MARKER: json_node(1)}, type_node("pigmil.estimators.persistence.save_model")
    ),
    "nodes in a key": {**EMPTY, "content": {"__loader__": METHOD}},
    "object that is a module": node(OS, "ObjectNode", content=EMPTY),
    "method": METHOD,
    "method of ours": node(
        OURS, "MethodNode", content={"func": "fit", "obj": node(OURS, "ObjectNode", content=EMPTY)}
    ),
    "function": SYSTEM,
    "function that skops trusts": node("numpy.sin", "FunctionNode"),
    "old function": node(
        "numpy.sin", "FunctionNode", content={"module_path": "os", "function": "system"}
    ),
    "partial": node(
        "functools.partial",
        "PartialNode",
        content={
            "func": SYSTEM,
            "args": tuple_node(COMMAND),
            "kwds": EMPTY,
            "namespace": json_node(None),
        },
    ),
    "operator": node("operator.call", "OperatorFuncNode", attrs=tuple_node(SYSTEM, COMMAND)),
    "constructor": node(
        "subprocess.Popen",
        "ConstructorFromReduceNode",
        content=tuple_node(list_node(json_node("touch"), json_node(MARKER))),
    ),
    "constructor of ours": node(
        "pigmil.bags._container.Bags", "ConstructorFromReduceNode", content=tuple_node()
    ),
    "loss": node("os.system", "LossNode", content=EMPTY, __reduce__={"args": tuple_node(COMMAND)}),
    "tree of another type": node(
        OURS, "TreeNode", content=EMPTY, __reduce__={"args": tuple_node(COMMAND)}
    ),
    "type": type_node("subprocess.Popen"),
    "list of another type": node("os.system", "ListNode", content=[COMMAND]),
    "tuple of another type": node("os.system", "TupleNode", content=[COMMAND]),
    "set": node("builtins.set", "SetNode", content=[json_node(1)]),
    "dict of another type": {**EMPTY, **type_node("os.getcwd"), "__loader__": "DictNode"},
    "array of another type": array_node("1.npy", "os.system"),
    "array of a subclass": array_node("1.npy", "numpy.memmap"),
    "default factory": node(
        "collections.defaultdict",
        "DefaultDictNode",
        content={"main": EMPTY, "default_factory": node("os.getcwd", "FunctionNode")},
    ),
    "random state of another type": node("os.getcwd", "RandomStateNode", content=EMPTY),
    "bit generator by name": node(
        "numpy.random._generator.Generator",
        "RandomGeneratorNode",
        content={"bit_generator": dict_node({"bit_generator": json_node("seed")})},
    ),
    "class under another name": node("pigmil.KDEMin", "ObjectNode", content=EMPTY),
    "base class": node("pigmil.estimators.base.BaseMIL", "ObjectNode", content=EMPTY),
    "class that skops trusts": node(
        "sklearn.neighbors._classification.KNeighborsClassifier", "ObjectNode", content=EMPTY
    ),
    # Malformed
    "cached": {"__class__": None, "__module__": None, "__loader__": "CachedNode", "__id__": 1},
    "no loader": type_node(OURS) | {"__loader__": None},
    "no class": {"__loader__": "ObjectNode"},
    "not a node": [1, 2],
    "unknown loader": node("builtins.int", "PickleNode", content="x"),
    "unhashable loader": node(OURS, ["ObjectNode"], content=EMPTY),
    "dict without types": node("builtins.dict", "DictNode", content={}),
    "absent member": array_node("2.npy"),
    "member that is no name": array_node(["1.npy"]),
    "pickle": array_node("pickle.npy"),
    "endless integer": {**json_node(1), "content": "9" * 5000},
    "number that is no text": {**json_node(1), "content": 7},
}


@pytest.mark.parametrize("protocol", [0, 2])
@pytest.mark.parametrize("name", ATTACKS)
def test_no_file_runs_code_or_builds_another_class(name, protocol, write):
    pickled = b"\x80\x04cos\nsystem\n(S'touch " + MARKER.encode() + b"'\ntR."
    path = write(ATTACKS[name], protocol, **{"pickle.npy": pickled})
    with pytest.raises(ModelFileError, match=r"hostile\.skops"):
        pigmil.load_model(path)
    assert os.listdir() == [path]


def test_an_identity_already_seen_hides_nothing(honest, write):
    known = honest[0]["content"]["model"]["__id__"]
    with pytest.raises(ModelFileError, match=r"persistence\.os"):
        pigmil.load_model(write({**ATTACKS["method as key type"], "__id__": known}))
    assert not os.path.exists(MARKER)


def test_depth_is_bounded(write):
    value = json_node(1)
    for _ in range(400):
        value = list_node(value)
    with pytest.raises(ModelFileError, match="damaged"):
        pigmil.load_model(write(value))


def test_arrays_beyond_memory_are_refused(write, monkeypatch):
    path = write(list_node(*[array_node("1.npy")] * 1000))
    monkeypatch.setattr("pigmil.estimators.persistence.available_memory", lambda: 100_000)
    with pytest.raises(ModelFileError, match="MiB of memory"):
        pigmil.load_model(path)


def test_modules_are_imported_only_for_trusted_classes(write, tmp_path, monkeypatch):
    path = write(node("imported_by_a_file.Step", "ObjectNode", content=EMPTY))
    (tmp_path / "imported_by_a_file.py").write_text(
        f"import pathlib\npathlib.Path({MARKER!r}).touch()\nclass Step: pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
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
        pigmil.load_model(write(json_node(1)), trusted=[name])
