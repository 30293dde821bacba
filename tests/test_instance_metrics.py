"""hit@k, FROC, per-bag measures and recall at the top, by hand and against slow twins."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import pigmil
from pigmil import MILD, Bags, BagScaler, CitationKNN
from pigmil.datasets import make_ring
from pigmil.metrics import (
    froc_curve,
    froc_score,
    hit_at_k,
    hit_at_k_chance,
    instance_scores,
    make_instance_scorer,
    per_bag_auc,
    per_bag_average_precision,
    recall_at_fraction,
)

NAN = float("nan")
SCORED_BAGS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 3) | st.just(NAN), st.sampled_from([0.0, 1.0, NAN])),
        min_size=1,
        max_size=5,
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def ring():
    return make_ring(random_state=0)


@pytest.fixture(scope="module")
def fitted(ring):
    return ring, MILD().fit(ring, ring.y)


def flat(bags):
    scores = [float(score) for bag in bags for score, _ in bag]
    truth = [label for bag in bags for _, label in bag]
    return scores, np.cumsum([0, *map(len, bags)]), truth


def usable(bags):
    """Hypothesis draws bags without any positive too, which the metrics reject."""
    return any(label == 1 for bag in bags for _, label in bag)


class TestHitAtK:
    def test_by_hand(self):
        # Bag 0: positive in second place; bag 1: in third place; bag 2 is negative.
        scores, offsets = [5, 4, 3, 5, 4, 3, 9], [0, 3, 6, 7]
        truth = [0, 1, 0, 0, 0, 1, 0]
        hits = [hit_at_k(scores, offsets, [1, 1, 0], truth, k=k) for k in (1, 2, 3, 4)]
        assert hits == [0.0, 0.5, 1.0, 1.0]

    def test_tie_by_hand(self):
        # One place is left for three tied instances, one of them positive.
        assert hit_at_k([9, 5, 5, 5], [0, 4], [1], [0, 1, 0, 0], k=2) == pytest.approx(1 / 3)

    def test_chance_by_hand(self):
        # Two drawn of four with one positive: 1/2. One of two with one positive: 1.0 for k=2.
        assert hit_at_k_chance([0, 4, 6], [1, 1], [1, 0, 0, 0, 1, 0], k=2) == 0.75
        assert hit_at_k_chance([0, 4, 6], [1, 1], [1, 0, 0, 0, 1, 0], k=1) == 0.375

    @given(SCORED_BAGS, st.integers(1, 4))
    def test_against_all_orders(self, bags, k):
        if not usable(bags):
            return
        values = []
        for bag in bags:
            if not any(label == 1 for _, label in bag):
                continue
            scored = [pair for pair in bag if not math.isnan(pair[0])]
            best = max(
                (sum(score for score, _ in order[:k]) for order in itertools.permutations(scored)),
                default=0,
            )
            tops = [
                order[:k]
                for order in itertools.permutations(scored)
                if sum(score for score, _ in order[:k]) == best
            ]
            hits = [any(label == 1 for _, label in top) for top in tops]
            values.append(sum(hits) / len(hits))
        scores, offsets, truth = flat(bags)
        got = hit_at_k(scores, offsets, [1] * len(bags), truth, k=k, pos_label=1.0)
        assert got == pytest.approx(sum(values) / len(values))

    @given(SCORED_BAGS, st.integers(1, 4))
    def test_chance_against_all_draws(self, bags, k):
        if not usable(bags):
            return
        values = []
        for bag in bags:
            labels = [label for _, label in bag]
            if 1 in labels:
                draws = list(itertools.combinations(labels, min(k, len(labels))))
                values.append(sum(1 in draw for draw in draws) / len(draws))
        _, offsets, truth = flat(bags)
        got = hit_at_k_chance(offsets, [1] * len(bags), truth, k=k, pos_label=1.0)
        assert got == pytest.approx(sum(values) / len(values))

    @pytest.mark.parametrize("k", [0, -1, 1.5, True])
    def test_wrong_k(self, k):
        with pytest.raises(ValueError, match="k must be a positive integer"):
            hit_at_k([1.0], [0, 1], [1], [1], k=k)


class TestFROC:
    def test_by_hand(self):
        # Two bags. Falling scores: + - + - -, so sensitivity 1/2 at 0, 1 at 1/2 false positives.
        scores, offsets, truth = [5, 4, 3, 2, 1], [0, 3, 5], [1, 0, 1, 0, 0]
        x, y = froc_curve(scores, offsets, truth)
        assert x.tolist() == [0, 0, 0.5, 0.5, 1.0, 1.5]
        assert y.tolist() == [0, 0.5, 0.5, 1.0, 1.0, 1.0]
        # 0.5 at 1/4 (before the second positive), 1 at 1/2 and everywhere above.
        assert froc_score(scores, offsets, truth) == pytest.approx((0.5 + 5) / 6)

    def test_ties_are_interpolated(self):
        # All tied: the curve is one line from (0, 0) to (1, 1).
        assert froc_score([1, 1], [0, 2], [1, 0], rates=(0.25, 4)) == pytest.approx(0.625)

    def test_unscored_instances_are_never_found(self):
        assert froc_score([1, NAN, 0], [0, 3], [1, 1, 0]) == 0.5

    def test_bags_bring_labels(self):
        bags = Bags.from_list([np.zeros((2, 1))], y=[1], instance_labels=[[0, 1]])
        assert froc_score([0.0, 1.0], bags) == 1.0
        with pytest.raises(ValueError, match="instance_labels is neither given nor part"):
            froc_curve([0.0], [0, 1])

    @given(SCORED_BAGS)
    def test_against_every_threshold(self, bags):
        if not usable(bags):
            return
        scores, offsets, truth = flat(bags)
        n_positive = sum(label == 1 for label in truth)
        pairs = [(s, t) for s, t in zip(scores, truth, strict=True) if not math.isnan(t)]
        points = [(0.0, 0.0)]
        for threshold in sorted({s for s, _ in pairs if not math.isnan(s)}, reverse=True):
            called = [t for s, t in pairs if s >= threshold]
            points.append(((len(called) - sum(called)) / len(bags), sum(called) / n_positive))
        x, y = froc_curve(scores, offsets, truth, pos_label=1.0)
        np.testing.assert_allclose(np.column_stack([x, y]), points)
        sensitivities = []
        for rate in (0.25, 0.5, 1, 2, 4, 8):
            below = [point for point in points if point[0] <= rate][-1]
            above = next((point for point in points if point[0] > rate), None)
            slope = 0 if above is None else (above[1] - below[1]) / (above[0] - below[0])
            sensitivities.append(below[1] + slope * (rate - below[0]))
        got = froc_score(scores, offsets, truth, pos_label=1.0)
        assert got == pytest.approx(sum(sensitivities) / 6)


class TestPerBag:
    def test_by_hand(self):
        # Bag 0: + - -, AUC 1, AP 1. Bag 1: - + -, AUC 1/2, AP 1/2. Bag 2 is negative.
        scores, offsets = [3, 2, 1, 3, 2, 1, 9], [0, 3, 6, 7]
        truth = [1, 0, 0, 0, 1, 0, 0]
        assert per_bag_auc(scores, offsets, [1, 1, 0], truth) == 0.75
        assert per_bag_average_precision(scores, offsets, [1, 1, 0], truth) == 0.75

    def test_scores_that_only_separate_bags_are_worth_a_half(self):
        assert per_bag_auc([1, 1, 0, 0], [0, 2, 4], [1, 0], [1, 0, 0, 0]) == 0.5

    def test_bags_of_one_label_do_not_count(self):
        assert math.isnan(per_bag_auc([1.0, 2.0], [0, 2], [1], [1, 1]))
        assert math.isnan(per_bag_average_precision([1.0, 2.0], [0, 2], [1], [1, 1]))

    @given(SCORED_BAGS)
    def test_auc_against_all_pairs(self, bags):
        if not usable(bags):
            return
        values = []
        for bag in bags:
            highs = [s for s, t in bag if t == 1 and not math.isnan(s)]
            lows = [s for s, t in bag if t == 0 and not math.isnan(s)]
            if highs and lows:
                won = [(h > low) + 0.5 * (h == low) for h in highs for low in lows]
                values.append(sum(won) / len(won))
        scores, offsets, truth = flat(bags)
        got = per_bag_auc(scores, offsets, [1] * len(bags), truth, pos_label=1.0)
        assert got == pytest.approx(sum(values) / len(values) if values else NAN, nan_ok=True)

    @given(SCORED_BAGS)
    def test_average_precision_against_every_threshold(self, bags):
        if not usable(bags):
            return
        values = []
        for bag in bags:
            kept = [(s, t) for s, t in bag if s == s and t == t]
            n_positive = sum(t for _, t in kept)
            if 0 < n_positive < len(kept):
                total = found = 0.0
                for threshold in sorted({s for s, _ in kept}, reverse=True):
                    called = [t for s, t in kept if s >= threshold]
                    total += (sum(called) - found) / n_positive * sum(called) / len(called)
                    found = sum(called)
                values.append(total)
        scores, offsets, truth = flat(bags)
        got = per_bag_average_precision(scores, offsets, [1] * len(bags), truth, pos_label=1.0)
        assert got == pytest.approx(sum(values) / len(values) if values else NAN, nan_ok=True)


class TestRecallAtFraction:
    def test_by_hand(self):
        scores, truth = np.arange(20.0), np.zeros(20)
        truth[[19, 18, 10, 0]] = 1
        # 5 % is one instance, 10 % are two, 11 % are rounded up to three, 50 % are ten.
        found = [recall_at_fraction(scores, truth, fraction=f) for f in (0.05, 0.1, 0.11, 0.5, 1)]
        assert found == [0.25, 0.5, 0.5, 0.75, 1.0]

    def test_ties_count_their_expected_share(self):
        assert recall_at_fraction([1, 1, 1, 1], [1, 0, 0, 0], fraction=0.5) == 0.5

    def test_unscored_rank_last_and_unknown_are_left_out(self):
        assert recall_at_fraction([NAN, 1.0], [1, 0], fraction=0.5) == 0.0
        assert recall_at_fraction([9.0, 1.0, 0.0], [NAN, 1, 0], fraction=0.5) == 1.0

    @given(SCORED_BAGS, st.sampled_from([0.01, 0.05, 0.1, 0.3, 1.0]))
    def test_against_all_orders_of_ties(self, bags, fraction):
        pairs = [pair for bag in bags for pair in bag if pair[1] == pair[1]][:6]
        if not any(label == 1 for _, label in pairs):
            return
        size = math.ceil(fraction * len(pairs))
        orders = [
            [label for _, label in order]
            for order in itertools.permutations(pairs)
            if all(
                math.isnan(right[0]) or left[0] >= right[0]
                for left, right in itertools.pairwise(order)
            )
        ]
        recalls = [sum(order[:size]) / sum(order) for order in orders]
        scores, truth = zip(*pairs, strict=True)
        got = recall_at_fraction(scores, truth, fraction=fraction, pos_label=1.0)
        assert got == pytest.approx(sum(recalls) / len(recalls))

    @pytest.mark.parametrize("fraction", [0, 1.1, -0.1])
    def test_wrong_fraction(self, fraction):
        with pytest.raises(ValueError, match="fraction must be above 0 and at most 1"):
            recall_at_fraction([1.0], [1], fraction=fraction)


class TestInstanceScores:
    def test_through_wrappers(self, ring):
        scaled = BagScaler().fit_transform(ring)
        expected = MILD().fit(scaled, ring.y).decision_function_instances(scaled)
        pipeline = make_pipeline(BagScaler(), "passthrough", MILD())
        search = GridSearchCV(pipeline, {"mild__pos_label": [None]}, cv=2)
        for model in (pipeline, search):
            np.testing.assert_allclose(instance_scores(model.fit(ring, ring.y), ring), expected)
        assert pigmil.instance_scores is instance_scores

    def test_calibration_is_the_mean_of_its_models(self, ring):
        model = CalibratedClassifierCV(MILD(), cv=2, ensemble=True).fit(ring, ring.y)
        first, second = (part.estimator for part in model.calibrated_classifiers_)
        expected = (
            first.decision_function_instances(ring) + second.decision_function_instances(ring)
        ) / 2
        np.testing.assert_allclose(instance_scores(model, ring), expected)

    def test_without_instance_scores(self, ring):
        model = make_pipeline(BagScaler(), CitationKNN()).fit(ring, ring.y)
        with pytest.raises(TypeError, match=r"Pipeline > CitationKNN does not score instances"):
            instance_scores(model, ring)


class TestScorer:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("auc", lambda s, b: pigmil.metrics.instance_auc(s, b.instance_labels)),
            ("froc", froc_score),
            ("hit@3", lambda s, b: hit_at_k(s, b, k=3)),
            ("per_bag_auc", per_bag_auc),
            ("recall@10%", lambda s, b: recall_at_fraction(s, b.instance_labels, fraction=0.1)),
        ],
    )
    def test_named_metrics(self, fitted, name, expected):
        bags, model = fitted
        scorer = pickle.loads(pickle.dumps(make_instance_scorer(name)))
        scores = model.decision_function_instances(bags)
        assert scorer(model, bags, bags.y) == expected(scores, bags)
        assert make_instance_scorer(expected)(model, bags) == expected(scores, bags)

    def test_grid_search(self, fitted):
        bags, _ = fitted
        search = GridSearchCV(MILD(), {}, scoring=make_instance_scorer("per_bag_auc"), cv=2)
        search.fit(bags, bags.y)
        values = [search.cv_results_[f"split{i}_test_score"][0] for i in range(2)]
        assert search.best_score_ == pytest.approx(np.mean(values))
        assert all(0 < value <= 1 for value in values)

    def test_one_label_only_is_nan(self, fitted):
        bags, model = fitted
        negative = bags[bags.y == bags.y.min()]
        assert math.isnan(make_instance_scorer("auc")(model, negative, negative.y))

    def test_errors(self, fitted):
        bags, model = fitted
        for name in ("magic", "hit@0", "hit@x", "recall@200%", "auc@1"):
            with pytest.raises(ValueError, match=f"Unknown metric '{name}'"):
                make_instance_scorer(name)
        unlabelled = Bags(bags.instances, bags.offsets, y=bags.y)
        with pytest.raises(ValueError, match="needs bags with instance_labels"):
            make_instance_scorer()(model, unlabelled)
