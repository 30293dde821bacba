"""One cell of a comparison: fit on the training bags of a fold, measure on its test bags."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score
from threadpoolctl import threadpool_limits

from pigmil import metrics
from pigmil._core.errors import BagsError
from pigmil.bags import Bags
from pigmil.estimators.base import BaseMIL
from pigmil.evaluation._protocol import protocol_estimator
from pigmil.evaluation._splits import Split, inner_splits, with_fold_groups

PER_BAG = "bags"  # key of the predictions for single bags, among the metrics
_RECALLS = (1, 5, 10)


@dataclass(frozen=True)
class Entry:
    """An estimator in a comparison.

    Attributes
    ----------
    estimator : estimator
        Not fitted.
    protocol : bool
        Whether the benchmark protocol scales and tunes it; otherwise it is fitted as it is.
    fixed : tuple of str
        Parameters that are not tuned.
    """

    estimator: Any
    protocol: bool = False
    fixed: tuple[str, ...] = ()


def compute_cell(
    bags: Bags, split: Split, entry: Entry, *, groups: Any = None, tune: bool, seed: int
) -> dict[str, Any]:
    """Fit an estimator on the training bags of a split and measure it on the test bags.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    split : Split
        Training and test bags.
    entry : Entry
        The estimator.
    groups : array of shape (n_bags,), optional
        Bags of one group stay in one inner fold.
    tune : bool
        Whether the protocol tunes by inner cross-validation.
    seed : int
        For the estimator and its inner folds.

    Returns
    -------
    dict
        ``accuracy``, ``balanced_accuracy``, ``f1``, ``auc`` of the test bags, and ``bags``, the
        predictions for each; ``f1`` and ``auc`` are means over the classes if there are more than
        two. Where there are two, instance labels are known and the estimator scores instances:
        ``detection_accuracy`` and ``detection_ap`` (average precision in positive bags) on the
        training bags, and on the test bags ``instance_auc``,
        ``instance_ap``, ``per_bag_auc``, ``per_bag_ap``, ``top1``, ``top1_chance``, ``hit3``,
        ``hit3_chance``, ``froc`` and ``recall_1``, ``recall_5``, ``recall_10``. Also
        ``fit_seconds``, ``predict_seconds`` (processor time), ``peak_mb``, and ``warnings``.
    """
    train, test = bags[split.train], bags[split.test]
    train_groups = None if groups is None else np.asarray(groups)[split.train]
    train = with_fold_groups(train, train_groups)
    _reset_peak_memory()
    with recorded_warnings() as messages, threadpool_limits(1):
        estimator = _prepare(entry, train, train_groups, tune, seed)
        start = time.process_time()
        estimator.fit(train, train.y)
        fitted = time.process_time()
        measured = _bag_metrics(estimator, test, split, groups, entry.protocol)
        predicted = time.process_time()
        if bags.instance_labels is not None and len(np.unique(bags.y)) == 2:
            measured |= _instance_metrics(estimator, train, test, bags)
    return {
        **measured,
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "peak_mb": _peak_memory(),
        "warnings": sorted(set(messages)),
    }


def seeded_clone(estimator: Any, seed: int) -> Any:
    """Return an unfitted copy; every ``random_state`` in it that is None becomes ``seed``."""
    copy = clone(estimator)
    unset = {
        name: seed
        for name, value in copy.get_params().items()
        if value is None and name.rpartition("__")[2] == "random_state"
    }
    return copy.set_params(**unset)


def _prepare(entry: Entry, train: Bags, groups: Any, tune: bool, seed: int) -> Any:
    """Return the estimator to fit; the inner folds of a search or calibration keep the groups.

    Such an estimator has the parameter ``cv``. It may be the last step of a pipeline.
    """
    estimator = seeded_clone(entry.estimator, seed)
    if entry.protocol:
        return protocol_estimator(
            estimator, train, tune=tune, fixed=entry.fixed, groups=groups, random_state=seed
        )
    inner = estimator
    while hasattr(inner, "steps"):
        inner = inner.steps[-1][1]
    # The methods of this library read the groups from the bags.
    if groups is None or not hasattr(inner, "cv") or isinstance(inner, BaseMIL):
        return estimator
    # Folds are made here: not every estimator with inner folds passes groups on to them.
    if inner.cv is None or isinstance(inner.cv, int):
        splits = inner_splits(train.y, groups=groups, folds=inner.cv or 5, random_state=seed)
        if not splits:
            raise BagsError(
                f"{type(inner).__name__} needs inner folds, and the training bags of a class are "
                "all of one group; use fewer outer folds or leave groups out."
            )
    elif hasattr(inner.cv, "split"):
        splits = list(inner.cv.split(np.zeros(len(train)), train.y, groups))
    else:
        return estimator
    inner.set_params(cv=splits)
    return estimator


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect warnings for users and about convergence instead of displaying them."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += [
        f"{item.category.__name__}: {item.message}"
        for item in caught
        if issubclass(item.category, ConvergenceWarning | UserWarning)
    ]


def _innermost(estimator: Any) -> Any:
    """Return the fitted method inside searches and pipelines."""
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        else:
            return estimator


def positive_label(estimator: Any, labels: Any) -> Any:
    """Return the label that a fitted estimator takes as positive."""
    classes = getattr(estimator, "classes_", np.unique(labels))
    return getattr(_innermost(estimator), "positive_label_", classes[-1])


def _bag_metrics(
    estimator: Any, test: Bags, split: Split, groups: Any, protocol: bool
) -> dict[str, Any]:
    if not hasattr(estimator, "predict"):
        return {}
    units = split.test if groups is None else np.asarray(groups)[split.test]
    if len(getattr(estimator, "classes_", ())) > 2:
        return _several_classes(estimator, test, units)
    positive = positive_label(estimator, test.y)
    truth = np.asarray(test.y == positive)
    decision = bag_decision(estimator, test, positive)
    # The methods of the library call a bag positive above 0; others may have their own rule.
    called = decision > 0 if protocol else np.asarray(estimator.predict(test) == positive)
    both = 0 < truth.sum() < len(truth)
    scores = called.astype(np.float64) if decision is None else decision
    return {
        "accuracy": float(accuracy_score(truth, called)),
        "balanced_accuracy": float(balanced_accuracy_score(truth, called)) if both else np.nan,
        "f1": float(f1_score(truth, called, zero_division=0.0)),
        "auc": float(roc_auc_score(truth, scores)) if both and decision is not None else np.nan,
        PER_BAG: {
            "positive": truth.astype(int).tolist(),
            "called": called.astype(int).tolist(),
            "score": None if decision is None else decision.tolist(),
            "group": np.asarray(units).tolist(),
        },
    }


def _several_classes(estimator: Any, test: Bags, units: Any) -> dict[str, Any]:
    """Measure a classifier of several classes; its AUC is the mean of each against the rest."""
    predicted = np.asarray(estimator.predict(test))
    scores = None
    for name in ("decision_function", "predict_proba"):
        if scores is None and hasattr(estimator, name):
            scores = np.asarray(getattr(estimator, name)(test), dtype=np.float64)
    classes = np.asarray(estimator.classes_)
    areas = [np.nan]
    if scores is not None and np.isin(classes, test.y).all():
        pairs = zip(classes, scores.T, strict=True)
        areas = [roc_auc_score(test.y == label, column) for label, column in pairs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a label that no test bag has
        balanced = balanced_accuracy_score(test.y, predicted)
    return {
        "accuracy": float(accuracy_score(test.y, predicted)),
        "balanced_accuracy": float(balanced),
        "f1": float(f1_score(test.y, predicted, average="macro", zero_division=0.0)),
        "auc": float(np.mean(areas)),
        PER_BAG: {
            "positive": np.searchsorted(classes, test.y).tolist(),
            "called": np.searchsorted(classes, predicted).tolist(),
            "score": None if scores is None else scores.tolist(),
            "group": np.asarray(units).tolist(),
        },
    }


def bag_decision(estimator: Any, test: Bags, positive: Any) -> Any:
    """Return a score per bag that is higher for the positive class; None without one."""
    is_last = positive == getattr(estimator, "classes_", [positive])[-1]
    if hasattr(estimator, "decision_function"):
        decision = np.asarray(estimator.decision_function(test), dtype=np.float64)
        return decision if is_last else -decision  # its sign follows the order of the classes
    if hasattr(estimator, "predict_proba"):
        probability = np.asarray(estimator.predict_proba(test), dtype=np.float64)
        return probability[:, list(estimator.classes_).index(positive)]
    return None


def _instance_metrics(estimator: Any, train: Bags, test: Bags, bags: Bags) -> dict[str, float]:
    try:
        scores = metrics.instance_scores(estimator, test)
    except TypeError:  # it does not score instances
        return {}
    positive = positive_label(estimator, bags.y)
    # A fold may lack positive instances; which label is positive is known from all bags.
    values = np.unique(bags.instance_labels[bags.instance_labels == bags.instance_labels])
    positive_instance = positive if positive in values else values[-1]
    truth = _is_positive(test.instance_labels, positive_instance)
    train_truth = _is_positive(train.instance_labels, positive_instance)
    measured = _detection(estimator, train_truth, np.repeat(train.y == positive, train.sizes))
    in_positive_bag = np.repeat(np.asarray(test.y == positive), test.sizes)
    inside, inside_scores = truth[in_positive_bag], scores[in_positive_bag]
    if len(np.unique(inside[inside == inside])) == 2:
        measured["instance_auc"] = metrics.instance_auc(inside_scores, inside)
        measured["instance_ap"] = metrics.instance_average_precision(inside_scores, inside)
    if not (truth == 1.0).any():
        return measured
    by_bag: Any = (test, test.y, truth)
    labels: Any = {"pos_label": 1.0, "bag_pos_label": positive}
    return measured | {
        "top1": metrics.hit_at_k(scores, *by_bag, k=1, **labels),
        "top1_chance": metrics.hit_at_k_chance(*by_bag, k=1, **labels),
        "hit3": metrics.hit_at_k(scores, *by_bag, k=3, **labels),
        "hit3_chance": metrics.hit_at_k_chance(*by_bag, k=3, **labels),
        "per_bag_auc": metrics.per_bag_auc(scores, *by_bag, **labels),
        "per_bag_ap": metrics.per_bag_average_precision(scores, *by_bag, **labels),
        "froc": metrics.froc_score(scores, test, truth, pos_label=1.0),
        **{
            f"recall_{percent}": metrics.recall_at_fraction(
                scores, truth, fraction=percent / 100, pos_label=1.0
            )
            for percent in _RECALLS
        },
    }


def _detection(estimator: Any, truth: Any, in_positive_bag: Any) -> dict[str, float]:
    """Measure the detection in the training bags; the metrics of test bags are still unknown."""
    method = _innermost(estimator)
    detected = getattr(method, "detected_instances_", None)
    names = ("detection_accuracy", "detection_ap", "instance_auc", "instance_ap", "top1")
    measured = dict.fromkeys(names, float("nan"))
    if detected is None or not (truth == 1.0).any():
        return measured
    measured["detection_accuracy"] = metrics.detection_accuracy(detected, truth, pos_label=1.0)
    scores = getattr(method, "instance_scores_", np.empty(0))
    if scores.shape == truth.shape:
        measured["detection_ap"] = metrics.instance_average_precision(
            scores[in_positive_bag], truth[in_positive_bag], missing="lowest"
        )
    return measured


def _is_positive(labels: Any, positive: Any) -> Any:
    """Return 1 for positive, 0 for negative, NaN for unknown."""
    return np.where(labels == labels, (labels == positive).astype(np.float64), np.nan)


def _reset_peak_memory() -> None:
    """Let the kernel measure the peak memory of this process from now on, where it can."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _peak_memory() -> float:
    """Return the peak memory of this process in mebibytes; NaN where it is not known."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return float("nan")
