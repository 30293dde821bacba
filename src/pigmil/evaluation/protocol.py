"""How a method enters a comparison: scaled inside the fold, tuned on the training bags only."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, StratifiedKFold
from sklearn.pipeline import Pipeline

from pigmil.bags import Bags, BagScaler
from pigmil.estimators import get_estimator
from pigmil.estimators._pairwise import PairwiseBagClassifier, grid_accuracies

_TABLE_REPEATS = 4  # of the inner folds, where a repeat costs next to nothing


class TableSearch(ClassifierMixin, BaseEstimator):
    """Grid search over a pipeline whose last step sees bags through tables of bags by bags.

    As GridSearchCV, but the bags are scaled once, on all that ``fit`` is given, and every table is
    made once: see :func:`pigmil.estimators._pairwise.grid_accuracies`. Of equally good
    settings the first is taken.

    Parameters
    ----------
    pipeline : Pipeline
        Scaler and method.
    grid : dict of str to sequence
        Values of the parameters of the method.
    cv : splitter
        The inner folds.

    Attributes
    ----------
    best_params_ : dict
        The chosen setting.
    best_estimator_ : Pipeline
        Fitted with it on all the bags.
    classes_ : array
        The two labels.
    """

    def __init__(self, pipeline: Pipeline, grid: dict[str, Any], cv: Any) -> None:
        self.pipeline = pipeline
        self.grid = grid
        self.cv = cv

    def fit(self, X: Bags, y: Any) -> "TableSearch":
        """Choose the setting and fit with it."""
        scaled = clone(self.pipeline[:-1]).fit_transform(X)
        splits = self.cv.split(np.zeros(len(y)), y)
        found = grid_accuracies(self.pipeline[-1], scaled, y, self.grid, splits)
        best = np.argmax(np.round([accuracy for _, accuracy in found], 9))
        name = self.pipeline.steps[-1][0]
        self.best_params_ = {f"{name}__{key}": value for key, value in found[best][0].items()}
        self.best_estimator_ = clone(self.pipeline).set_params(**self.best_params_).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def decision_function(self, X: Bags) -> Any:
        """Decision value of every bag."""
        return self.best_estimator_.decision_function(X)

    def predict(self, X: Bags) -> Any:
        """Label of every bag."""
        return self.best_estimator_.predict(X)


def protocol_estimator(
    name: str,
    *,
    tune: bool = True,
    inner_folds: int = 5,
    random_state: int = 0,
    centre: bool = True,
    **parameters: Any,
) -> Any:
    """Pipeline of the benchmark protocol for a method.

    Features are z-scored on the training instances; where the method's card states a grid, it is
    searched by stratified cross-validation over the training bags, repeated four times for methods
    on tables of bags by bags, for which a repeat costs next to nothing.

    Parameters
    ----------
    name : str
        Name of a method, see :func:`pigmil.all_estimators`.
    tune : bool, default=True
        Search the grid of the card; otherwise the defaults are used.
    inner_folds : int, default=5
        Folds of the search.
    random_state : int, default=0
        For the inner folds and for the method.
    centre : bool, default=True
        Whether z-scoring moves the mean to 0; sparse instances cannot be centred.
    **parameters
        Parameters of the method that replace its defaults; they are not searched.

    Returns
    -------
    estimator
        A Pipeline, or a search over it: GridSearchCV, or :class:`TableSearch`.

    Examples
    --------
    >>> protocol_estimator("KDE_min").steps[0][0]
    'scale'
    """
    method = get_estimator(name)().set_params(**parameters)
    if "random_state" in method.get_params() and "random_state" not in parameters:
        method.set_params(random_state=random_state)
    pipeline = Pipeline([("scale", BagScaler(with_mean=centre)), ("method", method)])
    grid = {key: values for key, values in method.card.grid.items() if key not in parameters}
    if not tune:
        return pipeline
    # What has one value only needs no search.
    method.set_params(**{key: values[0] for key, values in grid.items() if len(values) == 1})
    grid = {key: values for key, values in grid.items() if len(values) > 1}
    if not grid:
        return pipeline
    if isinstance(method, PairwiseBagClassifier):
        repeated = RepeatedStratifiedKFold(
            n_splits=inner_folds, n_repeats=_TABLE_REPEATS, random_state=random_state
        )
        return TableSearch(pipeline, grid, repeated)
    folds = StratifiedKFold(inner_folds, shuffle=True, random_state=random_state)
    return GridSearchCV(
        pipeline, {f"method__{key}": values for key, values in grid.items()}, cv=folds
    )
