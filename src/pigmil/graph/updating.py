"""Updating the candidate pool: replace its weakest instances one at a time (Algorithm 2)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from pigmil._core.errors import import_optional
from pigmil._core.text import Table
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.graph.csdg import CSDG, first_scores, normalise_weights, rank_graph
from pigmil.graph.edges import EXACT_VERTICES, as_edges, edges_needed, is_exact, missing_allowed
from pigmil.graph.reading import PaperReading

# Bytes of consistencies remembered by graph: many tries lead to the same edges.
_MEMORY = 1 << 26
# Ranking scores that differ by less, relatively, differ by rounding.
_EQUAL_RANKS = 1e-14
_SHOWN = 20  # replacements of a trace, in a notebook or terminal


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


@dataclass(frozen=True, repr=False)
class Trace:
    """Every try of an updating, one row each, in the order they were made.

    Attributes
    ----------
    bag, vertex, present, instance : ndarray of int of shape (n_tries,)
        Bag examined, its position in the pool, the candidate there, and the one tried there.
    objective : ndarray of shape (n_tries,)
        Objective of the pool with that candidate.
    accepted : ndarray of bool of shape (n_tries,)
        Whether the candidate moved in.
    initial_objective : float
        Objective of the pool at the start.
    """

    bag: IntArray
    vertex: IntArray
    present: IntArray
    instance: IntArray
    objective: FloatArray
    accepted: BoolArray
    initial_objective: float

    def __len__(self) -> int:
        return len(self.bag)

    @classmethod
    def from_tries(
        cls, tries: list[tuple[int, int, int, int, float, bool]], initial_objective: float
    ) -> "Trace":
        """Build a trace from tries: bag, vertex, both instances, objective, whether accepted.

        Examples
        --------
        >>> Trace.from_tries([(7, 0, 3, 4, 1.0, False), (7, 0, 3, 5, 2.0, True)], 1.5).instance
        array([4, 5])
        """
        kinds = {"bag": int, "vertex": int, "present": int, "instance": int}
        table = np.array(tries, dtype=[*kinds.items(), ("objective", float), ("accepted", bool)])
        columns: dict[str, Any] = {name: table[name].copy() for name in table.dtype.names or ()}
        return cls(**columns, initial_objective=initial_objective)

    def replay(self, initial_pool: ArrayLike) -> list[IntArray]:
        """Return the pool after each accepted step; the last one is the final pool.

        Examples
        --------
        >>> trace = Trace.from_tries([(0, 0, 0, 1, 5.0, False), (0, 0, 0, 2, 6.0, True)], 5.5)
        >>> trace.replay([0, 3])
        [array([2, 3])]
        """
        pool = np.array(initial_pool, dtype=np.int64)
        pools = []
        for row in np.flatnonzero(self.accepted):
            pool[self.vertex[row]] = self.instance[row]
            pools.append(pool.copy())
        return pools

    def to_frame(self) -> Any:
        """Return the replacements as a pandas DataFrame: round, bag, out, in and objective.

        The objective is relative to that of the first pool, which is 1.
        """
        pandas = import_optional("pandas", extra="frames", purpose="A table of the replacements")
        return pandas.DataFrame(self._replacements())

    def _replacements(self) -> dict[str, Any]:
        rows = np.flatnonzero(self.accepted)
        return {
            "round": np.arange(1, len(rows) + 1),
            "bag": self.bag[rows],
            "out": self.present[rows],
            "in": self.instance[rows],
            "objective": self.objective[rows] / (abs(self.initial_objective) or 1.0),
        }

    def _table(self) -> Table:
        columns = self._replacements()
        rows = list(zip(*(values.tolist() for values in columns.values()), strict=True))
        return Table(list(columns), [(*row[:-1], f"{row[-1]:.3f}") for row in rows[:_SHOWN]])

    def __repr__(self) -> str:
        found = f"Trace: {int(self.accepted.sum())} replacements in {len(self)} tries"
        return f"{found}\n{self._table().markdown()}"

    def _repr_html_(self) -> str:
        return self._table().html()


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
    reading: PaperReading | None = None,
    exact: bool | None = None,
    max_updates: int = 20,
    random_state: Any = None,
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
    reading : PaperReading, optional
        How graphs are weighed and ranked.
    exact : bool, optional
        Whether consistency is exact; None: for pools of up to 30 instances.
    max_updates : int, default=20
        Replacements made at most.
    random_state : int, RandomState or None
        For a random start of the walks.
    callback : callable, optional
        Called with an `UpdateStep` after every examined vertex.

    Returns
    -------
    UpdateResult

    Notes
    -----
    Departs from the paper: "x_t' in the working set" is read as the best one, not any. The line
    "replace v_t' with v_t" of the accepting branch only names the vertex examined next. Eq. (7)
    maximises the sum of the edge weights, Alg. 2 the sum of the ranking scores, as here. The text
    ends the updating when ``max_updates`` is reached, which is done here; the printed loop
    (``while n_update <= n_max``) makes one replacement more, so pass 21 to count as it does.

    The walk does not converge: scores of 1e11 are common, and a real gain in a small part of the
    graph may be 1e-12 of their sum. So two pools are compared by walking with the difference of
    their scores: what a replacement leaves unchanged is exactly zero in it, however large the
    scores are. A gain within the rounding of what changed is none. Among equal candidates the
    first one counts, among equal ranks the first vertex.

    Alg. 1 ranks every pool once. With a random start it draws the scores that the walk begins with
    anew for each, and the scores of the pool that moved in are kept.

    Every pool, the present one as well as those tried, is scored by the same function of its
    content: a route of consistency that changed between two pools would favour one of them.

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
    exact = len(now) <= EXACT_VERTICES if exact is None else exact
    scorer = _Scorer(s, d, confidence, reading or PaperReading(), exact, random_state, now)
    tries: list[tuple[int, int, int, int, float, bool]] = []
    initial = scorer.current.objective
    n_updates = 0
    position = 0  # of the examined vertex in increasing order of rank
    while n_updates < max_updates and position < len(now):
        vertex = int(scorer.current.order[position])
        present = int(scorer.current.csdg.vertices[vertex])
        group = int(groups[present])
        tried = np.flatnonzero((groups == group) & (np.arange(len(groups)) != present))
        objectives, accepted = scorer.replace(vertex, tried)
        for candidate, value in zip(tried.tolist(), objectives, strict=True):
            tries.append((group, vertex, present, candidate, value, candidate == accepted))
        if accepted is None:
            position += 1
        else:
            n_updates += 1
            position = 1 if scorer.current.order[0] == vertex else 0
        if callback is not None:
            value = scorer.current.objective
            callback(UpdateStep(n_updates, vertex, group, tried, value, accepted))
    return UpdateResult(
        pool=scorer.current.csdg.vertices,
        csdg=scorer.current.csdg,
        trace=Trace.from_tries(tries, initial),
        objective=scorer.current.objective,
        n_updates=n_updates,
        stopped="last_vertex" if position >= len(now) else "max_updates",
    )


@dataclass(frozen=True)
class _RankedPool:
    """The graph of a pool, with what is needed to compare it with another one.

    Attributes
    ----------
    csdg : CSDG
        The graph.
    sets : array of int of shape (n_vertices, n_vertices), or None
        Where the consistency is exact, the mask of a quasi-clique of its size for each edge.
    steps : array of shape (n_vertices, n_vertices)
        Matrix of the walk: damped and normalised weights.
    restart, start : array of shape (n_vertices,)
        What a step of the walk adds, and the scores it begins with.
    objective : float
        Sum of the ranking scores.
    order : array of int of shape (n_vertices,)
        The vertices in increasing order of rank.
    """

    csdg: CSDG
    sets: IntArray | None
    steps: FloatArray
    restart: FloatArray
    start: FloatArray
    objective: float
    order: IntArray


class _Scorer:
    """Hold the present pool of Algorithm 2, and try other candidates in the place of a vertex."""

    def __init__(
        self,
        similarity: FloatArray,
        discrimination: FloatArray,
        self_confidence: FloatArray,
        reading: PaperReading,
        exact: bool,
        random_state: Any,
        pool: IntArray,
    ) -> None:
        from pigmil.graph import _kernels

        self.kernels: Any = _kernels
        self.similarity = similarity
        self.discrimination = discrimination
        self.self_confidence = self_confidence
        self.reading = reading
        drawn = reading.walk_start == "random"
        self.start = check_random_state(random_state) if drawn else None
        edges = as_edges(similarity[np.ix_(pool, pool)])
        needed = edges_needed(len(pool), reading.quasi_clique_density)
        self.is_exact = is_exact(edges, exact)
        self.limits = missing_allowed(needed) if self.is_exact else needed
        # Sizes and sets by the edges of a graph, those seen first in front.
        self.seen: dict[bytes, tuple[IntArray, IntArray | None]] = {}
        if self.is_exact:
            sizes, sets = _kernels.exact_sizes(edges, self.limits)
        else:
            sizes, sets = _kernels.search_sizes(edges, self.limits), None
        self.current = self._rank(pool, sizes, sets)

    def replace(self, vertex: int, tried: IntArray) -> tuple[list[float], int | None]:
        """Replace a vertex by the first of the best candidates tried, if that is a gain.

        Returns the objectives of all tried, and the candidate that moved in.
        """
        pool = self.current.csdg.vertices
        objectives: list[float] = []
        accepted, best = None, self.current
        for candidate in tried.tolist():
            joined = self.similarity[candidate, pool] > 0
            joined[vertex] = False
            others = np.where(np.arange(len(pool)) == vertex, candidate, pool)
            ranked = self._rank(others, *self._consistency(vertex, joined))
            objectives.append(ranked.objective)
            if self._is_better(ranked, best):
                accepted, best = candidate, ranked
        self.current = best
        return objectives, accepted

    def _consistency(self, vertex: int, joined: BoolArray) -> tuple[IntArray, IntArray | None]:
        """Return sizes and sets of the present graph with other edges at a vertex."""
        sizes, sets = self.current.csdg.consistency, self.current.sets
        edges = (sizes > 0).astype(np.int8)
        if np.array_equal(edges[vertex], joined):
            return sizes, sets
        edges[vertex] = edges[:, vertex] = joined
        key = np.packbits(edges).tobytes()
        if key not in self.seen:
            if self.is_exact:
                found = self.kernels.changed_sizes(edges, self.limits, vertex, sizes, sets)
            else:
                found = self.kernels.search_sizes(edges, self.limits), None
            if len(self.seen) * sizes.nbytes >= _MEMORY:
                del self.seen[next(iter(self.seen))]
            self.seen[key] = found
        return self.seen[key]

    def _rank(self, pool: IntArray, sizes: IntArray, sets: IntArray | None) -> _RankedPool:
        """Weigh and rank the graph of a pool (Definition 9 and Alg. 1)."""
        start, damping = first_scores(self.start, len(pool)), self.reading.damping
        alike = np.where(sizes > 0, self.similarity[np.ix_(pool, pool)], 0.0)
        confidence = self.self_confidence[pool]
        csdg = rank_graph(
            pool, alike, sizes, self.discrimination[pool], confidence, self.reading, start
        )
        return _RankedPool(
            csdg,
            sets,
            damping * normalise_weights(csdg.weights),
            (1 - damping) * confidence,
            start,
            math.fsum(csdg.scores),
            _increasing(csdg.scores),
        )

    def _is_better(self, new: _RankedPool, old: _RankedPool) -> bool:
        """Return whether the objective of one pool exceeds that of another beyond rounding.

        With steps E, restarts r and scores R, the difference of the scores after a product is
        ``(r_new - r_old) + E_new (R_new - R_old) + (E_new - E_old) R_old``.
        """
        more, changed = new.restart - old.restart, new.steps - old.steps
        gain = new.start - old.start
        size = np.abs(gain)  # of what the gain sums
        scores = old.start
        n_products = self.reading.walk_iterations + 1
        for _ in range(n_products):
            gain = more + new.steps @ gain + changed @ scores
            size = np.abs(more) + new.steps @ size + np.abs(changed) @ np.abs(scores)
            scores = old.restart + old.steps @ scores
        roundings = n_products * (len(more) + 4)
        return bool(math.fsum(gain) > math.fsum(size) * roundings * np.finfo(np.float64).eps)


def _increasing(scores: FloatArray) -> IntArray:
    """Return the vertices in increasing order of score, the first of equal ones first."""
    order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    larger = np.diff(ordered) > _EQUAL_RANKS * np.abs(ordered[1:])
    rank = np.concatenate([[0], np.cumsum(larger)])
    return order[np.lexsort((order, rank))]


def _validate(
    similarity: ArrayLike,
    discrimination: ArrayLike,
    self_confidence: ArrayLike,
    bag: ArrayLike,
    pool: ArrayLike,
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray]:
    """Return the inputs as arrays, or raise one error that lists everything wrong with them."""
    s, d, confidence = (
        np.asarray(values, dtype=np.float64)
        for values in (similarity, discrimination, self_confidence)
    )
    groups, chosen = np.asarray(bag, dtype=np.int64), np.array(pool, dtype=np.int64)
    m = len(groups)
    shapes = {"similarity": (s, (m, m)), "discrimination": (d, (m,)),
              "self_confidence": (confidence, (m,))}  # fmt: skip
    problems = [
        f"{name} must have shape {shape}, got {values.shape}"
        for name, (values, shape) in shapes.items()
        if values.shape != shape
    ]
    if s.shape == (m, m) and not np.array_equal(s, s.T):
        problems.append("similarity must be symmetric and without NaN")
    if not np.all(np.isfinite(confidence)):
        problems.append("self_confidence must be finite")
    if not np.all(d <= 0):
        problems.append("discrimination must be at most 0 and no NaN")
    if not len(chosen) or chosen.min() < 0 or chosen.max() >= m:
        problems.append(f"pool must hold at least one index, each from 0 to {m - 1}")
    elif len(np.unique(groups[chosen])) < len(chosen):
        problems.append("pool must not hold two candidates of one bag")
    if problems:
        raise ValueError("The pool cannot be updated: " + "; ".join(problems) + ".")
    return s, d, confidence, groups, chosen
