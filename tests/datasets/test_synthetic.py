"""The synthetic sets: counts, supports, moments, noise, seeds."""

import numpy as np
import pytest

from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.datasets._synthetic import linearly_separable

MAKERS = [make_basic, make_rhombus, make_ring]
makers = pytest.mark.parametrize("make", MAKERS)


def groups(bags):
    """Positives, negatives of positive bags, instances of negative bags."""
    in_positive = bags.y[bags.bag_index] == 1
    positive = bags.instance_labels == 1
    x = bags.instances
    return x[positive], x[in_positive & ~positive], x[~in_positive]


@makers
class TestEverySet:
    def test_counts(self, make):
        bags = make(random_state=0)
        assert bags.shape == (40, 2)
        assert bags.y.tolist() == [1] * 20 + [-1] * 20
        assert (bags.sizes == 8).all()
        per_bag = np.add.reduceat(bags.instance_labels == 1, bags.offsets[:-1])
        assert per_bag.tolist() == [4] * 20 + [0] * 20
        assert bags.feature_names == ("x0", "x1")
        sizes = {"positives_per_bag": 1, "negatives_per_bag": 2, "negative_bag_size": 4}
        bags = make(0, n_positive_bags=3, n_negative_bags=5, **sizes)
        assert bags.sizes.tolist() == [3] * 3 + [4] * 5
        assert (bags.instance_labels == 1).sum() == 3
        assert make(0, negatives_per_bag=0).sizes[:20].tolist() == [4] * 20

    def test_scaled_to_unit_variance(self, make):
        bags = make(random_state=1)
        np.testing.assert_allclose(bags.instances.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(bags.instances.std(axis=0), 1)
        raw = make(random_state=1, scale=False).instances
        np.testing.assert_allclose((raw - raw.mean(axis=0)) / raw.std(axis=0), bags.instances)

    @pytest.mark.parametrize("noise", [0, 3])
    def test_seed_decides_everything(self, make, noise):
        one, same, other = (make(seed, noise=noise) for seed in (7, 7, 8))
        assert one.equals(same)
        assert not np.array_equal(one.instances, other.instances)
        assert make(np.random.RandomState(7), noise=noise).equals(one)

    def test_order_inside_a_bag_carries_no_information(self, make):
        places = [
            np.flatnonzero(make(seed).instance_labels.reshape(40, 8)[:20] == 1) % 8
            for seed in range(10)
        ]
        # 800 positives on 8 places, 100 expected on each with a deviation of about 7
        counts = np.bincount(np.concatenate(places), minlength=8)
        assert counts.min() > 65
        assert counts.max() < 135

    @pytest.mark.parametrize("kind", ["swap", "labels"])
    @pytest.mark.parametrize("level", range(6))
    def test_noise(self, make, level, kind):
        clean, bags = (make(0, noise=noise, noise_kind=kind) for noise in (0, level))
        # Of 80 positives, and of 160 negatives in negative bags or 80 in positive ones.
        lost, won = max(level - 1, 0) * 8, level * (16 if kind == "swap" else 8)
        assert (bags.instance_labels == 1).sum() == 80 - lost + won
        moved = won - lost if kind == "swap" else 0
        assert [bags.sizes[:20].sum(), bags.sizes[20:].sum()] == [160 + moved, 160 - moved]
        assert bags.sizes.min() >= 1
        # a negative bag never holds a positive label, and no point is lost or invented
        assert (bags.instance_labels[bags.y[bags.bag_index] == -1] == -1).all()
        assert sorted(map(tuple, bags.instances)) == sorted(map(tuple, clean.instances))
        if make is not make_rhombus:  # whose copies share their coordinates
            truth = dict(zip(map(tuple, clean.instances), clean.instance_labels, strict=True))
            pairs = zip(map(tuple, bags.instances), bags.instance_labels, strict=True)
            flips = [(truth[point], label) for point, label in pairs]
            assert [flips.count((1, -1)), flips.count((-1, 1))] == [lost, won]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"noise": 6}, "noise must be a level from 0 to 5; got 6"),
            ({"noise": -1}, "noise must be a level from 0 to 5; got -1"),
            ({"noise": 0.5}, "noise must be a level from 0 to 5; got 0.5"),
            ({"noise_kind": "both"}, "noise_kind must be 'swap' or 'labels'; got 'both'"),
            ({"n_positive_bags": 0}, "n_positive_bags must be an integer of at least 1; got 0"),
            ({"negatives_per_bag": -1}, "negatives_per_bag must be an integer of at least 0"),
            ({"negative_bag_size": 2.5}, "negative_bag_size must be an integer of at least 1"),
        ],
    )
    def test_refused(self, make, wrong, message):
        with pytest.raises(ValueError, match=message):
            make(0, **wrong)

    def test_noise_that_would_empty_bags_is_refused(self, make):
        with pytest.raises(ValueError, match="noise=2 would empty negative bags"):
            make(0, noise=2, negative_bag_size=1, negatives_per_bag=1)
        with pytest.raises(ValueError, match="has no instances"):
            make(0, noise=5, positives_per_bag=1, negatives_per_bag=0, n_negative_bags=1)


@pytest.mark.parametrize(
    ("make", "nearest", "all_of_them", "farthest"),
    # Table I of the paper, in percent: KDE_min, KDE and KDE_max
    [(make_basic, 80, 80, 80), (make_rhombus, 85, 90, 95), (make_ring, 100, 0, 0)],
)
def test_density_baselines_do_as_the_paper_prints(make, nearest, all_of_them, farthest):
    hits = []
    for seed in range(40):
        bags = make(seed)
        gaps = np.linalg.norm(bags[:20].instances[:, None] - bags[20:].instances, axis=2)
        gaps = gaps.reshape(160, 20, 8)  # candidate, negative bag, its instance
        truth = bags.instance_labels[:160].reshape(20, 8) == 1
        densities = np.exp(-gaps.min(axis=2)), np.exp(-gaps).sum(axis=2), np.exp(-gaps.max(axis=2))
        chosen = [density.sum(axis=1).reshape(20, 8).argmin(axis=1) for density in densities]
        hits.append([truth[np.arange(20), one].mean() for one in chosen])
    # the paper's one draw has a standard deviation of up to 12 points, our mean one of 2
    expected = [nearest, all_of_them, farthest]
    assert 100 * np.mean(hits, axis=0) == pytest.approx(expected, abs=6)


class TestBasic:
    def test_supports(self):
        for seed in range(5):
            positives, impostors, negatives = groups(make_basic(seed, scale=False))
            assert (abs(negatives) <= [1.0, 1.35]).all()
            assert (abs(impostors - [0.9, 1.8]) <= [0.15, 0.3]).all()
            assert linearly_separable(positives, np.concatenate([impostors, negatives]))


class TestRhombus:
    def test_negatives_of_positive_bags_are_copies_without_replacement(self):
        _, impostors, negatives = groups(make_rhombus(0))
        rows = [tuple(row) for row in impostors]
        assert set(rows) <= {tuple(row) for row in negatives}
        assert len(set(rows)) == len(rows) == 80

    def test_fresh_impostors_are_no_copies_but_lie_in_the_same_boxes(self):
        _, impostors, negatives = groups(make_rhombus(0, scale=False, impostors="fresh"))
        assert not {tuple(row) for row in impostors} & {tuple(row) for row in negatives}
        assert (abs(impostors) <= [1.05, 0.73 + 0.78]).all()
        assert {0.0, 1.0} == set((impostors[:, 1] > 0).astype(float))
        assert make_rhombus(0, n_negative_bags=1, impostors="fresh").n_bags == 21


class TestRing:
    def test_supports(self):
        positives, impostors, negatives = groups(make_ring(0, scale=False))
        for part in (impostors, negatives):
            radius = np.linalg.norm(part, axis=1)
            assert radius.min() >= 1.2
            assert radius.max() <= 3.0
        assert np.linalg.norm(positives, axis=1).max() < 1.2


def test_separable_by_hand():
    square = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert not linearly_separable(square, np.array([[0.0, 1.0], [1.0, 0.0]]))  # exclusive or
    assert linearly_separable(square, np.array([[0.0, 1.0]]))
    assert not linearly_separable(square, np.array([[0.5, 0.5]]))  # between the two
    assert not linearly_separable(square, square[:1])  # the same point
