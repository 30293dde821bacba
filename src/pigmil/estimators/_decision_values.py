"""One score for the class 1 from any classifier of the labels 0 and 1."""

from typing import Any

import numpy as np

from pigmil._core.typing import FloatArray

_LARGEST_LOGIT = 36.0  # probabilities of 0 and 1 in double precision


def decision_values(classifier: Any, X: Any) -> FloatArray:
    """Return how much a fitted classifier is for class 1: above 0 where it predicts it.

    Its ``decision_function``, or the logit of its ``predict_proba``, or 1 and -1 for the labels it
    predicts.

    Parameters
    ----------
    classifier : classifier
        Fitted on the labels 0 and 1.
    X : object
        What the classifier takes.

    Returns
    -------
    array of shape (n_samples,)

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0]] * 5, [0, 1, 1, 1, 1])
    >>> decision_values(model, [[0.0]]).round(3)  # log(0.8 / 0.2)
    array([1.386])
    """
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    if not hasattr(classifier, "predict_proba"):
        return np.where(np.asarray(classifier.predict(X)) == 1, 1.0, -1.0)
    share = np.asarray(classifier.predict_proba(X)[:, 1], dtype=np.float64)
    with np.errstate(divide="ignore"):
        logit = np.log(share) - np.log1p(-share)
    return np.clip(logit, -_LARGEST_LOGIT, _LARGEST_LOGIT)
