"""One cell of a comparison: fit on the training bags of a fold, measure on its test bags."""

import multiprocessing
import sys
import time
import traceback
import warnings
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

_MEBIBYTE = 2**20


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
    estimator = protocol_estimator(method, tune=tune, random_state=seed, **parameters)
    train, test = bags[split.train], bags[split.test]
    _reset_peak()
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        start = time.process_time()
        estimator.fit(train, train.y)
        fitted = time.process_time()
        found: dict[str, Any] = {}
        if card_of(method).classifies:
            found |= _bag_metrics(estimator, test)
        predicted = time.process_time()
        if bags.instance_labels is not None and card_of(method).detects:
            found |= _instance_metrics(estimator, train, test)
    return {
        **found,
        "fit_seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "peak_mb": _peak(),
        "warnings": sorted(
            {
                f"{item.category.__name__}: {item.message}"
                for item in caught
                if issubclass(item.category, ConvergenceWarning | UserWarning)
            }
        ),
    }


def _bag_metrics(estimator: Any, test: Bags) -> dict[str, float]:
    decision = estimator.decision_function(test)
    classes = np.unique(test.y) if not hasattr(estimator, "classes_") else estimator.classes_
    positive = classes[-1]
    truth = test.y == positive
    called = decision > 0
    both = 0 < truth.sum() < len(truth)
    return {
        "accuracy": float(accuracy_score(truth, called)),
        "balanced_accuracy": float(balanced_accuracy_score(truth, called)) if both else np.nan,
        "f1": float(f1_score(truth, called, zero_division=0.0)),
        "auc": float(roc_auc_score(truth, decision)) if both else np.nan,
    }


def _instance_metrics(estimator: Any, train: Bags, test: Bags) -> dict[str, float]:
    pipeline = getattr(estimator, "best_estimator_", estimator)
    method = pipeline[-1]
    scores = method.decision_function_instances(pipeline[:-1].transform(test))
    labels = test.instance_labels
    inside = np.repeat(test.y == method.classes_[-1], test.sizes)
    known = inside & (scores == scores)
    mixed = len(np.unique(labels[known])) == 2
    return {
        "detection_accuracy": float(
            metrics.detection_accuracy(method.detected_instances_, train.instance_labels)
        ),
        "instance_auc": float(metrics.instance_auc(scores[known], labels[known]))
        if mixed
        else np.nan,
        "instance_ap": float(metrics.instance_average_precision(scores[known], labels[known]))
        if mixed
        else np.nan,
        "top1": float(metrics.top1_hit_rate(scores, test, test.y, labels)),
    }


def compute_guarded(
    arguments: dict[str, Any], *, time_limit: float | None, memory_limit: float | None
) -> tuple[dict[str, Any], str | None]:
    """Compute a cell; an error becomes its text, and limits end it from outside.

    Parameters
    ----------
    arguments : dict
        Of :func:`compute_cell`.
    time_limit : float or None
        Seconds after which the cell is ended.
    memory_limit : float or None
        Mebibytes of address space beyond what the process has at the start.

    Returns
    -------
    metrics : dict
        Empty if the cell failed.
    error : str or None
        What it failed with.
    """
    if time_limit is None and memory_limit is None:
        return _attempt(arguments)
    context: Any = multiprocessing.get_context("spawn" if sys.platform == "win32" else "forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_limited, args=(sender, arguments, memory_limit), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(time_limit):
            return {}, f"TimeoutError: the cell took longer than time_limit={time_limit:g} s"
        return receiver.recv()
    except EOFError:
        process.join(5)
        return {}, f"ChildProcessError: the cell's process ended with {process.exitcode}"
    finally:
        process.kill()
        process.join()
        receiver.close()


def _limited(sender: Any, arguments: dict[str, Any], memory_limit: float | None) -> None:
    if memory_limit is not None:
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        bound = now + int(memory_limit * _MEBIBYTE)
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    sender.send(_attempt(arguments))


def _attempt(arguments: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    try:
        return compute_cell(**arguments), None
    except Exception as error:  # a failing method must not end the comparison
        place = traceback.extract_tb(error.__traceback__)[-1]
        return {}, f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"


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
