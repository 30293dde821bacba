"""The record of an updating: every try, compact and replayable."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pigmil._core import state
from pigmil._core.model_parts import model_part
from pigmil._core.typing import FloatArray, IntArray

__all__ = ["Trace", "UpdateStep"]


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


@model_part
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

    _state: ClassVar[dict[str, state.Field]] = {
        "bag": state.Integers(shape=("tries",)),
        "vertex": state.Integers(shape=("tries",)),
        "instance": state.Integers(shape=("tries",)),
        "objective": state.Floats(shape=("tries",), nan=True, infinite=True),
        "accepted": state.Flags(shape=("tries",)),
        "initial_objective": state.Number(infinite=True),
    }

    bag: IntArray
    vertex: IntArray
    instance: IntArray
    objective: FloatArray
    accepted: NDArray[np.bool_]
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
