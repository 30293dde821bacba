"""The experiments behind the paper's figures: numbers first, pictures from them."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from pigmil.graph import influence
from reproduction import claims, drawing
from reproduction.claims import Claim
from reproduction.detection import (
    CONFIGURATIONS,
    DISPLAY_NAMES,
    MAKERS,
    Detection,
    Runner,
    fitted,
    run_detections,
)
from reproduction.printed import SYNTHETIC

CAPTION_FRACTION = 0.6  # the captions of both scatter figures say 60 %, the text 40 %
# Two meanings of the ratio of D to S + C, with alpha on C (Definition 9) or on S (Eq. 2).
MEANINGS = {
    "D scaled, alpha on C": ("discrimination_scale", "consistency"),
    "D scaled, alpha on S": ("discrimination_scale", "similarity"),
    "D = k (S + C), alpha on C": ("discrimination_relative", "consistency"),
    "D = k (S + C), alpha on S": ("discrimination_relative", "similarity"),
}
KINDS = {"instances change sides": "swap", "labels flipped": "labels"}


@dataclass(frozen=True)
class FigureSize:
    """How much is computed for the figures."""

    seeds: int = 10
    ratios: Sequence[float] = (0.125, 0.5, 1.0, 2.0, 8.0)
    levels: Sequence[int] = (0, 1, 2, 3, 4, 5)
    fractions: Sequence[int] = (20, 40, 60, 80, 100)


@dataclass(frozen=True)
class Outcome:
    """A figure: its numbers, the claims about it, and the function that draws it.

    Attributes
    ----------
    name, title : str
        Stem of its files, and a heading.
    frame : pandas.DataFrame
        The numbers behind it.
    claims : list of Claim
        What the paper says and whether it holds.
    draw : callable
        Makes the matplotlib figure from ``frame``.
    notes : str
        What else to know.
    """

    name: str
    title: str
    frame: Any
    claims: list[Claim]
    draw: Callable[[Any], Any]
    notes: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def figures(runner: Runner, size: FigureSize) -> list[Outcome]:
    """Compute the paper's figures.

    Parameters
    ----------
    runner : Runner
        Runs the fits.
    size : FigureSize
        Seeds and points of the curves.
    """

    def run(wanted: list[Detection]) -> list[dict[str, Any]]:
        return run_detections(wanted, range(size.seeds), runner)

    return [
        _scatter(run),
        _influence(),
        _graph(),
        _ratio(run, size.ratios),
        _noise(run, size.levels),
        _working_set(run, size.fractions),
    ]


Run = Callable[[list[Detection]], list[dict[str, Any]]]


def _scatter(run: Run) -> Outcome:
    """Compute the figure of the sets: working sets and detected instances."""
    share = (("working_set_fraction", CAPTION_FRACTION),)
    wanted = [
        Detection(data, name, parameters=share) for name in CONFIGURATIONS for data in SYNTHETIC
    ]
    rows = pd.DataFrame([row for row in run(wanted) if "error" not in row]).rename(
        columns={"detection_accuracy": "pool_purity", "method": "variant"}
    )
    shares = ["pool_purity", "working_set_purity", "positives_in_working_sets", "edge_share",
              "heaviest_ranks_first"]  # fmt: skip
    terms = ["similarity_term", "consistency_term", "discrimination_term", "largest_beta"]
    rows = rows.reindex(columns=["variant", "data", "seed", *shares, *terms])
    rows[shares] *= 100
    summary = rows.groupby(["variant", "data"], sort=False)[shares + terms].mean().reset_index()
    points = pd.concat([_points(what) for what in wanted], ignore_index=True)
    return Outcome(
        "figure_detection",
        "The data sets with their working sets, and what was detected",
        points,
        claims.detection_claims(rows),
        drawing.draw_detection,
        "One draw (seed 0) of each set; the shares are means over the seeds of the curves below. "
        f"The captions say 60 % of a bag, the text 40 %; here 60 %. {_describe_terms(summary)}",
        {"measures": summary},
    )


def _describe_terms(summary: Any) -> str:
    """Describe how the terms of the edge weight compare, from their measured means."""
    by = summary.groupby("variant", sort=False)
    ranges = {
        name: f"{by[name].mean().min():.3g} to {by[name].mean().max():.3g}"
        for name in ("similarity_term", "consistency_term", "discrimination_term")
    }
    edges = ", ".join(
        f"{value:.0f} % with {DISPLAY_NAMES[name]}"
        for name, value in by["edge_share"].mean().items()
    )
    return (
        f"Final graphs: {edges} of the pairs are edges. In an edge weight, by configuration, S is "
        f"{ranges['similarity_term']} on average, alpha C {ranges['consistency_term']} and "
        f"beta |D| {ranges['discrimination_term']}; the largest beta is "
        f"{summary['largest_beta'].max():.3g} on average over the seeds."
    )


def _points(what: Detection) -> Any:
    bags, model = fitted(what, 0)
    marks = {
        name: np.isin(np.arange(bags.n_instances), members)
        for name, members in (
            ("in_working_set", np.concatenate(model.working_sets_)),
            ("in_pool", model.pool_),
        )
    }
    return pd.DataFrame(
        {
            "variant": what.method,
            "data": what.data,
            "bag": bags.bag_index,
            "bag_label": bags.y[bags.bag_index],
            "label": bags.instance_labels,
            "x1": bags.instances[:, 0],
            "x2": bags.instances[:, 1],
            **marks,
        }
    )


def _influence() -> Outcome:
    delta = np.round(np.arange(0.02, 5.0001, 0.02), 2)
    frame = pd.DataFrame({"delta": delta, "influence": influence(delta)})
    return Outcome(
        "figure_influence",
        "The influence d(Δ) of a negative instance at distance Δ",
        frame,
        claims.influence_claims(frame),
        drawing.draw_influence,
    )


def _graph() -> Outcome:
    """Compute a small graph with its ranking scores, as in the paper's sketch."""
    bags = MAKERS["RHOMBUS"](random_state=0, n_positive_bags=12, n_negative_bags=12)
    model = CONFIGURATIONS["PIGMIL"](C=1.0, random_state=0).fit(bags)
    graph, x1 = model.csdg_, bags.instances[model.pool_, 0]
    order = np.argsort(np.argsort(-graph.scores, kind="stable"))
    vertices = pd.DataFrame(
        {
            "vertex": np.arange(len(graph.scores)),
            "x1": x1,
            "x2": bags.instances[model.pool_, 1],
            "label": bags.instance_labels[model.pool_],
            "rank": order + 1,
            "score": graph.scores,
            "degree": (graph.weights > 0).sum(axis=1),
            "weighted_degree": graph.weights.sum(axis=1),
        }
    )
    left, right = np.nonzero(np.triu(graph.weights, 1))
    weight = graph.weights[left, right]
    # A, B and C: thirds of the range of weights.
    place = (3 * (weight.max() - weight) / max(np.ptp(weight), 1e-12)).astype(int).clip(0, 2)
    edges = pd.DataFrame(
        {
            "left": left,
            "right": right,
            "weight": weight,
            "edge_class": np.array(["A", "B", "C"])[place],
        }
    )
    side = max((x1 > 0).sum(), (x1 < 0).sum())
    return Outcome(
        "figure_csdg",
        "A consistent similarity and discrimination graph with its ranking scores",
        vertices,
        [],
        lambda frame: drawing.draw_graph(frame, edges, "PIGMIL(), RHOMBUS"),
        "`PIGMIL()` on RHOMBUS with 12 + 12 bags, seed 0, after the updating. Colours: classes of "
        f"edges, thirds of the range of weights. {_equal_degree(vertices)} RHOMBUS has two "
        f"clusters of positives; the pool settles in one of them, here {side} of {len(x1)}.",
        {"edges": edges},
    )


def _equal_degree(vertices: Any) -> str:
    """Describe the two vertices of equal degree whose ranks differ most."""
    ranks = vertices.groupby("degree")["rank"].agg(["min", "max"])
    apart = ranks["max"] - ranks["min"]
    if not apart.max() > 0:
        return ""
    degree, (best, worst) = apart.idxmax(), ranks.loc[apart.idxmax()]
    sums = vertices.set_index("rank")["weighted_degree"]
    return (
        f"Equal degree, different rank: the vertices of rank {best} and {worst} have {degree} "
        f"edges each, of {sums[best]:.0f} and {sums[worst]:.0f} in all."
    )


def _ratio(run: Run, ratios: Sequence[float]) -> Outcome:
    wanted = [
        (
            f"{name}, {meaning}",
            Detection(data, name, x=ratio, weighing=((setting, ratio), ("alpha_on", alpha_on))),
        )
        for meaning, (setting, alpha_on) in MEANINGS.items()
        for name, data in itertools.product(CONFIGURATIONS, SYNTHETIC)
        for ratio in ratios
    ]
    return _curves(
        run,
        wanted,
        "figure_ratio",
        "Accuracy against the ratio of D to S + C",
        claims.ratio_claims,
        partial(drawing.draw_curves, size=(11, 3.1), label="ratio of D to S + C", by_set=True),
        "The paper scales D 'to different levels' and says that ratio 2 is twice the magnitude of "
        "S + C. Four readings: D multiplied by the ratio within the printed weight, or rescaled to "
        "that many times the mean of the other two terms; alpha on C as in Definition 9, or on S "
        "as in Eq. (2), which the paper's settings cite.",
    )


def _noise(run: Run, levels: Sequence[int]) -> Outcome:
    wanted = [
        (f"{name}, {kind}", Detection(data, name, x=level, noise=level, noise_kind=code))
        for kind, code in KINDS.items()
        for name, data in itertools.product(CONFIGURATIONS, SYNTHETIC)
        for level in levels
    ]
    return _curves(
        run,
        wanted,
        "figure_noise",
        "Accuracy against the level of noise",
        claims.noise_claims,
        partial(drawing.draw_curves, size=(12, 3.3), label="noise level"),
        "Level k relabels (k - 1) 10 % of the positives and k 10 % of the negatives. Two "
        "readings: the instances change sides between positive and negative bags, or nothing "
        "moves and only the truth that is compared with changes.",
    )


def _working_set(run: Run, fractions: Sequence[int]) -> Outcome:
    wanted = [
        (
            name,
            Detection(data, name, x=percent, parameters=(("working_set_fraction", percent / 100),)),
        )
        for name, data in itertools.product(CONFIGURATIONS, SYNTHETIC)
        for percent in fractions
    ]
    return _curves(
        run,
        wanted,
        "figure_working_set",
        "Accuracy against the size of the working sets",
        claims.working_set_claims,
        partial(drawing.draw_curves, size=(12, 3.5), label="working set, % of a bag"),
    )


def _curves(
    run: Run,
    wanted: list[tuple[str, Detection]],
    name: str,
    title: str,
    claims_of: Callable[[Any], list[Claim]],
    draw: Callable[[Any], Any],
    notes: str = "",
) -> Outcome:
    """Compute a figure of curves from one row per fit: variant, data, x, seed, accuracy."""
    rows = run([detection for _, detection in wanted])
    seeds = len(rows) // len(wanted)
    columns = ["variant", "data", "x", "seed", "detection_accuracy", "covered"]
    variants = [variant for variant, _ in wanted for _ in range(seeds)]
    frame = pd.DataFrame(rows).assign(variant=variants).reindex(columns=columns)
    notes += f" Means over {seeds} seeds, with bands from the 10th to the 90th percentile."
    return Outcome(name, title, frame, claims_of(frame), draw, notes.strip())
