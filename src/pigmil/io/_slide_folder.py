"""A folder of slides: one file of features per slide, in the layouts of the usual tools."""

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pigmil._core.errors import BagFormatError, Problems
from pigmil._core.segments import offsets_of
from pigmil._core.text import count
from pigmil.bags import Bags, text_array
from pigmil.io._common import listed, naming, raise_format_error
from pigmil.io._label_rows import LabelRows, names_of, with_splits
from pigmil.io._label_table import info_array
from pigmil.io._rows import InMemory, OnDisk
from pigmil.io._slide_file import INDEX, SLIDE_SUFFIXES, Slide, read_numbers, read_slide

_MAX_DEPTH = 6  # folders below the one that is given
# Folders of the tools that contain no features, or the same slides again.
_OTHER_FOLDERS = ("patches", "masks", "stitches", "thumbnails", "visualization", "heatmaps")
_LABELS, _COORDS = "labels", "coords"
_PATCH_LABELS = ("patch_labels", "inst_labels", "instance_labels")
_SIDE_FOLDERS = (_LABELS, _COORDS, *_PATCH_LABELS)


def read_folder(
    path: Path,
    *,
    missing: str = "raise",
    empty: str = "raise",
    trusted: bool = False,
    memory_map: Any = None,
) -> Bags:
    """Return the slides of a folder as bags, with the splits that the folder contains."""
    reader = FolderReader(path, missing, empty, trusted)
    bags = reader.read(None, by_group=False, memory_map=memory_map)
    splits = reader.folder.splits
    return bags if splits is None else with_splits(bags, splits)


@dataclass
class SlideFolder:
    """Feature files of a folder by name of the slide, and the folders next to them."""

    files: dict[str, Path] = field(default_factory=dict)
    others: dict[str, Path] = field(default_factory=dict)
    splits: Path | None = None


def find_features(root: Path) -> SlideFolder:
    """Find the feature files of a folder, at any depth.

    Files of one slide in several folders are an error that lists the folders, since they are
    features of different encoders; ``h5_files`` of CLAM is preferred to its ``pt_files``.
    """
    contents = SlideFolder()
    by_folder: dict[Path, list[os.DirEntry[str]]] = {}
    for folder, entries in _walk(root, 0):
        if folder.name in _SIDE_FOLDERS and folder != root:
            contents.others.setdefault(folder.name, folder)
            continue
        slides = [entry for entry in entries if _is_slide(entry.name)]
        if slides:
            by_folder[folder] = slides
        if folder == root or len(by_folder) == 0:
            names = {entry.name for entry in entries}
            contents.splits = contents.splits or (
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
            if name in contents.files:
                folders = {
                    str(one.relative_to(root)) for one in (folder, contents.files[name].parent)
                }
                raise_format_error(
                    root,
                    f"has several feature files for {name!r}, in {listed(sorted(folders))}.",
                    hint="Give one of these folders."
                    if len(folders) > 1
                    else "Keep one format in a folder.",
                )
            contents.files[name] = Path(entry.path)
    return contents


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


@dataclass
class FolderReader:
    """Reads the slides of a folder that a table lists."""

    root: Path
    missing: str
    empty: str
    trusted: bool
    folder: SlideFolder = field(default_factory=SlideFolder)
    dropped: list[str] = field(default_factory=list)

    def read(self, rows: LabelRows | None, *, by_group: bool, memory_map: Any) -> Bags:
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

    def _match(self, rows: LabelRows) -> list[tuple[str, Path, int]]:
        """Match rows with files; list both sides of what does not match."""
        files, used, matched = self.folder.files, set[str](), list[tuple[str, Path, int]]()
        without: list[str] = []
        for row, one in enumerate(rows.ids):
            name = next((name for name in names_of(one) if name in files), None)
            if name is None:
                without.append(one)
            else:
                used.add(name)
                matched.append((one, files[name], row))
        labels = rows.columns[rows.label]
        unlabelled = [one for one, _, row in matched if labels[row] is None]
        matched = [one for one in matched if labels[one[2]] is not None]
        unused = [name for name in files if name not in used]
        report_slides(
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
            raise_format_error(self.root, f"none of its slides is listed in {rows.path}.")
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
                self._add_other_folders(name, path.stem, slide)
                slides.append((name, row, slide))
            report_slides(
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

    def _add_other_folders(self, name: str, stem: str, slide: Slide) -> None:
        """Add coordinates and labels from folders next to the features (torchmil)."""
        size = len(slide.features)
        for kind, folder in self.folder.others.items():
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
        rows: LabelRows | None,
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


def report_slides(
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
