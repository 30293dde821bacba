"""Max-pooling LR: logistic regression whose instance scores are pooled by log-sum-exp."""

from typing import Any, ClassVar

import numpy as np

from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.estimators._linear import (
    Block,
    LinearScores,
    StandardisedBlocks,
    minimise_penalised,
    pooled_loss,
)
from pigmil.estimators._parameters import POSITIVE, Card, with_parameters
from pigmil.scale import LazyBags


@with_parameters
class MaxPoolingLR(LinearScores):
    """Max-pooling LR: a linear model of instances, trained through a smooth maximum.

    Minimises ``|w|^2 / 2 + C sum over bags of log(1 + exp(-y_b s_b))`` with the bag score
    ``s_b = log(mean over the bag of exp(r (w . x + b))) / r``, a smooth form of the largest
    instance score (Ray and Craven 2005 pool by a soft maximum, Pinheiro and Collobert 2015 by
    this one). A simple rival that every detector should beat.

    Departs from the paper: features are centred and divided by one common spread before ``w``
    is penalised, so that ``C`` does not depend on their units. After training the best instance
    alone scores its bag, so that adding an instance never lowers the score; the intercept is
    moved to where the best scores of the training bags are separated with fewest errors.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss against the penalty.
    sharpness : float, default=5.0
        ``r`` above: near 0 the mean of a bag decides, for large values its best instance. The
        default is that of Pinheiro and Collobert.
    class_weight : "balanced", dict or None, default=None
        Factors on the loss of the bags of each class.
    max_iter : int, default=500
        Largest number of iterations of L-BFGS.
    tol : float, default=1e-5
        Largest component of the gradient of the mean loss at the end.
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
    n_iter_ : int
        Number of iterations.
    {centre_}
    {spread_}
    {detected_instances_}
    {instance_scores_}

    Notes
    -----
    Cost: O(n_instances n_features) per iteration, in blocks of bags.

    The problem is not convex; the fit starts from zero weights, where every instance counts the
    same, and is deterministic.

    When to use: A first, linear answer on data of any size; positives in one direction.

    Defaults: sharpness is published and C that of scikit-learn's LogisticRegression; neither was
    tuned.

    References
    ----------
    Ray, Craven: Supervised versus Multiple Instance Learning, ICML 2005. Pinheiro, Collobert:
    From Image-level to Pixel-level Labeling with Convolutional Networks, CVPR 2015.

    Examples
    --------
    >>> from pigmil.datasets import make_basic
    >>> from pigmil.estimators.max_pooling_lr import MaxPoolingLR
    >>> bags = make_basic(random_state=0)
    >>> len(MaxPoolingLR().fit(bags).detected_instances_)
    20
    """

    C: float = 1.0
    sharpness: float = 5.0
    class_weight: Any = None
    max_iter: int = 500
    tol: float = 1e-5

    _fits_lazy_bags = True
    card = Card(
        "Max-pooling LR", "Logistic regression pooled by log-sum-exp", grid={"C": (0.1, 1.0, 10.0)}
    )
    _parameter_constraints: ClassVar[dict[str, Any]] = {"sharpness": POSITIVE}

    def _fit(
        self, bags: Bags | LazyBags, positive: BoolArray, weights: FloatArray | None = None
    ) -> None:
        blocks = StandardisedBlocks(bags, weights)
        targets = positive.astype(np.float64)
        costs = self._class_costs(positive, weights)
        factors = np.where(positive, costs[1], costs[0]) * (1.0 if weights is None else weights)
        sharpness = float(self.sharpness)

        def loss(block: Block, point: FloatArray) -> FloatArray:
            own = block.bags
            return pooled_loss(block, point, targets[own], factors[own], sharpness)

        start = np.zeros(bags.n_features + 1)
        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        point, self.n_iter_ = minimise_penalised(
            loss, blocks, start, C=self.C, name="MaxPoolingLR", **limits
        )
        self._set_linear(bags, positive, blocks, point, costs, weights)
