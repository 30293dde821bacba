"""Faithfulness of instance scores: how a classifier answers when instances are taken away."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import auc
from sklearn.utils import check_random_state

from pigmil._core.segments import offsets_of
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags, as_bags
from pigmil.evaluation._cells import bag_decision, positive_label
from pigmil.metrics import instance_scores


@dataclass(frozen=True)
class Faithfulness:
    """Mean decision values while instances are removed in three orders.

    Attributes
    ----------
    removed : array of shape (n_steps + 1,)
        Share of the instances of a bag that was removed, from 0 to all but one.
    most_first, least_first : array of shape (n_steps + 1,)
        Mean decision value of the bags, the highest or the lowest scores removed first.
    random : array of shape (n_random, n_steps + 1)
        The same for random orders, one row each.
    n_bags : int
        Number of bags.
    """

    removed: FloatArray
    most_first: FloatArray
    least_first: FloatArray
    random: FloatArray
    n_bags: int

    def areas(self) -> dict[str, float]:
        """Return the areas over the curves, and what they say about the scores.

        ``most_first``, ``least_first`` and ``random`` are the mean drop of the decision value over
        the shares removed, in its own units: a faithful score has a large drop when the most
        relevant are removed first, and a small one when the least relevant are. ``gain`` is the
        first minus the random one, ``symmetric_gain`` the first minus the second: 0 in the mean
        for random scores, negative for scores that are upside down.
        """
        most, least = self._drop(self.most_first), self._drop(self.least_first)
        random = float(np.mean([self._drop(curve) for curve in self.random]))
        return {
            "most_first": most,
            "least_first": least,
            "random": random,
            "gain": most - random,
            "symmetric_gain": most - least,
        }

    def _drop(self, curve: FloatArray) -> float:
        return float(auc(self.removed, curve[0] - curve))


def faithfulness(
    estimator: Any,
    X: Any,
    scores: Any = None,
    *,
    n_steps: int = 10,
    n_random: int = 5,
    random_state: Any = None,
) -> Faithfulness:
    """Remove instances by their score and record what a fitted classifier says of the rest.

    Only bags that the classifier calls positive take part. If the scores say which instances
    made it decide so, its decision value falls fast when the highest-scored are removed first, and
    stays when the lowest-scored are. Instance labels are not needed.

    Departs from the paper: instances are removed, not replaced. The last instance of a bag stays,
    so a share of 1 is all but one.

    Parameters
    ----------
    estimator : fitted classifier
        With ``decision_function`` or ``predict_proba``; pipelines and searches too.
    X : bags
        Anything :func:`pigmil.as_bags` takes.
    scores : array of shape (n_instances,), optional
        Score of each instance, from any source; those of the estimator itself if not given, see
        :func:`pigmil.instance_scores`. Of equal scores the earlier in the bag is removed first.
    n_steps : int, default=10
        Number of steps from nothing removed to all but one.
    n_random : int, default=5
        Number of random orders.
    random_state : int, RandomState or None
        For the random orders.

    Returns
    -------
    Faithfulness
        The curves; :meth:`Faithfulness.areas` sums them up and
        :func:`pigmil.report.plot_faithfulness` draws them.

    Notes
    -----
    Cost: ``(n_random + 2) * n_steps`` predictions for all bags called positive.

    References
    ----------
    Samek, Binder, Montavon, Lapuschkin, Müller: Evaluating the Visualization of What a Deep Neural
    Network Has Learned, IEEE TNNLS 28(11), 2017.

    Examples
    --------
    >>> from pigmil import MILES
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.evaluation import faithfulness
    >>> bags = make_ring(random_state=0)
    >>> curves = faithfulness(MILES().fit(bags), bags, random_state=0)
    >>> curves.areas()["symmetric_gain"] > 0
    True
    """
    if n_steps < 1 or n_random < 1:
        raise ValueError(f"n_steps and n_random must be 1 or more; got {n_steps} and {n_random}.")
    bags = as_bags(X)
    values = instance_scores(estimator, bags) if scores is None else np.asarray(scores, dtype=float)
    if values.shape != (bags.n_instances,):
        raise ValueError(
            f"scores have shape {values.shape}; expected one per instance, ({bags.n_instances},)."
        )
    positive = positive_label(estimator, bags.y)
    called = np.asarray(estimator.predict(bags)) == positive
    if not called.any():
        raise ValueError("The estimator calls none of the bags positive: nothing to remove from.")
    values, bags = values[called[bags.bag_index]], bags[np.flatnonzero(called)]
    rng = check_random_state(random_state)
    removed = np.linspace(0, 1, n_steps + 1)

    def curve(priority: FloatArray) -> FloatArray:
        ranks = _ranks(bags, priority)
        steps = [_mean_decision(estimator, _without(bags, ranks, q), positive) for q in removed]
        return np.array(steps)

    return Faithfulness(
        removed=removed,
        most_first=curve(values),
        least_first=curve(-values),
        random=np.array([curve(rng.random_sample(len(values))) for _ in range(n_random)]),
        n_bags=bags.n_bags,
    )


def _ranks(bags: Bags, priority: FloatArray) -> IntArray:
    """Return the position of every instance in its bag, highest priority first."""
    order = np.lexsort((-priority, bags.bag_index))
    ranks = np.empty(bags.n_instances, dtype=np.intp)
    ranks[order] = np.arange(bags.n_instances) - np.repeat(bags.offsets[:-1], bags.sizes)
    return ranks


def _without(bags: Bags, ranks: IntArray, share: float) -> Bags:
    """Return the bags without the given share of their first-ranked instances, but for one."""
    n_removed = np.floor(share * (bags.sizes - 1) + 0.5).astype(np.intp)
    rows = np.flatnonzero(ranks >= n_removed[bags.bag_index])
    return Bags(
        bags.instances[rows],
        offsets_of(bags.sizes - n_removed),
        feature_names=bags.feature_names,
        check_finite=False,
    )


def _mean_decision(estimator: Any, bags: Bags, positive: Any) -> float:
    decision = bag_decision(estimator, bags, positive)
    if decision is None:
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba: there is "
            "no value that could fall."
        )
    return float(np.mean(decision))
