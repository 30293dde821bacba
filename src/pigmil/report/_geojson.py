"""Tiles with their scores as GeoJSON, for QuPath."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.files import atomic_write
from pigmil.bags import as_bags
from pigmil.report._tiles import (
    scored_tiles,
    tile_corners,
)

# QuPath has one colour per class, so the classes are bands of the percentile.
_BANDS = (
    (99.0, "pigmil top 1 %", (253, 231, 37)),
    (95.0, "pigmil top 5 %", (94, 201, 98)),
    (80.0, "pigmil top 20 %", (33, 145, 140)),
    (-1.0, "pigmil rest", (68, 1, 84)),
)
_NO_SCORE = ("pigmil without score", (128, 128, 128))


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
    corners = (scale * tile_corners(tiles)).round(3)
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
