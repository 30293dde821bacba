"""How a method enters a comparison: scaled inside the fold, tuned on the training bags only."""

from typing import Any

from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from pigmil.bags import BagScaler
from pigmil.estimators import get_estimator


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
    searched by stratified cross-validation over the training bags.

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
        A Pipeline, or a GridSearchCV over it.

    Examples
    --------
    >>> protocol_estimator("KDE_min").steps[0][0]
    'scale'
    """
    method = get_estimator(name)(**parameters)
    if "random_state" in method.get_params() and "random_state" not in parameters:
        method.set_params(random_state=random_state)
    pipeline = Pipeline([("scale", BagScaler(with_mean=centre)), ("method", method)])
    grid = {
        f"method__{key}": values
        for key, values in method.card.grid.items()
        if key not in parameters
    }
    if not (tune and grid):
        return pipeline
    folds = StratifiedKFold(inner_folds, shuffle=True, random_state=random_state)
    return GridSearchCV(pipeline, grid, cv=folds)
