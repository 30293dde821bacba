"""Updating the candidate pool: replace its weakest instances one at a time (Algorithm 2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pigmil._core.typing import FloatArray, IntArray
from pigmil.graph.consistency import EXACT_VERTICES
from pigmil.graph.csdg import CSDG, CSDGSettings, build_csdg
from pigmil.graph.trace import Row, Trace, UpdateStep

__all__ = ["Trace", "UpdateResult", "UpdateStep", "update_pool"]

Objective = Literal["ranking_scores", "edge_sum"] | Callable[[CSDG], float]

# Gains below this share of the objective are rounding, and no ground for a replacement.
TOLERANCE = 1e-9


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
    of its bag is tried in its place, and the best one moves in if it raises the objective. After a
    replacement the walk over the vertices begins anew at the lowest rank, passing over the
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
        (Eq. (6)), or any function of a `CSDG`.
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
    A gain must exceed a billionth of the objective, so that rounding decides nothing; among equal
    candidates the first one counts, among equal ranks the first vertex.

    Every pool, the present one as well as those tried, is scored by the same function of its
    content, and remembered by content. So ``exact=None`` means branch and bound for pools of up
    to 30 instances and not beyond, however sparse: a route that changed between two pools would
    favour one of them.

    Cost: one `consistency` of the pool's graph for each try. A pass without improvement tries
    every candidate once.

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
    members = {int(g): np.flatnonzero(groups == g) for g in np.unique(groups[now])}
    settings = settings or CSDGSettings()
    if settings.exact is None:
        settings = replace(settings, exact=len(now) <= EXACT_VERTICES)
    scorer = _Scorer(s, d, confidence, settings, objective)
    rows: list[Row] = []
    value, order = scorer(now)
    initial_objective = value
    n_updates = 0
    place = 0  # position of the examined vertex in increasing order of rank
    while n_updates < max_updates and place < len(now):
        vertex = int(order[place])
        group = int(groups[now[vertex]])
        tried = members[group][members[group] != now[vertex]]
        values = np.array([scorer(_replaced(now, vertex, x))[0] for x in tried])
        best = _first_best(values, value)
        rows += [
            (group, vertex, int(x), float(v), False) for x, v in zip(tried, values, strict=True)
        ]
        if best is None:
            place += 1
        else:
            accepted = len(rows) - len(tried) + best
            rows[accepted] = (*rows[accepted][:4], True)
            now = _replaced(now, vertex, tried[best])
            value, order = scorer(now)
            n_updates += 1
            place = 1 if order[0] == vertex else 0
        if callback is not None:
            newcomer = None if best is None else int(tried[best])
            callback(UpdateStep(n_updates, vertex, group, tried, value, newcomer))
    return UpdateResult(
        pool=now,
        csdg=build_csdg(now, s, d, confidence, scorer.settings),
        trace=Trace.from_rows(rows, initial_objective),
        objective=value,
        n_updates=n_updates,
        stopped="last_vertex" if place >= len(now) else "max_updates",
    )


class _Scorer:
    """Objective and increasing order of rank of a pool, remembered by the pool's content."""

    def __init__(
        self,
        similarity: FloatArray,
        discrimination: FloatArray,
        self_confidence: FloatArray,
        settings: CSDGSettings,
        objective: Objective,
    ) -> None:
        self.parts = (similarity, discrimination, self_confidence)
        self.settings = settings
        self.objective = objective
        self.known: dict[bytes, tuple[float, IntArray]] = {}

    def __call__(self, pool: IntArray) -> tuple[float, IntArray]:
        key = pool.tobytes()
        if key not in self.known:
            csdg = build_csdg(pool, *self.parts, self.settings)
            self.known[key] = (self._value(csdg), _increasing(csdg.scores))
        return self.known[key]

    def _value(self, csdg: CSDG) -> float:
        if callable(self.objective):
            return float(self.objective(csdg))
        if self.objective == "ranking_scores":
            return float(csdg.scores.sum())
        if self.objective == "edge_sum":
            return float(np.triu(csdg.weights, 1).sum())
        raise ValueError(
            f"objective must be 'ranking_scores', 'edge_sum' or callable, got {self.objective!r}."
        )


def _increasing(scores: FloatArray) -> IntArray:
    """Order of increasing score; scores equal up to rounding keep the order of the vertices."""
    scale = float(np.abs(scores).max(initial=0.0)) or 1.0
    order: IntArray = np.argsort(np.round(scores / scale, 10), kind="stable")
    return order


def _first_best(values: FloatArray, value: float) -> int | None:
    """Return the first of the best values if it beats the present one beyond rounding."""
    if not len(values):
        return None
    top = values.max()
    slack = TOLERANCE * max(abs(value), abs(top))
    if not top > value + slack:
        return None
    return int(np.argmax(values >= top - slack))


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
