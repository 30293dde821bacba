"""The claims of the paper, and whether our numbers confirm them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from pigmil.reproduction.printed_tables import SYNTHETIC

FLAT = 5.0  # points within which a curve counts as flat
OTHER_SETS = ("elephant", "fox", "tiger")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether our numbers support it.

    Attributes
    ----------
    about : str
        Table or figure.
    variant : str
        Configuration of PIGMIL and reading of the experiment.
    text : str
        What the paper says.
    holds : bool
        Whether our numbers agree.
    numbers : str
        Which they are.
    """

    about: str
    variant: str
    text: str
    holds: bool
    numbers: str


def curve(frame: Any) -> Any:
    """Return the mean accuracy at each x of one curve."""
    return frame.groupby("x")["detection_accuracy"].mean() * 100


def change(frame: Any, start: float, end: float) -> tuple[float, float]:
    """Return the change of accuracy between two x over the same seeds, and its standard error."""
    wide = frame.pivot_table(index="seed", columns="x", values="detection_accuracy") * 100
    difference = (wide[end] - wide[start]).to_numpy()
    n = len(difference)
    error = float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return float(difference.mean()), error


def format_values(values: Any) -> str:
    """Return a curve as text: x: mean, x: mean."""
    return ", ".join(f"{x:g}: {value:.1f}" for x, value in values.items())


def table1_claims(table: Any) -> list[Claim]:
    """Claims about Table I."""
    wide = table.pivot(index="data", columns="method", values="ours").loc[list(SYNTHETIC)]
    claims = []
    for name in ("PIGMIL", "PIGMIL|paper"):
        others = wide.drop(columns=["PIGMIL", "PIGMIL|paper"])
        best = wide[name] >= others.max(axis=1) - 0.5
        claims.append(
            Claim(
                "Table I",
                name,
                "PIGMIL is best, or level with the best, on all three sets",
                bool(best.all()),
                "; ".join(
                    f"{data} {wide.loc[data, name]:.1f} against at most "
                    f"{others.loc[data].max():.1f} ({others.loc[data].idxmax()})"
                    for data in SYNTHETIC
                ),
            )
        )
    for text, data, methods in (
        ("DD and MILD do badly on BASIC", "BASIC", ["DD", "MILD"]),
        ("KDE and KDE_max fail on RING", "RING", ["KDE", "KDE_max"]),
    ):
        values = wide.loc[data, methods]
        numbers = ", ".join(f"{name} {value:.1f}" for name, value in values.items())
        claims.append(Claim("Table I", "baselines", text, bool((values < 50).all()), numbers))
    return claims


def table2_claims(table: Any) -> list[Claim]:
    """Claims about Table II."""
    wide = table.pivot(index="data", columns="method", values="ours")
    claims = []
    shown = [name for name in ("PIGMIL", "PIGMIL|paper") if name in wide]
    others = wide.drop(columns=shown)
    for name in shown:
        for text, rows in (
            ("PIGMIL outperforms most other methods", others.index),
            (
                "especially on Elephant, Fox and Tiger",
                [data for data in OTHER_SETS if data in others.index],
            ),
        ):
            if not len(rows) or wide.loc[rows, name].isna().all():
                continue
            known = others.loc[rows].notna().to_numpy()
            wins = (others.loc[rows].lt(wide.loc[rows, name], axis=0)).to_numpy()[known]
            numbers = f"it has the higher mean in {int(wins.sum())} of {wins.size} comparisons"
            claims.append(Claim("Table II", name, text, bool(wins.mean() > 0.5), numbers))
    return claims


def _rises(frame: Any) -> tuple[bool, str]:
    xs = sorted(frame["x"].unique())
    gain, error = change(frame, xs[0], xs[-1])
    return gain > 2 * error, f"{gain:+.1f} ± {error:.1f} points from {xs[0]:g} to {xs[-1]:g}"


def _rises_a_little(frame: Any) -> tuple[bool, str]:
    xs = sorted(frame["x"].unique())
    gain, error = change(frame, xs[0], xs[-1])
    return (
        gain > 2 * error and gain < 20,
        f"{gain:+.1f} ± {error:.1f} points from {xs[0]:g} to {xs[-1]:g}",
    )


def _peaks(low: float, high: float) -> Callable[[Any], tuple[bool, str]]:
    def check(frame: Any) -> tuple[bool, str]:
        values = curve(frame)
        best = float(values.idxmax())
        worst = float(values.idxmin())
        fall, error = change(frame, worst, best)
        inside = low <= best <= high and fall > 2 * error
        return inside, f"best at {best:g} with {values.max():.1f}, least {values.min():.1f}"

    return check


def _flat(frame: Any) -> tuple[bool, str]:
    values = curve(frame)
    spread = float(values.max() - values.min())
    return spread <= FLAT, f"between {values.min():.1f} and {values.max():.1f}"


def _by_set(
    frame: Any, about: str, checks: dict[str, tuple[str, Callable[[Any], tuple[bool, str]]]]
) -> list[Claim]:
    claims = []
    for variant, part in frame.groupby("variant", sort=False):
        for data, (text, check) in checks.items():
            rows = part[part["data"] == data]
            holds, numbers = check(rows)
            claims.append(Claim(about, variant, f"{data}: {text}", bool(holds), numbers))
    return claims


def ratio_claims(frame: Any) -> list[Claim]:
    """Claims about accuracy against the ratio of D to S + C."""
    return _by_set(
        frame,
        "Ratio",
        {
            "BASIC": ("accuracy rises with the weight of D", _rises),
            "RHOMBUS": ("best where both are of one magnitude", _peaks(0.5, 2.0)),
            "RING": ("accuracy rises a little with the weight of D", _rises_a_little),
        },
    )


def working_set_claims(frame: Any) -> list[Claim]:
    """Claims about accuracy against the size of the working sets."""
    best = ("best near 40 %", _peaks(30, 50))
    return _by_set(
        frame,
        "Working set",
        {"BASIC": best, "RHOMBUS": best, "RING": ("does not change significantly", _flat)},
    )


def noise_claims(frame: Any) -> list[Claim]:
    """Claims about accuracy against noise."""
    claims = []
    for variant, part in frame.groupby("variant", sort=False):
        rows = {data: part[part["data"] == data] for data in SYNTHETIC}
        curves = {data: curve(values) for data, values in rows.items()}
        levels = sorted(part["x"].unique())
        first, last = levels[0], levels[-1]
        falls = {data: change(values, first, last) for data, values in rows.items()}
        claims.append(
            Claim(
                "Noise",
                variant,
                "accuracy falls with noise",
                all(fall < -2 * error for fall, error in falls.values()),
                "; ".join(f"{data} {format_values(values)}" for data, values in curves.items()),
            )
        )
        if {2, 3, 4, 5} <= set(levels):
            late = {data: values[4] - values[5] for data, values in curves.items()}
            early = {data: values[2] - values[3] for data, values in curves.items()}
            claims.append(
                Claim(
                    "Noise",
                    variant,
                    "the fall is slower at high levels: less from 4 to 5 than from 2 to 3",
                    all(late[data] < early[data] for data in SYNTHETIC),
                    ", ".join(f"{d} {early[d]:.1f} then {late[d]:.1f}" for d in SYNTHETIC),
                )
            )
        steepest = {data: float(-np.diff(values).min()) for data, values in curves.items()}
        claims.append(
            Claim(
                "Noise",
                variant,
                "the fall is sharpest on RING",
                steepest["RING"] == max(steepest.values()),
                "greatest fall from one level to the next: "
                + ", ".join(f"{data} {value:.1f}" for data, value in steepest.items()),
            )
        )
    return claims


def detection_claims(frame: Any) -> list[Claim]:
    """Claims about the working sets and the pool, one row per set and configuration."""
    claims = []
    for variant, part in frame.groupby("variant", sort=False):
        part = part.set_index("data")
        kept = part["positives_in_working_sets"]
        claims.append(
            Claim(
                "Data sets",
                variant,
                "working sets hold most positive instances",
                bool((kept > 50).all()),
                ", ".join(f"{data} {value:.0f} %" for data, value in kept.items()),
            )
        )
        claims.append(
            Claim(
                "Detection",
                variant,
                "the pool has a higher share of positives than the working sets",
                bool((part["pool_purity"] > part["working_set_purity"]).all()),
                ", ".join(
                    f"{data} {row.pool_purity:.0f} % against {row.working_set_purity:.0f} %"
                    for data, row in part.iterrows()
                ),
            )
        )
    return claims


def influence_claims(frame: Any) -> list[Claim]:
    """Claims about d(delta)."""
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
    return [Claim("d(Δ)", "the definition", text, holds, ends)]


def graph_claims(frame: Any) -> list[Claim]:
    """Claims about a ranked graph, one row per vertex."""
    if len(frame) < 3 or frame["weighted_degree"].nunique() < 2 or frame["score"].nunique() < 2:
        return []
    rank = float(stats.spearmanr(frame["weighted_degree"], frame["score"]).statistic)
    top = frame.loc[frame["score"].idxmax()]
    return [
        Claim(
            "CSDG",
            "PIGMIL",
            "the vertex with the most and heaviest edges ranks highest",
            bool(top["weighted_degree"] >= frame["weighted_degree"].max() * (1 - 1e-9)),
            f"rank correlation of weighted degree and score {rank:.2f}; the best vertex has "
            f"degree {top['weighted_degree']:.1f}, the greatest is "
            f"{frame['weighted_degree'].max():.1f}",
        )
    ]
