"""How far to trust the instances that a method finds, judged without instance labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, poisson, rankdata

from pigmil._core.segments import segment_argmax, segment_reduce
from pigmil._core.text import sanitize, to_json_safe
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.estimators._selection import HeldOutScores, least_area
from pigmil.graph.scoring import auc_standard_error

NOTHING, WEAK, GOOD = "nothing found", "weak", "good"
_GOOD_AUC, _GOOD_STABILITY = 0.8, 0.5
_RIVAL_AUC = 0.95
_ERRORS = 2.0  # standard errors by which a difference must exceed 0 to raise an alarm


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """How far to trust the instances that a method finds; from :func:`pigmil.diagnose`.

    Attributes
    ----------
    method : str
        Class of the estimator.
    verdict : {"nothing found", "weak", "good"}
        The confidence in words: 0, up to 0.5, and above.
    confidence : float
        Between 0 and 1: ``2 * auc - 1``, less if whole bags explain the labels as well and if
        there is any doubt, 0 if nothing was found; see :func:`judge`.
    reasons : tuple of str
        Reasons for the verdict.
    alarms : tuple of str
        Signs that single instances do not explain the labels, or that labels are wrong.
    auc : float
        Area under the ROC curve of held-out bags by their best instance.
    auc_interval : (float, float)
        Its 95 % interval over bags or groups of bags.
    stability : float
        Agreement of the best instances of positive bags by the model of all bags and by models
        fitted without the bag: 0 by chance, 1 if all are the same; see :func:`pick_stability`.
        NaN if not measured.
    same_pick, same_pick_by_chance : float
        Share of the positive bags in which both pick the same instance, and its value for picks at
        random.
    bag_summary_auc : float
        Held-out area under the ROC curve of a logistic regression on means and extremes of whole
        bags, which does not use instances; NaN if the bags are sparse or have very many features.
    rival_auc : float
        ``rival_auc_`` of SoftPIGMIL; otherwise NaN.
    suspects : tuple of str
        Ids of negative bags with a higher best instance than half of the positive bags; empty if
        the ids are not known.
    """

    method: str
    verdict: str
    confidence: float
    reasons: tuple[str, ...]
    alarms: tuple[str, ...]
    auc: float
    auc_interval: tuple[float, float]
    stability: float = np.nan
    same_pick: float = np.nan
    same_pick_by_chance: float = np.nan
    bag_summary_auc: float = np.nan
    rival_auc: float = np.nan
    suspects: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The verdict and the confidence."""
        return f"{self.verdict}, confidence {self.confidence:.2f} of 1"

    @property
    def lines(self) -> list[str]:
        """Alarms, reasons and figures, one sentence each."""
        low, high = self.auc_interval
        found = [
            *(f"Alarm: {alarm}" for alarm in self.alarms),
            *self.reasons,
            f"Held-out bags ranked by their best instance: AUC {self.auc:.2f} "
            f"(95 % interval {low:.2f} to {high:.2f}; 0.5 is chance).",
        ]
        if not np.isnan(self.stability):
            found.append(
                "Models that have and have not seen a positive bag pick the same instance in "
                f"{100 * self.same_pick:.0f} % of them "
                f"({100 * self.same_pick_by_chance:.0f} % by chance)."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dict of strings, finite numbers, lists and None, for reports."""
        content = {**vars(self), "lines": str(self).splitlines()}
        return dict(to_json_safe(content, text=lambda value: sanitize(value, limit=4000)))

    def __repr__(self) -> str:
        return (
            f"Diagnosis({self.method}: {self.verdict!r}, confidence={self.confidence:.2f}, "
            f"auc={self.auc:.2f}, alarms={len(self.alarms)})"
        )

    def __str__(self) -> str:
        return "\n".join([f"{self.method}: {self.headline}.", *self.lines])


def judge(
    auc: float,
    low: float,
    least: float,
    *,
    lead: float = np.nan,
    stability: float = np.nan,
    n_alarms: int = 0,
) -> tuple[str, float, tuple[str, ...]]:
    """Return the verdict, the confidence and the reasons: the one rule of all of them.

    The confidence is ``2 * auc - 1``, times ``(1 + Phi(lead)) / 2``, and half of that if there is a
    doubt. The verdict is the confidence in words: "nothing found" if it is 0, "good" above 0.5.

    Parameters
    ----------
    auc, low : float
        Area under the ROC curve of held-out bags, and the lower end of its interval.
    least : float
        Area that chance hardly reaches; above 1 if there are too few bags.
    lead : float, optional
        By how many standard errors the area exceeds that of summaries of whole bags.
    stability : float, optional
        See :func:`pick_stability`.
    n_alarms : int, default=0
        Number of alarms.

    Examples
    --------
    >>> judge(0.9, 0.8, 0.7)[:2], judge(0.9, 0.7, 0.7)[:2], judge(0.6, 0.4, 0.7)[:2]
    (('good', 0.8), ('weak', 0.4), ('nothing found', 0.0))
    """
    few = least > 1
    if auc <= 0.5 or (not few and (auc < least or low <= 0.5)):
        reason = (
            "The best instances of held-out positive bags are not clearly better than those of "
            "negative bags. Do not rely on any of the scores."
        )
        return NOTHING, 0.0, (reason,)
    doubts = {
        "There are so few bags that even a perfect ranking of the held-out ones could be chance: "
        "add bags before you rely on any of the scores.": few,
        f"Held-out bags are ranked with an AUC of {auc:.2f}, which could be as low as {low:.2f}: "
        "the instances found explain only part of the labels.": not few and low < _GOOD_AUC,
        "Models of different bags pick different instances.": stability < _GOOD_STABILITY,
        "There is reason to doubt that single instances explain the labels.": n_alarms > 0,
    }
    reasons = [reason for reason, applies in doubts.items() if applies]
    confidence = round(2.0 * auc - 1.0, 12)
    if not np.isnan(lead):
        confidence *= (1.0 + float(norm.cdf(lead))) / 2.0
    if reasons:
        confidence /= 2.0
    if lead < 1:
        reasons.append("Means and extremes of whole bags rank held-out bags about as well.")
    if confidence > 0.5:
        return GOOD, confidence, ("The instances found explain the labels of held-out bags.",)
    return WEAK, confidence, tuple(reasons)


def diagnose_area(method: str, auc: float, n_positive: int, n_negative: int) -> Diagnosis:
    """Diagnose a fit of which only the area under the ROC curve of held-out bags is known."""
    error = auc_standard_error(auc, n_positive, n_negative)
    interval = _interval(auc, error)
    verdict = judge(auc, interval[0], least_area(n_positive, n_negative))
    return Diagnosis(method, *verdict, (), auc, interval)


def diagnose_scores(
    method: str,
    held_out: HeldOutScores,
    seen: FloatArray | None = None,
    *,
    rival_auc: float = np.nan,
    rivals: IntArray | None = None,
    ids: Any = None,
) -> Diagnosis:
    """Diagnose a fit by the scores of bags held out.

    Parameters
    ----------
    method : str
        Class of the estimator.
    held_out : HeldOutScores
        From the fit, or from fits on the other bags.
    seen : array of shape (n_instances,), optional
        Scores by the fit of all bags.
    rival_auc : float, optional
        ``rival_auc_`` of the fit.
    rivals : array of int, optional
        ``rival_instances_`` of the fit.
    ids : array of shape (n_bags,), optional
        Names of the bags.
    """
    positive, offsets, units = held_out.positive, held_out.offsets, held_out.units
    scores = np.where(held_out.known == 0, -np.inf, held_out.scores)
    best = segment_reduce(np.maximum, scores, offsets)
    n_positive, n_negative = (len(np.unique(units[side])) for side in (positive, ~positive))
    auc, parts = auc_by_unit(best, positive, units)
    smallest_error = auc_standard_error(auc, n_positive, n_negative)
    interval = _interval(auc, max(float(np.linalg.norm(parts)), smallest_error))
    stability, same, by_chance = np.nan, np.nan, np.nan
    if seen is not None:
        stability, same, by_chance = pick_stability(seen, scores, offsets, positive)
    suspects = np.flatnonzero(~positive & (best > np.median(best[positive])))
    names = () if ids is None else tuple(sanitize(ids[bag]) for bag in suspects)
    summary_auc, lead = np.nan, np.nan
    alarms = []
    if not np.isnan(held_out.summaries).any():
        summary_auc, others = auc_by_unit(held_out.summaries, positive, units)
        lead = (auc - summary_auc) / max(float(np.linalg.norm(others - parts)), 1e-12)
        if lead < -_ERRORS:
            alarms.append(
                "means and extremes of whole bags predict held-out labels better than the best "
                f"instance (AUC {summary_auc:.3f} against {auc:.3f}): the label may not come from "
                "single instances, or something else comes with them."
            )
    found = ~np.isnan(held_out.others)
    sides = [len(np.unique(units[found & side])) for side in (positive, ~positive)]
    if lead < 1 and min(sides) > 0:
        # Means and extremes rank bags about as well as the best instance: do the others, too?
        area, _ = auc_by_unit(held_out.others[found], positive[found], units[found])
        if area > least_area(*sides):
            alarms.append(
                f"instances that are hardly positive predict held-out labels too (AUC {area:.2f}): "
                "something else comes with the positive ones, and part of the calls may be of it."
            )
    rival_error = auc_standard_error(rival_auc, n_positive, n_negative)
    if rival_auc >= _RIVAL_AUC and rival_auc - _ERRORS * rival_error >= _GOOD_AUC:
        alarms.append(
            f"without the instances found, others explain the labels too (AUC {rival_auc:.2f}): "
            "bag labels cannot decide between the two groups."
            + _look_at_both(seen, offsets, rivals, ids)
        )
    # Of normal values with this AUC so many negative ones would exceed the median of the positive.
    expected = norm.cdf(-np.sqrt(2) * norm.ppf(min(auc, 0.9999))) * (~positive).sum()
    if len(suspects) >= 3 and poisson.sf(len(suspects) - 1, expected) < norm.sf(_ERRORS):
        listed = f" ({', '.join(names[:5])}{', …' if len(names) > 5 else ''})" if names else ""
        alarms.append(
            f"{len(suspects)} negative bags hold an instance as good as those of positive bags"
            f"{listed}: labels may be wrong."
        )
    least = least_area(n_positive, n_negative)
    verdict = judge(auc, interval[0], least, lead=lead, stability=stability, n_alarms=len(alarms))
    return Diagnosis(
        method,
        *verdict,
        alarms=() if verdict[0] == NOTHING else tuple(alarms),
        auc=auc,
        auc_interval=interval,
        stability=stability,
        same_pick=same,
        same_pick_by_chance=by_chance,
        bag_summary_auc=summary_auc,
        rival_auc=rival_auc,
        suspects=names,
    )


def _look_at_both(
    seen: FloatArray | None, offsets: IntArray, rivals: IntArray | None, ids: Any
) -> str:
    """Return a sentence that names the best instance of both groups in the best positive bag."""
    if seen is None or rivals is None or not len(rivals):
        return ""
    owner = np.searchsorted(offsets, rivals, side="right") - 1
    best = segment_argmax(seen, offsets)[owner]
    at = int(np.argmax(seen[best]))
    bag, start = owner[at], offsets[owner[at]]
    name = sanitize(bag if ids is None else ids[bag])
    return (
        f" Look at instances {best[at] - start} (found) and {rivals[at] - start} (the others) of "
        f"bag {name}: if both count, fit with parts='all'."
    )


def _interval(auc: float, error: float) -> tuple[float, float]:
    """Return the 95 % interval of an area with a standard error."""
    return max(0.0, auc - 1.96 * error), min(1.0, auc + 1.96 * error)


def auc_by_unit(
    values: FloatArray, positive: BoolArray, units: IntArray
) -> tuple[float, FloatArray]:
    """Return the area under the ROC curve of bags, and the part of each unit in its error.

    The norm of the parts is the standard error of DeLong et al. (1988), for units of several bags
    that of Obuchowski (1997). The norm of the difference of two such arrays is the standard error
    of the difference of two areas on the same bags.

    Examples
    --------
    >>> import numpy as np
    >>> positive = np.array([True, True, False, False])
    >>> auc_by_unit(np.array([3.0, 1.0, 2.0, 0.0]), positive, np.arange(4))
    (0.75, array([ 0.125, -0.125, -0.125,  0.125]))
    """
    ranks, share = rankdata(values), np.empty(len(values))
    sizes = {True: int(positive.sum()), False: int((~positive).sum())}
    for side, n_others in ((positive, sizes[False]), (~positive, sizes[True])):
        share[side] = (ranks[side] - rankdata(values[side])) / n_others  # others that it exceeds
    share[~positive] = 1.0 - share[~positive]
    auc = float(share[positive].mean())
    parts = (share - auc) / np.where(positive, sizes[True], sizes[False])
    return auc, np.bincount(units, parts).astype(np.float64)


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
    both = [np.where(np.isnan(scores), -np.inf, scores) for scores in (first, second)]
    picks = [segment_argmax(scores, offsets) for scores in both]
    shares = []
    for scores, pick in zip(both, reversed(picks), strict=True):
        value = np.repeat(scores[pick], sizes)
        points = 1.0 * (scores < value) + 0.5 * (scores == value)
        beaten = segment_reduce(np.add, points, offsets)[chosen] - 0.5  # but the pick itself
        shares.append(beaten / (sizes[chosen] - 1))
    same = float(np.mean(picks[0][chosen] == picks[1][chosen]))
    return float(2 * np.mean(shares) - 1), same, float(np.mean(1 / sizes[chosen]))
