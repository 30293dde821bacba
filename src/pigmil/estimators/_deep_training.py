"""Draw held-out bags, batches, dropout and first weights for the training of neural methods."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.estimators._selection import grouped_folds


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
