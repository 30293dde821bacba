"""What every method shares: validation in, labels out, one hook each for the algorithm itself."""

import warnings
from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import ClassifierTags, assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from pigmil._core._sklearn_compat import fit_context, validate_data
from pigmil._core.errors import SingletonBagsWarning
from pigmil._core.segments import segment_argmax
from pigmil._core.typing import BoolArray, FloatArray
from pigmil.bags import Bags, as_bags
from pigmil.bags.transform import is_plain_table
from pigmil.estimators.card import Card


class BaseMIL(BaseEstimator, metaclass=ABCMeta):
    """Base of all methods, detectors and classifiers alike.

    A subclass writes ``_fit(bags, positive)`` and, if it detects, ``_score_instances(bags)``;
    ``fit`` validates and calls them. Its class attribute ``card`` says what it is.
    """

    card: ClassVar[Card]
    _accepts_sparse: ClassVar[bool] = False

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit on bags and their labels.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes; a 2-D array is bags of one instance.
        y : array of shape (n_bags,), optional
            Two label values; the greater is the positive class unless ``pos_label`` says
            otherwise. May be left out when ``X`` carries labels.

        Returns
        -------
        self
        """
        bags = self._check_X(X, reset=True)
        y = self._check_y(bags.y if y is None else y, bags)
        positive = y == self._positive_label()
        self._fitted_on_bags = bool(bags.sizes.max() > 1)
        self._fit(bags, positive)
        return self

    @abstractmethod
    def _fit(self, bags: Bags, positive: BoolArray) -> None:
        """Run the algorithm: ``positive`` marks the positive bags; set the fitted attributes."""

    def _score_instances(self, bags: Bags) -> FloatArray:
        """Score of every instance, higher is more likely positive; only where ``card.detects``."""
        raise AttributeError(f"{type(self).__name__} does not score instances.")

    def _set_detection(self, bags: Bags, positive: BoolArray, scores: FloatArray) -> None:
        """Set ``instance_scores_`` and pick the best-scored instance of each positive bag."""
        self.instance_scores_ = np.asarray(scores, dtype=np.float64)
        self.detected_instances_ = segment_argmax(self.instance_scores_, bags.offsets)[positive]

    def _check_X(self, X: Any, *, reset: bool) -> Bags:
        if is_plain_table(X):
            if not reset and self._fitted_on_bags:
                warnings.warn(
                    f"{type(self).__name__} was fitted on bags of several instances and is handed "
                    "a 2-D table: each row is read as a bag of one instance. Pass Bags, a list of "
                    "2-D arrays, or a DataFrame with a 'bag' column.",
                    SingletonBagsWarning,
                    stacklevel=3,
                )
            X = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr" if self._accepts_sparse else False,
                dtype=[np.float64, np.float32],
            )
            return as_bags(X)
        bags = as_bags(X)
        if bags.is_sparse and not self._accepts_sparse:
            raise TypeError(
                f"{type(self).__name__} needs dense instances, and these are sparse; use "
                "bags.with_instances(bags.instances.toarray()) if they fit in memory."
            )
        self._check_width(bags, reset=reset)
        return bags

    def _check_width(self, bags: Bags, *, reset: bool) -> None:
        names = bags.feature_names
        if reset:
            self.n_features_in_ = bags.n_features
            if names is not None:
                self.feature_names_in_ = np.array(names, dtype=object)
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return
        if bags.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {bags.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        fitted = getattr(self, "feature_names_in_", None)
        if names is not None and fitted is not None and list(fitted) != list(names):
            wrong = [
                i for i, pair in enumerate(zip(fitted, names, strict=True)) if len({*pair}) > 1
            ]
            raise ValueError(
                "The features are not those of fit: "
                + ", ".join(f"{i} was {fitted[i]!r}, is {names[i]!r}" for i in wrong[:5])
                + (f" and {len(wrong) - 5} more." if len(wrong) > 5 else ".")
            )

    def _check_y(self, y: Any, bags: Bags) -> NDArray[Any]:
        name = type(self).__name__
        if y is None:
            raise ValueError(
                f"{name} requires y to be passed, but the target y is None: give the labels of "
                "the bags, or bags that carry them."
            )
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        if len(y) != bags.n_bags:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {bags.n_bags} bags "
                f"and {len(y)} labels."
            )
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        self.classes_ = np.unique(y)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}. For "
                "more than two classes wrap the method in OneVsRestClassifier."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{name} needs bags of both classes to learn from, but all {bags.n_bags} bags are "
                f"of one class, {self.classes_[0]!r}."
            )
        pos_label = getattr(self, "pos_label", None)
        if pos_label is not None and pos_label not in self.classes_:
            raise ValueError(
                f"pos_label={pos_label!r} is not among the labels {self.classes_.tolist()}."
            )
        return y

    def _positive_label(self) -> Any:
        pos_label = getattr(self, "pos_label", None)
        return self.classes_[1] if pos_label is None else pos_label

    def decision_function_instances(self, X: Any) -> FloatArray:
        """Score every instance: the higher, the more likely it makes its bag positive.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_instances,)
            Aligned with ``as_bags(X).instances``.
        """
        check_is_fitted(self, "classes_")
        return self._score_instances(self._check_X(X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.sparse = self._accepts_sparse
        # Detectors too learn from two classes; this is how scikit-learn is told.
        tags.classifier_tags = tags.classifier_tags or ClassifierTags()
        tags.classifier_tags.multi_class = False
        return tags


class MILClassifier(ClassifierMixin, BaseMIL):
    """Base of the methods that label unseen bags.

    A subclass writes ``_score_bags(bags)``: above 0 the bag is called positive.
    """

    @abstractmethod
    def _score_bags(self, bags: Bags) -> FloatArray:
        """Decision value of every bag, above 0 for the positive class."""

    def decision_function(self, X: Any) -> FloatArray:
        """Decision value of every bag, above 0 where ``classes_[1]`` is predicted.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags,)
        """
        check_is_fitted(self, "classes_")
        scores = np.asarray(self._score_bags(self._check_X(X, reset=False)), dtype=np.float64)
        # scikit-learn ties the sign to the order of the classes, whatever ``pos_label`` says.
        return scores if self._positive_label() == self.classes_[1] else -scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of every bag.

        Parameters
        ----------
        X : bags
            Anything :func:`pigmil.as_bags` takes.

        Returns
        -------
        array of shape (n_bags,)
        """
        second = (self.decision_function(X) > 0).astype(np.intp)
        return self.classes_[second]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
