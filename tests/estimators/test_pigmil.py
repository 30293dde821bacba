"""The whole of PIGMIL: what it exposes, what it finds, and how it ends on degenerate data."""

import functools
import logging

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from pigmil import PIGMIL, Bags, PaperReading
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.distances import embed_bags
from pigmil.estimators._prototype_svm import _fold_grams

SETS = {"basic": make_basic, "rhombus": make_rhombus, "ring": make_ring}


@pytest.fixture(scope="module")
def ring():
    return make_ring(random_state=3)


@pytest.fixture(scope="module")
def model(ring):
    return PIGMIL(random_state=0).fit(ring)


@pytest.mark.parametrize("name", SETS)
def test_detection_on_the_synthetic_sets(name):
    shares = []
    for seed in range(5):
        bags = SETS[name](random_state=seed)
        found = PIGMIL(C=1.0, embedding_decay=1.0, random_state=0).fit(bags).detected_instances_
        shares.append((bags.instance_labels[found] == 1).mean())
    assert np.mean(shares) >= {"basic": 0.97, "rhombus": 0.97, "ring": 0.995}[name]


@pytest.mark.parametrize("name", SETS)
def test_the_paper_literal_configuration_detects_too(name):
    shares = []
    for seed in range(5):
        bags = SETS[name](random_state=seed)
        found = PIGMIL.paper(random_state=0).fit(bags).detected_instances_
        shares.append((bags.instance_labels[found] == 1).mean())
    assert np.mean(shares) >= 0.8


def test_paper_sets_what_the_paper_prints_and_takes_changes():
    literal = PIGMIL.paper(reading__damping=0.5)
    assert literal.working_score == "kde_min"
    assert literal.length_unit == 1.0
    assert literal.similarity == "svm"
    assert literal.reading.confidence_bias is False
    assert literal.prototypes == "pool"
    assert literal.reading.damping == 0.5
    assert clone(literal).get_params() == literal.get_params()


def test_faithful_repairs_three_things_only():
    faithful, literal = PIGMIL.faithful().get_params(), PIGMIL.paper().get_params()
    changed = {name for name in faithful if faithful[name] != literal[name]}
    assert changed == {
        "length_unit", "reading", "reading__confidence_bias", "reading__walk_start"
    }  # fmt: skip
    assert PIGMIL.faithful(reading__damping=0.5).reading.damping == 0.5


def test_differences_from_the_paper_come_from_the_parameters():
    assert PIGMIL.paper().differences_from_paper() == []
    assert PIGMIL.paper(random_state=3, n_jobs=2).differences_from_paper() == []
    changed = PIGMIL.paper(working_set_fraction=0.6, reading__alpha=1.0).differences_from_paper()
    assert changed == [
        ("reading__alpha='log-ratio'", "reading__alpha=1.0"),
        ("working_set_fraction=0.4", "working_set_fraction=0.6"),
    ]
    for paper, here in PIGMIL().differences_from_paper():
        assert ": " in here, "every default that departs from the paper has a reason"
        assert paper in PIGMIL.__doc__
        assert here in PIGMIL.__doc__


class OtherPool(PIGMIL):
    """PIGMIL whose bag classifier sees another instance of every working bag."""

    def __init__(self, choose=None, **parameters):
        super().__init__(**parameters)
        self.choose = choose

    def _detect(self, bags, split, width):
        super()._detect(bags, split, width)
        members = [np.flatnonzero(bags.bag_index == bags.bag_index[x]) for x in self.pool_]
        self.pool_ = np.array([self.choose(rows, self.instance_scores_[rows]) for rows in members])


def needles(seed):
    """Bags of ten points in a square; one point of each positive bag lies near the centre."""
    rng = np.random.default_rng(seed)
    bags = [rng.uniform(-3, 3, size=(10, 2)) for _ in range(60)]
    for bag in bags[:30]:
        bag[rng.integers(10)] = rng.normal(scale=0.1, size=2)
    return Bags.from_list(bags, y=[1] * 30 + [0] * 30)


@pytest.mark.parametrize("prototypes", ["pool", "pool+hard_negatives"])
def test_bags_are_classified_by_what_was_detected(prototypes):
    rng = np.random.default_rng(0)
    choices = {
        "detected": None,
        "random": lambda rows, scores: rng.choice(rows),
        "worst": lambda rows, scores: rows[np.argmin(scores)],
    }
    train, test = needles(0), needles(1)
    accuracy = {}
    for name, choose in choices.items():
        build = PIGMIL if choose is None else functools.partial(OtherPool, choose)
        model = build(prototypes=prototypes, C=10.0, embedding_decay=3.0, random_state=0)
        accuracy[name] = model.fit(train).score(test, test.y)
    assert accuracy["detected"] > 0.9
    assert accuracy["detected"] > accuracy["random"] + 0.05
    assert accuracy["detected"] > accuracy["worst"] + 0.3


def test_scores_of_unseen_instances_are_finite_and_zero_separates(model, ring):
    other = make_ring(random_state=11)
    scores = model.decision_function_instances(other)
    assert np.isfinite(scores).all()
    assert (scores[other.instance_labels == 1] > 0).mean() > 0.95
    assert (scores[other.instance_labels != 1] > 0).mean() < 0.05
    far = Bags.from_list([np.full((1, 2), 1e6), ring.instances[:1]])
    assert np.isfinite(model.decision_function_instances(far)).all()


def test_the_decay_is_chosen_among_held_out_bags():
    # A tight cluster in a cloud of negatives, which a wide kernel does not resolve.
    bags = needles(2)
    model = PIGMIL(random_state=0).fit(bags)
    assert model.decay_ >= 5.0
    assert PIGMIL(random_state=0, decay=3.0).fit(bags).decay_ == 3.0


def test_attributes_fit_together(model, ring):
    positive = np.flatnonzero(ring.y == 1)
    assert model.working_bags_.bags.tolist() == positive.tolist()
    assert model.working_bags_.t.shape == model.working_bags_.kept.shape == (len(positive),)
    assert (model.working_bags_.t[model.working_bags_.kept] <= 1.5).all()
    for bag, members in zip(positive, model.working_sets_, strict=True):
        assert (ring.bag_index[members] == bag).all()
        assert len(members) == 4  # ceil(0.4 * 8)
    working = positive[model.working_bags_.kept]
    assert ring.bag_index[model.detected_instances_].tolist() == working.tolist()
    assert ring.bag_index[model.best_instances_].tolist() == positive.tolist()
    assert set(model.detected_instances_) <= set(np.concatenate(model.working_sets_))
    graph = model.csdg_
    n = len(working)
    assert graph.vertices.tolist() == model.detected_instances_.tolist()
    assert graph.similarity.shape == graph.consistency.shape == graph.weights.shape == (n, n)
    assert graph.discrimination.shape == graph.scores.shape == (n,)
    assert np.isfinite(model.instance_scores_).all()
    assert model.instance_scores_.shape == (ring.n_instances,)


def test_the_trace_replays_to_the_same_pool():
    bags = make_basic(random_state=1)
    model = PIGMIL(random_state=0, similarity="svm", working_score="kde_min", decay=1.0).fit(bags)
    pools = model.trace_.replay(model.initial_pool_)
    assert model.trace_.accepted.sum() == len(pools) > 0
    assert pools[-1].tolist() == model.detected_instances_.tolist()


def test_the_callback_sees_every_examined_vertex(ring):
    steps = []
    model = PIGMIL(random_state=0, callback=steps.append).fit(ring)
    assert len(steps) >= 1
    assert sum(step.accepted is not None for step in steps) == model.trace_.accepted.sum()


def test_the_stages_are_logged_and_nothing_is_printed(ring, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="pigmil"):
        PIGMIL(random_state=0).fit(ring)
    assert "initialisation:" in caplog.text
    assert "updating:" in caplog.text
    assert capsys.readouterr() == ("", "")


def test_unseen_instances_are_scored_without_leaving_any_out(model, ring):
    other = make_ring(random_state=11)
    scores = model.decision_function_instances(other)
    positive = other.instance_labels == 1
    assert scores[positive].min() > np.median(scores[~positive])


def test_the_decision_is_the_svm_on_the_embedding(ring):
    model = PIGMIL(random_state=0, score_column=False).fit(ring)
    prototypes = ring.instances[model.prototypes_]
    gamma = model.classifier_.decay / model.length_unit_**2
    embedded = embed_bags(ring, prototypes, gamma)
    embedded = (embedded - embedded.mean(axis=0)) / embedded.std(axis=0) / np.sqrt(len(prototypes))
    expected = embedded @ model.classifier_.svm.weights + model.classifier_.svm.intercept
    np.testing.assert_allclose(model.decision_function(ring), expected, atol=1e-9)


def test_the_best_score_by_the_pool_is_a_column_of_the_weight_of_all_others(ring):
    model = PIGMIL(random_state=0).fit(ring)
    assert model.classifier_.uses_score
    embedded = model.classifier_.embed(ring, np.arange(ring.n_bags, dtype=float))
    np.testing.assert_allclose((embedded[:, :-1] ** 2).sum(axis=1).mean(), 1.0)
    # The last column is z-scored over the training bags: mean 0 and spread 1 for their scores.
    centre, scale = model.classifier_.centre[-1], model.classifier_.scale[-1]
    np.testing.assert_allclose(embedded[:, -1], (np.arange(ring.n_bags) - centre) / scale)


def test_the_bag_classifier_sees_the_pool_and_negative_bags_only(ring):
    model = PIGMIL(random_state=0).fit(ring)
    other = make_ring(random_state=12)
    before = model.decision_function(other)
    positive = ring.y[ring.bag_index[model.prototypes_]] == 1
    assert set(model.prototypes_[positive]) == set(model.pool_)
    np.testing.assert_array_equal(model._pool_instances, ring.instances[model.pool_])
    # The refined pool behind the instance scores has no part in it.
    model._scoring_pool = model._scoring_pool + 100.0
    np.testing.assert_array_equal(model.decision_function(other), before)


def test_negative_training_instances_are_scored_without_their_own_bag(model, ring):
    negative = np.flatnonzero(ring.y[ring.bag_index] == -1)
    with_own = model.decision_function_instances(ring)[negative]
    assert (model.instance_scores_[negative] > with_own).all()
    positive = ring.instance_labels == 1
    assert model.instance_scores_[positive].min() > np.median(model.instance_scores_[~positive])


@pytest.mark.parametrize(
    ("kind", "count"),
    [("pool", 18), ("pool+hard_negatives", 38), ("all_instances", 320)],
)
def test_prototypes(kind, count, ring, model):
    fitted = PIGMIL(random_state=0, prototypes=kind).fit(ring)
    shift = len(model.detected_instances_) - 18
    assert len(fitted.prototypes_) == count + (0 if kind == "all_instances" else shift)
    if kind == "pool+hard_negatives":
        hard = fitted.prototypes_[-20:]
        assert (ring.y[ring.bag_index[hard]] == -1).all()
        pool = ring.instances[fitted.detected_instances_]
        for flat, bag in zip(hard, np.flatnonzero(ring.y == -1), strict=True):
            gaps = [np.linalg.norm(pool - x, axis=1).min() for x in ring[bag]]
            assert flat == ring.offsets[bag] + np.argmin(gaps)


def test_probabilities_follow_the_decision(model, ring):
    probability = model.predict_proba(ring)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert ((probability[:, 1] > 0.5) == (model.decision_function(ring) > 0)).all()
    order = np.argsort(model.decision_function(ring))
    assert (np.diff(probability[order, 1]) >= 0).all()


@pytest.mark.parametrize("similarity", ["rbf", "svm", "lda"])
def test_sparse_instances_give_what_dense_ones_give(similarity):
    rng = np.random.default_rng(0)
    dense = [np.where(rng.random((4, 30)) < 0.3, rng.random((4, 30)), 0.0) for _ in range(16)]
    for bag in dense[::2]:
        bag[0, :5] += 2.0
    y = np.arange(16) % 2 == 0
    sparse = [sp.csr_array(bag) for bag in dense]
    one = PIGMIL(random_state=0, similarity=similarity).fit(dense, y)
    two = PIGMIL(random_state=0, similarity=similarity).fit(sparse, y)
    assert one.detected_instances_.tolist() == two.detected_instances_.tolist()
    np.testing.assert_allclose(
        two.decision_function(sparse), one.decision_function(dense), atol=1e-3
    )


def test_more_than_one_instance_of_a_bag(ring):
    model = PIGMIL(random_state=0, n_instances_per_bag=3).fit(ring)
    _, counts = np.unique(ring.bag_index[model.detected_instances_], return_counts=True)
    assert set(counts) == {3}
    assert (ring.instance_labels[model.detected_instances_] == 1).mean() > 0.95


def test_the_number_of_candidates_is_bounded_aloud(ring, caplog):
    with caplog.at_level(logging.WARNING, logger="pigmil"):
        model = PIGMIL(random_state=0, max_candidates=30).fit(ring)
    assert "max_candidates=30" in caplog.text
    assert len(model.detected_instances_) == model.working_bags_.kept.sum()


def test_class_weight_moves_the_decision(ring):
    plain = PIGMIL(random_state=0, C=0.01).fit(ring)
    tilted = PIGMIL(random_state=0, C=0.01, class_weight={-1: 100.0, 1: 1.0}).fit(ring)
    assert tilted.decision_function(ring).mean() < plain.decision_function(ring).mean()


@pytest.mark.parametrize("jobs", [1, 2])
def test_threads_change_nothing(jobs):
    bags = make_rhombus(random_state=5)
    one = PIGMIL(random_state=0, similarity="svm").fit(bags)
    many = PIGMIL(random_state=0, similarity="svm", n_jobs=jobs).fit(bags)
    np.testing.assert_array_equal(one.csdg_.similarity, many.csdg_.similarity)
    assert one.detected_instances_.tolist() == many.detected_instances_.tolist()


@pytest.mark.parametrize(
    ("parameter", "value"),
    [("working_score", "kde"), ("working_set_fraction", 0.0), ("decay", "best"), ("C", "best"),
     ("similarity", "cosine"), ("prototypes", "all"), ("max_updates", -1), ("max_candidates", 0),
     ("reading", "paper")],
)  # fmt: skip
def test_wrong_parameters_are_refused(parameter, value, ring):
    with pytest.raises(ValueError, match=f"'{parameter}' parameter of PIGMIL"):
        PIGMIL(**{parameter: value}).fit(ring)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("kde", "farthest", "kde must be one of"), ("damping", 1.5, "damping must be from 0 to 1"),
     ("alpha", "log", "alpha must be 'log-ratio' or a number from 0"),
     ("exemplar_C", 0, "exemplar_C must be a number above 0"),
     ("walk_iterations", 1.5, "walk_iterations must be an integer"),
     ("quasi_clique_density", 0.0, "quasi_clique_density must be above 0 and at most 1"),
     ("discrimination_relative", -1, "discrimination_relative must be a number from 0"),
     ("similarity_use", "always", "similarity_use must be one of"),
     ("margin", "wide", "margin must be a number"), ("penalty", -1.0, "penalty must be a number"),
     ("confidence_bias", "no", "confidence_bias must be True or False")],
)  # fmt: skip
def test_wrong_readings_are_refused(field, value, message):
    with pytest.raises(ValueError, match=f"Invalid PaperReading: {message}.*, got {value!r}"):
        PaperReading(**{field: value})
    with pytest.raises(ValueError, match=message):
        PIGMIL().set_params(**{f"reading__{field}": value})


def test_pieces_of_the_edge_weight_can_be_left_out():
    bags = make_rhombus(random_state=0)
    full, edges, none, no_d = (
        PIGMIL.faithful(max_updates=0, random_state=0, **changes).fit(bags).csdg_
        for changes in (
            {}, {"reading__similarity_use": "edges"}, {"reading__similarity_use": "none"},
            {"reading__beta": 0.0},
        )
    )  # fmt: skip
    np.testing.assert_array_equal(edges.similarity, full.similarity > 0)
    np.testing.assert_array_equal(edges.consistency, full.consistency)
    np.testing.assert_array_equal(none.similarity, 1 - np.eye(len(none.scores)))
    # Every pair belongs to the clique of all vertices.
    assert (none.consistency[none.similarity > 0] == len(none.scores)).all()
    # Without D an edge weighs S + alpha C, also at an exact copy of a negative.
    edge = full.similarity > 0
    s, c = full.similarity[edge], full.consistency[edge]
    np.testing.assert_allclose(no_d.weights[edge], s + np.maximum(10, np.log(c / s)) * c)
    assert (full.weights[edge] < no_d.weights[edge]).all()


def test_all_wrong_fields_of_a_reading_are_listed_at_once():
    with pytest.raises(ValueError, match=r"t_test must .*; gamma_far must .*; damping must "):
        PaperReading(t_test="z", gamma_far=-1.0, damping=2.0)


def test_a_reading_is_reached_by_set_params_and_survives_clone():
    model = PIGMIL().set_params(reading__t_test=None, decay=3.0)
    assert (model.reading.t_test, model.decay) == (None, 3.0)
    model.set_params(reading__alpha=1.0)
    assert model.reading == PaperReading(t_test=None, alpha=1.0)
    copied = clone(model)
    assert copied.reading == model.reading
    assert copied.get_params() == model.get_params()
    assert model.get_params()["reading__alpha"] == 1.0
    assert PIGMIL().get_params()["reading__alpha"] == "log-ratio"
    assert "reading__alpha" not in model.get_params(deep=False)
    with pytest.raises(ValueError, match=r"PaperReading has no field 'alfa'; it has kde, "):
        model.set_params(reading__alfa=1.0)


def test_a_reading_reaches_the_stages(ring):
    kept = PIGMIL(random_state=0, reading=PaperReading(t_test=None)).fit(ring)
    assert kept.working_bags_.kept.all()
    # Without D an edge weighs S + alpha C; with D many times heavier hardly any edge is left.
    light, heavy = (
        PIGMIL.paper(random_state=0, reading__discrimination_relative=k).fit(ring) for k in (0, 50)
    )
    assert (heavy.csdg_.weights > 0).sum() < (light.csdg_.weights > 0).sum()


def two_kinds(positive_bags, negative_bags):
    bags = [*positive_bags, *negative_bags]
    return Bags.from_list(bags, y=[1] * len(positive_bags) + [0] * len(negative_bags))


@pytest.mark.parametrize("make", [PIGMIL, PIGMIL.paper])
class TestDegenerateData:
    def check(self, model, bags):
        assert len(model.detected_instances_) >= 1
        assert np.isfinite(model.decision_function(bags)).all()
        assert not np.isnan(model.instance_scores_).any()
        assert not np.isnan(model.csdg_.weights).any()
        assert not np.isnan(model.csdg_.scores).any()

    def test_one_positive_bag(self, make):
        rng = np.random.default_rng(0)
        bags = two_kinds([rng.normal(3, 1, (4, 2))], [rng.normal(0, 1, (3, 2)) for _ in range(3)])
        self.check(make(random_state=0).fit(bags), bags)

    def test_one_bag_of_each_kind_with_one_instance(self, make):
        bags = two_kinds([np.array([[1.0, 2.0]])], [np.array([[0.0, 0.0]])])
        self.check(make(random_state=0).fit(bags), bags)

    def test_positive_bags_that_hold_copies_of_negatives_only(self, make):
        rng = np.random.default_rng(1)
        negative = [rng.normal(size=(3, 2)) for _ in range(4)]
        bags = two_kinds([bag.copy() for bag in negative[:3]], negative)
        model = make(random_state=0).fit(bags)
        self.check(model, bags)
        assert np.isneginf(model.csdg_.discrimination).all()
        assert (model.csdg_.weights == 0).all()

    def test_constant_features(self, make):
        rng = np.random.default_rng(2)
        parts = [np.column_stack([rng.normal(i % 2 * 3, 1, 4), np.ones(4)]) for i in range(8)]
        bags = two_kinds(parts[1::2], parts[::2])
        self.check(make(random_state=0).fit(bags), bags)

    def test_all_instances_the_same(self, make):
        bags = two_kinds([np.ones((2, 3))] * 2, [np.ones((2, 3))] * 2)
        self.check(make(random_state=0).fit(bags), bags)

    def test_a_graph_without_edges(self, make):
        positive = [np.array([[100.0 * i, 0.0]]) for i in range(1, 5)]
        bags = two_kinds(positive, [np.array([[100.0 * i + 1, 0.1]]) for i in range(1, 5)])
        self.check(make(random_state=0).fit(bags), bags)

    def test_thousands_of_instances_in_one_bag(self, make):
        rng = np.random.default_rng(3)
        positive = [rng.normal(size=(3000, 3)), rng.normal(2, 1, size=(2, 3))]
        bags = two_kinds(positive, [rng.normal(size=(50, 3)) for _ in range(3)])
        self.check(make(random_state=0, max_candidates=300).fit(bags), bags)

    def test_no_negative_bag_is_a_clear_error(self, make):
        with pytest.raises(ValueError, match="needs bags of both classes"):
            make().fit([np.zeros((2, 2)), np.ones((2, 2))], [1, 1])


@pytest.mark.parametrize("scaled", [True, False])
def test_inner_products_without_the_prototypes_of_a_fold(scaled):
    rng = np.random.default_rng(0)
    similarities, owner = rng.random((12, 7)), np.array([0, 0, 3, 5, 8, 9, 11])
    folds = [(None, np.arange(start, 12, 3)) for start in range(3)]
    found = _fold_grams(similarities, owner, folds, 2.0, scaled)
    for gram, (_, test) in zip(found, folds, strict=True):
        columns = similarities[:, ~np.isin(owner, test)] ** 2
        if scaled:
            columns = (columns - columns.mean(0)) / columns.std(0) / np.sqrt(columns.shape[1])
        np.testing.assert_allclose(gram, columns @ columns.T, atol=1e-12)
