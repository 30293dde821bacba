"""How a method enters a comparison: scaled inside the fold, tuned on the training bags only."""

from collections.abc import Collection
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from pigmil.bags import Bags, scaled_pipeline
from pigmil.estimators._pairwise import PairwiseBagClassifier, grid_accuracies
from pigmil.evaluation._splits import inner_splits

_PAIRWISE_REPEATS = 4  # of the inner folds, where a repeat costs almost nothing


class PairwiseSearch(ClassifierMixin, BaseEstimator):
    """Grid search over a pipeline whose last step is a :class:`PairwiseBagClassifier`.

    As GridSearchCV, but the bags are scaled once, on all bags that ``fit`` receives, and every
    table of bags by bags is computed once. Among equally good settings the first one is chosen.

    Parameters
    ----------
    pipeline : Pipeline
        Scaler and method.
    grid : dict of str to sequence
        Values of the parameters of the method.
    cv : list of (array of int, array of int)
        The inner folds.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting.
    best_estimator_ : Pipeline
        Fitted with it on all bags.
    classes_ : array
        The two labels.
    """

    def __init__(self, pipeline: Pipeline, grid: dict[str, Any], cv: Any) -> None:
        self.pipeline = pipeline
        self.grid = grid
        self.cv = cv

    def fit(self, X: Bags, y: Any) -> "PairwiseSearch":
        """Choose the setting and fit with it."""
        scaled = clone(self.pipeline[:-1]).fit_transform(X)
        scored = grid_accuracies(self.pipeline[-1], scaled, y, self.grid, self.cv)
        best = np.argmax(np.round([accuracy for _, accuracy in scored], 9))
        name = self.pipeline.steps[-1][0]
        self.best_params_ = {f"{name}__{key}": value for key, value in scored[best][0].items()}
        self.best_estimator_ = clone(self.pipeline).set_params(**self.best_params_).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def decision_function(self, X: Bags) -> Any:
        """Return the decision value of every bag."""
        return self.best_estimator_.decision_function(X)

    def predict(self, X: Bags) -> Any:
        """Return the label of every bag."""
        return self.best_estimator_.predict(X)


def protocol_estimator(
    method: Any,
    bags: Bags,
    *,
    tune: bool = True,
    fixed: Collection[str] = (),
    groups: Any = None,
    random_state: int = 0,
) -> Any:
    """Return a method as the benchmark protocol fits it to training bags.

    Features are z-scored on the training instances. The grid of the method's card is searched by
    stratified cross-validation over the training bags, repeated four times for methods on tables
    of bags by bags, for which a repeat costs almost nothing.

    Parameters
    ----------
    method : estimator with a card
        The method, not fitted.
    bags : Bags
        The labelled training bags.
    tune : bool, default=True
        Search the grid of the card; otherwise the parameters are used as they are.
    fixed : collection of str
        Parameters that are not searched.
    groups : array of shape (n_bags,), optional
        Bags of one group stay in one inner fold.
    random_state : int, default=0
        For the inner folds.

    Returns
    -------
    estimator
        A Pipeline, or a search over it: GridSearchCV, or :class:`PairwiseSearch`.

    Examples
    --------
    >>> from pigmil import KDEMin
    >>> from pigmil.datasets import make_ring
    >>> protocol_estimator(KDEMin(), make_ring(random_state=0)).steps[0][0]
    'scale'
    """
    method = clone(method)
    pipeline = scaled_pipeline(method, bags)
    if not tune:
        return pipeline
    grid = {name: values for name, values in method.card.grid.items() if name not in fixed}
    # A single value needs no search.
    method.set_params(**{name: values[0] for name, values in grid.items() if len(values) == 1})
    grid = {name: values for name, values in grid.items() if len(values) > 1}
    pairwise = isinstance(method, PairwiseBagClassifier) and len(np.unique(bags.y)) == 2
    splits = inner_splits(
        bags.y,
        groups=groups,
        repeats=_PAIRWISE_REPEATS if pairwise else 1,
        random_state=random_state,
    )
    if not grid or not splits:
        return pipeline
    if pairwise:
        return PairwiseSearch(pipeline, grid, splits)
    return GridSearchCV(
        pipeline, {f"method__{name}": values for name, values in grid.items()}, cv=splits
    )
