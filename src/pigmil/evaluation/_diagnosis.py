"""How far to trust the instances that a method finds, judged without instance labels."""

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu, norm, poisson
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pigmil._core.segments import segment_argmax, segment_mean, segment_reduce
from pigmil._core.text import count, sanitize, to_json_safe
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags, as_bags
from pigmil.estimators._selection import content_order
from pigmil.evaluation._cells import last_step
from pigmil.evaluation._selection import (
    HeldOutScores,
    InstanceSelection,
    fit_quietly,
    select_instances,
)
from pigmil.evaluation._splits import bag_groups, inner_splits
from pigmil.graph.scoring import bag_auc, weighted_auc
from pigmil.metrics import instance_scores

NOTHING, WEAK, GOOD = "nothing found", "weak", "good"
_N_DRAWS = 500
_SIGNIFICANT = 0.01  # one-sided; folds share training bags, so that noise passes more often
_GOOD_AUC, _GOOD_STABILITY = 0.75, 0.5
_RIVAL_AUC = 0.95
_RARE = 0.02
_MAX_FEATURES = 2000  # for the regression on summaries of bags


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """How far to trust the instances that a method finds; from :func:`diagnose`.

    Attributes
    ----------
    verdict : {"nothing found", "weak", "good"}
        The answer in short.
    reasons : tuple of str
        Reasons for the verdict.
    alarms : tuple of str
        Signs that single instances do not explain the labels, or that labels are wrong.
    confidence : float
        Between 0 and 1: ``2 * auc - 1``, half of it if there is an alarm; 0 if nothing was found.
    auc : float
        Area under the ROC curve of held-out bags by their best instance.
    auc_interval : (float, float)
        Its 95 % bootstrap interval over bags.
    auc_p_value : float
        Of the one-sided rank-sum test that positive bags have no better best instances.
    stability : float
        Agreement of the picks of two models fitted on one half of the bags each: 0 by chance, 1 if
        the best instance of each positive bag by one half is also the best by the other; see
        :func:`pick_stability`. NaN where there are too few bags.
    same_pick, same_pick_by_chance : float
        Share of the positive bags in which both halves pick the same instance, and its value for
        picks at random.
    bag_summary_auc : float
        Held-out area under the ROC curve of a logistic regression on means and extremes of whole
        bags, which does not use instances; NaN if nothing was found, the bags are sparse or
        have very many features.
    rival_auc : float
        For SoftPIGMIL, the lower ``rival_auc_`` of the halves that have one; otherwise NaN.
    suspects : tuple of str
        Ids of negative bags with a higher best instance than half of the positive bags.
    selection : InstanceSelection
        The calls at the level ``selection.fdr``.
    """

    verdict: str
    reasons: tuple[str, ...]
    alarms: tuple[str, ...]
    confidence: float
    auc: float
    auc_interval: tuple[float, float]
    auc_p_value: float
    stability: float
    same_pick: float
    same_pick_by_chance: float
    bag_summary_auc: float
    rival_auc: float
    suspects: tuple[str, ...]
    selection: InstanceSelection

    @property
    def share_without_call(self) -> float:
        """Share of the positive bags of which no instance is called."""
        bags = len(np.unique(self.selection.bag_ids))
        return len(self.selection.bags_without_call) / bags

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict of strings, finite numbers, lists and None, for reports."""
        selection = self.selection
        n_bags = len(np.unique(selection.bag_ids))
        values = {name: value for name, value in vars(self).items() if name != "selection"}
        return dict(
            to_json_safe(
                {
                    **values,
                    "method": selection.method,
                    "fdr": selection.fdr,
                    "n_called": len(selection.called),
                    "n_positive_bags": n_bags,
                    "n_bags_without_call": len(selection.bags_without_call),
                    "lines": str(self).splitlines(),
                },
                text=lambda value: sanitize(value, limit=4000),
            )
        )

    def __repr__(self) -> str:
        return (
            f"Diagnosis({self.verdict!r}, confidence={self.confidence:.2f}, auc={self.auc:.2f}, "
            f"stability={self.stability:.2f}, alarms={len(self.alarms)})"
        )

    def __str__(self) -> str:
        low, high = self.auc_interval
        selection = self.selection
        n_bags = len(np.unique(selection.bag_ids))
        unknown = "not measured, too few bags"
        stability = (
            unknown
            if np.isnan(self.stability)
            else f"{self.stability:.2f} (same pick in {100 * self.same_pick:.0f} % of the bags, "
            f"{100 * self.same_pick_by_chance:.0f} % by chance)"
        )
        lines = [
            f"{selection.method}: {self.verdict} (confidence {self.confidence:.2f} of 1)",
            *(f"  {reason}" for reason in self.reasons),
            f"Held-out bags ranked by their best instance: AUC {self.auc:.2f} "
            f"(95 % interval {low:.2f} to {high:.2f}; 0.5 is chance)",
            f"Agreement of picks between halves of the bags: {stability}",
            f"Called at a false discovery rate of {100 * selection.fdr:g} %: "
            f"{count(len(selection.called), 'instance')} in "
            f"{n_bags - len(selection.bags_without_call)} of {count(n_bags, 'positive bag')}",
            *(f"Alarm: {alarm}" for alarm in self.alarms),
        ]
        return "\n".join(lines)


def diagnose(
    estimator: Any,
    bags: Any,
    y: Any = None,
    *,
    fdr: float = 0.1,
    cv: int = 5,
    groups: Any = None,
    random_state: int = 0,
    selection: InstanceSelection | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Judge how far to trust the instances that a method finds, from bag labels alone.

    Parameters
    ----------
    estimator, bags, y, fdr, cv, groups, random_state
        See :func:`pigmil.select_instances`.
    selection : InstanceSelection, optional
        Result of :func:`pigmil.select_instances` on the same bags, to avoid its fits.
    callback : callable, optional
        Called after each fit of the selection with the number of finished fits and of all fits.

    Returns
    -------
    Diagnosis
        ``print`` it for one screen of text.

    Notes
    -----
    The verdict is "nothing found" unless the best instances of held-out positive bags are
    significantly better than those of negative bags. It is "good" if the lower end of the
    interval of the AUC is at least 0.75, the stability is at least 0.5, and there is no alarm;
    otherwise it is "weak". So it is where the bags are too few for any test.

    Bag labels cannot reveal everything: an instance that always comes with the cause looks like
    the cause.

    Cost: ``cv + 2`` fits, those of ``selection`` included.

    Examples
    --------
    >>> from pigmil import MISVM, diagnose
    >>> from pigmil.datasets import make_ring
    >>> diagnose(MISVM(), make_ring(random_state=1)).verdict
    'good'
    """
    bags = as_bags(bags)
    n_fits = 2  # on halves of the bags, after those on folds

    def report(done: int, n_folds: int) -> None:
        nonlocal n_fits
        n_fits = n_folds + 2
        if callback is not None:
            callback(done, n_fits)

    if selection is None:
        # The two fits on halves of the bags follow.
        count_all = None if callback is None else lambda done, n: callback(done, n + 2)
        settings: dict[str, Any] = {"cv": cv, "groups": groups, "random_state": random_state}
        selection = select_instances(estimator, bags, y, fdr=fdr, callback=count_all, **settings)
    labels = np.asarray(bags.y if y is None else y)
    refits = refit(estimator, bags, labels, selection.held_out, random_state)
    if callback is not None:
        callback(n_fits, n_fits)
    return judge(bags, selection, refits, random_state)


@dataclass(frozen=True)
class Refits:
    """Scores of all instances by models fitted on each half of the bags.

    Attributes
    ----------
    halves : array of shape (2, n_instances), or (0, n_instances) if a class has less than 4 bags
    rival_auc : float
        The lower ``rival_auc_`` of the halves that have one; otherwise NaN.
    """

    halves: FloatArray
    rival_auc: float


def refit(
    estimator: Any, bags: Bags, y: Any, held_out: HeldOutScores, random_state: int = 0
) -> Refits:
    """Fit on each half of the bags and score all instances."""
    order = content_order(bags)
    grouped = len(np.unique(held_out.units)) < bags.n_bags
    splits = inner_splits(
        held_out.positive[order],
        groups=bag_groups(bags, held_out.units[order]) if grouped else None,
        random_state=random_state,
        folds=2,
    )
    if np.bincount(held_out.positive, minlength=2).min() < 4 or len(splits) < 2:
        splits = []
    models = [fit_quietly(estimator, bags[order[train]], y[order[train]]) for train, _ in splits]
    halves = np.array([instance_scores(model, bags) for model in models])
    known = [getattr(last_step(one), "rival_auc_", np.nan) for one in models]
    rival_auc = min((value for value in known if not np.isnan(value)), default=np.nan)
    return Refits(halves.reshape(-1, bags.n_instances), rival_auc)


def judge(
    bags: Bags, selection: InstanceSelection, refits: Refits, random_state: int = 0
) -> Diagnosis:
    """Judge from scores; see :func:`diagnose`."""
    held_out = selection.held_out
    positive = held_out.positive
    best = segment_reduce(np.maximum, held_out.scores, bags.offsets)
    auc = bag_auc(best, positive)
    interval = bootstrap_auc_interval(best, positive, held_out.units, random_state=random_state)
    p_value = float(mannwhitneyu(best[positive], best[~positive], alternative="greater").pvalue)
    stability, same, by_chance = np.nan, np.nan, np.nan
    if len(refits.halves):
        first, second = refits.halves
        stability, same, by_chance = pick_stability(first, second, bags.offsets, positive)
    suspects = np.flatnonzero(~positive & (best > np.median(best[positive])))
    found = p_value <= _SIGNIFICANT and interval[0] > 0.5
    # The smallest p-value of the test, that of a perfect ranking.
    too_few = 1 / comb(len(positive), int(positive.sum())) > _SIGNIFICANT
    summary_auc = _bag_summary_auc(bags, held_out) if found else np.nan
    alarms: tuple[str, ...] = ()
    if found:
        n_negative = int((~positive).sum())
        alarms = _alarms(auc, summary_auc, refits.rival_auc, suspects, n_negative, bags)
    verdict, reasons = _verdict(found, too_few, auc, interval, stability, alarms, selection)
    confidence = max(0.0, 2 * auc - 1) / (2 if alarms else 1)
    return Diagnosis(
        verdict=verdict,
        reasons=reasons,
        alarms=alarms,
        confidence=0.0 if verdict == NOTHING else confidence,
        auc=auc,
        auc_interval=interval,
        auc_p_value=p_value,
        stability=stability,
        same_pick=same,
        same_pick_by_chance=by_chance,
        bag_summary_auc=summary_auc,
        rival_auc=refits.rival_auc,
        suspects=tuple(sanitize(bags.ids[bag]) for bag in suspects),
        selection=selection,
    )


def bootstrap_auc_interval(
    values: FloatArray, positive: BoolArray, units: IntArray, *, random_state: int = 0
) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the area under the ROC curve of bags.

    Units (bags, or groups of bags, numbered from 0) are drawn with replacement.
    """
    rng = np.random.default_rng(random_state)
    n_units = int(units.max()) + 1
    drawn = (rng.integers(n_units, size=n_units) for _ in range(_N_DRAWS))
    weights = np.array([np.bincount(draw, minlength=n_units)[units] for draw in drawn], dtype=float)
    with np.errstate(invalid="ignore"):  # 0 / 0 where bags of one class were drawn
        areas = weighted_auc(values, positive, weights)
    low, high = np.nanquantile(areas, [0.025, 0.975]) if (areas == areas).any() else (np.nan,) * 2
    return float(low), float(high)


def pick_stability(
    first: FloatArray, second: FloatArray, offsets: IntArray, positive: BoolArray
) -> tuple[float, float, float]:
    """Return how well two sets of scores agree on the best instance of each positive bag.

    The pick of a bag by one set is ranked among the instances of the bag by the other set: the
    share of the other instances that it beats, a tie counting half. The stability is twice the
    mean share, less 1: 1 if the picks are the same, 0 for picks at random. A bag with several
    positive instances may well change its pick; its rank then stays high.

    Returns
    -------
    stability : float
        NaN if all positive bags have one instance; those of one instance are left out.
    same_pick, same_pick_by_chance : float
        Share of the bags with the same pick, and its expectation for picks at random.

    Examples
    --------
    >>> import numpy as np
    >>> first, second = np.array([1.0, 2.0, 3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0, 0.0, 5.0])
    >>> pick_stability(first, second, np.array([0, 3, 5]), np.array([True, True]))[:2]
    (0.5, 0.5)
    """
    sizes = np.diff(offsets)
    chosen = positive & (sizes > 1)
    if not chosen.any():
        return np.nan, np.nan, np.nan
    first, second = (np.where(np.isnan(scores), -np.inf, scores) for scores in (first, second))
    picks = [segment_argmax(scores, offsets)[chosen] for scores in (first, second)]
    shares = [
        _share_beaten(second, picks[0], offsets, chosen),
        _share_beaten(first, picks[1], offsets, chosen),
    ]
    same = float(np.mean(picks[0] == picks[1]))
    return float(2 * np.mean(shares) - 1), same, float(np.mean(1 / sizes[chosen]))


def _share_beaten(
    scores: FloatArray, picks: IntArray, offsets: IntArray, chosen: BoolArray
) -> FloatArray:
    """Return the share of the other instances of its bag that each pick beats."""
    sizes = np.diff(offsets)
    value = np.full(len(sizes), np.inf)
    value[chosen] = scores[picks]
    value = np.repeat(value, sizes)
    points = 1.0 * (scores < value) + 0.5 * (scores == value)
    beaten = segment_reduce(np.add, points, offsets)[chosen] - 0.5
    return np.asarray(beaten / (sizes[chosen] - 1))


def _bag_summary_auc(bags: Bags, held_out: HeldOutScores) -> float:
    """Return the held-out AUC of a logistic regression on means and extremes of bags."""
    if bags.is_sparse or bags.n_features > _MAX_FEATURES:
        return np.nan
    rows = np.asarray(bags.instances, dtype=np.float64)
    table = np.hstack(
        [
            segment_mean(rows, bags.offsets),
            segment_reduce(np.maximum, rows, bags.offsets),
            segment_reduce(np.minimum, rows, bags.offsets),
        ]
    )
    values = np.empty(bags.n_bags)
    for fold in np.unique(held_out.fold):
        inside = held_out.fold == fold
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=0.1, class_weight="balanced", max_iter=1000)
        )
        model.fit(table[~inside], held_out.positive[~inside])
        values[inside] = model.decision_function(table[inside])
    return bag_auc(values, held_out.positive)


def _alarms(
    auc: float,
    summary_auc: float,
    rival_auc: float,
    suspects: IntArray,
    n_negative: int,
    bags: Bags,
) -> tuple[str, ...]:
    alarms = []
    if summary_auc > auc:
        alarms.append(
            f"means and extremes of whole bags predict held-out labels better than the best "
            f"instance (AUC {summary_auc:.3f} against {auc:.3f}): the label may not come from "
            "single instances, or something else comes with them."
        )
    if rival_auc >= _RIVAL_AUC:
        alarms.append(
            f"without the instances found, others explain the labels too (AUC {rival_auc:.2f}): "
            "bag labels cannot decide between the two groups."
        )
    # Of normal values with this AUC so many negative ones would exceed the median of the positive.
    expected = norm.cdf(-np.sqrt(2) * norm.ppf(min(auc, 0.9999))) * n_negative
    if len(suspects) >= 3 and poisson.sf(len(suspects) - 1, expected) < _RARE:
        names = ", ".join(sanitize(bags.ids[bag]) for bag in suspects[:5])
        alarms.append(
            f"{len(suspects)} negative bags hold an instance as good as those of positive bags "
            f"({names}{', …' if len(suspects) > 5 else ''}): labels may be wrong."
        )
    return tuple(alarms)


def _verdict(
    found: bool,
    too_few: bool,
    auc: float,
    interval: tuple[float, float],
    stability: float,
    alarms: tuple[str, ...],
    selection: InstanceSelection,
) -> tuple[str, tuple[str, ...]]:
    if too_few:
        return WEAK, (
            "There are so few bags that even a perfect ranking of the held-out ones could be "
            "chance: add bags before you rely on any of the scores.",
        )
    if not found:
        return NOTHING, (
            "The best instances of held-out positive bags are not clearly better than those of "
            "negative bags. Do not rely on any of the scores.",
        )
    reasons = []
    if interval[0] < _GOOD_AUC:
        reasons.append(
            f"Held-out bags are ranked with an AUC of {auc:.2f}, which could be as low as "
            f"{interval[0]:.2f}: the instances found explain only part of the labels."
        )
    if np.isnan(stability):
        reasons.append("There are too few bags to see whether the picks are stable.")
    elif stability < _GOOD_STABILITY:
        reasons.append("Models fitted on different halves of the bags pick different instances.")
    if alarms:
        reasons.append("There is reason to doubt that single instances explain the labels.")
    if not len(selection.called):
        reasons.append(
            f"No instance is called at a false discovery rate of {100 * selection.fdr:g} %: read "
            "the scores as a ranking, not as an answer."
        )
    if reasons:
        return WEAK, tuple(reasons)
    return GOOD, (
        "The instances found explain the labels of held-out bags, and other bags lead to the same "
        "picks.",
    )
