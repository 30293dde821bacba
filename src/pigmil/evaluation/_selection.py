"""How many instances are positive: calls with a bounded share of false ones."""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import false_discovery_control
from sklearn.base import clone

from pigmil._core.errors import PositiveLabelWarning, import_optional
from pigmil._core.segments import segment_gather
from pigmil._core.text import count
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags, as_bags, is_lazy
from pigmil.estimators._selection import content_order
from pigmil.evaluation._cells import last_step
from pigmil.evaluation._splits import bag_groups, inner_splits, with_fold_groups
from pigmil.metrics import instance_scores
from pigmil.scale import keep_scores

_TOP_SHARE = 0.1  # of the negatives, whose clustering in bags sets the design effect
_CONFIDENCE = 0.75  # of the bound on the share of negatives that reach a score
_MANY_NEEDED = 0.05  # share of the instances that must stand out before one is called


@dataclass(frozen=True)
class HeldOutScores:
    """Scores of all instances by models that were fitted without their bags.

    Attributes
    ----------
    scores : array of shape (n_instances,)
        In standard deviations from the mean of the same fold, see :func:`standardized_scores`;
        instances without a score have minus infinity.
    positive : array of bool of shape (n_bags,)
        The positive bags.
    positive_label : label
        Their label.
    fold : array of int of shape (n_bags,)
        The fold in which a bag was held out.
    units : array of int of shape (n_bags,)
        Bags of the same unit (group) may depend on each other; otherwise the number of the bag.
    """

    scores: FloatArray
    positive: BoolArray
    positive_label: Any
    fold: IntArray
    units: IntArray


@dataclass(frozen=True, repr=False)
class InstanceSelection:
    """Instances called positive at a bounded rate of false discoveries.

    Returned by :func:`select_instances`. The arrays have one entry per instance of a positive
    bag.

    Attributes
    ----------
    fdr : float
        The level: expected share of false ones among the called instances.
    method : str
        Class of the estimator.
    instances : array of int
        Flat index of the instance.
    bag_ids : array
        Its bag.
    scores : array
        Its held-out score, see :class:`HeldOutScores`.
    p_values : array
        Its p-value, see :func:`conformal_p_values`.
    adjusted : array
        The smallest level at which it is called (Benjamini-Hochberg).
    n_negatives : int
        Number of held-out negative instances that calibrate the p-values.
    n_negative_bags : int
        Number of their bags.
    notes : tuple of str
        Reasons for doubt.
    held_out : HeldOutScores
        Held-out scores of all instances.
    """

    fdr: float
    method: str
    instances: IntArray
    bag_ids: Any
    scores: FloatArray
    p_values: FloatArray
    adjusted: FloatArray
    n_negatives: int
    n_negative_bags: int
    notes: tuple[str, ...]
    held_out: HeldOutScores = field(compare=False)

    @property
    def is_called(self) -> BoolArray:
        """Which of ``instances`` are called positive."""
        return np.asarray(self.adjusted <= self.fdr)

    @property
    def called(self) -> IntArray:
        """Flat indices of the instances called positive."""
        return self.instances[self.is_called]

    @property
    def bags_without_call(self) -> Any:
        """Ids of the positive bags of which no instance is called."""
        ids, number = np.unique(self.bag_ids, return_inverse=True)
        return ids[np.bincount(number, self.is_called, minlength=len(ids)) == 0]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per instance of a positive bag."""
        pandas = import_optional("pandas", extra="frames", purpose="A table of the calls")
        return pandas.DataFrame(
            {
                "instance": self.instances,
                "bag": self.bag_ids,
                "score": self.scores,
                "p_value": self.p_values,
                "adjusted": self.adjusted,
                "called": self.is_called,
            }
        )

    def __repr__(self) -> str:
        n_bags = len(np.unique(self.bag_ids))
        lines = [
            f"{count(len(self.called), 'instance')} of {len(self.instances):,} called positive in "
            f"{n_bags - len(self.bags_without_call)} of {count(n_bags, 'positive bag')} by "
            f"{self.method}, at most {100 * self.fdr:g} % of them false on average "
            f"({count(self.n_negatives, 'held-out negative')} of "
            f"{count(self.n_negative_bags, 'bag')})."
        ]
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])


def select_instances(
    estimator: Any,
    bags: Any,
    y: Any = None,
    *,
    fdr: float = 0.1,
    cv: int = 5,
    groups: Any = None,
    random_state: int = 0,
    folder: str | os.PathLike[str] | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> InstanceSelection:
    """Call instances of positive bags positive, with a bounded share of false calls.

    All instances of negative bags are negative under the standard assumption. The estimator is
    fitted without each fold of bags and scores that fold. The held-out scores of the negative
    bags give each instance of a positive bag a p-value (:func:`conformal_p_values`), and the
    procedure of Benjamini and Hochberg calls instances so that on average at most the share
    ``fdr`` of the calls is false. No instance label is used.

    Parameters
    ----------
    estimator : estimator
        A method that scores instances, or a pipeline or search around one. It is cloned.
    bags : bags
        Anything :func:`pigmil.as_bags` takes, or bags on disk (:func:`pigmil.scan_bags`). Of
        these the bags to fit on are loaded if the estimator does not fit on disk; scores stream.
    y : array of shape (n_bags,), optional
        Labels of two classes. Optional if ``bags`` has them.
    fdr : float, default=0.1
        Level: the expected share of false calls.
    cv : int, default=5
        Number of folds; fewer if a class has fewer bags.
    groups : str, array of shape (n_bags,) or tuple, optional
        Bags of one group stay in one fold and count as dependent, for instance those of one
        patient; see :func:`pigmil.evaluation._splits.bag_groups`.
    random_state : int, default=0
        Seed of the folds.
    folder : path, optional
        For bags on disk: keep the held-out scores there, in Parquet files by fold and block. After
        an interruption the same call computes the rest.
    callback : callable, optional
        Called after each fit with the number of finished fits and of all fits.

    Returns
    -------
    InstanceSelection

    Notes
    -----
    The bound holds if the negatives of positive bags are distributed as those of negative bags.
    It fails where something merely comes along with the cause, or where no single instance makes
    a bag positive; see :func:`pigmil.diagnose`.

    The folds depend on the content of the bags and not on their order. An increasing linear
    transformation of an estimator's scores changes nothing.

    Cost: ``cv`` fits, and O(N log N) for N instances.

    References
    ----------
    Benjamini, Hochberg: Controlling the false discovery rate, JRSS B 57 (1995). Bates, Candes,
    Lei, Romano, Sesia: Testing for outliers with conformal p-values, Ann. Statist. 51 (2023).

    Examples
    --------
    >>> from pigmil import MISVM, select_instances
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=1)
    >>> selection = select_instances(MISVM(), bags, fdr=0.1)
    >>> bool(bags.instance_labels[selection.called].mean() >= 0.9)
    True
    """
    if not 0 < fdr < 1:
        raise ValueError(f"fdr must lie between 0 and 1, got {fdr!r}.")
    bags = bags if is_lazy(bags) else as_bags(bags)
    held_out = held_out_scores(
        estimator, bags, y, cv=cv, groups=groups, random_state=random_state, folder=folder,
        callback=callback,
    )  # fmt: skip
    return call_instances(held_out, bags, fdr=fdr, method=type(last_step(estimator)).__name__)


def call_instances(
    held_out: HeldOutScores, bags: Bags, *, fdr: float = 0.1, method: str = "an estimator"
) -> InstanceSelection:
    """Call instances from the held-out scores of bags; see :func:`select_instances`."""
    inside = held_out.positive[bags.bag_index]
    rows = np.flatnonzero(inside).astype(np.int64)
    units = held_out.units[bags.bag_index]
    negatives, owners = held_out.scores[~inside], units[~inside]
    p_values = conformal_p_values(held_out.scores[rows], negatives, owners)
    adjusted = np.asarray(false_discovery_control(p_values))
    least = float(conformal_p_values(np.array([np.inf]), negatives, owners)[0])
    return InstanceSelection(
        fdr=fdr,
        method=method,
        instances=rows,
        bag_ids=bags.ids[bags.bag_index[rows]],
        scores=held_out.scores[rows],
        p_values=p_values,
        adjusted=adjusted,
        n_negatives=len(negatives),
        n_negative_bags=int((~held_out.positive).sum()),
        notes=_notes(p_values, adjusted, fdr, least),
        held_out=held_out,
    )


def _notes(p_values: FloatArray, adjusted: FloatArray, fdr: float, least: float) -> tuple[str, ...]:
    """Return why few or no instances are called, where that needs saying."""
    notes = []
    if not (adjusted <= fdr).any():
        notes.append(
            "Nothing is called: no instances stand out enough from those of negative bags."
        )
    needed = int(np.ceil(least * len(p_values) / fdr))
    if needed > _MANY_NEEDED * len(p_values):
        notes.append(
            f"The smallest possible p-value is {least:.2g}, so that at least {needed} instances "
            "must stand out before any is called. More negative bags would help."
        )
    return tuple(notes)


def held_out_scores(
    estimator: Any,
    bags: Bags,
    y: Any = None,
    *,
    cv: int = 5,
    groups: Any = None,
    random_state: int = 0,
    folder: str | os.PathLike[str] | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> HeldOutScores:
    """Score every instance by a model fitted without its bag.

    Parameters
    ----------
    estimator, bags, y, cv, groups, random_state, folder, callback
        See :func:`select_instances`.

    Returns
    -------
    HeldOutScores
    """
    y = np.asarray(bags.y if y is None else y)
    positive, label = positive_bags(estimator, bags, y)
    number = bag_groups(bags, groups)
    units = np.arange(bags.n_bags, dtype=np.int64) if number is None else number
    order = content_order(bags)
    splits = inner_splits(
        positive[order],
        groups=None if number is None else bag_groups(bags, number[order]),
        random_state=random_state,
        folds=cv,
    )
    if cv < 2 or not splits:
        held = f"{int(positive.sum())} positive and {count(int((~positive).sum()), 'negative bag')}"
        grouped = "" if number is None else f" in {count(int(number.max()) + 1, 'group')}"
        raise ValueError(
            f"Held-out scores need two folds with bags of both classes; there are {held}{grouped}, "
            f"and the number of folds is {cv}."
        )
    scores = np.empty(bags.n_instances)
    fold = np.empty(bags.n_bags, dtype=np.int64)
    bags = with_fold_groups(bags, number)
    for k, (train, test) in enumerate(splits):
        train, test = order[train], order[test]
        fold[test] = k
        rows = segment_gather(bags.offsets, test)
        part = None if folder is None else Path(folder) / f"fold-{k}"
        found = _score_held_out(estimator, bags[train], y[train], bags[test], part)
        scores[rows] = standardized_scores(found)
        if callback is not None:
            callback(k + 1, len(splits))
    return HeldOutScores(scores, positive, label, fold, units)


def positive_bags(estimator: Any, bags: Bags, y: Any) -> tuple[BoolArray, Any]:
    """Return which bags the estimator takes for positive, and their label."""
    if y.shape != (bags.n_bags,):
        raise ValueError(
            f"One label per bag is needed: there are {bags.n_bags} bags, and y has shape {y.shape}."
        )
    labels = np.unique(y)
    if len(labels) != 2:
        raise ValueError(f"Labels of two classes are needed, got {labels.tolist()}.")
    chosen = [
        value
        for name, value in estimator.get_params().items()
        if name.split("__")[-1] == "pos_label" and value is not None
    ]
    label = chosen[0] if chosen else labels[1]
    if label not in labels:
        raise ValueError(f"pos_label={label!r} is not among the labels {labels.tolist()}.")
    return np.asarray(y == label), label


def fit_quietly(estimator: Any, bags: Bags, y: Any) -> Any:
    """Fit a clone, without its callback and without the warning about text labels."""
    model = clone(estimator)
    callbacks = [name for name in model.get_params() if name.split("__")[-1] == "callback"]
    model.set_params(**dict.fromkeys(callbacks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositiveLabelWarning)
        return model.fit(bags, y)


def _score_held_out(
    estimator: Any, seen: Any, y: Any, unseen: Any, folder: Path | None
) -> FloatArray:
    """Fit on some bags and score the instances of others; keep the scores in a folder if given.

    Bags on disk are loaded for the fit if the method does not fit on them.
    """

    def fit() -> Any:
        if is_lazy(seen) and not getattr(last_step(estimator), "_fits_lazy_bags", True):
            return fit_quietly(estimator, seen.load(info=False), y)
        return fit_quietly(estimator, seen, y)

    if folder is None:
        return instance_scores(fit(), unseen)
    if not is_lazy(seen):
        raise ValueError(
            "folder= keeps the scores of bags on disk; open them with scan_bags, or leave it out."
        )
    parameters = {name: repr(value) for name, value in estimator.get_params().items()}
    note = {
        "estimator": type(estimator).__name__,
        "parameters": {name: text for name, text in parameters.items() if "callback" not in name},
        "fitted_on": [str(one) for one in seen.ids],
        "labels": [str(one) for one in y],
    }
    return keep_scores(fit, unseen, folder, note)


def standardized_scores(scores: FloatArray) -> FloatArray:
    """Return scores in standard deviations from their mean.

    Models of different folds have different scales; this makes their scores comparable. All
    instances of a fold count alike, regardless of the label of their bag: if the negatives alone
    set mean and scale, their scores would be less spread than those of the negatives of positive
    bags. Instances without a score come out as minus infinity.

    Parameters
    ----------
    scores : array of shape (n_instances,)
        Scores by one model.

    Examples
    --------
    >>> import numpy as np
    >>> standardized_scores(np.array([1.0, 3.0, np.nan]))
    array([ -1.,   1., -inf])
    """
    scores = np.where(np.isnan(scores), -np.inf, scores)
    finite = scores[np.isfinite(scores)]
    if finite.size == 0:
        return scores
    spread = float(finite.std())
    if not spread > 1e-12 * float(np.abs(finite).max()):
        spread = 1.0
    return np.asarray((scores - finite.mean()) / spread)


def conformal_p_values(scores: FloatArray, calibration: FloatArray, units: IntArray) -> FloatArray:
    r"""Return p-values of scores against those of known negatives that come in bags.

    If k of n negatives score at least as high, the usual conformal p-value is
    :math:`(1 + k) / (1 + n)`. It is right on average over draws of the negatives, but the same
    negatives serve for all instances: if few of them happen to score high, many calls are false.
    Here p is the upper end of the one-sided 75 % interval (Clopper and Pearson) of the share of
    negatives that reach the score,

    .. math:: I_p\Bigl(\frac{k}{\delta} + 1, \frac{n - k}{\delta}\Bigr) = 0.75,

    with the regularized incomplete beta function I. Instances of one bag depend on each other, so
    that n negatives count for fewer: :math:`\delta` is the design effect (:func:`design_effect`).
    This p-value is never below :math:`(1 + k) / (1 + n)`.

    Parameters
    ----------
    scores : array of shape (n_scores,)
        Scores to judge.
    calibration : array of shape (n,)
        Scores of known negatives.
    units : array of int of shape (n,)
        Bag, or group of bags, of each negative.

    Returns
    -------
    array of shape (n_scores,)

    Notes
    -----
    Cost: O((n + n_scores) log n).

    References
    ----------
    Clopper, Pearson: The use of confidence or fiducial limits, Biometrika 26 (1934).

    Examples
    --------
    >>> import numpy as np
    >>> calibration, bags = np.array([1.0, 2.0]), np.array([0, 1])
    >>> conformal_p_values(np.array([3.0, 1.5, 0.0]), calibration, bags).round(3)
    array([0.5  , 0.866, 1.   ])
    """
    delta = design_effect(calibration, units)
    reached = np.searchsorted(np.sort(-calibration), -scores, side="right")
    counts, number = np.unique(reached, return_inverse=True)
    bounds = np.ones(len(counts))
    part = counts < len(calibration)
    k, rest = counts[part] / delta, (len(calibration) - counts[part]) / delta
    bounds[part] = betaincinv(k + 1, rest, _CONFIDENCE)
    return np.asarray(bounds[number])


def design_effect(calibration: FloatArray, units: IntArray) -> float:
    r"""Return how many dependent negatives count as much as one independent negative.

    :math:`1 + (\tilde m - 1) \rho`, where :math:`\tilde m` is the mean size of the bag of an
    instance and :math:`\rho`, between 0 and 1, the intraclass correlation of belonging to the
    highest tenth of the negatives.

    Parameters
    ----------
    calibration, units
        See :func:`conformal_p_values`.

    References
    ----------
    Kish: Survey sampling (1965). Donner, Koval: The estimation of intraclass correlation in the
    analysis of family data, Biometrics 36 (1980), for the estimate from an analysis of variance.

    Examples
    --------
    >>> import numpy as np
    >>> design_effect(np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0]), np.array([0, 0, 1, 1, 2, 2]))
    2.0
    """
    _, number, sizes = np.unique(units, return_inverse=True, return_counts=True)
    n, n_units = len(calibration), len(sizes)
    if n_units < 2 or n == n_units:
        return 1.0
    highest = np.sort(calibration)[-max(1, round(_TOP_SHARE * n))]
    top = (calibration >= highest).astype(np.float64)
    means = np.bincount(number, top) / sizes
    between = float(sizes @ (means - top.mean()) ** 2) / (n_units - 1)
    within = float(((top - means[number]) ** 2).sum()) / (n - n_units)
    effective_size = (n - float(sizes @ sizes) / n) / (n_units - 1)
    variance = between + (effective_size - 1.0) * within
    if variance <= 0:
        return 1.0
    correlation = float(np.clip((between - within) / variance, 0.0, 1.0))
    return 1.0 + (float(sizes @ sizes) / n - 1.0) * correlation
