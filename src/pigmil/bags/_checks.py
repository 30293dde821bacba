"""Cleaning and checking of the parts of bags: problems in one error, and unusual data."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from pigmil._core.errors import BagFormatError, BagsError, Problems
from pigmil._core.files import available_memory
from pigmil._core.text import listed
from pigmil._core.typing import IntArray

_BLOCK_VALUES = 1 << 22  # values checked at a time: 32 MB of float64, for memory-mapped arrays
_MAX_LABEL = 1000  # characters; longer labels stay Python strings
_USABLE = 0.9  # of the available memory, for what is read
MAX_REPORTED = 10  # examples of non-finite values kept for the message


def text_array(values: Any) -> NDArray[Any]:
    """Return values as an array in which text is held as Python strings.

    NumPy's own text arrays give every entry the width of the longest one, so that a single long
    id would cost its length times the number of bags.

    Examples
    --------
    >>> text_array(["a", "bc"]), text_array([1, 2])
    (array(['a', 'bc'], dtype=object), array([1, 2]))
    """
    if isinstance(values, np.ndarray):
        return values.astype(object) if values.dtype.kind == "U" else values
    if isinstance(values, list | tuple) and any(isinstance(value, str) for value in values):
        array = np.empty(len(values), dtype=object)
        array[:] = [value if value is None else str(value) for value in values]
        return array
    return text_array(np.asarray(values))


def is_missing(value: Any) -> bool:
    """Return whether an id or label is missing: None, NaN, NaT, pandas.NA or empty text."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value) or (isinstance(value, str) and not value.strip())


def label_array(labels: Any) -> NDArray[Any]:
    """Return labels as NumPy holds them: text at the width of the longest, if that is short."""
    array = np.asarray(labels)
    if array.dtype == object and array.ndim == 1:
        values = array.tolist()
        texts = all(isinstance(value, str) for value in values)
        if texts and max(map(len, values), default=0) <= _MAX_LABEL:
            return array.astype(str)
    return array


def as_csr(matrix: Any) -> Any:
    """Return a sparse matrix by rows, after checking that its indices lie inside it.

    Compiled code uses indices without checking them.
    """
    if matrix.format in ("csr", "csc", "bsr"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise BagsError(f"The sparse instances are damaged: {error}.") from error
        # check_format looks no further where the last boundary is 0.
        if np.any(np.diff(np.asarray(matrix.indptr, dtype=np.int64)) < 0):
            raise BagsError("The sparse instances are damaged: their rows end before they begin.")
    return sp.csr_array(matrix)


def clean_instances(instances: Any) -> Any:
    """Return instances as a float32/float64 array or canonical CSR, without a copy if they are one.

    Integers, booleans and other floats become float64; everything else is refused.
    """
    if sp.issparse(instances):
        matrix = as_csr(instances)
        if matrix.dtype not in (np.float32, np.float64):
            matrix = _as_float64(matrix, "sparse instances")
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return matrix
    try:
        # Masked values become NaN, so that they are treated as missing.
        masked = isinstance(instances, np.ma.MaskedArray) and instances.dtype.kind in "fiub"
        array = instances.astype(np.float64).filled(np.nan) if masked else np.asarray(instances)
    except ValueError as error:
        raise BagsError(f"Instances must form a rectangular table of numbers: {error}") from error
    if array.ndim != 2:
        raise BagsError(
            f"Instances must be a 2-D table, one row per instance; got {array.ndim} dimension(s), "
            f"shape {array.shape}."
        )
    native = array.dtype in (np.float32, np.float64) and array.dtype.isnative
    return array if native else _as_float64(array, "instances")


def _as_float64(table: Any, what: str) -> Any:
    problem = "which is not numeric"
    if table.dtype.kind in "fiubO":
        try:
            return table.astype(np.float64)
        except (TypeError, ValueError) as error:
            problem = str(error)
    raise BagsError(
        f"The {what} have type {table.dtype}, {problem}; encode them as numbers, or leave them out."
    )


def stack_bags(
    bags: Sequence[Any], ids: Any, instance_labels: Any
) -> tuple[Any, IntArray, NDArray[Any] | None]:
    """Stack a list of bags; return instances, sizes and flat instance labels."""
    problems = Problems(f"The list of {len(bags)} bags")
    names = [bag_name(position, ids) for position in range(len(bags))]
    bags = [_as_table(bag, name, problems) for bag, name in zip(bags, names, strict=True)]
    problems.raise_if_any()
    if not bags:
        problems.add("It is empty; at least one bag is needed.")
    widths = [bag.shape[1] for bag in bags if bag.ndim == 2]
    width = max(set(widths), key=widths.count, default=0)
    for name, bag in zip(names, bags, strict=True):
        if bag.ndim != 2:
            problems.add(f"{name} has shape {bag.shape}; expected (n_instances, n_features).")
        elif bag.shape[0] == 0:
            problems.add(f"{name} has no instances; every bag needs at least one.")
        elif bag.shape[1] != width:
            problems.add(f"{name} has {bag.shape[1]} features where most bags have {width}.")
        elif bag.dtype.kind not in "fiubO":
            problems.add(f"{name} has type {bag.dtype}, which is not numeric.")
    labels = instance_labels
    nested = hasattr(labels, "__len__") and len(labels) == len(bags)
    if nested and all(np.ndim(bag_labels) == 1 for bag_labels in labels):
        for name, inner, bag in zip(names, labels, bags, strict=True):
            n_rows, n_labels = bag.shape[0], len(inner)
            if n_labels != n_rows:
                problems.add(f"{name} has {n_rows} instances but {n_labels} instance labels.")
        labels = np.concatenate([np.asarray(inner) for inner in labels]) if bags else None
    flat = None if labels is None else np.asarray(labels)
    problems.raise_if_any()
    sizes = np.array([bag.shape[0] for bag in bags], dtype=np.int64)
    if any(sp.issparse(bag) for bag in bags):
        matrices = [as_csr(bag) if sp.issparse(bag) else sp.csr_array(bag) for bag in bags]
        return sp.vstack(matrices, format="csr"), sizes, flat
    join = np.ma.concatenate if any(map(np.ma.isMaskedArray, bags)) else np.concatenate
    return (bags[0] if len(bags) == 1 else join(bags)), sizes, flat


def _as_table(bag: Any, name: str, problems: Problems) -> Any:
    if sp.issparse(bag) or isinstance(bag, np.ma.MaskedArray):
        return bag
    try:
        return np.asarray(bag)
    except ValueError:
        problems.add(f"{name} is not a table: its rows differ in length or nesting.")
        return bag


def is_nested(X: Any) -> bool:
    """Return whether this is what NumPy makes of Bags: an array for each bag and feature."""
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.size > 0 and np.ndim(X[0, 0]) == 1


class FeatureOfBag(np.ndarray[Any, Any]):
    """Values of one feature of a bag, as :class:`Bags` gives them to NumPy.

    They are compared as a whole, and differ from themselves if any is missing: scikit-learn looks
    for missing values by ``X != X``.
    """

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return np.array_equal(self, np.asarray(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


def from_nested(X: NDArray[Any]) -> list[NDArray[Any]]:
    """Return one table per bag.

    A feature of Bags that was exchanged with that of a bag of another size (permutation importance)
    is repeated, or cut, to the size that most features of its new bag have (of two, the first).
    """
    bags = []
    for position, row in enumerate(X):
        features = list(row)
        sizes = [len(values) for values in features]
        if min(sizes) < max(sizes):
            if not all(isinstance(values, FeatureOfBag) for values in features):
                raise BagsError(
                    f"Bag {position} has features of {min(sizes)} and of {max(sizes)} instances."
                )
            size = max(sizes, key=sizes.count)
            features = [np.resize(values, size) for values in features]
        bags.append(np.column_stack([np.asarray(values) for values in features]))
    return bags


def check_bags(
    instances: Any, offsets: Any, given: dict[str, Any], feature_names: Any, missing: str,
    check_finite: bool,
) -> dict[str, Any]:  # fmt: skip
    """Check all parts of a collection and return them as arrays.

    ``given`` has ids, y, instance_labels, instance_info and bag_info.
    """
    if missing not in ("raise", "keep"):
        raise BagsError(f"missing={missing!r} is not understood; use 'raise' or 'keep'.")
    offsets = np.asarray(offsets)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise BagsError(
            "offsets must be a 1-D array of integers, one more than there are bags; got shape "
            f"{offsets.shape}, type {offsets.dtype}."
        )
    offsets = offsets.astype(np.int64)
    n_bags, n_instances = len(offsets) - 1, instances.shape[0]
    falling = (np.diff(offsets) < 0).any()
    if offsets[0] != 0 or offsets[-1] != n_instances or falling:
        raise BagsError(
            f"offsets must increase from 0 to the number of instances, {n_instances}; got "
            f"{offsets[0]} to {offsets[-1]}{', falling in between' if falling else ''}."
        )
    names = None if feature_names is None else tuple(str(name) for name in feature_names)
    ids = given["ids"]
    problems = Problems(f"{n_bags} bags of {n_instances} instances")
    empty = np.flatnonzero(np.diff(offsets) == 0)
    no_rows = "has no instances; every bag needs at least one."
    problems.add_each(
        (f"{bag_name(bag, ids)} {no_rows}" for bag in empty), len(empty), "empty bags"
    )
    fields: dict[str, Any] = {"instances": instances, "offsets": offsets, "feature_names": names}
    for name, length, convert in (
        ("ids", n_bags, text_array),
        ("y", n_bags, label_array),
        ("instance_labels", n_instances, label_array),
    ):
        fields[name] = None if given[name] is None else convert(given[name])
        if fields[name] is not None and fields[name].shape != (length,):
            problems.add(f"{name} has shape {fields[name].shape}; expected ({length},).")
            fields[name] = None
    for name, length in (("instance_info", n_instances), ("bag_info", n_bags)):
        fields[name] = check_info(name, given[name], length, problems)
    _check_names(instances, names, problems)
    _check_ids(fields["ids"], problems)
    _check_missing_labels(fields["y"], ids, problems)
    _check_instance_labels(fields["y"], fields["instance_labels"], offsets, ids, problems)
    fields["has_missing"] = missing == "keep"
    if check_finite:
        fields["has_missing"] = _check_finite(
            instances, offsets, ids, names, problems, keep=missing == "keep"
        )
    problems.raise_if_any()
    return fields | ({"ids": np.arange(n_bags)} if ids is None else {})


def check_info(
    field: str, info: Mapping[str, Any] | None, length: int, problems: Problems
) -> dict[str, NDArray[Any]]:
    """Return info columns as arrays; note those that are not of the right length."""
    columns = {str(name): text_array(values) for name, values in (info or {}).items()}
    for name, values in columns.items():
        if values.shape[:1] != (length,):
            problems.add(f"{field}[{name!r}] has shape {values.shape}; expected ({length}, ...).")
    return columns


def check_bag_labels(y: Any, ids: NDArray[Any]) -> NDArray[Any] | None:
    """Check new labels for bags that were checked before."""
    labels = None if y is None else label_array(y)
    problems = Problems(f"The labels of {len(ids)} bags")
    if labels is not None and labels.shape != (len(ids),):
        problems.add(f"y has shape {labels.shape}; expected ({len(ids)},).")
    else:
        _check_missing_labels(labels, ids, problems)
    problems.raise_if_any()
    return labels


def check_new_instances(
    instances: Any, bags: Any, names: tuple[str, ...] | None, missing: str
) -> bool:
    """Check new features for bags that were checked before; return whether any are missing."""
    problems = Problems(f"New features for {bags.n_instances} instances")
    if instances.shape[0] != bags.n_instances:
        problems.add(f"There are {instances.shape[0]} rows; expected one per instance.")
        problems.raise_if_any()
    _check_names(instances, names, problems)
    keep = missing == "keep"
    has_missing = _check_finite(instances, bags.offsets, bags.ids, names, problems, keep=keep)
    problems.raise_if_any()
    return has_missing


def _check_names(instances: Any, names: tuple[str, ...] | None, problems: Problems) -> None:
    if instances.shape[1] == 0:
        problems.add("The instances have no features.")
    if names is not None and len(names) != instances.shape[1]:
        problems.add(f"{len(names)} feature names for {instances.shape[1]} features.")


def bag_name(position: int | np.integer[Any], ids: Any) -> str:
    """Return how messages refer to a bag: its position, and its id where it has one."""
    if ids is None or position >= len(ids):
        return f"Bag {position}"
    value = ids[position]
    return f"Bag {position} ({value.item() if isinstance(value, np.generic) else value!r:.200})"


def _check_ids(ids: NDArray[Any] | None, problems: Problems) -> None:
    counts = Counter([] if ids is None else ids.tolist())
    if any(value is None or value != value for value in counts):
        problems.add("Some bags have the id None or NaN; every bag needs one.")
    repeated = [(value, count) for value, count in counts.items() if count > 1]
    messages = (
        f"The id {value!r:.200} is given to {count} bags; ids must be unique."
        for value, count in repeated
    )
    problems.add_each(messages, len(repeated), "repeated ids")


def _check_missing_labels(y: NDArray[Any] | None, ids: Any, problems: Problems) -> None:
    if y is None or y.dtype.kind not in "fO":
        return
    missing = np.flatnonzero([value is None or value != value for value in y])
    messages = (f"{bag_name(bag, ids)} has no label (NaN)." for bag in missing)
    problems.add_each(messages, len(missing), "bags without a label")


def _check_instance_labels(
    y: Any, labels: Any, offsets: IntArray, ids: Any, problems: Problems
) -> None:
    """Add problems for negative bags with a positive instance; of two labels the greater is."""
    if y is None or labels is None or y.dtype.kind == "O" or labels.dtype.kind == "O":
        return
    classes, instance_classes = np.unique(y), np.unique(labels[labels == labels])
    if len(classes) != 2 or len(instance_classes) != 2:
        return
    positive = np.concatenate([[0], np.cumsum(labels == instance_classes[1])])
    counts = np.diff(positive[offsets])
    bad = np.flatnonzero((y == classes[0]) & (counts > 0))
    messages = (
        f"{bag_name(bag, ids)} is negative but {counts[bag]} of its instances are labelled "
        f"positive ({instance_classes[1].item()!r})."
        for bag in bad
    )
    problems.add_each(messages, len(bad), "negative bags with positive instances")


def check_no_missing(bags: Any, user: str = "This method") -> None:
    """Raise an error that names bag, instance and feature where values of bags are missing.

    Parameters
    ----------
    bags : Bags
        Bags that may have been built with ``missing="keep"``.
    user : str, default="This method"
        Name of the estimator that needs complete data.
    """
    problems = Problems(f"Bags with missing values (impute them first; {user} needs all values)")
    _check_finite(bags.instances, bags.offsets, bags.ids, bags.feature_names, problems)
    problems.raise_if_any()


def _check_finite(
    instances: Any, offsets: IntArray, ids: Any, names: Any, problems: Problems, keep: bool = False
) -> bool:
    """Add problems for values that are not finite, except missing ones (NaN) if they are kept.

    Values are looked at block by block, so that memory stays bounded. Returns whether there are
    missing values that are kept.
    """
    total, messages, has_missing = 0, list[str](), False
    sparse = sp.issparse(instances)
    values = instances.data[:, None] if sparse else instances
    step = max(1, _BLOCK_VALUES // max(1, values.shape[1]))
    for start in range(0, values.shape[0], step):
        block = np.asarray(values[start : start + step])
        refused = ~np.isfinite(block)
        if keep:
            has_missing |= bool(np.isnan(block).any())
            refused &= ~np.isnan(block)
        bad = np.flatnonzero(refused)
        total += len(bad)
        for place in bad[: MAX_REPORTED - len(messages)]:
            row, column = divmod(int(place), block.shape[1])
            value, row = block[row, column], start + row
            if sparse:
                column = int(instances.indices[row])
                row = int(np.searchsorted(instances.indptr, row, side="right") - 1)
            bag = int(np.searchsorted(offsets, row, side="right") - 1)
            name = f" ({names[column]!r})" if names and column < len(names) else ""
            messages.append(
                f"{bag_name(bag, ids)}, instance {row - offsets[bag]}: feature {column}{name} is "
                f"{value}; impute it or drop the instance."
            )
    problems.add_each(messages, total, "values that are NaN or infinite")
    return has_missing


def unusual_data(bags: Any) -> list[str]:
    """Describe repeated instances and constant features, one sentence each.

    Parameters
    ----------
    bags : Bags
        Values may be missing.

    Returns
    -------
    list of str
        Empty if there is nothing to report.

    Notes
    -----
    An instance repeats another one if all features are equal; missing values equal each other.

    Examples
    --------
    >>> from pigmil import Bags
    >>> from pigmil.bags import unusual_data
    >>> for sentence in unusual_data(Bags.from_list([[[1.0, 2.0], [1.0, 3.0]], [[1.0, 2.0]]])):
    ...     print(sentence)
    Instances that repeat another one: 1 of 3, the first is bag 1, instance 0.
    Features with the same value in all instances: 1 of 2, 'f0'.
    """
    sentences = []
    hashes = []
    for bag in bags:
        table = bag.toarray() if bags.is_sparse else bag
        hashes += [hash(row.tobytes()) for row in table + 0.0]  # 0.0 also for -0.0
    firsts = np.unique(hashes, return_index=True)[1]
    repeated = np.setdiff1d(np.arange(bags.n_instances), firsts)
    if len(repeated):
        bag = bags.bag_index[repeated[0]]
        sentences.append(
            f"Instances that repeat another one: {len(repeated):,} of {bags.n_instances:,}, the "
            f"first is bag {bags.ids[bag]}, instance {repeated[0] - bags.offsets[bag]}."
        )
    if bags.is_sparse:
        low, high = (extreme(axis=0).toarray().ravel()
                     for extreme in (bags.instances.min, bags.instances.max))  # fmt: skip
    else:
        low, high = np.fmin.reduce(bags.instances), np.fmax.reduce(bags.instances)
    constant = np.flatnonzero((low == high) | np.isnan(low))
    if len(constant) and bags.n_instances > 1:
        names = np.array(bags.get_feature_names(), dtype=object)[constant].tolist()
        sentences.append(
            f"Features with the same value in all instances: {len(names):,} of "
            f"{bags.n_features:,}, {listed(names, 5)}."
        )
    return sentences


def check_memory(path: str | Path, n_bytes: float) -> None:
    """Raise an error if what a file declares does not fit in the memory that is available."""
    available = available_memory()
    if available is not None and n_bytes > _USABLE * available:
        raise BagFormatError(
            f"{path}: needs {n_bytes / 1e9:,.1f} GB of memory to be read, and "
            f"{available / 1e9:,.1f} GB are available. If it is not damaged, load some of it, "
            "scan_bags(...)[:100].load(), or fit a method that streams; convert other formats than "
            "Parquet, HDF5 and NumPy first, on a larger machine."
        )
