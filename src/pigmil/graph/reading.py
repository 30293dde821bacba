"""The choices that the PIGMIL paper leaves open, and its constants, in one place."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np

Check = tuple[str, Callable[[Any], bool]]  # what a field must be, and whether a value is that


def _one_of(*choices: str | None) -> Check:
    return f"one of {list(choices)}", lambda value: value in choices


def _number(text: str, fits: Callable[[Any], bool]) -> Check:
    return text, lambda value: _is_number(value) and fits(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


_ANY = _number("a number", lambda value: True)
_POSITIVE = _number("a number above 0", lambda value: value > 0)
_FROM_ZERO = _number("a number from 0", lambda value: value >= 0)
_BALANCE = (
    "'log-ratio' or a number from 0",
    lambda value: value == "log-ratio" or _FROM_ZERO[1](value),
)
_CHECKS: dict[str, Check] = {
    "kde": _one_of("nearest", "literal"),
    "margin": _ANY,
    "penalty": _FROM_ZERO,
    "t_test": _one_of("one_sample", "welch", "pooled", None),
    "t_threshold": _ANY,
    "exemplar_C": _POSITIVE,
    "confidence_bias": ("True or False", lambda value: isinstance(value, bool | np.bool_)),
    "similarity_use": _one_of("weights", "edges", "none"),
    "quasi_clique_density": _number("above 0 and at most 1", lambda value: 0 < value <= 1),
    "gamma_far": _POSITIVE,
    "gamma_near": _POSITIVE,
    "alpha": _BALANCE,
    "beta": _BALANCE,
    "alpha_on": _one_of("consistency", "similarity"),
    "discrimination_pair": _one_of("min", "max"),
    "discrimination_scale": _FROM_ZERO,
    "discrimination_relative": (
        "None or a number from 0",
        lambda value: value is None or _FROM_ZERO[1](value),
    ),
    "normalise": _one_of("max", "row", "symmetric", "spectral", "sum"),
    "damping": _number("from 0 to 1", lambda value: 0 <= value <= 1),
    "walk_iterations": (
        "an integer from 0",
        lambda value: isinstance(value, Integral) and int(value) >= 0,
    ),
    "walk_start": _one_of("ones", "random"),
    "objective": _one_of("ranking_scores", "edge_sum"),
}


@dataclass(frozen=True)
class PaperReading:
    """How PIGMIL reads the paper where it is silent or contradicts itself, and its constants.

    The defaults are the readings under which the printed results can be explained; each was
    studied alone. Change one with ``PIGMIL(reading=PaperReading(alpha_on="similarity"))`` or with
    ``model.set_params(reading__alpha_on="similarity")``.

    Parameters
    ----------
    kde : {"nearest", "literal"}, default="nearest"
        Eq. (1) prints a minimum over exponentials, literally the farthest instance of each bag.
        ``"nearest"`` takes the minimum over distances.
    margin, penalty : float, default=0.7, 10.0
        Of the "supported" working score, see :func:`pigmil.graph.working_score`; not in the paper.
    t_test : {"one_sample", "welch", "pooled"} or None, default="one_sample"
        Form of the test that selects working bags (Definition 4); None keeps all positive bags.
    t_threshold : float, default=1.5
        A positive bag with a greater t value is set aside.
    exemplar_C : float, default=1.0
        Cost of the exemplar SVMs.
    confidence_bias : bool, default=True
        Whether the confidence of an exemplar includes the intercept; the paper prints ``w.x``.
    similarity_use : {"weights", "edges", "none"}, default="weights"
        Whether the similarity weighs edges, as in the paper; only decides which pairs are edges,
        all with similarity 1; or is left out, so that all pairs are edges with similarity 1.
    quasi_clique_density : float, default=0.9
        Share of edges that makes a group of vertices a quasi-clique (Definition 7).
    gamma_far, gamma_near : float, default=1.0
        Constants gamma_1 and gamma_2 of the discrimination, Eq. (6).
    alpha, beta : "log-ratio" or float, default="log-ratio"
        Balance of consistency and discrimination: computed per edge as in the paper, or fixed.
        ``beta=0`` leaves the discrimination out.
    alpha_on : {"consistency", "similarity"}, default="consistency"
        The term alpha multiplies: as in Definition 9, or as in Eq. (2).
    discrimination_pair : {"min", "max"}, default="min"
        Discrimination of an edge from that of its two ends: min in Definition 9, max in the text.
    discrimination_scale : float, default=1.0
        Factor on the discrimination: the first meaning of "ratio of D to S + C".
    discrimination_relative : float, optional
        Rescale the discrimination to this multiple of the mean ``S + alpha C``, in place of beta:
        the second meaning of that ratio.
    normalise : {"max", "row", "symmetric", "spectral", "sum"}, default="max"
        Normalisation of the edge weights in Algorithm 1.
    damping : float, default=0.8
        Damping of the walk, Eq. (8).
    walk_iterations : int, default=10
        Of the walk; the loop as printed makes one product more.
    walk_start : {"ones", "random"}, default="ones"
        Initial scores of the walk; the paper draws them at random.
    objective : {"ranking_scores", "edge_sum"}, default="ranking_scores"
        The quantity a replacement must raise: that of Algorithm 2, or that of Eq. (7).

    Examples
    --------
    >>> from pigmil import PIGMIL, PaperReading
    >>> model = PIGMIL(reading=PaperReading(t_test="welch"))
    >>> model.set_params(reading__alpha_on="similarity").reading.t_test
    'welch'
    """

    kde: str = "nearest"
    margin: float = 0.7
    penalty: float = 10.0
    t_test: str | None = "one_sample"
    t_threshold: float = 1.5
    exemplar_C: float = 1.0
    confidence_bias: bool = True
    similarity_use: str = "weights"
    quasi_clique_density: float = 0.9
    gamma_far: float = 1.0
    gamma_near: float = 1.0
    alpha: str | float = "log-ratio"
    beta: str | float = "log-ratio"
    alpha_on: str = "consistency"
    discrimination_pair: str = "min"
    discrimination_scale: float = 1.0
    discrimination_relative: float | None = None
    normalise: str = "max"
    damping: float = 0.8
    walk_iterations: int = 10
    walk_start: str = "ones"
    objective: str = "ranking_scores"

    def __post_init__(self) -> None:
        """Raise one error that lists every field with a wrong value."""
        problems = [
            f"{name} must be {expected}, got {getattr(self, name)!r}"
            for name, (expected, fits) in _CHECKS.items()
            if not fits(getattr(self, name))
        ]
        if problems:
            raise ValueError("Invalid PaperReading: " + "; ".join(problems) + ".")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the fields by name, as scikit-learn's ``clone`` and ``get_params`` expect."""
        return asdict(self)

    def replace(self, **changes: Any) -> "PaperReading":
        """Return a copy with some fields changed.

        Examples
        --------
        >>> PaperReading().replace(damping=0.5).damping
        0.5
        """
        unknown = sorted(set(changes) - set(_CHECKS))
        if unknown:
            raise ValueError(
                f"PaperReading has no field {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(_CHECKS)}."
            )
        return replace(self, **changes)
