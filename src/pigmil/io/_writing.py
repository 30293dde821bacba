"""Values and columns as the writers need them; errors for data that a format cannot hold."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.optional import import_optional
from pigmil.bags import Bags, text_array
from pigmil.io._common import listed, naming, raise_format_error
from pigmil.io._values import MISSING


def columns_to_write(
    bags: Bags,
    path: Path,
    format_name: str,
    *,
    bag: str,
    label: str,
    instance_label: str,
    lossy: bool,
    text: bool,
) -> dict[str, NDArray[Any]]:
    """Return the columns other than features, one entry per instance; losing data is an error."""
    info = {**bags.bag_info, **bags.instance_info}
    wide = [name for name, values in info.items() if values.ndim != 1]
    wide = [name for name in wide if text or name in bags.bag_info or info[name].ndim > 2]
    if wide and not lossy:
        raise_format_error(
            path,
            f"the format {format_name!r} cannot hold {listed(wide)} of the info, which have "
            "several values for a bag or an instance.",
            hint="Pass lossy=True to leave them out, or choose npz.",
        )
    with naming(path):
        columns = bags.to_columns(bag=bag, label=label, instance_label=instance_label)
    return {
        name: plain(path, values, f"the column {name!r}")
        for name, values in columns.items()
        if name not in wide
    }


def text_column(values: NDArray[Any]) -> Any:
    """Return a column of text or whole numbers; other numbers are written as Python does."""
    if values.dtype.kind == "f":
        return [None if value != value else repr(value) for value in values.tolist()]
    return values if values.dtype.kind in "iuUO" else as_text(values)


def table_blocks(
    bags: Bags, fixed: dict[str, NDArray[Any]], dtype: Any, *, text: bool = True
) -> Iterator[Any]:
    """Yield the long table as Arrow record batches of bounded size."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    names = bags.get_feature_names()
    for start, end, values in dense_blocks(bags):
        columns = {
            name: arrow_column(text_column(part[start:end]) if text else part[start:end])
            for name, part in fixed.items()
        }
        for position, name in enumerate(names):
            columns[name] = arrow.array(np.ascontiguousarray(values[:, position], dtype=dtype))
        yield arrow.record_batch(columns)


def arrow_column(values: Any) -> Any:
    """Return a 1-D array or list as an Arrow array, a 2-D array as lists of fixed length."""
    arrow = import_optional("pyarrow", extra="io", purpose="Writing a table")
    if isinstance(values, list) or values.dtype.kind in "UO":
        return arrow.array(list(values), type=arrow.string())
    if values.ndim == 2:
        flat = arrow.array(np.ascontiguousarray(values).ravel())
        return arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.array(values)


def plain(path: Path, values: NDArray[Any], what: str) -> NDArray[Any]:
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


def as_text(values: NDArray[Any]) -> list[str]:
    """Return values as text that :func:`decode` turns back into the same values."""
    if values.dtype.kind == "f":
        return [repr(float(value)) for value in values.tolist()]
    return [str(value) for value in values.tolist()]


def known_text(path: Path, values: NDArray[Any], format_name: str) -> list[str]:
    """Return instance labels as text, ``?`` where they are unknown (NaN)."""
    values = plain(path, values, "instance labels")
    if values.dtype.kind == "f":
        return ["?" if value != value else repr(value) for value in values.tolist()]
    texts = as_text(values)
    if any(text in MISSING for text in texts):
        raise_format_error(
            path,
            f"the format {format_name!r} reads '' and '?' as missing, so they cannot be labels.",
        )
    return texts


def cannot_hold(path: Path, bags: Bags, format_name: str, lossy: bool, **parts: bool) -> None:
    """Raise an error if a format would lose data, unless ``lossy``.

    ``parts`` says whether the format holds ``labels``, ``instance_labels``, ``feature_names``,
    ``instance_info`` (by default it does) and ``bag_info`` (by default it does not).
    """
    lost = []
    if not parts.get("labels", True) and bags.y is not None:
        lost.append("bag labels")
    if not parts.get("instance_labels", True) and bags.instance_labels is not None:
        lost.append("instance labels")
    if not parts.get("feature_names", True) and bags.feature_names is not None:
        lost.append("feature names")
    if not parts.get("bag_info", False):
        lost += [f"bag_info[{name!r}]" for name in bags.bag_info]
    if not parts.get("instance_info", True):
        lost += [f"instance_info[{name!r}]" for name in bags.instance_info if name != "row"]
    if lost and not lossy:
        raise_format_error(
            path,
            f"the format {format_name!r} cannot hold {', '.join(lost)}.",
            hint="Pass lossy=True to leave them out, or choose npz, parquet or h5.",
        )


def refuse_text(
    path: Path, texts: Sequence[str], what: str, forbidden: str, format_name: str
) -> None:
    """Raise an error for ids, labels or names that a format without quoting would change."""
    for text in texts:
        bad = [
            sign for sign in text if sign in forbidden or sign.isspace() or not sign.isprintable()
        ]
        if bad or not text or text == "?":
            reason = f"the character {bad[0]!r}" if bad else "nothing but " + (repr(text) or "''")
            raise_format_error(
                path,
                f"the format {format_name!r} has no quoting and cannot hold the {what} {text!r} "
                f"({reason}).",
                hint="Rename it, or choose csv, npz, parquet or h5.",
            )


def text_fields(
    path: Path, bags: Bags, format_name: str, forbidden: str
) -> tuple[list[str], list[str], list[str] | None]:
    """Return ids, labels and instance labels as text for a format without quoting.

    ``?`` is written for unknown labels; text that would change is an error.
    """
    ids = as_text(plain(path, bags.ids, "ids"))
    refuse_text(path, ids, "id", forbidden, format_name)
    labels = ["?"] * bags.n_bags
    if bags.y is not None:
        labels = as_text(plain(path, bags.y, "labels"))
        refuse_text(path, labels, "label", forbidden, format_name)
    inner = None
    if bags.instance_labels is not None:
        inner = known_text(path, bags.instance_labels, format_name)
        known = [text for text in inner if text != "?"]
        refuse_text(path, known, "label", forbidden, format_name)
    return ids, labels, inner


def check_names(path: Path, names: Sequence[str], reserved: Sequence[str]) -> None:
    """Raise an error for feature names that repeat or are reserved by the format."""
    if set(reserved) & set(names) or len(set(names)) < len(names):
        raise_format_error(
            path, f"feature names must differ from each other and from {', '.join(reserved)}."
        )


def text_rows(bags: Bags) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the number of each instance, its bag and its values as text."""
    index = bags.bag_index
    for start, end, values in dense_blocks(bags):
        for row, numbers in zip(range(start, end), values.tolist(), strict=True):
            yield row, int(index[row]), [repr(number) for number in numbers]


def dense_blocks(bags: Bags, n_values: int = 1 << 21) -> Iterator[tuple[int, int, Any]]:
    """Yield first row, last row and dense float64 values, block by block."""
    step = max(1, n_values // max(1, bags.n_features))
    for start in range(0, bags.n_instances, step):
        block = bags.instances[start : start + step]
        block = block.toarray() if bags.is_sparse else np.asarray(block)
        yield start, start + block.shape[0], block.astype(np.float64, copy=False)
