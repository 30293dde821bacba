"""PIGMIL: positive instance detection via graph updating.

=============  =====================================  ====================  ===============
in the paper   name here                              default               paper
=============  =====================================  ====================  ===============
gamma, Eq. 1   decay                                  "cv"                  not printed (1)
Z, Eqs. 1, 5   (discrimination's scale)               1                     1
ws             working_score                          "supported"           KDE_min
WS, T_ws       working_sets_, working_set_fraction    0.4                   40 %
WB, h          working_bags_, reading.t_threshold     1.5                   1.5
PCP            initial_pool_, pool_                   one per working bag   the same
Upsilon, phi   exemplars, graph.confidence_ranks      similarity="rbf"      linear SVMs
S, Eq. 3       graph.similarity
C, gamma       graph.consistency,                     0.9                   0.9
               reading.quasi_clique_density
D, Eq. 5       graph.discrimination
gamma_1, _2    reading.gamma_far, reading.gamma_near  1                     1
alpha, beta    reading.alpha, reading.beta            max(10, log-ratio)    the same
E, CSDG        graph.edge_weights, csdg_
d              reading.damping                        0.8                   0.8
n_max_ite      reading.walk_iterations                10                    10
R_0            reading.walk_start                     "ones"                random
n_max_upd      max_updates                            20                    20
T+             prototypes_                            two best per bag,     the pool
                                                      hard negatives
gamma_d        embedding_decay                        "cv"                  1
h, Eq. 11      classifier_, C                         "cv"                  not printed
=============  =====================================  ====================  ===============
"""

import copy
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pigmil._core._sklearn_compat import Interval, StrOptions
from pigmil._core.segments import segment_lowest, segment_reduce
from pigmil._core.typing import BoolArray, FloatArray, IntArray
from pigmil.bags import Bags, as_bags
from pigmil.distances import length_unit, log_density
from pigmil.estimators._parameters import AT_LEAST_ONE, POSITIVE_OR_CV, Card, with_parameters
from pigmil.estimators._pigmil_data import densities_by_class, fit_on_disk, record_detection
from pigmil.estimators._prototype_svm import fit_prototype_svm
from pigmil.estimators._svm_solvers import class_costs
from pigmil.estimators.base import MILClassifier
from pigmil.exemplars import KernelExemplars, exemplar_lda, exemplar_svms
from pigmil.graph import (
    ClassSplit,
    Initialisation,
    PaperReading,
    UpdateResult,
    discrimination,
    hard_negatives,
    initialise,
    limit_working_sets,
    pool_scores,
    self_confidence,
    similarity,
    update_pool,
)
from pigmil.scale import LazyBags

_PAPER_READING = PaperReading()
_MAX_PROTOTYPES = 7000  # beyond it they are sampled
_BEST_PER_BAG = 2  # one per bag classified bags of the eleven sets of the paper worse
_PROTOTYPES = {"best+hard_negatives", "pool", "pool+hard_negatives", "all_instances"}
# Why a parameter departs from the paper; shown where it does.
_REASONS = {
    "working_score": "requires support by other positive bags; KDE_min picks outliers",
    "decay": "no width fits all data; chosen on held-out training bags",
    "length_unit": "grows with the dimension; with 1 all distances of wide data are far",
    "density_screen": "densities of large data are estimated first",
    "similarity": "linear exemplars with a bias join 0.5 to 5 % of the pairs on real data",
    "prototypes": "the two best-scored instances of every positive bag, with their hard negatives",
    "embedding_decay": "per squared unit of length, chosen on held-out training bags",
    "embedding_scaling": "a prototype far from most bags counts as much as a near one",
    "score_column": "finds the positive bags whose positive instance is hidden among many",
    "C": "chosen on held-out training bags",
    "reading__confidence_bias": "the confidence of an exemplar includes its intercept",
    "reading__walk_start": "nothing depends on a seed",
}
_NOT_OF_THE_METHOD = {"reading", "random_state", "n_jobs", "callback", "pos_label"}


@with_parameters
class PIGMIL(MILClassifier):
    """Positive instance detection via graph updating, with a bag classifier on what it detects.

    Three stages. *Initialisation*: the best instances of each positive bag by a working score form
    its working set; bags whose working set is significantly worse than the others' are set aside;
    the best instance of each remaining bag enters the candidate pool. *Updating*: the pool becomes
    a graph whose edges join instances that resemble each other (similarity), do so as part of a
    dense group (consistency) and differ from negatives (discrimination); a random walk ranks the
    vertices, and weak ones are replaced as long as the graph improves. *Classification*: bags
    are embedded by their similarity to the best-scored instances of positive bags and to hard
    negatives, and a linear SVM classifies them.

    Implements Definitions 1 to 9, Eqs. (1) to (11) and Algorithms 1 to 3. :meth:`paper` is the
    literal configuration, :meth:`faithful` the same with the fewest repairs.

    Departs from the paper: see Notes.

    Parameters
    ----------
    working_score : {"supported", "kde_min"}, default="supported"
        Initial ranking of the instances; ``"kde_min"`` is the paper's. See
        :func:`pigmil.graph.working_score`.
    decay : float or "cv", default="cv"
        Decay of the densities and of the kernel similarity per unit of length (paper: 1).
        ``"cv"`` chooses among 1, 2, 3, 5, 8 and 12 by cross-validation over the training bags: of
        those whose best-scored instances separate held-out bags about best, the nearest to 8.
        With one bag of a class it is 8.
    length_unit : {"auto", "median"} or float, default="auto"
        Unit of length; 1.0 as in the paper. See :func:`pigmil.distances.length_unit`.
    working_set_fraction : float, default=0.4
        Share of a positive bag in its working set.
    similarity : {"rbf", "svm", "lda"}, default="rbf"
        Exemplar classifiers behind the similarity: kernels, linear SVMs (the paper), or linear
        discriminants.
    max_updates : int, default=20
        Maximum number of replacements in the pool.
    density_screen : bool or "auto", default="auto"
        Whether the densities are estimated, and exact only for the most promising instances of
        positive bags; ``"auto"`` does so where exact ones would take more than a few seconds. See
        :func:`pigmil.distances.class_log_densities`.
    max_candidates : int, default=3000
        Maximum number of candidates in all working sets: similarity is held for every pair.
    prototypes : str, default="best+hard_negatives"
        Instances that span the embedding: ``"pool"`` (the paper); ``"pool+hard_negatives"``, with
        the instance of each negative bag nearest to the pool; ``"best+hard_negatives"``, the two
        best-scored instances of every positive bag, with the instance of each negative bag nearest
        to these; or ``"all_instances"``, with which bags are classified regardless of what was
        detected.
    embedding_decay : float or "cv", default="cv"
        Kernel width of the embedding per squared unit of length; ``"cv"`` chooses among 0.1, 0.3,
        1, 3 and 10 by cross-validation over the training bags.
    embedding_scaling : bool, default=True
        Centre every similarity and give it the same spread over the training bags (paper: not).
    score_column : bool, default=True
        Classify bags also by the score of their best instance by the pool, see
        :func:`pigmil.graph.pool_scores` (paper: not).
    C : float or "cv", default="cv"
        Cost of the bag SVM; ``"cv"`` chooses among 1, 10, 100 and 1000.
    class_weight : None, "balanced" or dict, default=None
        Weights of the bag classes in the SVM.
    reading : PaperReading, optional
        How the paper is read where it is open, and its constants; the default readings if None.
        Single fields can be set: ``set_params(reading__alpha_on="similarity")``.
    random_state : int, RandomState instance or None, default=None
        For a random start of the walk, a sample behind ``length_unit="median"`` and a sample of
        more than 7,000 prototypes. Nothing else is random.
    n_jobs : int, default=None
        Threads for the exemplar SVMs.
    callback : callable, default=None
        Called with an :class:`pigmil.graph.UpdateStep` after every examined vertex.
    pos_label : label, default=None
        The positive class; the greater label if None.

    Attributes
    ----------
    detected_instances_ : array of int
        Flat indices of the final pool, one per working bag.
    best_instances_ : array of int of shape (n_positive_bags,)
        The best-scored instance of every positive bag, including those set aside.
    instance_scores_ : array of shape (n_instances,)
        Score of every training instance, without the pool member or the negatives of its own bag.
    working_sets_ : list of array of int
        Flat indices of the working set of each positive bag.
    working_bags_ : WorkingBags
        Positions and t values of the positive bags, and whether each is a working bag.
    initial_pool_, pool_ : array of int
        The pool before and after updating; ``trace_.replay(initial_pool_)`` ends with ``pool_``.
    csdg_ : CSDG
        The final graph: vertices, similarity, consistency, discrimination, weights, scores.
    trace_ : Trace
        Every try of the updating.
    prototypes_ : array of int
        Flat indices of the prototypes.
    length_unit_, decay_ : float
        The unit and the decay in use.
    held_out_auc_ : float
        Area under the ROC curve of bags held out, by their best instance under the first pool of
        the others; NaN unless ``decay="cv"`` could hold out bags.
    classifier_ : PrototypeSVM
        The embedding and its SVM, with the chosen ``C`` and ``decay``.

    Notes
    -----
    Of more than 15,000 instances on disk (:func:`pigmil.scan_bags`) some of each bag are chosen in
    two passes, by densities that a few representatives of every bag give; the fit works with
    these, and a third pass scores the others.

    What differs from the paper, its setting first:

    <differences>

    The points that the paper leaves open are fields of ``reading``. The paper defines no score of
    an instance. Here it is the log ratio of the density of the pool, refined a few times, to that
    of the negative bags, less the threshold that separates the training bags best: above 0 an
    instance is called positive.

    Cost: densities O(N_positive N_negative d), similarity O(m (m + N_negative) d) for m
    candidates, updating O(m) times the consistency of one graph, embedding O(N P d).

    References
    ----------
    Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for Multiple
    Instance Learning.

    Examples
    --------
    >>> from pigmil import PIGMIL
    >>> from pigmil.datasets import make_ring
    >>> bags = make_ring(random_state=0)
    >>> model = PIGMIL(random_state=0).fit(bags)
    >>> float((bags.instance_labels[model.detected_instances_] == 1).mean())
    1.0
    """

    _accepts_sparse = True
    _fits_lazy_bags = True
    card = Card(
        name="PIGMIL",
        title="Positive instance detection via graph updating",
        paper="Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for "
        "Multiple Instance Learning",
        year=2016,
        default_chosen="C, decay and embedding_decay are chosen by cross-validation over the "
        "training bags. prototypes and score_column were chosen by the bag labels of 44 "
        "development sets. "
        "working_set_fraction, max_updates and the other constants were chosen on "
        "BASIC, RHOMBUS and RING and on labelled development sets: figures on these are "
        "optimistic.",
        cost="O(N_positive N_negative d) + O(m^2 d) and O(m) graphs for m candidates",
        when_to_use="Find the instances that make bags positive when bags share a cause.",
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "working_score": [StrOptions({"supported", "kde_min"})],
        "decay": POSITIVE_OR_CV,
        "working_set_fraction": [Interval(Real, 0, 1, closed="right")],
        "similarity": [StrOptions({"svm", "lda", "rbf"})],
        "max_updates": [Interval(Integral, 0, None, closed="left")],
        "density_screen": ["boolean", StrOptions({"auto"})],
        "max_candidates": AT_LEAST_ONE,
        "prototypes": [StrOptions(_PROTOTYPES)],
        "embedding_decay": POSITIVE_OR_CV,
        "embedding_scaling": ["boolean"],
        "score_column": ["boolean"],
        "C": POSITIVE_OR_CV,
        "reading": [PaperReading, None],
        "callback": [callable, None],
    }

    working_score: str = "supported"
    decay: float | str = "cv"
    length_unit: str | float = "auto"
    working_set_fraction: float = 0.4
    similarity: str = "rbf"
    max_updates: int = 20
    density_screen: bool | str = "auto"
    max_candidates: int = 3000
    prototypes: str = "best+hard_negatives"
    embedding_decay: float | str = "cv"
    embedding_scaling: bool = True
    score_column: bool = True
    C: float | str = "cv"
    class_weight: Any = None
    reading: PaperReading | None = None
    random_state: Any = None
    n_jobs: int | None = None
    callback: Callable[..., None] | None = None
    pos_label: Any = None

    @classmethod
    def faithful(cls, **changes: Any) -> "PIGMIL":
        """Build the paper's algorithm with the fewest repairs that make it work.

        As :meth:`paper`, but the confidence of an exemplar includes its intercept, lengths are
        measured in a unit that grows with the dimension, and the walk starts from ones. C, which
        the paper does not print, and the width of the embedding, which it calls empirical, are
        chosen by cross-validation over the training bags.

        Parameters
        ----------
        **changes
            Parameters to change, as in ``set_params``.

        Examples
        --------
        >>> from pigmil import PIGMIL
        >>> for paper, here in PIGMIL.faithful().differences_from_paper():
        ...     print(paper, "->", here.partition(":")[0])
        length_unit=1.0 -> length_unit='auto'
        embedding_decay=1.0 -> embedding_decay='cv'
        C=1.0 -> C='cv'
        reading__confidence_bias=False -> reading__confidence_bias=True
        reading__walk_start='random' -> reading__walk_start='ones'
        """
        chosen = {"C": "cv", "embedding_decay": "cv"}
        faithful = cls.paper(length_unit="auto", reading=PaperReading(), **chosen)
        return faithful.set_params(**changes)

    def differences_from_paper(self) -> list[tuple[str, str]]:
        """List the parameters that differ from the literal configuration.

        Returns
        -------
        list of (str, str)
            The setting of :meth:`paper`, and the setting of this model with the reason for it.

        Examples
        --------
        >>> from pigmil import PIGMIL
        >>> PIGMIL.paper(C=10.0).differences_from_paper()
        [('C=1.0', 'C=10.0: chosen on held-out training bags')]
        """
        literal, here = PIGMIL.paper().get_params(), self.get_params()
        rows = []
        for name in dict.fromkeys([*_REASONS, *here]):
            if name not in _NOT_OF_THE_METHOD and literal[name] != here[name]:
                reason = f": {_REASONS[name]}" if name in _REASONS else ""
                rows.append((f"{name}={literal[name]!r}", f"{name}={here[name]!r}{reason}"))
        return rows

    @classmethod
    def paper(cls, **changes: Any) -> "PIGMIL":
        """Build the configuration that is literal where the paper can be taken literally.

        One-sided KDE_min, unit of length 1, confidences ``w.x`` of linear exemplar SVMs, a random
        start of the walk, the pool alone as prototypes, ``gamma_d = 1``, ``C = 1``. Where the
        paper contradicts itself the default reading is kept (nearest negatives, alpha on
        consistency, min of the discriminations).

        Parameters
        ----------
        **changes
            Parameters to change, as in ``set_params``.

        Examples
        --------
        >>> from pigmil import PIGMIL
        >>> PIGMIL.paper().working_score
        'kde_min'
        """
        literal = cls(
            working_score="kde_min",
            decay=1.0,
            length_unit=1.0,
            similarity="svm",
            density_screen=False,
            prototypes="pool",
            embedding_decay=1.0,
            embedding_scaling=False,
            score_column=False,
            C=1.0,
            reading=PaperReading(confidence_bias=False, walk_start="random"),
        )
        return literal.set_params(**changes)

    @property
    def _reading(self) -> PaperReading:
        return self.reading or _PAPER_READING

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; deep, also the fields of the reading.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include ``reading__<field>``.

        Returns
        -------
        dict
        """
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and self.reading is None:
            fields = _PAPER_READING.get_params()
            params.update({f"reading__{name}": value for name, value in fields.items()})
        return params

    def set_params(self, **params: Any) -> "PIGMIL":
        """Set parameters; ``reading__<field>`` sets one field of the reading.

        Parameters
        ----------
        **params
            Parameters by name.

        Returns
        -------
        self
        """
        prefix = "reading__"
        fields = {name: params.pop(name) for name in list(params) if name.startswith(prefix)}
        super().set_params(**params)
        if fields:
            changes = {name.removeprefix(prefix): value for name, value in fields.items()}
            self.reading = self._reading.replace(**changes)
        return self

    def _fit(self, bags: Bags | LazyBags, positive: BoolArray) -> None:
        rng = check_random_state(self.random_state)
        if isinstance(bags, LazyBags):
            fit_on_disk(self, bags, positive, rng)
            return
        self.length_unit_ = length_unit(bags.instances, self.length_unit, random_state=rng)
        self._run_algorithm_3(bags, positive, rng)

    def _run_algorithm_3(self, bags: Bags, positive: BoolArray, rng: np.random.RandomState) -> None:
        """Run Algorithm 3; what it needs beside the paper stands in ``_pigmil_data``."""
        split = densities_by_class(self, bags, positive)
        # Initialisation (lines 1 to 3): working sets, working bags and the first PCP.
        first = self._initialise(split)
        # PCP updating (lines 4 and 5): the CSDG, and Algorithm 2 on it.
        candidates, result = self._update(split, first, rng)
        record_detection(self, split, first, split.rows[candidates], result)
        # Bag classification (line 6): the embedding by T+, and a linear SVM.
        self._classify(bags, positive, split.log_negative_density[0], rng)

    def _initialise(self, split: ClassSplit, width: int = 0) -> Initialisation:
        """Find working sets, working bags and the first pool (Definitions 2 to 5)."""
        reading = self._reading
        return initialise(
            split.working_scores(width, margin=reading.margin, penalty=reading.penalty),
            split.positive.offsets,
            fraction=self.working_set_fraction,
            threshold=reading.t_threshold,
        )

    def _update(
        self, split: ClassSplit, first: Initialisation, rng: np.random.RandomState
    ) -> tuple[IntArray, UpdateResult]:
        """Build the graph of the first pool and update it (Definitions 6 to 9, Algorithm 2).

        Returns the candidates, positions among the instances of positive bags, and the pool as
        positions among the candidates.
        """
        reading, bags = self._reading, split.positive
        working_sets = first.working_sets & first.working_bags[bags.bag_index]
        candidates = np.flatnonzero(
            limit_working_sets(first.scores, working_sets, bags.offsets, self.max_candidates)
        )
        confidences = self._confidences(split, candidates)  # Upsilon
        D = np.zeros(len(candidates))
        if reading.beta != 0:
            D = discrimination(
                bags.instances[candidates],
                split.negative.instances,
                unit=self.length_unit_,
                gamma_far=reading.gamma_far,
                gamma_near=reading.gamma_near,
            )
        result = update_pool(
            similarity(confidences, use=reading.similarity_use),
            D,
            self_confidence(confidences),
            bags.bag_index[candidates],
            np.searchsorted(candidates, first.pool),
            reading=reading,
            max_updates=self.max_updates,
            random_state=rng,
            callback=self.callback,
        )
        return candidates, result

    def _confidences(self, split: ClassSplit, candidates: IntArray) -> FloatArray:
        """Return the confidence of the exemplar of every candidate in every candidate."""
        instances, negatives = split.positive.instances[candidates], split.negative.instances
        if self.similarity == "rbf":
            kernels = KernelExemplars(
                instances, split.negative, gamma=self.decay_, unit=self.length_unit_
            )
            log_density_there = split.log_negative_density[0, split.rows[candidates]]
            return kernels.confidence(instances, log_negative_density=log_density_there)
        if self.similarity == "lda":
            linear = exemplar_lda(instances, negatives)
        else:
            C = self._reading.exemplar_C
            linear = exemplar_svms(instances, negatives, C=C, n_jobs=self.n_jobs)
        return linear.confidence(instances, include_bias=self._reading.confidence_bias)

    def _classify(
        self,
        bags: Bags,
        positive: BoolArray,
        log_negative_density: FloatArray,
        rng: np.random.RandomState,
    ) -> None:
        """Embed the bags by the prototypes and train the SVM (Alg. 3, line 6)."""
        self._pool_instances = bags.instances[self.pool_]
        best_scores = None
        if self.score_column:
            own = {"query_bag": bags.bag_index, "pool_bag": bags.bag_index[self.pool_]}
            best_scores = self._best_scores(bags, log_negative_density, **own)
        self.prototypes_ = self._choose_prototypes(bags, positive, rng)
        self.classifier_ = fit_prototype_svm(
            bags,
            positive,
            self.prototypes_,
            C=self.C,
            decay=self.embedding_decay,
            unit=self.length_unit_,
            scaled=self.embedding_scaling,
            best_scores=best_scores,
            costs=class_costs(self.class_weight, positive, self.classes_, self.positive_label_),
        )

    def with_pool(self, X: Any, pool: Any = None, *, random_state: Any = None) -> "PIGMIL":
        """Return a copy whose bag classifier is trained anew, with another pool of instances.

        Parameters
        ----------
        X : bags
            The labelled bags that the model was fitted to.
        pool : array of int, optional
            Flat indices of the instances to use in place of ``pool_`` and of the best-scored
            instances; those of the model if not given.
        random_state : int, RandomState or None
            For the choice of prototypes.
        """
        check_is_fitted(self)
        bags = as_bags(X)
        positive = np.asarray(bags.y == self.positive_label_)
        split = ClassSplit.from_bags(
            bags, positive, decays=(self.decay_,), unit=self.length_unit_, two_sided=False
        )
        other = copy.copy(self)
        if pool is not None:
            other.prototypes = self.prototypes.replace("best", "pool")
            other.pool_ = np.asarray(pool)
        rng = check_random_state(random_state)
        other._classify(bags, positive, split.log_negative_density[0], rng)
        return other

    def _choose_prototypes(
        self, bags: Bags, positive: BoolArray, rng: np.random.RandomState
    ) -> IntArray:
        chosen = self.pool_
        if self.prototypes == "all_instances":
            chosen = np.arange(bags.n_instances)
        elif self.prototypes.startswith("best"):
            best = segment_lowest(-self.instance_scores_, bags.offsets, _BEST_PER_BAG)
            chosen = np.flatnonzero(best & positive[bags.bag_index])
        if self.prototypes.endswith("hard_negatives"):
            chosen = np.append(chosen, hard_negatives(bags, ~positive, bags.instances[chosen]))
        if len(chosen) > _MAX_PROTOTYPES:
            chosen = np.sort(rng.choice(chosen, _MAX_PROTOTYPES, replace=False))
        return chosen

    def _score_bags(self, bags: Bags) -> FloatArray:
        best_scores = self._best_scores(bags) if self.classifier_.uses_score else None
        return self.classifier_.decide(bags, best_scores)

    def _best_scores(self, bags: Bags, *known: FloatArray, **own: Any) -> FloatArray:
        """Return the best score of each bag by the updated pool and the negative bags alone."""
        scores = self._pool_scores(bags, self._pool_instances, *known, **own)
        return segment_reduce(np.maximum, scores, bags.offsets)

    def _score_instances(self, bags: Bags) -> FloatArray:
        return self._pool_scores(bags, self._scoring_pool) - self._score_offset

    def _pool_scores(
        self, bags: Bags, pool: Any, log_negative_density: FloatArray | None = None, **own: Any
    ) -> FloatArray:
        how = {"gamma": self.decay_, "unit": self.length_unit_}
        if log_negative_density is None:
            log_negative_density = log_density(bags.instances, self.negative_bags_, **how)
        return pool_scores(bags.instances, log_negative_density, pool, **how, **own)

    # The bag SVM has held-out decisions from its inner folds, so probabilities cost nothing.
    probability: ClassVar[bool] = True  # type: ignore[misc]

    def _calibrate(self, bags: Bags, y: Any, *weights: FloatArray) -> None:
        models = getattr(self, "estimators_", [self])
        self.probability_slope_ = float(np.mean([model.classifier_.slope for model in models]))


if PIGMIL.__doc__:
    _rows = PIGMIL().differences_from_paper()
    PIGMIL.__doc__ = PIGMIL.__doc__.replace(
        "<differences>", "\n    ".join(f"- {paper}; {here}." for paper, here in _rows)
    )
