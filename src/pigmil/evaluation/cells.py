"""One cell of a comparison: fit on the training bags of a fold, measure on its test bags."""

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score
from threadpoolctl import threadpool_limits

from pigmil import metrics
from pigmil.bags import Bags
from pigmil.estimators import card_of
from pigmil.evaluation.protocol import protocol_estimator
from pigmil.evaluation.splits import Split

_INNER_FOLDS = 5
_lock = threading.Lock()
_told = threading.local()
_recording: list[None] = []
_saved: list[Any] = []


def compute_cell(
    bags: Bags, split: Split, method: str, parameters: dict[str, Any], *, tune: bool, seed: int
) -> dict[str, Any]:
    """Fit a method on the training bags of a split and measure it on the test bags.

    Parameters
    ----------
    bags : Bags
        Labelled bags.
    split : Split
        Which of them train and test.
    method : str
        Name of the method.
    parameters : dict
        Parameters beside its defaults.
    tune : bool
        Whether the grid of its card is searched by inner cross-validation.
    seed : int
        For the method and its inner folds.

    Returns
    -------
    dict
        ``accuracy``, ``balanced_accuracy``, ``f1``, ``auc`` of the test bags; where instance
        labels are known and the method detects, ``detection_accuracy`` on the training bags and
        ``instance_auc``, ``instance_ap``, ``top1`` on the test bags; ``fit_seconds``,
        ``predict_seconds`` (processor time), ``peak_mb``; ``warnings``, a list.
    """
    train, test = bags[split.train], bags[split.test]
    inner = min(_INNER_FOLDS, int(np.unique(train.y, return_counts=True)[1].min()))
    estimator = protocol_estimator(
        method,
        tune=tune and inner > 1,
        inner_folds=inner,
        random_state=seed,
        centre=not bags.is_sparse,
        **parameters,
    )
    # Threads of one process share its processor time; a worker process has its own.
    alone = threading.current_thread() is threading.main_thread()
    clock = time.process_time if alone else time.thread_time
    _reset_peak()
    with recorded_warnings() as told, threadpool_limits(1):
        start = clock()
        estimator.fit(train, train.y)
        fitted = clock()
        found: dict[str, Any] = {}
        if card_of(method).classifies:
            found |= _bag_metrics(estimator, test)
        predicted = clock()
        if bags.instance_labels is not None and card_of(method).detects:
            found |= _instance_metrics(estimator, train, test, bags)
    return {
        **found,
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "peak_mb": _peak(),
        "warnings": sorted(set(told)),
    }


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect the warnings of this thread, none shown.

    ``warnings.catch_warnings`` is not made for threads: the filters that one thread puts back
    can be those of another. Here the first to enter sets them and the last to leave restores.
    """
    with _lock:
        if not _recording:
            saved = warnings.catch_warnings()
            saved.__enter__()
            warnings.simplefilter("always")
            warnings.showwarning = _keep
            _saved.append(saved)
        _recording.append(None)
    mine: list[str] = []
    _told.messages = mine
    try:
        yield mine
    finally:
        del _told.messages
        with _lock:
            _recording.pop()
            if not _recording:
                _saved.pop().__exit__(None, None, None)


def _keep(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, ConvergenceWarning | UserWarning):
        getattr(_told, "messages", []).append(f"{category.__name__}: {message}")


def _bag_metrics(estimator: Any, test: Bags) -> dict[str, float]:
    decision = estimator.decision_function(test)
    classes = np.unique(test.y) if not hasattr(estimator, "classes_") else estimator.classes_
    positive = _positive_label(estimator, classes)
    if positive != classes[-1]:
        decision = -decision  # its sign follows the order of the classes
    truth = test.y == positive
    called = decision > 0
    both = 0 < truth.sum() < len(truth)
    return {
        "accuracy": float(accuracy_score(truth, called)),
        "balanced_accuracy": float(balanced_accuracy_score(truth, called)) if both else np.nan,
        "f1": float(f1_score(truth, called, zero_division=0.0)),
        "auc": float(roc_auc_score(truth, decision)) if both else np.nan,
    }


def _positive_label(estimator: Any, classes: Any) -> Any:
    """Positive label of the method inside a pipeline or search; the last class if it has none."""
    fitted = getattr(estimator, "best_estimator_", estimator)
    method = fitted[-1] if hasattr(fitted, "steps") else fitted
    return getattr(method, "positive_label_", classes[-1])


def _instance_metrics(estimator: Any, train: Bags, test: Bags, bags: Bags) -> dict[str, float]:
    pipeline = getattr(estimator, "best_estimator_", estimator)
    method = pipeline[-1]
    scores = method.decision_function_instances(pipeline[:-1].transform(test))
    # A fold may lack positive instances; which label is positive is known from all the bags.
    known = bags.instance_labels == bags.instance_labels
    values = np.unique(bags.instance_labels[known])
    positive = method.positive_label_
    is_positive = positive if positive in values else values[-1]
    inside = np.repeat(test.y == positive, test.sizes)
    truth = _positive(test.instance_labels, is_positive)
    mixed = np.unique(truth[inside][truth[inside] == truth[inside]]).size == 2
    found = _positive(train.instance_labels, is_positive)
    return {
        "detection_accuracy": metrics.detection_accuracy(
            method.detected_instances_, found, pos_label=1.0
        )
        if (found == 1.0).any()
        else np.nan,
        "instance_auc": metrics.instance_auc(scores[inside], truth[inside]) if mixed else np.nan,
        "instance_ap": metrics.instance_average_precision(scores[inside], truth[inside])
        if mixed
        else np.nan,
        "top1": metrics.top1_hit_rate(
            scores, test, test.y, truth, pos_label=1.0, bag_pos_label=positive
        )
        if (truth == 1.0).any()
        else np.nan,
    }


def _positive(labels: Any, positive: Any) -> Any:
    """1 for positive, 0 for negative, NaN for unknown."""
    return np.where(labels == labels, (labels == positive).astype(np.float64), np.nan)


def _reset_peak() -> None:
    """Let the kernel count the peak memory of this process from now on, where it can."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return


def _peak() -> float:
    """Peak memory of this process in mebibytes, NaN where it cannot be told."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return float("nan")
