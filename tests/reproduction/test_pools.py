"""Bag accuracy with the detected pool and with others."""

import numpy as np
import pytest

from pigmil import PIGMIL, Bags
from pigmil.bags import BagScaler
from pigmil.evaluation.splits import bag_splits
from pigmil.evaluation.store import Store
from pigmil.reproduction.pools import accuracy_by_pool, pools


def needles(seed=0, n=15):
    """Bags of eight points in a square; one point of each positive bag lies near the centre."""
    rng = np.random.default_rng(seed)
    bags = [rng.uniform(-3, 3, size=(8, 2)) for _ in range(2 * n)]
    for bag in bags[:n]:
        bag[rng.integers(8)] = rng.normal(scale=0.1, size=2)
    return Bags.from_list(bags, y=[1] * n + [0] * n)


def test_the_detected_pool_is_that_of_an_ordinary_fit():
    bags = needles()
    split = next(iter(bag_splits(bags, repeats=1, folds=2)))
    scaler = BagScaler().fit(bags[split.train])
    train, test = (scaler.transform(bags[part]) for part in (split.train, split.test))
    fixed = {"C": 10.0, "embedding_decay": 3.0, "prototypes": "pool", "random_state": 0}
    ordinary = PIGMIL(**fixed).fit(train)
    model = PIGMIL(**fixed)
    found = accuracy_by_pool(bags, split, model)
    assert not hasattr(model, "pool_")
    assert found["detected"] == pytest.approx(np.mean(ordinary.predict(test) == test.y))
    assert found["detected"] > found["worst"] + 0.1


def test_a_table_with_one_row_per_set(tmp_path):
    with Store(tmp_path / "r.sqlite") as store:
        table = pools({"a": needles(), "b": needles(1)}, folds=2, store=store)
        again = pools({"a": needles()}, folds=2, store=store, callback=pytest.fail)
    assert table["data"].tolist() == ["a", "b"]
    assert (table["folds"] == 2).all()
    np.testing.assert_allclose(table["gain"], table["detected"] - table["random"])
    assert again.iloc[0].to_dict() == table.iloc[0].to_dict()
