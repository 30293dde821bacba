"""SIL: any classifier, trained on instances that inherit the label of their bag."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pigmil._core._sklearn_compat import HasMethods
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.estimators._linear import centre_and_spread, linear_scores, standardised
from pigmil.estimators._parameters import Card, with_parameters
from pigmil.estimators.base import AcceptsWeights, MaxInstanceClassifier, decision_values


@with_parameters
class SIL(AcceptsWeights, MaxInstanceClassifier):
    """SIL: every instance is labelled like its bag, and a classifier of instances is trained.

    Ignores that most instances of a positive bag may be negative, and is still hard to beat where
    they are not many. The score of an instance is the classifier's ``decision_function``, or the
    logit of its ``predict_proba``.

    Departs from the paper: any scikit-learn classifier can be used; the best instance scores its
    bag, and the threshold is where the best scores of the training bags are separated with fewest
    errors.

    Parameters
    ----------
    estimator : classifier, optional
        A scikit-learn classifier with ``decision_function`` or ``predict_proba``;
        ``LogisticRegression(max_iter=1000)`` if not given. Features are centred and divided by
        one common spread before it sees them. ``sample_weight`` is passed on to it.
    {probability}
    {pos_label}

    Attributes
    ----------
    estimator_ : classifier
        The fitted classifier of instances.
    threshold_ : float
        What is subtracted from its scores.
    {centre_}
    {spread_}
    {detected_instances_}
    {instance_scores_}

    Notes
    -----
    Cost: that of the classifier on all instances.

    When to use: A baseline with a classifier you know; most instances of positive bags are
    positive.

    Defaults: The classifier has the defaults of scikit-learn; nothing was tuned.

    References
    ----------
    Ray, Craven: Supervised versus Multiple Instance Learning, ICML 2005.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.sil import SIL
    >>> bags = make_ring(random_state=0)
    >>> model = SIL(HistGradientBoostingClassifier(random_state=0)).fit(bags)
    >>> len(model.detected_instances_)
    20
    """

    estimator: Any = field(default=None, kw_only=False)

    _accepts_sparse = True
    card = Card("SIL", "Single-instance learning")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [
            HasMethods(["fit", "decision_function"]),
            HasMethods(["fit", "predict_proba"]),
            None,
        ]
    }

    def _fit(self, bags: Bags, positive: BoolArray, weights: FloatArray | None = None) -> None:
        classifier = LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator
        own = None if weights is None else np.repeat(weights, bags.sizes)
        self.centre_, self.spread_ = centre_and_spread(bags.instances, own)
        self.estimator_ = clone(classifier).fit(
            standardised(bags.instances, self.centre_, self.spread_),
            positive[bags.bag_index].astype(np.int64),
            **({} if own is None else {"sample_weight": own}),
        )
        self.threshold_ = 0.0
        self._set_threshold(bags, positive, self._score_instances(bags), weights=weights)

    def _score_instances(self, bags: Bags) -> FloatArray:
        model = self.estimator_
        if type(model) is LogisticRegression:
            coef, intercept = model.coef_[0], float(model.intercept_[0]) - self.threshold_
            return linear_scores(bags.instances, self.centre_, self.spread_, coef, intercept)
        instances = standardised(bags.instances, self.centre_, self.spread_)
        return decision_values(model, instances) - self.threshold_
