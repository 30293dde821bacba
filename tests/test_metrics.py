"""Instance-level measures, worked by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pigmil import Bags
from pigmil.metrics import (
    detection_accuracy,
    hit_at_k,
    instance_auc,
    instance_average_precision,
)

NAN = float("nan")


class TestDetectionAccuracy:
    def test_share_of_true_positives(self):
        # positions 0, 3, 4 are detected; 0 and 4 are truly positive
        assert detection_accuracy([0, 3, 4], [1, 1, -1, -1, 1]) == pytest.approx(2 / 3)

    def test_mask_means_the_same_as_positions(self):
        mask = np.array([True, False, False, True, True])
        assert detection_accuracy(mask, [1, 1, -1, -1, 1]) == pytest.approx(2 / 3)

    def test_nothing_detected_is_nan(self):
        assert math.isnan(detection_accuracy([], [1, -1]))

    def test_unknown_truth_is_left_out(self):
        assert detection_accuracy([0, 1, 2], [1, NAN, 0]) == 0.5
        assert math.isnan(detection_accuracy([1], [1, NAN, 0]))

    def test_pos_label(self):
        assert detection_accuracy([0, 1], ["a", "b"], pos_label="a") == 0.5
        assert detection_accuracy([0], [0, 1], pos_label=0) == 1.0

    @pytest.mark.parametrize(
        ("detected", "message"),
        [
            ([-1], "positions from -1 to -1; there are instances 0 to 1"),
            ([0, 2], "positions from 0 to 2; there are instances 0 to 1"),
            ([0.0], "must be a 1-D array of positions or a mask"),
            ([[0]], "must be a 1-D array of positions or a mask"),
            ([True], r"mask of shape \(1,\); expected \(2,\)"),
        ],
    )
    def test_wrong_positions_are_refused(self, detected, message):
        with pytest.raises(ValueError, match=message):
            detection_accuracy(np.array(detected), [1, -1])

    @pytest.mark.parametrize(
        ("labels", "pos_label", "message"),
        [
            ([], None, "one entry per instance"),
            ([[1]], None, "one entry per instance"),
            ([NAN, NAN], None, "all NaN"),
            ([1, -1], 2, r"pos_label=2 does not occur in instance_labels \[-1, 1\]"),
        ],
    )
    def test_wrong_truth_is_refused(self, labels, pos_label, message):
        with pytest.raises(ValueError, match=message):
            detection_accuracy([0], labels, pos_label=pos_label)


class TestRankMeasures:
    def test_auc_by_hand(self):
        # pairs (positive, negative): (4, 3) won, (4, 1) won, (2, 3) lost, (2, 1) won -> 3/4
        assert instance_auc([4, 2, 3, 1], [1, 1, 0, 0]) == 0.75

    def test_auc_tie_counts_half(self):
        assert instance_auc([1, 1], [1, 0]) == 0.5

    def test_average_precision_by_hand(self):
        # order: +, -, + -> precision 1/1 and 2/3 at the two positives
        assert instance_average_precision([4, 2, 3], [1, 1, 0]) == pytest.approx((1 + 2 / 3) / 2)

    def test_missing_scores(self):
        scores, truth = [NAN, 2.0, 1.0], [1, 1, 0]
        assert instance_auc(scores, truth) == 1.0  # only the pair (2, 1) is left
        assert instance_auc(scores, truth, missing="lowest") == 0.5  # (NaN, 1) is lost
        assert instance_average_precision(scores, truth) == 1.0
        assert instance_average_precision(scores, truth, missing="lowest") == pytest.approx(5 / 6)

    def test_missing_is_below_minus_infinity(self):
        assert instance_auc([NAN, -np.inf], [0, 1], missing="lowest") == 1.0

    def test_infinite_scores_are_ranks_like_others(self):
        assert instance_auc([np.inf, 0.0, -np.inf], [1, 0, 0]) == 1.0

    def test_unknown_truth_is_left_out(self):
        assert instance_auc([5.0, 2.0, 1.0], [NAN, 1, 0]) == 1.0

    def test_one_class_is_nan(self):
        assert math.isnan(instance_auc([1, 2], [1, 1]))
        assert math.isnan(instance_auc([1.0, NAN], [1, 0]))
        assert math.isnan(instance_auc([NAN, NAN], [1, 0]))
        assert math.isnan(instance_average_precision([NAN, 1.0], [1, 0]))

    def test_pos_label(self):
        assert instance_auc([1, 2], [1, 0], pos_label=0) == 1.0
        assert instance_average_precision([1, 2], [1, 0], pos_label=0) == 1.0

    def test_refused(self):
        with pytest.raises(ValueError, match=r"shape \(3,\); expected \(2,\)"):
            instance_auc([1, 2, 3], [1, 0])
        with pytest.raises(ValueError, match="missing must be 'omit' or 'lowest'; got 'drop'"):
            instance_auc([1, 2], [1, 0], missing="drop")

    @given(
        st.lists(
            st.tuples(st.integers(-3, 3) | st.just(NAN), st.booleans()), min_size=1, max_size=12
        )
    )
    def test_auc_against_all_pairs(self, rows):
        scores = [float(score) for score, _ in rows]
        truth = [int(label) for _, label in rows]
        if not any(truth):
            truth[0] = 1
        value = {"omit": lambda s: s, "lowest": lambda s: -99.0 if math.isnan(s) else s}
        for missing, of in value.items():
            kept = [(of(s), t) for s, t in zip(scores, truth, strict=True) if of(s) == of(s)]
            pairs = [(p, n) for p, tp in kept if tp for n, tn in kept if not tn]
            got = instance_auc(scores, truth, missing=missing, pos_label=1)
            if pairs:
                assert got == pytest.approx(
                    sum((p > n) + 0.5 * (p == n) for p, n in pairs) / len(pairs)
                )
            else:
                assert math.isnan(got)


class TestTop1HitRate:
    def test_by_hand(self):
        # bag 0: best is positive; bag 1: best is negative; bag 2 is negative and not counted
        scores, offsets = [0.9, 0.1, 0.2, 0.7, 0.5], [0, 2, 4, 5]
        assert hit_at_k(scores, offsets, [1, 1, -1], [1, -1, 1, -1, -1]) == 0.5

    def test_bags_bring_labels(self):
        bags = Bags.from_list(
            [np.zeros((2, 1)), np.zeros((1, 1))], y=[1, 0], instance_labels=[[0, 1], [0]]
        )
        assert hit_at_k([1.0, 2.0, 9.0], bags) == 1.0
        assert hit_at_k([2.0, 1.0, 9.0], bags) == 0.0

    def test_missing_score_is_never_best(self):
        assert hit_at_k([NAN, -np.inf], [0, 2], [1], [0, 1]) == 1.0

    def test_bag_without_scores_is_missed(self):
        assert hit_at_k([NAN, NAN, 1.0], [0, 2, 3], [1, 1], [1, 1, 1]) == 0.5

    def test_tie_counts_its_share_in_any_order(self):
        for labels in ([1, 0, 0, 1], [0, 0, 1, 1]):
            got = hit_at_k([1.0, 1.0, 1.0, 0.0], [0, 4], [1], labels)
            assert got == pytest.approx(1 / 3)

    def test_positive_bag_without_known_positive_is_left_out(self):
        assert hit_at_k([1.0, 2.0], [0, 1, 2], [1, 1], [0, 1]) == 1.0
        assert math.isnan(hit_at_k([1.0, 2.0], [0, 1, 2], [1, 0], [0, 1]))

    def test_no_positive_bag_is_nan(self):
        assert math.isnan(hit_at_k([1.0], [0, 1], ["a"], [1], bag_pos_label="b"))

    def test_positive_labels(self):
        assert hit_at_k([2.0, 1.0], [0, 2], ["x"], ["p", "q"], pos_label="p") == 1.0
        got = hit_at_k([1.0, 1.0], [0, 1, 2], [0, 1], [1, 0], bag_pos_label=0)
        assert got == 1.0

    @pytest.mark.parametrize(
        ("y", "labels", "message"),
        [
            (None, [1], "y is neither given nor part of the bags"),
            ([1], None, "instance_labels is neither given nor part of the bags"),
            ([1, 1], [1], "2 bag labels and 1 instance labels do not fit offsets of 1 bags"),
        ],
    )
    def test_refused(self, y, labels, message):
        with pytest.raises(ValueError, match=message):
            hit_at_k([1.0], [0, 1], y, labels)
