"""The algorithmic unit tests of Raff and Holt: whether a method keeps the usual assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student_t
from sklearn.metrics import roc_auc_score

from pigmil._core.optional import import_optional
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.datasets import ASSUMPTION_TESTS, make_assumption_bags
from pigmil.estimators._decision_values import decision_values
from pigmil.evaluation._cells import recorded_warnings, seeded_clone
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
        return [
            {
                "test": one.test,
                "train_auc": float(one.train_auc.mean()),
                "test_auc": float(one.test_auc.mean()),
                "low": one.interval[0],
                "high": one.interval[1],
                "verdict": one.verdict,
            }
            for one in self.tests
        ]

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
    seeds = range(random_state, random_state + n_seeds)
    cells = [(test, seed) for test in tests for seed in seeds]
    pairs = np.array(
        Parallel(n_jobs=n_jobs)(
            delayed(assumption_aucs)(estimator, test, seed, **sizes) for test, seed in cells
        )
    ).reshape(len(tests), n_seeds, 2)
    results = [
        AssumptionTest(test, by_seed[:, 0], by_seed[:, 1])
        for test, by_seed in zip(tests, pairs, strict=True)
    ]
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
