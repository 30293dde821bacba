"""Tests of differences, against published worked examples and sums done by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pigmil.evaluation._statistics import (
    average_ranks,
    bootstrap_interval,
    compare_over_datasets,
    corrected_t_test,
    critical_difference,
    holm,
)

# Demsar 2006, Table 6: AUC of C4.5 with and without tuning on fourteen data sets. On "voting" two
# entries are printed alike but ranked 2 and 3: they differ behind the third digit.
DEMSAR = pd.DataFrame(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ],
    columns=["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"],
)


def test_demsars_ranks_and_friedman_statistic():
    assert average_ranks(DEMSAR).round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    # Printed: 9.28, without the correction for ties. Ties of three pairs and one four of a kind
    # make it 1 - (3 * 6 + 60) / (14 * 60).
    outcome = compare_over_datasets(DEMSAR)
    assert outcome.n_datasets == 14
    assert outcome.friedman_statistic * (1 - 78 / 840) == pytest.approx(9.28, abs=0.005)
    assert outcome.friedman_p == pytest.approx(stats.chi2.sf(outcome.friedman_statistic, 3))
    # Printed: 1.25 at 0.05, 1.12 at 0.10.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, level=0.1) == pytest.approx(1.12, abs=0.005)
    assert outcome.critical_difference == critical_difference(4, 14)


def test_demsars_wilcoxon_example():
    # Printed for C4.5 against C4.5+m: R+ 93, R- 12, the two zeros split; z from T by its formula.
    outcome = compare_over_datasets(DEMSAR[["C4.5", "C4.5+m"]])
    z = (12 - 14 * 15 / 4) / math.sqrt(14 * 15 * 29 / 24)
    assert outcome.wilcoxon.loc["C4.5", "C4.5+m"] == pytest.approx(2 * stats.norm.cdf(z), rel=0.02)
    assert math.isnan(outcome.friedman_p)  # two methods: Friedman has nothing to say


def test_holm_by_hand():
    # 0.005 * 4, 0.01 * 3, max(0.03, 0.03 * 2), max(0.06, 0.04 * 1)
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]).tolist() == [1.0, 1.0]
    assert holm([]).tolist() == []
    assert holm([0.02, np.nan, 0.5]).tolist()[::2] == [0.04, 0.5]


def test_corrected_t_by_hand():
    # Ten differences 0..9: mean 4.5, variance 82.5 / 9; ten folds, so test/train is 1/9.
    t, p = corrected_t_test(np.arange(10.0), np.zeros(10), test_share=1 / 9)
    expected = 4.5 / math.sqrt((1 / 10 + 1 / 9) * 82.5 / 9)
    assert t == pytest.approx(expected)
    assert t == pytest.approx(3.234, abs=0.001)
    assert p == pytest.approx(2 * stats.t.sf(expected, 9))
    plain = stats.ttest_rel(np.arange(10.0), np.zeros(10))
    assert p > plain.pvalue
    assert corrected_t_test(np.arange(10.0), np.zeros(10), test_share=0.0) == pytest.approx(
        (plain.statistic, plain.pvalue)
    )


def test_corrected_t_at_its_edges():
    assert corrected_t_test([1.0, 1.0], [1.0, 1.0], test_share=0.1) == (0.0, 1.0)
    assert corrected_t_test([1.0, 1.0], [0.0, 0.0], test_share=0.1) == (math.inf, 0.0)
    assert all(map(math.isnan, corrected_t_test([1.0], [0.0], test_share=0.1)))
    # A cell that one method lacks counts for neither.
    assert corrected_t_test(
        [3.0, 1.0, np.nan], [0.0, 0.0, 5.0], test_share=0.5
    ) == corrected_t_test([3.0, 1.0], [0.0, 0.0], test_share=0.5)


def test_what_cannot_be_tested_is_nan_not_an_error():
    one = compare_over_datasets(DEMSAR.head(1))
    assert math.isnan(one.friedman_p)
    assert one.nemenyi.isna().all(axis=None)
    assert "average rank over 1 data set |" in repr(one)
    assert repr(one).splitlines()[-1].startswith("No test: too few data sets")
    assert "Friedman p = " in repr(compare_over_datasets(DEMSAR))
    alike = compare_over_datasets(pd.DataFrame(np.ones((4, 3)), columns=list("abc")))
    assert math.isnan(alike.friedman_p)
    assert (alike.wilcoxon == 1.0).all(axis=None)
    holes = DEMSAR.head(6).copy()
    holes.iloc[0, 2] = np.nan
    assert compare_over_datasets(holes).n_datasets == 5


def test_bootstrap_of_one_set_is_the_binomial():
    # Four bags, three called right: the mean of a resample is binomial(4, 3/4) / 4.
    cell = {"positive": [1, 1, 0, 0], "called": [1, 1, 0, 1], "score": None, "group": [5, 6, 7, 8]}
    low, high = bootstrap_interval([cell], "accuracy", level=0.8)
    quantiles = stats.binom(4, 0.75).ppf([0.1, 0.9]) / 4
    assert (low, high) == tuple(quantiles) == (0.5, 1.0)
    assert all(map(math.isnan, bootstrap_interval([cell], "auc")))


def test_groups_are_drawn_as_a_whole():
    # Two patients, one all right and one all wrong: the mean is 0, 1/2 or 1.
    cell = {"positive": [1, 0, 1, 0], "called": [1, 0, 0, 1], "score": None, "group": [0, 0, 1, 1]}
    assert bootstrap_interval([cell], "accuracy", level=0.8) == (0.0, 1.0)
    assert bootstrap_interval([cell], "accuracy", level=0.1) == (0.5, 0.5)
