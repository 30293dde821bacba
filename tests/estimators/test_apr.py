"""APR: growing, discriminating, expanding, and the whole."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from pigmil import APR, Bags
from pigmil.datasets import make_ring
from pigmil.estimators.apr import discriminating_features, expand_bounds, grow_box


def slow_size(rows):
    return sum(max(column) - min(column) for column in zip(*rows, strict=True))


def slow_grow(parts):
    """Grow and back-fit with lists and loops: (bag, position) of the chosen instances."""
    middle = [
        (min(max(x[k] for x in part) for part in parts)
         + max(min(x[k] for x in part) for part in parts)) / 2
        for k in range(len(parts[0][0]))
    ]  # fmt: skip
    every = [(b, i) for b, part in enumerate(parts) for i in range(len(part))]
    seed = min(
        every, key=lambda at: sum((parts[at[0]][at[1]][k] - m) ** 2 for k, m in enumerate(middle))
    )
    chosen = {seed[0]: seed[1]}

    def size_with(extra, without=None):
        rows = [parts[b][i] for b, i in chosen.items() if b != without]
        return slow_size([*rows, parts[extra[0]][extra[1]]])

    while len(chosen) < len(parts):
        best = min((at for at in every if at[0] not in chosen), key=size_with)
        chosen[best[0]] = best[1]
        changed = len(chosen) > 2
        while changed:
            changed = False
            for bag in sorted(chosen):
                now = size_with((bag, chosen[bag]), bag)
                sizes = [size_with((bag, i), bag) for i in range(len(parts[bag]))]
                if min(sizes) < now - 1e-12:
                    chosen[bag] = int(np.argmin(sizes))
                    changed = True
    return chosen


def slow_features(negatives, lower, upper, margin):
    """Greedy cover, one negative and one feature at a time."""
    out = [[max(lower[k] - x[k], x[k] - upper[k]) for k in range(len(lower))] for x in negatives]
    left = {i for i, row in enumerate(out) if max(row) > 0}
    taken = set()
    while left:
        counts = [
            sum(out[i][k] > margin or out[i][k] == max(out[i]) for i in left)
            for k in range(len(lower))
        ]
        best = counts.index(max(counts))
        taken.add(best)
        left = {i for i in left if not (out[i][best] > margin or out[i][best] == max(out[i]))}
    return sorted(taken)


@given(st.integers(0, 10**6))
def test_growing_is_that_of_the_slow_twin(seed):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(int(rng.integers(1, 5)), 2)) for _ in range(int(rng.integers(1, 6)))]
    bags = Bags.from_list(parts)
    expected = slow_grow([part.tolist() for part in parts])
    found = grow_box(bags.instances, bags.offsets, bags.instances)
    np.testing.assert_array_equal(found, [bags.offsets[b] + expected[b] for b in range(len(parts))])


def test_back_fitting_takes_back_an_early_choice():
    # Middle 2.5: seed 2 of the first bag. The second bag joins with 3; the third has only 10, and
    # with it inside the box 9 and 9.5 are better than 2 and 3.
    bags = Bags.from_list([np.array([[2.0], [9.0]]), np.array([[3.0], [9.5]]), np.array([[10.0]])])
    assert grow_box(bags.instances, bags.offsets, bags.instances).tolist() == [1, 3, 4]


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 2.0]))
def test_features_are_those_of_the_slow_twin(seed, margin):
    rng = np.random.default_rng(seed)
    negatives = rng.integers(-4, 5, size=(int(rng.integers(1, 12)), 4)).astype(float)
    lower, upper = np.full(4, -1.0), np.full(4, 1.0)
    found = discriminating_features(negatives, lower, upper, margin)
    assert found.tolist() == slow_features(negatives.tolist(), lower, upper, margin)


def test_negatives_inside_the_box_are_given_up():
    assert discriminating_features(np.zeros((3, 2)), -np.ones(2), np.ones(2), 1.0).size == 0


@given(st.integers(0, 10**6))
def test_expansion_leaves_epsilon_outside(seed):
    rng = np.random.default_rng(seed)
    covered = rng.normal(size=(7, 3))
    tight = covered.min(axis=0), covered.max(axis=0)
    lower, upper = expand_bounds(covered, *tight, tau=0.999, epsilon=0.01)
    width = (tight[1] - tight[0]) / (2 * norm.ppf(0.9995))
    above = norm.sf(upper, loc=covered, scale=width).mean(axis=0)
    below = norm.cdf(lower, loc=covered, scale=width).mean(axis=0)
    np.testing.assert_allclose(above, 0.005, rtol=1e-6)
    np.testing.assert_allclose(below, 0.005, rtol=1e-6)


def test_expansion_never_narrows_and_leaves_a_single_value():
    covered = np.array([[0.0, 3.0], [1.0, 3.0]])
    lower, upper = expand_bounds(covered, covered[0], np.array([1.0, 3.0]), tau=0.9, epsilon=0.9)
    assert lower[0] <= 0.0
    assert upper[0] >= 1.0
    assert lower[1] == upper[1] == 3.0


def test_decision_value_is_the_depth_in_the_box():
    bags = make_ring(0)
    model = APR().fit(bags)
    middle = np.zeros(2)
    middle[model.features_] = (model.lower_ + model.upper_) / 2
    face = middle.copy()
    face[model.features_[0]] = model.upper_[0]
    twice = middle.copy()
    twice[model.features_[0]] += model.upper_[0] - model.lower_[0]
    values = model.decision_function([middle[None], face[None], twice[None]])
    np.testing.assert_allclose(values, [1.0, 0.0, -1.0], atol=1e-6)
    # One instance inside is enough.
    assert model.predict([np.stack([twice, middle])]).tolist() == [1]


def test_every_positive_training_bag_is_inside():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(3, 5)) for _ in range(20)]
    y = np.arange(20) % 2
    model = APR().fit(Bags.from_list(parts, y=y))
    assert (model.predict(parts)[y == 1] == 1).all()


def test_several_seeds_find_the_box_without_negatives():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(4, 2)) for _ in range(30)]
    for part in parts[:15]:
        part[0] = rng.normal(6.0, 0.5, size=2)
    bags = Bags.from_list(parts, y=[1] * 15 + [0] * 15)
    model = APR(n_seeds=8).fit(bags)
    assert model.score(bags, bags.y) == 1.0
    np.testing.assert_array_equal(model.detected_instances_, bags.offsets[:15])
