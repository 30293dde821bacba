"""SoftPIGMIL: soft pools in several metrics, weighted by how well they rank held-out bags."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, Card, with_parameters
from pigmil.estimators._selection import (
    HeldOutScores,
    bag_digests,
    content_order,
    fold_units,
    inner_folds,
    scores_of_others,
    summary_scores,
    warn_of_chance,
)
from pigmil.estimators._smoothing import choose_smoothing, coordinates, smooth_scores
from pigmil.estimators._soft_large import choose_working_set, fold_of_bags, score_block
from pigmil.estimators._soft_models import (
    SETTINGS,
    Family,
    Settings,
    WorkingSet,
    committee_scores,
    dense,
    find_rival,
    fit_family,
    fit_forests,
    fit_sigmoid,
    log_odds,
    row_blocks,
)
from pigmil.estimators.base import MILClassifier
from pigmil.estimators.statistics import StatisticsBoosting, StatisticsSVC
from pigmil.graph.scoring import bag_auc
from pigmil.scale import LazyBags, map_instances, take_rows


@with_parameters
class SoftPIGMIL(MILClassifier):
    """SoftPIGMIL: positive instances by soft pools in several metrics.

    Like PIGMIL, it looks for instances that resemble those of other positive bags and differ from
    negative ones: a pool has one place per positive bag, instances are scored against the pool,
    and the pool is updated. Beyond the paper, the place of a bag is shared among its instances,
    similarity is that of exemplar LDA, and models in several metrics are weighted by bags held
    out.

    1. Views. Put the features on three scales: standardized, normal scores of their ranks, and in
       bins. Whiten the instances on each scale, as they are and (except bins) through Gaussian
       kernels of width 1 and 3 with landmarks: seven views.
    2. Models. On each view fit a walk and a noisy-or. A walk scores every instance by its mean
       similarity to the pool of the other positive bags minus that to the negatives of other bags,
       shares the place of each bag by the softmax of the scores, and repeats. The noisy-or is a
       logistic model of instances whose bags are positive if any instance is.
    3. Weights. Hold out a quarter of the bags at a time. The weight of a model grows with the area
       under the ROC curve of the best instance scores of these bags. The score is the weighted
       mean.
    4. If two groups of instances both explain the bag labels and one is far tighter than the
       other, leave out the tighter one and fit again.
    5. Add a forest that separates the pool of this score from the negatives: it makes up 35 % of
       the final score, and each bag is scored by trees fitted without it.
    6. Turn scores into log-odds of a bag by a sigmoid fitted on bags held out: 0 separates.

    Parameters
    ----------
    parts : {"one", "all"}, default="one"
        Whether one group of instances explains the bag labels, the tightest one; or every group
        counts that explains them without the others, as each atom of a functional group does.
        Then a second forest separates all instances of positive bags from the negatives and makes
        up two thirds of the score. Bag labels cannot decide which of the two is right.
    n_landmarks : int, default=120
        Largest number of landmarks from each class.
    max_instances : int, default=15000
        Largest number of instances to fit on, but at least six of each bag. Where there are more,
        all are scored twice, by a linear contrast and by a first fit on its best instances and a
        random sample of each bag; the final fit has the best of both and a random sample.
    bag_rule : {"max", "auto"}, default="max"
        Score of a bag: that of its best instance, so that adding an instance never lowers it. Or
        whichever of this, :class:`StatisticsSVC` and :class:`StatisticsBoosting` ranks the bags
        best that are held out: for labels that depend on whole bags. Lazy, sparse and wide bags
        are scored by their best instance. The scores of instances do not depend on it.
    smooth : {"coords"} or None, default=None
        Average scores over neighbouring instances of a bag, by ``instance_info["coords"]``, as far
        as that helps on bags held out, which may be not at all.
    n_jobs : int or None, default=None
        Number of threads that fit views and forests. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the sample where there are more than ``max_instances``.
    {pos_label}

    Attributes
    ----------
    {detected_instances_}
    instance_scores_ : array of shape (n_instances,)
        Score of each training instance; its own bag is left out of the pools and of the forest.
    held_out_ : HeldOutScores
        Scores of the training instances by models and trees fitted without the fold of their bag,
        on the scale of ``decision_function_instances``, with the folds and classes of the bags and
        a hash by which they are recognised: :func:`pigmil.select_instances` compares with those of
        negative bags. Views and the weights of models are those of all bags.
    held_out_auc_ : float
        Area under the ROC curve of bags held out, by their best instance; NaN where none could be.
    rival_auc_ : float
        The same area for a model fitted without the instances that a first walk calls positive. A
        value near 1 means that two groups of instances explain the labels, and that bag labels
        cannot decide between them. NaN if the first walk does not reach 0.9, or if both groups
        are of one kind.
    rival_instances_ : array of int
        Flat position of the best instance of the other of the two groups in each positive bag, to
        compare with ``detected_instances_``; empty where ``rival_auc_`` is NaN.
    model_names_, model_aucs_, model_weights_ : arrays of shape (n_models,)
        Kind, scale and width of each model, its held-out AUC, and its weight.
    committee_ : list
        The weighted mean of the models for other instances, one entry per scale.
    forests_ : list of list of ExtraTreesClassifier
        Trees on standardized features, fitted without each fold, one list for each pool; empty
        without folds or with more than 1,024 features.
    forest_gains_ : array of shape (n_pools,)
        Factor of the log-odds of each list.
    smoothing_ : (float, float)
        Width of the average over neighbours, in distances from an instance to the nearest one, and
        their share in the score; both 0 if there is none.
    calibration_ : (float, float)
        Slope and intercept of the sigmoid.
    bag_model_, bag_calibration_ : estimator or None, (float, float)
        What scores bags by ``bag_rule="auto"``, and its sigmoid; None for the best instance.

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
    _holds_out_bags = True  # and keeps their scores in ``held_out_``
    # The decision value is the log-odds, from a sigmoid fitted on bags held out of every model.
    probability: ClassVar[bool] = True  # type: ignore[misc]
    card = Card(
        name="SoftPIGMIL",
        title="Positive instances by soft pools in several metrics",
        paper="This library, after Xu, Wu, Zhang, Tian: PIGMIL",
        year=2026,
        default_chosen="Models are weighted by held-out bags. n_landmarks and all "
        "constants were chosen on 44 labelled development sets and halves of them.",
        cost="O(N (d + m) m) with m <= 240 landmarks",
        when_to_use="Which instances make bags positive, on data about which little is known.",
    )

    parts: str = "one"
    n_landmarks: int = SETTINGS.n_landmarks
    max_instances: int = SETTINGS.max_instances
    bag_rule: str = "max"
    smooth: str | None = None
    n_jobs: int | None = None
    random_state: Any = None
    pos_label: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "parts": [StrOptions({"one", "all"})],
        "n_landmarks": AT_LEAST_ONE,
        "max_instances": AT_LEAST_ONE,
        "smooth": [StrOptions({"coords"}), None],
        "bag_rule": [StrOptions({"max", "auto"})],
    }

    def _fit(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        settings = replace(SETTINGS, n_landmarks=self.n_landmarks, max_instances=self.max_instances)
        # One BLAS thread for any n_jobs: otherwise the last digits change.
        with threadpool_limits(1):
            order = content_order(bags)
            folds = inner_folds(bags, positive, settings.n_folds, order)
            work, family = self._fit_family(bags, positive, folds, order, settings)
            scores, held_out = self._combine(bags, work, family, settings)
            self.smoothing_ = (0.0, 0.0)
            if self.smooth is not None and folds:
                coords = map_instances(coordinates, bags, info=True)
                self.smoothing_ = choose_smoothing(held_out, coords, bags.offsets, positive)
                scores = smooth_scores(scores, coords, bags.offsets, *self.smoothing_)
                held_out = smooth_scores(held_out, coords, bags.offsets, *self.smoothing_)
            self._calibrate_scores(bags, work, held_out)
            slope, intercept = self.calibration_
            self._set_detection(bags, positive, slope * scores + intercept)
            self._choose_bag_rule(bags, positive, folds)

    def _fit_family(
        self,
        bags: Bags | LazyBags,
        positive: BoolArray,
        folds: list[BoolArray],
        order: IntArray,
        settings: Settings,
    ) -> tuple[WorkingSet, Family]:
        """Fit the models, on all instances or on those worth working with."""
        few, narrow = bags.n_instances <= settings.max_instances, bags.n_features <= settings.wide
        more = None
        if few:
            everyone = np.arange(bags.n_instances, dtype=np.int64)
            rows = take_rows(bags, everyone)
            rows = dense(rows) if narrow else rows
            work = WorkingSet(rows, everyone, bags.offsets, positive, folds)
            # The second split deals the bags that are neighbours in the first to other folds.
            turned = np.concatenate([order[k :: settings.n_folds] for k in range(settings.n_folds)])
            others = inner_folds(bags, positive, settings.n_folds, turned)
            if len(others) == len(folds):
                work = replace(work, folds=folds + others, n_splits=2)
        else:
            work, more = choose_working_set(
                bags, positive, folds, settings,
                random_state=self.random_state, n_jobs=self.n_jobs,
            )  # fmt: skip
        # Ranks of many instances take long to look up, and bins of many features to whiten.
        usable = {"standard": True, "rank": narrow and few}
        usable["bins"] = bags.n_features <= settings.most_binned
        kinds = [kind for kind in settings.scales if usable[kind]]

        def fit(work: WorkingSet) -> Family:
            also = None if more is None else partial(more, work)
            return fit_family(work, kinds, settings, more=also, n_jobs=self.n_jobs)

        family = fit(work)
        self.rival_auc_, rival = np.nan, np.arange(0)
        if narrow:
            self.rival_auc_, rival, tighter = find_rival(work, family, settings)
            rival = work.positions[rival]
            if len(tighter) and self.parts == "one":
                work = work.keep(np.delete(np.arange(len(work.positions)), tighter))
                family = fit(work)
        self.rival_instances_ = rival
        return work, family

    def _combine(
        self, bags: Bags | LazyBags, work: WorkingSet, family: Family, settings: Settings
    ) -> tuple[FloatArray, FloatArray]:
        """Add the forest to the models; return the scores of all instances, seen and held out.

        Both parts are in standard deviations of the negatives' scores.
        """
        committee, constants = family.committee()
        scores, share = family.scores(family.weights[:, :1]), 1.0
        forests: list[list[Any]] = []
        gains = np.empty(0)
        held_out = work.held_out(family.scores(family.weights))
        if work.folds and bags.n_features <= settings.wide:
            scaled = family.scales[0].apply(work.rows)
            pools = [(scores, settings.forest_share)]
            if self.parts == "all":  # then all instances of positive bags are a pool as well
                pools.append((np.zeros_like(scores), settings.parts_share))
            for pool, part in pools:
                forests.append(fit_forests(scaled, pool, work, settings, n_jobs=self.n_jobs))
                trees = np.empty(len(scaled))
                for forest, used in zip(forests[-1], work.used.T[1:], strict=False):
                    trees[~used] = log_odds([forest], scaled[~used])
                factor = (1.0 - part) / _spread(scores[~work.inside, 0])
                gain = part / _spread(trees[~work.inside])
                share, gains = factor * share, np.append(factor * gains, gain)
                held_out = factor * held_out + gain * trees
                scores = factor * scores + gain * trees[:, None]
        pair = np.column_stack([scores[:, 0], held_out])
        if len(work.positions) < bags.n_instances:
            function = partial(score_block, (committee, constants), forests, (share, gains))
            every = map_instances(function, bags, fold_of_bags(work.positive, work.folds))
            every[work.positions] = pair
            pair = every
        self.committee_ = [part.first_fit(share) for part in committee]
        self.intercept_ = share * float(constants[0])
        self.forests_, self.forest_gains_ = forests, gains
        names = [(m.kind, family.scales[m.scale].kind, m.width) for m in family.models]
        self.model_names_ = np.array([" ".join(map(str, name)) for name in names])
        self.model_aucs_, self.model_weights_ = family.aucs[:, 0], family.weights[:, 0]
        return pair[:, 0], pair[:, 1]

    def _calibrate_scores(
        self, bags: Bags | LazyBags, work: WorkingSet, held_out: FloatArray
    ) -> None:
        """Fit the sigmoid on the best scores of bags held out; keep these scores."""
        best = segment_reduce(np.maximum, held_out, bags.offsets)
        self.calibration_ = slope, intercept = fit_sigmoid(best, work.positive)
        self.held_out_auc_ = bag_auc(best, work.positive) if work.folds else np.nan
        fold = fold_of_bags(work.positive, work.folds)
        scores = slope * held_out + intercept
        self.held_out_ = HeldOutScores(
            scores=scores,
            offsets=bags.offsets,
            positive=work.positive,
            fold=fold,
            units=fold_units(bags),
            digests=bag_digests(bags),
            summaries=summary_scores(bags, work.positive, fold),
            others=scores_of_others(bags, work.positive, fold, scores),
        )
        warn_of_chance(self.card.name, self.held_out_auc_, work.positive)

    def _score_instances(self, bags: Bags) -> FloatArray:
        committee = (self.committee_, np.array([self.intercept_]))
        scores = committee_scores(*committee, bags.instances)[:, 0]
        for forests, gain in zip(self.forests_, self.forest_gains_, strict=True):
            trees = [
                log_odds(forests, self.committee_[0].scale.apply(rows))
                for rows in row_blocks(bags.instances)
            ]
            scores += gain * np.concatenate(trees)
        if self.smoothing_[1]:
            scores = smooth_scores(scores, coordinates(bags), bags.offsets, *self.smoothing_)
        slope, intercept = self.calibration_
        return slope * scores + intercept

    def _score_bags(self, bags: Bags) -> FloatArray:
        if self.bag_model_ is not None:
            slope, intercept = self.bag_calibration_
            return slope * self.bag_model_.decision_function(bags) + intercept
        return segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)

    def _choose_bag_rule(
        self, bags: Bags | LazyBags, positive: BoolArray, folds: list[BoolArray]
    ) -> None:
        """Score bags by their statistics if that ranks the bags held out better."""
        self.bag_model_, self.bag_calibration_ = None, (1.0, 0.0)
        wide = bags.is_sparse or bags.n_features > SETTINGS.wide
        if self.bag_rule == "max" or isinstance(bags, LazyBags) or wide or not folds:
            return
        best_auc = self.held_out_auc_
        for rival in (StatisticsSVC(), StatisticsBoosting(random_state=0)):
            values = np.empty(bags.n_bags)
            for fold in folds:
                model = clone(rival).fit(bags[~fold], positive[~fold])
                values[fold] = model.decision_function(bags[fold])
            if bag_auc(values, positive) > best_auc:
                best_auc = bag_auc(values, positive)
                self.bag_model_ = clone(rival).fit(bags, positive)
                self.bag_calibration_ = fit_sigmoid(values, positive)

    def _calibrate(self, bags: Bags, y: Any, *weights: FloatArray) -> None:
        self.probability_slope_ = 1.0


def _spread(values: FloatArray) -> float:
    spread = float(values.std())
    return spread if spread > 1e-12 else 1.0
