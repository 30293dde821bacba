"""Classes that saved models are made of: what a model file may ask to be built."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

Part = TypeVar("Part", bound=type)

_PARTS: dict[str, type] = {}


def full_name(cls: type) -> str:
    """Return the name by which a model file refers to a class.

    Examples
    --------
    >>> full_name(int)
    'builtins.int'
    """
    return f"{cls.__module__}.{cls.__qualname__}"


def model_part(cls: Part) -> Part:
    """Declare a class as a part of fitted models, so that model files may hold it.

    The methods themselves need no declaration: the registry lists them.

    Examples
    --------
    >>> @model_part
    ... class Centres:
    ...     pass
    >>> any(name.endswith("Centres") for name in model_parts())
    True
    """
    _PARTS[full_name(cls)] = cls
    return cls


def model_parts() -> Mapping[str, type]:
    """Return the declared classes of all modules imported so far, by full name."""
    return MappingProxyType(_PARTS)
