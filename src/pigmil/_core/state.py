"""Conditions on the fitted state of a model, checked when it is read from a file.

A class lists its fitted attributes in ``_state``, by name; subclasses add to the list of their
bases. Lengths have names: the same name is the same length in all attributes of an object, and
``"features"`` is ``n_features_in_``. What cannot be said this way goes into ``_check_state``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

LARGEST = 1e150  # in size, of every number of a model
Sizes = dict[str, int]
_MISSING = object()


class StateError(ValueError):
    """A fitted attribute has a value that no fit could have set."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A fitted attribute.

    Parameters
    ----------
    optional : bool, default=False
        Whether a fit may leave it out.
    none : bool, default=False
        Whether it may be None.
    """

    optional: bool = False
    none: bool = False

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        """Check kind and shape, and note the lengths."""

    def verify(self, value: Any, name: str, sizes: Sizes) -> None:
        """Check the values, when all lengths are known."""


@dataclass(frozen=True, kw_only=True)
class Number(Field):
    """One number, an integer or of floating point if it must be, at least ``low``."""

    integer: bool = False
    floating: bool = False
    positive: bool = False
    low: float = -LARGEST
    infinite: bool = False
    nan: bool = False

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        kinds: Any = () if self.integer else (float, np.floating)
        if not self.floating:
            kinds = (int, np.integer, *kinds)
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise StateError(f"{name} is not {'an integer' if self.integer else 'a number'}")
        if (self.infinite and np.isinf(value)) or (self.nan and np.isnan(value)):
            return
        low = 1 / LARGEST if self.positive else self.low
        if not low <= value <= LARGEST:
            raise StateError(f"{name} is {value}; expected {low:g} to {LARGEST:g}")


@dataclass(frozen=True, kw_only=True)
class Flag(Field):
    """True or false."""

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, bool | np.bool_):
            raise StateError(f"{name} is neither true nor false")


@dataclass(frozen=True, kw_only=True)
class Choice(Field):
    """One of several texts."""

    among: tuple[str, ...]

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        if value not in self.among:
            raise StateError(f"{name} is none of {', '.join(self.among)}")


@dataclass(frozen=True, kw_only=True)
class Array(Field):
    """An array; ``shape`` holds lengths, or names of lengths.

    Parameters
    ----------
    shape : tuple of int or str
        Of each dimension; None allows any shape.
    kinds : str
        Kinds of dtype that are allowed.
    least : int
        Smallest length of the first dimension.
    """

    shape: tuple[int | str, ...] | None
    kinds: str = "f"
    least: int = 0

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or isinstance(value, np.ma.MaskedArray):
            raise StateError(f"{name} is not an array")
        self._bind_shape(value, name, sizes)

    def _bind_shape(self, value: Any, name: str, sizes: Sizes) -> None:
        if value.dtype.kind not in self.kinds:
            raise StateError(f"{name} has type {value.dtype}")
        if self.shape is None:
            return
        if len(value.shape) != len(self.shape):
            raise StateError(f"{name} has {len(value.shape)} dimensions, not {len(self.shape)}")
        if value.shape[0] < self.least:
            raise StateError(f"{name} has {value.shape[0]} entries")
        for length, expected in zip(value.shape, self.shape, strict=True):
            known = sizes.setdefault(expected, length) if isinstance(expected, str) else expected
            if length != known:
                raise StateError(f"{name} has shape {value.shape}; expected {known} {expected}")


@dataclass(frozen=True, kw_only=True)
class Floats(Array):
    """Floating-point numbers, finite unless it is allowed that they are not.

    Parameters
    ----------
    sparse : bool, default=False
        Whether it may be a scipy CSR array.
    nan, infinite : bool, default=False
        What is allowed in addition to finite numbers.
    positive : bool, default=False
        Whether every number is above 0.
    """

    sparse: bool = False
    nan: bool = False
    infinite: bool = False
    positive: bool = False

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        if self.sparse and sp.issparse(value):
            self._bind_shape(value, name, sizes)
        else:
            super().bind(value, name, sizes)

    def verify(self, value: Any, name: str, sizes: Sizes) -> None:
        values = value.data if sp.issparse(value) else value
        fine = np.abs(values) <= np.float64(LARGEST)  # not cast to the type of the values
        if self.nan:
            fine |= np.isnan(values)
        if self.infinite:
            fine |= np.isinf(values)
        if self.positive:
            fine &= values >= 1 / LARGEST
        if not fine.all():
            raise StateError(f"{name} holds {values[~fine].ravel()[0]}")


@dataclass(frozen=True, kw_only=True)
class Integers(Array):
    """Integers from 0, below a length if ``of`` names one."""

    kinds: str = "iu"
    of: str | None = None

    def verify(self, value: Any, name: str, sizes: Sizes) -> None:
        bound = np.iinfo(np.int64).max if self.of is None else sizes.get(self.of, 0)
        if value.size and not (value.min() >= 0 and value.max() < bound):
            raise StateError(f"{name} holds indices outside 0 to {bound - 1}")


@dataclass(frozen=True, kw_only=True)
class Flags(Array):
    """Truth values."""

    kinds: str = "b"


@dataclass(frozen=True, kw_only=True)
class Part(Field):
    """An object of one of some classes, whose own state is checked by itself.

    Parameters
    ----------
    classes : tuple of type
        Allowed classes, exactly.
    same : mapping of str to str
        Names of lengths or counts of the object (attributes or lengths of its state) and the
        names of the lengths here that they must equal.
    """

    classes: tuple[type, ...]
    same: Mapping[str, str] = field(default_factory=dict)

    def bind(self, value: Any, name: str, sizes: Sizes) -> None:
        if type(value) not in self.classes:
            raise StateError(f"{name} is a {type(value).__name__}")
        inner = check_state(value) if hasattr(value, "_state") else {}
        for theirs, ours in self.same.items():
            length = inner[theirs] if theirs in inner else int(getattr(value, theirs))
            if sizes.setdefault(ours, length) != length:
                raise StateError(f"{name} has {length} {theirs}; expected {sizes[ours]}")


@dataclass(frozen=True, kw_only=True)
class IntegerLists(Field):
    """A list of arrays of indices below a length."""

    of: str

    def verify(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, list):
            raise StateError(f"{name} is not a list")
        item = Integers(shape=("entries",), of=self.of)
        for position, array in enumerate(value):
            item.bind(array, f"{name}[{position}]", {})
            item.verify(array, f"{name}[{position}]", sizes)


@dataclass(frozen=True, kw_only=True)
class FloatList(Field):
    """A list of arrays of finite floating-point numbers, of any shapes."""

    def verify(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, list):
            raise StateError(f"{name} is not a list")
        for position, array in enumerate(value):
            item = Floats(shape=None)
            item.bind(array, f"{name}[{position}]", {})
            item.verify(array, f"{name}[{position}]", sizes)


def state_fields(cls: type) -> dict[str, Field]:
    """Return the fitted attributes that a class and its bases list."""
    fields: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        fields.update(vars(base).get("_state", {}))
    return fields


def check_state(model: Any, fields: Mapping[str, Field] | None = None) -> Sizes:
    """Check the fitted attributes of an object against a list, and return the lengths.

    Parameters
    ----------
    model : object
        Its attributes are checked.
    fields : mapping of str to Field, optional
        The list; that of its class if not given, and then its ``_check_state`` is called too.

    Raises
    ------
    StateError
        For the first attribute that is missing or not as listed.

    Examples
    --------
    >>> import numpy as np
    >>> class Line:
    ...     _state = {"slopes_": Floats(shape=("features",))}
    >>> line = Line()
    >>> line.slopes_ = np.array([1.0, np.inf])
    >>> check_state(line)
    Traceback (most recent call last):
    ...
    pigmil._core.state.StateError: slopes_ holds inf
    """
    sizes: Sizes = {}
    if hasattr(model, "n_features_in_"):
        Number(integer=True, low=1).bind(model.n_features_in_, "n_features_in_", sizes)
        sizes["features"] = int(model.n_features_in_)
    present = {}
    listed = state_fields(type(model)) if fields is None else fields
    for name, expected in listed.items():
        value = getattr(model, name, _MISSING)
        if value is _MISSING:
            if not expected.optional:
                raise StateError(f"{name} is missing")
        elif not (value is None and expected.none):
            present[name] = value, expected
    for name, (value, expected) in present.items():
        expected.bind(value, name, sizes)
    for name, (value, expected) in present.items():
        expected.verify(value, name, sizes)
    further = getattr(model, "_check_state", None)
    if further is not None and fields is None:
        further(sizes)
    return sizes


def check_classifier(model: Any, n_features: int, *methods: str) -> None:
    """Check a fitted classifier of the labels 0 and 1 that a method holds as ``estimator_``.

    Parameters
    ----------
    model : object
        The classifier.
    n_features : int
        Number of features that it must take.
    *methods : str
        It must have one of these methods.

    Raises
    ------
    StateError
        If it has none of the methods, other labels or other features.
    """
    if not any(callable(getattr(model, name, None)) for name in methods):
        raise StateError(f"estimator_ has no {' and no '.join(methods)}")
    if list(getattr(model, "classes_", ())) != [0, 1]:
        raise StateError("estimator_ was not fitted on the labels 0 and 1")
    if getattr(model, "n_features_in_", n_features) != n_features:
        raise StateError("estimator_ takes other features")
