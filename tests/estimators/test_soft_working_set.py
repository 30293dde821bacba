"""The working set of SoftPIGMIL: the same choice for any blocks, and that of a plain loop."""

import numpy as np

from pigmil import scan_bags
from pigmil.estimators._soft_working_set import WorkingSet, choose_instances, instances_per_bag


def make_bags(tmp_path):
    rng = np.random.default_rng(0)
    for at, size in enumerate([1, 5, 2, 9, 4]):
        np.save(tmp_path / f"b{at}.npy", rng.normal(size=(size, 2)))
    return scan_bags(tmp_path)


def first_feature(block, *factors):
    scores = block.instances[:, 0]
    return [scores * np.repeat(factors[0], block.sizes) if factors else scores]


def test_the_best_and_random_others_of_each_bag(tmp_path):
    bags = make_bags(tmp_path).load()
    seeds = np.arange(5)
    chosen, rows = choose_instances(bags, first_feature, 4, seeds)
    expected = []
    for bag, seed in enumerate(seeds):
        start, stop = bags.offsets[bag], bags.offsets[bag + 1]
        values = bags.instances[start:stop, 0]
        draws = np.random.RandomState(seed).uniform(size=stop - start)
        best = sorted(range(stop - start), key=lambda at: -values[at])[:2]
        rest = sorted(set(range(stop - start)) - set(best), key=lambda at: -draws[at])[:2]
        expected += sorted(start + at for at in (*best, *rest))
    assert chosen.tolist() == expected
    assert np.array_equal(rows, bags.instances[chosen])


def test_blocks_and_engines_do_not_change_the_choice(tmp_path, monkeypatch):
    lazy = make_bags(tmp_path)
    seeds, factors = np.arange(5), np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    for score, per_bag in ((None, ()), (first_feature, (factors,))):
        expected, rows = choose_instances(lazy.load(), score, 3, seeds, *per_bag)
        for n_bags in (1, 2, 5):

            def cut(bags, max_bytes=None, n_bags=n_bags):
                starts = range(0, len(bags), n_bags)
                return [bags._take(np.arange(at, min(at + n_bags, len(bags)))) for at in starts]

            monkeypatch.setattr("pigmil.bags._lazy.LazyBags.partitions", cut)
            chosen, found = choose_instances(lazy, score, 3, seeds, *per_bag)
            assert np.array_equal(chosen, expected)
            assert np.array_equal(found, rows)
        monkeypatch.undo()


def test_the_working_set_grows_with_the_number_of_bags():
    # 100 bags of 200: 15,000 instances are 150 each; 10,000 bags keep six each.
    assert instances_per_bag(np.full(100, 200), 15_000) == 150
    assert instances_per_bag(np.full(10_000, 200), 15_000) == 6
    assert instances_per_bag(np.array([3, 3]), 2) == 6  # small bags are taken whole


def test_some_instances_of_a_working_set_by_hand():
    """Bags of 2, 1 and 3 instances; the second of the first and two of the last stay."""
    positive, rows = np.array([True, False, True]), np.arange(6.0)[:, None]
    offsets, positions = np.array([0, 2, 3, 6]), np.array([0, 3, 4, 7, 8, 9])
    work = WorkingSet(rows, positions, offsets, positive, [], sampled=True)
    assert work.inside.tolist() == [True, True, False, True, True, True]
    assert work.best_scores(np.array([5.0, 1, 2, 0, 9, 3])).tolist() == [5, 2, 9]
    kept = work.keep(np.array([1, 2, 3, 5]))
    assert kept.rows.ravel().tolist() == [1, 2, 3, 5]
    assert kept.positions.tolist() == [3, 4, 7, 9]
    assert kept.offsets.tolist() == [0, 1, 2, 4]
