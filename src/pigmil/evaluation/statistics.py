"""Whether a difference between methods is more than chance: library tests, no typed tables."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pigmil._core.optional import import_optional


@dataclass(frozen=True)
class Comparison:
    """Outcome of a comparison of methods over data sets.

    Attributes
    ----------
    ranks : pandas.Series
        Average rank of each method, 1 is best.
    friedman_statistic, friedman_p : float
        Friedman test that all methods are alike; NaN where it cannot be made.
    nemenyi : pandas.DataFrame
        P values of the Nemenyi test for each pair.
    wilcoxon : pandas.DataFrame
        P values of Wilcoxon's signed-rank test for each pair, adjusted by Holm's method.
    n_datasets : int
        Data sets on which every method has a result.
    critical_difference : float
        Average ranks that differ by more differ by the Nemenyi test at level 0.05; NaN where it
        cannot be made.
    """

    ranks: Any
    friedman_statistic: float
    friedman_p: float
    nemenyi: Any
    wilcoxon: Any
    n_datasets: int
    critical_difference: float


def average_ranks(table: Any, *, greater_is_better: bool = True) -> Any:
    """Average rank of each column over the rows, 1 for the best; ties share their ranks.

    Parameters
    ----------
    table : pandas.DataFrame
        One row a data set, one column a method; rows with a missing value do not count.
    greater_is_better : bool, default=True
        Whether the best is the greatest.

    Examples
    --------
    >>> import pandas as pd
    >>> average_ranks(pd.DataFrame({"a": [0.9, 0.8], "b": [0.7, 0.8]})).tolist()
    [1.25, 1.75]
    """
    return table.dropna().rank(axis=1, ascending=not greater_is_better).mean()


def critical_difference(n_methods: int, n_datasets: int, *, level: float = 0.05) -> float:
    """Least difference of average ranks that the Nemenyi test calls significant.

    Parameters
    ----------
    n_methods, n_datasets : int
        Size of the comparison.
    level : float, default=0.05
        Level of the test.

    Examples
    --------
    >>> round(critical_difference(4, 14), 2)  # the example of Demsar 2006
    1.25
    """
    quantile = stats.studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets)))


def compare_over_datasets(table: Any, *, greater_is_better: bool = True) -> Comparison:
    """Friedman test with Nemenyi and Wilcoxon-Holm comparisons (Demsar 2006).

    Parameters
    ----------
    table : pandas.DataFrame
        One row a data set, one column a method; rows with a missing value do not count.
    greater_is_better : bool, default=True
        For the ranks.

    Returns
    -------
    Comparison

    Notes
    -----
    Friedman's statistic is corrected for ties. Data sets without a difference are split evenly
    between the two methods of a Wilcoxon test, as Demsar does.

    References
    ----------
    Demsar: Statistical Comparisons of Classifiers over Multiple Data Sets. Journal of Machine
    Learning Research 7, 2006.
    """
    pd = import_optional("pandas", extra="evaluation", purpose="Comparing methods")
    posthocs = import_optional("scikit_posthocs", extra="evaluation", purpose="Comparing methods")
    complete = table.dropna()
    names = list(complete.columns)
    unknown = pd.DataFrame(np.nan, index=names, columns=names)
    statistic = p = bound = float("nan")
    nemenyi = wilcoxon = unknown
    if len(complete) >= 2 and len(names) >= 3:
        values = complete.to_numpy()
        if np.ptp(values, axis=1).any():
            statistic, p = stats.friedmanchisquare(*values.T)
            nemenyi = posthocs.posthoc_nemenyi_friedman(values)
            nemenyi.index = nemenyi.columns = names
            bound = critical_difference(len(names), len(complete))
    if len(complete) >= 2 and len(names) >= 2:
        wilcoxon = _wilcoxon_holm(complete, unknown)
    return Comparison(
        average_ranks(complete, greater_is_better=greater_is_better),
        float(statistic),
        float(p),
        nemenyi,
        wilcoxon,
        len(complete),
        bound,
    )


def _wilcoxon_holm(table: Any, frame: Any) -> Any:
    pairs, p_values = [], []
    names = list(table.columns)
    for i, left in enumerate(names):
        for right in names[i + 1 :]:
            difference = (table[left] - table[right]).to_numpy()
            alike = not difference.any()
            p_values.append(1.0 if alike else _wilcoxon(difference))
            pairs.append((left, right))
    adjusted = frame.copy()
    for (left, right), p in zip(pairs, holm(p_values), strict=True):
        adjusted.loc[left, right] = adjusted.loc[right, left] = p
    for name in names:
        adjusted.loc[name, name] = 1.0
    return adjusted


def _wilcoxon(difference: Any) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that few data sets allow an approximation only
        return float(stats.wilcoxon(difference, zero_method="zsplit").pvalue)


def holm(p_values: ArrayLike) -> Any:
    """Adjust p values for how many there are, by Holm's step-down method.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def corrected_t_test(
    left: ArrayLike, right: ArrayLike, *, test_share: float
) -> tuple[float, float]:
    """Corrected resampled t-test for scores on the same folds of repeated cross-validation.

    Folds overlap in their training bags, so the plain paired t-test is far too sure. The variance
    is taken times ``1/n + n_test/n_train`` instead of ``1/n`` (Nadeau and Bengio 2003).

    Parameters
    ----------
    left, right : array of shape (n_cells,)
        Scores of two methods on the same cells.
    test_share : float
        ``n_test / n_train``, 1/9 for ten folds.

    Returns
    -------
    t, p : float
        Statistic and two-sided p value; NaN for fewer than two cells.

    References
    ----------
    Nadeau, Bengio: Inference for the Generalization Error. Machine Learning 52, 2003.

    Examples
    --------
    >>> t, p = corrected_t_test([3.0, 1.0], [0.0, 0.0], test_share=0.5)
    >>> round(t, 6)  # mean 2, variance 2, so 2 / sqrt((1/2 + 1/2) * 2)
    1.414214
    """
    difference = np.asarray(left, dtype=np.float64) - np.asarray(right, dtype=np.float64)
    difference = difference[~np.isnan(difference)]
    n = len(difference)
    if n < 2:
        return float("nan"), float("nan")
    variance = float(np.var(difference, ddof=1))
    mean = float(difference.mean())
    if variance == 0:
        return (0.0, 1.0) if mean == 0 else (float(np.copysign(np.inf, mean)), 0.0)
    t = mean / np.sqrt((1 / n + test_share) * variance)
    return float(t), float(2 * stats.t.sf(abs(t), n - 1))
