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


def repeated_slowly(rows):
    return [at for at, row in enumerate(rows) if any((row == other).all() for other in rows[:at])]


@pytest.mark.parametrize("kind", ["dense", "sparse", "huge"])
def test_repeated_rows_are_counted_as_a_plain_loop_does(kind):
    values = np.random.default_rng(1).integers(0, 3, size=(60, 3)).astype(float)
    if kind == "huge":
        values[0] = 1e200
    rows = repeated_slowly(values)
    bags = Bags(sp.csr_array(values) if kind == "sparse" else values, [0, 60])
    assert unusual_data(bags) == [
        f"Instances that repeat another one: {len(rows)} of 60, the first is bag 0, instance "
        f"{rows[0]}."
    ]


def test_negative_zero_missing_values_and_constant_features():
    bags = Bags.from_list([np.array([[0.0, NAN, 1.0], [-0.0, NAN, 2.0]])], missing="keep")
    constant = "Features with the same value in all instances: 2 of 3, 'f0', 'f1'."
    assert unusual_data(bags) == [constant]
    bags = bags.with_instances(bags.instances[[0, 0]], missing="keep")
    repeated = "Instances that repeat another one: 1 of 2, the first is bag 0, instance 1."
    assert unusual_data(bags)[0] == repeated
