"""``read_cohort``: features of slides in a folder, and a table with their labels."""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagFormatError
from pigmil._core.text import count
from pigmil.bags import Bags, text_array
from pigmil.io._api import is_zarr, read_bags
from pigmil.io._common import check_readable, listed
from pigmil.io._label_rows import LabelRows, read_rows, with_splits
from pigmil.io._label_table import id_text, read_label_table
from pigmil.io._slide_folder import FolderReader, report_slides


def read_cohort(
    features: Any,
    table: Any = None,
    *,
    id: str = "slide_id",
    label: str = "label",
    group: str | None = None,
    level: str = "slide",
    missing: str = "raise",
    empty: str = "raise",
    splits: Any = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    memory_map: bool | str | os.PathLike[str] | None = None,
    trusted: bool = False,
    **options: Any,
) -> Bags:
    """Read the features of a cohort of slides, and their labels from a table.

    Understands the folders of TRIDENT, CLAM, STAMP, slideflow and torchmil, and any other folder
    with one ``.h5``, ``.pt``, ``.npy`` or ``.npz`` file per slide, also in folders below it.
    Tensors are read without torch, and nothing in a file is run.

    Parameters
    ----------
    features : path or Bags
        The folder with the features, a file that :func:`read_bags` reads, or bags without labels.
    table : path, DataFrame, or sequence of these, optional
        One row per slide, as CSV, TSV, XLSX, Parquet or data frame. A second table is joined by
        the column they share (a slide table and a clinical table, as STAMP has). Not needed where
        labels are in folders next to the features (torchmil).
    id : str, default="slide_id"
        Column with the name of the slide, with or without the suffix or folder of its file.
    label : str, default="label"
        Column with the label.
    group : str, optional
        Column with the patient; by default the column ``patient``, ``patient_id``, ``PATIENT`` or
        ``case_id``, if there is one. Needed for ``level="patient"``.
    level : {"slide", "patient"}, default="slide"
        A bag is a slide, or all slides of a patient; each instance then keeps the name of its
        slide in ``instance_info``.
    missing : {"raise", "drop"}, default="raise"
        Whether slides without features, without a row in the table or without a label are an error
        that lists them, or are left out with a warning.
    empty : {"raise", "drop"}, default="raise"
        The same for slides without instances (no tissue).
    splits : path, DataFrame, or sequence of these, optional
        Files ``splits_0.csv`` of CLAM (columns train, val, test) or ``splits.csv`` of torchmil
        (columns bag_name, split); they become ``bag_info["split"]``, or one column per file.
    delimiter : str, optional
        Delimiter of text tables, if it is not detected.
    encoding : str, default="utf-8"
        Encoding of text tables.
    memory_map : path or bool, optional
        Keep the features on disk, as in :func:`read_bags`.
    trusted : bool, default=False
        Whether to read attributes of HDF5 files that are text of variable length; not for files
        of unknown origin.
    **options
        Options of :func:`read_bags`, where ``features`` is a file.

    Returns
    -------
    Bags
        Coordinates are in ``instance_info["coords"]``; the other columns of the table and the
        attributes of the files (``patch_size`` and so on) in ``bag_info``.

    Examples
    --------
    >>> import numpy as np, pandas as pd, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name in ("a", "b"):
    ...     np.save(folder / f"{name}.npy", np.ones((3, 2), dtype=np.float32))
    >>> table = pd.DataFrame({"slide_id": ["b", "a"], "label": [1, 0], "patient": ["p", "q"]})
    >>> bags = read_cohort(folder, table)
    >>> bags
    Bags(2 bags, 6 instances, 2 features, float32, labels 0: 1, 1: 1)
    >>> bags.bag_info["patient"]
    array(['p', 'q'], dtype=object)
    """
    for name, value, allowed in (
        ("level", level, ("slide", "patient")),
        ("missing", missing, ("raise", "drop")),
        ("empty", empty, ("raise", "drop")),
    ):
        if value not in allowed:
            raise BagFormatError(f"{name} must be {allowed[0]!r} or {allowed[1]!r}, got {value!r}.")
    rows = None
    if table is not None:
        tables = table if isinstance(table, list | tuple) else [table]
        read = [read_label_table(one, delimiter=delimiter, encoding=encoding) for one in tables]
        rows = read_rows(read, id=id, label=label, group=group)
    if isinstance(features, Bags) or not Path(os.fspath(features)).is_dir() or is_zarr(features):
        bags = _labelled_bags(features, rows, missing, options)
    else:
        if options:
            raise TypeError(f"read_cohort got {listed(options)}, which a folder does not take.")
        reader = FolderReader(Path(os.fspath(features)), missing, empty, trusted)
        grouped = rows is not None and level == "patient"
        bags = reader.read(rows, by_group=grouped, memory_map=memory_map)
        splits = reader.folder.splits if splits is None else splits
    if splits is not None:
        bags = with_splits(bags, splits, delimiter, encoding)
    if level == "slide":
        return bags
    column = rows.group if rows is not None else group
    if column is None or column not in bags.bag_info:
        raise BagFormatError(
            "level='patient' needs the column of the patient; name it with group=. Columns are "
            f"{listed(bags.bag_info) or 'none'}."
        )
    return join_groups(bags, column, id if rows is None else rows.id)


def _labelled_bags(
    features: Any, rows: LabelRows | None, missing: str, options: dict[str, Any]
) -> Bags:
    """Return the bags of a file with the columns of the table."""
    if not isinstance(features, Bags):
        check_readable(Path(os.fspath(features)), folder=True)
    bags = features if isinstance(features, Bags) else read_bags(features, **options)
    if rows is None:
        return bags
    where = "the bags" if isinstance(features, Bags) else str(features)
    dropped: list[str] = []
    position = {id_text(one): at for at, one in enumerate(bags.ids.tolist())}
    labels = rows.columns[rows.label]
    matched = [
        (position[one], row)
        for row, one in enumerate(rows.ids)
        if one in position and labels[row] is not None
    ]
    known = set(rows.ids)
    report_slides(
        dropped,
        f"{where} and {rows.path}",
        missing,
        "missing='drop'",
        [
            ([one for one in rows.ids if one not in position], "of the table without features"),
            (
                [one for one in position if one not in known],
                "with features but without a row in the table",
            ),
            (
                [
                    one
                    for row, one in enumerate(rows.ids)
                    if one in position and labels[row] is None
                ],
                f"without a label in the column {rows.label!r}",
            ),
        ],
    )
    if not matched:
        raise BagFormatError(f"{where}: none of its bags is listed in {rows.path}.")
    if dropped:
        warnings.warn("; ".join(dropped) + ".", UserWarning, stacklevel=3)
    order = [row for _, row in matched]
    chosen = bags[np.array([at for at, _ in matched])]
    return chosen.with_labels(rows.labels(order)).with_info(bag_info=rows.take(order))


def join_groups(bags: Bags, group: str, id_name: str) -> Bags:
    """Join the bags of each group into one; instances keep the id of the bag they came from.

    Parameters
    ----------
    bags : Bags
        One bag per slide.
    group : str
        Column of ``bag_info`` with the patient.
    id_name : str
        Name under which ``instance_info`` keeps the slide of each instance.
    """
    values = bags.bag_info[group]
    codes: dict[Any, int] = {}
    owner = np.array([codes.setdefault(value, len(codes)) for value in values.tolist()])
    order = np.argsort(owner, kind="stable")
    if (order != np.arange(len(order))).any():
        bags, owner = bags[order], owner[order]
    cuts = np.flatnonzero(np.diff(owner)) + 1
    starts = np.concatenate([[0], cuts])
    ends = np.append(cuts, len(owner))
    if bags.y is not None:
        mixed = [
            str(value)
            for value, first, last in zip(codes, starts, ends, strict=True)
            if len(set(bags.y[first:last].tolist())) > 1
        ]
        if mixed:
            raise BagFormatError(
                f"Slides of {count(len(mixed), 'patient')} have different labels: "
                f"{listed(mixed, 5)}. Patient-level bags need one label per patient."
            )
    bag_info, instance_info = {}, dict(bags.instance_info)
    instance_info[id_name] = bags.ids[bags.bag_index]
    for name, column in bags.bag_info.items():
        first_of = column[np.repeat(starts, ends - starts)]
        same = (column == first_of) | ((column != column) & (first_of != first_of))
        if name == group:
            continue
        if np.all(same):
            bag_info[name] = column[starts]
        else:
            instance_info[name] = column[bags.bag_index]
    return Bags(
        bags.instances,
        bags.offsets[np.append(starts, len(owner))],
        ids=text_array(list(codes)),
        y=None if bags.y is None else bags.y[starts],
        instance_labels=bags.instance_labels,
        feature_names=bags.feature_names,
        instance_info=instance_info,
        bag_info=bag_info | {group: values[order][starts]},
        missing="keep" if bags.has_missing else "raise",
        check_finite=False,
    )
