"""Long tables with one row per instance: the roles of columns, and rows grouped into bags.

Files, data frames, AnnData and lazy bags all use :func:`find_roles` and :func:`group_rows`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pigmil._core.errors import BagsError, PigmilError, Problems
from pigmil._core.segments import offsets_of, row_numbers
from pigmil._core.text import listed, repeated
from pigmil._core.typing import IntArray
from pigmil.bags._checks import is_missing, text_array

Column = str | int | bool | None  # name or position of a column; False: there is none
# Default names of the columns of a long table, in order of preference; the first is written.
BAG_NAMES = ("bag", "slide_id")
LABEL_NAMES = ("bag_label", "label", "y")
INSTANCE_LABEL_NAMES = ("instance_label", "instance_labels", "patch_labels")
BAG, BAG_LABEL, INSTANCE_LABEL = BAG_NAMES[0], LABEL_NAMES[0], INSTANCE_LABEL_NAMES[0]
_BLOCK_ROWS = 1 << 10  # rows that are copied to a matrix at once: they fit the cache
ROW = "row"  # instance_info that holds the original row of an instance where rows were moved


@dataclass(frozen=True)
class Roles:
    """Names of the columns by what they hold."""

    bag: str
    label: str | None
    instance_label: str | None
    info: tuple[str, ...]
    bag_info: tuple[str, ...]
    features: tuple[str, ...]


def as_names(names: Any) -> tuple[Any, ...]:
    """Return one name, or a sequence of names or positions, as a tuple."""
    return (names,) if isinstance(names, str | int) else tuple(names)


def find_roles(
    columns: Sequence[str],
    *,
    bag: Column = None,
    label: Column = None,
    instance_label: Column = None,
    info: Sequence[str | int] = (),
    bag_info: Sequence[str | int] = (),
    features: str | Sequence[str] | None = None,
    text: Collection[str] = (),
    others: str = "features",
    what: str = "The table",
    hint: str = "",
    error: type[PigmilError] = BagsError,
) -> Roles:
    """Return what each column of a long table holds.

    Parameters
    ----------
    columns : sequence of str
        The names of all columns.
    bag, label, instance_label, info, bag_info, features
        As in :func:`pigmil.scan_bags`.
    text : collection of str, default=()
        Columns that do not hold numbers.
    others : {"features", "info"}, default="features"
        What columns hold that nothing is said about.
    what : str
        Name of the input, at the start of a message.
    hint : str
        End of the message if there is no column of bags.
    error : type
        The error to raise.

    Examples
    --------
    >>> find_roles(["bag", "label", "x", "name"], info=["name"]).features
    ('x',)
    """
    names = list(columns)

    def fail(problem: str, parameter: str | None = None) -> PigmilError:
        return error(f"{what}: {problem}", parameter=parameter)

    twice = sorted(repeated(names))
    if twice:
        raise fail(f"has several columns of the name {listed(twice)}; rename or drop them.")

    def name_of(asked: Any) -> str:
        at_position = isinstance(asked, int) and -len(names) <= asked < len(names)
        return names[asked] if at_position else str(asked)

    def one_of(asked: Column, defaults: Sequence[str]) -> str | None:
        if asked is None:
            return next((name for name in defaults if name in free), None)
        return None if asked is False else name_of(asked)

    on_instances, on_bags, given = (
        tuple(map(name_of, as_names(asked))) for asked in (info, bag_info, features or ())
    )
    free = set(names) - {*on_instances, *on_bags, *given}
    bag_column = one_of(bag, BAG_NAMES)
    label_column = one_of(label, LABEL_NAMES)
    instance_column = one_of(instance_label, INSTANCE_LABEL_NAMES)
    roles = {"info": on_instances, "bag_info": on_bags, "features": given, "bag": [bag_column],
             "label": [label_column], "instance_label": [instance_column]}  # fmt: skip
    named = [(role, name) for role, found in roles.items() for name in found if name is not None]
    absent = [(role, name) for role, name in named if name not in names]
    if absent:
        asked = ", ".join(f"{role}={name!r}" for role, name in absent)
        raise fail(
            f"has no column for {asked}; its columns are {listed(names)}.",
            absent[0][0] if len(absent) == 1 else None,
        )
    if bag_column is None:
        raise fail(
            f"has no column {BAG!r}; its columns are {listed(names)}. Name the columns of bag and "
            f"label with bag= and label=. {hint}".rstrip(),
            "bag",
        )
    twice = sorted(repeated(name for _, name in named))
    if twice:
        raise fail(f"the columns {listed(twice)} are given two roles; each column has one.")
    taken = {name for _, name in named}
    rest = tuple(name for name in names if name not in taken)
    if others == "info":
        on_instances += rest
    else:
        given = given or rest
    if not given and others != "info":
        raise fail(f"has no feature columns; its columns are {listed(names)}.")
    not_numbers = [name for name in given if name in text]
    if not_numbers:
        raise fail(
            f"the columns {listed(not_numbers)} are not numeric. Encode them as numbers, keep "
            "them with info=[...] or bag_info=[...], or name them as bag=, label= or "
            "instance_label=.",
            "info",
        )
    return Roles(bag_column, label_column, instance_column, on_instances, on_bags, given)


@dataclass(frozen=True)
class Groups:
    """Rows of a table by bag.

    Attributes
    ----------
    ids : array of shape (n_bags,)
        The bags in the order in which they first appear.
    runs : array of shape (n_runs, 2)
        First row and row after the last of each run of rows of one bag, sorted by bag.
    run_offsets : array of shape (n_bags + 1,)
        The runs of bag i are ``runs[run_offsets[i]:run_offsets[i + 1]]``.
    first_rows : array of shape (n_bags,)
        The first row of each bag.
    y : array of shape (n_bags,), or None
        Label of each bag.
    bag_info : dict of str to array of shape (n_bags,)
        Further columns that are constant within each bag.
    """

    ids: NDArray[Any]
    runs: IntArray
    run_offsets: IntArray
    first_rows: IntArray
    y: NDArray[Any] | None
    bag_info: dict[str, NDArray[Any]]

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each bag."""
        lengths = offsets_of(self.runs[:, 1] - self.runs[:, 0])
        return np.diff(lengths[self.run_offsets])

    @property
    def order(self) -> IntArray | None:
        """Rows sorted by bag; None if they are already."""
        if len(self.runs) == len(self.ids):
            return None
        return row_numbers(self.runs[:, 0], self.runs[:, 1])


def group_rows(
    bag: Any,
    label: Any = None,
    bag_info: Mapping[str, Any] | None = None,
    *,
    what: str = "The table",
    where: Callable[[int], str] = "Row {}".format,
    error: type[PigmilError] = BagsError,
) -> Groups:
    """Group rows by bag, in the order in which bags first appear; they may be scattered.

    Parameters
    ----------
    bag : array of shape (n_rows,)
        The bag of each row; missing ones (None, NaN, empty text) are an error.
    label : array of shape (n_rows,), optional
        Label of the bag of each row; a column of missing values counts as no labels.
    bag_info : mapping of str to array of shape (n_rows,), optional
        Further columns that must be constant within each bag.
    what : str
        Name of the input, for the first line of an error.
    where : callable
        Returns how messages refer to a row, counted from 0.
    error : type
        The error to raise; it lists all problems.

    Examples
    --------
    >>> groups = group_rows(["a", "b", "a"], [1, 0, 1])
    >>> groups.ids.tolist(), groups.y.tolist(), groups.sizes.tolist(), groups.order.tolist()
    (['a', 'b'], [1, 0], [2, 1], [0, 2, 1])
    """
    problems = Problems(what)
    values = text_array(bag)
    if not len(values):
        problems.add("It holds no instances; at least one is needed.")
        problems.raise_if_any(error)
    # Rows of a bag are usually neighbours: only the first row of each run is looked up.
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    firsts = values[starts].tolist()
    seen: dict[Any, int] = {}
    codes = np.array([seen.setdefault(value, len(seen)) for value in firsts], dtype=np.int64)
    if any(map(is_missing, seen)):
        absent = [start for start, value in zip(starts, firsts, strict=True) if is_missing(value)]
        messages = (f"{where(int(row))}: there is no bag id." for row in absent)
        problems.add_each(messages, len(absent), "rows without a bag id")
        problems.raise_if_any(error)
    stops = np.append(starts[1:], len(values))
    order = np.argsort(codes, kind="stable")
    run_offsets = offsets_of(np.bincount(codes, minlength=len(seen)))
    runs = np.column_stack([starts, stops])[order]
    first_rows = runs[run_offsets[:-1], 0]
    row_codes = np.repeat(codes, stops - starts)  # the bag of each row

    def constant(column: Any, verb: str) -> NDArray[Any]:
        """Return the value of each bag; add problems for bags with several."""
        rows = text_array(column)
        per_bag = rows[first_rows]
        expected = per_bag[row_codes]
        different = (rows != expected) & ((rows == rows) | (expected == expected))
        differs = np.flatnonzero(different.reshape(len(rows), -1).any(axis=1))
        examples = (
            (where(row), *(held[row : row + 1].tolist()[0] for held in (values, rows, expected)))
            for row in differs.tolist()
        )
        messages = (
            f"{place}: the bag {bag!r} {verb} {here!r} here and {before!r} before; it must be the "
            "same in all rows of a bag."
            for place, bag, here, before in examples
        )
        problems.add_each(messages, len(differs), "rows that contradict others")
        return per_bag

    y = None
    ids = list(seen)
    if label is not None:
        y = constant(label, "is labelled")
        unlabelled = [at for at, value in enumerate(y.tolist()) if is_missing(value)]
        if len(unlabelled) == len(y):
            y = None
        else:
            messages = (
                f"{where(int(first_rows[at]))}: the bag {ids[at]!r} has no label."
                for at in unlabelled
            )
            problems.add_each(messages, len(unlabelled), "bags without a label")
    info = {name: constant(column, f"has {name}") for name, column in (bag_info or {}).items()}
    problems.raise_if_any(error)
    return Groups(values[first_rows], runs, run_offsets, first_rows, y, info)


def is_number_type(kind: Any) -> bool:
    """Return whether an Arrow type holds numbers or booleans."""
    return str(kind).startswith(("int", "uint", "float", "double", "halffloat", "bool", "decimal"))


def is_list_type(kind: Any) -> bool:
    """Return whether an Arrow type is one of its kinds of lists."""
    return str(kind).startswith(("list", "large_list", "fixed_size_list"))


def numbers_of(column: Any) -> NDArray[Any]:
    """Return an Arrow array or column of numbers, NaN where they are missing."""
    if str(column.type) not in ("double", "float"):
        column = column.cast("double", safe=False)
    chunked = hasattr(column, "chunks")
    values: NDArray[Any] = column.to_numpy() if chunked else column.to_numpy(zero_copy_only=False)
    return values


def copy_columns(columns: Sequence[Any], out: NDArray[Any]) -> None:
    """Copy Arrow columns of numbers, NaN where they are missing, to the columns of a matrix."""
    import pyarrow

    places = list(map(str, range(len(columns))))
    start = 0
    # In blocks of rows: a whole column would touch every cache line of the matrix.
    for batch in pyarrow.table(list(columns), places).to_batches(_BLOCK_ROWS):
        block = out[start : start + len(batch)]
        arrays = [numbers_of(column) for column in batch.columns]
        np.stack(arrays, axis=1, out=block, casting="same_kind")
        start += len(batch)


def values_of(column: Any, *, keep_type: bool = False) -> NDArray[Any]:
    """Return an Arrow column that is no feature as an array, text as Python strings.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Numbers, text or, for info, lists of equal length; other types become text.
    keep_type : bool, default=False
        Whether missing values are None, as needed for ids and labels: whole numbers stay whole
        numbers. Else they are NaN or ''.
    """
    kind = str(column.type)
    if is_list_type(kind):
        if keep_type:
            raise BagsError(f"A column of {kind} cannot hold ids or labels.")
        return numbers_of_lists(column)
    if kind.startswith("dictionary"):
        column = column.cast(column.type.value_type)
        kind = str(column.type)
    if is_number_type(kind):
        if column.null_count and keep_type:
            return np.array(column.to_pylist(), dtype=object)
        values = np.asarray((column.cast("double") if "decimal" in kind else column).to_numpy())
        # Labels are computed with: -1 and 1 of eight bits would overflow.
        whole = values.dtype.kind == "i" or (values.dtype.kind == "u" and values.itemsize < 8)
        return values.astype(np.int64) if whole else values
    # Rows of a bag repeat a text: of each distinct one there is a single Python string.
    encoded = _one_chunk(column.cast("string")).dictionary_encode()
    texts = [*encoded.dictionary.to_pylist(), None if keep_type else ""]
    codes = encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return np.array(texts, dtype=object)[codes]


def numbers_of_lists(column: Any) -> NDArray[Any]:
    """Return an Arrow column of lists of equal length as a matrix."""
    import pyarrow

    array = _one_chunk(column)
    if not is_list_type(array.type):
        raise BagsError(f"It holds {array.type} where lists of numbers are expected.")
    width = array.type.list_size if hasattr(array.type, "list_size") else None
    if array.null_count or width is None:
        lengths = set(array.value_lengths().to_pylist())
        if len(lengths) != 1 or None in lengths or 0 in lengths:
            raise BagsError(f"It has vectors of {len(lengths)} different lengths; all need one.")
        width = lengths.pop()
    flat = pyarrow.chunked_array([array.flatten()])
    return numbers_of(flat).reshape(-1, width)


def columns_of_lists(table: Any, roles: Roles) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    """Return the columns and features, by instance, of an Arrow table with vectors of features.

    Parameters
    ----------
    table : pyarrow.Table
        Either one row per instance, with one column of vectors; or one row per bag, with one
        column of lists of vectors.
    roles : Roles
        In a table with one row per bag, instance label and info are lists too.

    Returns
    -------
    columns : dict of str to array of shape (n_instances, ...)
        The columns, without that of vectors.
    instances : array of shape (n_instances, n_features)
        The vectors.
    """
    if len(roles.features) > 1:
        raise BagsError(
            f"Of the features {listed(roles.features)} some are lists; expected one column of "
            "vectors, or in a table with one row per bag one column of lists of vectors."
        )
    vectors = _one_chunk(table.column(roles.features[0]))
    by_bag = is_list_type(vectors.type.value_type)
    sizes = vectors.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    columns = {}
    for name in table.column_names:
        column = _one_chunk(table.column(name))
        keep_type = name in (roles.bag, roles.label, roles.instance_label)
        if name == roles.features[0]:
            continue
        if by_bag and name in (*roles.info, roles.instance_label):
            lists = is_list_type(column.type)
            if not lists or (column.value_lengths().to_numpy(zero_copy_only=False) != sizes).any():
                raise BagsError(f"{name!r} is not a list with one entry per instance of its bag.")
            columns[name] = values_of(column.flatten(), keep_type=keep_type)
        else:
            values = values_of(column, keep_type=keep_type)
            columns[name] = np.repeat(values, sizes, axis=0) if by_bag else values
    if by_bag and len(set(columns[roles.bag].tolist())) < len(sizes):
        raise BagsError(
            "Several rows have the same bag, or no instances; where features are lists of vectors, "
            "each bag has one row."
        )
    return columns, numbers_of_lists(vectors.flatten() if by_bag else vectors)


def _one_chunk(column: Any) -> Any:
    """Return an Arrow column as one array."""
    array = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    return array.chunk(0) if hasattr(array, "chunks") else array
