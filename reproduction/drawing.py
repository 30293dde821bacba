"""Pictures of the paper's figures, from their numbers."""

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from scipy.spatial import ConvexHull

from reproduction.detection import DISPLAY_NAMES
from reproduction.printed import SYNTHETIC

# Distinguishable with any colour vision (Okabe and Ito).
SETS = {"BASIC": ("#0072B2", "o"), "RHOMBUS": ("#D55E00", "D"), "RING": ("#009E73", "s")}
CONFIGURATIONS = {
    "PIGMIL|paper": ("#D55E00", "o"),
    "PIGMIL|faithful": ("#009E73", "o"),
    "PIGMIL": ("#0072B2", "o"),
}
GREEN, RED, GREY, SKY, BLUE, YELLOW = (
    "#009E73", "#D00000", "#B8B8B8", "#56B4E9", "#0072B2", "#E69F00",
)  # fmt: skip


def _figure(width: float, height: float) -> Any:
    # Not pyplot: nothing global is touched, and no window system is needed.
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Any) -> None:
    """Write a figure in the format of the suffix, the same bytes for the same numbers."""
    dateless = {"Date": None} if str(path).endswith(".svg") else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "pigmil", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata=dateless)


def draw_working_sets(points: Any) -> Any:
    """Draw the sets, with crosses on the members of working sets."""

    def mark(axes: Any, part: Any) -> None:
        chosen = part[part["in_working_set"]]
        axes.scatter(chosen["x1"], chosen["x2"], marker="x", s=34, lw=1.1, c=RED,
                     label="working set")  # fmt: skip

    return _scatter(points, mark)


def draw_detection(points: Any) -> Any:
    """Draw the sets, with the pool and the negatives that left the working sets."""

    def mark(axes: Any, part: Any) -> None:
        out = part[part["in_working_set"] & ~part["in_pool"] & (part["label"] != 1)]
        axes.scatter(out["x1"], out["x2"], marker="o", s=70, lw=0.9, facecolors="none",
                     edgecolors="#00000099", linestyles="--",
                     label="negatives thrown out")  # fmt: skip
        pool = part[part["in_pool"]]
        axes.scatter(pool["x1"], pool["x2"], marker="+", s=70, lw=1.8, c=RED, label="pool")

    return _scatter(points, mark)


def _scatter(points: Any, mark: Callable[[Any, Any], None]) -> Any:
    variants = list(dict.fromkeys(points["variant"]))
    figure = _figure(11, 3.6 * len(variants))
    grid = figure.subplots(len(variants), len(SYNTHETIC), squeeze=False)
    for row, variant in zip(grid, variants, strict=True):
        for axes, data in zip(row, SYNTHETIC, strict=True):
            part = points[(points["variant"] == variant) & (points["data"] == data)]
            in_positive, positive = part["bag_label"] == 1, part["label"] == 1
            for label, colour, size, chosen in (
                ("negative, negative bag", GREY, 9, ~in_positive),
                ("negative, positive bag", SKY, 16, in_positive & ~positive),
                ("positive", GREEN, 16, in_positive & positive),
            ):
                some = part[chosen]
                axes.scatter(some["x1"], some["x2"], s=size, c=colour, lw=0, label=label)
            mark(axes, part)
            axes.set_title(f"{data}, {DISPLAY_NAMES[variant]}", fontsize=10)
            axes.set_aspect("equal", adjustable="datalim")
            axes.tick_params(labelsize=8)
    return _with_legend(figure, grid[0][0])


def draw_four_bags(points: Any, lines: Any) -> Any:
    """Draw four bags: detected instances are like each other and unlike negatives."""
    figure = _figure(7.5, 5)
    axes = figure.subplots()
    for name, bag in points.groupby("bag", sort=True):
        positive = bag["bag_label"].iloc[0] == 1
        colour = GREEN if positive else RED
        outline = _outline(bag[["x1", "x2"]].to_numpy(), 0.22)
        axes.add_patch(Polygon(outline, fc=colour, ec=colour, alpha=0.12, lw=0))
        axes.add_patch(Polygon(outline, fill=False, ec=colour, lw=1.2, joinstyle="round"))
        below = name in "BC"
        end = outline[(np.argmin if below else np.argmax)(outline[:, 1])]
        axes.annotate(f"{name} ({'positive' if positive else 'negative'} bag)", end,
                      (0, -5 if below else 5), textcoords="offset points", ha="center",
                      va="top" if below else "bottom", color=colour, fontsize=10)  # fmt: skip
    for label, marker, colour, rows in (
        ("positive instance", "o", GREEN, points["label"] == 1),
        ("negative instance", "D", RED, points["label"] != 1),
    ):
        some = points[rows]
        axes.scatter(some["x1"], some["x2"], marker=marker, s=38, c=colour, zorder=3, label=label)
    chosen = points[points["detected"]]
    axes.scatter(chosen["x1"], chosen["x2"], marker="o", s=170, lw=1.8, facecolors="none",
                 edgecolors="black", zorder=4, label="detected")  # fmt: skip
    for kind, colour, style, text in (
        ("similar", YELLOW, "-", "must be similar"),
        ("different", BLUE, "<->", "must be different"),
    ):
        for line in lines[lines["kind"] == kind].itertuples():
            axes.annotate("", (line.to_x1, line.to_x2), (line.x1, line.x2), zorder=2,
                          arrowprops={"arrowstyle": style, "color": colour, "lw": 2,
                                      "shrinkA": 9, "shrinkB": 6})  # fmt: skip
        axes.plot([], [], c=colour, lw=2, label=text)
    axes.set(xlabel="first feature", ylabel="second feature")
    axes.margins(0.1)
    return _with_legend(figure, axes, columns=3)


def _outline(points: Any, radius: float) -> Any:
    """Return the convex hull of discs around points."""
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    disc = radius * np.column_stack([np.cos(angle), np.sin(angle)])
    cloud = (points[:, None, :] + disc).reshape(-1, 2)
    return cloud[ConvexHull(cloud).vertices]


def draw_three_stages(points: Any, extra: Any) -> Any:
    """Draw initialisation, updating and classification side by side."""
    figure = _figure(12.5, 4.3)
    first, second, third = figure.subplots(1, 3)
    positive = points["bag_label"] == 1
    for axes in (first, second):
        some = points[~positive]
        axes.scatter(some["x1"], some["x2"], s=8, c=GREY, lw=0, label="negative bag")
        axes.set(xlabel="first feature", ylabel="second feature")
    for label, colour, size, rows in (
        ("positive bag", SKY, 14, positive & ~points["in_working_set"]),
        ("working set", BLUE, 22, points["in_working_set"] & points["working_bag"]),
        ("working set of a bag set aside", YELLOW, 22,
         points["in_working_set"] & ~points["working_bag"]),
    ):  # fmt: skip
        some = points[rows]
        first.scatter(some["x1"], some["x2"], s=size, c=colour, lw=0, label=label)
    pool = points[points["in_initial_pool"]]
    first.scatter(pool["x1"], pool["x2"], marker="+", s=80, lw=1.6, c=RED, label="first pool")
    first.set_title("1 Initialisation: working sets, first pool", fontsize=10)

    heaviest = max(float(extra["edges"]["weight"].max()), 1e-12)
    for edge in extra["edges"].itertuples():
        second.plot([edge.x1, edge.to_x1], [edge.x2, edge.to_x2], c="#555555", zorder=1,
                    lw=0.2 + 1.0 * edge.weight / heaviest, alpha=0.5)  # fmt: skip
    pool = points[points["in_pool"]]
    scores = second.scatter(pool["x1"], pool["x2"], c=pool["score"], cmap="viridis", s=55,
                            zorder=3, edgecolors="black", lw=0.6, label="pool")  # fmt: skip
    for move in extra["replacements"].itertuples():
        second.annotate("", (move.to_x1, move.to_x2), (move.x1, move.x2), zorder=4,
                        arrowprops={"arrowstyle": "->", "color": RED, "lw": 1.3,
                                    "shrinkA": 3, "shrinkB": 5})  # fmt: skip
        second.scatter([move.x1], [move.x2], marker="x", c=RED, s=30, lw=1.3, zorder=4)
    second.plot([], [], c=RED, marker="x", lw=1.3, label="replaced")
    second.plot([], [], c="#555555", lw=1, label="edge")
    figure.colorbar(scores, ax=second, label="ranking score", shrink=0.8)
    second.set_title("2 Updating: weak members are replaced", fontsize=10)

    for label, colour, marker, sign in (
        ("new positive bag", GREEN, "o", 1), ("new negative bag", RED, "D", -1)
    ):  # fmt: skip
        some = extra["bags"][extra["bags"]["label"] == sign]
        third.scatter(some["similarity"], some["decision"], c=colour, marker=marker, s=30,
                      label=label)  # fmt: skip
    third.axhline(0, c="black", lw=0.8)
    third.set(xlabel="mean similarity to the pool", ylabel="decision value")
    third.set_title("3 Classification by the pool", fontsize=10)
    for axes, columns in ((first, 2), (second, 2), (third, 1)):
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=8,
                    ncols=columns)  # fmt: skip
    return figure


def draw_influence(frame: Any) -> Any:
    """Draw the function d of distance, near and far separately."""
    figure = _figure(5.6, 3.8)
    axes = figure.subplots()
    near, far = frame[frame["delta"] <= 1], frame[frame["delta"] >= 1]
    axes.plot(near["delta"], near["influence"], c=RED, lw=2, label="near: ln Δ - 1")
    axes.plot(far["delta"], far["influence"], c=BLUE, lw=2, label="far: -exp(1 - Δ)")
    axes.axhline(0, c="black", lw=0.6)
    axes.axvline(1, c=GREY, lw=0.8, ls=":")
    axes.plot([1], [-1], "o", c="black", ms=4)
    for text, place, where in (
        ("1", (1, -1), (1.25, -1.45)),
        ("2", (4.2, -np.exp(-3.2)), (4.2, -0.75)),
        ("3", (0.06, np.log(0.06) - 1), (0.55, -3.7)),
    ):
        axes.annotate(text, place, where, ha="center", va="center", fontsize=11,
                      bbox={"boxstyle": "circle", "fc": "white", "ec": "black"},
                      arrowprops={"arrowstyle": "-", "lw": 0.8})  # fmt: skip
    axes.set(xlabel="distance Δ, in units of length", ylabel="influence d(Δ)", xlim=(0, 5))
    axes.legend(frameon=False, loc="lower right")
    return figure


def draw_graph(vertices: Any, edges: Any) -> Any:
    """Draw a graph: vertices at their instances, labelled by rank, and edges by weight."""
    figure = _figure(7, 5.2)
    axes = figure.subplots()
    heaviest = max(float(edges["weight"].max()) if len(edges) else 1.0, 1e-12)
    at = vertices[["x1", "x2"]].to_numpy()
    for edge in edges.sort_values("weight").itertuples():
        share = edge.weight / heaviest
        axes.plot(*at[[edge.left, edge.right]].T, c=mpl.colormaps["Greys"](0.25 + 0.65 * share),
                  lw=0.4 + 1.6 * share**2, zorder=1)  # fmt: skip
    drawn = axes.scatter(
        vertices["x1"], vertices["x2"], c=vertices["score"] / vertices["score"].max(),
        cmap="viridis", s=330, zorder=2,
        edgecolors=np.where(vertices["label"] == 1, "black", RED), linewidths=1.4,
    )  # fmt: skip
    middle = (vertices["score"].max() + vertices["score"].min()) / 2
    for vertex in vertices.itertuples():
        axes.annotate(str(vertex.rank), (vertex.x1, vertex.x2), ha="center", va="center",
                      fontsize=9, color="black" if vertex.score > middle else "white")  # fmt: skip
    figure.colorbar(drawn, label="ranking score, share of the greatest", shrink=0.85)
    axes.set(xlabel="first feature", ylabel="second feature")
    axes.margins(0.12)
    axes.set_title("numbers: rank; lines: edge weight; red rim: not truly positive", fontsize=9)
    return figure


def draw_curves(frame: Any, size: tuple[float, float], label: str, *, by_set: bool = False) -> Any:
    """Draw accuracy against x: one row per reading, one panel per configuration or per set.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per fit: ``variant`` ("configuration, reading"), ``data``, ``x``, accuracy.
    size : tuple of float
        Width of the figure and height of a row.
    label : str
        Of the horizontal axis.
    by_set : bool, default=False
        One panel per set and one line per configuration, with x on a logarithmic scale.
    """
    readings = list(dict.fromkeys(variant.partition(", ")[2] for variant in frame["variant"]))
    panels, lines = (SETS, CONFIGURATIONS) if by_set else (CONFIGURATIONS, SETS)
    figure = _figure(size[0], size[1] * len(readings))
    grid = figure.subplots(len(readings), len(panels), sharey=True, squeeze=False)
    for row, reading in zip(grid, readings, strict=True):
        for axes, panel in zip(row, panels, strict=True):
            for line, (colour, marker) in lines.items():
                name, data = (line, panel) if by_set else (panel, line)
                variant = f"{name}, {reading}" if reading else name
                part = frame[(frame["variant"] == variant) & (frame["data"] == data)]
                _curve(axes, part, colour, DISPLAY_NAMES.get(line, line), marker)
            if by_set:
                axes.set_xscale("log", base=2)
            title = DISPLAY_NAMES.get(panel, panel)
            axes.set_title(f"{title}: {reading}" if reading else title, fontsize=10)
            xs = sorted(frame["x"].unique())
            axes.set_xticks(xs, [f"1/{1 / x:g}" if 0 < x < 1 else f"{x:g}" for x in xs])
            axes.minorticks_off()
            axes.set(xlabel=label, ylim=(-4, 104))
            axes.grid(axis="y", lw=0.4, c="#DDDDDD")
        row[0].set_ylabel("detection accuracy, %")
    return _with_legend(figure, grid[0][0])


def _curve(axes: Any, part: Any, colour: str, label: str, marker: str) -> None:
    """Draw the mean over seeds, with a band from the 10th to the 90th percentile."""
    values = part.groupby("x")["detection_accuracy"]
    mean = 100 * values.mean()
    axes.fill_between(mean.index, 100 * values.quantile(0.1), 100 * values.quantile(0.9),
                      color=colour, alpha=0.15, lw=0)  # fmt: skip
    axes.plot(mean.index, mean, c=colour, marker=marker, ms=4, lw=1.6, label=label)


def _with_legend(figure: Any, axes: Any, columns: int | None = None) -> Any:
    """Return the figure with the legend of its axes below it."""
    handles, labels = axes.get_legend_handles_labels()
    place: Any = {"loc": "outside lower center", "ncols": columns or len(labels)}
    figure.legend(handles, labels, frameon=False, **place)
    return figure


def draw_ranks(results: Any) -> Any:
    """Draw the critical-difference diagram of a comparison."""
    ranks = results.significance().ranks
    figure = _figure(9, 0.28 * len(ranks) + 1.2)
    results.critical_difference(ax=figure.subplots())
    return figure
