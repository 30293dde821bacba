"""How many instances are positive: calls with a bounded share of false ones."""

import html
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv
from scipy.stats import false_discovery_control
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from pigmil._core.errors import ChanceWarning, PositiveLabelWarning, import_optional
from pigmil._core.segments import segment_gather
from pigmil._core.text import Table, count
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import FOLD_GROUP, Bags, as_bags, before_marks, is_lazy
from pigmil.estimators._selection import (
    HeldOutScores,
    bag_digests,
    content_order,
    scores_of_others,
    summary_scores,
)
from pigmil.evaluation._cells import last_step, positive_label
from pigmil.evaluation._diagnosis import Diagnosis, diagnose_area, diagnose_scores
from pigmil.evaluation._splits import bag_groups, inner_splits, with_fold_groups
from pigmil.metrics import instance_scores

# The highest negatives, whose clustering in bags sets the design effect: a fiftieth, since calls
# are made there, but 20 to measure it, or a tenth of few. Over the highest tenth nothing was called
# in slides of 1,000 tiles that were ranked well.
_TOP_SHARE, _TOP_LEAST, _TOP_MOST = 0.02, 20, 0.1
_SHOWN = 10  # instances in a notebook
_CONFIDENCE = 0.75  # of the bound on the share of negatives that reach a score


@dataclass(frozen=True, repr=False)
class InstanceSelection:
    """Instances called positive at a bounded rate of false discoveries.

    Returned by :func:`select_instances`. The arrays have one entry per instance of the bags that
    may hold positive ones: the positive bags of the fit, and all bags that it has not seen.

    Attributes
    ----------
    fdr : float
        The level: expected share of false ones among the called instances.
    instances : array of int
        Flat index of the instance.
    bag_ids : array
        Its bag.
    scores : array
        Its held-out score; for instances that the fit has not seen, its score.
    p_values : array
        Its p-value, see :func:`conformal_p_values`.
    adjusted : array
        The smallest level at which it is called (Benjamini-Hochberg).
    n_negatives : int
        Number of held-out negative instances that calibrate the p-values.
    n_negative_bags : int
        Number of their bags.
    diagnosis : Diagnosis
        How far to trust the fit.
    """

    fdr: float
    instances: IntArray
    bag_ids: Any
    scores: FloatArray
    p_values: FloatArray
    adjusted: FloatArray
    n_negatives: int
    n_negative_bags: int
    diagnosis: Diagnosis

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
        """Ids of the bags of which no instance is called."""
        ids, number = np.unique(self.bag_ids, return_inverse=True)
        return ids[np.bincount(number, self.is_called, minlength=len(ids)) == 0]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why nothing is called, if so, and the smallest level that calls an instance."""
        smallest = float(self.adjusted.min(initial=1.0))
        if smallest <= self.fdr:
            return ()
        enough = np.ceil(1000 * smallest) / 1000  # rounded up, so that this level calls it
        level = f"The smallest level that calls an instance is {enough:g}"
        level = level if enough < 1 else "There is no level that calls an instance"
        return (
            f"Nothing is called. {level}: {count(self.n_negatives, 'instance')} of "
            f"{count(self.n_negative_bags, 'negative bag')} calibrate, and the smallest p-value is "
            f"{self.p_values.min(initial=1.0):.2g}. More negative bags make it smaller.",
        )

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per instance."""
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

    @property
    def lines(self) -> list[str]:
        """The number of calls and the notes, one sentence each."""
        n_bags = len(np.unique(self.bag_ids))
        return [
            f"{count(len(self.called), 'instance')} of {len(self.instances):,} called positive in "
            f"{n_bags - len(self.bags_without_call)} of {count(n_bags, 'bag')}, at most "
            f"{100 * self.fdr:g} % of them false on average.",
            *self.notes,
        ]

    def __repr__(self) -> str:
        alarms = [f"Alarm: {alarm}" for alarm in self.diagnosis.alarms]
        return "\n".join(
            [f"{self.diagnosis.method}: {self.diagnosis.headline}.", *alarms, *self.lines]
        )

    def _repr_html_(self) -> str:
        best = np.argsort(-self.scores, kind="stable")[:_SHOWN]
        columns = (self.bag_ids, self.instances, self.scores.round(3), self.adjusted.round(3))
        rows = list(zip(*(values[best].tolist() for values in columns), strict=True))
        lines = "<br>".join(map(html.escape, repr(self).splitlines()))
        return f"<p>{lines}</p>{Table(['bag', 'instance', 'score', 'level'], rows).html()}"


def select_instances(
    estimator: Any,
    bags: Any,
    y: Any = None,
    *,
    fdr: float = 0.1,
    cv: int = 5,
    groups: Any = None,
    random_state: int = 0,
    callback: Callable[[int, int], None] | None = None,
) -> InstanceSelection:
    """Call instances positive, with a bounded share of false calls.

    All instances of negative bags are negative under the standard assumption. Their scores by
    models fitted without their bag give each other instance a p-value
    (:func:`conformal_p_values`), and the procedure of Benjamini and Hochberg calls instances so
    that on average at most the share ``fdr`` of the calls is false. No instance label is used.

    A method that holds out bags in its own fit (SoftPIGMIL) is fitted once, and not at all if it
    is fitted already: bags of the fit have the scores that it held out, and instances of all
    other bags are scored and compared with the negatives of the fit. Labels of these bags are not
    used. Other methods are fitted again without each fold of the bags.

    With bags that have marks (:meth:`pigmil.Bags.with_marks`) the result refers to the bags before:
    instances marked negative calibrate as well, and those marked positive are called. A fitted
    SoftPIGMIL knows its marks; other methods need the bags with marks.

    Parameters
    ----------
    estimator : estimator
        A method that scores instances, or a pipeline or search around one, fitted or not. What is
        fitted is a clone.
    bags : bags
        Anything :func:`pigmil.as_bags` takes, or bags on disk (:func:`pigmil.scan_bags`). Of
        these the bags to fit on are loaded if the estimator does not fit on disk; scores stream.
    y : array of shape (n_bags,), optional
        Labels of two classes. Optional if ``bags`` has them, or the estimator is a fitted
        SoftPIGMIL.
    fdr : float, default=0.1
        Level: the expected share of false calls.
    cv : int, default=5
        Number of folds; fewer if a class has fewer bags. SoftPIGMIL has its own.
    groups : str, array of shape (n_bags,) or tuple, optional
        Bags of one group stay in one fold and count as dependent, for instance those of one
        patient; see :func:`pigmil.evaluation._splits.bag_groups`.
    random_state : int, default=0
        Seed of the folds.
    callback : callable, optional
        Called after each fit with the number of finished fits and of all fits.

    Returns
    -------
    InstanceSelection
        With the verdict on the fit, ``diagnosis``.

    Notes
    -----
    The bound holds if the negatives of positive bags are distributed as those of negative bags.
    It fails where something merely comes along with the cause, or where no single instance makes
    a bag positive: read the verdict first.

    The folds depend on the content of the bags and not on their order. An increasing linear
    transformation of an estimator's scores changes nothing.

    Cost: a hash of each instance and O(N log N) for N instances; for methods that hold out no
    bags, ``cv`` fits.

    References
    ----------
    Benjamini, Hochberg: Controlling the false discovery rate, JRSS B 57 (1995). Bates, Candes,
    Lei, Romano, Sesia: Testing for outliers with conformal p-values, Ann. Statist. 51 (2023).

    Examples
    --------
    >>> from pigmil import SoftPIGMIL, select_instances
    >>> from pigmil.datasets import make_ring
    >>> bags, others = make_ring(random_state=1), make_ring(random_state=2)
    >>> model = SoftPIGMIL().fit(bags)
    >>> selection = select_instances(model, others, fdr=0.1)
    >>> bool(others.instance_labels[selection.called].mean() >= 0.9)
    True
    """
    if not 0 < fdr < 1:
        raise ValueError(f"fdr must lie between 0 and 1, got {fdr!r}.")
    bags = bags if is_lazy(bags) else as_bags(bags)
    labels = bags.y if y is None else np.asarray(y)
    model = estimator if _is_fitted(estimator) else None
    if getattr(last_step(estimator), "_holds_out_bags", False):
        if model is None:
            number = bag_groups(bags, groups)
            model = fit_quietly(estimator, with_fold_groups(bags, number), _checked(labels, bags))
        elif groups is not None:
            raise ValueError(
                "The folds of a fitted model are those of its fit; pass an unfitted estimator to "
                "keep groups in one fold."
            )
        found = before_marks(bags)
        if found is not None:
            bags, labels = found[0], labels[: found[0].n_bags]
        return _select_by_fit(model, bags, labels, fdr)
    found = before_marks(bags)
    if found is not None and groups is None:
        groups = FOLD_GROUP
    held_out = refit_folds(
        estimator, bags, _checked(labels, bags), cv=cv, groups=groups, random_state=random_state,
        callback=callback,
    )  # fmt: skip
    if found is not None:
        bags, rows, marks = found
        held_out = held_out.before_marks(bags, rows, marks)
    seen = None if model is None else instance_scores(model, bags)
    method = type(last_step(estimator)).__name__
    diagnosis = diagnose_scores(method, held_out, seen, ids=bags.ids)
    return _call(bags, held_out.positive, held_out.scores, held_out.known, held_out, diagnosis, fdr)


def diagnose(estimator: Any, bags: Any = None, y: Any = None, **settings: Any) -> Diagnosis:
    """Judge how far to trust the instances that a method finds, from bag labels alone.

    Parameters
    ----------
    estimator : estimator
        As in :func:`pigmil.select_instances`. If it is not fitted, a clone is fitted on the bags.
    bags : bags, optional
        The bags. A fitted SoftPIGMIL or PIGMIL needs none: it is judged by what it held out.
    y : array of shape (n_bags,), optional
        Labels of two classes. Optional if ``bags`` has them.
    **settings
        ``cv``, ``groups``, ``random_state`` and ``callback`` of :func:`pigmil.select_instances`.

    Returns
    -------
    Diagnosis
        ``print`` it for one screen of text.

    Notes
    -----
    The verdict is "nothing found" unless the best instances of held-out positive bags are
    significantly better than those of negative bags. It is "good" if the lower end of the
    interval of the AUC is at least 0.8, the stability is at least 0.5, there is no alarm, and
    summaries of whole bags do not rank the bags as well; otherwise it is "weak". So it is where
    the bags are too few for any test.

    Bag labels cannot reveal everything: an instance that always comes with the cause looks like
    the cause.

    Cost: one fit of SoftPIGMIL, ``cv + 1`` fits of another method; none if it was fitted.

    Examples
    --------
    >>> from pigmil import SoftPIGMIL, diagnose
    >>> from pigmil.datasets import make_ring
    >>> model = SoftPIGMIL().fit(make_ring(random_state=1))
    >>> diagnose(model).verdict
    'good'
    """
    method = last_step(estimator)
    name = type(method).__name__
    if bags is None:
        if hasattr(method, "held_out_"):
            return _judge_fit(method)
        if not np.isnan(getattr(method, "held_out_auc_", np.nan)):
            sizes = len(method.working_bags_.working), method.negative_bags_.n_bags
            return diagnose_area(name, method.held_out_auc_, *sizes)
        raise ValueError(f"{name} keeps no scores of bags held out; give labelled bags.")
    bags = bags if is_lazy(bags) else as_bags(bags)
    if not _is_fitted(estimator) and not getattr(method, "_holds_out_bags", False):
        labels = bags.y if y is None else np.asarray(y)
        estimator = fit_quietly(estimator, bags, _checked(labels, bags))
    return select_instances(estimator, bags, y, **settings).diagnosis


def _is_fitted(estimator: Any) -> bool:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _checked(labels: Any, bags: Bags) -> Any:
    """Return labels of two classes, one per bag."""
    if labels is None:
        raise ValueError("The labels of the bags are needed: give y, or bags that have labels.")
    if labels.shape != (bags.n_bags,):
        raise ValueError(
            f"One label per bag is needed: there are {bags.n_bags} bags, and y has shape "
            f"{labels.shape}."
        )
    if len(np.unique(labels)) != 2:
        raise ValueError(f"Labels of two classes are needed, got {np.unique(labels).tolist()}.")
    return labels


def _judge_fit(method: Any, ids: Any = None) -> Diagnosis:
    """Judge a fitted method by the scores that it held out."""
    if (method.held_out_.fold < 0).any():
        raise ValueError(
            "Held-out scores need two folds with bags of both classes; the bags of the fit "
            "have a class of one bag or group."
        )
    decided = getattr(method, "parts", "one") == "all"  # that both of two groups count
    return diagnose_scores(
        type(method).__name__,
        method.held_out_,
        method.instance_scores_,
        rival_auc=np.nan if decided else getattr(method, "rival_auc_", np.nan),
        rivals=getattr(method, "rival_instances_", None),
        ids=ids,
    )


def _select_by_fit(model: Any, bags: Any, labels: Any, fdr: float) -> InstanceSelection:
    """Call instances by a fitted method that holds out bags: of its own bags and of others."""
    method, inner = model, bags  # the bags as the method sees them, inside pipelines
    while hasattr(method, "best_estimator_") or hasattr(method, "steps"):
        method = getattr(method, "best_estimator_", method)
        if hasattr(method, "steps"):
            inner = method[:-1].transform(inner) if len(method) > 1 else inner
            method = method[-1]
    if not hasattr(method, "held_out_"):
        raise ValueError(f"Labels of two classes are needed, got {method.classes_.tolist()}.")
    held_out = method.held_out_
    place = _places(bag_digests(inner), held_out.digests)
    known = np.flatnonzero(place >= 0)
    positive = np.ones(bags.n_bags, dtype=bool)
    positive[known] = held_out.positive[place[known]]
    known_labels = np.array([]) if labels is None else labels[known]
    differs = (known_labels == method.positive_label_) != positive[known][: len(known_labels)]
    if differs.any() and np.isin(known_labels, method.classes_).all():
        raise ValueError(
            "These bags had other labels in the fit of the model; pass an unfitted estimator."
        )
    whole = np.array_equal(place, np.arange(len(held_out.positive)))
    diagnosis = _judge_fit(method, bags.ids if whole else None)
    scores, marks = np.empty(bags.n_instances), np.full(bags.n_instances, np.nan)
    rows = segment_gather(held_out.offsets, place[known])
    seen = segment_gather(bags.offsets, known)
    scores[seen], marks[seen] = held_out.scores[rows], held_out.known[rows]
    if len(known) < bags.n_bags:
        new = np.flatnonzero(place < 0)
        rows = segment_gather(bags.offsets, new)
        scores[rows] = method.decision_function_instances(inner[new])
    return _call(bags, positive, scores, marks, held_out, diagnosis, fdr)


def _places(digests: IntArray, known: IntArray) -> IntArray:
    """Return the position of each bag among those of a fit, -1 if it is not one of them."""
    if np.array_equal(digests, known):  # copies of one bag may have different labels
        return np.arange(len(known))
    order = np.argsort(known, kind="stable")
    place = order[np.searchsorted(known[order], digests).clip(max=len(known) - 1)]
    return np.where(known[place] == digests, place, -1)


def _call(
    bags: Any,
    positive: BoolArray,
    scores: FloatArray,
    marks: FloatArray,
    held_out: HeldOutScores,
    diagnosis: Diagnosis,
    fdr: float,
) -> InstanceSelection:
    """Call instances of some bags by their scores and those of the negatives held out.

    Instances marked negative are negatives like those of negative bags; those marked positive are
    called, and not among the tests.
    """
    rows = np.flatnonzero(np.repeat(positive, bags.sizes) & (marks != 0)).astype(np.int64)
    sizes = np.diff(held_out.offsets)
    negative = np.repeat(~held_out.positive, sizes) | (held_out.known == 0)
    units = np.repeat(held_out.units, sizes)[negative]
    p_values = conformal_p_values(scores[rows], held_out.scores[negative], units)
    tested = marks[rows] != 1
    p_values[~tested] = 0.0
    adjusted = np.zeros(len(rows))
    adjusted[tested] = false_discovery_control(p_values[tested])
    return InstanceSelection(
        fdr=fdr,
        instances=rows,
        bag_ids=bags.ids[bags.bag_index[rows]],
        scores=scores[rows],
        p_values=p_values,
        adjusted=adjusted,
        n_negatives=int(negative.sum()),
        n_negative_bags=int((~held_out.positive).sum()),
        diagnosis=diagnosis,
    )


def refit_folds(
    estimator: Any,
    bags: Bags,
    y: Any,
    *,
    cv: int = 5,
    groups: Any = None,
    random_state: int = 0,
    callback: Callable[[int, int], None] | None = None,
) -> HeldOutScores:
    """Score every instance by a model fitted without its bag; see :func:`select_instances`.

    Scores are in standard deviations from the mean of the same fold, see
    :func:`standardized_scores`.
    """
    label = positive_label(estimator, y)
    if label not in y:
        raise ValueError(f"pos_label={label!r} is not among the labels {np.unique(y).tolist()}.")
    positive = np.asarray(y == label)
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
        seen = bags[train]
        if is_lazy(seen) and not getattr(last_step(estimator), "_fits_lazy_bags", True):
            seen = seen.load(info=False)
        model = fit_quietly(estimator, seen, y[train])
        found = standardized_scores(instance_scores(model, bags[test]))
        scores[segment_gather(bags.offsets, test)] = found
        if callback is not None:
            callback(k + 1, len(splits))
    nothing = np.empty(0, dtype=np.int64)
    summaries = summary_scores(bags, positive, fold)
    others = scores_of_others(bags, positive, fold, scores)
    return HeldOutScores(scores, bags.offsets, positive, fold, units, nothing, summaries, others)


def fit_quietly(estimator: Any, bags: Bags, y: Any) -> Any:
    """Fit a clone, without its callback and without warnings that a verdict repeats."""
    model = clone(estimator)
    callbacks = [name for name in model.get_params() if name.split("__")[-1] == "callback"]
    model.set_params(**dict.fromkeys(callbacks))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PositiveLabelWarning)
        warnings.simplefilter("ignore", ChanceWarning)
        return model.fit(bags, y)


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
    highest negatives: a tenth of them, 20 of more than 200, and a fiftieth of more than 1,000.

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
    n_top = max(1, round(max(_TOP_SHARE * n, min(_TOP_MOST * n, _TOP_LEAST))))
    highest = np.sort(calibration)[-n_top]
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
