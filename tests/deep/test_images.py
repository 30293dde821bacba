"""ABMIL and MI-Net on instances that are images: layer sizes, errors, learning, files."""

import numpy as np
import pytest
from sklearn.base import clone

import pigmil
from pigmil import ABMIL, Bags, MINet
from pigmil.estimators._deep import (
    centre_and_spread_of_pixels,
    convolution_shapes,
    convolve_numpy,
    convolve_torch,
    dropout_factors,
    padded_rows,
)

torch = pytest.importorskip("torch", reason="ABMIL and MI-Net are trained with torch")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

SMALL = {
    "image_shape": (16, 17),
    "hidden_layer_sizes": (8,),
    "n_networks": 2,
    "max_epochs": 12,
    "dropout": 0.0,
    "learning_rate": 5e-3,
    "random_state": 0,
}
METHODS = [ABMIL(**SMALL), MINet(level="instance", **SMALL)]


def crosses(seed, n_bags=40):
    """Noise, and in positive bags one image with a cross anywhere; others have a bar as bright."""
    rng = np.random.default_rng(seed)
    parts, truth = [], []
    for number in range(n_bags):
        images = rng.normal(0, 0.1, size=(int(rng.integers(2, 5)), 16, 17))
        labels = np.zeros(len(images), dtype=int)
        labels[0] = (number + 1) % 2
        for image, label in zip(images, labels, strict=True):
            top, left = rng.integers(0, 8, size=2)
            image[top : top + 9, left + 4] += 1
            if label:
                image[top + 4, left : left + 9] += 1
            else:
                image[top : top + 9, left + 5] += 1
        parts.append(images.reshape(len(images), -1))
        truth.append(labels)
    return Bags.from_list(parts, y=(np.arange(n_bags) + 1) % 2, instance_labels=truth)


@pytest.fixture(scope="module")
def bags():
    return crosses(0)


def test_layers_have_the_sizes_of_the_published_network():
    """28 - 4 = 24, halved 12; 12 - 4 = 8, halved 4: nn.Linear(50 * 4 * 4, 500)."""
    shapes = ABMIL(hidden_layer_sizes=(500,), attention_size=128, image_shape=(28, 28))._shapes(784)
    assert shapes == [
        (20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,), (800, 500), (500,),
        (500, 1), (1,), (500, 128), (128,), (500, 128), (128,), (128, 1),
    ]  # fmt: skip
    # 33 - 4 = 29, halved 14; 14 - 4 = 10, halved 5. 16 - 4 = 12, 6; 6 - 4 = 2, 1.
    assert convolution_shapes((3, 33, 16)) == (
        [(20, 3, 5, 5), (20,), (50, 20, 5, 5), (50,)],
        50 * 5 * 1,
    )


def slow_layer(image, weight, bias):
    """Return the maps of one image (channels, rows, columns), one pixel after the other."""
    filters, channels, size, _ = weight.shape
    rows, columns = image.shape[1] - size + 1, image.shape[2] - size + 1
    full = np.zeros((filters, rows, columns))
    for f in range(filters):
        for r in range(rows):
            for c in range(columns):
                total = bias[f]
                for channel in range(channels):
                    window = image[channel, r : r + size, c : c + size]
                    total += float((window * weight[f, channel]).sum())
                full[f, r, c] = max(total, 0.0)
    pooled = np.zeros((filters, rows // 2, columns // 2))
    for r in range(rows // 2):
        for c in range(columns // 2):
            pooled[:, r, c] = full[:, 2 * r : 2 * r + 2, 2 * c : 2 * c + 2].max(axis=(1, 2))
    return pooled


def test_convolutions_by_a_loop_and_by_torch():
    """Two networks, three channels, sides of which one is odd after the first layer."""
    rng = np.random.default_rng(1)
    image = (3, 17, 18)
    shapes, n_features = convolution_shapes(image)
    arrays = [rng.normal(size=(2, *shape)) for shape in shapes]
    rows = rng.normal(size=(2, 3, 3 * 17 * 18))
    both = convolve_torch(torch, torch.tensor(rows), image, [torch.tensor(a) for a in arrays])
    assert both.shape == (2, 3, n_features)
    for network in range(2):
        one = [array[network] for array in arrays]
        found = convolve_numpy(rows[network], image, one)
        np.testing.assert_allclose(both[network].numpy(), found, atol=1e-9)
        maps = slow_layer(rows[network, 1].reshape(image), one[0], one[1])
        expected = slow_layer(maps, one[2], one[3]).ravel()
        np.testing.assert_allclose(found[1], expected, atol=1e-9)


def test_pixels_have_one_mean_per_channel():
    """Channel one holds 1 and 3, channel two 10 in all pixels: variances 1 and 0."""
    rows = np.array([[1.0, 3.0, 10.0, 10.0], [3.0, 1.0, 10.0, 10.0]])
    centre, spread = centre_and_spread_of_pixels(rows, 2)
    np.testing.assert_array_equal(centre, [2.0, 2.0, 10.0, 10.0])
    assert spread == pytest.approx(np.sqrt(0.5))
    assert centre_and_spread_of_pixels(np.ones((2, 4)), 1)[1] == 1.0


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_crosses_are_learnt_wherever_they_are(method, bags):
    model = clone(method).set_params(max_epochs=60, patience=30).fit(bags)
    new = crosses(1)
    assert (model.predict(new) == new.y).mean() >= 0.85
    best = bags.instance_labels[model.detected_instances_]
    assert best.mean() >= 0.85
    np.testing.assert_array_equal(model.decision_function_instances(bags), model.instance_scores_)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((16, 16), r"image_shape=\(16, 16\) needs 256 features per instance.* X has 272"),
        ((2, 16, 17), "needs 544 features"),
        ((17, 16, 1), "too small: the convolution layers need at least 16 rows and 16 columns"),
        ((8, 34), "too small"),
        ((272,), "must be two or three positive integers"),
        ((-16, -17), "must be two or three positive integers"),
        ((16.0, 17), "must be two or three positive integers"),
        ((), "must be two or three positive integers"),
    ],
)
def test_other_shapes_are_refused(shape, words, bags):
    with pytest.raises(ValueError, match=words):
        ABMIL(**{**SMALL, "image_shape": shape}).fit(bags)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_saved_models_score_alike(method, bags, tmp_path):
    model = clone(method).set_params(max_epochs=2).fit(bags)
    loaded = pigmil.load_model(pigmil.save_model(model, tmp_path / "model.pigmil"))
    assert tuple(loaded.image_shape) == (16, 17)
    np.testing.assert_array_equal(loaded.decision_function(bags), model.decision_function(bags))
    np.testing.assert_array_equal(loaded.decision_function_instances(bags), model.instance_scores_)


def test_dropout_sets_the_share_to_0_and_keeps_the_mean():
    generator = torch.Generator().manual_seed(0)
    for share in (0.1, 0.5, 0.9):
        factors = dropout_factors(torch, (7, 11, 1001), share, generator)
        assert factors.shape == (7, 11, 1001)
        kept = factors != 0
        # 77,077 draws: four standard errors are below 0.0073.
        assert abs(1 - float(kept.float().mean()) - share) < 0.0075
        np.testing.assert_allclose(factors[kept].numpy(), 1 / (1 - share), rtol=1e-6)
        # Draws beside each other, which may come from one number, are not alike.
        flat = kept.flatten().float().numpy()
        for distance in (1, 2, 3, 4):
            assert abs(np.corrcoef(flat[:-distance], flat[distance:])[0, 1]) < 0.015


def test_rows_are_filled_up_with_zeros_of_a_last_bag():
    parts = torch.tensor([[1.0], [2.0], [3.0]]).split([1, 2])
    rows, places = padded_rows(torch, parts, np.array([[1], [0]]))
    assert rows[:, :, 0].tolist() == [[2.0, 3.0], [1.0, 0.0]]
    assert places.tolist() == [0, 0, 2, 3]


def test_training_ends_once_held_out_bags_are_certain():
    """Bags far apart: long before the patience is used up."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(10 * (number % 2), 0.1, size=(3, 2)) for number in range(20)]
    easy = Bags.from_list(parts, y=np.arange(20) % 2)
    model = MINet(
        (16,), dropout=0.0, learning_rate=0.05, weight_decay=0.0, patience=150, random_state=0
    ).fit(easy)
    assert model.n_iter_ < 100
    assert (model.predict(easy) == easy.y).all()
