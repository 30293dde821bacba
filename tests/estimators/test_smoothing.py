"""Scores averaged over neighbouring instances of a bag."""

import itertools

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from pigmil import Bags, SoftPIGMIL, scan_bags, select_instances
from pigmil._core.errors import BagsError
from pigmil.estimators._smoothing import choose_smoothing, neighbour_means, smooth_scores


def means_slowly(scores, coords, offsets, width):
    means = np.array(scores)
    for start, stop in itertools.pairwise(offsets):
        rows = range(start, stop)
        distance = {
            (i, j): float(np.sqrt(((coords[i] - coords[j]) ** 2).sum())) for i in rows for j in rows
        }
        nearest = [min((distance[i, j] for j in rows if j != i), default=np.inf) for i in rows]
        scale = width * np.median(nearest)
        for i in rows:
            weights = {
                j: np.exp(-0.5 * (distance[i, j] / scale) ** 2)
                for j in rows
                if j != i and distance[i, j] <= 3.03 * scale
            }
            if weights:
                means[i] = sum(weights[j] * scores[j] for j in weights) / sum(weights.values())
    return means


@pytest.mark.parametrize("width", [0.5, 1.0, 1.5])
def test_means_equal_those_of_a_plain_loop(width):
    rng = np.random.default_rng(0)
    offsets = np.array([0, 1, 3, 20, 60])
    coords = rng.integers(0, 9, size=(60, 2)) * 256.0  # some tiles lie on others
    coords[1:3] = [[0, 0], [256, 0]]
    scores = rng.normal(size=60)
    means = neighbour_means(scores, coords, offsets, width)
    np.testing.assert_allclose(means, means_slowly(scores, coords, offsets, width))
    assert means[:3].tolist() == scores[[0, 2, 1]].tolist()
    order = np.concatenate([[0, 2, 1], 3 + rng.permutation(17), 20 + rng.permutation(40)])
    again = neighbour_means(scores[order], 7.0 * coords[order], offsets, width)
    np.testing.assert_allclose(again, means[order])


def test_by_hand():
    """Of four in a row the second has neighbours with the weights exp(-1/2), twice, and exp(-2)."""
    near, far = np.exp(-0.5), np.exp(-2.0)
    coords = np.array([[0.0, 5.0], [0.0, 6.0], [0.0, 7.0], [0.0, 8.0]])
    scores, offsets = np.array([6.0, 3.0, 9.0, 1.0]), np.array([0, 4])
    mean = (15.0 * near + far) / (2.0 * near + far)
    smooth = smooth_scores(scores, coords, offsets, 1.0, 0.25)
    assert smooth[1] == pytest.approx(0.75 * 3.0 + 0.25 * mean)


def test_share_of_the_neighbours_by_hand():
    """Tiles lie in pairs, far from other pairs: each is the only neighbour of the other.

    Scores have the variance 5 and the covariance 3 inside positive bags, 1 and 0 inside negative
    ones. So the signal has 4 and 3, and its best prediction solves 5 a + 3 b = 4, 3 a + 5 b = 3:
    a = 11/16 and b = 3/16.
    """
    coords = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 9.0], [0.0, 10.0]] * 8)
    offsets, positive = np.arange(0, 33, 4), np.arange(8) < 4
    noise = [1.0, 1.0, -1.0, -1.0, 1.0, -1.0, 1.0, -1.0]  # with the covariances 1 and -1
    scores = np.array([3.0, 1.0, -1.0, -3.0] * 4 + noise * 2)
    width, share = choose_smoothing(scores, coords, offsets, positive)
    assert share == pytest.approx(3 / 14)
    assert width > 0
    assert choose_smoothing(np.array(noise * 4), coords, offsets, positive) == (0, 0)


def slides(*, contiguous, seed=0, n_bags=30, side=12):
    """Every second slide has a tumour of 12 % of its tiles, two standard deviations away."""
    rng = np.random.default_rng(seed)
    grid = np.array([(x, y) for x in range(side) for y in range(side)])
    n_tiles = int(0.8 * len(grid))
    bags, coords, labels = [], [], np.zeros((n_bags, n_tiles), dtype=int)
    for at in range(n_bags):
        place = grid[np.sort(rng.choice(len(grid), n_tiles, replace=False))]
        bag = rng.normal(size=(n_tiles, 8))
        distance = ((place - rng.choice(place)) ** 2).sum(axis=1)
        order = np.argsort(distance) if contiguous else rng.permutation(n_tiles)
        if at % 2:
            labels[at, order[: int(0.12 * n_tiles)]] = 1
        bag[:, 0] += 2.0 * labels[at]
        bags.append(bag)
        coords.append(256 * place)
    return Bags.from_list(
        bags,
        ids=[f"s{at:02}" for at in range(n_bags)],
        y=np.arange(n_bags) % 2,
        instance_labels=labels.ravel(),
        instance_info={"coords": np.concatenate(coords)},
    )


def precision(scores, bags):
    inside = np.repeat(bags.y == 1, bags.sizes)
    return average_precision_score(bags.instance_labels[inside], scores[inside])


@pytest.mark.parametrize("contiguous", [True, False])
def test_contiguous_tumours_gain_and_scattered_ones_lose_nothing(contiguous):
    bags, new = slides(contiguous=contiguous), slides(contiguous=contiguous, seed=1)
    plain = SoftPIGMIL(random_state=0).fit(bags)
    model = SoftPIGMIL(random_state=0, smooth="coords").fit(bags)
    assert (model.smoothing_[1] > 0) == contiguous
    for before, after, data in (
        (plain.instance_scores_, model.instance_scores_, bags),
        (plain.held_out_.scores, model.held_out_.scores, bags),
        (plain.decision_function_instances(new), model.decision_function_instances(new), new),
    ):
        if contiguous:
            assert precision(after, data) > precision(before, data) + 0.15
        else:
            np.testing.assert_array_equal(after, before)


def test_bags_of_one_instance_and_of_equal_scores_are_not_smoothed():
    positive = np.arange(6) % 2 == 1
    for sizes in (np.ones(6, dtype=int), np.full(6, 3)):
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        coords = np.column_stack([np.arange(offsets[-1])] * 2)
        assert choose_smoothing(np.zeros(offsets[-1]), coords, offsets, positive) == (0, 0)


def test_bags_on_disk_are_read_with_their_coordinates(tmp_path):
    h5py = pytest.importorskip("h5py", reason="slides are HDF5 files")
    bags = slides(contiguous=True, n_bags=16)
    for name, bag, coords in zip(
        bags.ids, bags, np.split(bags.instance_info["coords"], bags.offsets[1:-1]), strict=True
    ):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"], file["coords"] = bag, coords
    lazy = scan_bags(tmp_path, labels=dict(zip(bags.ids, bags.y.tolist(), strict=True)))
    model = SoftPIGMIL(random_state=0, smooth="coords").fit(bags)
    streamed = SoftPIGMIL(random_state=0, smooth="coords").fit(lazy)
    assert streamed.smoothing_ == pytest.approx(model.smoothing_)
    assert model.smoothing_[1] > 0
    np.testing.assert_allclose(streamed.instance_scores_, model.instance_scores_)
    expected = model.decision_function_instances(bags)
    np.testing.assert_allclose(streamed.decision_function_instances(lazy), expected)
    np.testing.assert_array_equal(
        select_instances(streamed, lazy).called, select_instances(model, bags).called
    )


@pytest.mark.parametrize("coords", [None, np.arange(480.0), np.full((480, 2), np.nan)])
def test_bags_without_coordinates_are_refused(coords):
    bags = slides(contiguous=True, n_bags=5)
    bags = Bags(bags.instances[:480], [*bags.offsets[:5].tolist(), 480], y=[0, 1, 0, 1, 1])
    if coords is not None:
        bags = bags.with_info(instance_info={"coords": coords})
    with pytest.raises(BagsError, match=r"needs instance_info\['coords'\], two numbers"):
        SoftPIGMIL(smooth="coords").fit(bags)
    SoftPIGMIL().fit(bags)
