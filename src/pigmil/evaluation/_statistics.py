"""Tests of differences between methods, and intervals for their scores."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from pigmil._core.errors import import_optional
from pigmil._core.text import Table, count
from pigmil.graph.scoring import weighted_auc

# With fewer, no outcome is evidence: Wilcoxon's test cannot reach p < 0.05 on five data sets, and
# a t-test on four differences has three degrees of freedom for folds that overlap.
MIN_DATASETS, MIN_FOLDS = 6, 5


@dataclass(frozen=True, repr=False)
class Comparison:
    """Differences between methods over several data sets.

    Attributes
    ----------
    ranks : pandas.Series
        Average rank of each method; 1 is the best.
    friedman_statistic, friedman_p : float
        Friedman test that all methods are equal; NaN where it does not apply.
    nemenyi : pandas.DataFrame
        P values of the Nemenyi test for each pair.
    wilcoxon : pandas.DataFrame
        P values of Wilcoxon's signed-rank test for each pair, adjusted by Holm's method.
    n_datasets : int
        Data sets on which every method has a result.
    critical_difference : float
        Difference of average ranks beyond which the Nemenyi test is significant at level 0.05;
        NaN where it does not apply.
    """

    ranks: Any
    friedman_statistic: float
    friedman_p: float
    nemenyi: Any
    wilcoxon: Any
    n_datasets: int
    critical_difference: float

    @property
    def decides(self) -> bool:
        """Whether there are enough data sets for the tests to find a difference."""
        return self.n_datasets >= MIN_DATASETS

    def _table(self) -> Table:
        ranks = self.ranks.sort_values()
        rows = [(name, f"{rank:.2f}") for name, rank in ranks.items()]
        return Table([f"average rank over {count(self.n_datasets, 'data set')}", ""], rows)

    def __repr__(self) -> str:
        tests = f"Friedman p = {self.friedman_p:.2g}, "
        tests += f"critical difference {self.critical_difference:.2f}"
        if np.isnan(self.friedman_p):
            tests = "No test: too few data sets or methods, or all are level."
        return f"{self._table().markdown()}\n{tests}"

    def _repr_html_(self) -> str:
        return f"{self._table().html()}<p>{repr(self).splitlines()[-1]}</p>"


def average_ranks(table: Any, *, greater_is_better: bool = True) -> Any:
    """Return the average rank of each column over the rows, 1 for the best; ties share ranks.

    Parameters
    ----------
    table : pandas.DataFrame
        One row per data set, one column per method; rows with a missing value do not count.
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
    """Return the least difference of average ranks that the Nemenyi test calls significant.

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
    """Test differences over data sets by Friedman, Nemenyi and Wilcoxon-Holm (Demsar 2006).

    Parameters
    ----------
    table : pandas.DataFrame
        One row per data set, one column per method; rows with a missing value do not count.
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
    values = complete.to_numpy()
    if len(complete) >= 2 and len(names) >= 3 and np.ptp(values, axis=1).any():
        statistic, p = stats.friedmanchisquare(*values.T)
        nemenyi = posthocs.posthoc_nemenyi_friedman(values).set_axis(names).set_axis(names, axis=1)
        bound = critical_difference(len(names), len(complete))
    if len(complete) >= 2 and len(names) >= 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few data sets allow an approximation only
            wilcoxon = posthocs.posthoc_wilcoxon(
                list(values.T), zero_method="zsplit", p_adjust="holm"
            )
        wilcoxon = wilcoxon.set_axis(names).set_axis(names, axis=1)
    ranks = average_ranks(complete, greater_is_better=greater_is_better)
    return Comparison(ranks, float(statistic), float(p), nemenyi, wilcoxon, len(complete), bound)


def holm(p_values: ArrayLike) -> Any:
    """Return p values adjusted for their number by Holm's step-down method; NaN stays NaN.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.array(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(adjusted))
    order = known[np.argsort(adjusted[known])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(adjusted[order] * factors), 1.0)
    return adjusted


def corrected_t_test(
    left: ArrayLike, right: ArrayLike, *, test_share: float
) -> tuple[float, float]:
    """Compare scores on the same folds of repeated cross-validation by the corrected t-test.

    Folds overlap in their training bags, so the paired t-test is far too confident. The variance
    is multiplied by ``1/n + n_test/n_train`` instead of ``1/n`` (Nadeau and Bengio 2003).

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


def bootstrap_interval(
    cells: Sequence[Mapping[str, Any]],
    metric: str,
    *,
    level: float = 0.95,
    n_resamples: int = 2000,
    random_state: int = 0,
) -> tuple[float, float]:
    """Return a bootstrap confidence interval for a mean over the test sets of cross-validation.

    Groups of bags (patients, say; single bags if there are no groups) are drawn with replacement,
    and the metric of every test set is computed anew with the bags of a group counted as often as
    it was drawn.

    Parameters
    ----------
    cells : sequence of mapping
        Per test set: ``positive`` and ``called`` (0 or 1), ``score`` and ``group`` of each bag. If
        there are more classes, the first two are positions of classes, and ``score`` has a number
        per class; the area under the curve is then the mean over classes, each against the rest.
    metric : {"accuracy", "auc"}
        The metric.
    level : float, default=0.95
        Level of the interval.
    n_resamples : int, default=2000
        Number of draws.
    random_state : int, default=0
        Seed.

    Returns
    -------
    low, high : float
        Percentiles of the means; NaN if no test set has the metric.

    Notes
    -----
    The interval reflects which bags were tested, not how the models vary with their training bags.

    Examples
    --------
    >>> cell = {"positive": [0, 1], "called": [0, 1], "score": [0.1, 0.9], "group": [0, 1]}
    >>> bootstrap_interval([cell], "accuracy")
    (1.0, 1.0)
    """
    groups = np.unique(np.concatenate([cell["group"] for cell in cells]))
    rng = np.random.RandomState(random_state)
    counts = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=n_resamples)
    values = []
    for cell in cells:
        weights = counts[:, np.searchsorted(groups, cell["group"])].astype(np.float64)
        truth, scores = np.asarray(cell["positive"]), cell["score"]
        with np.errstate(invalid="ignore"):  # 0 / 0 where no bag of the set was drawn
            if metric == "accuracy":
                correct = truth == np.asarray(cell["called"])
                values.append(weights @ correct / weights.sum(axis=1))
            elif scores is not None:
                columns = np.atleast_2d(np.asarray(scores).T)
                labels = range(len(columns)) if np.ndim(scores) > 1 else [1]
                areas = [
                    weighted_auc(column, truth == label, weights)
                    for label, column in zip(labels, columns, strict=True)
                ]
                values.append(np.mean(areas, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing is NaN
        means = np.nanmean(np.reshape(values, (-1, n_resamples)), axis=0)
        low, high = np.nanquantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
