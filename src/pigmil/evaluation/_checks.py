"""Whether a method keeps the usual assumptions, and whether its scores explain its decisions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student_t
from sklearn.metrics import auc, roc_auc_score
from sklearn.utils import check_random_state

from pigmil._core.errors import import_optional
from pigmil._core.segments import offsets_of, segment_reduce
from pigmil._core.text import to_json_safe
from pigmil._core.typing import FloatArray, IntArray
from pigmil.bags import Bags, as_bags
from pigmil.datasets import ASSUMPTION_TESTS, make_assumption_bags
from pigmil.estimators.base import decision_values
from pigmil.evaluation._cells import bag_decision, positive_label, recorded_warnings, seeded_clone
from pigmil.metrics import instance_scores


@dataclass(frozen=True)
class AssumptionTest:
    """The areas under the curve of one test, by seed.

    Attributes
    ----------
    test : str
        Its name, see :func:`pigmil.datasets.make_assumption_bags`.
    train_auc, test_auc : array of shape (n_seeds,)
        On the bags the model was fitted to, and on the test bags.
    """

    test: str
    train_auc: FloatArray = field(repr=False)
    test_auc: FloatArray = field(repr=False)

    @property
    def interval(self) -> tuple[float, float]:
        """Student's 95 % confidence interval of the mean of ``test_auc``."""
        n_seeds, mean = len(self.test_auc), float(self.test_auc.mean())
        error = float(self.test_auc.std(ddof=1)) / np.sqrt(n_seeds)
        margin = float(student_t.ppf(0.975, n_seeds - 1)) * error
        return mean - margin, mean + margin

    @property
    def verdict(self) -> str:
        """``"pass"`` if test bags are ranked better than by chance, ``"fail"`` if worse.

        ``"chance"`` if the interval holds 0.5: nothing was learned that generalises.
        ``"unlearned"`` if not even the training bags are ranked better than by chance: then the
        test bags say nothing.
        """
        if self.train_auc.mean() <= 0.5:
            return "unlearned"
        low, high = self.interval
        if low > 0.5:
            return "pass"
        return "fail" if high < 0.5 else "chance"


@dataclass(frozen=True)
class Assumptions:
    """Results of the three tests for one estimator; :meth:`table` shows them.

    Attributes
    ----------
    estimator : str
        The estimator, as it prints itself.
    tests : tuple of AssumptionTest
        One per test.
    """

    estimator: str
    tests: tuple[AssumptionTest, ...]

    @property
    def passed(self) -> bool:
        """Whether all tests are passed."""
        return all(one.verdict == "pass" for one in self.tests)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per test: its name, mean areas, interval and verdict."""
        rows = [
            {"test": one.test, "train_auc": one.train_auc.mean(), "test_auc": one.test_auc.mean(),
             "low": one.interval[0], "high": one.interval[1], "verdict": one.verdict}
            for one in self.tests
        ]  # fmt: skip
        return [to_json_safe(row) for row in rows]

    def table(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        pandas = import_optional("pandas", extra="evaluation", purpose="A table of assumptions")
        return pandas.DataFrame(self.rows()).set_index("test")

    def __str__(self) -> str:
        lines = [f"{self.estimator}, {len(self.tests[0].test_auc)} seeds"]
        lines += [
            f"{row['test']:16} {row['verdict']:9} AUC {row['test_auc']:.3f} "
            f"[{row['low']:.3f}, {row['high']:.3f}], training {row['train_auc']:.3f}"
            for row in self.rows()
        ]
        return "\n".join(lines)


def assumptions(
    estimator: Any,
    n_seeds: int = 20,
    *,
    tests: Sequence[str] = ASSUMPTION_TESTS,
    n_train_bags: int = 200,
    n_test_bags: int = 200,
    n_features: int = 16,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Assumptions:
    """Run the algorithmic unit tests of Raff and Holt on an estimator.

    The test bags of each test are drawn so that a model which relies on what the assumption rules
    out ranks them worse than by chance: negative bags known by an instance that only they hold,
    or positive bags known by how often an instance occurs. Decision values are ranked, so
    thresholds do not matter; a pure detector ranks bags by their best instance.

    Departs from the paper: none in the bags. The paper reports the areas of single runs; here the
    verdict is that of the confidence interval over seeds.

    Parameters
    ----------
    estimator : estimator
        A classifier of bags, a detector, or a pipeline of one; it is cloned.
    n_seeds : int, default=20
        How often bags are drawn and the estimator is fitted, per test.
    tests : sequence of str, default=all three
        See :func:`pigmil.datasets.make_assumption_bags`.
    n_train_bags, n_test_bags, n_features : int
        Size of the data.
    random_state : int, default=0
        The first of ``n_seeds`` consecutive seeds, for data and estimator.
    n_jobs : int, optional
        Number of processes.

    Returns
    -------
    Assumptions
        Areas under the curve and a verdict per test.

    Notes
    -----
    Cost: ``n_seeds`` fits per test.

    References
    ----------
    Raff, Holt: Reproducibility in Multiple Instance Learning: A Case For Algorithmic Unit Tests,
    NeurIPS 2023.

    Examples
    --------
    >>> from pigmil import SIL
    >>> from pigmil.evaluation import assumptions
    >>> result = assumptions(SIL(), n_seeds=3, tests=["multi_concept"], n_train_bags=60)
    >>> result.tests[0].verdict
    'pass'
    """
    if n_seeds < 2:
        raise ValueError(f"n_seeds must be at least 2 for an interval; got {n_seeds}.")
    sizes = {"n_train_bags": n_train_bags, "n_test_bags": n_test_bags, "n_features": n_features}
    cells = [(test, random_state + number) for test in tests for number in range(n_seeds)]
    fits = (delayed(assumption_aucs)(estimator, test, seed, **sizes) for test, seed in cells)
    pairs = np.array(Parallel(n_jobs=n_jobs)(fits)).reshape(len(tests), n_seeds, 2)
    results = [AssumptionTest(test, *pair.T) for test, pair in zip(tests, pairs, strict=True)]
    return Assumptions(repr(estimator), tuple(results))


def assumption_aucs(estimator: Any, test: str, seed: int, **sizes: int) -> tuple[float, float]:
    """Fit on the training bags of one draw; return the AUC on its training and its test bags."""
    train, test_bags = make_assumption_bags(test, seed, **sizes)
    with recorded_warnings():
        model = seeded_clone(estimator, seed).fit(train, train.y)
        return (
            float(roc_auc_score(train.y, _bag_scores(model, train))),
            float(roc_auc_score(test_bags.y, _bag_scores(model, test_bags))),
        )


def _bag_scores(model: Any, bags: Bags) -> FloatArray:
    if hasattr(model, "predict"):
        return decision_values(model, bags)
    return segment_reduce(np.maximum, instance_scores(model, bags), bags.offsets)


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

        def drop(curve: FloatArray) -> float:
            return float(auc(self.removed, curve[0] - curve))

        most, least = drop(self.most_first), drop(self.least_first)
        random = float(np.mean([drop(curve) for curve in self.random]))
        return {"most_first": most, "least_first": least, "random": random,
                "gain": most - random, "symmetric_gain": most - least}  # fmt: skip


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
    if bag_decision(estimator, bags, positive) is None:
        raise TypeError(
            f"{type(estimator).__name__} has neither decision_function nor predict_proba: there is "
            "no value that could fall."
        )
    rng = check_random_state(random_state)
    removed = np.linspace(0, 1, n_steps + 1)

    def curve(priority: FloatArray) -> FloatArray:
        """Return the mean decision at each share, the highest priority removed first."""
        order = np.lexsort((-priority, bags.bag_index))
        ranks = np.empty(bags.n_instances, dtype=np.intp)  # position of an instance in its bag
        ranks[order] = np.arange(bags.n_instances) - np.repeat(bags.offsets[:-1], bags.sizes)
        decisions = [bag_decision(estimator, _without(bags, ranks, q), positive) for q in removed]
        return np.mean(decisions, axis=1, dtype=np.float64)

    random = np.array([curve(rng.random_sample(len(values))) for _ in range(n_random)])
    return Faithfulness(removed, curve(values), curve(-values), random, bags.n_bags)


def _without(bags: Bags, ranks: IntArray, share: float) -> Bags:
    """Return the bags without the given share of their first-ranked instances, but for one."""
    n_removed = np.floor(share * (bags.sizes - 1) + 0.5).astype(np.intp)
    instances = bags.instances[np.flatnonzero(ranks >= n_removed[bags.bag_index])]
    offsets, names = offsets_of(bags.sizes - n_removed), bags.feature_names
    return Bags(instances, offsets, feature_names=names, check_finite=False)
