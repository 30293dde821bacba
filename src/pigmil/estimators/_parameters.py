"""Constructors, constraints and docstrings of the parameters of methods, and their cards.

A line ``{name}`` in the docstring of a method stands for the entry of that name below.

pos_label : label, optional
    The positive class; the greater label if not given.
probability : bool, default=False
    Whether to fit what :meth:`predict_proba` needs, at the cost of five more fits.
length_unit : {"auto", "median"} or float, default="auto"
    See :func:`pigmil.distances.length_unit`.
max_iter : int, default=50
    Largest number of trainings; a ConvergenceWarning is raised if they do not suffice.
tol : float, default=1e-3
    Tolerance of each training.
kernel : {"rbf", "linear"}, default="rbf"
    Kernel between instances.
svm_class_weight : dict, "balanced" or None, default=None
    Weight of each class in the SVM.
n_starts : int or None, default=10
    Number of starts, spread over the positive bags; None for all their instances.
hidden_layer_sizes : tuple of int, default=(256, 128, 64)
    Sizes of the layers that turn an instance into its hidden features.
dropout : float, default=0.5
    Share of hidden features set to 0 in training.
learning_rate : float, default=5e-4
    Step size of Adam.
weight_decay : float, default=5e-3
    L2 penalty.
batch_size : int, default=4
    Bags per step.
max_epochs : int, default=200
    Most passes over the training bags.
patience : int, default=50
    Passes without improvement on held-out bags before training stops. It also stops once the
    mean loss of these bags is below 0.001.
validation_fraction : float, default=0.2
    Share of the training bags that a network holds out: one of ``1 / validation_fraction`` folds.
n_networks : int, default=5
    Networks to average.
network_random_state : int, RandomState or None
    For weights, held-out bags, batches and dropout.
detected_instances_ : array of int of shape (n_positive_bags,)
    Flat index of the detected instance of each positive training bag.
instance_scores_ : array of shape (n_instances,)
    Score of each training instance.
length_unit_ : float
    The unit that was used.
centre_ : array of shape (n_features,)
    What is subtracted from the features.
spread_ : float
    By what the centred features are divided.
intercept_ : float
    Offset of the decision value.
kernel_width_ : float or None
    ``gamma / unit^2``; None for the linear kernel.
"""

import re
from dataclasses import dataclass, field, replace
from inspect import signature
from numbers import Integral, Real
from typing import Any, TypeVar, dataclass_transform

from pigmil._core._sklearn_compat import Interval, StrOptions

Method = TypeVar("Method", bound=type)

POSITIVE: list[Any] = [Interval(Real, 0, None, closed="neither")]
POSITIVE_OR_CV: list[Any] = [*POSITIVE, StrOptions({"cv"})]
NOT_NEGATIVE: list[Any] = [Interval(Real, 0, None, closed="left")]
AT_LEAST_ONE: list[Any] = [Interval(Integral, 1, None, closed="left")]
LENGTH_UNIT: list[Any] = [StrOptions({"auto", "median"}), *POSITIVE]
CLASS_WEIGHT: list[Any] = [StrOptions({"balanced"}), dict, None]
POS_LABEL: list[Any] = [None, object]

# Parameters that mean the same in every method; a method need not repeat their constraints.
_COMMON: dict[str, list[Any]] = {
    "C": POSITIVE,
    "gamma": POSITIVE,
    "length_unit": LENGTH_UNIT,
    "class_weight": CLASS_WEIGHT,
    "max_iter": AT_LEAST_ONE,
    "tol": POSITIVE,
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "probability": ["boolean"],
    "pos_label": POS_LABEL,
}


def complete_constraints(method: type) -> dict[str, list[Any]]:
    """Return the constraints on all parameters of a method, by name.

    Those of the class come first, then those of its bases, then the common ones.
    """
    given: dict[str, list[Any]] = dict(_COMMON)
    for base in reversed(method.__mro__):
        given.update(vars(base).get("_parameter_constraints", {}))
    return {name: given[name] for name in signature(method).parameters if name in given}


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(method: Method) -> Method:
    """Give a method the constructor that scikit-learn asks for: it assigns, and does nothing else.

    The annotated names in the body of the class, and of its bases that have this decorator, are
    the parameters: ``C: float = 1.0``. They are passed by keyword.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> @with_parameters
    ... class Line(BaseEstimator):
    ...     slope: float = 1.0
    >>> Line(slope=2.0)
    Line(slope=2.0)
    """
    dataclass(kw_only=True, eq=False, repr=False)(method)
    method._parameter_constraints = complete_constraints(method)  # type: ignore[attr-defined]
    return method


# Field of a card -> how its paragraph in the docstring of a method begins.
_PARAGRAPHS = {
    "cost": "Cost",
    "when_to_use": "When to use",
    "default_chosen": "Defaults",
    "shortfall": "Below its published figures",
}


@dataclass(frozen=True, slots=True)
class Card:
    """Facts about a method: name, source, abilities and cost.

    Parameters
    ----------
    name : str
        The name as printed in its paper.
    title : str
        The full name or the title of its idea.
    cost : str
        Time and memory of a fit; the paragraph "Cost:" in the docstring of the method if not given.
    when_to_use : str
        When to use it; the paragraph "When to use:" if not given.
    paper : str
        Authors, title and venue; the first reference in the docstring if not given.
    year : int
        Year of publication, likewise.
    detects, classifies : bool
        Whether it scores instances of positive bags, and whether it labels unseen bags; set by
        the hooks that the method implements.
    grid : dict of str to tuple
        What the benchmark protocol tunes by inner cross-validation on the training bags; a single
        value is used without a search; other parameters keep their defaults.
    shortfall : str
        Where its accuracy on the benchmark sets stays more than two points below what was
        published, by how much, and why; empty where it does not. The paragraph "Below its
        published figures:" in the docstring if not given.
    default_chosen : str
        Where the defaults come from: the paper, a rule, or data, and which. Names every parameter
        with a number as default that changes the model. The paragraph "Defaults:" in the docstring
        if not given.
    extra : str
        The extra of the installation that fitting it needs; empty where it needs none.
    """

    name: str
    title: str
    cost: str = ""
    when_to_use: str = ""
    paper: str = ""
    year: int = 0
    detects: bool = False
    classifies: bool = False
    grid: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    shortfall: str = ""
    default_chosen: str = ""
    extra: str = ""

    def completed(self, doc: str | None, *, detects: bool, classifies: bool) -> "Card":
        """Return the card with what a method does, and with what its docstring says."""
        doc = doc or ""
        found: dict[str, Any] = {}
        for name, label in _PARAGRAPHS.items():
            if paragraph := re.search(rf"^ *{label}: (.+?)(?:\n *\n|\Z)", doc, re.M | re.S):
                found[name] = " ".join(paragraph[1].split())
        _, _, references = doc.partition("References\n    ----------\n")
        if source := re.match(r"(.+?)[ ,(]*\b((?:19|20)\d\d)\b", " ".join(references.split())):
            found["paper"], found["year"] = source[1], int(source[2])
        missing = {name: value for name, value in found.items() if not getattr(self, name)}
        return replace(self, detects=detects, classifies=classifies, **missing)


_PREFIXES = ("svm_", "network_")  # distinguish entries of one parameter
_ENTRIES = {
    entry.partition(" : ")[0]: entry.rstrip()
    for entry in re.split(r"\n(?=\w+ : )", __doc__ or "")[1:]
}


def fill_shared_entries(text: str | None) -> str | None:
    """Return a docstring with the shared entries in place of their names."""

    def entry(match: re.Match[str]) -> str:
        found = _ENTRIES[match[2]]
        for prefix in _PREFIXES:
            found = found.removeprefix(prefix)
        return "\n".join(match[1] + line for line in found.splitlines())

    return text and re.sub(r"^( *)\{(\w+)\}$", entry, text, flags=re.MULTILINE)
