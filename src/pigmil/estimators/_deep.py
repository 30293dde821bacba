"""Base of the neural methods: trained with torch, applied and saved as NumPy arrays."""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from pigmil._core._sklearn_compat import Interval
from pigmil._core.errors import import_optional
from pigmil._core.segments import segment_blocks, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import FOLD_GROUP, Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, with_parameters
from pigmil.estimators._selection import content_order, grouped_folds
from pigmil.estimators._standardise import centre_and_spread, standardised
from pigmil.estimators.base import MILClassifier

Shapes = list[tuple[int, ...]]
_BLOCK_ROWS = 1 << 13  # instances of one forward pass, or those of one bag
# A mean loss of held-out bags at which their labels are right with a confidence of 99.9 %: from
# here on they do not show whether a network gets better.
_LEARNT = 0.001
# The convolution layers of Ilse et al. 2018 for instances that are images.
_FILTERS = (20, 50)  # of the two layers
_KERNEL = 5  # rows and columns of a filter
_SMALLEST = 16  # rows or columns of an image that leave one after both layers
_BLOCK_IMAGES = 256  # of one pass in NumPy; their windows are copied
_N_ARRAYS = 2 * len(_FILTERS)  # weights and biases


@with_parameters
class DeepMIL(MILClassifier):
    """Base of the neural methods: networks that differ in seed and held-out bags are averaged.

    A network is a list of arrays. A subclass gives their shapes after the hidden layers
    (``_head_shapes``), the forward pass from hidden features in torch (``_head``), and the same in
    NumPy (``_bag_logits``, ``_network_scores``).
    """

    hidden_layer_sizes: Any = field(default=(256, 128, 64), kw_only=False)
    image_shape: Any = None
    dropout: float = 0.5
    learning_rate: float = 5e-4
    weight_decay: float = 5e-3
    batch_size: int = 4
    max_epochs: int = 200
    patience: int = 50
    validation_fraction: float = 0.2
    n_networks: int = 5
    random_state: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "hidden_layer_sizes": [tuple, list],
        "image_shape": [tuple, list, None],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "learning_rate": POSITIVE,
        "weight_decay": NOT_NEGATIVE,
        "batch_size": AT_LEAST_ONE,
        "max_epochs": AT_LEAST_ONE,
        "patience": AT_LEAST_ONE,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_networks": AT_LEAST_ONE,
    }

    @abstractmethod
    def _head_shapes(self, n_hidden: int) -> Shapes:
        """Return the shapes of the arrays after the hidden layers."""

    @abstractmethod
    def _head(self, torch: Any, hidden: Any, owners: Any, n_bags: int, head: list[Any]) -> Any:
        """Return the logits of each network, of shape (n_networks, n_bags), in torch.

        ``hidden`` has shape (n_networks, n_rows, n_hidden); ``owners`` is flat and counts the bags
        of the second network from ``n_bags`` on, and so forth.
        """

    @abstractmethod
    def _bag_logits(self, hidden: FloatArray, offsets: IntArray, head: list[Any]) -> FloatArray:
        """Return the logit of every bag by one network, in NumPy."""

    @abstractmethod
    def _network_scores(self, hidden: FloatArray, offsets: IntArray, head: list[Any]) -> FloatArray:
        """Return the score of every instance by one network, in NumPy."""

    def _shapes(self, n_features: int) -> Shapes:
        shapes: Shapes = []
        if self.image_shape is not None:
            image = channels_and_sides(self.image_shape, n_features)
            shapes, n_features = convolution_shapes(image)
        sizes = [n_features, *(int(size) for size in self.hidden_layer_sizes)]
        if min(sizes) < 1 or len(sizes) < 2:
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r} must be one or more positive "
                "integers."
            )
        for before, after in pairwise(sizes):
            shapes += [(before, after), (after,)]
        return shapes + self._head_shapes(sizes[-1])

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        torch = import_optional("torch", extra="deep", purpose=f"Training {type(self).__name__}")
        shapes = self._shapes(bags.n_features)
        if self.image_shape is None:
            self.centre_, self.spread_ = centre_and_spread(bags.instances)
        else:
            channels, _, _ = channels_and_sides(self.image_shape, bags.n_features)
            self.centre_, self.spread_ = centre_and_spread_of_pixels(bags.instances, channels)
        rng = check_random_state(self.random_state)
        # Bags in an order of their own, so that the seed decides, not the order they came in.
        order = np.asarray(content_order(bags))
        sorted_bags, targets = bags[order], positive[order]
        data = standardised(sorted_bags.instances, self.centre_, self.spread_).astype(np.float32)
        self.weights_, self.n_iter_ = self._train(torch, data, sorted_bags, targets, shapes, rng)
        if self.n_iter_ == self.max_epochs:
            warnings.warn(
                f"{type(self).__name__} was still improving on held-out bags after "
                f"max_epochs={self.max_epochs} epochs.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.threshold_ = 0.0
        scores, logits = self._mean_over_networks(bags, self._network_scores, self._bag_logits)
        self._set_threshold(bags, positive, scores, logits > 0)

    def _train(
        self,
        torch: Any,
        data: FloatArray,
        bags: Bags,
        targets: BoolArray,
        shapes: Shapes,
        rng: np.random.RandomState,
    ) -> tuple[list[FloatArray], int]:
        """Train all networks side by side; return their arrays at the epoch best on held-out bags.

        They share no weights, and the loss is the sum of theirs: each is trained as if alone.
        """
        groups = bags.bag_info.get(FOLD_GROUP)
        splits = [
            split_bags(targets, self.validation_fraction, rng, groups)
            for _ in range(self.n_networks)
        ]
        generator = torch.Generator().manual_seed(int(rng.randint(2**31 - 1)))
        network = [
            torch.tensor(
                np.stack([initial_weights(shape, rng) for _ in splits]),
                dtype=torch.float32,
                requires_grad=True,
            )
            for shape in shapes
        ]
        optimizer = torch.optim.Adam(
            network, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        parts = torch.as_tensor(data).split(bags.sizes.tolist())
        loss_of = torch.nn.functional.binary_cross_entropy_with_logits

        def losses(active: IntArray, chosen: IntArray, dropout: float) -> Any:
            """Return the mean loss of each active network over its row of chosen bags."""
            arrays = network if len(active) == len(splits) else [part[active] for part in network]
            rows, places = padded_rows(torch, parts, chosen)
            hidden, head = self._hidden_torch(torch, rows, arrays, dropout, generator)
            logits = self._head(torch, hidden, places, chosen.shape[1] + 1, head)
            goal = torch.as_tensor(targets[chosen].astype(np.float32))
            return loss_of(logits[:, :-1], goal, reduction="none").mean(dim=1)

        train, held_out = (equally_long(parts, rng) for parts in zip(*splits, strict=True))
        best_loss, best_epoch = np.full(len(splits), np.inf), np.zeros(len(splits), dtype=np.int64)
        best = [weight.detach().numpy().copy() for weight in network]
        active = np.arange(len(splits))  # networks that are still trained
        for epoch in range(1, self.max_epochs + 1):
            shuffled = np.stack([rng.permutation(row) for row in train])[active]
            for start in range(0, shuffled.shape[1], self.batch_size):
                optimizer.zero_grad()
                batch = shuffled[:, start : start + self.batch_size]
                losses(active, batch, float(self.dropout)).sum().backward()
                optimizer.step()
            with torch.no_grad():
                value = losses(active, held_out[active], 0.0).numpy()
            better = value < best_loss[active]
            improved = active[better]
            best_loss[improved], best_epoch[improved] = value[better], epoch
            for kept, weight in zip(best, network, strict=True):
                kept[improved] = weight.detach().numpy()[improved]
            waiting = epoch - best_epoch[active] < self.patience
            active = active[waiting & (best_loss[active] >= _LEARNT)]
            if len(active) == 0:
                break
        return best, epoch

    def _hidden_torch(
        self, torch: Any, rows: Any, arrays: list[Any], dropout: float, generator: Any
    ) -> tuple[Any, list[Any]]:
        """Return the hidden features of rows, one table per network, and the arrays that follow."""
        if self.image_shape is not None:
            image = channels_and_sides(self.image_shape, rows.shape[2])
            rows = convolve_torch(torch, rows, image, arrays[:_N_ARRAYS])
            arrays = arrays[_N_ARRAYS:]
        for _ in self.hidden_layer_sizes:
            weight, bias, *arrays = arrays
            rows = torch.baddbmm(bias[:, None], rows, weight)
            if dropout:
                rows = rows * dropout_factors(torch, rows.shape, dropout, generator)
            rows = torch.relu(rows)
        return rows, arrays

    def _hidden_numpy(
        self, rows: FloatArray, arrays: list[FloatArray]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return the hidden features of rows by one network, and the arrays that follow."""
        if self.image_shape is not None:
            image = channels_and_sides(self.image_shape, rows.shape[1])
            rows = convolve_numpy(rows, image, arrays[:_N_ARRAYS])
            arrays = arrays[_N_ARRAYS:]
        for _ in self.hidden_layer_sizes:
            weight, bias, *arrays = arrays
            rows = rows @ weight
            rows += bias
            np.maximum(rows, 0.0, out=rows)
        return rows, arrays

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags, self._bag_logits)[0]

    def _score_instances(self, bags: Bags) -> FloatArray:
        return self._mean_over_networks(bags, self._network_scores)[0] - self.threshold_

    def _mean_over_networks(self, bags: Bags, *heads: Any) -> list[FloatArray]:
        """Return the mean over networks of every head, computed in blocks of whole bags."""
        networks = [
            [array[number].astype(np.float64) for array in self.weights_]
            for number in range(self.n_networks)
        ]
        values: list[list[FloatArray]] = [[] for _ in heads]
        for first, last in segment_blocks(bags.offsets, _BLOCK_ROWS):
            part = bags[first:last]
            rows = standardised(part.instances, self.centre_, self.spread_)
            outputs = [self._hidden_numpy(rows, network) for network in networks]
            for parts, head_of in zip(values, heads, strict=True):
                logits = sum(head_of(hidden, part.offsets, after) for hidden, after in outputs)
                parts.append(logits / self.n_networks)
        return [np.concatenate(parts) for parts in values]


def softmax_by_bag(values: FloatArray, offsets: IntArray) -> FloatArray:
    """Return the softmax of values within each bag.

    Examples
    --------
    >>> softmax_by_bag(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    array([0.25, 0.75, 1.  ])
    """
    sizes = np.diff(offsets)
    powers = np.exp(values - np.repeat(segment_reduce(np.maximum, values, offsets), sizes))
    return powers / np.repeat(segment_reduce(np.add, powers, offsets), sizes)


def split_bags(
    targets: BoolArray, fraction: float, rng: np.random.RandomState, groups: Any = None
) -> tuple[IntArray, IntArray]:
    """Return training and held-out bags of both classes; all bags twice if a class has one.

    Bags of one group, if there are groups, are on one side.
    """
    if groups is not None:
        n_folds = max(2, round(1 / fraction))
        folds = grouped_folds(targets, groups, n_folds, order=rng.permutation(len(targets)))
        held_out = folds[rng.randint(len(folds))] if folds else np.full(len(targets), False)
        everything = np.arange(len(targets))
        return everything[~held_out], everything[held_out if folds else ~held_out]
    kept: list[IntArray] = []
    left_out: list[IntArray] = []
    for label in (False, True):
        members = rng.permutation(np.flatnonzero(targets == label))
        count = min(max(1, round(fraction * len(members))), len(members) - 1)
        left_out.append(members[:count])
        kept.append(members[count:])
    if min(map(len, left_out)) == 0:
        everything = np.arange(len(targets))
        return everything, everything
    return np.concatenate(kept), np.concatenate(left_out)


def equally_long(parts: Sequence[IntArray], rng: np.random.RandomState) -> IntArray:
    """Return one row per network; where groups differ in size, bags of longer rows are left out."""
    shortest = min(map(len, parts))
    if max(map(len, parts)) > shortest:
        parts = [rng.permutation(part)[:shortest] for part in parts]
    return np.stack(parts)


def padded_rows(torch: Any, parts: Any, chosen: IntArray) -> tuple[Any, Any]:
    """Return the instances of the bags in each row of ``chosen``, and the place of their bag.

    Rows are filled to equal length with zeros of a bag at a place of its own, the last. Places are
    flat, and those of the second row begin where those of the first end.
    """
    sizes = np.array([[len(parts[bag]) for bag in bags] for bags in chosen])
    n_bags = chosen.shape[1] + 1
    rows = torch.zeros(len(chosen), int(sizes.sum(axis=1).max()), parts[0].shape[1])
    places = np.full(rows.shape[:2], n_bags - 1)
    for number, bags in enumerate(chosen):
        filled = int(sizes[number].sum())
        torch.cat([parts[bag] for bag in bags], out=rows[number, :filled])
        places[number, :filled] = np.repeat(np.arange(n_bags - 1), sizes[number])
    places += n_bags * np.arange(len(chosen))[:, None]
    return rows, torch.as_tensor(places.ravel())


def dropout_factors(torch: Any, shape: Any, dropout: float, generator: Any) -> Any:
    """Draw 0 with the probability ``dropout``, to 16 bits, and ``1 / (1 - dropout)`` otherwise.

    Four numbers are made from each draw of 64 bits, which takes a third of the time of draws from
    the uniform distribution.
    """
    count = int(np.prod(shape))
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(
        -(2**63), None, generator=generator
    )
    values = bits.view(torch.int16)[:count].view(shape)
    return (values >= round(dropout * 2**16) - 2**15).float().mul_(1 / (1 - dropout))


def initial_weights(shape: tuple[int, ...], rng: np.random.RandomState) -> FloatArray:
    """Return weights as Glorot draws them, or zeros for a bias."""
    if len(shape) == 1:
        return np.zeros(shape)
    inputs_and_outputs = sum(shape) if len(shape) == 2 else sum(shape[:2]) * np.prod(shape[2:])
    bound = np.sqrt(6 / inputs_and_outputs)
    return rng.uniform(-bound, bound, size=shape)


def channels_and_sides(image_shape: Any, n_features: int) -> tuple[int, int, int]:
    """Return the channels, rows and columns of an image, or raise a ValueError.

    Examples
    --------
    >>> channels_and_sides((28, 28), 784)
    (1, 28, 28)
    """
    shape = tuple(image_shape)
    numbers = all(isinstance(side, int | np.integer) and side > 0 for side in shape)
    if len(shape) not in (2, 3) or not numbers:
        raise ValueError(
            f"image_shape={image_shape!r} must be two or three positive integers: (rows, columns) "
            "or (channels, rows, columns)."
        )
    channels, rows, columns = (1, *shape)[-3:]
    if channels * rows * columns != n_features:
        raise ValueError(
            f"image_shape={image_shape!r} needs {channels * rows * columns} features per "
            f"instance, one per pixel and channel; X has {n_features}."
        )
    if min(rows, columns) < _SMALLEST:
        raise ValueError(
            f"image_shape={image_shape!r} is too small: the convolution layers need at least "
            f"{_SMALLEST} rows and {_SMALLEST} columns."
        )
    return int(channels), int(rows), int(columns)


def convolution_shapes(image: tuple[int, int, int]) -> tuple[list[tuple[int, ...]], int]:
    """Return the shapes of weights and biases of both layers, and how many features come out.

    Examples
    --------
    The published network has 50 * 4 * 4 features.

    >>> convolution_shapes((1, 28, 28))
    ([(20, 1, 5, 5), (20,), (50, 20, 5, 5), (50,)], 800)
    """
    channels, *sides = image
    shapes: list[tuple[int, ...]] = []
    for filters in _FILTERS:
        shapes += [(filters, channels, _KERNEL, _KERNEL), (filters,)]
        channels = filters
        sides = [(side - _KERNEL + 1) // 2 for side in sides]
    return shapes, channels * sides[0] * sides[1]


def centre_and_spread_of_pixels(instances: FloatArray, channels: int) -> tuple[FloatArray, float]:
    """Return the mean of each channel, once per pixel, and the standard deviation about it."""
    by_channel = instances.reshape(len(instances), channels, -1)
    means = by_channel.mean(axis=(0, 2), dtype=np.float64)
    variance = by_channel.var(axis=(0, 2), dtype=np.float64).mean()
    centre = np.repeat(means, by_channel.shape[2])
    return centre, float(np.sqrt(variance)) if variance > 0 else 1.0


def convolve_torch(
    torch: Any, rows: Any, image: tuple[int, int, int], arrays: Sequence[Any]
) -> Any:
    """Return the features of images: convolution, ReLU and maximum of 2 x 2 pixels, twice.

    ``rows`` has shape (n_networks, n_images, n_pixels), and arrays one row per network.
    """
    features = []
    for network, pixels in enumerate(rows):
        maps = pixels.unflatten(1, image)
        for weight, bias in zip(arrays[::2], arrays[1::2], strict=True):
            maps = torch.nn.functional.conv2d(maps, weight[network], bias[network])
            maps = torch.nn.functional.max_pool2d(torch.relu(maps), 2)
        features.append(maps.flatten(1))
    return torch.stack(features)


def convolve_numpy(
    rows: FloatArray, image: tuple[int, int, int], arrays: Sequence[FloatArray]
) -> FloatArray:
    """Return the features of images by one network, as :func:`convolve_torch` does."""
    features = []
    for start in range(0, len(rows), _BLOCK_IMAGES):
        maps = rows[start : start + _BLOCK_IMAGES].reshape(-1, *image)
        for weight, bias in zip(arrays[::2], arrays[1::2], strict=True):
            windows = sliding_window_view(maps, weight.shape[2:], axis=(2, 3))
            sums = np.tensordot(windows, weight, axes=((1, 4, 5), (1, 2, 3))) + bias
            height, width = sums.shape[1] // 2, sums.shape[2] // 2
            pairs = sums[:, : 2 * height, : 2 * width].reshape(-1, height, 2, width, 2, len(bias))
            maps = np.maximum(pairs.max(axis=(2, 4)), 0.0).transpose(0, 3, 1, 2)
        features.append(maps.reshape(len(maps), -1))
    return np.concatenate(features)
