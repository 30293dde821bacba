"""Data for the figures of a report: map, heat maps, features, thumbnails."""

import base64
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import StandardScaler

from pigmil._core.errors import BagsError, import_optional
from pigmil._core.segments import segment_argmax
from pigmil._core.text import count, sanitize
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.report._ranking import detected_mask, instance_coordinates, rounded
from pigmil.report._tiles import scored_tiles, slides_of

TOP_FEATURES, UNNAMED_FEATURES = 15, 20
MAP_LIMIT, TILE_LIMIT = 10_000, 40_000
MAX_PICTURES, SIDE, MAX_PIXELS = 400, 96, 50_000_000  # side of a thumbnail; of a file to open
FORMATS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP")  # Pillow starts a program for others


def project(bags: Bags) -> tuple[FloatArray, tuple[str, str]]:
    """Return two coordinates per instance: its two features, or principal components.

    Parameters
    ----------
    bags : Bags
        The bags to draw.

    Returns
    -------
    coordinates : array of shape (n_instances, 2)
    names : tuple of two str
        Names of the axes.
    """
    if bags.n_features == 1:
        flat = np.asarray(bags.instances.toarray() if bags.is_sparse else bags.instances)
        return np.column_stack([flat, bags.bag_index]), ("feature 0", "bag")
    if bags.n_features == 2 and not bags.is_sparse:
        names = bags.feature_names or ("feature 0", "feature 1")
        return np.asarray(bags.instances, dtype=np.float64), (names[0], names[1])
    reducer: Any = TruncatedSVD if bags.is_sparse else PCA
    model = reducer(2, random_state=0)
    with np.errstate(invalid="ignore"):  # constant features have no variance
        points = model.fit_transform(bags.instances)
        shares = 100 * model.explained_variance_ratio_
    percentages = ["" if np.isnan(share) else f" ({share:.0f} %)" for share in shares]
    return points, (f"component 1{percentages[0]}", f"component 2{percentages[1]}")


def colour_range(scores: FloatArray) -> tuple[float, float]:
    """Return the range of the colour scale: the middle 96 % of scores, without a far lower tail.

    Examples
    --------
    >>> colour_range(np.array([-1001.0, -1000.0, 0.0, 1.0]))
    (0.0, 1.0)
    """
    finite = np.sort(scores[np.isfinite(scores)])
    if not len(finite):
        return 0.0, 1.0
    # Copies of negative instances score lower than all others by a large constant.
    gaps = np.diff(finite)
    if len(gaps) and gaps.max() > 5 * max(finite[-1] - finite[gaps.argmax() + 1], 1.0):
        finite = finite[gaps.argmax() + 1 :]
    if len(finite) >= 50:
        finite = np.quantile(finite, [0.02, 0.98])
    low, high = float(finite[0]), float(finite[-1])
    return low, high if high > low else low + 1.0


def instance_map(model: Any, bags: Bags, original: Bags, selection: Any = None) -> dict[str, Any]:
    """Return two coordinates and the score of every instance, or of a sample of them.

    A sample always has the detected instances and the best instance of each bag.

    Parameters
    ----------
    model : fitted detecting method
        Fitted on ``bags``.
    bags, original : Bags
        The bags as fitted, and before standardisation.
    selection : InstanceSelection, optional
        Its calls are the detected instances.
    """
    detected = detected_mask(model, bags, selection)
    points, names = project(original if bags.n_features <= 2 else bags)
    scores = np.asarray(model.instance_scores_, dtype=np.float64)
    rows = _drawn_rows(bags, scores, detected)
    notes = []
    if len(rows) < bags.n_instances:
        notes.append(
            f"The map shows {len(rows):,} of {bags.n_instances:,} instances: the detected ones, "
            "the best of each bag, and of the rest a random sample."
        )
    low, high = colour_range(scores)
    owner = bags.bag_index[rows]
    view = near_view(points[rows])
    bounds = np.array(view or [[-np.inf, np.inf]] * 2)
    outside = (points[rows] < bounds[:, 0]) | (points[rows] > bounds[:, 1])
    if view is not None:
        far = int(outside.any(axis=1).sum())
        notes.append(f"{far:,} lie far off; a double click on the map shows them.")
    return {
        "x": rounded(points[rows, 0]),
        "y": rounded(points[rows, 1]),
        "axes": [sanitize(name) for name in names],
        "bag": owner.tolist(),
        "instance": (rows - bags.offsets[owner]).tolist(),
        "score": rounded(scores[rows]),
        "range": rounded([low, high]),
        "detected": detected[rows].tolist(),
        "view": view,
        "note": " ".join(notes),
    }


def near_view(points: FloatArray) -> list[list[float]] | None:
    """Return axis ranges that show most points, if a few outliers would squeeze the rest.

    Parameters
    ----------
    points : array of shape (n, 2)
        The points of the map.

    Returns
    -------
    list of two [low, high], or None if all points can be shown.
    """
    low, high = np.quantile(points, [0.02, 0.98], axis=0)
    margin = 0.25 * np.maximum(high - low, 1e-12)
    spread = points.max(axis=0) - points.min(axis=0)
    if not np.any(spread > 4 * (high - low + 2 * margin)):
        return None
    low = np.maximum(low - margin, points.min(axis=0))
    high = np.minimum(high + margin, points.max(axis=0))
    pad = 0.03 * (high - low)
    return [[float(a), float(b)] for a, b in zip(low - pad, high + pad, strict=True)]


def _drawn_rows(bags: Bags, scores: FloatArray, detected: Any) -> IntArray:
    """Return the instances on the map: all, or those that matter and a sample of the others."""
    every = np.arange(bags.n_instances, dtype=np.int64)
    if len(every) <= MAP_LIMIT:
        return every
    finite = np.nan_to_num(scores, nan=-np.inf, neginf=-1e300)
    kept = np.union1d(np.flatnonzero(detected), segment_argmax(finite, bags.offsets))
    others = np.setdiff1d(every, kept)
    n_drawn = min(max(0, MAP_LIMIT - len(kept)), len(others))
    drawn = np.random.RandomState(0).choice(others, n_drawn, replace=False)
    return np.sort(np.concatenate([kept, drawn])).astype(np.int64)


def heatmaps(
    model: Any, bags: Bags, listed: list[int], selection: Any = None
) -> dict[str, Any] | None:
    """Return the tiles of the listed bags with their scores, or None without coordinates.

    Parameters
    ----------
    model : fitted detecting method
        Fitted on these bags.
    bags : Bags
        The training bags as the user provided them.
    listed : list of int
        The bags of the report, the most important first.
    selection : InstanceSelection, optional
        Its calls are the detected instances.
    """
    if instance_coordinates(bags) is None:
        return None
    scores = np.asarray(model.instance_scores_, dtype=np.float64)
    detected = detected_mask(model, bags, selection)
    maps: list[dict[str, Any]] = []
    n_tiles = drawn = 0
    for bag in listed:
        if n_tiles + bags.sizes[bag] > TILE_LIMIT and maps:
            break
        n_tiles, drawn = n_tiles + int(bags.sizes[bag]), drawn + 1
        for slide in slides_of(bags, bag):
            tiles = scored_tiles(bags, scores, bag, slide=slide)
            maps.append(
                {
                    "bag": bag,
                    "slide": None if slide is None else sanitize(slide),
                    "size": rounded(tiles.size)[0],
                    "x": rounded(tiles.corners[:, 0] - tiles.corners[:, 0].min()),
                    "y": rounded(tiles.corners[:, 1] - tiles.corners[:, 1].min()),
                    "instance": (tiles.rows - bags.offsets[bag]).tolist(),
                    "score": rounded(tiles.score),
                    "detected": detected[tiles.rows].tolist(),
                }
            )
    note = f"Heat maps are of the best {drawn} of {len(listed)} bags; pigmil heatmap draws all."
    return {
        "maps": maps,
        "range": rounded(colour_range(scores)),
        "note": note if drawn < len(listed) else None,
    }


def feature_differences(bags: Bags, detected: IntArray, positive: Any) -> dict[str, Any] | None:
    """Return the features in which detected instances differ most from the negatives.

    The standardised difference of a feature is the mean of the detected instances minus the mean
    of the instances of negative bags, in standard deviations of the latter.

    Parameters
    ----------
    bags : Bags
        The bags in the units of the user.
    detected : array of int
        Flat indices of the detected instances.
    positive : array of bool of shape (n_bags,)
        The positive bags.

    Returns
    -------
    dict or None
        ``rows`` with ``name``, ``difference``, ``detected`` and ``negative``, the largest
        difference first; ``largest`` and ``note``. None if the features have no names and are
        many, or if nothing is detected.
    """
    negative = np.flatnonzero(np.repeat(~np.asarray(positive), bags.sizes))
    named = bags.feature_names is not None
    if not len(detected) or not len(negative) or (not named and bags.n_features > UNNAMED_FEATURES):
        return None
    mean, _ = _moments(bags.instances[detected])
    reference, deviation = _moments(bags.instances[negative])
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = (mean - reference) / deviation
    usable = np.flatnonzero(np.isfinite(difference))
    if not len(usable):
        return None
    order = usable[np.argsort(-np.abs(difference[usable]), kind="stable")][:TOP_FEATURES]
    names = bags.get_feature_names()
    numbers = zip(*map(rounded, (difference[order], mean[order], reference[order])), strict=True)
    keys = ("difference", "detected", "negative")
    note = f"The {len(order)} largest of {count(len(usable), 'feature')}."
    return {
        "rows": [
            {"name": sanitize(names[column]), **dict(zip(keys, values, strict=True))}
            for column, values in zip(order, numbers, strict=True)
        ],
        "largest": rounded(np.abs(difference[order]).max())[0],
        "note": note if len(order) < len(usable) else None,
    }


def _moments(values: Any) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of each column; missing values are left out."""
    scaler = StandardScaler(with_mean=False).fit(values)
    return scaler.mean_, np.sqrt(scaler.var_)


class Thumbnails:
    """Thumbnails of instances as data addresses.

    Parameters
    ----------
    bags : Bags
        The bags.
    column : str
        Column of ``instance_info`` with pictures, as arrays of shape (height, width) or
        (height, width, 3), or as paths of files.
    folder : path, optional
        Folder of the files, the working folder by default. Files elsewhere are not opened: a
        table of unknown origin could name any picture of this machine.
    """

    def __init__(
        self, bags: Bags, column: str, *, folder: os.PathLike[str] | str | None = None
    ) -> None:
        if column not in bags.instance_info:
            known = ", ".join(map(repr, bags.instance_info)) or "no columns"
            raise BagsError(
                f"There is no column {column!r} with pictures; there are {known}.",
                parameter="images",
            )
        self.values = bags.instance_info[column]
        self.folder, self.left = Path(folder or "."), MAX_PICTURES
        if self.values.ndim in (3, 4):
            self.range = (float(self.values.min()), float(self.values.max()))

    def of(self, row: int) -> str | None:
        """Return the thumbnail of an instance, or None if there is no readable picture."""
        if self.left <= 0:
            return None
        image = import_optional("PIL.Image", extra="report", purpose="Thumbnails")
        try:
            picture = self._open(image, self.values[row])
        except Exception:  # Pillow raises errors of many kinds for damaged pictures
            return None
        if picture is None:
            return None
        if max(picture.size) < SIDE:  # a picture of few pixels is enlarged without blurring
            size = [side * (SIDE // max(picture.size)) for side in picture.size]
            picture = picture.resize(size, image.Resampling.NEAREST)
        picture.thumbnail((SIDE, SIDE))
        buffer = io.BytesIO()
        picture.save(buffer, format="PNG")
        self.left -= 1
        return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

    def _open(self, image: Any, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim in (2, 3):
            low, high = self.range
            scaled = (np.asarray(value, dtype=np.float64) - low) / max(high - low, 1e-300)
            return image.fromarray((255 * scaled).clip(0, 255).astype(np.uint8))
        path = (self.folder / str(value)).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            warnings.warn(
                f"Pictures outside the folder '{self.folder.resolve()}' are not opened.",
                UserWarning,
                stacklevel=2,
            )
            return None
        with image.open(path, formats=FORMATS) as opened:
            fits = opened.width * opened.height <= MAX_PIXELS
            return opened.convert("RGB") if fits else None
