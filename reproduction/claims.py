"""The claims of the paper, and whether our numbers confirm them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from reproduction.detection import CONFIGURATIONS
from reproduction.printed import SYNTHETIC

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be decided"
MARGIN = 1.0  # points; a smaller advantage counts as none
FLAT = 5.0  # points within which a curve counts as flat
CEILING = 99.5  # accuracy beyond which nothing can rise
EASY_SETS = ("elephant", "fox", "tiger")

Finding = tuple[str, str]  # a verdict and the numbers behind it
Rule = Callable[[Any, float], Finding]  # of the rows and the standard errors that decide


@dataclass(frozen=True)
class Check:
    """A claim checked with one configuration of PIGMIL and one reading of the experiment.

    Attributes
    ----------
    configuration : str
        Label of the configuration; empty where the claim is not about PIGMIL.
    reading : str
        How the experiment is read; empty where there is one reading.
    verdict : {"holds", "does not hold", "cannot be decided"}
        By the difference and its standard error.
    numbers : str
        These numbers.
    """

    configuration: str
    reading: str
    verdict: str
    numbers: str


@dataclass(frozen=True)
class Claim:
    """A claim of the paper with all its checks.

    Attributes
    ----------
    about : str
        Table or figure.
    text : str
        The claim.
    checks : tuple of Check
        One per configuration and reading.
    """

    about: str
    text: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """Return the verdict of the majority of all checks; without one it cannot be decided."""
        return majority([check.verdict for check in self.checks])


def majority(verdicts: Sequence[str]) -> str:
    """Return the verdict of more than half of the checks, otherwise "cannot be decided".

    Examples
    --------
    >>> majority(["holds", "holds", "does not hold"]), majority(["holds", "cannot be decided"])
    ('holds', 'cannot be decided')
    """
    for verdict in (HOLDS, FAILS):
        if 2 * list(verdicts).count(verdict) > len(verdicts):
            return verdict
    return OPEN


def bound_of(n_checks: int) -> float:
    """Return the standard errors that decide one check of a claim with several.

    A claim is decided by more than half of its n checks, that is u = n // 2 + 1 of them. The
    chance of a wrong decision stays that of two standard errors if each check has it divided by
    n - u + 1 (Benjamini and Heller, Biometrics 2008).

    Examples
    --------
    >>> [round(bound_of(n), 2) for n in (1, 3, 12)]
    [2.0, 2.28, 2.67]
    """
    return float(norm.isf(norm.sf(2.0) / max(1, n_checks - n_checks // 2)))


def decide(advantage: float, error: float, margin: float = MARGIN, *, bound: float = 2.0) -> str:
    """Return a verdict on "the advantage is positive" from its estimate and standard error.

    It holds if the advantage is positive by more than ``bound`` standard errors. It does not hold
    if an advantage of ``margin`` points lies beyond these. Otherwise it cannot be decided.

    Examples
    --------
    >>> decide(5.0, 1.0), decide(-1.0, 0.5), decide(1.0, 2.0), decide(5.0, 2.0, bound=2.6)
    ('holds', 'does not hold', 'cannot be decided', 'cannot be decided')
    """
    if math.isnan(advantage) or math.isnan(error):
        return OPEN
    if advantage - bound * error > 0:
        return HOLDS
    return FAILS if advantage + bound * error < margin else OPEN


def all_hold(verdicts: Iterable[str]) -> str:
    """Return the verdict on a claim that must hold in every part."""
    listed = list(verdicts)
    if FAILS in listed:
        return FAILS
    return OPEN if OPEN in listed else HOLDS


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean and its standard error; NaN for the error of a single value."""
    array = np.asarray(values, dtype=float)
    error = array.std(ddof=1) / math.sqrt(len(array)) if len(array) > 1 else math.nan
    return float(array.mean()), float(error)


def curve(frame: Any) -> Any:
    """Return the mean accuracy at each x of one curve."""
    return frame.groupby("x")["detection_accuracy"].mean() * 100


def change(frame: Any, start: float, end: float) -> tuple[float, float]:
    """Return the change of accuracy between two x over the same seeds, and its standard error."""
    wide = frame.pivot_table(index="seed", columns="x", values="detection_accuracy") * 100
    return mean_and_error(wide[end] - wide[start])


def format_values(values: Any) -> str:
    """Return a curve as text: x: mean, x: mean."""
    return ", ".join(f"{x:g}: {value:.1f}" for x, value in values.items())


def table1_claims(cells: Any) -> list[Claim]:
    """Return the claims about Table I, from one row per fit."""
    checks = []
    readings = (("pool", "pool"), ("best of every bag", "every_bag"))
    bound = bound_of(len(readings) * len(CONFIGURATIONS))
    for reading, column in readings:
        wide = cells.pivot_table(index=["data", "seed"], columns="method", values=column)
        others = wide.drop(columns=list(CONFIGURATIONS))
        for name in CONFIGURATIONS:
            verdicts, numbers = [], []
            for data in SYNTHETIC:
                rival = str(others.loc[data].mean().idxmax())
                ahead, error = mean_and_error(wide.loc[data][name] - others.loc[data][rival])
                # Level with the best is enough: less than a point behind.
                verdicts.append(decide(ahead + MARGIN, error, bound=bound))
                numbers.append(f"{data} {ahead:+.1f} ± {error:.1f} points against {rival}")
            checks.append(Check(name, reading, all_hold(verdicts), "; ".join(numbers)))
    claims = [Claim("Table I", "PIGMIL is best, or level with the best, on all sets", (*checks,))]
    for text, data, methods in (
        ("DD and MILD do badly on BASIC", "BASIC", ("DD", "MILD")),
        ("KDE and KDE_max fail on RING", "RING", ("KDE", "KDE_max")),
    ):
        found = {
            name: mean_and_error(cells[(cells.data == data) & (cells.method == name)]["pool"])
            for name in methods
        }
        verdict = all_hold(decide(50 - mean, error, 0.0) for mean, error in found.values())
        numbers = [f"{name} {mean:.1f} ± {error:.1f} %" for name, (mean, error) in found.items()]
        claims.append(Claim("Table I", text, (Check("", "", verdict, ", ".join(numbers)),)))
    return claims


def table2_claims(table: Any) -> list[Claim]:
    """Return the claims about Table II; the error is that over data sets."""
    wide = table.pivot(index="data", columns="method", values="ours")
    shown = [name for name in CONFIGURATIONS if name in wide]
    others = wide.drop(columns=shown)
    most, especially = [], []
    bound = bound_of(len(shown))
    for name in shown:
        known = others.notna()
        share = 100 * others.lt(wide[name], axis=0).where(known).mean(axis=1)
        share = share[wide[name].notna()]
        mean, error = mean_and_error(share)
        numbers = f"beats {mean:.0f} ± {error:.0f} % of the other methods on a set"
        most.append(Check(name, "", decide(mean - 50, error, 0.0, bound=bound), numbers))
        easy = share.index.isin(EASY_SETS)
        if easy.sum() > 1 and (~easy).sum() > 1:
            (here, first), (there, second) = (
                mean_and_error(share[easy]),
                mean_and_error(share[~easy]),
            )
            error = math.hypot(first, second)
            numbers = f"{here:.0f} % there and {there:.0f} % elsewhere, ± {error:.0f}"
            especially.append(
                Check(name, "", decide(here - there, error, 0.0, bound=bound), numbers)
            )
    texts = ("PIGMIL outperforms most other methods", "especially on Elephant, Fox and Tiger")
    return [
        Claim("Table II", text, tuple(checks))
        for text, checks in zip(texts, (most, especially), strict=True)
        if checks
    ]


def _rises(frame: Any, bound: float) -> Finding:
    xs = sorted(frame["x"].unique())
    gain, error = change(frame, xs[0], xs[-1])
    numbers = f"{gain:+.1f} ± {error:.1f} points from {xs[0]:g} to {xs[-1]:g}"
    if curve(frame)[xs[0]] > CEILING:
        return OPEN, f"{numbers}; at the ceiling from the start"
    return decide(gain, error, bound=bound), numbers


def _rises_a_little(frame: Any, bound: float) -> Finding:
    verdict, numbers = _rises(frame, bound)
    xs = sorted(frame["x"].unique())
    gain, error = change(frame, xs[0], xs[-1])
    return (FAILS if verdict == HOLDS and gain - bound * error > 20 else verdict), numbers


def _peaks(low: float, high: float) -> Rule:
    def check(frame: Any, bound: float) -> Finding:
        values = curve(frame)
        inside = values[(values.index >= low) & (values.index <= high)]
        outside = values.drop(inside.index)
        if inside.empty or outside.empty:
            return OPEN, f"only {format_values(values)}"
        best, other = float(inside.idxmax()), float(outside.idxmax())
        ahead, error = change(frame, other, best)
        numbers = (
            f"{inside.max():.1f} at {best:g}, {outside.max():.1f} at {other:g}: "
            f"{ahead:+.1f} ± {error:.1f}"
        )
        if min(inside.max(), outside.max()) > CEILING:
            return OPEN, f"{numbers}; both at the ceiling"
        return decide(ahead, error, bound=bound), numbers

    return check


def _flat(frame: Any, bound: float) -> Finding:
    values = curve(frame)
    spread, error = change(frame, float(values.idxmin()), float(values.idxmax()))
    numbers = f"{values.min():.1f} to {values.max():.1f}: {spread:.1f} ± {error:.1f} apart"
    return decide(FLAT - spread, error, 0.0, bound=bound), numbers


def _over_variants(about: str, text: str, frame: Any, check: Rule) -> Claim:
    """Check a claim in every variant of an experiment: "configuration, reading"."""
    checks, bound = [], bound_of(frame["variant"].nunique())
    for variant, rows in frame.groupby("variant", sort=False):
        name, _, reading = variant.partition(", ")
        checks.append(Check(name, reading, *check(rows, bound)))
    return Claim(about, text, tuple(checks))


def _by_set(about: str, frame: Any, checks: dict[str, tuple[str, Any]]) -> list[Claim]:
    return [
        _over_variants(about, f"{data}: {text}", frame[frame["data"] == data], check)
        for data, (text, check) in checks.items()
    ]


def ratio_claims(frame: Any) -> list[Claim]:
    """Return the claims about accuracy against the ratio of D to S + C."""
    return _by_set(
        "Ratio",
        frame,
        {
            "BASIC": ("accuracy rises with the weight of D", _rises),
            "RHOMBUS": ("best where D and S + C are of one magnitude", _peaks(0.5, 2.0)),
            "RING": ("accuracy rises a little with the weight of D", _rises_a_little),
        },
    )


def working_set_claims(frame: Any) -> list[Claim]:
    """Return the claims about accuracy against the size of the working sets."""
    best = ("best with working sets of about 40 %", _peaks(30, 50))
    return _by_set(
        "Working set",
        frame,
        {"BASIC": best, "RHOMBUS": best, "RING": ("does not change significantly", _flat)},
    )


def noise_claims(frame: Any) -> list[Claim]:
    """Return the claims about accuracy against noise."""
    levels = sorted(frame["x"].unique())

    def falls(rows: Any, bound: float) -> Finding:
        found = {d: change(rows[rows["data"] == d], levels[0], levels[-1]) for d in SYNTHETIC}
        numbers = ", ".join(f"{d} {fall:+.1f} ± {error:.1f}" for d, (fall, error) in found.items())
        verdicts = [decide(-fall, error, bound=bound) for fall, error in found.values()]
        return all_hold(verdicts), numbers

    def slows(rows: Any, bound: float) -> Finding:
        verdicts, numbers = [], []
        for data in SYNTHETIC:
            part = rows[rows["data"] == data]
            wide = part.pivot_table(index="seed", columns="x", values="detection_accuracy") * 100
            early, late = wide[2] - wide[3], wide[4] - wide[5]
            less, error = mean_and_error(early - late)
            verdicts.append(decide(less, error, bound=bound))
            numbers.append(
                f"{data} {early.mean():.1f} then {late.mean():.1f} ({less:+.1f} ± {error:.1f})"
            )
        return all_hold(verdicts), ", ".join(numbers)

    def sharpest(rows: Any, bound: float) -> Finding:
        steps = {data: _steepest_fall(rows[rows["data"] == data]) for data in SYNTHETIC}
        ring, ring_error = steps.pop("RING")
        rival = max(steps, key=lambda data: steps[data][0])
        fall, error = steps[rival]
        error = math.hypot(error, ring_error)
        numbers = (
            f"greatest fall from one level to the next {ring:.1f} on RING, {fall:.1f} on {rival}: "
            f"{ring - fall:+.1f} ± {error:.1f}"
        )
        return decide(ring - fall, error, bound=bound), numbers

    claims = [_over_variants("Noise", "accuracy falls with noise", frame, falls)]
    if {2, 3, 4, 5} <= set(levels):
        text = "the fall slows down: it is smaller from 4 to 5 than from 2 to 3"
        claims.append(_over_variants("Noise", text, frame, slows))
    claims.append(_over_variants("Noise", "the fall is sharpest on RING", frame, sharpest))
    return claims


def _steepest_fall(frame: Any) -> tuple[float, float]:
    """Return the greatest fall from one level to the next, and its standard error."""
    values = curve(frame)
    after = int(np.argmin(np.diff(values)))
    fall, error = change(frame, values.index[after], values.index[after + 1])
    return -fall, error


def detection_claims(frame: Any) -> list[Claim]:
    """Return the claims about working sets, pool and graph, from one row per fit, in per cent."""

    def most_positives(rows: Any, bound: float) -> Finding:
        found = _by_data(rows, rows["positives_in_working_sets"])
        verdict = all_hold(
            decide(mean - 50, error, 0.0, bound=bound) for mean, error in found.values()
        )
        return verdict, ", ".join(f"{d} {mean:.0f} ± {e:.0f} %" for d, (mean, e) in found.items())

    def purer(rows: Any, bound: float) -> Finding:
        found = _by_data(rows, rows["pool_purity"] - rows["working_set_purity"])
        verdict = all_hold(decide(mean, error, bound=bound) for mean, error in found.values())
        return verdict, ", ".join(f"{d} {mean:+.0f} ± {e:.0f}" for d, (mean, e) in found.items())

    def heaviest_first(rows: Any, bound: float) -> Finding:
        share, error = mean_and_error(rows["heaviest_ranks_first"].dropna())
        numbers = f"in {share:.0f} ± {error:.0f} % of the graphs"
        return decide(share - 50, error, 0.0, bound=bound), numbers

    return [
        _over_variants("Data sets", "working sets hold most positives", frame, most_positives),
        _over_variants(
            "Detection", "the pool has a higher share of positives than the working sets", frame,
            purer,
        ),
        _over_variants(
            "CSDG", "the vertex with the most and heaviest edges ranks highest", frame,
            heaviest_first,
        ),
    ]  # fmt: skip


def _by_data(rows: Any, values: Any) -> dict[str, tuple[float, float]]:
    return {data: mean_and_error(values[rows["data"] == data]) for data in SYNTHETIC}


def influence_claims(frame: Any) -> list[Claim]:
    """Return the claims about d(delta), which follow from its definition."""
    delta, value = frame["delta"].to_numpy(), frame["influence"].to_numpy()
    far, near = delta >= 1, delta <= 1
    slopes = np.diff(value) / np.diff(delta)
    holds = bool(
        (slopes > 0).all()
        and (value[far] >= -1).all()
        and (value[far] < 0).all()
        and (np.diff(slopes[near[1:]]) < 0).all()
        and (np.diff(slopes[far[:-1]]) < 0).all()
    )
    text = "d rises with distance, ever more slowly far away (limit 0), ever more steeply close by"
    ends = f"d({delta[0]:g}) = {value[0]:.2f}, d(1) = -1, d({delta[-1]:g}) = {value[-1]:.3f}"
    return [Claim("d(Δ)", text, (Check("", "", HOLDS if holds else FAILS, ends),))]
