"""The algorithmic unit tests of Raff and Holt: whether a method keeps the usual assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import t as student_t
from sklearn.metrics import roc_auc_score

from pigmil._core.segments import segment_reduce
from pigmil._core.typing import FloatArray
from pigmil.bags import Bags
from pigmil.datasets import ASSUMPTION_TESTS, make_assumption_bags
from pigmil.estimators.base import decision_values
from pigmil.evaluation._cells import recorded_warnings, seeded_clone
from pigmil.metrics import instance_scores


@dataclass(frozen=True, repr=False)
class AssumptionTest:
    """The areas under the curve of one test, by seed; prints itself as a line.

    Attributes
    ----------
    test : str
        Its name, see :func:`pigmil.datasets.make_assumption_bags`.
    train_auc, test_auc : array of shape (n_seeds,)
        On the bags the model was fitted to, and on the test bags.
    """

    test: str
    train_auc: FloatArray
    test_auc: FloatArray

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

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"{self.test:16} {self.verdict:9} AUC {self.test_auc.mean():.3f} "
            f"[{low:.3f}, {high:.3f}], training {self.train_auc.mean():.3f}"
        )


def assumptions(
    estimator: Any,
    n_seeds: int = 20,
    *,
    tests: Sequence[str] = ASSUMPTION_TESTS,
    random_state: int = 0,
    n_jobs: int | None = None,
    **sizes: int,
) -> list[AssumptionTest]:
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
    random_state : int, default=0
        The first of ``n_seeds`` consecutive seeds, for data and estimator.
    n_jobs : int, optional
        Number of processes.
    **sizes : int
        ``n_train_bags``, ``n_test_bags`` and ``n_features`` of the data.

    Returns
    -------
    list of AssumptionTest
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
    >>> (test,) = assumptions(SIL(), n_seeds=3, tests=["multi_concept"], n_train_bags=60)
    >>> test.verdict
    'pass'
    """
    if n_seeds < 2:
        raise ValueError(f"n_seeds must be at least 2 for an interval; got {n_seeds}.")
    cells = [(test, random_state + number) for test in tests for number in range(n_seeds)]
    fits = (delayed(assumption_aucs)(estimator, test, seed, **sizes) for test, seed in cells)
    pairs = np.array(Parallel(n_jobs=n_jobs)(fits)).reshape(len(tests), n_seeds, 2)
    return [AssumptionTest(test, *pair.T) for test, pair in zip(tests, pairs, strict=True)]


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
