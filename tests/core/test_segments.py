"""Segment reductions against plain loops over lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil._core.segments import (
    offsets_of,
    segment_argmax,
    segment_argmin,
    segment_gather,
    segment_ids,
    segment_mean,
    segment_reduce,
)

NAN = float("nan")
numbers = st.integers(-3, 3).map(float)
ragged = st.lists(st.lists(numbers, min_size=1, max_size=5), min_size=1, max_size=6)
ragged_with_nan = st.lists(
    st.lists(numbers | st.just(NAN), min_size=1, max_size=5), min_size=1, max_size=6
)


def flat(parts):
    return np.array([v for part in parts for v in part]), offsets_of([len(part) for part in parts])


def test_by_hand():
    values, offsets = np.array([3.0, 1.0, 2.0]), np.array([0, 2, 3])
    assert segment_reduce(np.minimum, values, offsets).tolist() == [1.0, 2.0]
    assert segment_gather(offsets, np.array([], dtype=int)).tolist() == []
    assert offsets_of([]).tolist() == [0]
    assert offsets_of([2, 1]).dtype == np.int64


def test_nan_never_wins_over_a_number():
    values = np.array([NAN, -np.inf, NAN, NAN, 5.0, NAN])
    assert segment_argmax(values, np.array([0, 2, 4, 6])).tolist() == [1, 2, 4]
    assert segment_argmin(-values, np.array([0, 2, 4, 6])).tolist() == [1, 2, 4]


@pytest.mark.parametrize("offsets", [[0, 0, 1], [0, 1, 1], [0]])
def test_empty_segments_are_refused(offsets):
    with pytest.raises(ValueError, match="Every segment needs at least one value"):
        segment_reduce(np.add, np.ones(1), np.array(offsets))


@given(ragged)
def test_reductions_against_loops(parts):
    values, offsets = flat(parts)
    assert segment_reduce(np.maximum, values, offsets).tolist() == [max(part) for part in parts]
    assert segment_reduce(np.add, values, offsets).tolist() == [sum(part) for part in parts]
    np.testing.assert_allclose(
        segment_mean(values, offsets), [sum(part) / len(part) for part in parts]
    )
    assert segment_ids(offsets).tolist() == [i for i, part in enumerate(parts) for _ in part]


@given(ragged_with_nan)
def test_best_positions_against_loops(parts):
    values, offsets = flat(parts)

    def best(part, better):
        place = 0
        for i, value in enumerate(part):
            if value == value and (part[place] != part[place] or better(value, part[place])):
                place = i
        return place

    largest = [offsets[i] + best(part, lambda a, b: a > b) for i, part in enumerate(parts)]
    smallest = [offsets[i] + best(part, lambda a, b: a < b) for i, part in enumerate(parts)]
    assert segment_argmax(values, offsets).tolist() == largest
    assert segment_argmin(values, offsets).tolist() == smallest


@given(ragged, st.data())
def test_gather_against_loops(parts, data):
    values, offsets = flat(parts)
    chosen = data.draw(st.lists(st.integers(0, len(parts) - 1), max_size=6))
    rows = segment_gather(offsets, np.array(chosen, dtype=np.int64))
    assert values[rows].tolist() == [v for i in chosen for v in parts[i]]
