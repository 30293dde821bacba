"""The choices that the PIGMIL paper leaves open, and its constants, in one place."""

from dataclasses import asdict, dataclass, replace
from numbers import Integral, Real
from typing import Any

from pigmil._core._sklearn_compat import Interval, StrOptions, validate_parameter_constraints

_ABOVE_ZERO = [Interval(Real, 0, None, closed="neither")]
_FROM_ZERO = [Interval(Real, 0, None, closed="left")]
_BALANCE = [StrOptions({"log-ratio"}), *_FROM_ZERO]
_CONSTRAINTS: dict[str, Any] = {
    "margin": [Real],
    "penalty": _FROM_ZERO,
    "t_threshold": [Real, None],
    "exemplar_C": _ABOVE_ZERO,
    "confidence_bias": ["boolean"],
    "similarity_use": [StrOptions({"weights", "edges", "none"})],
    "quasi_clique_density": [Interval(Real, 0, 1, closed="right")],
    "gamma_far": _ABOVE_ZERO,
    "gamma_near": _ABOVE_ZERO,
    "alpha": _BALANCE,
    "beta": _BALANCE,
    "alpha_on": [StrOptions({"consistency", "similarity"})],
    "discrimination_scale": _FROM_ZERO,
    "discrimination_relative": [*_FROM_ZERO, None],
    "damping": [Interval(Real, 0, 1, closed="both")],
    "walk_iterations": [Interval(Integral, 0, None, closed="left")],
    "walk_start": [StrOptions({"ones", "random"})],
}


@dataclass(frozen=True)
class PaperReading:
    """How PIGMIL reads the paper where it is silent or contradicts itself, and its constants.

    The defaults are the readings under which the printed results can be explained; each was
    studied alone. Change one with ``PIGMIL(reading=PaperReading(alpha_on="similarity"))`` or with
    ``model.set_params(reading__alpha_on="similarity")``.

    Parameters
    ----------
    margin, penalty : float, default=0.7, 10.0
        Of the "supported" working score, see :func:`pigmil.graph.working_score`; not in the paper.
    t_threshold : float or None, default=1.5
        A positive bag with a greater t value is set aside (Definition 4); None keeps all bags.
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
    discrimination_scale : float, default=1.0
        Factor on the discrimination: the first meaning of "ratio of D to S + C".
    discrimination_relative : float, optional
        Rescale the discrimination to this multiple of the mean ``S + alpha C``, in place of beta:
        the second meaning of that ratio.
    damping : float, default=0.8
        Damping of the walk, Eq. (8).
    walk_iterations : int, default=10
        Of the walk; the loop as printed makes one product more.
    walk_start : {"ones", "random"}, default="ones"
        Initial scores of the walk; the paper draws them at random.

    Examples
    --------
    >>> from pigmil import PIGMIL, PaperReading
    >>> model = PIGMIL(reading=PaperReading(t_threshold=2.0))
    >>> model.set_params(reading__alpha_on="similarity").reading.t_threshold
    2.0
    """

    margin: float = 0.7
    penalty: float = 10.0
    t_threshold: float | None = 1.5
    exemplar_C: float = 1.0
    confidence_bias: bool = True
    similarity_use: str = "weights"
    quasi_clique_density: float = 0.9
    gamma_far: float = 1.0
    gamma_near: float = 1.0
    alpha: str | float = "log-ratio"
    beta: str | float = "log-ratio"
    alpha_on: str = "consistency"
    discrimination_scale: float = 1.0
    discrimination_relative: float | None = None
    damping: float = 0.8
    walk_iterations: int = 10
    walk_start: str = "ones"

    def __post_init__(self) -> None:
        """Raise an error that names a field with a wrong value."""
        validate_parameter_constraints(_CONSTRAINTS, asdict(self), "PaperReading")

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
        unknown = sorted(set(changes) - set(_CONSTRAINTS))
        if unknown:
            raise ValueError(
                f"PaperReading has no field {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(_CONSTRAINTS)}."
            )
        return replace(self, **changes)
