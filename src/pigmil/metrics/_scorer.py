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
        for _, step in estimator.steps[:-1]:
            if step not in (None, "passthrough"):
                bags = step.transform(bags)
        last = estimator.steps[-1][1]
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


_POOLED = {"auc": instance_auc, "average_precision": instance_average_precision}
_BY_BAG = {"per_bag_auc": per_bag_auc, "per_bag_average_precision": per_bag_average_precision}
_KNOWN = (*_POOLED, *_BY_BAG, "froc", "hit@K", "recall@P%")


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
    return _InstanceScorer(metric, pos_label, bag_pos_label)


class _InstanceScorer:
    """A scorer that pickles, for parallel searches."""

    def __init__(self, metric: Any, pos_label: Any, bag_pos_label: Any) -> None:
        self.metric, self.pos_label, self.bag_pos_label = metric, pos_label, bag_pos_label
        if isinstance(metric, str):
            self._measure()  # raise now, not in the middle of a search

    def _measure(self) -> Callable[..., float]:
        """Return the named metric as a function of scores, bags, y and instance labels."""
        label = {"pos_label": self.pos_label}
        both = {**label, "bag_pos_label": self.bag_pos_label}
        name, _, number = self.metric.partition("@")
        if self.metric in _POOLED:
            return lambda scores, bags, y, truth: _POOLED[name](scores, truth, **label)
        if self.metric in _BY_BAG:
            return partial(_BY_BAG[name], **both)
        if self.metric == "froc":
            return lambda scores, bags, y, truth: froc_score(scores, bags, truth, **label)
        if re.fullmatch(r"hit@[1-9]\d*", self.metric):
            return partial(hit_at_k, k=int(number), **both)
        if re.fullmatch(r"recall@\d+(\.\d+)?%", self.metric) and 0 < float(number[:-1]) <= 100:
            share = float(number[:-1]) / 100
            return lambda scores, bags, y, truth: recall_at_fraction(
                scores, truth, fraction=share, **label
            )
        raise ValueError(f"Unknown metric {self.metric!r}; known are {', '.join(_KNOWN)}.")

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        bags = as_bags(X)
        truth = bags.instance_labels
        if truth is None:
            raise ValueError("An instance scorer needs bags with instance_labels.")
        if len(np.unique(truth[truth == truth])) < 2:
            return float("nan")
        scores = instance_scores(estimator, bags)
        if not isinstance(self.metric, str):
            return float(self.metric(scores, bags))
        return self._measure()(scores, bags, bags.y if y is None else np.asarray(y), truth)

    def __repr__(self) -> str:
        return f"make_instance_scorer({self.metric!r})"
