"""``read_cohort``: features of slides in a folder, and a table with their labels."""

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, Problems
from pigmil._core.segments import offsets_of
from pigmil._core.text import count
from pigmil.bags import Bags, text_array
from pigmil.io._common import check_readable, listed, naming, raise_format_error
from pigmil.io._label_table import LabelTable, id_text, info_array, read_label_table
from pigmil.io._slide_file import INDEX, SLIDE_SUFFIXES, Slide, read_numbers, read_slide
from pigmil.io._storage import InMemory, OnDisk
from pigmil.io._values import decode_labels

_MAX_DEPTH = 6  # folders below the one that is given
_ID_NAMES = ("slide_id", "slide", "FILENAME", "bag_name", "bag", "bag_id", "image_id", "id")
_GROUP_NAMES = ("patient", "patient_id", "PATIENT", "case_id")
# Folders of the tools that hold something else than features, or the same slides once more.
_OTHER_FOLDERS = ("patches", "masks", "stitches", "thumbnails", "visualization", "heatmaps")
_LABELS, _COORDS = "labels", "coords"
_PATCH_LABELS = ("patch_labels", "inst_labels", "instance_labels")
_SIDE_FOLDERS = (_LABELS, _COORDS, *_PATCH_LABELS)
_SLIDE_ENDINGS = (
    *SLIDE_SUFFIXES, ".svs", ".tif", ".tiff", ".ndpi", ".mrxs", ".scn", ".czi", ".dcm", ".png",
)  # fmt: skip


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
        labels lie beside the features (torchmil).
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
        reader = _FolderReader(Path(os.fspath(features)), missing, empty, trusted)
        grouped = rows is not None and level == "patient"
        bags = reader.read(rows, by_group=grouped, memory_map=memory_map)
        splits = reader.folder.splits if splits is None else splits
    if splits is not None:
        bags = _with_splits(bags, splits, delimiter, encoding)
    if level == "slide":
        return bags
    column = rows.group if rows is not None else group
    if column is None or column not in bags.bag_info:
        raise BagFormatError(
            "level='patient' needs the column of the patient; name it with group=. Columns are "
            f"{listed(bags.bag_info) or 'none'}."
        )
    return join_groups(bags, column, id if rows is None else rows.id)


def is_zarr(path: Any) -> bool:
    """Whether a folder is a zarr store, by its name."""
    return str(path).rstrip("/\\").lower().endswith(".zarr")


@dataclass
class _Rows:
    """The rows of the table, by id."""

    path: Path
    id: str
    label: str
    group: str | None
    columns: dict[str, list[Any]]
    ids: list[str]

    def take(self, chosen: Sequence[int]) -> dict[str, NDArray[Any]]:
        """Return the columns besides id and label, for some rows."""
        return {
            name: info_array([values[row] for row in chosen])
            for name, values in self.columns.items()
            if name not in (self.id, self.label)
        }

    def labels(self, chosen: Sequence[int]) -> NDArray[Any]:
        """Return the labels of some rows; text that reads as numbers becomes numbers."""
        values = [self.columns[self.label][row] for row in chosen]
        y, _ = decode_labels(self.path, values, None, None)
        return np.asarray(y)


def read_rows(
    tables: Sequence[LabelTable],
    *,
    id: str = _ID_NAMES[0],
    label: str = "label",
    group: str | None = None,
) -> _Rows:
    """Join the tables and check that each slide has one row."""
    table = tables[0]
    for other in tables[1:]:
        table = _join(table, other, group)
    if id not in table.columns and id == _ID_NAMES[0]:
        id = next((name for name in _ID_NAMES if name in table.columns), id)
    table.find(id, "id")
    if group is not None:
        table.find(group, "group")
    else:
        group = next((name for name in _GROUP_NAMES if name in table.columns), None)
    table.find(label, "label")
    values = table.columns[id]
    blank = [row for row, value in enumerate(values, start=2) if value is None]
    if blank:
        raise_format_error(
            table.path, f"has no {id} in {count(len(blank), 'row')}: {listed(blank, 5)}."
        )
    ids = [id_text(value) for value in values]
    repeated = [one for one, times in Counter(ids).items() if times > 1]
    if repeated:
        raise_format_error(
            table.path,
            f"has several rows for {count(len(repeated), 'slide')}: {listed(repeated, 5)}; "
            "each needs one.",
        )
    return _Rows(table.path, id, label, group, table.columns, ids)


def _join(left: LabelTable, right: LabelTable, group: str | None) -> LabelTable:
    """Join two tables by the column they share; rows of the left stay in order."""
    shared = [name for name in left.columns if name in right.columns]
    key = group if group in shared else shared[0] if len(shared) == 1 else None
    if key is None:
        raise_format_error(
            right.path,
            f"shares {listed(shared) if shared else 'no column'} with {left.path}; tables are "
            "joined by one column.",
            hint="Name it with group=.",
        )
    # The table with repeated keys is the one of slides.
    keys = [None if value is None else id_text(value) for value in right.columns[key]]
    if len(set(keys)) < len(keys):
        other = [None if value is None else id_text(value) for value in left.columns[key]]
        if len(set(other)) == len(other):
            return _join(right, left, group)
        raise_format_error(
            right.path, f"has several rows for the same {key}, and so has {left.path}."
        )
    row_of = {one: row for row, one in enumerate(keys)}
    rows = [None if value is None else row_of.get(id_text(value)) for value in left.columns[key]]
    joined = dict(left.columns)
    for name, values in right.columns.items():
        if name not in joined:
            joined[name] = [None if row is None else values[row] for row in rows]
    return LabelTable(left.path, joined)


@dataclass
class _Folder:
    """Feature files of a folder by name of the slide, and the folders beside them."""

    files: dict[str, Path] = field(default_factory=dict)
    beside: dict[str, Path] = field(default_factory=dict)
    splits: Path | None = None


def find_features(root: Path) -> _Folder:
    """Find the feature files of a folder, at any depth.

    Files of one slide in several folders are an error that lists the folders, since they are
    features of different encoders; ``h5_files`` of CLAM is preferred to its ``pt_files``.
    """
    found = _Folder()
    by_folder: dict[Path, list[os.DirEntry[str]]] = {}
    for folder, entries in _walk(root, 0):
        if folder.name in _SIDE_FOLDERS and folder != root:
            found.beside.setdefault(folder.name, folder)
            continue
        slides = [entry for entry in entries if _is_slide(entry.name)]
        if slides:
            by_folder[folder] = slides
        if folder == root or len(by_folder) == 0:
            names = {entry.name for entry in entries}
            found.splits = found.splits or (
                folder / "splits.csv" if "splits.csv" in names else None
            )
    tensors = [folder for folder in by_folder if folder.name == "pt_files"]
    for folder in tensors:
        if folder.with_name("h5_files") in by_folder:
            del by_folder[folder]
    if not by_folder:
        raise_format_error(
            root, f"has no feature files ({', '.join(SLIDE_SUFFIXES)}) in it or below it."
        )
    for folder, entries in by_folder.items():
        for entry in sorted(entries, key=lambda one: one.name):
            if not entry.is_file():
                raise_format_error(Path(entry.path), "is not a regular file.")
            name = Path(entry.name).stem
            if name in found.files:
                folders = {str(one.relative_to(root)) for one in (folder, found.files[name].parent)}
                raise_format_error(
                    root,
                    f"has several feature files for {name!r}, in {listed(sorted(folders))}.",
                    hint="Give one of these folders."
                    if len(folders) > 1
                    else "Keep one format in a folder.",
                )
            found.files[name] = Path(entry.path)
    return found


def _walk(folder: Path, depth: int) -> Iterator[tuple[Path, list[os.DirEntry[str]]]]:
    """Yield folders and the visible files in them; links to folders are not followed."""
    with os.scandir(folder) as scan:
        entries = sorted(
            (entry for entry in scan if not entry.name.startswith(".")), key=lambda one: one.name
        )
    yield folder, [entry for entry in entries if not entry.is_dir()]
    for entry in entries:
        other = entry.name in _OTHER_FOLDERS or entry.name.startswith("slide_features_")
        if depth < _MAX_DEPTH and entry.is_dir(follow_symlinks=False) and not other:
            yield from _walk(Path(entry.path), depth + 1)


def _is_slide(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SLIDE_SUFFIXES and not name.endswith(INDEX)


def _names_of(value: str) -> Iterator[str]:
    """Yield the names under which the file of an id may be found: without folder or suffix."""
    yield value
    name = value.replace("\\", "/").rpartition("/")[2]
    yield name
    stem, suffix = os.path.splitext(name)
    if suffix.lower() in _SLIDE_ENDINGS:
        yield stem


@dataclass
class _FolderReader:
    """Reads the slides of a folder that a table asks for."""

    root: Path
    missing: str
    empty: str
    trusted: bool
    folder: _Folder = field(default_factory=_Folder)
    dropped: list[str] = field(default_factory=list)

    def read(self, rows: _Rows | None, *, by_group: bool, memory_map: Any) -> Bags:
        """Return one bag per slide; with ``by_group``, those of a patient follow each other."""
        self.folder = find_features(self.root)
        if rows is None:
            chosen = [(name, path, -1) for name, path in self.folder.files.items()]
        else:
            chosen = self._match(rows)
            if by_group and rows.group is not None:
                patients = [rows.columns[rows.group][row] for _, _, row in chosen]
                first = {patient: at for at, patient in reversed(list(enumerate(patients)))}
                chosen = [
                    one
                    for _, one in sorted(
                        zip(patients, chosen, strict=True), key=lambda pair: first[pair[0]]
                    )
                ]
        slides, instances = self._read_slides(chosen, memory_map)
        if self.dropped:
            warnings.warn("; ".join(self.dropped) + ".", UserWarning, stacklevel=4)
        kept = [row for _, row, _ in slides]
        return self._bags(slides, instances, rows, kept)

    def _match(self, rows: _Rows) -> list[tuple[str, Path, int]]:
        """Match rows with files; list both sides of what does not match."""
        files, used, matched = self.folder.files, set[str](), list[tuple[str, Path, int]]()
        without: list[str] = []
        for row, one in enumerate(rows.ids):
            name = next((name for name in _names_of(one) if name in files), None)
            if name is None:
                without.append(one)
            else:
                used.add(name)
                matched.append((one, files[name], row))
        labels = rows.columns[rows.label]
        unlabelled = [one for one, _, row in matched if labels[row] is None]
        matched = [one for one in matched if labels[one[2]] is not None]
        unused = [name for name in files if name not in used]
        _report(
            self.dropped,
            f"{self.root} and {rows.path}",
            self.missing,
            "missing='drop'",
            [
                (without, "of the table without features"),
                (unused, "with features but without a row in the table"),
                (unlabelled, f"without a label in the column {rows.label!r}"),
            ],
        )
        if not matched:
            raise_format_error(self.root, f"no slide is also in {rows.path}.")
        return matched

    def _read_slides(
        self, chosen: Sequence[tuple[str, Path, int]], memory_map: Any
    ) -> tuple[list[tuple[str, int, Slide]], Any]:
        """Read the files one after the other; return what is known of each, and all features."""
        store: Any = (
            OnDisk(self.root, memory_map) if memory_map else InMemory(self.root, mappable=True)
        )
        slides: list[tuple[str, int, Slide]] = []
        without_instances: list[str] = []
        first: tuple[str, int, Any] | None = None
        try:
            for name, path, row in chosen:
                slide = read_slide(path, trusted=self.trusted)
                values, slide.features = slide.features, np.empty((len(slide.features), 0))
                if not len(values):
                    without_instances.append(name)
                    continue
                first = first or (name, values.shape[1], values.dtype)
                if values.shape[1] != first[1]:
                    raise_format_error(
                        path,
                        f"{name!r} has {values.shape[1]} features where {first[0]!r} has "
                        f"{first[1]}.",
                        hint="All slides need features of the same encoder.",
                    )
                store.append(values.astype(first[2], copy=False))
                self._add_beside(name, path.stem, slide)
                slides.append((name, row, slide))
            _report(
                self.dropped,
                str(self.root),
                self.empty,
                "empty='drop'",
                [(without_instances, "without instances")],
            )
            if not slides:
                raise_format_error(self.root, "has no slide with instances.")
            return slides, store.finish(None)
        except BaseException:
            store.discard()
            raise

    def _add_beside(self, name: str, stem: str, slide: Slide) -> None:
        """Add coordinates and labels that lie in folders beside the features (torchmil)."""
        size = len(slide.features)
        for kind, folder in self.folder.beside.items():
            file = folder / f"{stem}.npy"
            if not file.is_file():
                continue
            values = read_numbers(file)
            if kind == _LABELS:
                if values.size != 1:
                    raise_format_error(file, f"has {values.size} labels; a bag has one.")
                slide.label = values.ravel()[0].item()
                continue
            if len(values) != size:
                raise_format_error(file, f"has {len(values)} rows; {name!r} has {size} instances.")
            if kind == _COORDS:
                slide.instance_info["coords"] = values
            else:
                slide.instance_labels = values.reshape(size)

    def _bags(
        self,
        slides: Sequence[tuple[str, int, Slide]],
        instances: Any,
        rows: _Rows | None,
        kept: Sequence[int],
    ) -> Bags:
        ids = [name for name, _, _ in slides]
        parts = [slide for _, _, slide in slides]
        if rows is not None:
            y: Any = rows.labels(kept)
        else:
            labels = [slide.label for slide in parts]
            y = None if all(one is None for one in labels) else info_array(labels)
        problems = Problems(str(self.root))
        instance_info = {}
        for name in {name: None for slide in parts for name in slide.instance_info}:
            without = [one for one, slide in zip(ids, parts, strict=True)
                       if name not in slide.instance_info]  # fmt: skip
            if without:
                problems.add(f"Some slides have no {name!r}: {listed(without, 5)}; all need it.")
            else:
                instance_info[name] = np.concatenate([one.instance_info[name] for one in parts])
        known = [slide.instance_labels is not None for slide in parts]
        problems.raise_if_any(BagFormatError)
        inner = (
            np.concatenate([np.asarray(slide.instance_labels) for slide in parts])
            if all(known)
            else None
        )
        attributes = {
            name: info_array([slide.bag_info.get(name) for slide in parts])
            for name in {name: None for slide in parts for name in slide.bag_info}
        }
        with naming(self.root):
            return Bags(
                instances,
                offsets_of(np.array([len(slide.features) for slide in parts])),
                ids=text_array(ids),
                y=y,
                instance_labels=inner,
                instance_info=instance_info,
                bag_info=attributes | ({} if rows is None else rows.take(kept)),
            )


def _report(
    dropped: list[str],
    where: str,
    action: str,
    choice: str,
    kinds: Sequence[tuple[Sequence[str], str]],
) -> None:
    """Raise one error that lists slides of each kind, or note that they are left out."""
    lines = [
        f"{count(len(names), 'slide')} {what}: {listed(names, 10)}"
        for names, what in kinds
        if names
    ]
    if not lines:
        return
    if action == "raise":
        raise BagFormatError(
            f"{where}:\n"
            + "\n".join(f"- {line}." for line in lines)
            + f"\nPass {choice} to leave them out."
        )
    dropped += [f"left out {line}" for line in lines]


def _labelled_bags(
    features: Any, rows: _Rows | None, missing: str, options: dict[str, Any]
) -> Bags:
    """Return the bags of a file with the columns of the table."""
    from pigmil.io._api import read_bags

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
    _report(
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
        raise BagFormatError(f"{where}: no bag is also in {rows.path}.")
    if dropped:
        warnings.warn("; ".join(dropped) + ".", UserWarning, stacklevel=3)
    order = [row for _, row in matched]
    chosen = bags[np.array([at for at, _ in matched])]
    return chosen.with_labels(rows.labels(order)).with_info(bag_info=rows.take(order))


def _with_splits(bags: Bags, splits: Any, delimiter: str | None, encoding: str) -> Bags:
    """Return bags with the part of each split they belong to, '' for none."""
    given = splits if isinstance(splits, list | tuple) else [splits]
    columns = {}
    for number, source in enumerate(given):
        table = read_label_table(source, delimiter=delimiter, encoding=encoding)
        part_of = _parts(table)
        parts = [
            next((part_of[name] for name in _names_of(id_text(one)) if name in part_of), "")
            for one in bags.ids.tolist()
        ]
        columns["split" if len(given) == 1 else f"split_{number}"] = text_array(parts)
    return bags.with_info(bag_info=columns)


def _parts(table: LabelTable) -> dict[str, str]:
    """Return the part (train, val, test) of each slide of a table of splits."""
    columns = table.columns
    parts = [name for name in ("train", "val", "test") if name in columns]
    if "split" in columns:
        names = next((columns[name] for name in _ID_NAMES if name in columns), None)
        if names is None:
            raise_format_error(table.path, f"has no column of slides among {listed(columns)}.")
        pairs = zip(names, columns["split"], strict=True)
        return {id_text(name): str(part) for name, part in pairs if name is not None}
    if not parts:
        raise_format_error(
            table.path, f"has neither a column 'split' nor 'train'; it has {listed(columns)}."
        )
    if all(str(value) in ("True", "False") for name in parts for value in columns[name]):
        slides = next(values for name, values in columns.items() if name not in parts)
        return {
            id_text(slide): name
            for name in parts
            for slide, chosen in zip(slides, columns[name], strict=True)
            if str(chosen) == "True"
        }
    return {id_text(one): name for name in parts for one in columns[name] if one is not None}


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
