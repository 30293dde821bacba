"""MInD: a bag described by its dissimilarities to the training bags."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.svm import SVC

from pigmil._core._sklearn_compat import HasMethods, StrOptions
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags
from pigmil.distances import BAG_DISTANCES, bag_distances
from pigmil.estimators._pairwise import PairwiseBagClassifier
from pigmil.estimators._parameters import AT_LEAST_ONE, Card, with_parameters
from pigmil.estimators.base import AcceptsWeights, decision_values

_MAX_ITER = 1_000_000  # libsvm may not terminate if equal bags have different labels


@with_parameters
class MInD(PairwiseBagClassifier, AcceptsWeights):
    """MInD: describe a bag by its dissimilarities to all training bags, and classify the vectors.

    Implements the paper: feature ``j`` of a bag is its dissimilarity to training bag ``j``. The
    dissimilarity is the Hausdorff distance, or the smallest, mean or largest distance of an
    instance to the nearest instance of the other bag, in one direction or symmetric. Any
    classifier is then trained on these vectors.

    Departs from the paper: distances are Euclidean, not squared, and are scaled so that the
    vectors of the training bags have a mean squared length of 1. ``C`` then does not depend on
    the scale of the data or the number of bags.

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
    {probability}
    {pos_label}

    Attributes
    ----------
    training_bags_ : Bags
        The training bags.
    scale_ : float
        The root mean square length of the training vectors, by which all are divided.
    training_weights_ : array of shape (n_bags,)
        Weights of the training bags, if some were given. A dissimilarity is multiplied by the root
        of the weight, which gives vectors the distances that copies of the bag would.
    classifier_ : classifier
        Fitted on the dissimilarities, with classes False and True.

    Notes
    -----
    Cost: O(N^2 d + B^3) in instances, features and bags, in blocks.

    When to use: Whole bags differ; the dissimilarity and the classifier can be chosen.

    Defaults: C was picked while looking at the first split of the benchmark sets; dissimilarity and
    rank are published. Benchmarks tune by inner cross-validation.

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

    dissimilarity: str = "hausdorff"
    rank: int = 1
    classifier: Any = None
    C: float = 100.0
    class_weight: Any = None

    _accepts_sparse = True
    card = Card(
        "MInD",
        "Multiple-instance dissimilarity",
        grid={"dissimilarity": ("hausdorff", "mean-min", "min-min"), "C": (100.0, 1000.0)},
    )

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "dissimilarity": [StrOptions(set(BAG_DISTANCES))],
        "rank": AT_LEAST_ONE,
        "classifier": [HasMethods(["fit", "predict"]), None],
    }

    def _tables(
        self, queries: Bags, references: Bags | None, weights: FloatArray | None = None
    ) -> FloatArray:
        return bag_distances(queries, references, self.dissimilarity, rank=self.rank)

    def _fit_tables(
        self, tables: FloatArray, positive: BoolArray, weights: FloatArray | None = None
    ) -> None:
        self.scale_ = 1.0
        self.__dict__.pop("training_weights_", None)
        if weights is not None:
            self.training_weights_ = weights
        squares = (self._vectors(tables) ** 2).sum(axis=1)
        # All bags are equal: there is no scale.
        self.scale_ = float(np.sqrt(np.average(squares, weights=weights))) or 1.0
        passed_on = {} if weights is None else {"sample_weight": weights}
        self.classifier_ = self._new_classifier(positive, weights).fit(
            self._vectors(tables), positive, **passed_on
        )

    def _vectors(self, distances: FloatArray) -> FloatArray:
        vectors = distances / self.scale_
        if hasattr(self, "training_weights_"):
            vectors = vectors * np.sqrt(self.training_weights_)
        return vectors

    def _new_classifier(self, positive: BoolArray, weights: FloatArray | None) -> Any:
        if self.classifier is not None:
            return clone(self.classifier)
        by_class = dict(enumerate(self._class_costs(positive, weights)))
        return SVC(kernel="linear", C=self.C, class_weight=by_class, max_iter=_MAX_ITER)

    def _score_tables(self, tables: FloatArray) -> FloatArray:
        return decision_values(self.classifier_, self._vectors(tables))
