"""A builder of bags for the rows of a file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil.bags import BagBuilder, Bags, Coded, encode
from pigmil.io.common import Request, naming, raise_format_error
from pigmil.io.mapped import InMemory, OnDisk
from pigmil.io.values import MISSING, TextDecoder


def coded(column: Sequence[Any]) -> Coded:
    """Encode a column of text; an empty cell and a question mark stand for missing values."""
    return encode(column, missing=MISSING)


class FileRows(BagBuilder):
    """Builds bags from the rows of a file, in memory or in a memory-mapped file.

    Parameters
    ----------
    path : Path
        The file, for messages.
    request : Request
        The options of ``read_bags``.
    where : callable, optional
        Returns how messages refer to a row, counted from 0.
    mappable : bool, default=False
        Whether the format can be read with ``memory_map``, for messages.
    typed : bool, default=False
        Whether the file distinguishes text from numbers.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        *,
        where: Callable[[int], str] | None = None,
        mappable: bool = False,
        typed: bool = False,
    ) -> None:
        self.path, self.dtype = path, request.dtype
        super().__init__(
            what=str(path),
            where=where or (lambda row: f"row {row + 1}"),
            error=BagFormatError,
            store=OnDisk(path, request.memory_map)
            if request.memory_map
            else InMemory(path, mappable=mappable),
            decoder=TextDecoder(path, request, typed=typed),
            missing=request.missing,
        )

    def add(self, features: Any, *columns: Any, **named: Any) -> None:
        """Take the next rows, as :meth:`BagBuilder.add` does, in the type asked for."""
        dtype = self.dtype or (np.float32 if features.dtype == np.float32 else np.float64)
        with np.errstate(over="ignore"):
            super().add(features.astype(dtype, copy=False), *columns, **named)

    def build(self, feature_names: Sequence[str] | None = None) -> Bags:
        """Return the bags, or raise one error that lists all problems."""
        if self.n_rows == 0:
            raise_format_error(self.path, "holds no instances.", hint="It may be cut short.")
        with naming(self.path):
            return Bags(**self.finish(feature_names))
