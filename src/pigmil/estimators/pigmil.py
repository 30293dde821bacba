"""PIGMIL: positive instance detection via graph updating."""

from collections.abc import Callable
from typing import Any, ClassVar

from pigmil.estimators._pigmil_ranges import RANGES
from pigmil.estimators._pigmil_stages import PIGMILStages
from pigmil.estimators.card import Card


class PIGMIL(PIGMILStages):
    """Positive instance detection via graph updating, and bag classification by what it finds.

    Three stages. *Initialisation*: of each positive bag the best instances by a working score
    form its working set; bags whose working set is significantly worse than the others' are set
    aside; the best instance of each remaining bag enters the candidate pool. *Updating*: the pool
    becomes a graph whose edges join instances that resemble each other (similarity), do so as part
    of a dense group (consistency) and are unlike negatives (discrimination); a walk ranks the
    vertices, and weak ones are replaced as long as the graph gets better. *Classification*: bags
    are embedded by their similarity to the pool, and a linear SVM tells them apart.

    Implements Definitions 1 to 8, Eqs. (1) to (10) and Algorithms 1 to 3; :meth:`paper` builds
    the configuration that is literal where the paper can be taken literally.

    Departs from the paper: see Notes.

    Parameters
    ----------
    working_score : {"supported", "density_ratio", "kde_min"}, default="supported"
        What ranks instances at first; ``"kde_min"`` is the paper. See
        :func:`pigmil.graph.candidates.working_score`.
    decay : float, default=2.0
        Decay of the densities and of the kernel similarity, per unit of length (paper: 1).
    kde_reading : {"nearest", "literal"}, default="nearest"
        Whether min is over distances or over exponentials, as printed.
    length_unit : {"auto", "median"} or float, default="auto"
        Unit of length; 1.0 is the paper. See :func:`pigmil.distances.length_unit`.
    working_set_fraction : float, default=0.4
        Share of a positive bag in its working set.
    t_test : {"one_sample", "welch", "pooled"} or None, default="one_sample"
        Form of the test for working bags; None keeps all positive bags.
    t_threshold : float, default=1.5
        A bag with a greater t value is set aside.
    similarity : {"rbf", "svm", "lda"}, default="rbf"
        Exemplar classifiers behind the similarity: kernels, linear SVMs (the paper), or linear
        discriminants.
    exemplar_C : float, default=1.0
        With ``"svm"``: cost of the exemplar SVMs.
    confidence_bias : bool, default=True
        Whether the confidence includes the bias; the paper prints ``w.x``.
    quasi_clique_density : float, default=0.9
        Share of edges that makes a group of vertices a quasi-clique.
    gamma_far, gamma_near : float, default=1.0
        Of the discrimination, Eq. (5).
    alpha, beta : "log-ratio" or float, default="log-ratio"
        Balance of consistency and discrimination, by edge as in the paper, or fixed.
    alpha_on : {"consistency", "similarity"}, default="consistency"
        Where alpha stands: in the definition of the graph or as in Eq. (2).
    discrimination_pair : {"min", "max"}, default="min"
        Discrimination of an edge from that of its ends.
    normalise : {"max", "row", "symmetric", "spectral", "sum"}, default="max"
        Normalisation of the edge weights.
    damping : float, default=0.8
        Damping of the walk.
    walk_iterations : int, default=10
        Of the walk; the loop as printed makes one product more.
    walk_start : {"ones", "random"}, default="ones"
        Scores the walk starts from.
    objective : {"ranking_scores", "edge_sum"}, default="ranking_scores"
        What a replacement must raise.
    max_updates : int, default=20
        Replacements at most.
    max_candidates : int, default=3000
        Bound on the candidates of all working sets together: similarity is held for every pair.
    n_instances_per_bag : int, default=1
        Detected instances of each working bag: the pool's, then the best-scored of its working
        set.
    prototypes : {"pool", "pool+hard_negatives", "working_sets+hard_negatives", "all"}
        Instances that span the embedding, default ``"all"``, every training instance; a hard
        negative is the instance of a negative bag nearest to the pool.
    max_prototypes : int, default=7000
        Bound on the prototypes; beyond it they are drawn by ``random_state``.
    embedding_decay : float or "cv", default="cv"
        Kernel width of the embedding per squared unit of length; ``"cv"`` chooses among 0.1, 0.3,
        1, 3 and 10 by cross-validation over the training bags.
    embedding_scaling : bool, default=True
        Bring every similarity to mean 0 and equal spread over the training bags (paper: not).
    score_column : bool or "cv", default="cv"
        Tell bags apart also by the score of their best instance (paper: not); ``"cv"`` does so
        where it helps in cross-validation over the training bags.
    C : float or "cv", default="cv"
        Cost of the bag SVM; ``"cv"`` chooses among 1, 10, 100 and 1000 likewise.
    class_weight : None, "balanced" or dict, default=None
        Weights of the bag classes in the SVM.
    random_state : int, RandomState instance or None, default=None
        For inner folds and a random start of the walk.
    n_jobs : int, default=None
        Threads for the exemplar SVMs.
    verbose : bool, default=False
        Show the log messages of the stages on standard error while fitting.
    callback : callable, default=None
        Called with an :class:`pigmil.graph.updating.UpdateStep` after every examined vertex.
    pos_label : label, default=None
        The positive class; the greater label if None.

    Attributes
    ----------
    detected_instances_ : array of int
        Flat indices of the final pool, one a working bag (or ``n_instances_per_bag``).
    best_instances_ : array of int of shape (n_positive_bags,)
        The best-scored instance of every positive bag, also of those set aside.
    instance_scores_ : array of shape (n_instances,)
        Score of every training instance; what is of its own bag, pool member or negatives, is
        left out.
    working_sets_ : list of array of int
        Flat indices of the working set of each positive bag.
    working_bags_ : WorkingBags
        Positions, t values and fate of the positive bags.
    initial_pool_ : array of int
        The pool before updating; ``trace_.replay(initial_pool_)`` ends with the final pool.
    csdg_ : CSDG
        The final graph: vertices, similarity, consistency, discrimination, weights, scores.
    trace_ : Trace
        Every try of the updating.
    prototypes_ : array of int
        Flat indices of the prototypes.
    length_unit_ : float
        The unit that was used.
    classifier_ : BagSVM
        The embedding and its SVM, with the chosen ``C`` and ``decay``.

    Notes
    -----
    Departures, each measured on data: the working score asks for support by other positive bags
    (the one-sided score picks outliers on real data); the similarity comes from kernel exemplars
    (linear exemplar SVMs leave the graph nearly empty in more than a few dimensions); lengths are
    measured in a unit that grows with the dimension (with unit 1 the embedding underflows); all
    instances are prototypes, scaled alike, and the score of the best instance of a bag joins them
    where inner folds find that it helps. So bags may be told apart well whether or not the
    detection is right: judge the detection by instance labels, or by looking. The form of the
    t-test, the bias in the confidence, the normalisation of the graph and the start of the walk
    are open in the paper.

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
    card = Card(
        name="PIGMIL",
        title="Positive instance detection via graph updating",
        paper="Xu, Wu, Zhang, Tian: PIGMIL: Positive Instance Detection via Graph Updating for "
        "Multiple Instance Learning",
        year=2016,
        detects=True,
        classifies=True,
        cost="O(N_positive N_negative d) + O(m^2 d) and O(m) graphs for m candidates",
        when_to_use="Find the instances that make bags positive when bags share a cause.",
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = RANGES

    def __init__(
        self,
        *,
        working_score: str = "supported",
        decay: float = 2.0,
        kde_reading: str = "nearest",
        length_unit: str | float = "auto",
        working_set_fraction: float = 0.4,
        t_test: str | None = "one_sample",
        t_threshold: float = 1.5,
        similarity: str = "rbf",
        exemplar_C: float = 1.0,
        confidence_bias: bool = True,
        quasi_clique_density: float = 0.9,
        gamma_far: float = 1.0,
        gamma_near: float = 1.0,
        alpha: str | float = "log-ratio",
        beta: str | float = "log-ratio",
        alpha_on: str = "consistency",
        discrimination_pair: str = "min",
        normalise: str = "max",
        damping: float = 0.8,
        walk_iterations: int = 10,
        walk_start: str = "ones",
        objective: str = "ranking_scores",
        max_updates: int = 20,
        max_candidates: int = 3000,
        n_instances_per_bag: int = 1,
        prototypes: str = "all",
        max_prototypes: int = 7000,
        embedding_decay: float | str = "cv",
        embedding_scaling: bool = True,
        score_column: bool | str = "cv",
        C: float | str = "cv",
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: bool = False,
        callback: Callable[..., None] | None = None,
        pos_label: Any = None,
    ) -> None:
        self.working_score = working_score
        self.decay = decay
        self.kde_reading = kde_reading
        self.length_unit = length_unit
        self.working_set_fraction = working_set_fraction
        self.t_test = t_test
        self.t_threshold = t_threshold
        self.similarity = similarity
        self.exemplar_C = exemplar_C
        self.confidence_bias = confidence_bias
        self.quasi_clique_density = quasi_clique_density
        self.gamma_far = gamma_far
        self.gamma_near = gamma_near
        self.alpha = alpha
        self.beta = beta
        self.alpha_on = alpha_on
        self.discrimination_pair = discrimination_pair
        self.normalise = normalise
        self.damping = damping
        self.walk_iterations = walk_iterations
        self.walk_start = walk_start
        self.objective = objective
        self.max_updates = max_updates
        self.max_candidates = max_candidates
        self.n_instances_per_bag = n_instances_per_bag
        self.prototypes = prototypes
        self.max_prototypes = max_prototypes
        self.embedding_decay = embedding_decay
        self.embedding_scaling = embedding_scaling
        self.score_column = score_column
        self.C = C
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.pos_label = pos_label

    @classmethod
    def paper(cls, **changes: Any) -> "PIGMIL":
        """Build the paper-literal configuration.

        One-sided KDE_min, unit of length 1, confidences ``w.x`` of linear exemplar SVMs, a random
        start of the walk, the pool alone as prototypes, ``gamma_d = 1``, ``C = 1``. Where the
        paper contradicts itself the reading of the defaults is kept (nearest negatives, alpha on
        consistency, min of the discriminations).

        Parameters
        ----------
        **changes
            Parameters to set otherwise.

        Examples
        --------
        >>> from pigmil import PIGMIL
        >>> PIGMIL.paper().working_score
        'kde_min'
        """
        literal = {
            "working_score": "kde_min",
            "decay": 1.0,
            "length_unit": 1.0,
            "similarity": "svm",
            "confidence_bias": False,
            "walk_start": "random",
            "prototypes": "pool",
            "embedding_decay": 1.0,
            "embedding_scaling": False,
            "score_column": False,
            "C": 1.0,
        }
        return cls(**{**literal, **changes})
