"""Figures of bags, detected instances and heat maps."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from pigmil._core.errors import import_optional
from pigmil._core.files import atomic_write
from pigmil._core.segments import segment_argmax
from pigmil._core.text import sanitize
from pigmil._core.typing import IntArray
from pigmil.bags import Bags, as_bags
from pigmil.metrics import instance_scores
from pigmil.report._pictures import colour_range, project
from pigmil.report._tiles import all_scores_of, scored_tiles, tile_corners

NEGATIVE, UNKNOWN, POSITIVE, MARK = "#4c72b0", "#b8b8b8", "#dd8452", "#c0392b"


def write_figure(figure: Any, path: Path, *, dpi: int) -> None:
    """Write a figure in the format of the suffix, atomically.

    It is drawn in memory first: on a full disk, the PDF writer hides the reason.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], dpi=dpi)
    with atomic_write(path) as temporary:
        temporary.write_bytes(buffer.getvalue())


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    """Return the axes, by default those of a new figure."""
    plt = import_optional("matplotlib.pyplot", extra="plot", purpose="Drawing a figure")
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def plot_bags(
    X: Any,
    y: Any = None,
    *,
    detected: Any = None,
    scores: Any = None,
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the instances of bags in two dimensions and circle the detected ones.

    Parameters
    ----------
    X : bags
        Anything :func:`pigmil.as_bags` takes.
    y : array of shape (n_bags,), optional
        Labels of the bags, if ``X`` does not have them.
    detected : array of int, or fitted estimator, optional
        Flat indices of instances to mark, or a model or pipeline: the instances it detected if it
        was fitted on these bags, otherwise the one with the highest score of each bag that is
        positive (of each bag without labels).
    scores : array of shape (n_instances,), or fitted estimator, optional
        Colour the instances by these scores, or by those of a model or pipeline
        (:func:`pigmil.instance_scores`), and not by the label of their bag.
    title : str, optional
        Title of the figure.
    ax : matplotlib axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.report import plot_bags
    >>> ax = plot_bags(make_ring(random_state=0), title="RING")
    >>> ax.get_title()
    'RING'
    """
    bags = as_bags(X, y=y)
    points, names = project(bags)
    ax = _axes(ax, (5.5, 5))
    look: dict[str, Any] = {"s": 22, "alpha": 0.75, "linewidths": 0}
    if scores is not None:
        values = all_scores_of(bags, scores)
        low, high = colour_range(values)
        drawn = ax.scatter(
            *points.T, c=np.ma.masked_invalid(values), vmin=low, vmax=high, plotnonfinite=True,
            **look,
        )  # fmt: skip
        ax.figure.colorbar(drawn, ax=ax, label="score")
    for mask, colour, marker, name in _kinds(bags) if scores is None else []:
        ax.scatter(*points[mask].T, c=colour, marker=marker, label=name, **look)
    if detected is not None:
        chosen = _detected(detected, bags) if hasattr(detected, "fit") else np.asarray(detected)
        ax.scatter(
            *points[chosen].T, s=90, facecolors="none", edgecolors=MARK, linewidths=1.4,
            label=f"detected ({len(chosen)})",
        )  # fmt: skip
    ax.set_title(title or "")
    for set_label, name in ((ax.set_xlabel, names[0]), (ax.set_ylabel, names[1])):
        set_label(name, parse_math=False)  # names of features come from files
    if ax.get_legend_handles_labels()[0]:
        ax.legend(
            frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2
        )
    return ax


def _detected(model: Any, bags: Bags) -> IntArray:
    """Return the instances that a model detected in its training bags, or the best of each bag."""
    method = model[-1] if isinstance(model, Pipeline) else model
    if len(getattr(method, "instance_scores_", ())) == bags.n_instances:
        return np.asarray(method.detected_instances_, dtype=np.int64)
    scores = np.nan_to_num(instance_scores(model, bags), nan=-np.inf)
    best = segment_argmax(scores, bags.offsets)
    return best if bags.y is None else best[bags.y == np.unique(bags.y)[-1]]


def _kinds(bags: Bags) -> list[tuple[Any, str, str, str]]:
    """Return mask, colour, marker and name of each kind of instance."""
    if bags.y is None:
        return [(np.ones(bags.n_instances, dtype=bool), UNKNOWN, "o", "instances")]
    inside = np.repeat(bags.y == np.unique(bags.y)[-1], bags.sizes)
    kinds = [(~inside, NEGATIVE, "o", "in negative bags")]
    labels = bags.instance_labels
    if labels is None:
        return [*kinds, (inside, POSITIVE, "^", "in positive bags")]
    positive = labels == np.unique(labels)[-1]
    return [
        *kinds,
        (inside & ~positive, UNKNOWN, "s", "negative, in positive bags"),
        (inside & positive, POSITIVE, "^", "positive"),
    ]


def plot_trace(model: Any, *, ax: Any = None) -> Any:
    """Draw the updating of PIGMIL: every try, and the pool's objective after each replacement.

    Objectives are relative to that of the first pool, on a logarithmic scale where they differ
    much. The number of each replacement stands at its step; ``model.trace_.to_frame()`` lists them.

    Parameters
    ----------
    model : PIGMIL
        Fitted; or its ``trace_``.
    ax : matplotlib axes, optional
        A new figure if not given.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from pigmil import PIGMIL
    >>> from pigmil.datasets import make_rhombus
    >>> model = PIGMIL.faithful(random_state=0).fit(make_rhombus(random_state=1))
    >>> ax = plot_trace(model)
    """
    ax = _axes(ax, (7.0, 4.0))
    trace = getattr(model, "trace_", model)
    unit = abs(trace.initial_objective) or 1.0
    tried, steps = trace.objective / unit, np.flatnonzero(trace.accepted)
    kept = np.concatenate([[trace.initial_objective / unit], tried[steps]])
    ax.plot(np.arange(1, len(trace) + 1), tried, ".", color="0.7", label="tried")
    ends = np.concatenate([[0], steps + 1, [len(trace)]])
    ax.step(ends, np.append(kept, kept[-1]), where="post", color=MARK, label="pool")
    for number, (place, value) in enumerate(zip(steps + 1, kept[1:], strict=True), start=1):
        ax.annotate(str(number), (place, value), (2, 3), textcoords="offset points", color=MARK)
    values = np.concatenate([tried, kept])
    if values.min() > 0 and values.max() > 20 * values.min():
        ax.set_yscale("log")
    ax.set(
        title=f"{len(trace)} tries, {len(steps)} replacements",
        xlabel="try",
        ylabel="sum of ranking scores, first pool = 1",
    )
    ax.legend()
    return ax


def plot_heatmap(
    bags: Any,
    scores: Any,
    bag: int | str,
    *,
    called: Any = None,
    slide: str | None = None,
    tile_size: float | None = None,
    alpha: float | None = None,
    ax: Any = None,
) -> Any:
    """Draw the instances of a bag at their coordinates, coloured by score.

    All bags share one colour scale. Save the figure with ``ax.figure.savefig``. To draw over a
    picture of the slide, pass ``alpha=0.6`` and ``ax.imshow(picture, extent=(0, width, height, 0),
    zorder=0)``, with width and height in the unit of the coordinates.

    Parameters
    ----------
    bags : bags
        Anything :func:`pigmil.as_bags` takes, with coordinates in ``instance_info``: ``coords`` of
        two numbers per instance, or ``x`` and ``y``, the upper left corner of a tile.
    scores : array of shape (n_instances,), or fitted estimator
        Scores of all instances, or a model or pipeline that scores them
        (:func:`pigmil.instance_scores`).
    bag : int or str
        Position or id of the bag.
    called : array of int, optional
        Flat indices of the instances called positive (``selection.called``); these tiles have an
        outline.
    slide : str, optional
        One slide of a bag that joins several, such as those of a patient.
    tile_size : float, optional
        Side of a tile, in the unit of the coordinates; by default from the attributes
        (``patch_size_level0``, ``tile_size``, ``patch_size``) or from the distance of the tiles.
    alpha : float, optional
        Opacity of the tiles.
    ax : matplotlib axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import matplotlib, numpy as np
    >>> matplotlib.use("agg")
    >>> from pigmil import Bags
    >>> from pigmil.report import plot_heatmap
    >>> coords = np.array([[0, 0], [256, 0], [0, 256], [256, 256]])
    >>> bags = Bags.from_list([np.eye(4)], ids=["slide 1"], instance_info={"coords": coords})
    >>> ax = plot_heatmap(bags, [0.1, 0.9, 0.2, 0.3], "slide 1")
    >>> ax.get_title()
    'slide 1'
    """
    collections = import_optional("matplotlib.collections", extra="plot", purpose="Drawing tiles")
    bags = as_bags(bags)
    all_scores = all_scores_of(bags, scores)
    tiles = scored_tiles(bags, all_scores, bag, slide=slide, tile_size=tile_size)
    squares = tile_corners(tiles)
    ax = _axes(ax, (6, 5))
    drawn = collections.PolyCollection(
        squares, array=np.ma.masked_invalid(tiles.score), cmap="viridis",
        clim=colour_range(all_scores), alpha=alpha, edgecolors="none",
        rasterized=len(tiles.rows) > 2000,
    )  # fmt: skip
    drawn.set_cmap(drawn.cmap.with_extremes(bad=UNKNOWN))
    ax.add_collection(drawn)
    if called is not None:
        outlined = squares[np.isin(tiles.rows, called)]
        ax.add_collection(
            collections.PolyCollection(outlined, facecolors="none", edgecolors="red", linewidths=1)
        )
    low, high = squares.min(axis=(0, 1)), squares.max(axis=(0, 1))
    ax.set(xlabel="x", ylabel="y", xlim=(low[0], high[0]), ylim=(high[1], low[1]), aspect="equal")
    # Names come from the user: do not parse them as mathematics.
    ax.set_title(sanitize(slide or bags.ids[tiles.bag]), parse_math=False)
    ax.figure.colorbar(drawn, ax=ax, label="score", shrink=0.85)
    return ax
