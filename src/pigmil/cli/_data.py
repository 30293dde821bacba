"""Read bags from a file, a folder, or by data set name."""

import shlex
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pigmil._core.errors import BagFormatError
from pigmil._core.text import count, did_you_mean
from pigmil.cli._console import Output
from pigmil.cli._options import NO_OPTIONS, ReadOptions

if TYPE_CHECKING:
    from pigmil.bags import Bags
    from pigmil.scale import LazyBags


def open_bags(
    data: str,
    options: ReadOptions = NO_OPTIONS,
    *,
    labelled: bool = True,
    output: Output | None = None,
) -> "Bags":
    """Return the bags of a file, of a folder of slides, or of a data set by name.

    Parameters
    ----------
    data : str
        Path, or name as in ``pigmil datasets list``; an existing file takes precedence.
    options : ReadOptions
        As given on the command line.
    labelled : bool, default=True
        Raise an error for bags without labels.
    output : Output, optional
        Where to warn of unusual data.
    """
    from pigmil import datasets
    from pigmil.bags import unusual_data

    known = datasets.list_datasets()
    if not Path(data).exists() and data in known:
        bags = datasets.load_dataset(data)
    elif not Path(data).exists():
        hint = did_you_mean(data, [*_beside(Path(data)), *known])
        raise BagFormatError(
            f"There is no file '{data}' (working folder: {Path.cwd()}), and no data set of that "
            f"name.{hint or ' See `pigmil datasets list`.'}"
        )
    else:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            bags = _read(data, options)
        for warning in caught:
            if output is not None:
                output.warn(str(warning.message))
    if labelled:
        _check_labelled(data, bags)
    if output is not None:
        for sentence in unusual_data(bags):
            output.warn(sentence)
    return bags


def _check_labelled(data: str, bags: "Bags | LazyBags") -> None:
    """Raise an error for bags without labels."""
    if bags.y is not None:
        return
    if Path(data).is_dir():
        hint = "name the table that has them with --labels, and its columns with --id and --label"
    else:
        hint = "name their column with --label, or a table that has them with --labels"
    raise BagFormatError(f"'{data}' has no bag labels, and fitting needs them; {hint}.")


def _beside(path: Path) -> list[str]:
    """Return the visible files and folders beside a path that does not exist."""
    try:
        names = [one.name for one in path.parent.iterdir() if not one.name.startswith(".")]
    except OSError:
        return []
    return [str(path.parent / name) for name in names[:10_000]]


def has_columns(data: str, options: ReadOptions) -> bool:
    """Whether the data is a table, whose columns are named by options."""
    from pigmil.io import detect_format, formats

    if not Path(data).is_file():
        return False
    return formats()[options.format].columns if options.format else detect_format(data).columns


def _read(data: str, options: ReadOptions) -> "Bags":
    """Read a file, or a folder with its table of labels."""
    from pigmil.io import detect_format, read_bags, read_cohort

    folder = Path(data).is_dir() and Path(data).suffix.lower() != ".zarr"
    kind = detect_format(data) if options.format is None and not folder else None
    columns = kind is None or kind.columns
    reading: dict[str, Any] = {"format": options.format} if options.format else {}
    if options.impute is not None:
        reading["missing"] = "keep"
    if options.bag is not None:
        reading["bag"] = _column(options.bag)
    if options.instance_label is not None:
        reading["instance_label"] = _column(options.instance_label)
    if options.info:
        reading["info"] = [_column(name) for name in options.info]
    if not options.labels:
        on_bags = [*(options.bag_info or []), *((options.group or []) if columns else [])]
        if on_bags and not folder:
            reading["bag_info"] = [_column(name) for name in dict.fromkeys(on_bags)]
        if options.label is not None:
            reading["label"] = _column(options.label)
        return read_bags(data, **reading, **options.format_options())
    if options.bag_info:
        reading["bag_info"] = [_column(name) for name in options.bag_info]
    tables = [_read_table(path, options) for path in options.labels]
    bags: Any = data
    if not folder:
        bags = read_bags(data, **reading, **options.format_options())
    elif options.info or options.bag or options.instance_label or options.bag_info:
        raise ValueError(
            "--bag, --info, --bag-info and --instance-label name columns of a file; in a folder, "
            "files are bags. Columns of --labels are kept as they are."
        )
    return read_cohort(
        bags,
        tables,
        id=options.id,
        label=options.label or "label",
        group=options.group[0] if options.group else None,
        level=options.level.value,
        missing=options.missing.value,
        empty=options.empty.value,
        **({} if not folder else _folder_options(options)),
    )


def _read_table(path: Path, options: ReadOptions) -> Any:
    """Return a table of labels, in the delimiter and encoding asked for."""
    from pigmil.io import read_label_table

    return read_label_table(path, delimiter=options.delimiter, encoding=options.encoding or "utf-8")


def _folder_options(options: ReadOptions) -> dict[str, Any]:
    given = options.format_options()
    return {name: value for name, value in given.items() if name not in ("delimiter", "encoding")}


def scan_lazy_bags(data: str, options: ReadOptions, *, labelled: bool = True) -> "LazyBags":
    """Return bags that stay on disk; the arguments are those of :func:`open_bags`."""
    from pigmil.scale import scan_bags

    table = options.labels[0] if options.labels else None
    lazy = scan_bags(
        data,
        labels=table,
        id=None if options.id == NO_OPTIONS.id else options.id,
        bag=options.bag,
        label=options.label,
        info=options.info or (),
    )
    if labelled:
        _check_labelled(data, lazy)
    return lazy


def find_positive_label(bags: "Bags | LazyBags", positive: str | None) -> Any:
    """Return the label that ``--positive`` names, or None for numeric labels without it.

    Text labels have no order, so a guess would often rank the instances of negative bags.
    """
    import numpy as np

    labels, counts = np.unique(np.asarray(bags.y), return_counts=True)
    listed = ", ".join(
        f"'{label}' ({count(int(n), 'bag')})" for label, n in zip(labels, counts, strict=True)
    )
    matches = [label for label in labels if str(label) == positive]
    if positive is not None and not matches:
        raise ValueError(
            f"--positive {positive}: no bag has this label; labels are {listed}."
            + did_you_mean(str(positive), [str(label) for label in labels])
        )
    if positive is None and any(isinstance(label, str) for label in labels):
        choices = " or ".join(f"--positive {shlex.quote(str(label))}" for label in labels[:3])
        raise ValueError(f"The labels are text: {listed}. Name the positive one: {choices}.")
    return matches[0] if matches else None


def _column(name: str | None) -> Any:
    """Return a column name, or a position if it is a number."""
    return int(name) if name is not None and name.lstrip("-").isdigit() else name
