"""One cell of a comparison: fit on the training bags of a fold, measure on its test bags.

Methods of this library are scaled inside the fold and tuned on the training bags only.
"""

import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from pigmil import metrics
from pigmil._core.errors import BagsError
from pigmil.bags import Bags, scaled_pipeline
from pigmil.estimators._pairwise import PairwiseBagClassifier, grid_accuracies
from pigmil.estimators.base import BaseMIL
from pigmil.evaluation._splits import Split, inner_splits, with_fold_groups
from pigmil.evaluation._store import PER_BAG, shorten

_RECALLS = (1, 5, 10)
_PAIRWISE_REPEATS = 4  # of the inner folds, where a repeat costs almost nothing


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
        start = time.process_time()
        estimator = _prepare(entry, train, train_groups, tune, seed)
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
    inner = last_step(estimator)
    # The methods of this library read the groups from the bags.
    if groups is None or not hasattr(inner, "cv") or isinstance(inner, BaseMIL):
        return estimator
    # Folds are made here: not every estimator with inner folds passes groups on to them.
    if hasattr(inner.cv, "split"):
        inner.set_params(cv=list(inner.cv.split(np.zeros(len(train)), train.y, groups)))
    elif inner.cv is None or isinstance(inner.cv, int):
        splits = inner_splits(train.y, groups=groups, folds=inner.cv or 5, random_state=seed)
        if not splits:
            raise BagsError(
                f"{type(inner).__name__} needs inner folds, and the training bags of a class are "
                "all of one group; use fewer outer folds or leave groups out."
            )
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
        shorten(f"{item.category.__name__}: {item.message}")
        for item in caught
        if issubclass(item.category, ConvergenceWarning | UserWarning)
    ]


def last_step(estimator: Any) -> Any:
    """Return the method inside pipelines and fitted searches."""
    if hasattr(estimator, "best_estimator_"):
        return last_step(estimator.best_estimator_)
    return last_step(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator


def positive_label(estimator: Any, labels: Any) -> Any:
    """Return the label that an estimator takes as positive, fitted or not."""
    parameters = estimator.get_params().items()
    chosen = [value for name, value in parameters if name.split("__")[-1] == "pos_label"]
    default = getattr(estimator, "classes_", np.unique(labels))[-1]
    given = next((value for value in chosen if value is not None), default)
    return getattr(last_step(estimator), "positive_label_", given)


def _bag_metrics(
    estimator: Any, test: Bags, split: Split, groups: Any, protocol: bool
) -> dict[str, Any]:
    """Measure the predictions for the test bags; the AUC of several classes is a mean over them.

    ``truth`` and ``called`` are positions of classes, 1 for the positive one of two.
    """
    if not hasattr(estimator, "predict"):
        return {}
    classes = np.asarray(getattr(estimator, "classes_", ()))
    if len(classes) > 2:
        scores = _bag_scores(estimator, test)
        truth = np.where(np.isin(test.y, classes), np.searchsorted(classes, test.y), len(classes))
        called = np.searchsorted(classes, estimator.predict(test))
        complete, columns = np.isin(classes, test.y).all(), None if scores is None else scores.T
    else:
        positive = positive_label(estimator, test.y)
        scores = _bag_scores(estimator, test, positive)
        truth = (test.y == positive).astype(int)
        # The methods of the library call a bag positive above 0; others may have their own rule.
        called = (scores > 0 if protocol else estimator.predict(test) == positive).astype(int)
        complete, columns = 0 < truth.sum() < len(truth), None if scores is None else [scores]
    area = balanced = np.nan
    if complete and columns is not None:
        labels = [1] if len(classes) <= 2 else range(len(classes))
        pairs = zip(labels, columns, strict=True)
        area = np.mean([roc_auc_score(truth == label, column) for label, column in pairs])
    if complete or len(classes) > 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a label that no test bag has
            balanced = balanced_accuracy_score(truth, called)
    average = "binary" if len(classes) <= 2 else "macro"
    units = split.test if groups is None else np.asarray(groups)[split.test]
    return {
        "accuracy": float(accuracy_score(truth, called)),
        "balanced_accuracy": float(balanced),
        "f1": float(f1_score(truth, called, average=average, zero_division=0.0)),
        "auc": float(area),
        PER_BAG: {
            "positive": truth.tolist(),
            "called": called.tolist(),
            "score": None if scores is None else scores.tolist(),
            "group": np.asarray(units).tolist(),
        },
    }


def _bag_scores(estimator: Any, test: Bags, positive: Any = None) -> Any:
    """Return the scores of bags, one per class, or of the positive one of two; None without any."""
    names = ("decision_function", "predict_proba")
    name = next((name for name in names if hasattr(estimator, name)), None)
    if name is None:
        return None
    scores = np.asarray(getattr(estimator, name)(test), dtype=np.float64)
    classes = list(getattr(estimator, "classes_", [positive]))
    if scores.ndim == 2:
        return scores if positive is None else scores[:, classes.index(positive)]
    # The sign of a decision follows the order of the classes.
    return scores if positive == classes[-1] else -scores


def _instance_metrics(estimator: Any, train: Bags, test: Bags, bags: Bags) -> dict[str, float]:
    try:
        scores = metrics.instance_scores(estimator, test)
    except TypeError:  # it does not score instances
        return {}
    positive = positive_label(estimator, bags.y)
    # A fold may lack positive instances; which label is positive is known from all bags.
    values = np.unique(bags.instance_labels[bags.instance_labels == bags.instance_labels])
    positive_instance = positive if positive in values else values[-1]
    unknown = ("detection_accuracy", "detection_ap", "instance_auc", "instance_ap", "top1")
    measured = dict.fromkeys(unknown, float("nan"))
    # In the training bags: what the method detected.
    truth = _is_positive(train.instance_labels, positive_instance)
    method = last_step(estimator)
    if hasattr(method, "detected_instances_") and (truth == 1.0).any():
        measured["detection_accuracy"] = metrics.detection_accuracy(
            method.detected_instances_, truth, pos_label=1.0
        )
        train_scores = getattr(method, "instance_scores_", np.empty(0))
        if train_scores.shape == truth.shape:
            inside = np.repeat(train.y == positive, train.sizes)
            measured["detection_ap"] = metrics.instance_average_precision(
                train_scores[inside], truth[inside], missing="lowest"
            )
    truth = _is_positive(test.instance_labels, positive_instance)
    inside = np.repeat(test.y == positive, test.sizes)
    if len(np.unique(truth[inside & (truth == truth)])) == 2:
        measured["instance_auc"] = metrics.instance_auc(scores[inside], truth[inside])
        measured["instance_ap"] = metrics.instance_average_precision(scores[inside], truth[inside])
    if not (truth == 1.0).any():
        return measured
    by_bag: Any = (test, test.y, truth)
    labels: Any = {"pos_label": 1.0, "bag_pos_label": positive}
    for name, k in (("top1", 1), ("hit3", 3)):
        measured[name] = metrics.hit_at_k(scores, *by_bag, k=k, **labels)
        measured[f"{name}_chance"] = metrics.hit_at_k_chance(*by_bag, k=k, **labels)
    measured["per_bag_auc"] = metrics.per_bag_auc(scores, *by_bag, **labels)
    measured["per_bag_ap"] = metrics.per_bag_average_precision(scores, *by_bag, **labels)
    measured["froc"] = metrics.froc_score(scores, test, truth, pos_label=1.0)
    for percent in _RECALLS:
        measured[f"recall_{percent}"] = metrics.recall_at_fraction(
            scores, truth, fraction=percent / 100, pos_label=1.0
        )
    return measured


def _is_positive(labels: Any, positive: Any) -> Any:
    """Return 1 for positive, 0 for negative, NaN for unknown."""
    return np.where(labels == labels, (labels == positive).astype(np.float64), np.nan)


def _reset_peak_memory() -> None:
    """Let the kernel measure the peak memory of this process from now on, where it can."""
    with suppress(OSError), open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak_memory() -> float:
    """Return the peak memory of this process in mebibytes; NaN where it is not known."""
    with suppress(OSError), open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
    return float("nan")


def choose_on_tables(pipeline: Pipeline, bags: Bags, grid: dict[str, Any], splits: Any) -> Pipeline:
    """Return a pipeline with the best setting of its last step, a method on tables of bags by bags.

    As GridSearchCV chooses, but bags are scaled once, on all of them, and every table is computed
    once. Of equally good settings the first one is chosen.
    """
    scaled = clone(pipeline[:-1]).fit_transform(bags)
    scored = grid_accuracies(pipeline[-1], scaled, bags.y, grid, splits)
    best = np.argmax(np.round([accuracy for _, accuracy in scored], 9))
    pipeline[-1].set_params(**scored[best][0])
    return pipeline


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
        A Pipeline, or GridSearchCV over it. Of methods on tables of bags by bags the setting is
        chosen already.

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
    repeats = _PAIRWISE_REPEATS if pairwise else 1
    splits = inner_splits(bags.y, groups=groups, repeats=repeats, random_state=random_state)
    if not grid or not splits:
        return pipeline
    if pairwise:
        return choose_on_tables(pipeline, bags, grid, splits)
    return GridSearchCV(
        pipeline, {f"method__{name}": values for name, values in grid.items()}, cv=splits
    )
