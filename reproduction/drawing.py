"""Pictures of the paper's figures, from their numbers."""

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from reproduction.detection import DISPLAY_NAMES
from reproduction.printed import REAL, SYNTHETIC

# Distinguishable with any colour vision (Okabe and Ito).
SETS = {"BASIC": ("#0072B2", "o"), "RHOMBUS": ("#D55E00", "D"), "RING": ("#009E73", "s")}
CONFIGURATIONS = {
    "PIGMIL|paper": ("#D55E00", "o"),
    "PIGMIL|faithful": ("#009E73", "o"),
    "PIGMIL": ("#0072B2", "o"),
}
GREEN, RED, GREY, SKY, BLUE = "#009E73", "#D00000", "#B8B8B8", "#56B4E9", "#0072B2"


def _figure(width: float, height: float) -> Any:
    # Not pyplot: nothing global is touched, and no window system is needed.
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Any) -> None:
    """Write a figure in the format of the suffix, the same bytes for the same numbers."""
    dateless = {"Date": None} if str(path).endswith(".svg") else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": "pigmil", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata=dateless)


def draw_detection(points: Any) -> Any:
    """Draw the sets with their working sets and pools: one row per configuration."""
    variants = list(dict.fromkeys(points["variant"]))
    figure = _figure(11, 3.6 * len(variants))
    grid = figure.subplots(len(variants), len(SYNTHETIC), squeeze=False)
    for row, variant in zip(grid, variants, strict=True):
        for axes, data in zip(row, SYNTHETIC, strict=True):
            part = points[(points["variant"] == variant) & (points["data"] == data)]
            in_positive, positive = part["bag_label"] == 1, part["label"] == 1
            for label, style, chosen in (
                ("negative, negative bag", {"c": GREY, "s": 9, "lw": 0}, ~in_positive),
                ("negative, positive bag", {"c": SKY, "s": 16, "lw": 0}, in_positive & ~positive),
                ("positive", {"c": GREEN, "s": 16, "lw": 0}, in_positive & positive),
                ("working set", {"c": "black", "s": 30, "lw": 0.7, "marker": "x"},
                 part["in_working_set"]),
                ("pool", {"c": RED, "s": 70, "lw": 1.8, "marker": "+"}, part["in_pool"]),
            ):  # fmt: skip
                axes.scatter(*part.loc[chosen, ["x1", "x2"]].to_numpy().T, label=label, **style)
            axes.set_title(f"{data}, {DISPLAY_NAMES[variant]}", fontsize=10)
            axes.set_aspect("equal", adjustable="datalim")
            axes.tick_params(labelsize=8)
    return _with_legend(figure, grid[0][0])


def draw_influence(frame: Any) -> Any:
    """Draw the function d of distance, near and far separately."""
    figure = _figure(5.6, 3.8)
    axes = figure.subplots()
    near, far = frame[frame["delta"] <= 1], frame[frame["delta"] >= 1]
    axes.plot(near["delta"], near["influence"], c=RED, lw=2, label="near: ln Δ - 1")
    axes.plot(far["delta"], far["influence"], c=BLUE, lw=2, label="far: -exp(1 - Δ)")
    axes.axhline(0, c="black", lw=0.6)
    axes.axvline(1, c=GREY, lw=0.8, ls=":")
    axes.set(xlabel="distance Δ, in units of length", ylabel="influence d(Δ)", xlim=(0, 5))
    axes.legend(frameon=False, loc="lower right")
    return figure


def draw_graph(vertices: Any, edges: Any, title: str) -> Any:
    """Draw a graph on a circle in the order of the ranks, with its edges in classes of weight."""
    figure = _figure(7.4, 6)
    axes = figure.subplots()
    angle = np.pi / 2 - 2 * np.pi * (vertices["rank"].to_numpy() - 1) / len(vertices)
    at = np.column_stack([np.cos(angle), np.sin(angle)])
    for (name, part), (colour, width) in zip(
        edges.groupby("edge_class"), ((RED, 2.4), ("#E69F00", 1.6), (SKY, 0.9)), strict=False
    ):
        weights = f"{part['weight'].min():.0f} to {part['weight'].max():.0f}"
        for edge in part.itertuples():
            axes.plot(*at[[edge.left, edge.right]].T, c=colour, lw=width, zorder=1)
        axes.plot([], [], c=colour, lw=width, label=f"{name}: weight {weights}")
    share = vertices["score"] / vertices["score"].max()
    drawn = axes.scatter(*at.T, c=share, cmap="viridis", s=420, zorder=2, lw=1.4,
                         edgecolors=np.where(vertices["label"] == 1, "black", RED))  # fmt: skip
    for vertex, place, value in zip(vertices.itertuples(), at, share, strict=True):
        axes.annotate(str(vertex.rank), place, ha="center", va="center", fontsize=10,
                      color="black" if value > 0.5 else "white")  # fmt: skip
        axes.annotate(f"{vertex.degree} edges", 1.22 * place, ha="center", va="center", fontsize=9)
    figure.colorbar(drawn, label="ranking score, share of the greatest", shrink=0.85)
    axes.set(xlim=(-1.45, 1.45), ylim=(-1.35, 1.35), aspect="equal")
    axes.set_axis_off()
    axes.set_title(f"{title}; in the circles: rank", fontsize=10)
    return _with_legend(figure, axes)


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


def _with_legend(figure: Any, axes: Any) -> Any:
    """Return the figure with the legend of its axes below it."""
    handles, labels = axes.get_legend_handles_labels()
    place: Any = {"loc": "outside lower center", "ncols": len(labels)}
    figure.legend(handles, labels, frameon=False, **place)
    return figure


def draw_retrieval(cells: Any) -> Any:
    """Draw the precision of retrieval by every way to ask: one panel per method."""
    means = cells.groupby(["method", "data", "by"], sort=False)["precision"].mean().unstack("by")
    methods = list(dict.fromkeys(cells["method"]))
    figure, label = _figure(11, 3 * len(methods)), "precision at 10, %"
    grid = figure.subplots(len(methods), squeeze=False)
    for (axes,), method in zip(grid, methods, strict=True):
        part = means.loc[method].rename(index=lambda name: REAL.get(name, name.replace("_", "\n")))
        part.plot.bar(ax=axes, rot=0, legend=False, title=method, xlabel="", ylabel=label)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def draw_ranks(results: Any) -> Any:
    """Draw the critical-difference diagram of a comparison."""
    ranks = results.significance().ranks
    figure = _figure(9, 0.28 * len(ranks) + 1.2)
    results.critical_difference(ax=figure.subplots())
    return figure
