"""Algorithm 2: a plain twin from the paper, replay, stopping, and what decides a replacement."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pigmil.graph import consistency, update_pool
from pigmil.graph.edges import is_exact
from pigmil.graph.updating import Trace


@pytest.fixture(scope="session")
def twin(exhaustive, loop_weights):
    """Algorithm 2 in plain Python; walks and comparisons in exact fractions, no tolerance."""

    def exact_scores(weights, confidence):
        m = len(confidence)
        largest = Fraction(weights.max()) or 1
        share = [[(j, Fraction(w) / largest) for j, w in enumerate(row) if w] for row in weights]
        scores = [Fraction(1)] * m
        for _ in range(11):
            scores = [
                Fraction(confidence[i]) / 5 + sum(e * scores[j] for j, e in share[i]) * 4 / 5
                for i in range(m)
            ]
        return scores

    def score(pool, s, d, confidence, sizes_of):
        s = np.array([[0.0 if i == j else s[i, j] for j in pool] for i in pool])
        sizes = exhaustive(s, 0.9) if sizes_of is None else sizes_of(s)
        weights = loop_weights(s, sizes, [d[i] for i in pool])
        ranks = exact_scores(weights, [confidence[i] for i in pool])
        return sum(ranks), ranks

    def increasing(ranks):
        return sorted(range(len(ranks)), key=lambda v: (ranks[v], v))

    def run(s, d, confidence, bag, pool, max_updates, sizes_of=None):
        pool = list(pool)
        rows = []
        now, ranks = score(pool, s, d, confidence, sizes_of)
        v_t = increasing(ranks)[0]
        n_update = 0
        while n_update < max_updates:
            best, best_value = None, now
            first = len(rows)
            for x in range(len(bag)):
                if bag[x] == bag[pool[v_t]] and x != pool[v_t]:
                    tried = [*pool[:v_t], x, *pool[v_t + 1 :]]
                    value, _ = score(tried, s, d, confidence, sizes_of)
                    rows.append([bag[x], v_t, x, float(value), False])
                    if value > best_value:
                        best, best_value = x, value
            order = increasing(ranks)
            if best is None:
                if order[-1] == v_t:
                    return pool, rows
                v_t = order[order.index(v_t) + 1]
            else:
                pool[v_t] = best
                for row in rows[first:]:
                    row[4] = row[2] == best
                now, ranks = score(pool, s, d, confidence, sizes_of)
                order = increasing(ranks)
                n_update += 1
                if order[0] != v_t:
                    v_t = order[0]
                elif len(order) > 1:
                    v_t = order[1]
                else:
                    return pool, rows
        return pool, rows

    return run


def random_problem(rng, n_bags, largest_bag, share):
    """Candidates with ranks-like similarities, some copies of negatives among them."""
    bag = np.repeat(np.arange(n_bags), rng.integers(1, largest_bag + 1, size=n_bags))
    bag = rng.permutation(bag)
    m = len(bag)
    rank = rng.integers(1, m + 1, size=(m, m))
    s = np.triu((rng.random((m, m)) < share) / (rank * rank.T), 1)
    d = -rng.exponential(size=m)
    d[rng.random(m) < 0.1] = -np.inf
    pool = [int(rng.choice(np.flatnonzero(bag == g))) for g in rng.permutation(n_bags)]
    return s + s.T, d, rng.normal(1.0, 1.0, size=m), bag * 7 + 3, np.array(pool)


def assert_equals_twin(twin, problem, max_updates, sizes_of=None, **how):
    result = update_pool(*problem, max_updates=max_updates, **how)
    pool, rows = twin(*problem, max_updates, sizes_of)
    trace = result.trace
    assert result.pool.tolist() == pool
    assert trace.bag.tolist() == [row[0] for row in rows]
    assert trace.vertex.tolist() == [row[1] for row in rows]
    assert trace.instance.tolist() == [row[2] for row in rows]
    assert trace.accepted.tolist() == [row[4] for row in rows]
    np.testing.assert_allclose(trace.objective, [row[3] for row in rows], rtol=1e-12, atol=1e-12)
    return result


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 0.6, 0.8, 1.0]),
    st.sampled_from([0, 1, 2, 20]),
)
@settings(max_examples=80)
def test_equals_the_twin(twin, seed, n_bags, largest_bag, share, max_updates):
    problem = random_problem(np.random.default_rng(seed), n_bags, largest_bag, share)
    assert_equals_twin(twin, problem, max_updates)


@pytest.mark.compiled
@given(
    st.integers(0, 2**32 - 1),
    st.integers(8, 14),
    st.sampled_from([0.1, 0.3, 0.6]),
    st.booleans(),
)
@settings(max_examples=25)
def test_equals_a_plain_loop_in_larger_pools(twin, seed, n_bags, share, exact):
    # The loop computes the consistency of every try from scratch, by the same route.
    problem = random_problem(np.random.default_rng(seed), n_bags, 4, share)
    assert_equals_twin(twin, problem, 3, lambda s: consistency(s, exact=exact), exact=exact)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(0, 6))
@settings(max_examples=40)
def test_replay_ends_at_the_final_pool(seed, n_bags, max_updates):
    problem = random_problem(np.random.default_rng(seed), n_bags, 4, 0.5)
    initial = problem[-1].copy()
    result = update_pool(*problem, max_updates=max_updates)
    np.testing.assert_array_equal(problem[-1], initial)
    pools = [initial, *result.trace.replay(initial)]
    leaving = [
        pool[at]
        for pool, at in zip(pools, result.trace.vertex[result.trace.accepted], strict=False)
    ]
    assert result.trace.present[result.trace.accepted].tolist() == leaving
    assert len(pools) - 1 == result.n_updates == result.trace.accepted.sum() <= max_updates
    np.testing.assert_array_equal(pools[-1], result.pool)
    for before, after in pairwise(pools):
        assert np.sum(before != after) == 1
        assert np.array_equal(problem[3][before], problem[3][after])
    values = [result.trace.initial_objective, *result.trace.objective[result.trace.accepted]]
    assert np.all(np.diff(values) >= 0)  # a gain may be less than the spacing of floats
    assert result.objective == values[-1]


def test_first_of_equal_replacements_moves_in():
    s = np.zeros((4, 4))
    s[1:, 1:] = 1.0
    result = update_pool(s, [-0.1] * 4, [1.0] * 4, [0, 0, 0, 1], [0, 3])
    assert result.pool.tolist() == [1, 3]
    assert result.trace.instance.tolist()[:2] == [1, 2]


def test_walk_passes_over_a_newcomer_of_lowest_rank():
    # The newcomer 1 improves the pool and still ranks lowest: vertex 1 is examined next.
    result = update_pool(
        np.zeros((4, 4)), [-1.0] * 4, [0.0, 1.0, 5.0, 4.0], [0, 0, 1, 1], [0, 2], max_updates=9
    )
    assert result.pool.tolist() == [1, 2]
    assert result.trace.vertex.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 2)), [-1.0] * 3, [1.0] * 3, [0, 0, 1], [0, 1]),
         r"shape \(3, 3\), got \(2, 2\).*two candidates of one"),
        (([[0, 1], [0, 0]], [-1.0] * 2, [1.0] * 2, [0, 1], [2]), "symmetric.*from 0 to 1"),
        ((np.zeros((2, 2)), [-1.0], [1.0, np.nan], [0, 1], []),
         r"discrimination must have shape \(2,\).*finite.*at least"),
        ((np.zeros((2, 2)), [-1.0, 1.0], [1.0, 1.0], [0, 1], [0]), "at most 0"),
    ],
)  # fmt: skip
def test_errors_list_everything_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        update_pool(*arguments)


def test_route_of_consistency_is_the_same_for_all_pools():
    # The first pool is sparse enough for branch and bound on its own; others need not be.
    problem = random_problem(np.random.default_rng(0), 32, 3, 0.4)
    assert is_exact(problem[0][np.ix_(problem[4], problem[4])] > 0, None)
    by_default, searched = (
        update_pool(*problem, max_updates=1, exact=exact) for exact in (None, False)
    )
    np.testing.assert_array_equal(by_default.trace.objective, searched.trace.objective)


def large_and_small_component(gain):
    """A clique of 40 drives the objective beyond 1e14; bag 40 offers a gain in a pair beside it.

    The pair is too weak for the clique's consistency to matter: its discrimination takes all
    but a little of the weight away.
    """
    s = np.zeros((43, 43))
    s[:40, :40] = 1.0
    np.fill_diagonal(s, 0.0)
    confidence = np.ones(43)
    confidence[41] += gain
    return s, -0.1 * np.ones(43), confidence, [*range(40), 40, 40, 41], [*range(41), 42]


@pytest.mark.parametrize("gain", [1.0, 1e-3, 1e-9])
def test_a_small_gain_beside_a_large_objective_is_accepted(gain):
    result = update_pool(*large_and_small_component(gain))
    assert result.trace.initial_objective > 1e14
    assert result.pool.tolist() == [*range(40), 41, 42]
    assert result.n_updates == 1


@pytest.mark.parametrize("gain", [0.0, -1e-9])
def test_no_gain_beside_a_large_objective_is_not_accepted(gain):
    assert update_pool(*large_and_small_component(gain)).n_updates == 0


def test_equal_up_to_the_order_of_the_sums_is_no_gain():
    # Bag 0 may join either of two triangles that differ in the position of their vertices only.
    rng = np.random.default_rng(0)
    for _ in range(20):
        weight = rng.random(3)
        s = np.zeros((8, 8))
        for first, second, third in ((2, 3, 4), (5, 7, 6)):
            s[first, second] = s[second, first] = weight[0]
            s[first, third] = s[third, first] = weight[1]
            s[second, third] = s[third, second] = weight[2]
        for x, ends in ((0, (2, 3, 4)), (1, (5, 7, 6))):
            for end, value in zip(ends, (0.3, 0.1, 0.7), strict=True):
                s[x, end] = s[end, x] = value
        problem = s, -0.1 * np.ones(8), np.ones(8), [0, 0, 1, 2, 3, 4, 5, 6]
        for pool in ([0, *range(2, 8)], [1, *range(2, 8)]):
            assert update_pool(*problem, pool).n_updates == 0


def test_forgotten_consistencies_are_computed_again(monkeypatch):
    problem = random_problem(np.random.default_rng(7), 8, 4, 0.5)
    expected = update_pool(*problem).trace
    monkeypatch.setattr("pigmil.graph.updating._MEMORY", 1)
    np.testing.assert_array_equal(update_pool(*problem).trace.objective, expected.objective)


def test_a_trace_is_shown_as_a_table_relative_to_the_start():
    tries = [(7, 0, 1, 4, 1.0, False), (7, 0, 1, 5, 2.0, True), (3, 1, 2, 9, 2.5, True)]
    trace = Trace.from_tries(tries, 2.0)
    assert "2 replacements in 3 tries" in repr(trace)
    assert "| 2 | 3 | 2 | 9 | 1.250 |" in repr(trace)
    assert "<td" in trace._repr_html_()
    pytest.importorskip("pandas")
    frame = trace.to_frame()
    assert frame["out"].tolist() == [1, 2]
    assert frame["objective"].tolist() == [1.0, 1.25]
