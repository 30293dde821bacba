"""MMIL: a logistic model of instances whose labels in positive bags are imputed by EM."""

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from pigmil._core._sklearn_compat import Interval, StrOptions
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._linear import (
    Block,
    LinearScores,
    StandardisedBlocks,
    instance_loss,
    minimise_penalised,
)
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators.base import spread_out
from pigmil.scale import LazyBags

_MAX_ITER = 500  # of L-BFGS in one M-step


def posterior(scores: FloatArray, positive_share: float, bag_share: float) -> FloatArray:
    """Return the probability that an instance of a positive bag is positive, given its score.

    Among all instances the logit is ``scores``. In a positive bag negatives are rarer than
    among all negatives, by the factor ``P(positive bag | negative instance) = (1 - p) z /
    (1 - p z)`` with ``p`` the share of positives in positive bags and ``z`` the share of
    instances that lie in positive bags; so the logit there is
    ``scores - log((1 - p) z / (1 - p z))``.

    Examples
    --------
    Without information in the score the posterior is the share itself: with half of all
    instances in positive bags, and a quarter of those positive, 1 instance in 8 is positive.

    >>> import numpy as np
    >>> posterior(np.log([(1 / 8) / (7 / 8)]), 0.25, 0.5).round(6)
    array([0.25])
    """
    rarer = (1 - positive_share) * bag_share / (1 - positive_share * bag_share)
    return expit(scores - np.log(rarer))


@with_parameters
class MMIL(LinearScores):
    """MMIL: mixture modelling for multiple-instance learning with a logistic regression.

    Alternates two steps. E-step: every instance of a positive bag gets the probability of being
    positive, :func:`posterior` of its score; instances of negative bags get 0. M-step: a
    penalised logistic regression is trained on all instances with these soft labels.

    Departs from the paper: the penalty is the squared norm instead of the lasso; the share of
    positives in positive bags can be re-estimated in each E-step instead of being given
    (``positive_share="em"``); the data are taken as a sample of the population, so there is no
    case-control adjustment. The paper labels instances only. Here the best instance scores its
    bag, and the intercept is moved to where the best scores of the training bags are separated
    with fewest errors (``threshold_`` undoes it: ``score + threshold_`` is the logit).

    Parameters
    ----------
    positive_share : "em" or float, default="em"
        Share of positive instances in positive bags: a number below 1, or estimated.
    C : float, default=1.0
        Weight of the loss against the penalty.
    max_iter : int, default=200
        Largest number of E-steps; a ConvergenceWarning is raised if they do not suffice.
    tol : float, default=1e-3
        Largest mean change of the probabilities in positive bags in the last E-step.
    {probability}
    {pos_label}

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Weights of the standardised features.
    intercept_ : float
        Offset of the score.
    threshold_ : float
        What was subtracted from the trained intercept.
    {centre_}
    {spread_}
    positive_share_ : float
        Share of positives in positive bags that was used last.
    instance_probabilities_ : array of shape (n_instances,)
        Probability of each training instance after the last E-step; 0 in negative bags.
    n_iter_ : int
        Number of E-steps.
    {detected_instances_}
    {instance_scores_}

    Notes
    -----
    Cost: O(rounds iterations n_instances n_features), in blocks of bags.

    When to use: Many instances of a positive bag are positive, such as cells of a patient.

    Defaults: C is that of scikit-learn's LogisticRegression; positive_share is estimated. Nothing
    was tuned.

    References
    ----------
    Craig, Keyes, Sarno, Zaslavsky, Nolan, Davis, Hastie, Tibshirani: MMIL: A novel algorithm for
    disease associated cell type discovery, arXiv:2406.08322, 2024.

    Examples
    --------
    >>> from pigmil.datasets import make_basic
    >>> from pigmil.estimators.mmil import MMIL
    >>> bags = make_basic(random_state=0)
    >>> len(MMIL().fit(bags).detected_instances_)
    20
    """

    positive_share: str | float = "em"
    C: float = 1.0
    max_iter: int = 200
    tol: float = 1e-3

    _fits_lazy_bags = True
    card = Card(
        "MMIL", "Mixture modelling for multiple-instance learning", grid={"C": (0.1, 1.0, 10.0)}
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "positive_share": [StrOptions({"em"}), Interval(Real, 0, 1, closed="neither")]
    }

    def _fit(
        self, bags: Bags | LazyBags, positive: BoolArray, bag_weights: FloatArray | None = None
    ) -> None:
        blocks = StandardisedBlocks(bags, bag_weights)
        in_positive = np.repeat(positive, bags.sizes)
        bag_weights = np.ones(bags.n_bags) if bag_weights is None else bag_weights
        weights = np.repeat(bag_weights, bags.sizes)
        positive_weights = weights[in_positive]
        bag_share = float(positive_weights.sum() / weights.sum())
        # Every positive bag has a positive instance: the share is at least bags over instances.
        least = float(bag_weights[positive].sum() / positive_weights.sum())
        share = 0.5 if isinstance(self.positive_share, str) else float(self.positive_share)
        probabilities = np.where(in_positive, share, 0.0)
        point = np.zeros(bags.n_features + 1)  # coefficients and intercept
        self.n_iter_ = 0
        for _ in range(self.max_iter):
            self.n_iter_ += 1
            point = self._maximise(blocks, probabilities, weights, point)
            probable = posterior(blocks.scores(point), share, bag_share)
            updated = np.where(in_positive, probable, 0.0)
            changes = np.abs(updated - probabilities)[in_positive]
            change = float(np.average(changes, weights=positive_weights))
            probabilities = updated
            if isinstance(self.positive_share, str):
                mean = float(np.average(probabilities[in_positive], weights=positive_weights))
                share = min(max(mean, min(least, 0.95)), 0.95)
            if change <= self.tol:
                break
        else:
            warnings.warn(
                f"MMIL did not converge in {self.max_iter} rounds; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.positive_share_ = share
        self.instance_probabilities_ = probabilities
        self._set_linear(bags, positive, blocks, point, weights=bag_weights)

    def _renumber(self, bags: Bags, kept: IntArray, rows: IntArray) -> None:
        n_instances = bags.n_instances
        self.instance_probabilities_ = spread_out(self.instance_probabilities_, rows, n_instances)

    def _maximise(
        self,
        blocks: StandardisedBlocks,
        probabilities: FloatArray,
        weights: FloatArray,
        start: FloatArray,
    ) -> FloatArray:
        """Train on the soft labels, starting from the last weights (M-step)."""

        def loss(block: Block, point: FloatArray) -> FloatArray:
            return instance_loss(block, point, probabilities[block.rows], weights[block.rows])

        return minimise_penalised(
            loss, blocks, start, C=self.C, tol=1e-6, max_iter=_MAX_ITER, name="MMIL"
        )[0]
