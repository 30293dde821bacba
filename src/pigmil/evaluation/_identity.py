"""The identity of an estimator: class, parameters and version, as text that can be compared."""

import hashlib
import importlib.metadata
import inspect
import sys
from functools import cache
from typing import Any

import joblib
import numpy as np

from pigmil._core.version import __version__
from pigmil.evaluation._store import canonical_json


def estimator_identity(estimator: Any) -> tuple[str, str, str]:
    """Return import path of the class, canonical parameters, and versions of what is inside.

    Equal estimators have equal identities in every process. Nested estimators, as in pipelines
    and searches, are described in full.

    Parameters
    ----------
    estimator : estimator
        Anything with ``get_params``.

    Returns
    -------
    path, parameters, version : str
        ``version`` names every package that a class comes from; code that belongs to no
        installed package is identified by a hash of its source instead.

    Examples
    --------
    >>> from pigmil import MILES
    >>> estimator_identity(MILES(C=2.0))[0]
    'pigmil.estimators.miles.MILES'
    """
    packages: dict[str, str] = {"pigmil": __version__}
    described = _describe(estimator, packages)
    version = ", ".join(f"{name} {packages[name]}" for name in sorted(packages))
    return described["class"], canonical_json(described["parameters"]), version


def _describe(value: Any, packages: dict[str, str]) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object and value.size <= 1000:
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(key): _describe(item, packages) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(item, packages) for item in value]
    if hasattr(value, "get_params") and not isinstance(value, type):
        _note_version(type(value), packages)
        parameters = value.get_params(deep=False)
        return {
            "class": _path(type(value)),
            "parameters": {name: _describe(item, packages) for name, item in parameters.items()},
        }
    if isinstance(value, type) or inspect.isroutine(value):
        _note_version(value, packages)
        code = getattr(value, "__code__", None)
        # Two lambdas have one name.
        return _path(value) if code is None else [_path(value), _hash_of_code(code)]
    _note_version(type(value), packages)
    return [_path(type(value)), joblib.hash(value)]


def _path(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _hash_of_code(code: Any) -> str:
    constants = [item for item in code.co_consts if not inspect.iscode(item)]
    return hashlib.sha256(code.co_code + repr(constants).encode()).hexdigest()[:16]


def _note_version(thing: Any, packages: dict[str, str]) -> None:
    package = str(thing.__module__).partition(".")[0]
    if package in packages or package in sys.stdlib_module_names:
        return
    version = _installed_version(package)
    if version is not None:
        packages[package] = version
    elif inspect.isclass(thing):
        packages[_path(thing)] = _source_hash(thing)


@cache
def _installed_version(package: str) -> str | None:
    if package == "__main__":
        return None
    for name in importlib.metadata.packages_distributions().get(package, []):
        return importlib.metadata.version(name)
    return None


def _source_hash(kind: type) -> str:
    try:
        return "source " + hashlib.sha256(inspect.getsource(kind).encode()).hexdigest()[:16]
    except (OSError, TypeError):  # typed into an interpreter
        return "source unknown"
