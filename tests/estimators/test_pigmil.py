"""The whole of PIGMIL: what it exposes, what it finds, and how it ends on degenerate data."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from pigmil import PIGMIL, Bags, PaperReading
from pigmil.datasets import make_basic, make_rhombus, make_ring
from pigmil.estimators._prototype_svm import _fold_grams, _scaled

SETS = {"basic": make_basic, "rhombus": make_rhombus, "ring": make_ring}


@pytest.fixture(scope="module")
def ring():
    return make_ring(random_state=3)


@pytest.fixture(scope="module")
def model(ring):
    return PIGMIL(random_state=0).fit(ring)


@pytest.mark.parametrize(
    ("make", "least"),
    [(PIGMIL, {"basic": 0.97, "rhombus": 0.97, "ring": 0.995}), (PIGMIL.paper, {})],
)
@pytest.mark.parametrize("name", SETS)
def test_detection_on_the_synthetic_sets(name, make, least):
    shares = []
    for seed in range(5):
        bags = SETS[name](random_state=seed)
        found = make(C=1.0, embedding_decay=1.0, random_state=0).fit(bags).detected_instances_
        shares.append((bags.instance_labels[found] == 1).mean())
    assert np.mean(shares) >= least.get(name, 0.8)


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
    train, test = needles(0), needles(1)
    model = PIGMIL(prototypes=prototypes, C=10.0, embedding_decay=3.0, random_state=0).fit(train)
    members = [np.flatnonzero(train.bag_index == train.bag_index[x]) for x in model.pool_]
    worst = [rows[np.argmin(model.instance_scores_[rows])] for rows in members]
    accuracy = model.score(test, test.y)
    assert accuracy > 0.9
    assert accuracy > model.with_pool(train, worst).score(test, test.y) + 0.3
    drawn = [rng.choice(rows) for rows in members]
    assert accuracy > model.with_pool(train, drawn).score(test, test.y) + 0.05


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
    assert model.working_bags_.t.shape == model.working_bags_.working.shape == (len(positive),)
    assert (model.working_bags_.t[model.working_bags_.working] <= 1.5).all()
    for bag, members in zip(positive, model.working_sets_, strict=True):
        assert (ring.bag_index[members] == bag).all()
        assert len(members) == 4  # ceil(0.4 * 8)
    working = positive[model.working_bags_.working]
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


def test_the_bag_classifier_sees_what_was_detected_and_negative_bags_only(ring):
    model = PIGMIL(random_state=0).fit(ring)
    other = make_ring(random_state=12)
    before = model.decision_function(other)
    for bag in np.flatnonzero(ring.y == 1):
        chosen = model.prototypes_[ring.bag_index[model.prototypes_] == bag]
        best = np.sort(model.instance_scores_[ring.bag_index == bag])[-2:]
        assert sorted(model.instance_scores_[chosen]) == best.tolist()
    np.testing.assert_array_equal(model._pool_instances, ring.instances[model.pool_])
    # The refined pool behind the instance scores has no part in it.
    model._scoring_pool = model._scoring_pool + 100.0
    np.testing.assert_array_equal(model.decision_function(other), before)


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("pool", 18),
        ("pool+hard_negatives", 38),
        ("best+hard_negatives", 60),
        ("all_instances", 320),
    ],
)
def test_prototypes(kind, count, ring, model):
    fitted = PIGMIL(random_state=0, prototypes=kind).fit(ring)
    shift = len(model.detected_instances_) - 18
    assert len(fitted.prototypes_) == count + (shift if kind.startswith("pool") else 0)
    if kind.endswith("hard_negatives"):
        hard = fitted.prototypes_[-20:]
        assert (ring.y[ring.bag_index[hard]] == -1).all()
        pool = ring.instances[fitted.prototypes_[:-20]]
        for flat, bag in zip(hard, np.flatnonzero(ring.y == -1), strict=True):
            gaps = [np.linalg.norm(pool - x, axis=1).min() for x in ring[bag]]
            assert flat == ring.offsets[bag] + np.argmin(gaps)


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


def test_the_number_of_candidates_is_bounded_aloud(ring, caplog):
    with caplog.at_level(logging.WARNING, logger="pigmil"):
        model = PIGMIL(random_state=0, max_candidates=30).fit(ring)
    assert "max_candidates=30" in caplog.text
    assert len(model.detected_instances_) == model.working_bags_.working.sum()


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
    ("field", "value"),
    [("damping", 1.5), ("alpha", "log"), ("exemplar_C", 0), ("walk_iterations", 1.5),
     ("quasi_clique_density", 0.0), ("discrimination_relative", -1), ("similarity_use", "always"),
     ("margin", "wide"), ("penalty", -1.0), ("confidence_bias", "no")],
)  # fmt: skip
def test_wrong_readings_are_refused(field, value):
    message = f"The '{field}' parameter of PaperReading must be .* Got {value!r} instead"
    with pytest.raises(ValueError, match=message):
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


def test_a_reading_is_reached_by_set_params_and_survives_clone():
    model = PIGMIL().set_params(reading__t_threshold=None, decay=3.0)
    assert (model.reading.t_threshold, model.decay) == (None, 3.0)
    model.set_params(reading__alpha=1.0)
    assert model.reading == PaperReading(t_threshold=None, alpha=1.0)
    copied = clone(model)
    assert copied.reading == model.reading
    assert copied.get_params() == model.get_params()
    assert model.get_params()["reading__alpha"] == 1.0
    assert PIGMIL().get_params()["reading__alpha"] == "log-ratio"
    assert "reading__alpha" not in model.get_params(deep=False)
    with pytest.raises(ValueError, match=r"PaperReading has no field 'alfa'; it has margin, "):
        model.set_params(reading__alfa=1.0)


def test_a_reading_reaches_the_stages(ring):
    kept = PIGMIL(random_state=0, reading=PaperReading(t_threshold=None)).fit(ring)
    assert kept.working_bags_.working.all()
    # Without D an edge weighs S + alpha C; with D many times heavier hardly any edge is left.
    light, heavy = (
        PIGMIL.paper(random_state=0, reading__discrimination_relative=k).fit(ring) for k in (0, 50)
    )
    assert (heavy.csdg_.weights > 0).sum() < (light.csdg_.weights > 0).sum()


def two_kinds(positive_bags, negative_bags):
    bags = [*positive_bags, *negative_bags]
    return Bags.from_list(bags, y=[1] * len(positive_bags) + [0] * len(negative_bags))


RNG = np.random.default_rng(0)
DEGENERATE = {
    "one positive bag": (RNG.normal(3, 1, (1, 4, 2)), RNG.normal(0, 1, (3, 3, 2))),
    "one instance each": (np.array([[[1.0, 2.0]]]), np.zeros((1, 1, 2))),
    "all the same": (np.ones((2, 2, 3)), np.ones((2, 2, 3))),
    "constant feature": (
        np.insert(RNG.normal(3, 1, (4, 4, 1)), 1, 1.0, axis=2),
        np.insert(RNG.normal(0, 1, (4, 4, 1)), 1, 1.0, axis=2),
    ),
    "no edges": (
        np.array([[[100.0 * i, 0.0]] for i in range(1, 5)]),
        np.array([[[100.0 * i + 1, 0.1]] for i in range(1, 5)]),
    ),
    "large bag": ([RNG.normal(size=(3000, 3)), np.ones((2, 3))], RNG.normal(size=(3, 50, 3))),
}


@pytest.mark.parametrize("make", [PIGMIL, PIGMIL.paper])
@pytest.mark.parametrize("name", [*DEGENERATE, "copies"])
def test_degenerate_data_end_in_finite_numbers(name, make):
    copies = RNG.normal(size=(4, 3, 2))
    positive, negative = DEGENERATE.get(name, (copies[:3], copies))
    bags = two_kinds(positive, negative)
    model = make(random_state=0, max_candidates=300).fit(bags)
    assert len(model.detected_instances_) >= 1
    assert np.isfinite(model.decision_function(bags)).all()
    for values in (model.instance_scores_, model.csdg_.weights, model.csdg_.scores):
        assert not np.isnan(values).any()
    if name == "copies":
        assert np.isneginf(model.csdg_.discrimination).all()
        assert (model.csdg_.weights == 0).all()


@pytest.mark.parametrize("scaled", [True, False])
def test_inner_products_without_the_prototypes_of_a_fold(scaled):
    rng = np.random.default_rng(0)
    similarities, owner = rng.random((12, 7)), np.array([0, 0, 3, 5, 8, 9, 11])
    folds = [(None, np.arange(start, 12, 3)) for start in range(3)]
    found = _fold_grams(_scaled(similarities, scaled)[0], owner, folds, scaled)
    for gram, (_, test) in zip(found, folds, strict=True):
        columns = similarities[:, ~np.isin(owner, test)]
        if scaled:
            columns = (columns - columns.mean(0)) / columns.std(0) / np.sqrt(columns.shape[1])
        np.testing.assert_allclose(gram, columns @ columns.T, atol=1e-12)
