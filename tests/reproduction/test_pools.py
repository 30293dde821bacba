"""Bag accuracy with the detected pool and with others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedKFold

from pigmil import PIGMIL, Bags
from pigmil.bags import BagScaler
from reproduction.detection import Runner
from reproduction.pools import accuracy_by_pool, pools
from reproduction.sections import pools_section, pools_summary, table2_summary


def needles(seed=0, n=15):
    """Bags of eight points in a square; one point of each positive bag lies near the centre."""
    rng = np.random.default_rng(seed)
    bags = [rng.uniform(-3, 3, size=(8, 2)) for _ in range(2 * n)]
    for bag in bags[:n]:
        bag[rng.integers(8)] = rng.normal(scale=0.1, size=2)
    return Bags.from_list(bags, y=[1] * n + [0] * n)


def test_the_detected_pool_is_that_of_an_ordinary_fit():
    bags = needles()
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    split = next(folds.split(np.zeros(len(bags)), bags.y))
    scaler = BagScaler().fit(bags[split[0]])
    train, test = (scaler.transform(bags[part]) for part in split)
    fixed = {"C": 10.0, "embedding_decay": 3.0, "prototypes": "pool", "random_state": 0}
    ordinary = PIGMIL(**fixed).fit(train)
    found = accuracy_by_pool(bags, *split, 0, PIGMIL(**fixed))
    assert found["detected"] == pytest.approx(np.mean(ordinary.predict(test) == test.y))
    assert found["detected"] > found["worst"] + 0.1


def test_a_table_with_one_row_per_set(tmp_path, monkeypatch):
    table = pools({"a": needles(), "b": needles(1)}, Runner(tmp_path), folds=2)
    monkeypatch.setattr(PIGMIL, "fit", None)  # from the cache, without a fit
    again = pools({"a": needles()}, Runner(tmp_path), folds=2)
    assert table["data"].tolist() == ["a", "b"]
    assert (table["folds"] == 2).all()
    np.testing.assert_allclose(table["over_random"], table["detected"] - table["random"])
    assert again.iloc[0].to_dict() == table.iloc[0].to_dict()


def test_the_page_separates_the_sets_of_the_paper_from_labelled_ones():
    table = pd.DataFrame(
        [
            ("musk1", 80.0, 70.0, 60.0, 10.0, 20.0, 1.0, 1.0, 10),
            ("tiger", 70.0, 80.0, 60.0, -10.0, 10.0, 2.0, 1.0, 10),
            ("letter_frost_e", 90.0, 50.0, 40.0, 40.0, 50.0, 3.0, 1.0, 10),
        ],
        columns=["data", "detected", "random", "worst", "over_random", "over_worst",
                 "over_random_error", "over_worst_error", "folds"],
    )  # fmt: skip
    assert "on 2 sets of the paper 75.0 % of the bags are labelled" in pools_summary(table)
    text = pools_section(table)
    assert "| -10.0 ± 2.0 | +10.0 ± 1.0 |" in text
    # Differences 10 and -10: mean 0, error sqrt(200 / 2).
    assert "is +0.0 ± 10.0 points against the random one (± over sets); it is best of" in text
    assert text.count("paper's PIGMIL") == 1


def test_the_summary_of_table_2_lists_every_set_below_the_paper():
    rows = [("musk1", "PIGMIL", 85.0, 8.0, 83.4), ("tiger", "PIGMIL", 77.5, 9.0, 79.0),
            ("tiger", "MILES", 50.0, 9.0, 74.5)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["data", "method", "ours", "std", "paper"])
    table["difference"] = table["ours"] - table["paper"]
    text = table2_summary(table)
    assert "on 2 real sets `PIGMIL()` labels 81.2 %" in text.replace("81.3", "81.2")
    assert "above the printed mean on 1 of them. It is below on Tiger -1.5 (" in text
    assert table2_summary(table[table["method"] == "MILES"]) == ""
