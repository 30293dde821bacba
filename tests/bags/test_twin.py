"""The container against its obvious twin: a plain list of arrays."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pigmil import Bags

values = st.floats(-1e6, 1e6, width=32)


@st.composite
def bag_lists(draw, dtype=np.float64):
    width = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    return [draw(arrays(dtype, (size, width), elements=values)) for size in sizes]


def assert_same(bags, twin):
    assert len(bags) == len(twin)
    for position, expected in enumerate(twin):
        got = bags[position]
        np.testing.assert_array_equal(got.toarray() if sp.issparse(got) else got, expected)
    for got, expected in zip(bags, twin, strict=True):
        np.testing.assert_array_equal(got.toarray() if sp.issparse(got) else got, expected)


@given(bag_lists(), st.booleans(), st.data())
def test_any_index_chooses_what_a_list_would(twin, sparse, data):
    bags = Bags.from_list([sp.csr_array(bag) for bag in twin] if sparse else twin)
    assert bags.is_sparse == sparse
    assert bags.sizes.tolist() == [len(bag) for bag in twin]
    assert_same(bags, twin)
    n = len(twin)
    chosen = data.draw(st.lists(st.integers(-n, n - 1), max_size=8))
    assert_same(bags[chosen], [twin[i] for i in chosen])
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    assert_same(bags[np.array(mask)], [bag for bag, keep in zip(twin, mask, strict=True) if keep])
    cut = data.draw(st.slices(n))
    assert_same(bags[cut], twin[cut])
    assert bags[cut].ids.tolist() == list(range(n))[cut]


@given(bag_lists(), st.randoms(use_true_random=False))
def test_long_table_in_any_order_of_rows(twin, random):
    rows = [(bag, row) for bag, part in enumerate(twin) for row in range(len(part))]
    random.shuffle(rows)
    flat = np.array([twin[bag][row] for bag, row in rows])
    ids = np.array([f"bag {bag}" for bag, _ in rows])
    y = np.array([bag % 2 for bag, _ in rows])
    bags = Bags.from_flat(flat, ids, y=y)
    order = list(dict.fromkeys(bag for bag, _ in rows))
    assert bags.ids.tolist() == [f"bag {bag}" for bag in order]
    assert bags.y.tolist() == [bag % 2 for bag in order]
    assert_same(bags, [[twin[b][row] for b, row in rows if b == bag] for bag in order])


@given(bag_lists(), st.integers(0, 10), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_one_bad_value_is_always_found(twin, place, bad):
    position = place % len(twin)
    row = place % len(twin[position])
    twin[position][row, 0] = bad
    with pytest.raises(ValueError, match=f"Bag {position}, instance {row}: feature 0 is {bad}"):
        Bags.from_list(twin)
