"""Instances at their coordinates: the tiles of slides with their scores, and as GeoJSON."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from pigmil._core.errors import BagsError
from pigmil._core.files import atomic_write
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags, as_bags, resolve_index
from pigmil.metrics import instance_scores
from pigmil.report._ranking import instance_coordinates

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
_CALLED = ("pigmil called", (230, 25, 25))


@dataclass(frozen=True)
class Tiles:
    """Positions and scores of the instances of one bag.

    Attributes
    ----------
    bag : int
        Position of the bag.
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

    bag: int
    rows: IntArray
    corners: FloatArray
    size: float
    score: FloatArray
    rank: FloatArray
    percentile: FloatArray


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
    coordinates = required_coordinates(bags)
    values = all_scores_of(bags, scores)
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
        raise BagsError(f"tile_size must be positive; got {tile_size!r}.", parameter="tile_size")
    return Tiles(number, rows, corners, size, score, rank, percentile)


def required_coordinates(bags: Bags) -> FloatArray:
    """Return x and y of every instance; raise an error if the bags have no coordinates."""
    coordinates = instance_coordinates(bags)
    if coordinates is None:
        raise BagsError(
            "A heat map needs the coordinates of the instances: a column 'coords' of two numbers, "
            "or columns 'x' and 'y', kept with info=['x', 'y']. The instances have "
            f"{', '.join(map(repr, bags.instance_info)) or 'no such columns'}."
        )
    return coordinates


def all_scores_of(bags: Bags, scores: Any) -> FloatArray:
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
    names = _slide_names(bags, rows)
    slides = list(dict.fromkeys(names))
    known = ", ".join(map(repr, slides[:5])) or "no names of slides"
    if slide is not None and slide not in slides:
        raise ValueError(f"slide={slide!r}: this bag has {known}.")
    if slide is None and len(slides) > 1:
        raise ValueError(
            f"This bag joins {len(slides)} slides, whose coordinates overlap: {known}. Choose one "
            "with slide=."
        )
    return rows if slide is None else rows[np.array(names) == slide]


def slides_of(bags: Bags, bag: int) -> list[str | None]:
    """Return the names of the slides that a bag joins, or None alone for a bag of one slide."""
    slides = dict.fromkeys(_slide_names(bags, slice(bags.offsets[bag], bags.offsets[bag + 1])))
    return [None] if len(slides) < 2 else list(slides)


def _slide_names(bags: Bags, rows: Any) -> list[str]:
    """Return the slide of each of some instances; nothing if it is not known."""
    column = next((name for name in _SLIDES if name in bags.instance_info), None)
    return [] if column is None else [str(name) for name in bags.instance_info[column][rows]]


def _tile_size(bags: Bags, bag: int, rows: IntArray, corners: FloatArray) -> float:
    """Return the side of a tile by the attributes of the slide, or by the nearest neighbours."""
    at_level0 = not _slide_attribute(bags, "patch_level", bag, rows)
    for name in (*_LEVEL0_SIZES, *(["patch_size"] if at_level0 else [])):
        size = _slide_attribute(bags, name, bag, rows)
        if size is not None:
            return size
    steps = [np.diff(np.unique(values)) for values in corners.T]
    smallest = [float(step.min()) for step in steps if len(step)]
    return min(smallest, default=1.0)


def _slide_attribute(bags: Bags, name: str, bag: int, rows: IntArray) -> float | None:
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


def tile_corners(tiles: Tiles) -> FloatArray:
    """Return the four corners of each tile, shape (n, 4, 2)."""
    steps = tiles.size * np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    return np.asarray(tiles.corners[:, None, :] + steps[None], dtype=np.float64)


def write_geojson(
    bags: Any,
    scores: Any,
    bag: int | str,
    path: str | os.PathLike[str],
    *,
    called: Any = None,
    slide: str | None = None,
    tile_size: float | None = None,
    scale: float | None = None,
) -> Path:
    """Write the tiles of a bag as GeoJSON that QuPath imports as objects.

    Every tile is a closed polygon in pixels of level 0, of object type "tile", with the
    measurements ``pigmil score``, ``rank`` and ``percentile`` within the bag. Its class is
    "pigmil called" or a band of the percentile, since QuPath has one colour per class; for a
    continuous heat map use QuPath's measurement maps.

    Parameters
    ----------
    bags, scores, bag, called, slide, tile_size
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
        unit = str(bags.bag_info["unit"][tiles.bag]) if "unit" in bags.bag_info else "px"
        if unit in ("um", "µm", "μm", "micrometre", "micrometer", "microns"):
            raise ValueError(
                "The coordinates are in micrometres, and QuPath expects pixels; pass scale=, the "
                "number of level-0 pixels per micrometre."
            )
        scale = 1.0
    corners = (scale * tile_corners(tiles)).round(3)
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Polygon", "coordinates": [[*square, square[0]]]},
            "properties": _properties(*values),
        }
        for square, *values in zip(
            corners.tolist(), tiles.score.tolist(), tiles.rank.tolist(), tiles.percentile.tolist(),
            np.isin(tiles.rows, [] if called is None else called).tolist(), strict=True,
        )
    ]  # fmt: skip
    path = Path(path)
    with atomic_write(path) as temporary:
        text = json.dumps({"type": "FeatureCollection", "features": features}, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def _properties(score: float, rank: float, percentile: float, called: bool) -> dict[str, Any]:
    """Return what QuPath reads of a tile."""
    name, colour = _NO_SCORE
    measurements: dict[str, float] = {}
    if np.isfinite(score):
        band = next((name, rgb) for low, name, rgb in _BANDS if percentile > low)
        name, colour = _CALLED if called else band
        measurements = {
            "pigmil score": float(f"{score:.6g}"), "rank": int(rank),
            "percentile": round(percentile, 2),
        }  # fmt: skip
    return {
        "objectType": "tile",
        "classification": {"name": name, "color": list(colour)},
        "measurements": measurements,
    }
