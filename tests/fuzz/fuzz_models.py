"""Mutated model files: `python tests/fuzz/fuzz_models.py --inputs 10000`.

An escape is a process that dies, an error that is no ModelFileError while a file is loaded, a
command that was run, and, of a model that loads, an error that is no ValueError or a score that
is not finite or beyond 1e100.
"""

import io
import json
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

sys.path.append(str(Path(__file__).parent))

from _frame import main

import pigmil
from pigmil._core.errors import ModelFileError
from pigmil.datasets import make_ring
from pigmil.estimators import all_estimators, get_estimator

WILD = 1e100
MARKER = "marker"
NUMBERS = (np.nan, np.inf, -np.inf, 1e249, -1e249, 1e140, 1e60, 1e-300, 0.0, -1.0, 7.0)
INTEGERS = (-1, -(2**31), 2**31 - 1, 2**40, 10**6, 0, 1)
VALUES = (None, True, False, -1, 0, 1, 10**6, 2**62, 10**30, 1e249, 1e-300, float("nan"), "",
          "text", "linear", "rbf", "poly", "precomputed", "bag", "instance", [], {})  # fmt: skip
HOSTILE = (
    {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode"},
    {"__class__": "system", "__module__": "os", "__loader__": "TypeNode"},
    {"__class__": "os", "__module__": "pigmil.estimators.persistence", "__loader__": "MethodNode",
     "content": {"func": "system", "obj": {"__class__": "os", "__loader__": "TypeNode",
                                           "__module__": "pigmil.estimators.persistence"}}},
    {"__class__": "partial", "__module__": "functools", "__loader__": "PartialNode"},
    {"__class__": "call", "__module__": "operator", "__loader__": "OperatorFuncNode"},
)  # fmt: skip
LOADERS = ("JsonNode", "DictNode", "ListNode", "TupleNode", "SetNode", "NdArrayNode", "ObjectNode",
           "SparseMatrixNode", "MaskedArrayNode", "RandomStateNode", "TypeNode", "FunctionNode",
           "MethodNode", "CachedNode", "DefaultDictNode", "BytesNode", "TreeNode")  # fmt: skip
Members = dict[str, bytes]


def models(bags):
    """Fitted models, by name."""
    sparse = bags.with_instances(sp.csr_array(bags.instances))
    for card in all_estimators():
        yield card.name, get_estimator(card.name)().fit(bags, bags.y)
    for name in ("PIGMIL", "MILD", "mi-Sim", "MILES", "MI-Kernel", "MInD", "KDE_min"):
        yield f"{name}, sparse", get_estimator(name)().fit(sparse, bags.y)
    rbf = pigmil.MILD(level="instance", kernel="rbf", C=1.0, gamma=1.0)
    yield "MILD with libsvm", rbf.fit(bags, bags.y)
    yield "MILD with libsvm, sparse", rbf.__class__(**rbf.get_params()).fit(sparse, bags.y)
    yield "pipeline", make_pipeline(pigmil.BagScaler(), pigmil.MILES()).fit(bags, bags.y)
    scaled = make_pipeline(pigmil.OnInstances(StandardScaler()), pigmil.MIKernel())
    yield "scaled by scikit-learn", scaled.fit(bags, bags.y)
    reduced = make_pipeline(pigmil.OnInstances(PCA(whiten=True)), pigmil.MIKernel())
    yield "reduced by scikit-learn", reduced.fit(bags, bags.y)
    for classifier in (LogisticRegression(), SVC(), LinearSVC()):
        yield f"SIL of {classifier}", pigmil.SIL(classifier).fit(bags, bags.y)
    yield "search", GridSearchCV(pigmil.MISVM(), {"C": [1.0, 10.0]}, cv=2).fit(bags, bags.y)
    three = np.where(np.arange(bags.n_bags) % 3 == 0, 2, bags.y)
    yield "three classes", pigmil.MILES().fit(bags, three)
    yield "calibrated", CalibratedClassifierCV(pigmil.MIKernel(), cv=2).fit(bags, bags.y)


def prepare(folder):
    """Fit and save the models once; return the function that tries one mutation."""
    warnings.simplefilter("ignore")
    bags = make_ring(random_state=0, n_positive_bags=6, n_negative_bags=6)
    if not (folder / "ready").exists():
        for position, (_, model) in enumerate(models(bags)):
            pigmil.save_model(model, folder / f"{position:03d}.skops")
        (folder / "ready").touch()
    saved = []
    for path in sorted(folder.glob("[0-9]*.skops")):
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        saved.append((path.read_bytes(), members))
        score(pigmil.load_model(path), bags)  # the models themselves are fine
    target = folder / "mutated.skops"

    def one(seed):
        rng = np.random.default_rng(seed)
        whole, members = saved[seed % len(saved)]
        target.write_bytes(mutated(whole, members, rng))
        try:
            model = pigmil.load_model(target)
        except ModelFileError:
            return escaped(folder) or "refused"
        except Exception as error:
            return f"escape in loading: {type(error).__name__}: {error}"
        return escaped(folder) or score(model, bags)

    return one


def escaped(folder):
    return "escape: a command was run" if (folder / MARKER).exists() else None


METHODS = ("decision_function", "predict_proba", "predict", "decision_function_instances",
           "predict_instances")  # fmt: skip


def score(model, bags):
    """Score and classify bags and instances with a model that loads."""
    inner = model[-1] if hasattr(model, "steps") else model
    for name in METHODS:
        try:
            function = getattr(inner if name.endswith("_instances") else model, name)
        except AttributeError:
            continue
        for queries in (bags, bags.with_instances(sp.csr_array(bags.instances))):
            try:
                scores = np.asarray(function(queries))
            except ValueError:
                continue
            except TypeError as error:
                if "needs dense instances" in str(error):
                    continue
                return f"escape in {name}: {type(error).__name__}: {error}"
            except Exception as error:
                return f"escape in {name}: {type(error).__name__}: {error}"
            if not name.startswith("predict") or name == "predict_proba":
                scores = scores.astype(float)
                if not (np.abs(scores) <= WILD).all():
                    return f"escape: a score of {scores.ravel()[np.abs(scores).argmax()]}"
    return "accepted"


def mutate(whole: bytes, members: Members, rng) -> bytes:
    """Return a mutated file."""
    kind = rng.choice(["bytes", "member", "schema", "array"], p=[0.1, 0.1, 0.4, 0.4])
    if kind == "bytes":
        return flipped(whole, rng)
    members = dict(members)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        if kind == "schema":
            tree = json.loads(members["schema.json"])
            change_schema(tree, list(members), rng)
            members["schema.json"] = json.dumps(tree).encode()
            continue
        names = [name for name in members if name != "schema.json"]
        name = names[rng.integers(len(names))]
        if kind == "member":
            members[name] = flipped(members[name], rng)
        else:
            members[name] = changed_member(name, members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def mutated(whole: bytes, members: Members, rng) -> bytes:
    """Return a mutated file; a second mutation may find nothing left that it can change."""
    while True:
        try:
            return mutate(whole, members, rng)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            continue


def flipped(content: bytes, rng) -> bytes:
    """Flip some bits, cut, or repeat a stretch."""
    changed = bytearray(content)
    if rng.random() < 0.2:
        start, stop = sorted(rng.integers(0, len(changed) + 1, 2))
        return bytes(changed[:start] + changed[stop:])
    for _ in range(rng.integers(1, 9)):
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def change_schema(tree, names, rng) -> None:
    """Change one node of the schema."""
    nodes, places = [], []

    def walk(value):
        if isinstance(value, dict):
            if "__loader__" in value:
                nodes.append(value)
            for key, item in value.items():
                places.append((value, key))
                walk(item)
        elif isinstance(value, list):
            for key, item in enumerate(value):
                places.append((value, key))
                walk(item)

    walk(tree)
    node = nodes[rng.integers(len(nodes))]
    holder, key = places[rng.integers(len(places))]
    other = nodes[rng.integers(len(nodes))]
    plain = [one for one in nodes if one["__loader__"] == "JsonNode"]
    files = [one for one in nodes if "file" in one]
    dicts = [one for one in nodes if isinstance(one.get("content"), dict) and one["content"]]
    kind = rng.integers(11)
    if kind <= 2:
        value = VALUES[rng.integers(len(VALUES))]
        plain[rng.integers(len(plain))]["content"] = json.dumps(value)
    elif kind <= 4 and files:
        files[rng.integers(len(files))]["file"] = names[rng.integers(len(names))]
    elif kind == 5:
        holder[key] = VALUES[rng.integers(len(VALUES))]
    elif kind == 6:
        copy = json.loads(json.dumps(other))
        node.clear()
        node.update(copy)
    elif kind == 7:
        node["__loader__"] = LOADERS[rng.integers(len(LOADERS))]
    elif kind == 8:
        node["__class__"], node["__module__"] = other["__class__"], other["__module__"]
    elif kind == 9:
        held = dicts[rng.integers(len(dicts))]
        gone = list(held["content"])[rng.integers(len(held["content"]))]
        del held["content"][gone]
        if rng.random() < 0.8 and isinstance(held.get("key_types"), dict):
            held["key_types"]["content"] = held["key_types"]["content"][:-1]
    else:
        hostile = json.loads(json.dumps(HOSTILE[rng.integers(len(HOSTILE))]))
        if rng.random() < 0.5 and "key_types" in node:
            content = {f"touch {MARKER}": plain[0]}
            node.update(content=content, key_types={**node["key_types"], "content": [hostile]})
        else:
            node.clear()
            node.update(hostile)


def changed_member(name: str, content: bytes, rng) -> bytes:
    """Change values, shape or type of an array, or of one array of a sparse matrix."""
    buffer = io.BytesIO()
    if name.endswith(".npz"):
        with np.load(io.BytesIO(content)) as archive:
            parts = {part: archive[part] for part in archive.files}
        part = list(parts)[rng.integers(len(parts))]
        parts[part] = changed_array(parts[part], rng)
        np.savez(buffer, **parts)
    else:
        np.save(buffer, changed_array(np.load(io.BytesIO(content)), rng))
    return buffer.getvalue()


def changed_array(array, rng):
    kind = rng.integers(9)
    flat = array.ravel().copy()
    if kind <= 3 and flat.size and array.dtype.kind in "iuf":
        values = NUMBERS if array.dtype.kind == "f" else INTEGERS
        value = values[rng.integers(len(values))]
        with np.errstate(all="ignore"):
            put = np.array([value]).astype(array.dtype)[0]
        if rng.random() < 0.2:
            flat[:] = put
        else:
            flat[rng.integers(flat.size)] = put
        return flat.reshape(array.shape)
    if kind == 4:
        return array.T if array.ndim > 1 else array.reshape(-1, 1)
    if kind == 5:
        return flat[: rng.integers(flat.size + 1)]
    if kind == 6:
        return np.concatenate([array, array]) if array.ndim else array.reshape(1)
    if kind == 7:
        rng.shuffle(flat)
        return flat.reshape(array.shape)
    types = ("f8", "f4", "i8", "i4", "u1", "?", "U3")
    with np.errstate(all="ignore"):
        return np.nan_to_num(array).astype(types[rng.integers(len(types))]) if (
            array.dtype.kind in "biuf"
        ) else array[..., None]  # fmt: skip


if __name__ == "__main__":
    main(__file__, {"models": prepare}, inputs=10_000)
