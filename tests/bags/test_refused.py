"""Input that the container refuses: all problems at once, each with its place and a hint."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags, as_bags
from pigmil._core.errors import BagsError

ONE = np.ones((1, 2))
TWO = np.ones((2, 1))


def refusal(build, *args, **kwargs):
    with pytest.raises(BagsError) as caught:
        build(*args, **kwargs)
    return str(caught.value)


def test_every_problem_of_a_list_is_reported():
    message = refusal(
        Bags.from_list,
        [ONE, np.ones((0, 2)), np.ones((2, 3)), np.array([["x", "y"]]), np.ones(2)],
        ids=["a", "b", "c", "d", "e"],
    )
    assert message.splitlines() == [
        "The list of 5 bags cannot be used:",
        "- Bag 1 ('b') has no instances; every bag needs at least one.",
        "- Bag 2 ('c') has 3 features where most bags have 2.",
        "- Bag 3 ('d') has type <U1, which is not numeric.",
        "- Bag 4 ('e') has shape (2,); expected (n_instances, n_features).",
    ]


@pytest.mark.parametrize(
    ("bags", "labels", "message"),
    [
        ([], None, "It is empty; at least one bag is needed."),
        ([[[1, 2], [3]], ONE], None, "Bag 0 is not a table: its rows differ in length or nesting."),
        ([ONE, ONE], [[1, 1], [0]], "Bag 0 has 1 instances but 2 instance labels."),
        ([ONE, ONE], [1, 0, 0], "instance_labels has shape (3,); expected (2,)."),
        ([ONE, ONE], 1, "instance_labels has shape (); expected (2,)."),
        ([np.array([[1, "x"]], dtype=object)], None, "could not convert string to float: 'x'"),
        ([ONE, np.ma.array(ONE, mask=[[0, 1]])], None, "Bag 1, instance 0: feature 1 is nan"),
    ],
)
def test_lists(bags, labels, message):
    assert message in refusal(Bags.from_list, bags, instance_labels=labels)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), "must be a 2-D table, one row per instance; got 1 dimension(s)"),
        (np.array([["a"]]), "The instances have type <U1, which is not numeric"),
        (np.ones((1, 1), dtype=complex), "type complex128, which is not numeric"),
        (sp.csr_array(np.eye(1, dtype=complex)), "The sparse instances have type complex128"),
        ([[1], [1, 2]], "must form a rectangular table of numbers"),
        (np.ones((1, 0)), "The instances have no features."),
        (np.ma.array(ONE, mask=[[0, 1]]), "Bag 0, instance 0: feature 1 is nan"),
        (sp.csr_array([[1.0, np.nan]]), "Bag 0, instance 0: feature 1 is nan"),
    ],
)
def test_not_a_table_of_numbers(values, message):
    assert message in refusal(Bags, values, [0, 1])


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0], "offsets must be a 1-D array of integers"),
        ([[0, 2]], "got shape (1, 2), type int64"),
        ([0.0, 2.0], "type float64"),
        ([1, 2], "must increase from 0 to the number of instances, 2; got 1 to 2."),
        ([0, 1], "got 0 to 1."),
        ([0, 2, 1, 2], "got 0 to 2, falling in between."),
    ],
)
def test_offsets(offsets, message):
    assert message in refusal(Bags, TWO, offsets)


def test_every_problem_of_the_parts_is_reported():
    message = refusal(
        Bags,
        np.array([[1.0, np.nan], [np.inf, 1.0], [1.0, 1.0]]),
        [0, 2, 2, 3],
        ids=["a", "b", "a"],
        y=[0, 1],
        instance_labels=[0, 1],
        feature_names=["only"],
        instance_info={"place": np.ones((2, 2))},
    )
    assert message.splitlines() == [
        "3 bags of 3 instances cannot be used:",
        "- Bag 1 ('b') has no instances; every bag needs at least one.",
        "- y has shape (2,); expected (3,).",
        "- instance_labels has shape (2,); expected (3,).",
        "- instance_info['place'] has shape (2, 2); expected (3, ...).",
        "- 1 feature names for 2 features.",
        "- The id 'a' is given to 2 bags; ids must be unique.",
        "- Bag 0 ('a'), instance 0: feature 1 is nan; impute it or drop the instance.",
        "- Bag 0 ('a'), instance 1: feature 0 ('only') is inf; impute it or drop the instance.",
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ids": [1]}, "ids has shape (1,); expected (2,)."),
        ({"ids": ["a", None]}, "Some bags have the id None or NaN; every bag needs one."),
        ({"y": [1.0, np.nan], "ids": ["a", "b"]}, "Bag 1 ('b') has no label (NaN)."),
        ({"y": np.array([1, None], dtype=object)}, "Bag 1 has no label (NaN)."),
    ],
)
def test_ids_and_labels(fields, message):
    assert message in refusal(Bags, TWO, [0, 1, 2], **fields)


def test_many_of_a_kind_are_counted():
    message = refusal(Bags, np.full((3, 4), -np.inf), [0, 3], feature_names="wxyz")
    assert message.count("is -inf") == 3
    assert "Bag 0, instance 0: feature 2 ('y') is -inf" in message
    assert "... and 9 more values that are NaN or infinite." in message


def test_values_that_are_not_finite_are_found_in_every_block(monkeypatch):
    assert "is inf" in refusal(Bags, np.array([[np.inf], [-np.inf]]), [0, 2])  # they cancel
    assert len(Bags(np.full((4, 1), 1e308), [0, 4])) == 1  # their sum overflows
    assert np.isnan(Bags([[np.nan]], [0, 1], check_finite=False).instances[0, 0])
    monkeypatch.setattr("pigmil.bags._checks._BLOCK_VALUES", 4)
    instances = np.ones((10, 2), dtype=np.float32)
    instances[7, 1], instances[9, 0] = np.nan, np.inf
    message = refusal(Bags, instances, [0, 6, 10])
    assert "Bag 1, instance 1: feature 1 is nan" in message
    assert "Bag 1, instance 3: feature 0 is inf" in message


@pytest.mark.parametrize(
    ("y", "labels", "message"),
    [
        ([-1, 1], [1, 0], "Bag 0 is negative but 1 of its instances are labelled positive (1)."),
        (["neg", "pos"], [1.0, 0.0], "Bag 0 is negative"),  # they may use other labels
        ([0, 1], [0, np.nan], None),  # unknown is no contradiction
        ([0, 1], [0, 0], None),  # a positive bag without a known positive
        ([1, 1], [0, 1], None),
        (["a", "b"], [1, 1], None),  # one label only, and none of the bags'
        ([0, 1, 2], [1, 0, 1], None),  # more than two kinds of bags: nothing can be said
    ],
)
def test_positive_instances_in_negative_bags(y, labels, message):
    build = {"instances": np.ones((len(y), 1)), "offsets": np.arange(len(y) + 1)}
    if message is None:
        assert len(Bags(**build, y=y, instance_labels=labels))
    else:
        assert message in refusal(Bags, **build, y=y, instance_labels=labels)


def test_lengths_of_long_tables():
    message = refusal(
        Bags.from_flat, np.ones((3, 1)), [1, 2], instance_labels=[1], instance_info={"p": [1]}
    )
    assert message.splitlines() == [
        "The table of 3 rows cannot be used:",
        "- bag_ids has 2 entries; expected one per row.",
        "- instance_labels has 1 entries; expected one per row.",
        "- p has 1 entries; expected one per row.",
    ]


@pytest.mark.parametrize(
    ("ids", "y", "message"),
    [
        ([], None, "It holds no instances"),
        (["a", None, "b"], None, "Row 1: there is no bag id."),
        ([1.0, np.nan, 2.0], None, "Row 1: there is no bag id."),
        (
            ["a", "b", "a", "b"],
            [0, 1, 1, 1],
            "The table of 4 rows cannot be used:\n- Row 2: the bag 'a' is labelled 1 here and 0 "
            "before; it must be the same in all rows of a bag.",
        ),
    ],
)
def test_long_tables(ids, y, message):
    assert message in refusal(Bags.from_flat, np.ones((len(ids), 1)), ids, y=y)


def test_new_features_and_labels():
    bags = Bags.from_list([ONE, ONE], ids=["a", "b"])
    message = refusal(bags.with_instances, np.ones((3, 1)))
    assert "There are 3 rows; expected one per instance." in message
    message = refusal(bags.with_instances, [[1.0], [np.nan]], feature_names=["p", "q"])
    assert message.splitlines() == [
        "New features for 2 instances cannot be used:",
        "- 2 feature names for 1 features.",
        "- Bag 1 ('b'), instance 0: feature 0 ('p') is nan; impute it or drop the instance.",
    ]
    assert "no features" in refusal(bags.with_instances, np.ones((2, 0)))
    assert "y has shape (1,); expected (2,)." in refusal(bags.with_labels, [1])
    assert "Bag 1 ('b') has no label (NaN)." in refusal(as_bags, bags, y=[0, np.nan])
