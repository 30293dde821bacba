"""Unusual data that is often a mistake: repeated rows, constant features, extreme values."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from pigmil._core.text import count, listed
from pigmil._core.typing import IntArray
from pigmil.bags._container import Bags

_SAMPLE_ROWS = 10_000  # rows from which the usual range of a feature is taken
_BLOCK_VALUES = 1 << 22
FAR = 1000  # ranges beyond which a value is extreme


def unusual_data(bags: Bags) -> list[str]:
    """Describe repeated instances, constant features and extreme values, one sentence each.

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
    An instance repeats another one if all features are equal. A value is extreme if its distance
    from the median is more than 1,000 times the range of the middle half of its feature (the middle
    90 % if half of the values are equal), both taken from at most 10,000 instances.

    Examples
    --------
    >>> from pigmil import Bags
    >>> from pigmil.bags import unusual_data
    >>> for sentence in unusual_data(Bags.from_list([[[1.0, 2.0], [1.0, 3.0]], [[1.0, 2.0]]])):
    ...     print(sentence)
    1 of 3 instances repeats another one: bag 1, instance 0.
    1 of 2 features has the same value in all instances: 'f0'.
    """
    problems = []
    repeated = _repeated_rows(bags.instances)
    if len(repeated):
        bag = int(np.searchsorted(bags.offsets, repeated[0], side="right")) - 1
        first = f"bag {bags.ids[bag]}, instance {repeated[0] - bags.offsets[bag]}"
        example = first if len(repeated) == 1 else f"the first is {first}"
        problems.append(
            f"{len(repeated):,} of {count(bags.n_instances, 'instance')} "
            f"repeat{'s' if len(repeated) == 1 else ''} another one: {example}."
        )
    names = np.array(bags.get_feature_names(), dtype=object)
    constant, extreme = _constant_and_extreme(bags.instances)
    if len(constant):
        problems.append(
            f"{len(constant):,} of {count(bags.n_features, 'feature')} "
            f"ha{'s' if len(constant) == 1 else 've'} the same value in all instances: "
            f"{listed(names[constant].tolist(), 5)}."
        )
    if extreme:
        columns = sorted(extreme)
        number = sum(n for n, _ in extreme.values())
        largest = max((value for _, value in extreme.values()), key=abs)
        problems.append(
            f"{count(number, 'value')} of {count(len(columns), 'feature')} "
            f"lie{'s' if number == 1 else ''} more than {FAR:,} times the usual range from the "
            f"median: {listed(names[columns].tolist(), 5)}; the largest is {largest:.4g}."
        )
    return problems


def _repeated_rows(instances: Any) -> IntArray:
    """Return the rows that equal an earlier one; missing values equal each other."""
    step = max(1, _BLOCK_VALUES // max(1, instances.shape[1]))
    keys: list[int] = []
    for start in range(0, instances.shape[0], step):
        block = instances[start : start + step]
        table = block.toarray() if sp.issparse(block) else np.asarray(block)
        keys += (hash(row.tobytes()) for row in table + 0.0)  # 0.0 also for -0.0
    _, firsts = np.unique(np.array(keys, dtype=np.int64), return_index=True)
    return np.setdiff1d(np.arange(len(keys)), firsts)


def _constant_and_extreme(instances: Any) -> tuple[IntArray, dict[int, tuple[int, float]]]:
    """Return constant columns, and for columns with extreme values their number and the largest."""
    n_rows = instances.shape[0]
    if sp.issparse(instances):
        table = sp.csc_array(instances)
        low, high = table.min(axis=0).toarray().ravel(), table.max(axis=0).toarray().ravel()
        return np.flatnonzero((low == high) & (n_rows > 1)), {}
    sample = np.asarray(instances[:: -(-n_rows // _SAMPLE_ROWS)], dtype=np.float64)
    constant: list[int] = []
    extreme: dict[int, tuple[int, float]] = {}
    for column in range(instances.shape[1]):
        values, usual = np.asarray(instances[:, column]), sample[:, column]
        lowest, highest = np.fmin.reduce(values), np.fmax.reduce(values)
        if lowest == highest or lowest != lowest:
            constant += [column] if n_rows > 1 else []
            continue
        usual = usual[np.isfinite(usual)]
        quantiles = np.quantile(usual, [0.05, 0.25, 0.5, 0.75, 0.95]) if len(usual) else np.zeros(5)
        lower, low, middle, high, upper = quantiles
        limit = FAR * ((high - low) or (upper - lower))
        if 0 < limit < max(middle - lowest, highest - middle):
            far = np.abs(values - middle) > limit
            extreme[column] = (int(far.sum()), float(max(lowest, highest, key=abs)))
    return np.array(constant, dtype=np.int64), extreme
