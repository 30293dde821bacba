"""Heat maps of bags whose instances have coordinates."""

import os
from typing import Any

import numpy as np

from pigmil._core.optional import import_optional
from pigmil._core.text import sanitize
from pigmil.bags import Bags, as_bags, resolve_index
from pigmil.report._pictures import colour_range
from pigmil.report._thumbnails import open_picture
from pigmil.report._tiles import Tiles, all_scores_of, scored_tiles, slide_attribute, tile_corners


def plot_heatmap(
    bags: Any,
    scores: Any,
    bag: int | str,
    *,
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
    plt = import_optional("matplotlib.pyplot", extra="plot", purpose="Drawing a heat map")
    collections = import_optional("matplotlib.collections", extra="plot", purpose="Drawing tiles")
    bags = as_bags(bags)
    all_scores = all_scores_of(bags, scores)
    tiles = scored_tiles(bags, all_scores, bag, slide=slide, tile_size=tile_size)
    values = tiles.score if value == "score" else tiles.percentile
    low, high = colour_range(all_scores) if value == "score" else (0.0, 100.0)
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 5), layout="constrained")
    if thumbnail is not None:
        width, height = _extent(bags, bag, tiles, extent)
        picture = thumbnail
        if isinstance(thumbnail, str | os.PathLike):
            picture = np.asarray(open_picture(thumbnail))
        ax.imshow(picture, extent=(0, width, height, 0))
    drawn = collections.PolyCollection(
        tile_corners(tiles), array=np.ma.masked_invalid(values), cmap=cmap, clim=(low, high),
        alpha=alpha if alpha is not None else (0.6 if thumbnail is not None else None),
        edgecolors="none", rasterized=len(tiles.rows) > 2000,
    )  # fmt: skip
    drawn.set_cmap(drawn.cmap.with_extremes(bad="#b8b8b8"))
    ax.add_collection(drawn)
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
    number = int(np.searchsorted(bags.offsets, tiles.rows[0], side="right")) - 1
    width, height = (
        slide_attribute(bags, name, number, tiles.rows)
        for name in ("level0_width", "level0_height")
    )
    if width is None or height is None:
        raise ValueError(
            f"A thumbnail under bag {bag!r} needs the width and height of the slide in the unit of "
            "the coordinates; pass extent=(width, height)."
        )
    return width, height
