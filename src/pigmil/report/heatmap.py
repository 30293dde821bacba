"""Heat maps of bags whose instances have coordinates: pictures, and GeoJSON for QuPath."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from pigmil._core.files import atomic_write
from pigmil._core.optional import import_optional
from pigmil._core.text import sanitize
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags, as_bags, resolve_index
from pigmil.metrics import instance_scores
from pigmil.report.figures import colour_range

_COORDINATES = ("coords", "coordinates", "coord", "locations", "spatial")
_PAIRS = (
    ("x", "y"), ("X", "Y"), ("coord_x", "coord_y"), ("coords_0", "coords_1"), ("left", "top"),
    ("col", "row"),
)  # fmt: skip
_LEVEL0_SIZES = ("patch_size_level0", "tile_size_level0", "tile_size_um", "tile_size")
_SLIDES = ("slide_id", "slide", "FILENAME", "bag_name", "image_id")
# QuPath has one colour per class, so the classes are bands of the percentile.
_BANDS = (
    (99.0, "pigmil top 1 %", (253, 231, 37)),
    (95.0, "pigmil top 5 %", (94, 201, 98)),
    (80.0, "pigmil top 20 %", (33, 145, 140)),
    (-1.0, "pigmil rest", (68, 1, 84)),
)
_NO_SCORE = ("pigmil without score", (128, 128, 128))


@dataclass(frozen=True)
class Tiles:
    """Positions and scores of the instances of one bag.

    Attributes
    ----------
    rows : array of int of shape (n,)
        Flat indices of the instances.
    corners : array of shape (n, 2)
        Upper left corner of each tile.
    size : float
        Side of a tile, in the unit of the corners.
    score : array of shape (n,)
        Scores; NaN for instances without one.
    rank : array of shape (n,)
        1 for the highest score of the bag; ties have their best rank.
    percentile : array of shape (n,)
        Share of the scored instances of the bag with this score or a lower one, in per cent.
    """

    rows: IntArray
    corners: FloatArray
    size: float
    score: FloatArray
    rank: FloatArray
    percentile: FloatArray


def instance_coordinates(bags: Bags) -> FloatArray | None:
    """Return x and y of every instance, or None if the bags have no coordinates.

    They are taken from ``instance_info``: a column ``coords`` of two numbers per instance, or the
    columns ``x`` and ``y``.

    Parameters
    ----------
    bags : Bags
        The bags.

    Returns
    -------
    array of shape (n_instances, 2) or None
    """
    info = bags.instance_info
    for name in _COORDINATES:
        if name in info and info[name].ndim == 2 and info[name].shape[1] >= 2:
            return _numbers(info[name][:, :2])
    for x, y in _PAIRS:
        if x in info and y in info and info[x].ndim == info[y].ndim == 1:
            return _numbers(np.column_stack([info[x], info[y]]))
    return None


def _numbers(values: Any) -> FloatArray | None:
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def scored_tiles(
    bags: Bags, scores: Any, bag: int | str, *, slide: str | None = None,
    tile_size: float | None = None,
) -> Tiles:  # fmt: skip
    """Return the positions, scores, ranks and percentiles of the instances of a bag.

    Parameters
    ----------
    bags : Bags
        With coordinates, see :func:`instance_coordinates`.
    scores : array of shape (n_instances,), or fitted estimator
        Scores of all instances, or a model or pipeline that scores them.
    bag : int or str
        Position or id of the bag.
    slide : str, optional
        One slide of a bag that joins several, such as those of a patient.
    tile_size : float, optional
        Side of a tile in the unit of the coordinates. By default the attribute
        ``patch_size_level0``, ``tile_size`` or ``patch_size`` of the bag, or the smallest distance
        of two neighbouring tiles.

    Returns
    -------
    Tiles
    """
    coordinates = instance_coordinates(bags)
    if coordinates is None:
        raise ValueError(
            "A heat map needs the coordinates of the instances: a column 'coords' of two numbers, "
            "or columns 'x' and 'y', in instance_info. It has "
            f"{', '.join(map(repr, bags.instance_info)) or 'no columns'}."
        )
    values = _all_scores(bags, scores)
    number = resolve_index(bag, bags.ids)
    if not isinstance(number, int):
        raise TypeError(f"bag must be one position or id; got {bag!r}.")
    rows = np.arange(bags.offsets[number], bags.offsets[number + 1])
    rows = _rows_of_slide(bags, rows, slide)
    score = np.where(np.isfinite(values[rows]), values[rows], np.nan)
    scored = np.isfinite(score)
    rank, percentile = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    rank[scored] = rankdata(-score[scored], method="min")
    percentile[scored] = 100 * rankdata(score[scored], method="max") / max(scored.sum(), 1)
    corners = coordinates[rows]
    size = _tile_size(bags, number, rows, corners) if tile_size is None else float(tile_size)
    if not size > 0:
        raise ValueError(f"tile_size must be positive; got {tile_size!r}.")
    return Tiles(rows, corners, size, score, rank, percentile)


def _all_scores(bags: Bags, scores: Any) -> FloatArray:
    if hasattr(scores, "fit"):
        return instance_scores(scores, bags)
    values = np.asarray(scores, dtype=np.float64).ravel()
    if len(values) != bags.n_instances:
        raise ValueError(
            f"scores has {len(values)} entries, but the bags have {bags.n_instances} instances."
        )
    return values


def _rows_of_slide(bags: Bags, rows: IntArray, slide: str | None) -> IntArray:
    """Return the rows of one slide; raise if the bag has several and none is named."""
    column = next((name for name in _SLIDES if name in bags.instance_info), None)
    if column is None:
        if slide is not None:
            raise ValueError(f"slide={slide!r}: the instances carry no name of their slide.")
        return rows
    names = np.array([str(name) for name in bags.instance_info[column][rows]])
    found = list(dict.fromkeys(names.tolist()))
    if slide is None and len(found) > 1:
        raise ValueError(
            f"This bag joins {len(found)} slides, whose coordinates overlap: "
            f"{', '.join(map(repr, found[:5]))}. Choose one with slide=."
        )
    if slide is not None and slide not in found:
        raise ValueError(f"slide={slide!r}: this bag has {', '.join(map(repr, found[:5]))}.")
    return rows if slide is None else rows[names == slide]


def slides_of(bags: Bags, bag: int) -> list[str | None]:
    """Return the names of the slides that a bag joins, or None alone for a bag of one slide."""
    column = next((name for name in _SLIDES if name in bags.instance_info), None)
    if column is None:
        return [None]
    names = bags.instance_info[column][bags.offsets[bag] : bags.offsets[bag + 1]]
    found = list(dict.fromkeys(str(name) for name in names))
    return [None] if len(found) < 2 else list(found)


def _tile_size(bags: Bags, bag: int, rows: IntArray, corners: FloatArray) -> float:
    for name in _LEVEL0_SIZES:
        size = _attribute(bags, name, bag, rows)
        if size is not None:
            return size
    size = _attribute(bags, "patch_size", bag, rows)
    if size is not None and not _attribute(bags, "patch_level", bag, rows):
        scan = _attribute(bags, "level0_magnification", bag, rows)
        target = _attribute(bags, "target_magnification", bag, rows)
        return size * scan / target if scan and target else size
    steps = [np.diff(np.unique(values)) for values in corners.T]
    smallest = [float(step.min()) for step in steps if len(step)]
    return min(smallest, default=1.0)


def _attribute(bags: Bags, name: str, bag: int, rows: IntArray) -> float | None:
    """Return a positive number that a bag or its first instance carries under this name."""
    for info, at in ((bags.bag_info, bag), (bags.instance_info, rows[0])):
        if name in info and info[name].ndim == 1:
            try:
                value = float(info[name][at])
            except (TypeError, ValueError):
                continue
            if np.isfinite(value) and value > 0:
                return value
    return None


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
    all_scores = _all_scores(bags, scores)
    tiles = scored_tiles(bags, all_scores, bag, slide=slide, tile_size=tile_size)
    values = tiles.score if value == "score" else tiles.percentile
    low, high = colour_range(all_scores) if value == "score" else (0.0, 100.0)
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 5), layout="constrained")
    if thumbnail is not None:
        width, height = _extent(bags, bag, tiles, extent)
        picture = thumbnail
        if isinstance(thumbnail, str | os.PathLike):
            image = import_optional("PIL.Image", extra="plot", purpose="Reading a thumbnail")
            with image.open(thumbnail) as opened:
                picture = np.asarray(opened.convert("RGB"))
        ax.imshow(picture, extent=(0, width, height, 0))
    drawn = collections.PolyCollection(
        _squares(tiles), array=np.ma.masked_invalid(values), cmap=cmap, clim=(low, high),
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
        _attribute(bags, name, number, tiles.rows) for name in ("level0_width", "level0_height")
    )
    if width is None or height is None:
        raise ValueError(
            f"A thumbnail under bag {bag!r} needs the width and height of the slide in the unit of "
            "the coordinates; pass extent=(width, height)."
        )
    return width, height


def _squares(tiles: Tiles) -> FloatArray:
    """Return the four corners of each tile, shape (n, 4, 2)."""
    steps = tiles.size * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    return np.asarray(tiles.corners[:, None, :] + steps[None], dtype=np.float64)


def write_geojson(
    bags: Any,
    scores: Any,
    bag: int | str,
    path: str | os.PathLike[str],
    *,
    slide: str | None = None,
    tile_size: float | None = None,
    scale: float | None = None,
) -> Path:
    """Write the tiles of a bag as GeoJSON that QuPath imports as objects.

    Every tile is a closed polygon in pixels of level 0, of object type "tile", with the
    measurements ``pigmil score``, ``rank`` and ``percentile`` within the bag. Its class is a band
    of the percentile, since QuPath has one colour per class; for a continuous heat map use
    QuPath's measurement maps.

    Parameters
    ----------
    bags, scores, bag, slide, tile_size
        As in :func:`plot_heatmap`.
    path : path
        The file, usually ``.geojson``.
    scale : float, optional
        Level-0 pixels per unit of the coordinates, for coordinates in micrometres (the inverse of
        the resolution in micrometres per pixel). By default the coordinates are pixels.

    Returns
    -------
    Path

    Examples
    --------
    >>> import json, pathlib, tempfile, numpy as np
    >>> from pigmil import Bags
    >>> from pigmil.report import write_geojson
    >>> coords = np.array([[0, 0], [256, 0]])
    >>> bags = Bags.from_list([np.eye(2)], instance_info={"coords": coords})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_geojson(bags, [0.1, 0.9], 0, pathlib.Path(folder) / "tiles.geojson")
    ...     tile = json.loads(path.read_text())["features"][1]
    >>> tile["properties"]["measurements"]
    {'pigmil score': 0.9, 'rank': 1, 'percentile': 100.0}
    """
    bags = as_bags(bags)
    tiles = scored_tiles(bags, scores, bag, slide=slide, tile_size=tile_size)
    if scale is None:
        number = int(np.searchsorted(bags.offsets, tiles.rows[0], side="right")) - 1
        unit = str(bags.bag_info["unit"][number]) if "unit" in bags.bag_info else "px"
        if unit in ("um", "µm", "μm", "micrometre", "micrometer", "microns"):
            raise ValueError(
                "The coordinates are in micrometres, and QuPath expects pixels; pass scale=, the "
                "number of level-0 pixels per micrometre."
            )
        scale = 1.0
    corners = (scale * _squares(tiles)).round(3)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [[*square, square[0]]]},
            "properties": _properties(*values),
        }
        for square, *values in zip(
            corners.tolist(), tiles.score.tolist(), tiles.rank.tolist(), tiles.percentile.tolist(),
            strict=True,
        )
    ]  # fmt: skip
    path = Path(path)
    with atomic_write(path) as temporary:
        text = json.dumps({"type": "FeatureCollection", "features": features}, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def _properties(score: float, rank: float, percentile: float) -> Mapping[str, Any]:
    """Return what QuPath reads of a tile."""
    name, colour = _NO_SCORE
    measurements: dict[str, float] = {}
    if np.isfinite(score):
        name, colour = next((name, rgb) for low, name, rgb in _BANDS if percentile > low)
        measurements = {
            "pigmil score": float(f"{score:.6g}"), "rank": int(rank),
            "percentile": round(percentile, 2),
        }  # fmt: skip
    return {
        "objectType": "tile",
        "classification": {"name": name, "color": list(colour)},
        "measurements": measurements,
    }
