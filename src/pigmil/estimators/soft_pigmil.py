"""SoftPIGMIL: soft pools in several metrics, weighted by how well they rank held-out bags."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, POSITIVE
from pigmil.estimators._soft_committee import (
    WIDE,
    Fit,
    Models,
    ModelSettings,
    ModelTrace,
    dense_rows,
    fit_model,
    row_blocks,
)
from pigmil.estimators._soft_forest import fit_forest_apart
from pigmil.estimators._soft_rivals import without_trap
from pigmil.estimators._soft_screen import Screening, fit_plane, scores_along, screen
from pigmil.estimators._soft_views import (
    Scale,
    View,
    fit_scale,
    landmark_positions,
    square_unit,
    squared_distances,
    useful_scales,
    view_features,
    whitening,
)
from pigmil.estimators._soft_weights import (
    bag_auc,
    copy_penalty,
    fit_sigmoid,
    model_weights,
    ordered_folds,
    pool_overlap,
)
from pigmil.estimators._soft_working_set import (
    WorkingSet,
    choose_instances,
    instances_per_bag,
)
from pigmil.estimators.base import MILClassifier
from pigmil.estimators.card import Card
from pigmil.scale import LazyBags, hold_blocks, map_calls, map_instances, take_rows

__all__ = ["ModelTrace", "SoftPIGMIL"]

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
SCALES = ("raw", "standard", "rank", "whitened", "squares", "bins")
SCALES_OF_MANY = ("raw", "standard", "whitened", "squares", "bins")  # ranks of many take long
_FOREST_SHARE = 0.35  # of the final score
_WIDEST_SCREENED = 2048  # features up to which a covariance matrix is cheap
_SCREENING_ROUNDS = 16  # passes over all instances
_MOST_PLACES = 1_000_000  # bags times features up to which screening also runs without each fold


class SoftPIGMIL(MILClassifier):
    """SoftPIGMIL: positive instances by soft pools in several metrics.

    Like PIGMIL, it looks for instances that resemble those of other positive bags and differ from
    negative ones: a pool has one place per positive bag, instances are scored against the pool,
    and the pool is updated. Beyond the paper, the place of a bag is shared among its instances,
    similarity is that of exemplar LDA, and models in several metrics are weighted by bags held
    out.

    1. If two groups of instances both explain the bag labels and one is far tighter than the
       other, leave out the tighter one.
    2. Views. Whiten the instances on each scale of the features (as given, standardized, normal
       scores of ranks, principal components of equal variance), as they are and through Gaussian
       kernels of several widths with landmarks. Features with their squares, and features in bins,
       are only whitened.
    3. Walks. On each view score every instance by its mean similarity to the pool of the other
       positive bags minus that to the negatives of other bags, share the place of each bag by the
       softmax of the scores, and repeat. On some views also fit a noisy-or over bags.
    4. Weights. Hold out a quarter of the bags at a time. The weight of a model grows with the area
       under the ROC curve of the best instance scores of these bags, and with how little the pool
       changes without them. The score is the weighted mean.
    5. Add a forest that separates the pool of this score from the negatives: it makes up 35 % of
       the final score, and each bag is scored by trees fitted without it.
    6. Lower the score of training instances that are exact copies of negatives, the more the rarer
       such copies are among the negatives.
    7. Turn scores into log-odds of a bag by a sigmoid fitted on bags held out: 0 separates.

    Parameters
    ----------
    sharpness : float, default=3.0
        Factor of the scores in the softmax that shares a place.
    max_iter : int, default=10
        Largest number of rounds of a walk.
    temperature : float, default=0.5
        Difference in held-out AUC that divides the weight of a model by e, in standard errors of
        the best AUC.
    ridge : float, default=0.03
        Penalty of the noisy-or.
    n_landmarks : int, default=120
        Largest number of landmarks from each class.
    max_instances : int, default=15000
        Largest number of instances to fit on, but at least six of each bag. Where there are more,
        all are scored twice, by a linear contrast and by a first fit on its best instances and a
        random sample of each bag; the final fit has the best of both and a random sample.
    bag_rule : {"max", "embedding"}, default="max"
        Score of a bag: that of its best instance, so that adding an instance never lowers it; or
        a logistic regression on the greatest kernels with the landmarks, for data that do not
        follow the standard assumption.
    n_jobs : int or None, default=None
        Number of threads that fit views. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the sample where there are more than ``max_instances``.
    {pos_label}

    Attributes
    ----------
    {detected_instances_}
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance; its own bag is left out of the pools and of the forest.
    trace_ : list of ModelTrace
        Shares and scores of every round, held-out AUC, stability and weight of every model.
    held_out_auc_ : float
        Area under the ROC curve of the weighted score over bags held out; NaN where none could be.
    rival_auc_ : float
        The same area for a model fitted without the instances that a first walk calls positive. A
        value near 1 means that two groups of instances explain the labels, and that bag labels
        cannot decide between them. NaN if the first walk does not reach 0.9, or if both groups
        are of one kind.
    n_iter_ : int
        Rounds of the longest walk.
    calibration_ : (float, float)
        Slope and intercept of the sigmoid.

    Notes
    -----
    Departs from the paper: everywhere, see above. ``PIGMIL`` is the paper's method.

    Cost: O(N (d + m) m) with m landmarks to score N instances, and a fixed number of passes over
    at most ``max_instances`` of them; memory for these and one block.

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
        default_chosen="Models are weighted by held-out bags. sharpness, temperature, ridge, "
        "n_landmarks and max_iter were chosen on the 39 labelled development "
        "sets; leaving each family of sets out in turn checks the temperature.",
        detects=True,
        classifies=True,
        cost="O(N (d + m) m) with m <= 240 landmarks",
        when_to_use="Which instances make bags positive, on data about which little is known.",
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sharpness": POSITIVE,
        "temperature": POSITIVE,
        "ridge": POSITIVE,
        "n_landmarks": AT_LEAST_ONE,
        "max_instances": AT_LEAST_ONE,
        "bag_rule": [StrOptions({"max", "embedding"})],
    }

    def __init__(
        self,
        *,
        sharpness: float = 3.0,
        max_iter: int = 10,
        temperature: float = 0.5,
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
        # One BLAS thread for any n_jobs: otherwise the last digits change.
        with threadpool_limits(1):
            folds = ordered_folds(bags, positive)
            work, screening = self._choose_instances(bags, positive, folds)
            work = self._without_trap(work)
            kinds = SCALES_OF_MANY if work.sampled else SCALES
            models = self._fit_models(work, screening, kinds, VIEWS)
            self.trace_ = models.trace(work.positions)
            self.committee_ = models.committee()
            scores, held_out = models.scores(), models.held_out()
            if folds and bags.n_features <= WIDE:
                scores, held_out = self._add_forest(models, work, scores, held_out)
            self._calibrate_scores(work, held_out)
            self._detect(bags, work, scores)
            if self.bag_rule == "embedding":
                self._fit_embedding(bags, positive, folds)
        self.n_iter_ = max(len(model.pools) for model in self.trace_)

    def _choose_instances(
        self, bags: Bags | LazyBags, positive: BoolArray, folds: list[BoolArray]
    ) -> tuple[WorkingSet, Screening | None]:
        """Return all instances, or those worth working with.

        Also return how they were screened, if that can be judged by held-out bags.
        """

        def working_set(positions: IntArray, rows: Any) -> WorkingSet:
            offsets = np.searchsorted(positions, bags.offsets).astype(np.int64)
            return WorkingSet(rows, positions, offsets, positive, folds, sampled)

        sampled = bags.n_instances > self.max_instances
        if not sampled:
            everyone = np.arange(bags.n_instances, dtype=np.int64)
            return working_set(everyone, take_rows(bags, everyone)), None
        most = instances_per_bag(bags.sizes, self.max_instances)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=bags.n_bags)
        work = working_set(*choose_instances(bags, None, most, seeds))
        fold = np.argmax(folds, axis=0) if folds else np.zeros(bags.n_bags, dtype=np.int64)
        per_bag, model = [fold], None
        if not sp.issparse(work.rows) and bags.n_features <= _WIDEST_SCREENED:
            # A cluster reads the blocks while the plane is fitted.
            blocks = hold_blocks(bags) if isinstance(bags, LazyBags) else None
            plane = fit_plane(work.rows, ~work.inside)
            apart = folds if bags.n_bags * bags.n_features <= _MOST_PLACES else []
            screening = screen(
                bags, positive, plane, apart, n_rounds=_SCREENING_ROUNDS, blocks=blocks
            )
            del blocks
            per_bag += [screening.coefs[:, :1], screening.intercepts[:, :1]]
            rank = partial(_rank, None)
            work = working_set(*choose_instances(bags, rank, most, seeds, *per_bag))
            # Without walks for the folds it cannot be judged, and so does not count as a model.
            model = screening if len(screening.directions) > len(folds) else None
        first = self._fit_models(work, model, ("standard",), FEW_VIEWS)
        rank = partial(_rank, first.scorer_apart(len(folds)))
        return working_set(*choose_instances(bags, rank, most, seeds, *per_bag)), model

    def _without_trap(self, work: WorkingSet) -> WorkingSet:
        """Leave out the tighter of two groups that both explain the labels; set ``rival_auc_``."""
        self.rival_auc_ = np.nan
        if not work.folds or work.rows.shape[1] > WIDE:
            return work
        work = replace(work, rows=dense_rows(work.rows))
        kept, self.rival_auc_ = without_trap(
            work.rows,
            work.offsets,
            work.positive,
            work.folds,
            self._settings,
            n_landmarks=self.n_landmarks,
        )
        return work.keep(kept)

    @property
    def _settings(self) -> ModelSettings:
        return ModelSettings(self.sharpness, self.max_iter, self.ridge)

    def _fit_models(
        self,
        work: WorkingSet,
        screening: Screening | None,
        kinds: Sequence[str],
        views: Sequence[tuple[float | None, float]],
    ) -> Models:
        """Fit the models of all views on these kinds of scales, and weight them."""
        marks = landmark_positions(work.rows, work.inside, self.n_landmarks)
        wide = work.rows.shape[1] > WIDE
        rows = work.rows if wide else dense_rows(work.rows)
        scales: list[Scale] = []
        landmarks: list[Any] = []
        fitted: list[Iterator[tuple[View, list[Fit]]]] = []
        for kind in useful_scales(kinds, rows, wide):
            scale = fit_scale(kind, rows, centred=not wide, single=work.sampled and not wide)
            scaled = scale.apply(rows)
            squared = squared_distances(scaled, scaled[marks])
            squared[marks, np.arange(len(marks))] = 0.0
            # What a cluster is sent: these rows alone, and nothing of an earlier fit.
            here = replace(work, rows=scaled)
            fit_view = partial(
                clone(self)._fit_view, here, len(scales), squared, marks, square_unit(scaled)
            )
            specs = [view for view in views if view[0] is None or not scale.has_more_columns]
            # A cluster fits them while the next scale is prepared.
            fitted.append(map_calls(fit_view, [(spec,) for spec in specs], n_jobs=self.n_jobs))
            scales.append(scale)
            landmarks.append(scaled[marks])
        pairs = itertools.chain.from_iterable(fitted)
        fits = [(view, fit) for view, models in pairs for fit in models]
        if screening is not None:
            view = replace(screening.plane.view, scale=len(scales))
            fits.append((view, screening.as_fit(rows, work.offsets, work.folds)))
            scales.append(screening.plane.scale)
            landmarks.append(screening.plane.scale.apply(rows[marks]))
        return Models(scales, landmarks, fits, *self._weigh([fit for _, fit in fits], work))

    def _fit_view(
        self,
        work: WorkingSet,
        number: int,
        squared: FloatArray,
        marks: IntArray,
        unit: float,
        spec: tuple[float | None, float],
    ) -> tuple[View, list[Fit]]:
        """Whiten one view of instances on a scale, and fit its models."""
        width, ridge = spec
        scaled = work.rows
        gamma = 0.0 if width is None else 1.0 / (2.0 * width**2 * unit)
        by_landmarks = width is not None or scaled.shape[1] > WIDE
        features = view_features(width, gamma, by_landmarks, scaled, scaled[marks], squared)
        between = features[marks].astype(np.float64) if by_landmarks else None
        projection, shift = whitening(features, between, ridge)
        view = View(number, width, gamma, by_landmarks, projection, shift)
        # Single precision halves the time of the many passes over these rows.
        psi = (features @ projection.astype(features.dtype) - shift).astype(np.float32)
        kinds = ["walk", "noisy_or"] if width in NOISY_OR_WIDTHS else ["walk"]
        known = (work.offsets, work.positive, work.folds, self._settings)
        return view, [fit_model(kind, psi, *known) for kind in kinds]

    def _weigh(
        self, fits: list[Fit], work: WorkingSet
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return held-out areas, stabilities and weights of models."""
        aucs, stabilities = np.full(len(fits), 0.5), np.ones(len(fits))
        if work.folds:
            known = (work.offsets, work.positive)
            for number, fit in enumerate(fits):
                aucs[number] = bag_auc(work.best_scores(fit.held_out), work.positive)
                stabilities[number] = pool_overlap(fit.scores, fit.held_out, *known, self.sharpness)
        return aucs, stabilities, model_weights(aucs, stabilities, work.positive, self.temperature)

    def _add_forest(
        self, models: Models, work: WorkingSet, scores: FloatArray, held_out: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Add the forest to the committee; return the scores, seen and held out, with it.

        Both parts are in standard deviations of the negatives' scores.
        """
        scale = fit_scale("standard", work.rows)
        pools = [models.scores(fold) for fold in range(len(work.folds))]
        known = (work.offsets, work.positive, work.folds, self.sharpness)
        forest, trees = fit_forest_apart(
            scale.apply(work.rows), scores, pools, *known, n_jobs=self.n_jobs
        )
        negative = ~work.inside
        spreads = [float(part[negative].std()) for part in (scores, trees)]
        factor, gain = (
            share / (spread if spread > 1e-12 else 1.0)
            for share, spread in zip((1.0 - _FOREST_SHARE, _FOREST_SHARE), spreads, strict=True)
        )
        self.committee_ = replace(
            self.committee_,
            coefs=[factor * coef for coef in self.committee_.coefs],
            intercept=factor * self.committee_.intercept,
            forest=forest,
            forest_scale=scale,
            forest_gain=gain,
        )
        return factor * scores + gain * trees, factor * held_out + gain * trees

    def _calibrate_scores(self, work: WorkingSet, held_out: FloatArray) -> None:
        """Fit the sigmoid on the best scores of bags held out."""
        best = work.best_scores(held_out)
        self.held_out_auc_ = bag_auc(best, work.positive) if work.folds else np.nan
        self.calibration_ = fit_sigmoid(best, work.positive)

    def _detect(self, bags: Bags | LazyBags, work: WorkingSet, scores: FloatArray) -> None:
        """Score all instances: those worked with by models in which their bag had no part."""
        scores = scores - copy_penalty(work.rows, work.offsets, work.positive)
        if len(work.positions) < bags.n_instances:
            committee = self.committee_
            every = map_instances(lambda block: committee.scores(block.instances), bags)
            every[work.positions] = scores
            scores = every
        slope, intercept = self.calibration_
        self._set_detection(bags, work.positive, slope * scores + intercept)

    def _fit_embedding(
        self, bags: Bags | LazyBags, positive: BoolArray, folds: list[BoolArray]
    ) -> None:
        """Fit the logistic regression on bags, and its sigmoid on bags held out."""
        table = map_instances(self._embed, bags)
        held_out = np.zeros(bags.n_bags)
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
        for rows in row_blocks(bags.instances):
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

    def _calibrate(self, bags: Bags, y: Any, *weights: FloatArray) -> None:
        self.probability_slope_ = 1.0


def _rank(
    score: Callable[[Bags, IntArray], FloatArray] | None,
    block: Bags,
    fold: IntArray,
    *lines: FloatArray,
) -> list[FloatArray]:
    """Score the instances of a block along the lines of their bags, and by a function."""
    rankings = []
    if lines:
        scores = scores_along(block.instances, block.offsets, *lines)
        rankings.append(scores[:, 0].astype(np.float64))
    if score is not None:
        rankings.append(score(block, fold))
    return rankings


def _bag_regression(table: FloatArray, positive: BoolArray) -> LogisticRegression:
    return LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000).fit(table, positive)
