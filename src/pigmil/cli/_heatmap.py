"""``pigmil heatmap``: draw the scores of tiles at their coordinates."""

import os
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pigmil._core.text import count, did_you_mean
from pigmil.cli._console import Output, command
from pigmil.cli._inputs import NO_OPTIONS, DataArgument, ReadOptions, open_bags
from pigmil.cli._models import check_two_classes, load_pipeline, with_fitted_features

_PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff")
_NAME_BYTES = 100  # of a file name; 255 is the limit of most systems
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|\Z)", re.IGNORECASE)  # on Windows


class HeatmapFormat(StrEnum):
    """A format of heat maps."""

    png = "png"
    svg = "svg"
    geojson = "geojson"


class HeatmapValue(StrEnum):
    """The value that sets the colour of a tile."""

    score = "score"
    percentile = "percentile"


@command
def heatmap(
    output: Output,
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model file of `pigmil fit`.")],
    data: DataArgument,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", help="Id of a bag to draw; may be repeated. By default all bags are drawn."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder to write.", show_default="DATA-heatmaps"),
    ] = None,
    formats: Annotated[
        list[HeatmapFormat] | None,
        typer.Option(
            "--as",
            help="Format; geojson is for QuPath. May be repeated.",
            show_default="png",
        ),
    ] = None,
    value: Annotated[
        HeatmapValue, typer.Option("--value", help="Value that determines the colour.")
    ] = HeatmapValue.score,
    tile_size: Annotated[
        float | None,
        typer.Option("--tile-size", help="Side length of a tile, if the data does not contain it."),
    ] = None,
    thumbnails: Annotated[
        Path | None,
        typer.Option("--thumbnails", help="Folder with one picture per bag, such as slide_1.png."),
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", help="Level-0 pixels per unit of the coordinates, for geojson."),
    ] = None,
    read: ReadOptions = NO_OPTIONS,
) -> None:
    """Draw the instances of bags at their coordinates, coloured by score.

    The coordinates are the column `coords` of slide files, or the columns `x` and `y` of a table.

    Examples:

      pigmil heatmap model.skops slides.h5 --only slide_7

      pigmil heatmap model.skops tiles.csv --info x --info y --as png --as geojson
    """
    import numpy as np

    from pigmil.metrics import instance_scores
    from pigmil.report import write_geojson
    from pigmil.report._ranking import instance_coordinates
    from pigmil.report._tiles import slides_of

    pipeline, method = load_pipeline(model)
    if not method.card.detects:
        raise ValueError(f"{method.card.name} does not score instances, so there is no heat map.")
    check_two_classes(method)
    bags = open_bags(data, read, labelled=False)
    if instance_coordinates(bags) is None:
        raise ValueError(
            "The instances have no coordinates: a heat map needs 'coords' in the file, or the "
            "columns of a table, kept with --info x --info y."
        )
    ids = [str(name) for name in bags.ids]
    absent = [name for name in only or [] if name not in ids]
    if absent:
        raise ValueError(
            f"--only {absent[0]}: there is no such bag; ids are like '{ids[0]}'."
            + did_you_mean(absent[0], ids)
        )
    if thumbnails is not None and not thumbnails.is_dir():
        raise ValueError(f"--thumbnails {thumbnails}: there is no such folder.")
    chosen = [ids.index(name) for name in only] if only else range(bags.n_bags)
    scores = instance_scores(pipeline, with_fitted_features(output, method, bags))
    folder = folder or Path(f"{Path(data).stem}-heatmaps")
    folder.mkdir(parents=True, exist_ok=True)
    kinds = list(dict.fromkeys(kind.value for kind in formats or [HeatmapFormat.png]))
    jobs = [(int(at), slide) for at in chosen for slide in slides_of(bags, int(at))]
    names = _file_names([slide or ids[at] for at, slide in jobs])
    written: list[dict[str, Any]] = []
    without_picture = 0
    with output.progress("drawing") as report_progress:
        for done, ((at, slide), name) in enumerate(zip(jobs, names, strict=True), 1):
            options: dict[str, Any] = {"slide": slide, "tile_size": tile_size}
            for kind in kinds:
                path = folder / f"{name}.{kind}"
                if kind == "geojson":
                    write_geojson(bags, scores, at, path, scale=scale, **options)
                else:
                    picture = _thumbnail(thumbnails, slide or ids[at])
                    without_picture += thumbnails is not None and picture is None
                    _draw(bags, scores, at, path, value.value, picture, **options)
                written.append({"bag": ids[at], "slide": slide, "file": path})
            report_progress(done, len(jobs), ids[at])
    if without_picture:
        output.warn(
            f"{thumbnails} has no picture for {without_picture} of {count(len(jobs), 'bag')}."
        )
    output.files += [str(item["file"]) for item in written]
    drawn = f"{count(len(jobs), 'bag')} as {' and '.join(kinds)}"
    output.print(f"wrote {count(len(written), 'file')} to {folder}  ({drawn})")
    output.result = {
        "method": method.card.name, "heatmaps": written,
        "unscored": int((~np.isfinite(scores)).sum()),
    }  # fmt: skip


def _file_names(names: list[str]) -> list[str]:
    """Return a safe and unique file name for each bag, also where systems ignore upper case."""
    used: dict[str, int] = {}
    safe = []
    for name in names:
        text = re.sub(r"[^\w.\-]+", "_", name).encode()[:_NAME_BYTES].decode(errors="ignore")
        text = text.strip("._") or "bag"
        text = f"bag_{text}" if _DEVICE.match(text) else text
        unique = text
        while unique.lower() in used:
            used[text.lower()] += 1
            unique = f"{text}-{used[text.lower()]}"
        used[unique.lower()] = 1
        safe.append(unique)
    return safe


def _thumbnail(folder: Path | None, name: str) -> Path | None:
    if folder is None or "/" in name or "\\" in name:
        return None
    paths = (folder / (name + suffix) for suffix in _PICTURES)
    # Unlike Path.is_file, it takes names that are too long for a file.
    return next((path for path in paths if os.path.isfile(path)), None)


def _draw(
    bags: Any, scores: Any, at: int, path: Path, value: str, thumbnail: Path | None, **options: Any
) -> None:
    from matplotlib.figure import Figure

    from pigmil.report import plot_heatmap
    from pigmil.report._figures import write_figure

    figure = Figure(figsize=(7, 6), layout="constrained")
    plot_heatmap(
        bags, scores, at, value=value, thumbnail=thumbnail, ax=figure.subplots(), **options
    )
    write_figure(figure, path, dpi=150)
