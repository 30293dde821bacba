"""Convolution layers of Ilse et al. 2018 for instances that are images, in torch and in NumPy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from pigmil._core.typing import FloatArray

_FILTERS = (20, 50)  # of the two layers
_KERNEL = 5  # rows and columns of a filter
_SMALLEST = 16  # rows or columns of an image that leave one after both layers
_BLOCK_IMAGES = 256  # of one pass in NumPy; their windows are copied
N_ARRAYS = 2 * len(_FILTERS)  # weights and biases


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
