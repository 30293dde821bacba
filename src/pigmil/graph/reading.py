"""The choices that the PIGMIL paper leaves open, and its constants, in one place."""

import math
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import Any

import numpy as np

__all__ = ["PaperReading"]

_CHOICES: dict[str, tuple[str | None, ...]] = {
    "kde": ("nearest", "literal"),
    "t_test": ("one_sample", "welch", "pooled", None),
    "similarity_use": ("weights", "edges", "none"),
    "alpha_on": ("consistency", "similarity"),
    "discrimination_pair": ("min", "max"),
    "normalise": ("max", "row", "symmetric", "spectral", "sum"),
    "walk_start": ("ones", "random"),
    "objective": ("ranking_scores", "edge_sum"),
}
_POSITIVE = ("exemplar_C", "gamma_far", "gamma_near")


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
            f"{name} must be one of {list(known)}, got {getattr(self, name)!r}"
            for name, known in _CHOICES.items()
            if getattr(self, name) not in known
        ]
        for name in _POSITIVE:
            if not _is_number(getattr(self, name)) or getattr(self, name) <= 0:
                problems.append(f"{name} must be a number above 0, got {getattr(self, name)!r}")
        if not _is_number(self.t_threshold):
            problems.append(f"t_threshold must be a number, got {self.t_threshold!r}")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if value != "log-ratio" and not (_is_number(value) and value >= 0):
                problems.append(f"{name} must be 'log-ratio' or a number from 0, got {value!r}")
        if not _is_number(self.margin):
            problems.append(f"margin must be a number, got {self.margin!r}")
        for name, optional in (
            ("penalty", False),
            ("discrimination_scale", False),
            ("discrimination_relative", True),
        ):
            value = getattr(self, name)
            if not (optional and value is None) and not (_is_number(value) and value >= 0):
                problems.append(f"{name} must be a number from 0, got {value!r}")
        density, damping = self.quasi_clique_density, self.damping
        if not (_is_number(density) and 0 < density <= 1):
            problems.append(f"quasi_clique_density must be above 0 and at most 1, got {density!r}")
        if not (_is_number(damping) and 0 <= damping <= 1):
            problems.append(f"damping must be from 0 to 1, got {damping!r}")
        if not isinstance(self.walk_iterations, Integral) or self.walk_iterations < 0:
            problems.append(
                f"walk_iterations must be an integer from 0, got {self.walk_iterations!r}"
            )
        if not isinstance(self.confidence_bias, bool | np.bool_):
            problems.append(f"confidence_bias must be True or False, got {self.confidence_bias!r}")
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
        unknown = sorted(set(changes) - {field.name for field in fields(self)})
        if unknown:
            raise ValueError(
                f"PaperReading has no field {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(field.name for field in fields(self))}."
            )
        return PaperReading(**{**asdict(self), **changes})


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
