"""SoftPIGMIL: soft pools in several metrics, weighted by how well they rank held-out bags."""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from pigmil._core._sklearn_compat import StrOptions
from pigmil._core.segments import segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.estimators._parameters import AT_LEAST_ONE, POSITIVE, Card, with_parameters
from pigmil.estimators._selection import (
    HeldOutScores,
    bag_digests,
    content_order,
    fold_units,
    inner_folds,
    summary_scores,
    warn_of_chance,
)
from pigmil.estimators._soft_large import choose_working_set, fold_of_bags, score_block
from pigmil.estimators._soft_models import (
    SETTINGS,
    Family,
    Settings,
    WorkingSet,
    committee_scores,
    dense,
    fit_family,
    fit_forests,
    fit_sigmoid,
    join_forests,
    leave_out_trap,
    log_odds,
    row_blocks,
    squared_distances,
)
from pigmil.estimators.base import MILClassifier
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
    sharpness : float, default=3.0
        Factor of the scores in the softmax that shares a place.
    max_iter : int, default=10
        Number of rounds of a walk.
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
    model_names_, model_aucs_, model_weights_ : arrays of shape (n_models,)
        Kind, scale and width of each model, its held-out AUC, and its weight.
    committee_ : list
        The weighted mean of the models for other instances, one entry per scale.
    forest_ : ExtraTreesClassifier or None
        Trees on standardized features; None without folds or with more than 1,024 features.
    calibration_ : (float, float)
        Slope and intercept of the sigmoid.
    n_iter_ : int
        Rounds of a walk.

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
        default_chosen="Models are weighted by held-out bags. sharpness, temperature, ridge, "
        "n_landmarks and max_iter were chosen on 44 labelled development sets and halves of them.",
        cost="O(N (d + m) m) with m <= 240 landmarks",
        when_to_use="Which instances make bags positive, on data about which little is known.",
    )

    sharpness: float = SETTINGS.sharpness
    max_iter: int = SETTINGS.max_iter
    temperature: float = SETTINGS.temperature
    ridge: float = SETTINGS.ridge
    n_landmarks: int = SETTINGS.n_landmarks
    max_instances: int = SETTINGS.max_instances
    bag_rule: str = "max"
    n_jobs: int | None = None
    random_state: Any = None
    pos_label: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "sharpness": POSITIVE,
        "temperature": POSITIVE,
        "ridge": POSITIVE,
        "n_landmarks": AT_LEAST_ONE,
        "max_instances": AT_LEAST_ONE,
        "bag_rule": [StrOptions({"max", "embedding"})],
    }

    def _fit(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        names = ("sharpness", "max_iter", "temperature", "ridge", "n_landmarks", "max_instances")
        settings = replace(SETTINGS, **{name: getattr(self, name) for name in names})
        # One BLAS thread for any n_jobs: otherwise the last digits change.
        with threadpool_limits(1):
            order = content_order(bags)
            folds = inner_folds(bags, positive, settings.n_folds, order)
            work, family = self._fit_family(bags, positive, folds, order, settings)
            scores, held_out = self._combine(bags, work, family, settings)
            self._calibrate_scores(bags, work, held_out)
            slope, intercept = self.calibration_
            self._set_detection(bags, positive, slope * scores + intercept)
            if self.bag_rule == "embedding":
                self._fit_embedding(bags, positive, folds)
        self.n_iter_ = self.max_iter

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
        self.rival_auc_ = np.nan
        if narrow:
            kept, self.rival_auc_ = leave_out_trap(work, family, settings)
            if len(kept) < len(work.positions):
                work = work.keep(kept)
                family = fit(work)
        return work, family

    def _combine(
        self, bags: Bags | LazyBags, work: WorkingSet, family: Family, settings: Settings
    ) -> tuple[FloatArray, FloatArray]:
        """Add the forest to the models; return the scores of all instances, seen and held out.

        Both parts are in standard deviations of the negatives' scores.
        """
        committee, constants = family.committee()
        scores, share, gain = family.scores(family.weights[:, :1]), 1.0, 0.0
        forests: list[Any] = []
        held_out = work.held_out(family.scores(family.weights))
        if work.folds and bags.n_features <= settings.wide:
            scaled = family.scales[0].apply(work.rows)
            forests = fit_forests(scaled, scores, work, settings, n_jobs=self.n_jobs)
            trees = np.empty(len(scaled))
            for forest, used in zip(forests, work.used.T[1:], strict=False):
                trees[~used] = log_odds(forest, scaled[~used])
            gain = settings.forest_share / _spread(trees[~work.inside])
            share = (1.0 - settings.forest_share) / _spread(scores[~work.inside, 0])
            held_out = share * held_out + gain * trees
            scores = share * scores + gain * trees[:, None]
        pair = np.column_stack([scores[:, 0], held_out])
        if len(work.positions) < bags.n_instances:
            function = partial(score_block, (committee, constants), forests, (share, gain))
            every = map_instances(function, bags, fold_of_bags(work.positive, work.folds))
            every[work.positions] = pair
            pair = every
        self.committee_ = [part.first_fit(share) for part in committee]
        self.intercept_ = share * float(constants[0])
        self.forest_, self.forest_gain_ = join_forests(forests), gain
        names = [
            (model.kind, family.scales[model.scale].kind, model.width) for model in family.models
        ]
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
        self.held_out_ = HeldOutScores(
            scores=slope * held_out + intercept,
            offsets=bags.offsets,
            positive=work.positive,
            fold=fold,
            units=fold_units(bags),
            digests=bag_digests(bags),
            summaries=summary_scores(bags, work.positive, fold),
        )
        warn_of_chance(self.card.name, self.held_out_auc_, work.positive)

    def _score_instances(self, bags: Bags) -> FloatArray:
        committee = (self.committee_, np.array([self.intercept_]))
        scores = committee_scores(*committee, bags.instances)[:, 0]
        if self.forest_ is not None:
            trees = [
                log_odds(self.forest_, self.committee_[0].scale.apply(rows))
                for rows in row_blocks(bags.instances)
            ]
            scores += self.forest_gain_ * np.concatenate(trees)
        slope, intercept = self.calibration_
        return slope * scores + intercept

    def _score_bags(self, bags: Bags) -> FloatArray:
        if self.bag_rule == "embedding":
            slope, intercept = self.embedding_calibration_
            values = self.embedding_.decision_function(self._embed(bags))
            return np.asarray(slope * values + intercept, dtype=np.float64)
        return segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)

    def _calibrate(self, bags: Bags, y: Any, *weights: FloatArray) -> None:
        self.probability_slope_ = 1.0

    def _fit_embedding(
        self, bags: Bags | LazyBags, positive: BoolArray, folds: list[BoolArray]
    ) -> None:
        """Fit the logistic regression on bags, and its sigmoid on bags held out."""

        def regression(used: BoolArray) -> LogisticRegression:
            model = LogisticRegression(C=1.0, class_weight="balanced", max_iter=1000)
            return model.fit(table[used], positive[used])

        table = map_instances(self._embed, bags)
        self.embedding_ = regression(np.ones(len(positive), dtype=bool))
        values = self.embedding_.decision_function(table)
        for fold in folds:
            values[fold] = regression(~fold).decision_function(table[fold])
        self.embedding_calibration_ = fit_sigmoid(values, positive)

    def _embed(self, bags: Bags) -> FloatArray:
        """Greatest kernel with each landmark, and the score of the best instance."""
        scale, landmarks = self.committee_[0].scale, self.committee_[0].landmarks
        parts = []
        for rows in row_blocks(bags.instances):
            squared = squared_distances(scale.apply(rows), landmarks)
            parts.append(np.exp(-squared / (2.0 * landmarks.shape[1])))
        best = segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)
        kernels = segment_reduce(np.maximum, np.concatenate(parts), bags.offsets)
        return np.column_stack([kernels, np.tanh(best / 4.0)])


def _spread(values: FloatArray) -> float:
    spread = float(values.std())
    return spread if spread > 1e-12 else 1.0
