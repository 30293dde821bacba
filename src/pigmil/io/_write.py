"""``write_bags``: CSV, Parquet, npz and HDF5, written atomically."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, MissingDependencyError, import_optional
from pigmil._core.files import atomic_write
from pigmil._core.text import listed
from pigmil.bags import Bags, as_bags, text_array
from pigmil.bags._columns import BAG, BAG_LABEL, INSTANCE_LABEL, ROW
from pigmil.io._defence import raise_format_error
from pigmil.io._formats import by_suffix, format_named, formats
from pigmil.io._tables import NOTES

_BLOCK_VALUES = 1 << 21  # values of a table that are converted at once


def write_bags(bags: Any, path: str | os.PathLike[str], format: str | None = None) -> None:
    """Write bags to a file, atomically: CSV, TSV, Parquet, npz or HDF5.

    Values are kept exactly. ``npz``, ``parquet`` and ``h5`` store everything; CSV has no types and
    only info with one value per bag or instance. Sparse bags stay sparse in ``npz``; the other
    formats store their zeros.

    Parameters
    ----------
    bags : Bags, or anything that :func:`as_bags` takes
        The bags to write.
    path : path
        The file; its suffix determines the format unless ``format`` is given.
    format : str, optional
        ``"csv"``, ``"parquet"``, ``"npz"`` or ``"h5"``.
    """
    file = Path(os.fspath(path))
    bags = as_bags(bags)
    found = format_named(format) if format else by_suffix(file.name)
    written = [name for name, entry in formats().items() if entry.write]
    if found is None or not found.write:
        raise BagFormatError(
            f"{file}: "
            + (f"no format has the suffix {file.suffix!r}." if found is None else
               f"the format {found.name!r} can be read but not written.")
            + f" Formats that are written: {', '.join(written)}.",
            parameter="format",
        )  # fmt: skip
    if len(set(_plain(file, bags.ids, "ids").tolist())) < bags.n_bags:
        raise_format_error(
            file,
            "some ids occur more than once (resampled bags?); a file needs unique ids.",
            hint="Create new ids: Bags(bags.instances, bags.offsets, y=bags.y).",
        )
    found.load("write")(bags, file)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[Path]:
    """Write a file atomically, and turn errors of the format's library into a readable one."""
    try:
        with atomic_write(path) as temporary:
            yield temporary
    except (BagFormatError, MissingDependencyError, OSError):
        raise
    except Exception as error:
        detail = " ".join(str(error).split())[:300] or type(error).__name__
        raise BagFormatError(f"{path}: cannot be written ({detail}).") from error


def _plain(path: Path, values: NDArray[Any], what: str) -> NDArray[Any]:
    """Return values as an array of numbers or text; raise an error for other objects."""
    if values.dtype.kind in "biuf":
        return values
    items = values.tolist()
    if all(isinstance(value, str) for value in items):
        return text_array(values)
    if all(isinstance(value, int | float | np.number) for value in items):
        return np.array(items)
    kinds = sorted({type(value).__name__ for value in items})
    raise_format_error(
        path, f"cannot hold {what} of type {', '.join(kinds)}; turn them into text or numbers."
    )


def _table_columns(bags: Bags, path: Path) -> dict[str, NDArray[Any]]:
    """Return the columns other than features, one entry per instance."""
    columns = bags.to_columns().items()
    return {name: _plain(path, values, f"the column {name!r}") for name, values in columns}


def _write_table(
    bags: Bags,
    path: Path,
    columns: dict[str, NDArray[Any]],
    open_writer: Callable[..., Any],
    metadata: dict[bytes, str] | None = None,
) -> None:
    """Write columns and features by a writer of pyarrow, in record batches of bounded size."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    names = bags.get_feature_names()
    step = max(1, _BLOCK_VALUES // bags.n_features)
    with _writing(path) as temporary, contextlib.ExitStack() as stack:
        writer = None
        for start in range(0, bags.n_instances, step):
            rows = slice(start, start + step)
            values = bags.instances[rows].toarray() if bags.is_sparse else bags.instances[rows]
            block = {name: _arrow_column(arrow, column[rows]) for name, column in columns.items()}
            for place, name in enumerate(names):
                block[name] = arrow.array(np.ascontiguousarray(values[:, place]))
            batch = arrow.record_batch(block, metadata=metadata)
            writer = writer or stack.enter_context(open_writer(str(temporary), batch.schema))
            writer.write_batch(batch)


def _arrow_column(arrow: Any, values: NDArray[Any]) -> Any:
    """Return a 1-D array as an Arrow array, a 2-D array as lists of fixed length."""
    if values.ndim == 2:
        flat = arrow.array(np.ascontiguousarray(values).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    if values.dtype.kind in "UO":
        return arrow.array(values.tolist(), type=arrow.string())
    return arrow.array(values, from_pandas=values.dtype.kind == "f")


def write_csv(bags: Bags, path: Path) -> None:
    """Write a long table of text, one row per instance; reading returns exactly the same values.

    Text has no types: ids that are text but look like numbers come back as numbers unless
    ``ids=str`` says otherwise, and info columns are named with ``info=`` and ``bag_info=`` when
    reading.
    """
    arrow_csv = import_optional("pyarrow.csv", extra="io", purpose="Writing csv")
    columns = _table_columns(bags, path)
    wide = [name for name, values in columns.items() if values.ndim > 1]
    if wide:
        raise_format_error(
            path,
            f"CSV cannot hold {listed(wide)}, which have several values for an instance.",
            hint="Choose parquet or npz, or leave them out of the info.",
        )
    # Booleans as Python writes them: pyarrow would write 'true'.
    columns = {
        name: values.astype(str).astype(object) if values.dtype.kind == "b" else values
        for name, values in columns.items()
    }
    tabs = path.suffix.lower() in (".tsv", ".tab")
    options = arrow_csv.WriteOptions(delimiter="\t" if tabs else ",")
    _write_table(bags, path, columns, partial(arrow_csv.CSVWriter, write_options=options))


def write_parquet(bags: Bags, path: Path) -> None:
    """Write one row per instance; types of ids, labels and values are kept."""
    parquet = import_optional("pyarrow.parquet", extra="io", purpose="Writing parquet")
    columns = _table_columns(bags, path)
    others = [name for name in columns if name not in (BAG, BAG_LABEL, INSTANCE_LABEL)]
    noted = {
        "info": [name for name in others if name not in bags.bag_info],
        "bag_info": [name for name in others if name in bags.bag_info],
        "unnamed": bags.feature_names is None,
    }
    open_writer = partial(parquet.ParquetWriter, compression="zstd")
    _write_table(bags, path, columns, open_writer, {NOTES: json.dumps(noted)})


def write_npz(bags: Bags, path: Path) -> None:
    """Write everything the container holds; sparse bags stay sparse."""
    held: dict[str, Any] = {"offsets": bags.offsets, "ids": bags.ids}
    if bags.is_sparse:
        matrix = bags.instances
        held |= {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        held["shape"] = np.array(matrix.shape, dtype=np.int64)
    else:
        held["instances"] = bags.instances
    more = {"y": bags.y, "instance_labels": bags.instance_labels}
    if bags.feature_names is not None:
        more["feature_names"] = np.array(bags.feature_names, dtype=str)
    more |= {f"info_{name}": values for name, values in bags.instance_info.items()}
    more |= {f"bag_info_{name}": values for name, values in bags.bag_info.items()}
    held |= {name: values for name, values in more.items() if values is not None}
    for name, values in held.items():
        plain = _plain(path, values, f"the array {name!r}")
        held[name] = plain.astype(str) if plain.dtype == object else plain
    with _writing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **held)


def write_h5(bags: Bags, path: Path) -> None:
    """Write one group per bag under ``bags``, with id, label and bag info as attributes.

    Instance labels and info are data sets next to ``features``. Sparse bags are written with their
    zeros.
    """
    h5py = import_optional("h5py", extra="io", purpose="Writing HDF5")
    info = {name: values for name, values in bags.instance_info.items() if name != ROW}
    reserved = {"features", "feats", "instances", "label", "feature_names", "instance_labels"}
    unusable = sorted(name for name in info if "/" in name or name in {".", "..", "", *reserved})
    if unusable:
        raise_format_error(
            path, f"instance_info has names that HDF5 cannot use here: {listed(unusable)}."
        )
    per_bag = {"id": bags.ids, **{f"info:{name}": v for name, v in bags.bag_info.items()}}
    if bags.y is not None:
        per_bag["label"] = bags.y
    if bags.instance_labels is not None:
        info["instance_labels"] = bags.instance_labels
    attributes, arrays = (
        {name: _plain(path, values, name) for name, values in columns.items()}
        for columns in (per_bag, info)
    )
    text = h5py.string_dtype()

    def type_of(values: NDArray[Any]) -> Any:
        return text if values.dtype == object else values.dtype

    # The driver "core" keeps the file in memory until it is complete: the HDF5 library ends the
    # process if it cannot write while it closes a file, as on a full disk.
    with (
        _writing(path) as temporary,
        h5py.File("bags.h5", "w", driver="core", backing_store=False) as file,
    ):
        if bags.feature_names is not None:
            file.create_dataset("feature_names", data=list(bags.feature_names), dtype=text)
        for position, values in enumerate(bags):
            group = file.create_group(f"bags/{position:08d}")
            for name, column in attributes.items():
                group.attrs.create(name, column[position], dtype=type_of(column))
            group["features"] = values.toarray() if bags.is_sparse else values
            rows = slice(int(bags.offsets[position]), int(bags.offsets[position + 1]))
            for name, column in arrays.items():
                group.create_dataset(name, data=column[rows], dtype=type_of(column))
        file.flush()
        temporary.write_bytes(file.id.get_file_image())
