"""Input that the container refuses: all problems at once, each with its place and a hint."""

import numpy as np
import pytest
import scipy.sparse as sp

from pigmil import Bags, as_bags
from pigmil._core.errors import BagsError

ONE = np.ones((1, 2))


def refusal(build, *args, **kwargs):
    with pytest.raises(BagsError) as caught:
        build(*args, **kwargs)
    return str(caught.value)


class TestLists:
    def test_every_problem_of_a_list_is_reported(self):
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

    def test_empty_list(self):
        assert "It is empty; at least one bag is needed." in refusal(Bags.from_list, [])

    def test_ragged_rows(self):
        message = refusal(Bags.from_list, [[[1, 2], [3]], ONE], ids=["a", "b"])
        assert "Bag 0 ('a') is not a table: its rows differ in length or nesting." in message

    def test_instance_labels_of_the_wrong_number(self):
        message = refusal(Bags.from_list, [ONE, ONE], instance_labels=[[1, 1], [0]])
        assert "Bag 0 has 1 instances but 2 instance labels." in message
        message = refusal(Bags.from_list, [ONE, ONE], instance_labels=[1, 0, 0])
        assert "instance_labels has shape (3,); expected (2,)." in message
        message = refusal(Bags.from_list, [ONE, ONE], instance_labels=1)
        assert "instance_labels has shape (); expected (2,)." in message

    def test_text_inside_objects(self):
        message = refusal(Bags.from_list, [np.array([[1, "x"]], dtype=object)])
        assert "Columns 1 of the instances are not numeric; encode them as numbers" in message


class TestArrays:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (np.ones(3), "must be a 2-D table, one row per instance; got 1 dimension(s)"),
            (np.array([["a"]]), "The instances have type <U1, which is not numeric"),
            (np.ones((1, 1), dtype=complex), "type complex128, which is not numeric"),
            (sp.csr_array(np.eye(1, dtype=complex)), "The sparse instances have type complex128"),
            ([[1], [1, 2]], "must form a rectangular table of numbers"),
            (
                np.array([["1", 2, "x"] * 12], dtype=object),
                "Columns 2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35 of the instances",
            ),
        ],
    )
    def test_not_a_table_of_numbers(self, values, message):
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
    def test_offsets(self, offsets, message):
        assert message in refusal(Bags, np.ones((2, 1)), offsets)

    def test_every_problem_of_the_parts_is_reported(self):
        instances = np.array([[1.0, np.nan], [np.inf, 1.0], [1.0, 1.0]])
        message = refusal(
            Bags,
            instances,
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

    def test_no_features(self):
        assert "The instances have no features." in refusal(Bags, np.ones((2, 0)), [0, 2])

    def test_ids_of_the_wrong_number(self):
        assert "ids has shape (1,); expected (2,)." in refusal(
            Bags, ONE[[0, 0]], [0, 1, 2], ids=[1]
        )

    @pytest.mark.parametrize("y", [[1.0, np.nan], np.array([1, None], dtype=object)])
    def test_missing_label(self, y):
        message = refusal(Bags, ONE[[0, 0]], [0, 1, 2], y=y, ids=["a", "b"])
        assert "Bag 1 ('b') has no label (NaN)." in message

    def test_many_of_a_kind_are_counted(self):
        message = refusal(Bags, np.full((3, 4), -np.inf), [0, 3], feature_names="wxyz")
        assert message.count("is -inf") == 3
        assert "Bag 0, instance 0: feature 2 ('y') is -inf" in message
        assert "... and 9 more values that are NaN or infinite." in message

    def test_non_finite_beyond_the_first_block(self, monkeypatch):
        monkeypatch.setattr("pigmil.bags._checks._BLOCK_VALUES", 4)
        instances = np.ones((10, 2), dtype=np.float32)
        instances[7, 1] = np.nan
        instances[9, 0] = np.inf
        message = refusal(Bags, instances, [0, 6, 10])
        assert "Bag 1, instance 1: feature 1 is nan" in message
        assert "Bag 1, instance 3: feature 0 is inf" in message

    def test_sums_that_overflow_are_no_problem(self):
        assert len(Bags(np.full((4, 1), 1e308), [0, 4])) == 1

    def test_infinities_that_cancel_are_found(self):
        assert "is inf" in refusal(Bags, np.array([[np.inf], [-np.inf]]), [0, 2])

    def test_sparse_non_finite(self):
        table = sp.csr_array(np.array([[0.0, 1.0], [0.0, np.nan]]))
        assert "Bag 1, instance 0: feature 1 is nan" in refusal(Bags, table, [0, 1, 2])

    def test_masked_values(self):
        table = np.ma.array([[1.0, 2.0]], mask=[[False, True]])
        assert "Bag 0, instance 0: feature 1 is nan" in refusal(Bags, table, [0, 1])
        assert "Bag 1, instance 0: feature 1 is nan" in refusal(Bags.from_list, [ONE, table])

    def test_finite_check_can_be_left_out(self):
        assert np.isnan(Bags([[np.nan]], [0, 1], check_finite=False).instances[0, 0])


class TestContradictions:
    def test_positive_instance_in_a_negative_bag(self):
        message = refusal(
            Bags.from_list,
            [ONE[[0, 0]], ONE],
            ids=["n", "p"],
            y=[-1, 1],
            instance_labels=[[1, -1], [1]],
        )
        assert (
            "Bag 0 ('n') is negative but 1 of its instances are labelled positive (1)." in message
        )

    @pytest.mark.parametrize(
        ("y", "labels", "negative"),
        [
            (["neg", "pos"], [[1.0], [0.0]], 0),  # bags and instances may use other labels
            ([0, 0], [[0], [1]], 1),  # only negative bags
            ([0, 1], [[1], [1]], 0),  # only positive instances
        ],
    )
    def test_other_positive_instances_in_negative_bags(self, y, labels, negative):
        message = refusal(Bags.from_list, [ONE, ONE], y=y, instance_labels=labels)
        assert f"Bag {negative} is negative" in message

    @pytest.mark.parametrize(
        ("y", "labels"),
        [
            ([0, 1], [0, np.nan]),  # unknown is no contradiction
            ([0, 1], [0, 0]),  # a positive bag without a known positive
            ([1, 1], [0, 1]),
            (["a", "b"], [1, 1]),  # one label only, and none of the bags'
            ([0, 1, 2], [1, 0, 1]),  # more than two kinds of bags: nothing can be said
        ],
    )
    def test_no_contradiction(self, y, labels):
        assert len(Bags(np.ones((len(y), 1)), np.arange(len(y) + 1), y=y, instance_labels=labels))


class TestLongTables:
    def test_lengths(self):
        message = refusal(
            Bags.from_flat, np.ones((3, 1)), [1, 2], instance_labels=[1], instance_info={"p": [1]}
        )
        assert message.splitlines() == [
            "The table of 3 rows cannot be used:",
            "- bag_ids has 2 entries; expected one per row.",
            "- instance_labels has 1 entries; expected one per row.",
            "- p has 1 entries; expected one per row.",
        ]

    def test_no_rows(self):
        assert "It holds no instances" in refusal(Bags.from_flat, np.ones((0, 1)), [])

    @pytest.mark.parametrize("ids", [["a", None, "b"], [1.0, np.nan, 2.0]])
    def test_missing_bag_id(self, ids):
        assert "Row 1: there is no bag id." in refusal(Bags.from_flat, np.ones((3, 1)), ids)

    def test_labels_that_vary_within_a_bag(self):
        message = refusal(Bags.from_flat, np.ones((4, 1)), ["a", "b", "a", "b"], y=[0, 1, 1, 1])
        assert message.splitlines() == [
            "The table of 4 rows cannot be used:",
            "- Row 2: the bag 'a' is labelled 1 here and 0 before; it must be the same in all "
            "rows of a bag.",
        ]


class TestNewParts:
    def test_new_features(self):
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

    def test_new_labels(self):
        bags = Bags.from_list([ONE, ONE], ids=["a", "b"])
        assert "y has shape (1,); expected (2,)." in refusal(bags.with_labels, [1])
        assert "Bag 1 ('b') has no label (NaN)." in refusal(as_bags, bags, y=[0, np.nan])
