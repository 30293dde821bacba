"""SoftPIGMIL: soft pools in several metrics, weighted by how well they rank held-out bags."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from pigmil._core import state
from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.model_parts import model_part
from pigmil._core.segments import (
    offsets_of,
    segment_argmax,
    segment_argmin,
    segment_gather,
    segment_ids,
    segment_mean,
    segment_reduce,
)
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, POS_LABEL, POSITIVE
from pigmil.estimators._selection import stratified_folds
from pigmil.estimators._soft_screen import fit_plane, screen
from pigmil.estimators._soft_steps import (
    Direction,
    WalkProblem,
    bag_auc,
    copy_penalty,
    fit_noisy_or,
    fit_sigmoid,
    model_weights,
    quota,
    robust_spread,
    walk,
    working_positions,
)
from pigmil.estimators._soft_views import (
    Scale,
    View,
    column_moments,
    fit_scale,
    landmark_positions,
    squared_distances,
    view_features,
    whitening,
)
from pigmil.estimators.base import MILClassifier
from pigmil.estimators.card import Card
from pigmil.scale import LazyBags, map_instances, take_rows
from pigmil.scale import column_moments as moments_of_bags

# Width of the kernel in units of length (None: linear) and ridge of its whitening.
VIEWS: tuple[tuple[float | None, float], ...] = (
    (None, 0.5),
    (0.7, 0.5),
    (1.0, 0.5),
    (1.5, 0.05),
    (3.0, 0.5),
)
NOISY_OR_WIDTHS = (None, 1.0, 3.0)
FEW_VIEWS = tuple(view for view in VIEWS if view[0] in NOISY_OR_WIDTHS)
SCALES = ("raw", "standard", "rank", "whitened")
SCALES_OF_MANY = ("raw", "standard", "whitened")  # ranks of many instances take long
_N_FOLDS = 4
_WIDE = 1024  # features from which ranks and rotations are left out
_WIDEST_SCREENED = 2048  # features up to which a covariance matrix is cheap
_SCREENING_ROUNDS = 4  # passes over all instances
_TOLERANCE = 1e-3  # of the shares of a pool
_SATURATED = 0.99  # held-out AUC from which bag labels are as good as explained
_NEARLY_SATURATED = 0.9  # of the single walk that finds the first group
_FAR_TIGHTER = 4.0  # ratio of squared spreads
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Fit:
    """One model on one view: scores of the working instances, seen and held out."""

    kind: str
    scores: FloatArray
    held_out: FloatArray
    direction: Direction
    rounds: list[tuple[FloatArray, FloatArray]]


@model_part
@dataclass(frozen=True)
class ModelTrace:
    """How one model of :class:`SoftPIGMIL` came about.

    Parameters
    ----------
    scale, width, kind
        Its scale, the width of its kernel (None: linear), and ``"walk"`` or ``"noisy_or"``.
    auc : float
        Area under the ROC curve of the best instance scores of bags held out.
    weight : float
        Share in the final score.
    instances : array of int
        Flat positions of the instances of positive bags that took part.
    pools, scores : array of shape (n_rounds, n_instances)
        For every round of a walk the shares of these instances in the places of their bags, and
        the scores that followed; the next shares are the softmax of them. Empty for a noisy-or.
    """

    scale: str
    width: float | None
    kind: str
    auc: float
    weight: float
    instances: IntArray
    pools: NDArray[np.float32]
    scores: NDArray[np.float32]


@model_part
@dataclass(frozen=True)
class Committee:
    """The linear scores of all views that count, with what they need to see an instance."""

    _state: ClassVar[dict[str, state.Field]] = {
        "intercept": state.Number(),
    }

    def _check_state(self, sizes: state.Sizes) -> None:
        lists = (self.scales, self.landmarks, self.views, self.coefs)
        if not all(isinstance(part, list) and part for part in lists):
            raise state.StateError("scales, landmarks, views or coefs are not lists")
        for scale, landmarks in zip(self.scales, self.landmarks, strict=True):
            state.Part(classes=(Scale,), same={"features": "features"}).bind(scale, "scale", sizes)
            expected = state.Floats(shape=("landmarks", "features"), sparse=True, least=1)
            expected.bind(landmarks, "landmarks", {"features": sizes["features"]})
            expected.verify(landmarks, "landmarks", sizes)
        for view, coef in zip(self.views, self.coefs, strict=True):
            lengths: state.Sizes = {}
            same = {"directions": "directions", "basis": "basis"}
            state.Part(classes=(View,), same=same).bind(view, "view", lengths)
            weights = state.Floats(shape=("directions",))
            weights.bind(coef, "coef", lengths)
            weights.verify(coef, "coef", lengths)
            on_landmarks = view.uses_landmarks or view.width is not None
            rows = self.landmarks[view.scale].shape[0]
            if lengths["basis"] != (rows if on_landmarks else sizes["features"]):
                raise state.StateError("a view does not have the features of its scale")

    scales: list[Scale]
    landmarks: list[Any]
    views: list[View]
    coefs: list[FloatArray]
    intercept: float

    def scores(self, instances: Any) -> FloatArray:
        """Return the score of every instance, in blocks of rows."""
        parts = [self._block(rows) for rows in _row_blocks(instances)]
        return np.concatenate(parts) + self.intercept

    def _block(self, rows: Any) -> FloatArray:
        total = np.zeros(rows.shape[0])
        for number, (scale, landmarks) in enumerate(zip(self.scales, self.landmarks, strict=True)):
            pairs = zip(self.views, self.coefs, strict=True)
            mine = [(view, coef) for view, coef in pairs if view.scale == number]
            if not mine:
                continue
            scaled = scale.apply(rows)
            squared = None
            if any(view.width is not None for view, _ in mine):
                squared = squared_distances(scaled, landmarks)
            for view, coef in mine:
                features = view.features(scaled, landmarks, squared)
                weights = (view.projection @ coef).astype(features.dtype)
                total += features @ weights - view.shift @ coef
        return total


class SoftPIGMIL(MILClassifier):
    """SoftPIGMIL: positive instances by soft pools in several metrics.

    The idea of PIGMIL, a pool with one place per positive bag whose instances resemble those of
    other positive bags and differ from negative ones, beyond its paper: the place of a bag is
    shared among its instances, similarity is that of exemplar LDA, and many metrics compete.

    0. If two groups of instances both explain the bag labels and one is far tighter than the
       other, the tighter one is taken for a trap and left out.
    1. Views. On each scale of the features (as given, standardized, normal scores of ranks,
       principal components of equal variance) the instances are whitened as they are and through
       Gaussian kernels of several widths with landmarks.
    2. On each view a walk: an instance scores its mean similarity to the pool of the other
       positive bags less that to the negatives of other bags; the place of each bag is shared by
       the softmax of the scores; and so on until the shares stay the same. On some views also a
       noisy-or over bags, fitted by its likelihood.
    3. Each model is judged by the area under the ROC curve of the best instance scores of bags
       held out. The final score is the mean of the models' scores, weighted by
       ``exp(auc / temperature)``.
    4. Training instances that are exact copies of negatives lose score, the more the rarer such
       copies are among the negatives.
    5. A sigmoid on bags held out turns scores into log-odds of a bag: 0 separates.

    Parameters
    ----------
    sharpness : float, default=3.0
        Factor of the scores in the softmax that shares a place.
    max_iter : int, default=10
        Most rounds of a walk.
    temperature : float, default=0.02
        Difference in held-out AUC that costs a model a factor e in weight.
    ridge : float, default=0.03
        Penalty of the noisy-or.
    n_landmarks : int, default=120
        Most landmarks from each class.
    max_instances : int, default=15000
        Most instances to fit on. Where there are more, a linear walk over all of them, and then a
        first fit on its best and a random sample of each bag, score all instances; the fit that
        counts has the best of these and a random sample of each bag.
    bag_rule : {"max", "embedding"}, default="max"
        Value of a bag: that of its best instance, so that adding an instance never lowers it; or
        a logistic regression on the greatest kernels with the landmarks, for data that do not
        follow the standard assumption.
    n_jobs : int or None, default=None
        Views fitted at a time, in threads. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the sample where there are more than ``max_instances``.
    pos_label : label, optional
        The positive class; the greater label if not given.

    Attributes
    ----------
    detected_instances_ : array of int of shape (n_positive_bags,)
        Flat index of the best-scored instance of each positive training bag.
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance; the pool of its own bag is left out of the walks.
    trace_ : list of ModelTrace
        Shares and scores of every round, held-out AUC and weight of every model.
    held_out_auc_ : float
        Area under the ROC curve of the weighted score over bags held out; NaN where none could be.
    rival_auc_ : float
        The same for a model without the instances that a first walk calls positive, if that one
        reaches 0.9; near 1 means that two groups of instances explain the labels, and that bag
        labels cannot decide between them. Else NaN.
    n_iter_ : int
        Rounds of the longest walk.
    calibration_ : (float, float)
        Slope and intercept of the sigmoid.

    Notes
    -----
    Departs from the paper: everywhere, see above. ``PIGMIL`` is the paper's method.

    Cost: O(N (d + m) m) with m landmarks, for the first pass over N instances, and a number of
    passes over the ``max_instances`` working ones that is fixed; memory for these and one block.

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: positive instance detection via graph updating for multiple
    instance learning (2016), for the idea. Hariharan, Malik, Ramanan: Discriminative
    decorrelation for clustering and classification, ECCV (2012), for exemplar LDA.

    Examples
    --------
    >>> from pigmil import SoftPIGMIL
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.metrics import detection_accuracy
    >>> bags = make_ring(random_state=0)
    >>> model = SoftPIGMIL().fit(bags)
    >>> detection_accuracy(model.detected_instances_, bags.instance_labels)
    1.0
    """

    _accepts_sparse = True
    _fits_lazy_bags = True
    card = Card(
        name="SoftPIGMIL",
        title="Positive instances by soft pools in several metrics",
        paper="This library, after Xu, Wu, Zhang, Tian: PIGMIL",
        year=2026,
        detects=True,
        classifies=True,
        cost="O(N (d + m) m) with m <= 240 landmarks",
        when_to_use="Which instances make bags positive, on data about which little is known.",
    )

    _state: ClassVar[dict[str, state.Field]] = {
        "rival_auc_": state.Number(nan=True),
        "held_out_auc_": state.Number(nan=True),
        "committee_": state.Part(classes=(Committee,), same={"features": "features"}),
        "n_iter_": state.Number(integer=True),
        "embedding_": state.Part(classes=(LogisticRegression,), optional=True),
    }

    def _check_state(self, sizes: state.Sizes) -> None:
        super()._check_state(sizes)
        pairs = [self.calibration_]
        if self.bag_rule == "embedding":
            pairs.append(self.embedding_calibration_)
            if self.embedding_.n_features_in_ != self.committee_.landmarks[0].shape[0] + 1:
                raise state.StateError("embedding_ does not have one column per landmark")
        for slope, intercept in pairs:
            state.Number().bind(slope, "slope", sizes)
            state.Number().bind(intercept, "intercept", sizes)
        if not isinstance(self.trace_, list):
            raise state.StateError("trace_ is not a list")

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sharpness": POSITIVE,
        "max_iter": AT_LEAST_ONE,
        "temperature": POSITIVE,
        "ridge": POSITIVE,
        "n_landmarks": AT_LEAST_ONE,
        "max_instances": AT_LEAST_ONE,
        "bag_rule": [StrOptions({"max", "embedding"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "pos_label": POS_LABEL,
    }

    def __init__(
        self,
        *,
        sharpness: float = 3.0,
        max_iter: int = 10,
        temperature: float = 0.02,
        ridge: float = 0.03,
        n_landmarks: int = 120,
        max_instances: int = 15_000,
        bag_rule: str = "max",
        n_jobs: int | None = None,
        random_state: Any = None,
        pos_label: Any = None,
    ) -> None:
        self.sharpness = sharpness
        self.max_iter = max_iter
        self.temperature = temperature
        self.ridge = ridge
        self.n_landmarks = n_landmarks
        self.max_instances = max_instances
        self.bag_rule = bag_rule
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.pos_label = pos_label

    def _fit(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        # One BLAS thread whatever n_jobs: otherwise the last digits change.
        with threadpool_limits(1):
            self._folds = _ordered_folds(bags, positive)
            chosen = self._working_instances(bags, positive)
            rows = take_rows(bags, chosen)
            kept = self._without_trap(bags, rows, positive, chosen)
            if len(kept) < len(chosen):
                rows, chosen = rows[kept], chosen[kept]
            self._fit_committee(bags, rows, positive, chosen)
            if self.bag_rule == "embedding":
                self._fit_embedding(bags, positive)
            del self._folds
        self.n_iter_ = max(len(model.pools) for model in self.trace_)

    def _fit_committee(
        self, bags: Bags | LazyBags, rows: Any, positive: BoolArray, chosen: IntArray
    ) -> None:
        """Fit all models on the chosen instances, calibrate them and detect."""
        kinds = SCALES if bags.n_instances <= self.max_instances else SCALES_OF_MANY
        scores, held_out = self._fit_on(bags, rows, positive, chosen, kinds, VIEWS)
        offsets = _offsets_within(chosen, bags)
        best = segment_reduce(np.maximum, scores if held_out is None else held_out, offsets)
        scores = scores - copy_penalty(rows, offsets, positive)
        every = scores
        if len(chosen) < bags.n_instances:
            every = self._committee_scores(bags)
            every[chosen] = scores
        self.held_out_auc_ = np.nan if held_out is None else bag_auc(best, positive)
        self.calibration_ = fit_sigmoid(best, positive)
        slope, intercept = self.calibration_
        self._set_detection(bags, positive, slope * every + intercept)

    def _without_trap(
        self, bags: Bags | LazyBags, rows: Any, positive: BoolArray, chosen: IntArray
    ) -> IntArray:
        """Leave out the tighter of two groups of instances that both explain the bag labels.

        One walk, on the standard scale with a kernel of width 1, finds a group; a second walk or a
        noisy-or without the instances it calls positive may find a rival. If both rank nearly all
        bags held out, bag labels cannot decide between them, and a group that is far tighter than
        the other is taken for something that merely comes with positive bags. Returns which of the
        chosen instances stay, and sets ``rival_auc_``.
        """
        self.rival_auc_ = np.nan
        folds = self._folds
        everyone = np.arange(len(chosen), dtype=np.int64)
        if not folds or bags.n_features > _WIDE:
            return everyone
        rows = _dense_rows(rows)
        scaled = fit_scale("standard", rows).apply(rows)
        inside = positive[bags.bag_index[chosen]]
        marks = landmark_positions(inside, self.n_landmarks)
        features = np.exp(-squared_distances(scaled, scaled[marks]) / (2.0 * _square_unit(scaled)))
        projection, shift = whitening(features, features[marks], 0.5)
        psi = (features @ projection - shift).astype(np.float32)
        groups: list[IntArray] = []
        spreads: list[float] = []
        left = everyone
        for _ in range(2):
            offsets = _offsets_within(chosen[left], bags)
            kinds = ("walk", "noisy_or") if groups else ("walk",)
            fits = [self._fit_model(kind, psi[left], offsets, positive, folds) for kind in kinds]
            maxima = [segment_reduce(np.maximum, fit.held_out, offsets) for fit in fits]
            aucs = [bag_auc(best, positive) for best in maxima]
            fit, best, auc = fits[np.argmax(aucs)], maxima[np.argmax(aucs)], max(aucs)
            if groups:
                self.rival_auc_ = auc
            if auc < (_SATURATED if groups else _NEARLY_SATURATED):
                return everyone
            slope, intercept = fit_sigmoid(best, positive)
            called = (slope * fit.scores + intercept > 0) & inside[left]
            called[segment_argmin(fit.scores, offsets)] = False  # every bag keeps one
            picks = left[segment_argmax(fit.scores, offsets)[positive]]
            groups.append(left[called])
            spreads.append(robust_spread(scaled[picks]))
            left = left[~called]
        tighter = int(np.argmin(spreads))
        if spreads[1 - tighter] < _FAR_TIGHTER * spreads[tighter]:
            return everyone
        return np.delete(everyone, groups[tighter])

    def _committee_scores(self, bags: Bags | LazyBags) -> FloatArray:
        committee = self.committee_
        return map_instances(lambda block: committee.scores(block.instances), bags)

    def _working_instances(self, bags: Bags | LazyBags, positive: BoolArray) -> IntArray:
        """Return all instances, or those worth working with if there are too many."""
        if bags.n_instances <= self.max_instances:
            return np.arange(bags.n_instances, dtype=np.int64)
        most = quota(bags.sizes, self.max_instances)
        order = check_random_state(self.random_state).uniform(size=bags.n_instances)
        scores = np.zeros(bags.n_instances)
        chosen = working_positions(scores, bags.offsets, most, order)
        rows = take_rows(bags, chosen)
        if not sp.issparse(rows) and bags.n_features <= _WIDEST_SCREENED:
            plane = fit_plane(rows, ~positive[bags.bag_index[chosen]])
            scores = screen(
                bags, positive, plane, sharpness=self.sharpness, n_rounds=_SCREENING_ROUNDS
            )
            chosen = working_positions(scores, bags.offsets, most, order)
            rows = take_rows(bags, chosen)
        self._fit_on(bags, rows, positive, chosen, ("standard",), FEW_VIEWS)
        scores = self._committee_scores(bags)
        return working_positions(scores, bags.offsets, most, order)

    def _fit_on(
        self,
        bags: Bags | LazyBags,
        rows: Any,
        positive: BoolArray,
        chosen: IntArray,
        kinds: Sequence[str],
        views: Sequence[tuple[float | None, float]],
    ) -> tuple[FloatArray, FloatArray | None]:
        """Fit all models on some instances; return their weighted scores, seen and held out."""
        offsets = _offsets_within(chosen, bags)
        marks = landmark_positions(positive[segment_ids(offsets)], self.n_landmarks)
        folds = self._folds
        wide = rows.shape[1] > _WIDE
        single = not wide and bags.n_instances > self.max_instances
        if not wide:
            rows = _dense_rows(rows)
        scales: list[Scale] = []
        landmarks: list[Any] = []
        fitted: list[tuple[View, list[Fit]]] = []
        for kind in _useful_scales(kinds, rows, wide):
            scale = fit_scale(kind, rows, centred=not wide, single=single)
            scaled = scale.apply(rows)
            squared = squared_distances(scaled, scaled[marks])
            squared[marks, np.arange(len(marks))] = 0.0
            unit = _square_unit(scaled)
            jobs = (
                delayed(self._fit_view)(
                    len(scales), scaled, squared, marks, unit, view, wide, offsets, positive, folds
                )
                for view in views
            )
            fitted += Parallel(n_jobs=self.n_jobs, prefer="threads")(jobs)
            scales.append(scale)
            landmarks.append(scaled[marks])
        fits = [(view, fit) for view, models in fitted for fit in models]
        aucs = np.full(len(fits), 0.5)
        if folds:
            best = [segment_reduce(np.maximum, fit.held_out, offsets) for _, fit in fits]
            aucs = np.array([bag_auc(values, positive) for values in best])
        weights = model_weights(aucs, self.temperature)
        self.committee_ = _committee(scales, landmarks, fits, weights)
        inside = chosen[positive[segment_ids(offsets)]]
        self.trace_ = [
            _trace(scales[view.scale].kind, view, fit, auc, weight, inside)
            for (view, fit), auc, weight in zip(fits, aucs, weights, strict=True)
        ]
        scores = weights @ np.array([fit.scores for _, fit in fits])
        if not folds:
            return scores, None
        return scores, weights @ np.array([fit.held_out for _, fit in fits])

    def _fit_view(
        self,
        number: int,
        scaled: Any,
        squared: FloatArray,
        marks: IntArray,
        unit: float,
        spec: tuple[float | None, float],
        wide: bool,
        offsets: IntArray,
        positive: BoolArray,
        folds: list[BoolArray],
    ) -> tuple[View, list[Fit]]:
        """Whiten one view and fit its models."""
        width, ridge = spec
        gamma = 0.0 if width is None else 1.0 / (2.0 * width**2 * unit)
        by_landmarks = width is not None or wide
        features = view_features(width, gamma, by_landmarks, scaled, scaled[marks], squared)
        between = features[marks].astype(np.float64) if by_landmarks else None
        projection, shift = whitening(features, between, ridge)
        view = View(number, width, gamma, by_landmarks, projection, shift)
        # Single precision halves the time of the many passes over these rows.
        psi = (features @ projection.astype(features.dtype) - shift).astype(np.float32)
        kinds = ["walk", "noisy_or"] if width in NOISY_OR_WIDTHS else ["walk"]
        return view, [self._fit_model(kind, psi, offsets, positive, folds) for kind in kinds]

    def _fit_model(
        self,
        kind: str,
        psi: NDArray[np.float32],
        offsets: IntArray,
        positive: BoolArray,
        folds: list[BoolArray],
    ) -> Fit:
        """Fit one model on all bags, and without each fold of bags to score that fold."""
        scores, direction, rounds = self._fit_direction(kind, psi, offsets, positive)
        held_out = np.full(len(psi), np.nan)
        for fold in folds:
            kept = segment_gather(offsets, np.flatnonzero(~fold))
            apart = segment_gather(offsets, np.flatnonzero(fold))
            starts = offsets_of(np.diff(offsets)[~fold])
            _, away, _ = self._fit_direction(kind, psi[kept], starts, positive[~fold])
            held_out[apart] = away.scores(psi[apart])
        return Fit(kind, scores, held_out, direction, rounds)

    def _fit_direction(
        self, kind: str, psi: NDArray[np.float32], offsets: IntArray, positive: BoolArray
    ) -> tuple[FloatArray, Direction, list[tuple[FloatArray, FloatArray]]]:
        if kind == "noisy_or":
            direction = fit_noisy_or(psi, offsets, positive, ridge=self.ridge, max_iter=20)
            return direction.scores(psi), direction, []
        return walk(
            WalkProblem(psi, offsets, positive),
            sharpness=self.sharpness,
            max_iter=self.max_iter,
            tol=_TOLERANCE,
        )

    def _fit_embedding(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        """Fit the logistic regression on bags, and its sigmoid on bags held out."""
        table = map_instances(self._embed, bags)
        held_out = np.zeros(bags.n_bags)
        folds = self._folds
        for fold in folds:
            part = _bag_regression(table[~fold], positive[~fold])
            held_out[fold] = part.decision_function(table[fold])
        self.embedding_ = _bag_regression(table, positive)
        values = held_out if folds else self.embedding_.decision_function(table)
        self.embedding_calibration_ = fit_sigmoid(values, positive)

    def _embed(self, bags: Bags) -> FloatArray:
        """Greatest kernel of width 1 with each landmark, and the score of the best instance."""
        scale, landmarks = self.committee_.scales[0], self.committee_.landmarks[0]
        parts = []
        for rows in _row_blocks(bags.instances):
            squared = squared_distances(scale.apply(rows), landmarks)
            parts.append(np.exp(-squared / (2.0 * landmarks.shape[1])))
        best = segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)
        kernels = segment_reduce(np.maximum, np.concatenate(parts), bags.offsets)
        return np.column_stack([kernels, np.tanh(best / 4.0)])

    def _score_instances(self, bags: Bags) -> FloatArray:
        slope, intercept = self.calibration_
        return slope * self.committee_.scores(bags.instances) + intercept

    def _score_bags(self, bags: Bags) -> FloatArray:
        if self.bag_rule == "embedding":
            slope, intercept = self.embedding_calibration_
            values = self.embedding_.decision_function(self._embed(bags))
            return np.asarray(slope * values + intercept, dtype=np.float64)
        return segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)

    # The decision value is the log-odds, from a sigmoid fitted on bags held out of every model.
    probability = True

    def _calibrate(self, bags: Bags, y: Any) -> None:
        self.probability_slope_ = 1.0


def _useful_scales(kinds: Sequence[str], rows: Any, wide: bool) -> list[str]:
    """Leave out what the data cannot have, and the raw scale where it is the standard one."""
    useful = [kind for kind in kinds if not wide or kind in ("raw", "standard")]
    if len(useful) > 1:
        factor = fit_scale("standard", rows).factor
        factor = factor[factor > 0]
        if factor.size == 0 or factor.max() < 1.1 * factor.min():
            useful.remove("raw")
    return useful


def _committee(
    scales: list[Scale], landmarks: list[Any], fits: list[tuple[View, Fit]], weights: FloatArray
) -> Committee:
    """Add up the models of each view that have weight."""
    coefs: dict[int, FloatArray] = {}
    views: dict[int, View] = {}
    intercept = 0.0
    for (view, fit), weight in zip(fits, weights, strict=True):
        if weight > 0:
            share = weight / fit.direction.spread
            views[id(view)] = view
            coef = share * fit.direction.coef.astype(np.float64)
            coefs[id(view)] = coefs.get(id(view), 0.0) + coef
            intercept -= share * fit.direction.center
    return Committee(scales, landmarks, list(views.values()), list(coefs.values()), intercept)


def _ordered_folds(bags: Bags | LazyBags, positive: BoolArray) -> list[BoolArray]:
    """Return folds of bags that do not depend on their order: bags are dealt by their means.

    The key of a bag is the mean over its instances of the sum of their standardized features.
    """
    _, mean, variance = moments_of_bags(bags)
    factor = np.where(variance > 1e-20 * (1.0 + mean**2), 1.0, 0.0)
    factor /= np.sqrt(np.where(factor > 0, variance, 1.0))

    def bag_keys(block: Bags) -> FloatArray:
        sums = np.asarray(block.instances @ factor).ravel() - mean @ factor
        return segment_mean(sums, block.offsets)

    order = np.argsort(map_instances(bag_keys, bags), kind="stable")
    folds = []
    for dealt in stratified_folds(positive[order], _N_FOLDS):
        fold = np.empty_like(dealt)
        fold[order] = dealt
        folds.append(fold)
    return folds


def _trace(
    scale: str, view: View, fit: Fit, auc: float, weight: float, inside: IntArray
) -> ModelTrace:
    shape = (len(fit.rounds), len(inside))
    pools, scores = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for number, (pool, score) in enumerate(fit.rounds):
        pools[number], scores[number] = pool, score
    return ModelTrace(scale, view.width, fit.kind, auc, weight, inside, pools, scores)


def _offsets_within(chosen: IntArray, bags: Bags | LazyBags) -> IntArray:
    """Offsets of the bags among chosen instances."""
    return np.searchsorted(chosen, bags.offsets).astype(np.int64)


def _square_unit(scaled: Any) -> float:
    """Half the total variance: the square of the unit of length."""
    total = float(column_moments(scaled)[1].sum())
    return total / 2.0 if total > 1e-300 else 1.0


def _row_blocks(instances: Any) -> Iterator[Any]:
    wide = instances.shape[1] > _WIDE
    for start in range(0, instances.shape[0], _BLOCK_ROWS):
        rows = instances[start : start + _BLOCK_ROWS]
        yield rows if wide else _dense_rows(rows)


def _dense_rows(rows: Any) -> Any:
    return rows.toarray() if sp.issparse(rows) else rows


def _bag_regression(table: FloatArray, positive: BoolArray) -> LogisticRegression:
    return LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000).fit(table, positive)
