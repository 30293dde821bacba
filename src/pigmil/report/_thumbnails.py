"""Small pictures of instances, stored inside a report."""

import base64
import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import import_optional
from pigmil.bags import Bags

SIDE, MAX_PIXELS = 96, 50_000_000
FORMATS = ("PNG", "JPEG", "TIFF", "GIF", "BMP", "WEBP")  # Pillow starts a program for others


def open_picture(path: str | os.PathLike[str]) -> Any:
    """Return a picture in colours; refuse odd formats and pictures that fill the memory."""
    image = import_optional("PIL.Image", extra="report", purpose="Pictures")
    with image.open(path, formats=FORMATS) as opened:
        if opened.width * opened.height > MAX_PIXELS:
            raise ValueError(f"{path} has more than {MAX_PIXELS:,} pixels.")
        return opened.convert("RGB")


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
    limit : int, default=400
        Maximum number of pictures.
    """

    def __init__(
        self,
        bags: Bags,
        column: str,
        *,
        folder: str | os.PathLike[str] | None = None,
        limit: int = 400,
    ) -> None:
        if column not in bags.instance_info:
            known = ", ".join(map(repr, bags.instance_info)) or "no columns"
            raise ValueError(f"There is no column {column!r} with pictures; there are {known}.")
        self.values = bags.instance_info[column]
        self.folder = Path(folder or ".")
        self.left = limit
        self.warned = False
        self.range = (0.0, 1.0)
        if self.values.ndim in (3, 4) and self.values.dtype.kind in "fiub" and self.values.size:
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
            factor = SIDE // max(picture.size)
            picture = picture.resize(
                (picture.width * factor, picture.height * factor), image.Resampling.NEAREST
            )
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
        if not str(value) or not path.is_file():
            return None
        if not path.is_relative_to(self.folder.resolve()):
            if not self.warned:
                warnings.warn(
                    f"The picture {str(value)[:200]!r} is outside the folder "
                    f"'{self.folder.resolve()}' and was not opened; others may be too.",
                    UserWarning,
                    stacklevel=2,
                )
                self.warned = True
            return None
        return open_picture(path)
