"""Updating the candidate pool: replace its weakest instances one at a time (Algorithm 2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.graph.csdg import CSDG, CSDGSettings, build_csdg, normalise_weights, ranking_scores
from pigmil.graph.edges import (
    EXACT_VERTICES,
    choose_route,
    edges_needed,
    missing_allowed,
    n_chains,
)

__all__ = ["Trace", "UpdateResult", "UpdateStep", "update_pool"]

Objective = Literal["ranking_scores", "edge_sum"] | Callable[[CSDG], float]

# Bytes of consistencies remembered by graph, and their number: many tries lead to the same edges.
_MEMORY = 1 << 26
_REMEMBERED = 4096


@dataclass(frozen=True)
class UpdateStep:
    """One examined vertex, as handed to the callback.

    Attributes
    ----------
    n_updates : int
        Replacements made so far, this one included.
    vertex, bag : int
        Position in the pool that was examined, and its bag.
    tried : ndarray of int
        Candidates tried in its place.
    objective : float
        Of the pool after the step.
    accepted : int or None
        The candidate that moved in, if any.
    """

    n_updates: int
    vertex: int
    bag: int
    tried: IntArray
    objective: float
    accepted: int | None


@dataclass(frozen=True)
class Trace:
    """Every try of an updating, one row each, in the order they were made.

    Attributes
    ----------
    bag, vertex, instance : ndarray of int of shape (n_tries,)
        Bag examined, its position in the pool, and the candidate tried there.
    objective : ndarray of shape (n_tries,)
        Objective of the pool with that candidate.
    accepted : ndarray of bool of shape (n_tries,)
        Whether the candidate moved in.
    initial_objective : float
        Objective of the pool at the start.
    """

    bag: IntArray
    vertex: IntArray
    instance: IntArray
    objective: FloatArray
    accepted: BoolArray
    initial_objective: float

    def __len__(self) -> int:
        return len(self.bag)

    @classmethod
    def from_examined(
        cls,
        examined: list[tuple[int, int, IntArray, FloatArray, int | None]],
        initial_objective: float,
    ) -> "Trace":
        """Build a trace from examined vertices: bag, vertex, tried, objectives, position accepted.

        Examples
        --------
        >>> one = (7, 0, np.array([4, 5]), np.array([1.0, 2.0]), 1)
        >>> Trace.from_examined([one], 1.5).accepted
        array([False,  True])
        """
        counts = [len(tried) for _, _, tried, _, _ in examined]
        accepted = [np.arange(len(tried)) == best for _, _, tried, _, best in examined]
        return cls(
            bag=np.repeat(np.array([one[0] for one in examined], dtype=np.int64), counts),
            vertex=np.repeat(np.array([one[1] for one in examined], dtype=np.int64), counts),
            instance=np.concatenate([np.empty(0, np.int64), *(one[2] for one in examined)]),
            objective=np.concatenate([np.empty(0), *(one[3] for one in examined)]),
            accepted=np.concatenate([np.empty(0, np.bool_), *accepted]),
            initial_objective=initial_objective,
        )

    def replay(self, initial_pool: ArrayLike) -> list[IntArray]:
        """Return the pool after each accepted step; the last one is the final pool.

        Examples
        --------
        >>> trace = Trace(*np.array([[0, 0], [0, 0], [1, 2]]), np.array([5.0, 6.0]),
        ...               np.array([False, True]), 5.5)
        >>> trace.replay([0, 3])
        [array([2, 3])]
        """
        pool = np.array(initial_pool, dtype=np.int64)
        pools = []
        for row in np.flatnonzero(self.accepted):
            pool[self.vertex[row]] = self.instance[row]
            pools.append(pool.copy())
        return pools


@dataclass(frozen=True)
class UpdateResult:
    """The pool an updating ended with.

    Attributes
    ----------
    pool : ndarray of int of shape (n_bags,)
        Final candidates, each in the position of the one it replaced.
    csdg : CSDG
        Graph of the final pool.
    trace : Trace
        Every try.
    objective : float
        Of the final pool.
    n_updates : int
        Replacements made.
    stopped : {"last_vertex", "max_updates"}
        Why the updating ended.
    """

    pool: IntArray
    csdg: CSDG
    trace: Trace
    objective: float
    n_updates: int
    stopped: Literal["last_vertex", "max_updates"]


def update_pool(
    similarity: ArrayLike,
    discrimination: ArrayLike,
    self_confidence: ArrayLike,
    bag: ArrayLike,
    pool: ArrayLike,
    *,
    settings: CSDGSettings | None = None,
    max_updates: int = 20,
    objective: Objective = "ranking_scores",
    callback: Callable[[UpdateStep], None] | None = None,
) -> UpdateResult:
    """Replace the weakest instances of a pool as long as the graph gets better.

    Implements Alg. 2. The vertex of least ranking score is examined first: every other candidate
    of its bag is tried in its place, and the best one replaces it if it raises the objective. After
    a replacement the walk over the vertices begins anew at the lowest rank, passing over the
    newcomer if that is lowest; without one it goes on to the next vertex in increasing order and
    ends behind the last.

    Parameters
    ----------
    similarity : array-like of shape (n_candidates, n_candidates)
        Symmetric similarity of the instances of all working sets.
    discrimination, self_confidence : array-like of shape (n_candidates,)
        Of each candidate.
    bag : array-like of int of shape (n_candidates,)
        Bag of each candidate.
    pool : array-like of int of shape (n_vertices,)
        Candidates to begin with, no two of one bag.
    settings : CSDGSettings, optional
        How graphs are weighed and ranked.
    max_updates : int, default=20
        Replacements made at most.
    objective : {"ranking_scores", "edge_sum"} or callable, default="ranking_scores"
        What a replacement must raise: the sum of the ranking scores, the sum of the edge weights
        (Eq. (7)), or any function of a `CSDG`.
    callback : callable, optional
        Called with an `UpdateStep` after every examined vertex.

    Returns
    -------
    UpdateResult

    Notes
    -----
    Departs from the paper: "x_t' in the working set" is read as the best one, not any. The line
    "replace v_t' with v_t" of the accepting branch only names the vertex examined next. The text
    ends the updating when ``max_updates`` is reached, which is done here; the printed loop
    (``while n_update <= n_max``) makes one replacement more, so pass 21 to count as it does.

    The walk does not converge: scores of 1e11 are common, and a real gain in a small part of the
    graph may be 1e-12 of their sum. Objectives too close to be compared in double precision are
    computed to about 30 digits, so that no gain is refused and no rounding accepted. Among equal
    candidates the first one counts, among equal ranks the first vertex.

    Every pool, the present one as well as those tried, is scored by the same function of its
    content. So ``exact=None`` means branch and bound for pools of up to 30 instances and not
    beyond, however sparse: a route that changed between two pools would favour one of them.

    Cost: one walk for each try, and the consistency of each graph whose edges were not seen before;
    where it is exact, only the quasi-cliques through the replaced vertex are looked for. A pass
    without improvement tries every candidate once.

    Examples
    --------
    >>> import numpy as np
    >>> alike = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0]], dtype=float)
    >>> result = update_pool(alike, [-0.1] * 4, [1.0] * 4, bag=[0, 0, 1, 2], pool=[0, 2, 3])
    >>> result.pool
    array([1, 2, 3])
    """
    s, d, confidence, groups, now = _validate(
        similarity, discrimination, self_confidence, bag, pool
    )
    settings = settings or CSDGSettings()
    if settings.exact is None:
        settings = replace(settings, exact=len(now) <= EXACT_VERTICES)
    if not callable(objective) and objective not in ("ranking_scores", "edge_sum"):
        raise ValueError(
            f"objective must be 'ranking_scores', 'edge_sum' or callable, got {objective!r}."
        )
    compiled = _CompiledScorer.supports(settings, objective)
    scorer = (_CompiledScorer if compiled else _Scorer)(s, d, confidence, settings, objective)
    members = {int(g): np.flatnonzero(groups == g) for g in np.unique(groups[now])}
    tries: list[tuple[int, int, IntArray, FloatArray, int | None]] = []
    current = initial = scorer.score(now)
    n_updates = 0
    position = 0  # of the examined vertex in increasing order of rank
    while n_updates < max_updates and position < len(now):
        vertex = int(current.order[position])
        group = int(groups[now[vertex]])
        tried = members[group][members[group] != now[vertex]]
        values, best, best_score = scorer.best_replacement(now, vertex, tried, current)
        tries.append((group, vertex, tried, values, best))
        if best is None:
            position += 1
        else:
            now = _replaced(now, vertex, int(tried[best]))
            current = best_score
            n_updates += 1
            position = 1 if current.order[0] == vertex else 0
        if callback is not None:
            accepted = None if best is None else int(tried[best])
            callback(UpdateStep(n_updates, vertex, group, tried, current.value, accepted))
    return UpdateResult(
        pool=now,
        csdg=build_csdg(now, s, d, confidence, settings),
        trace=Trace.from_examined(tries, initial.value),
        objective=current.value,
        n_updates=n_updates,
        stopped="last_vertex" if position >= len(now) else "max_updates",
    )


@dataclass(frozen=True)
class _Score:
    """Objective of a pool, in terms that can be compared one by one, and its order of ranks.

    Row by row, ``terms`` holds two doubles whose sum is the term, and a bound on their error.
    Terms that a replacement leaves unchanged are equal to the last bit, however large.
    """

    terms: FloatArray
    order: IntArray

    @property
    def value(self) -> float:
        return math.fsum(self.terms[:2].ravel())

    def exceeds(self, other: "_Score") -> bool:
        gains = self.terms[:2] - other.terms[:2]
        errors = (self.terms[2] + other.terms[2])[gains.any(axis=0)]
        return math.fsum(gains.ravel()) > math.fsum(errors)


class _Scorer:
    """Score pools one graph at a time, for all settings and objectives."""

    def __init__(
        self,
        similarity: FloatArray,
        discrimination: FloatArray,
        self_confidence: FloatArray,
        settings: CSDGSettings,
        objective: Objective,
    ) -> None:
        self.candidates = (similarity, discrimination, self_confidence)
        self.settings = settings
        self.objective = objective

    def score(self, pool: IntArray) -> _Score:
        """Return the objective of a pool and its vertices in increasing order of rank."""
        from pigmil.graph._updating_kernels import EPSILON, precise_walk

        settings = self.settings
        csdg = build_csdg(pool, *self.candidates, settings)
        steps = sp.csr_array(settings.damping * normalise_weights(csdg.weights, settings.normalise))
        graph = steps.indptr.astype(np.int64), steps.indices.astype(np.int64), steps.data
        restart = (1 - settings.damping) * self.candidates[2][pool]
        start, n_products = self._start(len(pool)), settings.max_iter + 1
        scores, rest = precise_walk(*graph, restart, start, n_products)
        magnitudes, _ = precise_walk(*graph, np.abs(restart), np.abs(start), n_products)
        errors = magnitudes * (8 * EPSILON**2 * n_products * (len(pool) + 4))
        terms = np.array([scores, rest, errors])
        if callable(self.objective):
            terms = _exact(float(self.objective(csdg)))
        elif self.objective == "edge_sum":
            terms = _exact(csdg.weights[np.triu_indices(len(pool), 1)])
        return _Score(terms, np.argsort(scores, kind="stable"))

    def estimate(self, pool: IntArray, vertex: int, tried: IntArray) -> FloatArray:
        """Return the objective of every replacement and a bound on its rounding error."""
        scores = [self.score(_replaced(pool, vertex, x)) for x in tried]
        return np.array([(s.value, s.terms[2].sum()) for s in scores]).reshape(-1, 2)

    def best_replacement(
        self, pool: IntArray, vertex: int, tried: IntArray, current: _Score
    ) -> tuple[FloatArray, int | None, _Score]:
        """Return all objectives, the first of the best replacements if it is a gain, its score."""
        estimates = self.estimate(pool, vertex, tried)
        values, errors = estimates.T
        floor = max(current.value, (values - errors).max(initial=-np.inf))
        best, best_score = None, current
        for k in np.flatnonzero(values + errors >= floor):
            score = self.score(_replaced(pool, vertex, tried[k]))
            values[k] = score.value
            if score.exceeds(best_score):
                best, best_score = int(k), score
        return values, best, best_score

    def _start(self, n_vertices: int) -> FloatArray:
        """Return the scores the walk starts from: an identity step leaves them unchanged."""
        return ranking_scores(
            np.eye(n_vertices),
            np.zeros(n_vertices),
            damping=1.0,
            max_iter=0,
            start=self.settings.start,
        )


class _CompiledScorer(_Scorer):
    """Score all replacements of a vertex in one compiled loop, for the settings it knows.

    It holds the consistency of the present pool. That of a pool which differs in one vertex
    follows from it where it is exact.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        settings = self.settings
        alpha, beta = (
            math.nan if balance == "log-ratio" else float(balance)
            for balance in (settings.alpha, settings.beta)
        )
        self.rule = (
            alpha,
            beta,
            settings.alpha_on == "similarity",
            settings.discrimination_pair == "max",
            float(settings.discrimination_scale),
        )
        self.pool: IntArray | None = None
        self.sets: IntArray | None = None

    @staticmethod
    def supports(settings: CSDGSettings, objective: Objective) -> bool:
        """Return whether the kernel scores graphs of these settings."""
        by_edge = settings.normalise == "max" and settings.discrimination_relative is None
        return by_edge and not callable(objective)

    def score(self, pool: IntArray) -> _Score:
        changed = self._changed(pool)
        if self.pool is None or len(changed) > 1:
            self._move_to(pool)
        vertex = int(changed[0]) if len(changed) == 1 else 0
        scores = np.empty((3, len(pool)))
        self._try(pool, vertex, pool[[vertex]], scores)
        order = np.argsort(scores[0], kind="stable")
        if self.objective == "edge_sum":
            return replace(super().score(pool), order=order)
        return _Score(scores, order)

    def estimate(self, pool: IntArray, vertex: int, tried: IntArray) -> FloatArray:
        if self.pool is None or not np.array_equal(pool, self.pool):
            self._move_to(pool)
        return self._try(pool, vertex, tried, np.empty((0, 0)))

    def _try(self, pool: IntArray, vertex: int, tried: IntArray, scores: FloatArray) -> FloatArray:
        """Return the objectives of replacements, and their errors, from the kernel."""
        from pigmil.graph._updating_kernels import try_candidates

        return try_candidates(
            pool,
            vertex,
            tried,
            *self.candidates,
            self.edges,
            self.sizes,
            self.sets,
            self.limits,
            self.n_chains,
            self.memory,
            self.rule,
            float(self.settings.damping),
            self.start,
            self.settings.max_iter + 1,
            self.objective == "edge_sum",
            scores,
        )

    def _changed(self, pool: IntArray) -> IntArray:
        """Return the vertices at which a pool differs from the present one, if there is one."""
        return np.flatnonzero(pool != self.pool) if self.pool is not None else np.arange(0)

    def _move_to(self, pool: IntArray) -> None:
        """Make a pool the present one, whose vertices are replaced."""
        from pigmil.graph import _quasi_clique_update_kernels as kernels
        from pigmil.graph._updating_kernels import sizes_of

        n = len(pool)
        edges = (self.candidates[0][np.ix_(pool, pool)] > 0).astype(np.int8)
        np.fill_diagonal(edges, 0)
        changed = self._changed(pool)
        if self.pool is None:
            route = choose_route(edges, self.settings.exact)
            needed = edges_needed(n, self.settings.density)
            self.n_chains = None if route == "exact" else n_chains(n, route)
            self.limits = missing_allowed(needed) if route == "exact" else needed
            self.start = self._start(n)
            room = min(_REMEMBERED, max(1, _MEMORY // (8 * n * n)))
            graphs = np.empty((room, n, n), dtype=np.int64)
            self.memory = np.empty(room, dtype=np.int64), graphs, np.zeros(1, dtype=np.int64)
        if self.n_chains is not None and self.pool is None:
            self.sizes = kernels.fast_sizes(edges, self.limits, self.n_chains)
        elif self.n_chains is not None:
            how = self.limits, self.n_chains, self.memory
            self.sizes = sizes_of(edges, 0, self.sizes, None, *how).copy()
        elif self.sets is not None and len(changed) == 1:
            before = self.sizes, self.sets
            vertex = int(changed[0])
            self.sizes, self.sets = kernels.changed_sizes(edges, self.limits, vertex, *before)
        else:
            self.sizes, self.sets = kernels.exact_sizes(edges, self.limits)
        self.pool, self.edges = pool.copy(), edges


def _exact(values: ArrayLike) -> FloatArray:
    """Return the terms of an objective that is the sum of numbers without error."""
    total = np.zeros((3, 1))
    total[0] = math.fsum(np.atleast_1d(values))
    return total


def _replaced(pool: IntArray, vertex: int, instance: int) -> IntArray:
    changed = pool.copy()
    changed[vertex] = instance
    return changed


def _validate(
    similarity: ArrayLike,
    discrimination: ArrayLike,
    self_confidence: ArrayLike,
    bag: ArrayLike,
    pool: ArrayLike,
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Return the inputs as arrays, or raise one error that lists everything wrong with them."""
    s = np.asarray(similarity, dtype=np.float64)
    d = np.asarray(discrimination, dtype=np.float64)
    confidence = np.asarray(self_confidence, dtype=np.float64)
    groups = np.asarray(bag, dtype=np.int64)
    chosen = np.array(pool, dtype=np.int64)
    m = len(groups)
    problems = []
    if s.shape != (m, m):
        problems.append(f"similarity must have shape {(m, m)}, got {s.shape}")
    elif not np.array_equal(s, s.T):
        problems.append("similarity must be symmetric and without NaN")
    for name, values in (("discrimination", d), ("self_confidence", confidence)):
        if values.shape != (m,):
            problems.append(f"{name} must have shape {(m,)}, got {values.shape}")
    if not np.all(np.isfinite(confidence)):
        problems.append("self_confidence must be finite")
    if np.any(d > 0) or np.any(np.isnan(d)):
        problems.append("discrimination must be at most 0 and no NaN")
    if not len(chosen):
        problems.append("pool must hold at least one candidate")
    elif chosen.min() < 0 or chosen.max() >= m:
        problems.append(f"pool must hold indices from 0 to {m - 1}")
    elif len(np.unique(groups[chosen])) < len(chosen):
        problems.append("pool must not hold two candidates of one bag")
    if problems:
        raise ValueError("The pool cannot be updated: " + "; ".join(problems) + ".")
    return s, d, confidence, groups, chosen
