"""The schema of a model file: a tree of nodes, checked as a whole before anything is built.

The files are written by skops and read here. Only the kinds of node below are known; each builds
plain data (numbers, text, lists, dicts, arrays, sparse matrices) or an object of an admitted
class. Nothing in a file can name a function, a method or a type to be called.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.errors import ModelFileError
from pigmil.estimators._model_archive import ModelArchive

Node = dict[str, Any]

MAX_DEPTH = 100
_MAX_INTEGER = 2**63
_MAX_SHOWN = 10
_MT19937_WORDS = 624

_SCALARS: dict[str, type] = {
    f"numpy.{kind.__name__}": kind
    for kind in (
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.str_,
    )
}  # fmt: skip
_SCALARS["numpy.bool_"] = np.bool_
_SPARSE: dict[str, type] = {
    "scipy.sparse._csr.csr_array": sp.csr_array,
    "scipy.sparse._csr.csr_matrix": sp.csr_matrix,
}


def _as_bool(key: str) -> bool:
    return {"true": True, "false": False}[key]


# Types of the keys of a dict, and how the text of a key is read.
_KEYS: dict[str, Callable[[str], Any]] = {
    "builtins.str": str,
    "builtins.int": int,
    "builtins.float": float,
    "builtins.bool": _as_bool,
    "numpy.str_": np.str_,
    "numpy.int64": lambda key: np.int64(int(key)),
    "numpy.float64": lambda key: np.float64(float(key)),
    "numpy.bool": lambda key: np.bool_(_as_bool(key)),
    "numpy.bool_": lambda key: np.bool_(_as_bool(key)),
}


class Schema:
    """The nodes of a model file and the archive they refer to.

    Parameters
    ----------
    archive : ModelArchive
        The open file.
    admit : callable
        From the full name of a class to the class, or None if models are not made of it.

    Attributes
    ----------
    objects : list of (str, object)
        Every object built, with its place in the model, parts before what holds them.
    """

    def __init__(self, archive: ModelArchive, admit: Callable[[str], type | None]) -> None:
        self.objects: list[tuple[str, Any]] = []
        self._archive = archive
        self._admit = admit
        self._classes: dict[str, type] = {}
        self._refused: dict[str, str] = {}
        self._kinds: Mapping[str, tuple[Callable[..., None], Callable[..., Any]]] = {
            "JsonNode": (self._check_json, self._build_json),
            "DictNode": (self._check_dict, self._build_dict),
            "ListNode": (self._check_sequence, self._build_list),
            "TupleNode": (self._check_sequence, self._build_tuple),
            "NdArrayNode": (self._check_array, self._build_array),
            "MaskedArrayNode": (self._check_masked, self._build_masked),
            "SparseMatrixNode": (self._check_sparse, self._build_sparse),
            "RandomStateNode": (self._check_random_state, self._build_random_state),
            "ObjectNode": (self._check_object, self._build_object),
        }
        self._root = archive.schema()
        self._check(self._root, "model file", 0)
        if self._refused:
            shown = [f"{name} ({kind})" for name, kind in sorted(self._refused.items())]
            more = f" and {len(shown) - _MAX_SHOWN} more" if len(shown) > _MAX_SHOWN else ""
            raise UnknownParts(", ".join(shown[:_MAX_SHOWN]) + more)
        archive.check_memory()

    def build(self) -> Any:
        """Build the content of the file; the whole tree was checked before."""
        return self._build(self._root, "")

    # Checks: nothing is built and nothing imported by a name that is not admitted.

    def _check(self, node: Any, where: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ModelFileError(f"{where} lies more than {MAX_DEPTH} levels deep")
        if not isinstance(node, dict):
            raise ModelFileError(f"{where} is not a node")
        loader, name = _text(node, "__loader__", where), _full_name(node, where)
        if loader not in self._kinds:
            self._refused[name] = loader
            return
        self._kinds[loader][0](node, name, where, depth + 1)

    def _check_json(self, node: Node, name: str, where: str, depth: int) -> None:
        value = json.loads(_text(node, "content", where))
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise ModelFileError(f"{where} is not a number, a text, true, false or null")
        if isinstance(value, int) and abs(value) >= _MAX_INTEGER:
            raise ModelFileError(f"{where} is an integer of more than 64 bits")

    def _check_dict(self, node: Node, name: str, where: str, depth: int) -> None:
        content, types = node.get("content"), node.get("key_types")
        if name != "builtins.dict" or not isinstance(content, dict):
            raise ModelFileError(f"{where} is not a dict ({name})")
        if not isinstance(types, dict) or types.get("__loader__") != "ListNode":
            raise ModelFileError(f"{where} lacks the types of its keys")
        kinds = types.get("content")
        if not isinstance(kinds, list) or len(kinds) != len(content):
            raise ModelFileError(f"{where} does not have one type per key")
        for key, kind in zip(content, kinds, strict=True):
            if not isinstance(kind, dict) or kind.get("__loader__") != "TypeNode":
                raise ModelFileError(f"{where} has a key whose type is not a plain type")
            key_type = _full_name(kind, where)
            if key_type not in _KEYS:
                self._refused[key_type] = "type of a key"
                continue
            try:
                _KEYS[key_type](key)
            except (KeyError, ValueError):
                raise ModelFileError(f"{where} has a key {key[:80]!r} not of {key_type}") from None
        for key, value in content.items():
            self._check(value, f"{where}.{key[:80]}", depth)

    def _check_sequence(self, node: Node, name: str, where: str, depth: int) -> None:
        content = node.get("content")
        if name not in ("builtins.list", "builtins.tuple") or not isinstance(content, list):
            raise ModelFileError(f"{where} is not a list or tuple ({name})")
        for position, value in enumerate(content):
            self._check(value, f"{where}[{position}]", depth)

    def _check_array(self, node: Node, name: str, where: str, depth: int) -> None:
        if name != "numpy.ndarray" and name not in _SCALARS:
            self._refused[name] = "NdArrayNode"
        elif node.get("type") == "numpy":
            dtype, shape = self._archive.check_array(node.get("file"))
            if name in _SCALARS and (shape != () or dtype.type is not _SCALARS[name]):
                raise ModelFileError(f"{where} is not one value of {name}")
        elif node.get("type") == "json" and name == "numpy.ndarray":
            self._check_object_array(node, where, depth)
        else:
            raise ModelFileError(f"{where} is an array of an unknown type")

    def _check_object_array(self, node: Node, where: str, depth: int) -> None:
        content, shape = node.get("content"), _shape(node.get("shape"), where)
        if not isinstance(content, list) or len(content) != shape[0]:
            raise ModelFileError(f"{where} does not have the length of its shape")
        for position, value in enumerate(content):
            place = f"{where}[{position}]"
            if len(shape) == 2:
                row = value.get("content") if isinstance(value, dict) else None
                if not isinstance(row, list) or len(row) != shape[1]:
                    raise ModelFileError(f"{place} does not have the length of its shape")
            self._check(value, place, depth)

    def _check_masked(self, node: Node, name: str, where: str, depth: int) -> None:
        content = node.get("content")
        if name != "numpy.ma.MaskedArray" or not isinstance(content, dict):
            raise ModelFileError(f"{where} is not a masked array ({name})")
        for part in ("data", "mask"):
            value = content.get(part)
            if not isinstance(value, dict) or value.get("__loader__") != "NdArrayNode":
                raise ModelFileError(f"{where} has no array of its {part}")
            self._check(value, f"{where}.{part}", depth)

    def _check_sparse(self, node: Node, name: str, where: str, depth: int) -> None:
        if name not in _SPARSE or node.get("type") != "scipy":
            raise ModelFileError(f"{where} is not a sparse matrix in rows ({name})")
        self._archive.check_sparse(node.get("file"))

    def _check_random_state(self, node: Node, name: str, where: str, depth: int) -> None:
        if name != "numpy.random.mtrand.RandomState":
            self._refused[name] = "RandomStateNode"
            return
        self._check(node.get("content"), where, depth)

    def _check_object(self, node: Node, name: str, where: str, depth: int) -> None:
        cls = self._classes.get(name) or self._admit(name)
        if cls is None:
            self._refused[name] = "object"
        else:
            self._classes[name] = cls
        content = node.get("content")
        if not isinstance(content, dict) or content.get("__loader__") not in (
            "DictNode",
            "ListNode",
        ):
            raise ModelFileError(f"{where} has no state")
        self._check(content, where, depth)
        if cls is not None:
            _check_names(cls, content, where)

    # Building: the nodes are known to be well formed.

    def _build(self, node: Node, where: str) -> Any:
        return self._kinds[node["__loader__"]][1](node, where)

    def _build_json(self, node: Node, where: str) -> Any:
        return json.loads(node["content"])

    def _build_dict(self, node: Node, where: str) -> dict[Any, Any]:
        kinds = (_full_name(kind, where) for kind in node["key_types"]["content"])
        return {
            _KEYS[kind](key): self._build(value, f"{where}.{key[:80]}" if where else key[:80])
            for kind, (key, value) in zip(kinds, node["content"].items(), strict=True)
        }

    def _build_list(self, node: Node, where: str) -> list[Any]:
        return [self._build(value, f"{where}[{i}]") for i, value in enumerate(node["content"])]

    def _build_tuple(self, node: Node, where: str) -> tuple[Any, ...]:
        return tuple(self._build_list(node, where))

    def _build_array(self, node: Node, where: str) -> Any:
        if node["type"] == "json":
            array = np.empty(_shape(node["shape"], where), dtype=object)
            items = [self._build(item, where) for item in node["content"]]
            for position, item in enumerate(items):
                if array.ndim == 1:
                    array[position] = item
                else:
                    array[position, :] = item
            return array
        array = self._archive.array(node["file"])
        return array if _full_name(node, where) == "numpy.ndarray" else array[()]

    def _build_masked(self, node: Node, where: str) -> Any:
        data, mask = (self._build(node["content"][part], where) for part in ("data", "mask"))
        if mask.dtype != bool or mask.shape not in ((), data.shape):
            raise ModelFileError(f"{where} has a mask of another shape or type")
        return np.ma.MaskedArray(data, mask)

    def _build_sparse(self, node: Node, where: str) -> Any:
        return self._archive.sparse(node["file"], _SPARSE[_full_name(node, where)])

    def _build_random_state(self, node: Node, where: str) -> np.random.RandomState:
        state = self._build(node["content"], where)
        key, position = state["state"]["key"], state["state"]["pos"]
        gauss = state["has_gauss"], state["gauss"]
        if not (
            state["bit_generator"] == "MT19937"
            and isinstance(key, np.ndarray)
            and key.dtype == np.uint32
            and key.shape == (_MT19937_WORDS,)
            and type(position) is int
            and 0 <= position <= _MT19937_WORDS
            and gauss[0] in (0, 1)
            and isinstance(gauss[1], float)
        ):
            raise ModelFileError(f"{where} is not the state of a random generator")
        random_state = np.random.RandomState()
        random_state.set_state(("MT19937", key, position, *gauss))
        return random_state

    def _build_object(self, node: Node, where: str) -> Any:
        cls: Any = self._classes[_full_name(node, where)]
        state = self._build(node["content"], where)
        built = cls.__new__(cls)
        if isinstance(state, list):
            fields = [field.name for field in dataclasses.fields(cls)]
            for name, value in zip(fields, state, strict=True):
                object.__setattr__(built, name, value)
        elif hasattr(built, "__setstate__"):
            built.__setstate__(state)
        else:
            built.__dict__.update(state)
        self.objects.append((where, built))
        return built


class UnknownParts(ModelFileError):
    """A file asks for classes that models are not made of, or for functions, methods or types."""


def _check_names(cls: type, content: Node, where: str) -> None:
    """Check that a state has the fields of its class, and hides none of its methods."""
    if dataclasses.is_dataclass(cls):
        fields = [field.name for field in dataclasses.fields(cls)]
        found = content.get("content")
        listed = content["__loader__"] == "ListNode"
        if listed != hasattr(cls, "__slots__") or (
            len(found or ()) != len(fields) if listed else set(found or ()) != set(fields)
        ):
            raise ModelFileError(f"{where} does not have the fields of {cls.__qualname__}")
        return
    if content["__loader__"] != "DictNode":
        raise ModelFileError(f"{where} has no state by name")
    for name in content["content"]:
        held = getattr(cls, name, None)
        slot = name in getattr(cls, "__slots__", ())
        if name.startswith("__") or (held is not None and not slot):
            raise ModelFileError(f"{where} hides {name[:80]!r} of {cls.__qualname__}")


def _text(node: Node, key: str, where: str) -> str:
    value = node.get(key)
    if not isinstance(value, str):
        raise ModelFileError(f"{where} has no {key}")
    return value


def _full_name(node: Node, where: str) -> str:
    return f"{_text(node, '__module__', where)}.{_text(node, '__class__', where)}"


def _shape(node: Any, where: str) -> tuple[int, ...]:
    """Read the shape of an array of objects: a tuple of one or two lengths."""
    try:
        shape = tuple(json.loads(part["content"]) for part in node["content"])
    except (KeyError, TypeError, ValueError):
        shape = ()
    if not 1 <= len(shape) <= 2 or any(type(n) is not int or n < 0 for n in shape):
        raise ModelFileError(f"{where} has an impossible shape")
    return shape
