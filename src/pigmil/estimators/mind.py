"""MInD: a bag described by its dissimilarities to the training bags."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC

from pigmil._core import state
from pigmil._core._sklearn_compat import HasMethods, StrOptions
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances import BAG_DISTANCES, bag_distances
from pigmil.estimators._pairwise import PairwiseBagClassifier, Scorer
from pigmil.estimators._parameters import AT_LEAST_ONE, CLASS_WEIGHT, POS_LABEL, POSITIVE
from pigmil.estimators._svm_solvers import class_costs
from pigmil.estimators.base import bags_state
from pigmil.estimators.card import Card

_MAX_ITER = 1_000_000  # libsvm may never end on bags that repeat each other under two labels


class MInD(PairwiseBagClassifier):
    """MInD: describe a bag by its dissimilarities to all training bags, then classify vectors.

    Implements the paper: the feature ``j`` of a bag is its dissimilarity to training bag
    ``j``, by the Hausdorff distance or by the smallest, mean or largest distance of its instances
    to their nearest in the other bag, one way or symmetrised; any classifier of vectors follows.

    Departs from the paper: distances are Euclidean, not squared, and are scaled so that the
    vectors of the training bags have length 1 in the mean square: ``C`` then means the same
    whatever the scale of the data and the number of bags.

    Parameters
    ----------
    dissimilarity : str, default="hausdorff"
        See :func:`pigmil.distances.bag_distances`.
    rank : int, default=1
        For ``dissimilarity="ranked"`` only.
    classifier : classifier or None, default=None
        Any classifier of scikit-learn; a linear SVM if None.
    C : float, default=100.0
        Cost of a violated margin of the linear SVM.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class in the linear SVM.
    probability : bool, default=False
        Whether to fit what :meth:`predict_proba` needs, at the cost of five more fits.
    pos_label : label, optional
        The positive class; the greater label if not given.

    Attributes
    ----------
    training_bags_ : Bags
        The bags that span the representation.
    scale_ : float
        The root mean square length of the training vectors, by which all are divided.
    classifier_ : classifier
        Fitted on the dissimilarities; it knows the classes False and True.

    Notes
    -----
    Cost: O(N^2 d + B^3) in instances, features and bags, in blocks.

    References
    ----------
    Cheplygina, Tax, Loog: Multiple Instance Learning with Bag Dissimilarities, Pattern
    Recognition 48(1), 2015.

    Examples
    --------
    >>> from pigmil.datasets import make_ring
    >>> from pigmil.estimators.mind import MInD
    >>> bags = make_ring(random_state=0)
    >>> MInD().fit(bags).predict(bags).shape
    (40,)
    """

    _accepts_sparse = True
    _pairwise_parameters = frozenset({"dissimilarity", "rank"})
    card = Card(
        name="MInD",
        title="Multiple-instance dissimilarity",
        paper="Cheplygina, Tax, Loog: Multiple Instance Learning with Bag Dissimilarities, "
        "Pattern Recognition 48(1), 2015",
        year=2015,
        detects=False,
        classifies=True,
        cost="O(N^2 d + B^3)",
        when_to_use="Whole bags matter; swap the dissimilarity or the classifier to fit the data.",
        grid={"dissimilarity": ("hausdorff", "mean-min", "min-min"), "C": (100.0, 1000.0)},
    )

    _state: ClassVar[dict[str, state.Field]] = {
        "training_bags_": bags_state("bags"),
        "scale_": state.Number(positive=True),
    }

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dissimilarity": [StrOptions(set(BAG_DISTANCES))],
        "rank": AT_LEAST_ONE,
        "classifier": [HasMethods(["fit", "predict"]), None],
        "C": POSITIVE,
        "class_weight": CLASS_WEIGHT,
        "probability": ["boolean"],
        "pos_label": POS_LABEL,
    }

    def __init__(
        self,
        *,
        dissimilarity: str = "hausdorff",
        rank: int = 1,
        classifier: Any = None,
        C: float = 100.0,
        class_weight: Any = None,
        probability: bool = False,
        pos_label: Any = None,
    ) -> None:
        self.dissimilarity = dissimilarity
        self.rank = rank
        self.classifier = classifier
        self.C = C
        self.class_weight = class_weight
        self.probability = probability
        self.pos_label = pos_label

    def _check_state(self, sizes: state.Sizes) -> None:
        super()._check_state(sizes)
        if getattr(self.classifier_, "n_features_in_", None) != sizes["bags"]:
            raise state.StateError("classifier_ does not take one distance per training bag")

    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        self.training_bags_ = bags
        self._fit_pairwise(self._pairwise_tables(bags), positive)

    def _pairwise_tables(self, bags: Bags) -> FloatArray:
        return bag_distances(bags, None, self.dissimilarity, rank=self.rank)

    def _fit_pairwise(self, tables: FloatArray, positive: BoolArray) -> Scorer:
        # All bags alike: nothing to scale by, and nothing to distinguish.
        self.scale_ = float(np.sqrt((tables**2).sum(axis=1).mean())) or 1.0
        self.classifier_ = self._new_classifier(positive).fit(tables / self.scale_, positive)
        return self._score_vectors

    def _new_classifier(self, positive: BoolArray) -> Any:
        if self.classifier is not None:
            return clone(self.classifier)
        costs = class_costs(self.class_weight, positive, self.classes_, self.positive_label_)
        weights = {False: costs[0], True: costs[1]}
        return SVC(kernel="linear", C=self.C, class_weight=weights, max_iter=_MAX_ITER)

    def _score_bags(self, bags: Bags) -> FloatArray:
        return self._score_vectors(
            bag_distances(bags, self.training_bags_, self.dissimilarity, rank=self.rank)
        )

    def _score_vectors(self, distances: FloatArray) -> FloatArray:
        vectors = distances / self.scale_
        if hasattr(self.classifier_, "decision_function"):
            return self.classifier_.decision_function(vectors)
        if hasattr(self.classifier_, "predict_proba"):
            return self.classifier_.predict_proba(vectors)[:, 1] - 0.5
        return np.where(self.classifier_.predict(vectors), 1.0, -1.0)
