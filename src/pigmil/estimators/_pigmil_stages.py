"""The stages of PIGMIL in order, apart from its parameters and their meaning."""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pigmil._core.logs import log_to_stderr
from pigmil._core.segments import segment_argmax, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags
from pigmil.distances import length_unit
from pigmil.distances.density import negative_density
from pigmil.estimators._bag_svm import fit_bag_svm, hard_negatives
from pigmil.estimators._detection import (
    Candidates,
    Sides,
    WorkingBags,
    complete_pool,
    initialise,
    more_of_each_bag,
    pool_scores,
    split_members,
    update,
)
from pigmil.estimators._svm_solvers import class_costs
from pigmil.estimators.base import MILClassifier
from pigmil.graph.csdg import CSDGSettings


class PIGMILStages(MILClassifier):
    """Initialisation, updating, detection and classification (Alg. 3); parameters come below."""

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        with log_to_stderr(bool(self.verbose)):
            self._run(bags, positive)

    def _run(self, bags: Bags, positive: BoolArray) -> None:
        rng = check_random_state(self.random_state)
        self.length_unit_ = length_unit(bags.instances, self.length_unit, random_state=rng)
        self.negative_bags_ = bags[~positive]
        against = self._negative_density(bags, positive)
        sides = Sides.of(bags, positive, self.length_unit_, against)
        found = initialise(
            sides,
            score={
                "kind": self.working_score,
                "gamma": self.decay,
                "literal": self.kde_reading == "literal",
            },
            fraction=self.working_set_fraction,
            t_test=self.t_test,
            t_threshold=self.t_threshold,
            max_candidates=self.max_candidates,
        )
        self._keep_initialisation(sides, found, np.flatnonzero(positive))
        self.pool_, self.csdg_, self.trace_ = update(
            sides,
            found,
            kind=self.similarity,
            gamma=self.decay,
            svm_cost=self.exemplar_C,
            include_bias=self.confidence_bias or self.similarity == "rbf",
            gamma_far=self.gamma_far,
            gamma_near=self.gamma_near,
            settings=self._graph_settings(len(found.pool), rng),
            max_updates=self.max_updates,
            objective=self.objective,
            n_jobs=self.n_jobs,
            callback=self.callback,
        )
        self._detect(bags, positive, against)
        self.prototypes_ = self._choose_prototypes(bags, positive, rng)
        costs = class_costs(self.class_weight, positive, self.classes_, self.positive_label_)
        self.classifier_ = fit_bag_svm(
            bags,
            positive,
            bags.instances[self.prototypes_],
            C=self.C,
            decay=self.embedding_decay,
            unit=self.length_unit_,
            scaled=self.embedding_scaling,
            best_scores=segment_reduce(np.maximum, self.instance_scores_, bags.offsets),
            score_column=self.score_column,
            costs=costs,
            random_state=rng,
        )

    def _keep_initialisation(self, sides: Sides, found: Candidates, positions: IntArray) -> None:
        self.working_bags_ = WorkingBags(positions, found.t, found.kept)
        self.working_sets_ = [
            sides.rows[members] for members in split_members(found.members, sides.positive.offsets)
        ]
        self.initial_pool_ = sides.rows[found.chosen][found.pool]

    def _graph_settings(self, n_vertices: int, rng: Any) -> CSDGSettings:
        same_name: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("alpha", "beta", "alpha_on", "discrimination_pair", "normalise", "damping")
        }
        return CSDGSettings(
            **same_name,
            density=self.quasi_clique_density,
            max_iter=self.walk_iterations,
            start="ones" if self.walk_start == "ones" else rng.uniform(size=n_vertices),
        )

    def _negative_density(self, bags: Bags, positive: BoolArray | None = None) -> FloatArray:
        """Density of negatives; in training (classes given) each without its own bag."""
        own = None
        if positive is not None:
            own = np.where(positive, -1, np.cumsum(~positive) - 1)[bags.bag_index]
        return negative_density(
            bags.instances,
            self.negative_bags_,
            gamma=self.decay,
            unit=self.length_unit_,
            own_bag=own,
        )

    def _detect(self, bags: Bags, positive: BoolArray, against: FloatArray) -> None:
        """Score every instance by the pool, give each positive bag its best, pick the detected."""
        first = self._scores_in_training(bags, against, self.pool_)
        support = complete_pool(first, bags, self.pool_, positive)
        self.instance_scores_ = self._scores_in_training(bags, against, support)
        self.best_instances_ = segment_argmax(self.instance_scores_, bags.offsets)[positive]
        self._support = bags.instances[support]
        self.detected_instances_ = more_of_each_bag(
            self.pool_,
            [self.working_sets_[bag] for bag in np.flatnonzero(self.working_bags_.kept)],
            self.instance_scores_,
            self.n_instances_per_bag,
        )

    def _scores_in_training(self, bags: Bags, against: FloatArray, pool: IntArray) -> FloatArray:
        owners = bags.bag_index
        return pool_scores(
            bags.instances,
            against,
            bags.instances[pool],
            gamma=self.decay,
            unit=self.length_unit_,
            query_bag=owners,
            pool_bag=owners[pool],
        )

    def _choose_prototypes(self, bags: Bags, positive: BoolArray, rng: Any) -> IntArray:
        chosen = self.pool_
        if self.prototypes == "all":
            chosen = np.arange(bags.n_instances)
        elif self.prototypes.startswith("working_sets"):
            kept = np.flatnonzero(self.working_bags_.kept)
            chosen = np.concatenate([self.working_sets_[bag] for bag in kept])
        if self.prototypes.endswith("hard_negatives"):
            chosen = np.append(chosen, hard_negatives(bags, positive, bags.instances[self.pool_]))
        if len(chosen) > self.max_prototypes:
            chosen = np.sort(rng.choice(chosen, self.max_prototypes, replace=False))
        return chosen

    def _score_bags(self, bags: Bags) -> FloatArray:
        best = None
        if self.classifier_.uses_score:
            best = segment_reduce(np.maximum, self._score_instances(bags), bags.offsets)
        return self.classifier_.decide(bags, best)

    def _score_instances(self, bags: Bags) -> FloatArray:
        return pool_scores(
            bags.instances,
            self._negative_density(bags),
            self._support,
            gamma=self.decay,
            unit=self.length_unit_,
        )

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each class for every bag.

        The decision value is calibrated by a sigmoid through one half at 0, fitted on decisions
        for bags held out of the SVM. The prototypes have seen those bags: for a calibration that
        holds out everything wrap the model in ``CalibratedClassifierCV``.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags, 2)
            In the order of ``classes_``.
        """
        check_is_fitted(self, "classes_")
        decisions = self.decision_function(X)
        second = 1.0 / (1.0 + np.exp(-np.clip(self.classifier_.slope * decisions, -500, 500)))
        return np.column_stack([1.0 - second, second])
