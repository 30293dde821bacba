"""Retrieval of bags by their detected instances."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.neighbors import NearestNeighbors

from pigmil import Bags, retrieval
from pigmil._core.errors import BagsError
from pigmil.retrieval import InstanceIndex


class ByFirstFeature(BaseEstimator):
    """A fitted model whose score is the first feature."""

    def fit(self, bags, y=None):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def decision_function_instances(self, bags):
        return np.asarray(bags.instances)[:, 0]


def bags_of(*arrays):
    ids = [f"b{number}" for number in range(len(arrays))]
    return Bags.from_list([np.asarray(array, dtype=float) for array in arrays], ids=ids)


FOUR = bags_of([[3, 0], [0, 5]], [[3, 1], [0, 5]], [[0, 0], [0, 5]], [[2, 0], [-1, -5]])


def slow_query(bags, at, k, weight, n_detected):
    """Compare every pair by its definition."""
    rows = np.asarray(bags.instances)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scores = rows[:, 0]
    standard = (scores - scores.mean()) / scores.std()
    inside = np.arange(bags.offsets[at], bags.offsets[at + 1])
    asked = sorted(inside, key=lambda row: -scores[row])[:n_detected]
    best = {}
    for bag in range(bags.n_bags):
        for row in range(bags.offsets[bag], bags.offsets[bag + 1]):
            for query in asked:
                distance = np.sqrt(np.mean((scaled[row] - scaled[query]) ** 2))
                value = weight * standard[row] - distance
                if bag != at and value > best.get(bag, (-np.inf,))[0]:
                    best[bag] = (value, row, query - bags.offsets[at])
    ranked = sorted(best, key=lambda bag: -best[bag][0])[:k]
    return [(bags.ids[bag], *best[bag][1:], best[bag][0]) for bag in ranked]


@pytest.mark.parametrize("weight", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("n_detected", [1, 2])
def test_query_equals_all_pairs(weight, n_detected, monkeypatch):
    monkeypatch.setattr(retrieval, "_BLOCK_ROWS", 7)
    rng = np.random.default_rng(0)
    bags = bags_of(*(rng.normal(size=(size, 3)) for size in (4, 1, 6, 3, 5, 2)))
    index = InstanceIndex(ByFirstFeature(), score_weight=weight, n_detected=n_detected).fit(bags)
    for at in range(bags.n_bags):
        found = index.query(bags.ids[at], k=4)
        slow = slow_query(bags, at, 4, weight, n_detected)
        names = [(match.bag, match.instance, match.query_instance) for match in found]
        assert names == [expected[:3] for expected in slow]
        values = [match.similarity for match in found]
        np.testing.assert_allclose(values, [expected[3] for expected in slow], atol=1e-5)


def test_detected_instance_decides_not_the_background():
    # b2 shares its background (0, 5) with the query b0, b1 and b3 share what was detected.
    matches = InstanceIndex(ByFirstFeature(), score_weight=0.0).fit(FOUR).query("b0", k=3)
    assert [match.bag for match in matches] == ["b1", "b3", "b2"]
    assert [match.instance for match in matches] == [2, 6, 4]
    assert matches[0].score == 3


def test_new_bag_and_indexed_bag_give_the_same_answer_but_for_the_bag_itself():
    index = InstanceIndex(ByFirstFeature()).fit(FOUR)
    by_id, new = index.query("b0", k=3), index.query(FOUR["b0"], k=4)
    assert new[0].bag == "b0"
    assert new[0].distance == 0
    assert new[1:] == by_id
    assert index.query(FOUR[[0]], k=4) == new


@pytest.mark.parametrize(
    ("bag", "message"), [("b9", "no indexed bag with the id 'b9'"), (FOUR[:2], "one bag; got 2")]
)
def test_wrong_queries_are_refused(bag, message):
    with pytest.raises(BagsError, match=message):
        InstanceIndex(ByFirstFeature()).fit(FOUR).query(bag)


class Neighbours:
    """NNDescent as it is called here, exact: the compilation of the real one takes a minute."""

    def __init__(self, data, n_neighbors, random_state):
        self.rows = NearestNeighbors().fit(data)

    def query(self, query_data, k):
        distances, found = self.rows.kneighbors(query_data, n_neighbors=k)
        return found, distances


@pytest.mark.parametrize("n_detected", [1, 3])
def test_beyond_the_limit_the_neighbours_of_pynndescent_are_ranked(n_detected, monkeypatch):
    rng = np.random.default_rng(0)
    bags = bags_of(*(rng.normal(size=(20, 4)) for _ in range(100)))
    exact = InstanceIndex(ByFirstFeature(), n_detected=n_detected).fit(bags)
    monkeypatch.setattr(retrieval, "_MOST_EXACT", 100)
    monkeypatch.setattr(retrieval, "_MOST_NEIGHBOURS", 600)
    module = SimpleNamespace(NNDescent=Neighbours)
    monkeypatch.setattr(retrieval, "import_optional", lambda *_, **__: module)
    near = InstanceIndex(ByFirstFeature(), n_detected=n_detected).fit(bags)
    for bag in bags.ids[:5]:
        for first, second in zip(exact.query(bag, 5), near.query(bag, 5), strict=True):
            assert (first.bag, first.instance) == (second.bag, second.instance)
            assert first.query_instance == second.query_instance
            assert second.distance == pytest.approx(first.distance, rel=1e-5)


def test_without_pynndescent_the_search_stays_exact(monkeypatch):
    monkeypatch.setattr(retrieval, "_MOST_EXACT", 2)
    monkeypatch.setitem(sys.modules, "pynndescent", None)
    assert InstanceIndex(ByFirstFeature()).fit(FOUR).query("b0", k=1)[0].bag == "b1"
