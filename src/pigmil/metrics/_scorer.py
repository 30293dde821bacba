"""Instance scores of any fitted estimator, and scorers for model selection made from them."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pigmil._core.typing import FloatArray
from pigmil.bags import as_bags, is_lazy
from pigmil.metrics._by_bag import hit_at_k, per_bag_auc, per_bag_average_precision
from pigmil.metrics._instances import (
    froc_score,
    instance_auc,
    instance_average_precision,
    recall_at_fraction,
)


def instance_scores(estimator: Any, X: Any) -> FloatArray:
    """Return a score for every instance, from any fitted estimator that can give one.

    Looks through pipelines (earlier steps transform the bags), searches (the refitted best
    estimator), calibration (mean over the calibrated classifiers), tuned thresholds and frozen
    estimators for a method with ``decision_function_instances``.

    Parameters
    ----------
    estimator : fitted estimator
        A method of this library, or one of the wrappers above around it.
    X : bags
        Anything :func:`pigmil.as_bags` takes, or bags on disk (:func:`pigmil.scan_bags`).

    Returns
    -------
    array of shape (n_instances,)
        Higher is more positive; aligned with ``as_bags(X).instances``.

    Raises
    ------
    TypeError
        If no part of the estimator scores instances.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from pigmil import MILD, BagScaler, instance_scores
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> model = make_pipeline(BagScaler(), MILD()).fit(bags, bags.y)
    >>> instance_scores(model, bags).shape == (bags.n_instances,)
    True
    """
    check_is_fitted(estimator)
    bags = X if is_lazy(X) else as_bags(X)
    return _find_scores(estimator, bags, type(estimator).__name__)


def _find_scores(estimator: Any, bags: Any, path: str) -> FloatArray:
    card = getattr(estimator, "card", None)
    if hasattr(estimator, "decision_function_instances") and getattr(card, "detects", True):
        return np.asarray(estimator.decision_function_instances(bags), dtype=np.float64)
    if isinstance(estimator, Pipeline):
        last, before = estimator[-1], estimator[:-1]
        bags = before.transform(bags) if len(before) else bags
        return _find_scores(last, bags, f"{path} > {type(last).__name__}")
    calibrated = getattr(estimator, "calibrated_classifiers_", None)
    if calibrated is not None:
        parts = [_find_scores(part.estimator, bags, path) for part in calibrated]
        return np.asarray(np.mean(parts, axis=0), dtype=np.float64)
    for name in ("best_estimator_", "estimator_", "estimator"):
        inner = getattr(estimator, name, None)
        if inner is not None:
            return _find_scores(inner, bags, f"{path} > {type(inner).__name__}")
    raise TypeError(
        f"{path} does not score instances: no part of it has decision_function_instances. "
        "pigmil.all_estimators(detects=True) lists the methods that do."
    )


def make_instance_scorer(
    metric: str | Callable[[FloatArray, Any], float] = "average_precision",
    *,
    pos_label: Any = None,
    bag_pos_label: Any = None,
) -> Callable[..., float]:
    """Return a scorer on instance labels, for ``GridSearchCV`` and ``cross_val_score``.

    Parameters
    ----------
    metric : str or callable, default="average_precision"
        ``"auc"``, ``"average_precision"``, ``"froc"``, ``"per_bag_auc"``,
        ``"per_bag_average_precision"``, ``"hit@K"`` or ``"recall@P%"`` with numbers in place of K
        and P (``"hit@3"``, ``"recall@5%"``); or a function of the scores and the bags, which
        have labels.
    pos_label, bag_pos_label : label, optional
        The positive label of instances and of bags; the greatest ones by default.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``. ``X`` must be bags with instance labels. NaN where the truth
        in ``X`` does not hold both labels.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pigmil import MILD
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.metrics import make_instance_scorer
    >>> bags = make_ring(random_state=0)
    >>> search = GridSearchCV(MILD(), {}, scoring=make_instance_scorer("hit@1"), cv=2)
    >>> bool(search.fit(bags, bags.y).best_score_ > 0.5)
    True
    """
    measure: Any = metric
    if isinstance(metric, str):  # raise now, not in the middle of a search
        measure = _measure(metric, {"pos_label": pos_label}, {"bag_pos_label": bag_pos_label})
    return partial(_score, measure=measure)


def _measure(metric: str, label: dict[str, Any], bag_label: dict[str, Any]) -> Any:
    """Return a named metric as a function of scores and labelled bags, which pickles."""
    number = metric.partition("@")[2]
    known = {
        "auc": partial(_pooled, instance_auc, **label),
        "average_precision": partial(_pooled, instance_average_precision, **label),
        "froc": partial(froc_score, **label),
        "per_bag_auc": partial(per_bag_auc, **label, **bag_label),
        "per_bag_average_precision": partial(per_bag_average_precision, **label, **bag_label),
    }
    if metric in known:
        return known[metric]
    if re.fullmatch(r"hit@[1-9]\d*", metric):
        return partial(hit_at_k, k=int(number), **label, **bag_label)
    if re.fullmatch(r"recall@\d+(\.\d+)?%", metric) and 0 < float(number[:-1]) <= 100:
        return partial(_pooled, recall_at_fraction, fraction=float(number[:-1]) / 100, **label)
    raise ValueError(
        f"Unknown metric {metric!r}; known are {', '.join([*known, 'hit@K', 'recall@P%'])}."
    )


def _pooled(measure: Callable[..., float], scores: FloatArray, bags: Any, **options: Any) -> float:
    return measure(scores, bags.instance_labels, **options)


def _score(estimator: Any, X: Any, y: Any = None, *, measure: Callable[..., float]) -> float:
    bags = as_bags(X)
    bags = bags if y is None else bags.with_labels(np.asarray(y))
    truth = bags.instance_labels
    if truth is None:
        raise ValueError("An instance scorer needs bags with instance_labels.")
    if len(np.unique(truth[truth == truth])) < 2:
        return float("nan")
    return float(measure(instance_scores(estimator, bags), bags))
