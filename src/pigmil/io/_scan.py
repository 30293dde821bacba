"""Find the bags in files and folders, from their metadata alone."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import Problems
from pigmil._core.optional import import_optional
from pigmil._core.segments import offsets_of
from pigmil._core.typing import IntArray
from pigmil.bags._lazy import INSTANCE_LABELS as INSTANCE_LABEL
from pigmil.bags._lazy import LazyBags, Source, Stamp, _join_by_id, concatenate_lazy
from pigmil.io._common import (
    check_memory,
    check_readable,
    find_column,
    listed,
    parsing,
    raise_format_error,
)
from pigmil.io._h5_file import (
    FEATURES,
    INSTANCE_LABELS,
    LABELS,
    OneFile,
    check_stored_inside,
    check_text,
)
from pigmil.io._scan_labels import attach_labels
from pigmil.io._sources import (
    H5Source,
    NpySource,
    TableFile,
    TableSource,
    ZarrSource,
    column_values,
    map_npy,
)
from pigmil.io._zarr_store import open_zarr

_H5 = (".h5", ".hdf5", ".hdf")
_TABLE = (".parquet", ".pq", ".arrow", ".feather")
_PANDAS_INDEX = "__index_level_"  # columns in which pandas stores row labels
_MOST_SEGMENTS = 1 << 22  # ranges of rows: beyond it a table is in no useful order


def scan_bags(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    labels: Any = None,
    id: str | None = None,
    label: str | None = None,
    bag: str | None = None,
    features: str | Sequence[str] | None = None,
    info: Sequence[str] = (),
    missing: str = "raise",
    empty: str = "raise",
    trusted: bool = False,
) -> LazyBags:
    """Open bags on disk without reading their instances.

    Layouts that are recognized: a folder of HDF5 files with one bag each (``features`` or
    ``feats``, as CLAM, TRIDENT and STAMP write them), an HDF5 file with one group or data set per
    bag, Parquet and Arrow files with one row per instance (sorted by bag or not), folders of such
    files, also with folders ``name=value`` inside, a zarr store with one group or array per bag or
    a folder of such stores, AnnData (``.h5ad`` or zarr) with the bag as a column of ``obs``, and a
    folder of ``.npy`` files (also in ``features/`` with ``labels/`` beside it, as torchmil writes
    them). A bag that is split over several files is joined by its
    id, unless every file is one bag by its layout.

    Parameters
    ----------
    paths : path or sequence of paths
        Folders or files, all with the same features. Workers must see them under the same path.
    labels : mapping of id to label, path of a table, or DataFrame, optional
        Labels of the bags; columns other than id and label become ``bag_info``. By default labels
        are read from the files.
    id, label : str, optional
        Columns of that table; or, without it, the label column of a Parquet or AnnData file.
    bag : str, optional
        Column that holds the bag, in Parquet, Arrow and AnnData files; ``"bag"`` by default.
    features : str or sequence of str, optional
        Feature columns, or the column of lists, of a table; ``"X"``, ``"obsm/X_pca"`` or
        ``"layers/counts"`` of AnnData; the name of the data set in HDF5 and zarr files.
    info : sequence of str, default=()
        Columns of a table that are no features and stay with the instances.
    missing : {"raise", "drop"}, default="raise"
        Whether bags that ``labels`` does not list are an error or are left out.
    empty : {"raise", "drop"}, default="raise"
        Whether bags without instances (slides without tissue) are an error or are left out.
    trusted : bool, default=False
        Whether to read text of variable length from HDF5, see :func:`pigmil.read_bags`.

    Returns
    -------
    LazyBags

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from pigmil.datasets import make_ring
    >>> from pigmil import write_bags
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ring.parquet"
    >>> write_bags(make_ring(random_state=0), file)
    >>> lazy = scan_bags(file)
    >>> lazy.n_bags, lazy.n_instances, lazy[:2].load().n_bags
    (40, 320, 2)
    """
    for name, value in (("missing", missing), ("empty", empty)):
        if value not in ("raise", "drop"):
            raise ValueError(f"{name}={value!r} is not 'raise' or 'drop'.")
    alone = isinstance(paths, str | os.PathLike)
    given: Any = [paths] if alone else paths
    chosen = [Path(os.path.abspath(path)) for path in given]
    if not chosen:
        raise ValueError("There are no paths to scan.")
    options = _Options(bag, label, features, tuple(info), empty, trusted)
    lazy = concatenate_lazy([_scan_one(path, options) for path in chosen])
    if labels is not None:
        lazy = attach_labels(lazy, labels, id=id, label=label, missing=missing)
    return lazy


class _Options:
    def __init__(
        self,
        bag: str | None,
        label: str | None,
        features: str | Sequence[str] | None,
        info: tuple[str, ...],
        empty: str,
        trusted: bool,
    ) -> None:
        self.bag, self.label, self.features = bag, label, features
        self.info, self.empty, self.trusted = info, empty, trusted


class _Found:
    """Bags found so far, each one array of a file."""

    def __init__(self, what: Path, options: _Options) -> None:
        self.what, self.options = what, options
        self.sources: list[Source] = []
        self.ids: list[Any] = []
        self.sizes: list[int] = []
        self.labels: list[Any] = []
        self.info: list[dict[str, Any]] = []
        self.kinds: dict[tuple[int, np.dtype[Any]], str] = {}
        self.problems = Problems(f"{what}: the bags")
        self.names: Sequence[str] | None = None

    def add(
        self,
        source: Source,
        id: Any,
        shape: tuple[int, ...],
        dtype: Any,
        label: Any = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        shape = shape[1:] if len(shape) == 3 and shape[0] == 1 else shape
        where = f"{source.stamp.path}: the bag {id!r}"
        if len(shape) != 2 or np.dtype(dtype).kind not in "iuf":
            self.problems.add(
                f"{where} has features of shape {shape} and type {dtype}; expected a table of "
                "numbers."
            )
            return
        if label is not None and not isinstance(label, bool | int | float | str | np.generic):
            self.problems.add(f"{where} has the label {str(label)[:80]!r}; expected one value.")
            return
        if shape[0] == 0:
            if self.options.empty == "raise":
                self.problems.add(f"{where} has no instances; pass empty='drop' to leave it out.")
            return
        width = {one for one, _ in self.kinds}
        if width and shape[1] not in width:
            other = next(iter(self.kinds.items()))
            self.problems.add(
                f"{where} has {shape[1]} features where {other[1]} has {other[0][0]}; scan files "
                "of different encoders apart."
            )
            return
        self.kinds.setdefault((shape[1], np.dtype(dtype)), str(source.stamp.path))
        self.sources.append(source)
        self.ids.append(id)
        self.sizes.append(shape[0])
        self.labels.append(label)
        self.info.append(info or {})

    def build(self) -> LazyBags:
        self.problems.raise_if_any()
        if not self.ids:
            raise_format_error(
                self.what,
                "holds no bags.",
                hint="See pigmil.scale.scan_bags for the layouts that are recognized.",
            )
        twice = [one for one, count in Counter(self.ids).items() if count > 1]
        if twice:
            raise_format_error(
                self.what,
                f"several bags have the id {listed(twice, 3)}.",
                hint="Give different names to different bags; to join the parts of a bag, give "
                "their files as a list to Bags.scan.",
            )
        known = [label is not None for label in self.labels]
        names = set.intersection(*(set(one) for one in self.info))
        count = len(self.ids)
        return LazyBags(
            self.sources,
            np.column_stack([np.arange(count), np.zeros(count, dtype=np.int64), self.sizes]),
            np.arange(count + 1),
            ids=self.ids,
            y=self.labels if all(known) else None,
            bag_info={name: [one[name] for one in self.info] for name in sorted(names)},
            n_features=next(iter(self.kinds))[0],
            dtype=np.result_type(*(dtype for _, dtype in self.kinds)),
            feature_names=self.names,
        )


def _scan_one(path: Path, options: _Options) -> LazyBags:
    check_readable(path, folder=True)
    suffix = path.suffix.lower()
    if path.is_dir():
        if _is_zarr(path):
            return _scan_zarr([path], path, options)
        return _scan_folder(path, options)
    if suffix == ".h5ad":
        return _scan_anndata(path, options, "h5")
    if suffix in _H5:
        return _scan_h5([path], path, options, alone=False)
    if suffix in _TABLE:
        return _scan_tables([path], options)
    if suffix == ".npy":
        return _scan_npy([path], path, options)
    raise_format_error(
        path,
        "cannot be scanned.",
        hint="Convert it to Parquet or HDF5 first: write_bags(read_bags(...), 'bags.parquet').",
    )


def _scan_folder(path: Path, options: _Options) -> LazyBags:
    """Scan a folder by the kind of files in it."""
    inner = path / "features"
    if inner.is_dir():
        return _scan_folder(inner, options)
    entries = sorted(path.iterdir())
    of_kind: list[tuple[tuple[str, ...], Callable[[list[Path]], LazyBags]]] = [
        (_H5, lambda files: _scan_h5(files, path, options, alone=True)),
        (_TABLE, lambda files: _scan_tables(files, options)),
        ((".npy",), lambda files: _scan_npy(files, path, options)),
        ((".zarr",), lambda files: _scan_zarr(files, path, options)),
        (
            (".h5ad",),
            lambda files: concatenate_lazy([_scan_anndata(one, options, "h5") for one in files]),
        ),
    ]
    found = [
        (scan, files)
        for suffixes, scan in of_kind
        if (files := [one for one in entries if one.suffix.lower() in suffixes])
    ]
    if not found:
        nested = [one for one in sorted(path.rglob("*")) if one.suffix.lower() in _TABLE]
        found = [(lambda files: _scan_tables(files, options, top=path), nested)] if nested else []
    if len(found) != 1:
        kinds = sorted({one.suffix.lower() for _, files in found for one in files})
        raise_format_error(
            path,
            f"holds files of several kinds ({', '.join(kinds)})."
            if found
            else "is a folder without .h5, .parquet, .arrow, .zarr, .h5ad or .npy files.",
            hint="Give a list of the files to scan." if found else "",
        )
    scan, files = found[0]
    odd = [
        one
        for one in files
        if not (one.is_file() or (one.suffix.lower() == ".zarr" and one.is_dir()))
    ]
    if odd:  # opening a pipe would never end
        raise_format_error(odd[0], "is not a regular file.")
    return scan(files)


def _scan_h5(files: Iterable[Path], what: Path, options: _Options, *, alone: bool) -> LazyBags:
    h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
    found = _Found(what, options)
    for path in files:
        stamp = Stamp.of(path)
        with parsing(path, "HDF5"), h5py.File(path, "r") as opened:
            file = OneFile(h5py, path, opened, options.trusted)
            if isinstance(options.features, str):
                array = file.dataset(opened, options.features)
                found.add(
                    H5Source(stamp, key=array.name), path.stem, array.shape or (), array.dtype
                )
                continue
            found.names = found.names or file.feature_names()
            for bag in file.bags(alone=alone):
                info = {
                    INSTANCE_LABEL if name in INSTANCE_LABELS else name: array.name
                    for name, array in bag.instance_info.items()
                    if h5py.check_string_dtype(array.dtype) is None
                }
                found.add(
                    H5Source(stamp, tuple(sorted(info.items())), bag.features.name),
                    bag.id,
                    bag.features.shape or (),
                    bag.features.dtype,
                    bag.label,
                    bag.bag_info,
                )
    return found.build()


def _scan_npy(files: list[Path], what: Path, options: _Options) -> LazyBags:
    found = _Found(what, options)
    labels, marks = (
        {one.stem: one for one in (what.parent / name).glob("*.npy")}
        if what.name == "features"
        else {}
        for name in ("labels", "patch_labels")
    )
    for path in files:
        array = map_npy(path)
        label = None
        if path.stem in labels:
            stored = map_npy(labels[path.stem])
            with parsing(labels[path.stem], "npy"):
                label = stored.ravel()[0].item()
        if path.stem in marks:
            map_npy(marks[path.stem])
        info = ((INSTANCE_LABEL, str(marks[path.stem])),) if path.stem in marks else ()
        source = NpySource(Stamp.of(path), info)
        found.add(source, path.stem, array.shape, array.dtype, label)
    return found.build()


def _is_zarr(path: Path) -> bool:
    return any((path / name).exists() for name in ("zarr.json", ".zgroup"))


def _scan_zarr(stores: list[Path], what: Path, options: _Options) -> LazyBags:
    found = _Found(what, options)
    wanted = (options.features,) if isinstance(options.features, str) else FEATURES
    for path in stores:
        with parsing(path, "zarr"):
            top = open_zarr(path, whole=False)
            if top.attrs.get("encoding-type") == "anndata":
                if len(stores) == 1:
                    return _scan_anndata(path, options, "zarr")
                return concatenate_lazy([_scan_anndata(one, options, "zarr") for one in stores])
            groups = {path.stem: top}
            if not any(name in top for name in wanted):
                top = top.get("bags", top)
                groups = dict(sorted(top.groups()))
                for bag_id, array in [] if groups else sorted(top.arrays()):
                    label = next((array.attrs[one] for one in LABELS if one in array.attrs), None)
                    source = ZarrSource(Stamp.of(path, array.path), key=array.path)
                    found.add(source, bag_id, array.shape, array.dtype, label)
            for bag_id, group in groups.items():
                name = next((one for one in wanted if one in group), None)
                if name is None:
                    continue
                array = group[name]
                label = next((group.attrs[one] for one in LABELS if one in group.attrs), None)
                info = tuple(
                    (INSTANCE_LABEL if one in INSTANCE_LABELS else one, other.path)
                    for one, other in sorted(group.arrays())
                    if one != name and other.shape[:1] == array.shape[:1]
                )
                source = ZarrSource(Stamp.of(path, array.path), info, array.path)
                found.add(source, bag_id, array.shape, array.dtype, label)
    return found.build()


def _scan_anndata(path: Path, options: _Options, kind: str) -> LazyBags:
    """Scan AnnData: rows are instances, bag and label are columns of ``obs``."""
    io = import_optional("anndata.io", extra="anndata", purpose="Reading AnnData")
    key = options.features if isinstance(options.features, str) else "X"
    with parsing(path, "AnnData"):
        if kind == "h5":
            h5py = import_optional("h5py", extra="io", purpose="Reading HDF5")
            check_stored_inside(path, h5py)
            check_text(path)
            file = h5py.File(path, "r")
        else:
            file = open_zarr(path, whole=False)
        obs = io.read_elem(file["obs"])
        names = [str(one) for one in io.read_elem(file["var"]).index] if key == "X" else None
        if key not in file:
            raise_format_error(path, f"has no {key!r}; it holds {listed(file)}.")
        array = file[key]
        sparse = not hasattr(array, "shape")
        dense = io.sparse_dataset(array) if sparse else array
        width, dtype = int(dense.shape[1]), dense.dtype
        if sparse:
            _check_row_ends(path, array, int(dense.shape[0]))
        if kind == "h5":
            file.close()
    columns = [str(one) for one in obs.columns]
    at = find_column(path, columns, options.bag, "bag", ("bag", "slide_id", "sample", "batch"))
    if at is None:
        raise_format_error(
            path,
            f"no column of obs is named 'bag'; its columns are {listed(columns)}.",
            hint="Name the column that holds the bag with bag=.",
        )
    label = find_column(path, columns, options.label, "label", LABELS)
    others = {
        columns[place]: obs.iloc[:, place].to_numpy()
        for place in range(len(columns))
        if place not in (at, label)
    }
    runs = _Runs(options)
    stamp = Stamp.of(path, key if kind == "zarr" else "")
    source = (ZarrSource if kind == "zarr" else H5Source)(stamp, key=key)
    y = None if label is None else np.asarray(obs.iloc[:, label])
    constant = {name: values for name, values in others.items() if values.dtype.kind in "iufbOUS"}
    runs.add(source, np.asarray(obs.iloc[:, at]), y, constant)
    return runs.build(path, width, dtype, names, sparse=sparse)


def _check_row_ends(path: Path, group: Any, n_rows: int) -> None:
    """Check where the rows of a sparse matrix end; rows are read by these numbers alone."""
    ends = np.asarray(group["indptr"][:])
    size = group["indices"].shape[0]
    by_rows = len(ends) == n_rows + 1
    if by_rows and (ends[0] != 0 or ends[-1] != size or (np.diff(ends) < 0).any()):
        raise_format_error(path, "has a sparse matrix whose rows do not fit its values.")


def _scan_tables(files: list[Path], options: _Options, top: Path | None = None) -> LazyBags:
    """Scan Parquet or Arrow files: only the columns of bag and label are read.

    Below ``top``, folders ``name=value`` stand for columns with one value.
    """
    runs = _Runs(options)
    problems = Problems("The tables")
    first: tuple[Path, list[str], Any] | None = None
    dtypes: set[np.dtype[Any]] = set()
    for path in files:
        with parsing(path, "Parquet or Arrow"), TableFile(str(path)) as file:
            names = list(file.schema.names)
            fixed = {} if top is None else _columns_of_folders(path.relative_to(top))
            roles = _table_roles(path, names, file.schema, options, fixed)
            if first is not None and roles["features"] != first[1]:
                problems.add(
                    f"{path} has {len(roles['features'])} feature columns, {listed(names, 3)}, "
                    f"and {first[0]} has {len(first[1])}, {listed(first[1], 3)}; write all files "
                    "with the same columns."
                )
                continue
            if first is not None and roles["width"] != first[2]["width"]:
                problems.add(
                    f"{path} has {roles['width']} features per instance, and {first[0]} has "
                    f"{first[2]['width']}; scan files of different encoders apart."
                )
                continue
            first = first or (path, roles["features"], roles)
            dtypes.add(roles["dtype"])
            info = {name: name for name in roles["info"]}
            if roles["instance_label"]:
                info[INSTANCE_LABEL] = roles["instance_label"]
            lists = roles["width"] is not None
            source = TableSource(
                Stamp.of(path),
                tuple(sorted(info.items())),
                roles["features"][0] if lists else "",
                () if lists else tuple(roles["features"]),
            )
            bag = _values(file, roles["bag"], fixed)
            label = _values(file, roles["label"], fixed) if roles["label"] else None
            constant = {name: _values(file, name, fixed) for name in roles["bag_info"]}
            runs.add(source, bag, label, constant)
    problems.raise_if_any()
    assert first is not None
    path, features, roles = first
    width = roles["width"] or len(features)
    named = None if roles["width"] or roles["unnamed"] else features
    return runs.build(path.parent, width, np.result_type(*dtypes), named)


def _columns_of_folders(path: Path) -> dict[str, Any]:
    """Return the columns that the folders of a path stand for; whole numbers become int.

    Examples
    --------
    >>> _columns_of_folders(Path("site=a%20b/bag_label=1/part-0.parquet"))
    {'site': 'a b', 'bag_label': 1}
    """
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    texts = {name: unquote(value) for name, value in pairs}
    return {
        name: int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
        for name, text in texts.items()
    }


def _values(file: TableFile, name: str, fixed: dict[str, Any]) -> NDArray[Any]:
    if name in fixed:
        check_memory(Path(file.path), 9 * int(file.starts[-1]))
        return np.full(int(file.starts[-1]), fixed[name], dtype=object)
    column = file.column(name)
    if str(column.type).startswith("dictionary"):
        return np.concatenate([column_values(chunk) for chunk in column.chunks])
    return np.asarray(column.to_numpy())


def _table_roles(
    path: Path, names: list[str], schema: Any, options: _Options, fixed: dict[str, Any]
) -> dict[str, Any]:
    """Return which column is what; those of ``fixed`` are in no file."""
    from pigmil.io._parquet import notes_of

    notes = notes_of(schema)
    stored, names = names, [*names, *(name for name in fixed if name not in names)]
    at = find_column(path, names, options.bag, "bag", ("bag", "slide_id"))
    if at is None:
        raise_format_error(
            path,
            f"has no column 'bag'; its columns are {listed(names)}.",
            hint="Name the column that holds the bag with bag=.",
        )
    label = find_column(path, names, options.label, "label", LABELS[1:] + LABELS[:1])
    inner = next((name for name in INSTANCE_LABELS if name in names), None)
    info = [*options.info, *(one for one in notes.get("info", []) if one in names)]
    roles = {names[at], None if label is None else names[label], inner}
    bag_info = [one for one in [*notes.get("bag_info", []), *fixed] if one in {*names} - roles]
    taken = {*roles, *info, *bag_info}
    if options.features is None:
        features = [n for n in stored if n not in taken and not n.startswith(_PANDAS_INDEX)]
    elif isinstance(options.features, str):
        features = [options.features]
    else:
        features = list(options.features)
    absent = [name for name in [*features, *options.info] if name not in stored]
    if absent or not features:
        raise_format_error(
            path,
            f"has no columns {listed(absent)}." if absent else "has no feature columns.",
            hint=f"Its columns are {listed(names)}.",
        )
    kinds = {name: schema.field(name).type for name in features}
    width = None
    if len(features) == 1 and "list" in str(kinds[features[0]]):
        kind = kinds[features[0]]
        width = getattr(kind, "list_size", -1)
        if width <= 0:
            raise_format_error(
                path,
                f"the column {features[0]!r} holds lists of any length.",
                hint="Write it as a fixed-size list, so that the width is known.",
            )
        dtypes = {np.dtype(kind.value_type.to_pandas_dtype())}
    else:
        numeric = ("int", "uint", "float", "double", "halffloat", "bool")
        text = [name for name, kind in kinds.items() if not str(kind).startswith(numeric)]
        if text:
            raise_format_error(
                path,
                f"the columns {listed(text)} are not numeric.",
                hint="Keep them with info=[...], or choose the features with features=[...].",
            )
        dtypes = {np.dtype(kind.to_pandas_dtype()) for kind in kinds.values()}
    return {
        "bag": names[at],
        "label": None if label is None else names[label],
        "instance_label": inner,
        "info": info,
        "bag_info": bag_info,
        "features": features,
        "width": width,
        "dtype": np.result_type(*dtypes),
        "unnamed": bool(notes.get("unnamed")),
    }


class _Runs:
    """Bags as runs of rows of long tables, joined by id over runs and files."""

    def __init__(self, options: _Options) -> None:
        self.options = options
        self.sources: list[Source] = []
        self.segments: list[IntArray] = []
        self.ids: list[NDArray[Any]] = []
        self.labels: list[Any] = []
        self.info: list[dict[str, NDArray[Any]]] = []
        self.n_segments = 0

    def add(
        self,
        source: Source,
        bag: NDArray[Any],
        label: NDArray[Any] | None,
        info: dict[str, NDArray[Any]],
    ) -> None:
        """Add the rows of one table; ``label`` and ``info`` have one value per row."""
        path = Path(source.stamp.path)
        if len(bag) == 0:
            return
        starts = np.concatenate([[0], np.flatnonzero(bag[1:] != bag[:-1]) + 1])
        ends = np.append(starts[1:], len(bag))
        self.n_segments += len(starts)
        if self.n_segments > _MOST_SEGMENTS:
            raise_format_error(
                path,
                "its rows are in no order of bags: the instances of a bag are scattered over "
                f"{len(starts):,} places.",
                hint="Sort the table by bag and write it again.",
            )
        if label is not None:
            mixed = (label[1:] != label[:-1]) & (bag[1:] == bag[:-1])
            if mixed.any():
                one = bag[int(np.flatnonzero(mixed)[0])]
                raise_format_error(path, f"the bag {one!r} has several labels.")
        at = np.full(len(starts), len(self.sources))
        self.segments.append(np.column_stack([at, starts, ends]))
        self.sources.append(source)
        self.ids.append(bag[starts].astype(object))
        self.labels.append(None if label is None else label[starts])
        constant = {
            name: values[starts]
            for name, values in info.items()
            if not ((values[1:] != values[:-1]) & (bag[1:] == bag[:-1])).any()
        }
        self.info.append(constant)

    def build(
        self,
        what: Path,
        width: int,
        dtype: Any,
        names: Sequence[str] | None,
        *,
        sparse: bool = False,
    ) -> LazyBags:
        if not self.ids:
            raise_format_error(what, "holds no rows.")
        segments = np.concatenate(self.segments)
        common = set.intersection(*(set(one) for one in self.info))
        runs = LazyBags(
            self.sources,
            segments,
            offsets_of(np.ones(len(segments), dtype=np.int64)),
            ids=[one.item() if hasattr(one, "item") else one for one in np.concatenate(self.ids)],
            y=None if any(one is None for one in self.labels) else np.concatenate(self.labels),
            bag_info={
                name: np.concatenate([one[name] for one in self.info]) for name in sorted(common)
            },
            n_features=width,
            dtype=dtype,
            feature_names=names,
            is_sparse=sparse,
        )
        return _join_by_id(runs)
