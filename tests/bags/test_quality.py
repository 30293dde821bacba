"""Imputing missing values, and reports of unusual data."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import BagImputer, Bags
from pigmil.bags import unusual_data

NAN = np.nan


def test_imputer_by_hand():
    bags = Bags.from_list(
        [np.array([[1.0, NAN], [NAN, NAN]]), np.array([[3.0, NAN], [8.0, NAN]])], missing="keep"
    )
    filled = BagImputer().fit_transform(bags)
    assert filled.instances.tolist() == [[1, 0], [3, 0], [3, 0], [8, 0]]
    assert BagImputer(strategy="mean").fit_transform(bags).instances[1, 0] == 4
    with pytest.raises(ValueError, match="strategy"):
        BagImputer(strategy="mode").fit(bags)
    with pytest.raises(ValueError, match="expecting 2 features"):
        BagImputer().fit(bags).transform(Bags.from_list([np.ones((1, 3))]))


def test_usual_data_is_not_reported():
    values = np.random.default_rng(0).standard_t(2, size=(300, 5))
    assert unusual_data(Bags(values, [0, 100, 300])) == []


def repeated_slowly(rows):
    seen_before = [any((row == other).all() for other in rows[:at]) for at, row in enumerate(rows)]
    return sum(seen_before)


@pytest.mark.parametrize("kind", ["dense", "sparse", "huge"])
def test_repeated_rows_are_counted_as_a_plain_loop_does(kind):
    values = np.random.default_rng(1).integers(0, 3, size=(60, 3)).astype(float)
    if kind == "huge":
        values[0] = 1e200
    count = repeated_slowly(values)
    assert count > 0
    bags = Bags(sp.csr_array(values) if kind == "sparse" else values, [0, 20, 60])
    assert unusual_data(bags)[0].startswith(f"{count} of 60 instances repeat another one")


def test_negative_zero_and_missing_values_repeat():
    bags = Bags.from_list([np.array([[0.0, NAN, 1.0], [-0.0, NAN, 1.0]])], missing="keep")
    assert unusual_data(bags)[0] == "1 of 2 instances repeats another one: bag 0, instance 1."


def test_extreme_values_by_hand():
    column = np.arange(100.0)  # the middle half spans 49.5
    column[7] = 49_000.0  # within 1,000 times that of the median
    assert unusual_data(Bags(column[:, None], [0, 50, 100])) == []
    column[7] = -60_000.0
    (sentence,) = unusual_data(Bags(column[:, None], [0, 50, 100]))
    assert sentence == (
        "1 value of 1 feature lies more than 1,000 times the usual range from the median: 'f0'; "
        "the largest is -6e+04."
    )
