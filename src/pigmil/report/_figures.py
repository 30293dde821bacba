"""Figures of bags, detected instances and heat maps."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from pigmil._core.errors import import_optional
from pigmil._core.files import atomic_write
from pigmil._core.segments import segment_argmax
from pigmil._core.text import sanitize
from pigmil._core.typing import IntArray
from pigmil.bags import Bags, as_bags, resolve_index
from pigmil.evaluation import Faithfulness
from pigmil.metrics import instance_scores
from pigmil.report._pictures import colour_range, open_picture, project
from pigmil.report._tiles import Tiles, all_scores_of, scored_tiles, slide_attribute, tile_corners

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
    instance_labels: Any = None,
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
    instance_labels : array of shape (n_instances,), optional
        Labels of the instances, if known and ``X`` does not have them.
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
    labels = bags.instance_labels if instance_labels is None else np.asarray(instance_labels)
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
    for mask, colour, marker, name in _kinds(bags, labels) if scores is None else []:
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


def plot_faithfulness(curves: Faithfulness, *, title: str | None = None, ax: Any = None) -> Any:
    """Draw the decision values of bags while instances are removed in three orders.

    Parameters
    ----------
    curves : Faithfulness
        From :func:`pigmil.evaluation.faithfulness`.
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
    >>> from pigmil import SIL
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.evaluation import faithfulness
    >>> from pigmil.report import plot_faithfulness
    >>> bags = make_ring(random_state=0)
    >>> ax = plot_faithfulness(faithfulness(SIL().fit(bags), bags, random_state=0))
    >>> ax.get_xlabel()
    'share of instances removed'
    """
    ax = _axes(ax, (5.5, 4))
    low, high = curves.random.min(axis=0), curves.random.max(axis=0)
    ax.fill_between(curves.removed, low, high, color=UNKNOWN, alpha=0.4, linewidth=0)
    for values, colour, name in (
        (curves.most_first, POSITIVE, "most relevant first"),
        (curves.random.mean(axis=0), UNKNOWN, "random"),
        (curves.least_first, NEGATIVE, "least relevant first"),
    ):
        ax.plot(curves.removed, values, color=colour, marker=".", label=name)
    ax.set(
        xlabel="share of instances removed",
        ylabel=f"mean decision value of {curves.n_bags} bags",
        title=title or "",
    )
    ax.legend(frameon=False, fontsize="small")
    return ax


def _kinds(bags: Bags, labels: Any) -> list[tuple[Any, str, str, str]]:
    """Return mask, colour, marker and name of each kind of instance."""
    if bags.y is None:
        return [(np.ones(bags.n_instances, dtype=bool), UNKNOWN, "o", "instances")]
    inside = np.repeat(bags.y == np.unique(bags.y)[-1], bags.sizes)
    kinds = [(~inside, NEGATIVE, "o", "in negative bags")]
    if labels is None:
        return [*kinds, (inside, POSITIVE, "^", "in positive bags")]
    positive = labels == np.unique(labels)[-1]
    return [
        *kinds,
        (inside & ~positive, UNKNOWN, "s", "negative, in positive bags"),
        (inside & positive, POSITIVE, "^", "positive"),
    ]


def plot_heatmap(
    bags: Any,
    scores: Any,
    bag: int | str,
    *,
    called: Any = None,
    value: str = "score",
    slide: str | None = None,
    tile_size: float | None = None,
    thumbnail: Any = None,
    extent: tuple[float, float] | None = None,
    cmap: str = "viridis",
    alpha: float | None = None,
    title: str | None = None,
    ax: Any = None,
) -> Any:
    """Draw the instances of a bag at their coordinates, coloured by score.

    Save the figure as PNG, SVG or PDF with ``ax.figure.savefig``.

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
    value : {"score", "percentile"}, default="score"
        Colour by score, with one scale for all bags, or by the percentile within the bag.
    slide : str, optional
        One slide of a bag that joins several, such as those of a patient.
    tile_size : float, optional
        Side of a tile, in the unit of the coordinates; by default from the attributes
        (``patch_size_level0``, ``tile_size``, ``patch_size``) or from the distance of the tiles.
    thumbnail : array or path, optional
        Picture of the whole slide, drawn under the tiles.
    extent : tuple of float, optional
        Width and height of the slide in the unit of the coordinates; by default from
        ``level0_width`` and ``level0_height``. Needed for a thumbnail.
    cmap : str, default="viridis"
        Colour map.
    alpha : float, optional
        Opacity of the tiles; by default 0.6 over a thumbnail, otherwise 1.
    title : str, optional
        Title; by default the id of the bag.
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
    if value not in ("score", "percentile"):
        raise ValueError(f"value must be 'score' or 'percentile'; got {value!r}.")
    collections = import_optional("matplotlib.collections", extra="plot", purpose="Drawing tiles")
    bags = as_bags(bags)
    all_scores = all_scores_of(bags, scores)
    tiles = scored_tiles(bags, all_scores, bag, slide=slide, tile_size=tile_size)
    values = tiles.score if value == "score" else tiles.percentile
    low, high = colour_range(all_scores) if value == "score" else (0.0, 100.0)
    ax = _axes(ax, (6, 5))
    if thumbnail is not None:
        width, height = _extent(bags, bag, tiles, extent)
        is_path = isinstance(thumbnail, str | os.PathLike)
        picture = np.asarray(open_picture(thumbnail)) if is_path else thumbnail
        ax.imshow(picture, extent=(0, width, height, 0))
    drawn = collections.PolyCollection(
        tile_corners(tiles), array=np.ma.masked_invalid(values), cmap=cmap, clim=(low, high),
        alpha=alpha if alpha is not None else (0.6 if thumbnail is not None else None),
        edgecolors="none", rasterized=len(tiles.rows) > 2000,
    )  # fmt: skip
    drawn.set_cmap(drawn.cmap.with_extremes(bad="#b8b8b8"))
    ax.add_collection(drawn)
    if called is not None:
        outlined = tile_corners(tiles)[np.isin(tiles.rows, called)]
        ax.add_collection(
            collections.PolyCollection(outlined, facecolors="none", edgecolors="red", linewidths=1)
        )
    corners = tiles.corners
    if thumbnail is None:
        ax.set_xlim(corners[:, 0].min(), corners[:, 0].max() + tiles.size)
        ax.set_ylim(corners[:, 1].max() + tiles.size, corners[:, 1].min())
    ax.set_aspect("equal")
    ax.set(xlabel="x", ylabel="y")
    name = slide or bags.ids[resolve_index(bag, bags.ids)]
    # Names come from the user: do not parse them as mathematics.
    ax.set_title(sanitize(name) if title is None else title, parse_math=False)
    label = "score" if value == "score" else "percentile in the bag"
    ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.85)
    return ax


def _extent(
    bags: Bags, bag: int | str, tiles: Tiles, extent: tuple[float, float] | None
) -> tuple[float, float]:
    if extent is not None:
        return extent
    width = slide_attribute(bags, "level0_width", tiles.bag, tiles.rows)
    height = slide_attribute(bags, "level0_height", tiles.bag, tiles.rows)
    if width is None or height is None:
        raise ValueError(
            f"A thumbnail under bag {bag!r} needs the width and height of the slide in the unit of "
            "the coordinates; pass extent=(width, height)."
        )
    return width, height
